import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { announceLoss, finish, resume } from './decision-builder.ts';
import { stopWithSeat } from './background-runs.ts';
import { facilitatorAnswered } from './control.ts';
import { afterInterrupt, goOn } from './turns.ts';
import { gate } from '../gate.ts';
import type { Floor } from '../floor.ts';
import { findBackgroundRun, findSeat, findTurn, seatOf, waitOf } from '../seats.ts';
import type { AgentId, FloorSettings, SeatSettings } from '../settings.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * Marks an agent as connected. If the agent is not disabled, queues it if it is assigned, and continues its turn by the
 * conditions of `comeBack`.
 */
export function join(decision: DecisionBuilder, { agent }: CommandOf<'join'>): Refusal | null {
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (seat.present) return 'already';
  decision.record({ type: 'seatMarked', agent, mark: 'present', on: true });
  if (seat.disabled) return null;
  if (seat.status === 'OFFLINE') {
    decision.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'AGENT_STARTED' });
    if (seat.assigned) enqueue(decision, agent, placeOf(decision.floor, agent));
  }
  comeBack(decision, agent);
  goOn(decision);
  return null;
}

/**
 * Continues the turn of `agent`, if it is the holder and a restart suspended the turn, or its wait is over. After an
 * interrupted generation has stopped, the agent that the setting `interruptResponder` names may get a turn first. Does
 * nothing before the history is read.
 */
export function comeBack(decision: DecisionBuilder, agent: AgentId): void {
  const { turn } = decision.floor;
  if (turn?.agent !== agent || gate(decision.floor, decision.at, 'holder') !== null) return;
  const wait = waitOf(turn);
  if (turn.status === 'suspended') {
    decision.announce({ kind: 'recovered', agent });
    resume(decision, turn, 'restart');
  } else if (wait?.reason === 'human' && wait.graceEndAt === null) afterInterrupt(decision, turn);
  else if (wait?.ready === true) resume(decision, turn, 'answered');
}

/** Queues an IDLE agent, at the index `at` or at the end. */
export function enqueue(decision: DecisionBuilder, agent: AgentId, at?: number): void {
  const place = defined({ place: at });
  decision.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'QUEUED', trigger: 'ASSIGNED', ...place });
}

/**
 * The index in the queue of an agent that comes online: behind agents that used fewer rounds, then by the channel's
 * list. Last are agents that an operator added, and agents that were configured during the exchange.
 */
function placeOf({ seats, queue, configured }: Floor, agent: AgentId): number {
  if (configured?.seats.every((seat) => seat.agent !== agent) !== false) return queue.length;
  const rank = (id: AgentId): number => seats.findIndex((seat) => seat.agent === id);
  const rounds = (id: AgentId): number => seats[rank(id)]?.taken ?? 0;
  const isAdded = (id: AgentId): boolean => seats[rank(id)]?.added === true;
  const tail = isAdded(agent) ? queue.findLastIndex((id) => !isAdded(id)) + 1 : 0;
  const behind = queue
    .slice(tail)
    .findIndex((id) => rounds(id) > rounds(agent) || (rounds(id) === rounds(agent) && rank(id) > rank(agent)));
  return behind === -1 ? queue.length : tail + behind;
}

/** Marks an agent as disconnected and forfeits its turn. */
export function leave(decision: DecisionBuilder, { agent, cause, error }: CommandOf<'leave'>): Refusal | null {
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (!seat.present && seat.status === 'OFFLINE') return 'already';
  decision.record({ type: 'seatMarked', agent, mark: 'present', on: false });
  const turn = findTurn(decision.floor, agent);
  switch (seat.status) {
    case 'ACTIVE':
    case 'WAITING':
      if (turn === null)
        throw new Error(`impossible: ${agent} is ${seat.status} in ${decision.floor.channel} without a turn`);
      finish(decision, turn, {
        outcome: 'forfeited',
        trigger: seat.status === 'ACTIVE' ? 'CRASHED' : 'DISCONNECTED',
        to: 'OFFLINE',
        cause,
        ...defined({ error }),
      });
      announceLoss(decision, agent, cause);
      break;
    case 'QUEUED':
      decision.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'OFFLINE', trigger: 'DISCONNECTED', cause });
      break;
    case 'IDLE':
      decision.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'OFFLINE', trigger: 'AGENT_STOPPED', cause });
      break;
    case 'OFFLINE':
  }
  if (seat.rejoin === 'manual' && seat.assigned)
    decision.record({ type: 'seatMarked', agent, mark: 'assigned', on: false });
  if (decision.floor.facilitation?.facilitator === agent) facilitatorAnswered(decision, null, 'left');
  goOn(decision);
  return null;
}

/**
 * Adds an agent for an operator. Creates a seat if the agent has none. Queues an IDLE agent at the end. An OFFLINE
 * agent, also one with a new seat, is queued when it comes online.
 */
