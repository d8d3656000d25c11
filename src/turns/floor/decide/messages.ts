import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { grantOnBehalf, nextLine, resume } from './decision-builder.ts';
import { advance, prioritise, wake } from './turns.ts';
import { isNewFromPerson } from '../evolve.ts';
import type { Fate } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import { gate, isGrantable } from '../gate.ts';
import { askOf, missedBy, seatOf, speaking, turnsOf, waitOf } from '../seats.ts';
import type { MessageId } from '../settings.ts';

/** Receives a person's message and routes it by the channel's mode (the specification's edge case 3). */
export function receive(decision: DecisionBuilder, command: CommandOf<'receive'>): Refusal | null {
  if (isKnown(decision.floor, command.id)) return 'duplicate';
  const message: Held = {
    id: command.id,
    addressed: command.addressed,
    order: command.order ?? '',
    until: 'turn',
    line: null,
    ...(command.fromProgram === true ? { fromProgram: true as const } : {}),
  };
  if (command.ignore !== undefined) {
    routed(decision, message, { state: 'ignored', rule: command.ignore });
    return null;
  }
  if (gate(decision.floor, decision.at, 'holder') !== null) hold(decision, message, 'start');
  else dispatch(decision, message);
  return null;
}

/** Sends an edit or a deletion to every agent that got the message. */
export function amend(decision: DecisionBuilder, { type, id }: CommandOf<'edit' | 'delete'>): null {
  const change = type === 'edit' ? 'edited' : 'deleted';
  const held = decision.floor.held.find((message) => message.id === id);
  const { lines, epoch } = decision.floor;
  const holder = speaking(decision.floor)?.agent ?? null;
  const line = held !== undefined && held.line === null ? null : lines + 1;
  decision.record({ type: 'messageAmended', id, change, line, holder: line === null ? null : holder, epoch });
  if (held !== undefined && change === 'deleted')
    routed(decision, held, { state: 'ignored', rule: 'deleted by its author' });
  return null;
}

/** Routes a message by the mode. Holds a message that cannot be delivered now. */
export function dispatch(decision: DecisionBuilder, message: Held): void {
  const { turn, parked } = decision.floor;
  if (answersParked(decision, message)) return;
  const isForAsker = parked.some((asker) => askOf(asker) && message.addressed.includes(asker.agent));
  if (turn !== null && isForAsker) hold(decision, message, 'prompt');
  else if (turn !== null) toHolder(decision, turn, message);
  else {
    decision.unplaced = [...decision.unplaced, message];
    wake(decision);
    advance(decision);
  }
  settleUnplaced(decision);
}

/** Holds the messages of the command that were not delivered. */
function settleUnplaced(decision: DecisionBuilder): void {
  for (const message of decision.unplaced)
    hold(decision, message, decision.floor.settings.mode === 'queue' ? 'turn' : 'prompt');
  decision.unplaced = [];
}

/**
 * Called when an interrupted generation has stopped: the message is answered first, then the turn resumes. Both wait
 * until the history is read.
 */
export function afterInterrupt(decision: DecisionBuilder, turn: Turn): void {
  const answers = waitOf(turn)?.answers ?? [];
  const responder = decision.floor.settings.interruptResponder;
  if (gate(decision.floor, decision.at, 'holder') !== null) return;
  if (
    responder === null ||
    answers.length === 0 ||
    gate(decision.floor, decision.at, 'grant') !== null ||
    !isGrantable(decision.floor, responder)
  ) {
    resume(decision, turn, 'interrupt');
    return;
  }
  decision.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true, parked: true });
  grantOnBehalf(
    decision,
    responder,
    answers.map(({ id }) => id),
  );
}

function overflow(decision: DecisionBuilder, message: Held): void {
  routed(decision, message, { state: 'unrouted', why: 'too many held messages' });
  if (decision.floor.notice?.key !== 'limit:held messages') {
    decision.announce({
      kind: 'limit',
      budget: 'held messages',
      used: decision.floor.held.length,
      max: decision.floor.settings.maxHeld,
    });
  }
}

function toHolder(decision: DecisionBuilder, turn: Turn, message: Held): void {
  const { mode } = decision.floor.settings;
  if (message.fromProgram === true && gate(decision.floor, decision.at, 'aside') !== null) {
    hold(decision, message, mode === 'queue' ? 'turn' : 'prompt');
    return;
  }
  if (waitOf(turn)?.reason === 'answer' && isAnswer(decision.floor, turn, message)) {
    deliverAnswer(decision, turn, message);
    return;
  }
  switch (mode) {
    case 'queue':
      hold(decision, message, 'turn');
      return;
    case 'parallel':
      observe(decision, message);
      return;
    case 'inject':
      if (turn.status === 'waiting') joinWait(decision, turn, message);
      else if (turn.status === 'suspended') hold(decision, message, 'prompt');
      else inject(decision, turn, message);
      return;
    case 'interrupt':
      if (turn.status === 'waiting') joinWait(decision, turn, message);
      else if (turn.status === 'suspended') hold(decision, message, 'prompt');
      else preempt(decision, turn, message);
  }
}

