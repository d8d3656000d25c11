import { advance, call, finish, grant, open, pending, recall, resume, wake } from './grant.ts';
import { enqueue, goOn } from './turn-acts.ts';
import type { OperatorCommand, Refusal } from '../command.ts';
import { Deliberation, refuse } from './decision-builder.ts';
import type { Decision } from './decision-builder.ts';
import { openQuestion } from '../floor.ts';
import type { Floor } from '../floor.ts';
import { findTurn, turnsOf, waitOf } from '../turn.ts';
import { gate } from '../gate.ts';
import { isGrantable } from '../order.ts';
import { findSeat } from '../seats.ts';
import { decideQuestion } from './questions.ts';
import type { AgentId } from '../settings.ts';
import type { Instant } from '../../../lib/time.ts';

/** What an operator's command does. Whether the person may give it was checked before it came here. */
export function decideOperator(floor: Floor, command: OperatorCommand, at: Instant): Decision {
  const d = new Deliberation(floor, at);
  const refusal = carryOut(d, command);
  return refusal === null ? d.accept() : refuse(refusal);
}

type On<T extends OperatorCommand['type']> = Extract<OperatorCommand, { type: T }>;

function carryOut(d: Deliberation, command: OperatorCommand): Refusal | null {
  switch (command.type) {
    case 'stop':
      return stop(d);
    case 'start':
      return start(d);
    case 'grant':
      return grantTo(d, command.agent);
    case 'skip':
      return skip(d, command);
    case 'extend':
      return extend(d, command);
    case 'decide':
      return decideRequest(d, command);
    case 'pause':
      return pause(d, command.by);
    case 'resume':
      return resumeFloor(d, command.by);
    case 'order':
      return order(d, command);
    case 'mode':
      return mode(d, command);
    case 'add':
      return add(d, command);
    case 'remove':
      return remove(d, command.agent);
    case 'enable':
      return enable(d, command);
    case 'disable':
      return disable(d, command);
  }
}

function stop(d: Deliberation): Refusal | null {
  const { turn, exchange } = d.floor;
  const turns = turnsOf(d.floor);
  if (turns.length === 0 && exchange === null) return 'nothing-to-stop';
  for (const running of turns) finish(d, running, { outcome: 'revoked', trigger: 'STOPPED', to: 'QUEUED' });
  d.record({ type: 'exchangeClosed', reason: 'stopped' });
  d.announce({ kind: 'stopped', agent: turn?.agent ?? turns[0]?.agent ?? null, kept: d.floor.held.length });
  return null;
}

function start(d: Deliberation): Refusal | null {
  const { exchange, turn } = d.floor;
  const closed = gate(d.floor, d.at, exchange === null && turn === null ? 'start' : 'grant');
  if (closed !== null) return closed.why;
  if (exchange !== null || turn !== null) return 'already';
  recall(d);
  open(d, 'operator');
  wake(d, true);
  advance(d);
  return null;
}

function grantTo(d: Deliberation, agent: AgentId): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  const closed = gate(d.floor, d.at, 'grant');
  if (closed !== null) return closed.why;
  if (seat.disabled) return 'disabled';
  if (seat.status === 'OFFLINE') return 'offline';
  if (seat.status === 'ACTIVE') return 'already';
  if (seat.status === 'WAITING') return seat.present ? overrideWait(d, agent) : 'offline';
  recall(d);
  if (!isGrantable(d.floor, agent)) return 'not-queued';
  return giveTo(d, agent);
}

/** The operator resumes a turn that waits; without the floor it goes on as soon as the floor is free. */
function overrideWait(d: Deliberation, agent: AgentId): Refusal | null {
  const { turn } = d.floor;
  if (turn?.agent === agent) {
    const wait = waitOf(turn);
    if (wait?.reason === 'human' && wait.graceEndAt !== null) return 'still-stopping';
    if (wait?.reason === 'approval') return 'needs-decision';
    resume(d, turn, 'operator', 'HUMAN_OVERRIDE');
    return null;
  }
  const parked = d.floor.parked.find((other) => other.agent === agent);
  if (parked === undefined) throw new Error(`impossible: ${agent} waits in ${d.floor.channel} without a turn`);
  if (turn === null) resume(d, parked, 'operator', 'HUMAN_OVERRIDE');
  else d.record({ type: 'waitAnswered', agent, messages: waitOf(parked)?.answers ?? [], ready: true });
  return null;
}

function giveTo(d: Deliberation, agent: AgentId): Refusal | null {
  const { turn } = d.floor;
  if (turn !== null && turn.status !== 'waiting') {
    call(d, agent, 'operator');
    return null;
  }
  if (turn !== null) finish(d, turn, { outcome: 'revoked', trigger: 'HUMAN_OVERRIDE', to: 'QUEUED' });
  if (d.floor.choosing !== null) d.record({ type: 'choosingEnded', next: agent, why: 'overtaken' });
  if (d.floor.exchange === null || pending(d).length > 0) open(d, 'operator');
  grant(d, agent);
  return null;
}

