import type { Floor, Seat } from './floor.ts';
import { POLICIES, TASK_POLICIES } from './policies.ts';
import type { Policy } from './policies.ts';
import { askOf, findSeat, seatOf } from './seats.ts';
import type { AgentId } from './settings.ts';

/**
 * The next speaker: an agent, the facilitator's choice, or nobody (`rest`). `later`: the next agent cannot be granted
 * the floor yet, or the open task names none.
 */
export type Next =
  | { readonly kind: 'agent'; readonly agent: AgentId }
  | { readonly kind: 'askFacilitator'; readonly facilitator: AgentId; readonly candidates: readonly AgentId[] }
  | { readonly kind: 'rest' }
  | { readonly kind: 'later' };

/**
 * Returns who speaks next when nobody holds the floor and an exchange is open. First comes an agent that another agent
 * asked, then called agents, then the open task's choice, then the channel's order.
 */
export function nextUp(floor: Floor): Next {
  const askedAgent = nextAsked(floor);
  if (askedAgent !== null)
    return isGrantable(floor, askedAgent) ? { kind: 'agent', agent: askedAgent } : { kind: 'later' };
  const prioritised = grantable(floor)[0];
  if (prioritised !== undefined) return { kind: 'agent', agent: prioritised };
  const { task } = floor;
  if (task !== undefined && task.held === undefined) {
    const agent = task.next?.agent;
    return agent !== undefined && isGrantable(floor, agent) ? { kind: 'agent', agent } : { kind: 'later' };
  }
  const due = inTurn(floor, floor.settings.rounds);
  const candidates = due.flatMap(({ agent, present }) => (present ? [agent] : []));
  const first = candidates[0];
  if (first === undefined) return due.length > 0 ? { kind: 'later' } : { kind: 'rest' };
  if (isSilentRound(floor, due)) return { kind: 'rest' };
  const facilitator = candidates.length > 1 ? askable(floor) : null;
  if (facilitator !== null) return { kind: 'askFacilitator', facilitator, candidates };
  return { kind: 'agent', agent: first };
}

/** The next speaker when the facilitator has not named one: a called agent, else the next in turn. `null` for none. */
export function nextInTurn(floor: Floor): AgentId | null {
  return grantable(floor)[0] ?? inTurn(floor, floor.settings.rounds).find((seat) => seat.present)?.agent ?? null;
}

/**
 * The agents that would speak next in this exchange, in order, unless a facilitator chooses. On a resting floor: the
 * agents of the next exchange, if its message calls none.
 */
export function upcoming(floor: Floor): readonly AgentId[] {
  const askedAgent = nextAsked(floor);
  const next = new Set(askedAgent === null ? grantable(floor) : [askedAgent, ...grantable(floor)]);
  const due = floor.task?.next?.agent;
  if (due !== undefined) next.add(due);
  for (const { agent } of inTurn(floor, floor.exchange === null ? 0 : floor.settings.rounds)) next.add(agent);
  return [...next];
}

function nextAsked({ parked }: Floor): AgentId | null {
  const asker = parked.findLast((turn) => askOf(turn)?.is === 'asked');
  return asker === undefined ? null : (askOf(asker)?.agent ?? null);
}

/** The agent with a parked turn that waits until `agent` gets the floor and answers; `undefined` for none. */
export function askerOf({ parked }: Floor, agent: AgentId): AgentId | undefined {
  return parked.findLast((turn) => {
    const ask = askOf(turn);
    return ask?.is === 'asked' && ask.agent === agent;
  })?.agent;
}

/** The policy of the open task; without a task, the policy of the channel's order. */
export function policyOf({ settings, task }: Floor): Policy {
  return task === undefined ? POLICIES[settings.order] : TASK_POLICIES[task.kind];
}

/** Whether an agent is queued and connected. */
export function isGrantable(floor: Floor, agent: AgentId): boolean {
  const seat = findSeat(floor, agent);
  return seat !== undefined && seat.status === 'QUEUED' && seat.present;
}

function grantable(floor: Floor): readonly AgentId[] {
  const { heeds } = policyOf(floor);
  const agents: AgentId[] = [];
  for (const { agent, by } of floor.prioritised)
    if (heeds.includes(by) && isGrantable(floor, agent)) agents.push(agent);
  return agents;
}

function inTurn(floor: Floor, rounds: number): readonly Seat[] {
  const { goesRound, rank } = policyOf(floor);
  if (!goesRound) return [];
  const due: Seat[] = [];
  for (const agent of floor.queue) {
    const seat = seatOf(floor, agent);
    if (rounds === 0 || seat.taken < rounds) due.push(seat);
  }
  const placeOf = (seat: Seat): number => floor.seats.indexOf(seat);
  return rank === null ? due : due.toSorted((one, other) => rank(one, other) || placeOf(one) - placeOf(other));
}

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
