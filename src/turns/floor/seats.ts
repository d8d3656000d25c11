import type { Floor, Seat } from './floor.ts';
import { isAllowed } from './seat.ts';
import type { Status, Trigger } from './seat.ts';
import type { AgentId, SeatSettings } from './settings.ts';

/** How many earlier lines an agent that is new at a floor is given. */
const LINES_FOR_NEWCOMERS = 50;

/** The seat of an agent, or `undefined` if it has none here. */
export function findSeat(floor: Floor, agent: AgentId): Seat | undefined {
  return floor.seats.find((seat) => seat.agent === agent);
}

/** The seat of an agent; an unknown agent is a bug and throws. */
export function seatOf(floor: Floor, agent: AgentId): Seat {
  const seat = findSeat(floor, agent);
  if (seat === undefined) throw new Error(`impossible: ${agent} has no seat in ${floor.channel}`);
  return seat;
}

/** The floor with one seat changed. */
export function patchSeat(floor: Floor, agent: AgentId, patch: Partial<Seat>): Floor {
  seatOf(floor, agent);
  return { ...floor, seats: floor.seats.map((seat) => (seat.agent === agent ? { ...seat, ...patch } : seat)) };
}

/** The floor with one line more given to an agent, if it was given every line before; else its next prompt brings them all. */
export function showLine(floor: Floor, agent: AgentId, line: number): Floor {
  return seatOf(floor, agent).seenLine === line - 1 ? patchSeat(floor, agent, { seenLine: line }) : floor;
}

/** A seat in which nobody has sat yet. */
export function newSeat(floor: Floor, settings: SeatSettings): Seat {
  return {
    ...settings,
    status: 'OFFLINE',
    assigned: true,
    disabled: false,
    present: false,
    seenLine: Math.max(0, floor.lines - LINES_FOR_NEWCOMERS),
    taken: 0,
  };
}

/** A change of a seat's state, as the table allows it. */
export type Move = {
  readonly agent: AgentId;
  readonly from: Status;
  readonly to: Status;
  readonly trigger: Trigger;
  readonly place?: number;
};

/** The floor after a seat changed its state and so entered or left the queue. A change that the table lacks throws. */
export function moveSeat(floor: Floor, move: Move): Floor {
  const { agent, from, to, trigger } = move;
  const seat = seatOf(floor, agent);
  if (seat.status !== from || !isAllowed(from, to, trigger)) {
    throw new Error(
      `impossible: ${agent} in ${floor.channel} is ${seat.status}, and ${from} to ${to} by ${trigger} was asked`,
    );
  }
  const others = floor.queue.filter((queued) => queued !== agent);
  const place = move.place ?? others.length;
  return {
    ...patchSeat(floor, agent, { status: to }),
    queue: to === 'QUEUED' ? [...others.slice(0, place), agent, ...others.slice(place)] : others,
    outage: floor.outage && to !== 'QUEUED',
    prioritised:
      to === 'IDLE' || to === 'OFFLINE'
        ? floor.prioritised.filter((named) => named.agent !== agent)
        : floor.prioritised,
  };
}
