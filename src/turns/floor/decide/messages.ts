import type { CommandOf, Refusal } from '../command.ts';
import type { Deliberation } from './decision-builder.ts';
import { advance, prioritise, grantOnBehalf, wake } from './grant.ts';
import { resume } from './turns.ts';
import { isNewFromPerson } from '../evolve/evolve-message.ts';
import type { Fate } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import { gate } from '../gate.ts';
import { isGrantable } from '../order.ts';
import { seatOf } from '../seats.ts';
import type { MessageId } from '../settings.ts';
import { missedBy, speaking, turnsOf, waitOf } from '../turn.ts';

/** Takes a person's message in: it goes the way that the channel's mode says (the owner's edge case 3). */
export function receive(d: Deliberation, command: CommandOf<'receive'>): Refusal | null {
  if (isKnown(d.floor, command.id)) return 'duplicate';
  const message: Held = {
    id: command.id,
    addressed: command.addressed,
    order: command.order ?? '',
    until: 'turn',
    line: null,
    ...(command.fromProgram === true ? { fromProgram: true as const } : {}),
  };
  if (command.ignore !== undefined) {
    routed(d, message, { state: 'ignored', rule: command.ignore });
    return null;
  }
  if (gate(d.floor, d.at, 'holder') !== null) hold(d, message, 'start');
  else dispatch(d, message);
  return null;
}

/** An edit or a deletion reaches whoever got the message. */
export function amend(d: Deliberation, { type, id }: CommandOf<'edit' | 'delete'>): null {
  const change = type === 'edit' ? 'edited' : 'deleted';
  const held = d.floor.held.find((message) => message.id === id);
  const { lines, epoch } = d.floor;
  const holder = speaking(d.floor)?.agent ?? null;
  const line = held !== undefined && held.line === null ? null : lines + 1;
  d.record({ type: 'messageAmended', id, change, line, holder: line === null ? null : holder, epoch });
  if (held !== undefined && change === 'deleted') routed(d, held, { state: 'ignored', rule: 'deleted by its author' });
  return null;
}

/** Sends a message the way that the mode says, on the floor as it is now; what cannot be delivered now is held. */
export function dispatch(d: Deliberation, message: Held): void {
  const { turn } = d.floor;
  if (answersParked(d, message)) return;
  if (turn !== null) toHolder(d, turn, message);
  else {
    d.unplaced = [...d.unplaced, message];
    wake(d);
    advance(d);
  }
  settleUnplaced(d);
}

/** Holds whatever a command brought and did not place. */
export function settleUnplaced(d: Deliberation): void {
  for (const message of d.unplaced) hold(d, message, d.floor.settings.mode === 'queue' ? 'turn' : 'prompt');
  d.unplaced = [];
}

/** The generation that a person interrupted is over: the message is answered first, then the paused turn goes on; neither before the history is read. */
export function afterInterrupt(d: Deliberation, turn: Turn): void {
  const answers = waitOf(turn)?.answers ?? [];
  const responder = d.floor.settings.interruptResponder;
  if (gate(d.floor, d.at, 'holder') !== null) return;
  if (
    responder === null ||
    answers.length === 0 ||
    gate(d.floor, d.at, 'grant') !== null ||
    !isGrantable(d.floor, responder)
  ) {
    resume(d, turn, 'interrupt');
    return;
  }
  d.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true, parked: true });
  grantOnBehalf(
    d,
    responder,
    answers.map(({ id }) => id),
  );
}

function overflow(d: Deliberation, message: Held): void {
  routed(d, message, { state: 'unrouted', why: 'too many held messages' });
  if (d.floor.notice?.key !== 'limit') {
    d.announce({ kind: 'limit', budget: 'held messages', used: d.floor.held.length, max: d.floor.settings.maxHeld });
  }
}

function toHolder(d: Deliberation, turn: Turn, message: Held): void {
  const { mode } = d.floor.settings;
  if (message.fromProgram === true && gate(d.floor, d.at, 'aside') !== null) {
    hold(d, message, mode === 'queue' ? 'turn' : 'prompt');
    return;
  }
  if (waitOf(turn)?.reason === 'answer' && isAnswer(d.floor, turn, message)) {
    deliverAnswer(d, turn, message);
    return;
  }
  switch (mode) {
    case 'queue':
      hold(d, message, 'turn');
      return;
    case 'parallel':
      observe(d, message);
      return;
    case 'inject':
      if (turn.status === 'waiting') joinWait(d, turn, message);
      else if (turn.status === 'suspended') hold(d, message, 'prompt');
      else inject(d, turn, message);
      return;
    case 'interrupt':
      if (turn.status === 'waiting') joinWait(d, turn, message);
      else if (turn.status === 'suspended') hold(d, message, 'prompt');
      else preempt(d, turn, message);
  }
}