function skip(d: Deliberation, command: On<'skip'>): Refusal | null {
  const turn = command.agent === undefined ? d.floor.turn : findTurn(d.floor, command.agent);
  if (turn === null) return command.epoch === undefined ? 'nothing-to-stop' : 'stale-epoch';
  if (command.epoch !== undefined && command.epoch !== turn.epoch) return 'stale-epoch';
  finish(d, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  goOn(d);
  return null;
}

function extend(d: Deliberation, command: On<'extend'>): Refusal | null {
  const turn = d.floor.turn ?? d.floor.parked[0];
  if (turn === undefined) return 'nothing-to-stop';
  const { by, ms } = command;
  d.record({ type: 'turnExtended', agent: turn.agent, ms, by });
  return null;
}

function decideRequest(d: Deliberation, command: On<'decide'>): Refusal | null {
  const asked = openQuestion(d.floor);
  if (asked?.question !== command.question) return 'stale-question';
  if (command.choice === 'allow' && !asked.shown) return 'not-shown';
  decideQuestion(d, { choice: command.choice, by: command.by });
  return null;
}

function pause(d: Deliberation, by: string): Refusal | null {
  if (d.floor.condition === 'paused') return 'already';
  if (d.floor.choosing !== null) d.record({ type: 'choosingEnded', next: null, why: 'overtaken' });
  d.record({ type: 'floorPaused', on: true, by });
  return null;
}

function resumeFloor(d: Deliberation, by: string): Refusal | null {
  const { condition, limit, exchange } = d.floor;
  if (condition === 'paused') d.record({ type: 'floorPaused', on: false, by });
  else if (limit !== null && exchange === null) {
    d.record({ type: 'usageReset', why: 'more', by });
    d.record({ type: 'exchangeOpened' });
  } else if (exchange !== null || d.floor.held.length === 0) return 'nothing-to-resume';
  recall(d);
  const isLater = gate(d.floor, d.at, 'holder') !== null && d.floor.exchange === null && d.floor.held.length > 0;
  if (isLater) open(d, 'operator');
  wake(d, true);
  advance(d);
  return null;
}

function mode(d: Deliberation, command: On<'mode'>): Refusal | null {
  if (d.floor.settings.mode === command.mode) return 'already';
  d.record({ type: 'settingsChanged', settings: { ...d.floor.settings, mode: command.mode }, by: command.by });
  return null;
}

function order(d: Deliberation, command: On<'order'>): Refusal | null {
  const { queue } = d.floor;
  const wanted = command.queue ?? [];
  const isOdd = wanted.some((agent) => !queue.includes(agent)) || new Set(wanted).size !== wanted.length;
  if (isOdd) return 'bad-queue';
  if (d.floor.settings.order === command.order && wanted.length === 0) return 'already';
  const ordered = [...wanted, ...queue.filter((agent) => !wanted.includes(agent))];
  d.record({
    type: 'settingsChanged',
    settings: { ...d.floor.settings, order: command.order },
    ...(wanted.length === 0 ? {} : { queue: ordered }),
    by: command.by,
  });
  if (d.floor.choosing !== null) d.record({ type: 'choosingEnded', next: null, why: 'overtaken' });
  goOn(d);
  return null;
}

function add(d: Deliberation, command: On<'add'>): Refusal | null {
  const { agent, seat: settings, by } = command;
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) {
    if (settings === undefined) return 'not-seated';
    d.record({ type: 'seatCreated', seat: settings, by });
    return null;
  }
  if (seat.disabled) return 'disabled';
  if (seat.status !== 'IDLE' && (seat.status !== 'OFFLINE' || seat.assigned)) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'assigned', on: true });
  if (seat.status === 'IDLE') enqueue(d, agent);
  goOn(d);
  return null;
}

/** Takes an agent out of the queue, or ends its turn; it stays known here and idle. */
export function remove(d: Deliberation, agent: AgentId): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  const turn = findTurn(d.floor, agent);
  if (turn !== null) finish(d, turn, { outcome: 'revoked', trigger: 'REMOVED', to: 'IDLE' });
  else if (seat.status === 'QUEUED')
    d.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'IDLE', trigger: 'REMOVED' });
  else if (!seat.assigned) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'assigned', on: false });
  goOn(d);
  return null;
}

function disable(d: Deliberation, command: On<'disable'>): Refusal | null {
  const { agent, by } = command;
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (seat.disabled) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'disabled', on: true, by });
  const turn = findTurn(d.floor, agent);
  if (turn !== null) finish(d, turn, { outcome: 'revoked', trigger: 'DISABLED', to: 'OFFLINE' });
  else if (seat.status !== 'OFFLINE')
    d.record({ type: 'seatMoved', agent, from: seat.status, to: 'OFFLINE', trigger: 'DISABLED' });
  goOn(d);
  return null;
}

function enable(d: Deliberation, command: On<'enable'>): Refusal | null {
  const { agent, by } = command;
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (!seat.disabled) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'disabled', on: false, by });
  if (!seat.present) return null;
  d.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'ENABLED' });
  if (seat.assigned) enqueue(d, agent);
  goOn(d);
  return null;
}
