import type { Floor, Seat } from './floor.ts';
import { POLICIES } from './policies.ts';
import type { Policy } from './policies.ts';
import { findSeat, seatOf } from './seats.ts';
import type { AgentId } from './settings.ts';

/** Who is next: an agent, a question to the facilitator, nobody (`rest`), or somebody who has yet to reconnect (`later`). */
export type Next =
  | { readonly kind: 'agent'; readonly agent: AgentId }
  | { readonly kind: 'askFacilitator'; readonly facilitator: AgentId; readonly candidates: readonly AgentId[] }
  | { readonly kind: 'rest' }
  | { readonly kind: 'later' };

/** The next speaker by the channel's order policy, when the floor is free and an exchange is open. */
export function nextUp(floor: Floor): Next {
  const prioritised = grantable(floor)[0];
  if (prioritised !== undefined) return { kind: 'agent', agent: prioritised };
  const due = dueByRounds(floor);
  const candidates = due.filter((seat) => seat.present).map((seat) => seat.agent);
  const first = candidates[0];
  if (first === undefined) return due.length > 0 ? { kind: 'later' } : { kind: 'rest' };
  if (isSilentRound(floor, due)) return { kind: 'rest' };
  const facilitator = candidates.length > 1 ? askable(floor) : null;
  if (facilitator !== null) return { kind: 'askFacilitator', facilitator, candidates };
  return { kind: 'agent', agent: first };
}

/** The next speaker by round-robin, for when a facilitator gave no usable answer. */
export function nextInTurn(floor: Floor): AgentId | null {
  return grantable(floor)[0] ?? dueByRounds(floor).find((seat) => seat.present)?.agent ?? null;
}

/** Everybody who would speak from here on in this exchange, in order; on a resting floor, whom the next message would reach. */
export function upcoming(floor: Floor): readonly AgentId[] {
  const first = grantable(floor);
  const rest = floor.exchange === null ? inTurn(floor, queued(floor)) : dueByRounds(floor);
  return [...new Set([...first, ...rest.map((seat) => seat.agent)])];
}

/** How the channel's next speaker is found. */
export function policyOf({ settings }: Floor): Policy {
  return POLICIES[settings.order];
}

/** Whether an agent could be granted the floor now. */
export function isGrantable(floor: Floor, agent: AgentId): boolean {
  const seat = findSeat(floor, agent);
  return seat !== undefined && seat.status === 'QUEUED' && seat.present;
}

function grantable(floor: Floor): readonly AgentId[] {
  return floor.prioritised
    .filter((named) => policyOf(floor).heeds.includes(named.by))
    .map((named) => named.agent)
    .filter((agent) => isGrantable(floor, agent));
}

function queued(floor: Floor): readonly Seat[] {
  return floor.queue.map((agent) => seatOf(floor, agent));
}

function dueByRounds(floor: Floor): readonly Seat[] {
  const { rounds } = floor.settings;
  return inTurn(
    floor,
    queued(floor).filter((seat) => rounds === 0 || seat.taken < rounds),
  );
}

function inTurn(floor: Floor, seats: readonly Seat[]): readonly Seat[] {
  const policy = policyOf(floor);
  return policy.goesRound ? policy.sort(seats, floor.seats) : [];
}

/** A whole round passed with nothing said: everybody who is due had a turn, and none of the last ones said anything. */
function isSilentRound(floor: Floor, due: readonly Seat[]): boolean {
  const silent = floor.exchange?.silent ?? 0;
  return silent >= floor.queue.length && due.every((seat) => seat.taken > 0);
}

function askable(floor: Floor): AgentId | null {
  const { facilitator } = floor.settings;
  if (!policyOf(floor).asksFacilitator || facilitator === null) return null;
  const seat = findSeat(floor, facilitator);
  return seat !== undefined && seat.present && seat.status !== 'OFFLINE' ? facilitator : null;
}