function inject(d: Deliberation, turn: Turn, message: Held): void {
  recount(d, message);
  routed(d, message, { state: 'delivered', to: [turn.agent], via: 'inject' });
  for (const agent of message.addressed) prioritise(d, agent, 'person', message.id);
}

function preempt(d: Deliberation, turn: Turn, message: Held): void {
  recount(d, message);
  const { agent, epoch } = turn;
  const { waitTimeoutMs, interruptGraceMs } = d.floor.settings;
  d.record({
    type: 'turnWaited',
    agent,
    epoch,
    wait: { reason: 'human', deadlineAt: d.at + waitTimeoutMs, graceEndAt: d.at + interruptGraceMs },
  });
  d.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'PREEMPTED' });
  routed(d, message, { state: 'delivered', to: [agent], via: 'interrupt' });
  for (const other of message.addressed) prioritise(d, other, 'person', message.id);
}

/** A message while the holder waits: one that interrupted it is joined, any other waits for the holder's next prompt. */
function joinWait(d: Deliberation, turn: Turn, message: Held): void {
  if (waitOf(turn)?.reason === 'human') {
    recount(d, message);
    routed(d, message, { state: 'delivered', to: [turn.agent], via: 'interrupt' });
  } else {
    hold(d, message, 'prompt');
    if (!d.floor.held.some(({ id }) => id === message.id)) return;
  }
  for (const agent of message.addressed) prioritise(d, agent, 'person', message.id);
}

function observe(d: Deliberation, message: Held): void {
  recount(d, message);
  const online = d.floor.seats.filter((seat) => seat.status !== 'OFFLINE').map((seat) => seat.agent);
  routed(d, message, { state: 'delivered', to: online, via: 'observe' });
  for (const agent of message.addressed) prioritise(d, agent, 'person', message.id);
}

/** Whether a message answers the question of an agent that waits: it addresses it, or nobody while no other agent waits. */
function isAnswer(floor: Floor, turn: Turn, message: Held): boolean {
  if (message.addressed.length > 0) return message.addressed.includes(turn.agent);
  const waits = turnsOf(floor).map(waitOf);
  return waits.filter((wait) => wait?.reason === 'answer' && !wait.ready).length === 1;
}

function deliverAnswer(d: Deliberation, turn: Turn, message: Held): void {
  recount(d, message);
  routed(d, message, { state: 'delivered', to: [turn.agent], via: 'prompt' });
  const { id, addressed, fromProgram } = message;
  const answer = { id, line: d.floor.lines, addressed, ...(fromProgram === true ? { fromProgram } : {}) };
  const answers = [...(waitOf(turn)?.answers ?? []), answer];
  d.record({ type: 'waitAnswered', agent: turn.agent, messages: answers, ready: true });
  const answered = d.floor.turn;
  if (answered?.agent !== turn.agent) advance(d);
  else if (seatOf(d.floor, turn.agent).present) resume(d, answered, 'answered');
}

/** A message for an agent that waits without the floor; when somebody else speaks, only one that names it. */
function answersParked(d: Deliberation, message: Held): boolean {
  if (message.fromProgram === true && gate(d.floor, d.at, 'aside') !== null) return false;
  const isTaken = d.floor.turn !== null;
  const turn = d.floor.parked.find(
    (parked) =>
      waitOf(parked)?.reason === 'answer' &&
      (isTaken ? message.addressed.includes(parked.agent) : isAnswer(d.floor, parked, message)),
  );
  if (turn === undefined) return false;
  deliverAnswer(d, turn, message);
  return true;
}

function recount(d: Deliberation, message: Held): void {
  if (d.floor.exchange !== null && isNewFromPerson(message)) d.record({ type: 'usageReset', why: 'person' });
}

function hold(d: Deliberation, message: Held, until: 'turn' | 'prompt' | 'start'): void {
  const { held, settings } = d.floor;
  if (held.length >= settings.maxHeld && !held.some((other) => other.id === message.id)) overflow(d, message);
  else routed(d, message, { state: 'held', until });
}

function routed(d: Deliberation, message: Held, fate: Fate): void {
  const joins = fate.state === 'delivered' && message.line === null;
  d.route(message, fate, joins ? d.floor.lines + 1 : null);
}

function isKnown(floor: Floor, id: MessageId): boolean {
  const kept = turnsOf(floor).flatMap((turn) => [...missedBy(turn), ...turn.given]);
  return (
    [...floor.held, ...kept].some((message) => message.id === id) ||
    turnsOf(floor).some((turn) => turn.answered.includes(id))
  );
}
