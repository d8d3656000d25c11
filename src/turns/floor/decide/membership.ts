import type { CommandOf, Refusal } from '../command.ts';
import type { Deliberation } from './decision-builder.ts';
import { facilitatorAnswered, goOn } from './grant.ts';
import { afterInterrupt } from './messages.ts';
import { finish, resume } from './turns.ts';
import { gate } from '../gate.ts';
import { findSeat, seatOf } from '../seats.ts';
import type { AgentId, FloorSettings, SeatSettings } from '../settings.ts';
import { findTurn, waitOf } from '../turn.ts';

/** An agent is connected: it is queued if it belongs here, and a turn that it left open goes on. */
export function join(d: Deliberation, { agent }: CommandOf<'join'>): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (seat.present) return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'present', on: true });
  if (seat.disabled) return null;
  if (seat.status === 'OFFLINE') {
    d.record({ type: 'seatMoved', agent, from: 'OFFLINE', to: 'IDLE', trigger: 'AGENT_STARTED' });
    if (seat.assigned) enqueue(d, agent);
  }
  comeBack(d, agent);
  goOn(d);
  return null;
}

/** The turn that this agent left open goes on, if it was being generated or what it waited for has come. */
export function comeBack(d: Deliberation, agent: AgentId): void {
  const { turn } = d.floor;
  if (turn?.agent !== agent || gate(d.floor, d.at, 'holder') !== null) return;
  const wait = waitOf(turn);
  if (turn.status === 'suspended') {
    d.announce({ kind: 'recovered', agent });
    resume(d, turn, 'restart');
  } else if (wait?.reason === 'human' && wait.graceEndAt === null) afterInterrupt(d, turn);
  else if (wait?.ready === true) resume(d, turn, 'answered');
}

/** Puts an idle agent into the queue. */
export function enqueue(d: Deliberation, agent: AgentId): void {
  d.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'QUEUED', trigger: 'ASSIGNED' });
}

/** An agent is gone: its turn is forfeited. */
export function leave(d: Deliberation, { agent, cause }: CommandOf<'leave'>): Refusal | null {
  const seat = findSeat(d.floor, agent);
  if (seat === undefined) return 'not-seated';
  if (!seat.present && seat.status === 'OFFLINE') return 'already';
  d.record({ type: 'seatMarked', agent, mark: 'present', on: false });
  const turn = findTurn(d.floor, agent);
  switch (seat.status) {
    case 'ACTIVE':
    case 'WAITING':
      if (turn === null) throw new Error(`impossible: ${agent} is ${seat.status} in ${d.floor.channel} without a turn`);
      finish(d, turn, {
        outcome: 'forfeited',
        trigger: seat.status === 'ACTIVE' ? 'CRASHED' : 'DISCONNECTED',
        to: 'OFFLINE',
        cause,
      });
      d.announce({ kind: 'disconnect', agent, cause });
      break;
    case 'QUEUED':
      d.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'OFFLINE', trigger: 'DISCONNECTED', cause });
      break;
    case 'IDLE':
      d.record({ type: 'seatMoved', agent, from: 'IDLE', to: 'OFFLINE', trigger: 'AGENT_STOPPED', cause });
      break;
    case 'OFFLINE':
  }
  if (seat.rejoin === 'manual' && seat.assigned) d.record({ type: 'seatMarked', agent, mark: 'assigned', on: false });
  if (d.floor.facilitation?.facilitator === agent) facilitatorAnswered(d, null, 'left');
  goOn(d);
  return null;
}

/** An operator puts an agent at the end of the queue, or lets it in. */
export function add(d: Deliberation, command: CommandOf<'add'>): Refusal | null {
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
export function remove(d: Deliberation, { agent }: Pick<CommandOf<'remove'>, 'agent'>): Refusal | null {
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

/** An operator switches an agent off; its turn ends. */
export function disable(d: Deliberation, command: CommandOf<'disable'>): Refusal | null {
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

/** An operator switches an agent on again. */
export function enable(d: Deliberation, command: CommandOf<'enable'>): Refusal | null {
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

/** Applies what changed in the configuration since the last time, and leaves what operators changed meanwhile alone. */
export function configure(d: Deliberation, command: CommandOf<'configure'>): Refusal | null {
  const { configured, settings: current, seats: seated } = d.floor;
  const configuration = { settings: command.settings, seats: command.seats };
  if (isSame(configured, configuration)) return 'already';
  const before = configured ?? { settings: null, seats: [] };
  const gone = before.seats.filter((seat) => !command.seats.some((wanted) => wanted.agent === seat.agent));
  for (const { agent } of gone) if (seated.some((seat) => seat.agent === agent)) drop(d, agent);
  const settings = before.settings === null ? command.settings : merged(current, before.settings, command.settings);
  d.record({ type: 'configured', settings, seats: command.seats, configuration });
  goOn(d);
  return null;
}

function merged(current: FloorSettings, before: FloorSettings, wanted: FloorSettings): FloorSettings {
  const changed = Object.entries(wanted).filter(([key, value]) => !isSame(value, Reflect.get(before, key)));
  return { ...current, ...Object.fromEntries(changed) };
}

/** Equality of plain JSON, whatever the order of keys: a floor that was stored comes back with them sorted. */
function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSame(Reflect.get(a, key), Reflect.get(b, key)));
}

function drop(d: Deliberation, agent: SeatSettings['agent']): void {
  const before = seatOf(d.floor, agent);
  if (before.status !== 'OFFLINE') {
    if (before.status !== 'IDLE' || before.assigned) remove(d, { agent });
    d.record({
      type: 'seatMoved',
      agent,
      from: 'IDLE',
      to: 'OFFLINE',
      trigger: 'AGENT_STOPPED',
      cause: 'no longer configured',
    });
  }
  if (d.floor.facilitation?.facilitator === agent) facilitatorAnswered(d, null, 'left');
  d.record({ type: 'seatDropped', agent });
}