export function add(decision: DecisionBuilder, command: CommandOf<'add'>): Refusal | null {
  const { agent, seat: settings, by } = command;
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) {
    if (settings === undefined) return 'not-seated';
    decision.record({ type: 'seatCreated', seat: settings, by });
    return null;
  }
  if (seat.disabled) return 'disabled';
  if (seat.status !== 'IDLE' && (seat.status !== 'OFFLINE' || seat.assigned)) return 'already';
  decision.record({ type: 'seatMarked', agent, mark: 'assigned', on: true });
  if (seat.status === 'IDLE') enqueue(decision, agent);
  goOn(decision);
  return null;
}

/** Removes an agent from the queue for an operator. Ends its turn and its background run. The seat stays. */
export function remove(decision: DecisionBuilder, { agent, by }: CommandOf<'remove'>): Refusal | null {
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  const isIdle = findTurn(decision.floor, agent) === null && seat.status !== 'QUEUED' && !seat.assigned;
  if (isIdle && backgroundRun === undefined) return 'already';
  if (backgroundRun !== undefined) stopWithSeat(decision, backgroundRun, { by, why: 'removed' });
  takeOut(decision, agent);
  goOn(decision);
  return null;
}

function takeOut(decision: DecisionBuilder, agent: AgentId): void {
  const turn = findTurn(decision.floor, agent);
  if (turn !== null) finish(decision, turn, { outcome: 'revoked', trigger: 'REMOVED', to: 'IDLE' });
  else if (seatOf(decision.floor, agent).status === 'QUEUED')
    decision.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'IDLE', trigger: 'REMOVED' });
  decision.record({ type: 'seatMarked', agent, mark: 'assigned', on: false });
}

/** Disables an agent for an operator. Ends its turn and its background run. */
export function disable(decision: DecisionBuilder, command: CommandOf<'disable'>): Refusal | null {
  const { agent, by } = command;
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (seat.disabled) return 'already';
  decision.record({ type: 'seatMarked', agent, mark: 'disabled', on: true, by });
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  if (backgroundRun !== undefined) stopWithSeat(decision, backgroundRun, { by, why: 'disabled' });
  const turn = findTurn(decision.floor, agent);
  if (turn !== null) finish(decision, turn, { outcome: 'revoked', trigger: 'DISABLED', to: 'OFFLINE' });
  else if (seat.status !== 'OFFLINE')
    decision.record({ type: 'seatMoved', agent, from: seat.status, to: 'OFFLINE', trigger: 'DISABLED' });
  goOn(decision);
  return null;
}

/** Enables an agent for an operator. */
export function enable(decision: DecisionBuilder, command: CommandOf<'enable'>): Refusal | null {
  const { agent, by } = command;
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (!seat.disabled) return 'already';
  decision.record({ type: 'seatMarked', agent, mark: 'disabled', on: false, by });
  if (!seat.present) return null;
  decision.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'ENABLED' });
  if (seat.assigned) enqueue(decision, agent);
  goOn(decision);
  return null;
}

/**
 * Applies the settings in which this configuration differs from the last one. Operators' changes of other settings
 * stay.
 */
export function configure(decision: DecisionBuilder, command: CommandOf<'configure'>): Refusal | null {
  const { configured, settings: current, seats: seated } = decision.floor;
  const configuration = { settings: command.settings, seats: command.seats };
  if (isConfigured(decision.floor, configuration)) return 'already';
  const before = configured ?? { settings: null, seats: [] };
  const removed = before.seats.filter((seat) => !command.seats.some((wanted) => wanted.agent === seat.agent));
  for (const { agent } of removed) if (seated.some((seat) => seat.agent === agent)) drop(decision, agent);
  const settings = before.settings === null ? command.settings : merged(current, before.settings, command.settings);
  decision.record({ type: 'configured', settings, seats: command.seats, configuration });
  goOn(decision);
  return null;
}

/** Whether a configuration equals the last one that the floor applied. */
export function isConfigured({ configured }: Floor, configuration: NonNullable<Floor['configured']>): boolean {
  return isSame(configured, { settings: configuration.settings, seats: configuration.seats });
}

function merged(current: FloorSettings, before: FloorSettings, wanted: FloorSettings): FloorSettings {
  const changed = Object.entries(wanted).filter(([key, value]) => !isSame(value, Reflect.get(before, key)));
  return { ...current, ...Object.fromEntries(changed) };
}

/** Equality of plain JSON in any order of keys, because stored floors have sorted keys. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSame(Reflect.get(a, key), Reflect.get(b, key)));
}

/** Removes a seat. Does not grant the floor, because the next speaker may be removed too. */
function drop(decision: DecisionBuilder, agent: SeatSettings['agent']): void {
  const before = seatOf(decision.floor, agent);
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  if (backgroundRun !== undefined) stopWithSeat(decision, backgroundRun, { by: null, why: 'unconfigured' });
  if (before.status !== 'OFFLINE') {
    if (before.status !== 'IDLE' || before.assigned) takeOut(decision, agent);
    decision.record({
      type: 'seatMoved',
      agent,
      from: 'IDLE',
      to: 'OFFLINE',
      trigger: 'AGENT_STOPPED',
      cause: 'no longer configured',
    });
  }
  if (decision.floor.facilitation?.facilitator === agent)
    decision.record({ type: 'facilitatorAnswered', next: null, why: 'left' });
  decision.record({ type: 'seatDropped', agent });
}