function inject(decision: DecisionBuilder, turn: Turn, message: Held): void {
  recount(decision, message);
  routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'inject' });
  for (const agent of message.addressed) prioritise(decision, agent, 'person', { message: message.id });
}

function preempt(decision: DecisionBuilder, turn: Turn, message: Held): void {
  recount(decision, message);
  const { agent, epoch } = turn;
  const { waitTimeoutMs, interruptGraceMs } = decision.floor.settings;
  decision.record({
    type: 'turnWaited',
    agent,
    epoch,
    wait: { reason: 'human', deadlineAt: decision.at + waitTimeoutMs, graceEndAt: decision.at + interruptGraceMs },
  });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'PREEMPTED' });
  routed(decision, message, { state: 'delivered', to: [agent], via: 'interrupt' });
  for (const other of message.addressed) prioritise(decision, other, 'person', { message: message.id });
}

/**
 * Routes a message while the holder waits. A message after an interrupt joins it; any other waits for the holder's
 * next prompt.
 */
function joinWait(decision: DecisionBuilder, turn: Turn, message: Held): void {
  if (waitOf(turn)?.reason === 'human') {
    recount(decision, message);
    routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'interrupt' });
  } else {
    hold(decision, message, 'prompt');
    if (!decision.floor.held.some(({ id }) => id === message.id)) return;
  }
  for (const agent of message.addressed) prioritise(decision, agent, 'person', { message: message.id });
}

/** Shows a message to all agents as observers. It stays held until one session has received it. */
function observe(decision: DecisionBuilder, message: Held): void {
  recount(decision, message);
  hold(decision, message, 'exchange');
  if (!decision.floor.held.some(({ id }) => id === message.id)) return;
  for (const agent of message.addressed) prioritise(decision, agent, 'person', { message: message.id });
}

/** Whether a message answers a waiting agent: it addresses that agent, or nobody while only one agent waits. */
function isAnswer(floor: Floor, turn: Turn, message: Held): boolean {
  if (message.addressed.length > 0) return message.addressed.includes(turn.agent);
  return turnsOf(floor).filter(waitsForPeople).length === 1;
}

/** Whether a turn waits for an answer of people. */
function waitsForPeople(turn: Turn): boolean {
  const wait = waitOf(turn);
  return wait?.reason === 'answer' && wait.of === undefined && !wait.ready;
}

function deliverAnswer(decision: DecisionBuilder, turn: Turn, message: Held): void {
  recount(decision, message);
  routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'prompt' });
  const { id, addressed, fromProgram } = message;
  const answer = { id, line: decision.floor.lines, addressed, ...(fromProgram === true ? { fromProgram } : {}) };
  const answers = [...(waitOf(turn)?.answers ?? []), answer];
  decision.record({ type: 'waitAnswered', agent: turn.agent, messages: answers, ready: true });
  const answered = decision.floor.turn;
  if (answered?.agent !== turn.agent) advance(decision);
  else if (seatOf(decision.floor, turn.agent).present) resume(decision, answered, 'answered');
}

/** Routes a message to a parked agent. While another agent speaks, only a message that names the parked agent. */
function answersParked(decision: DecisionBuilder, message: Held): boolean {
  if (message.fromProgram === true && gate(decision.floor, decision.at, 'aside') !== null) return false;
  const isTaken = decision.floor.turn !== null;
  const turn = decision.floor.parked.find(
    (parked) =>
      waitsForPeople(parked) &&
      (isTaken ? message.addressed.includes(parked.agent) : isAnswer(decision.floor, parked, message)),
  );
  if (turn === undefined) return false;
  deliverAnswer(decision, turn, message);
  return true;
}

function recount(decision: DecisionBuilder, message: Held): void {
  if (decision.floor.exchange !== null && isNewFromPerson(message))
    decision.record({ type: 'usageReset', why: 'person' });
}

function hold(decision: DecisionBuilder, message: Held, until: 'turn' | 'prompt' | 'exchange' | 'start'): void {
  const { held, settings } = decision.floor;
  if (held.length >= settings.maxHeld && !held.some((other) => other.id === message.id)) overflow(decision, message);
  else routed(decision, message, { state: 'held', until });
}

function routed(decision: DecisionBuilder, message: Held, fate: Fate): void {
  const isShown = fate.state === 'delivered' || (fate.state === 'held' && fate.until === 'exchange');
  decision.route(message, fate, isShown ? nextLine(decision, message) : null);
}

function isKnown(floor: Floor, id: MessageId): boolean {
  const kept = turnsOf(floor).flatMap((turn) => [...missedBy(turn), ...turn.given]);
  return (
    [...floor.held, ...kept].some((message) => message.id === id) ||
    turnsOf(floor).some((turn) => turn.answered.includes(id))
  );
}
