import type { Command } from './command.ts';
import type { Limit } from './announcement.ts';
import type { Floor, Seat } from './floor.ts';
import type { AgentId, ModelUse } from './settings.ts';
import type { Instant } from '../../lib/time.ts';
import { POLICIES } from './policies.ts';
import type { Policy } from './policies.ts';
import { askOf, findSeat, seatOf } from './seats.ts';

/** One reason for which the floor may not be granted now. */
export type Obstacle =
  /** The channel's history has not been read. */
  | { readonly why: 'catching-up' }
  | { readonly why: 'paused' }
  | { readonly why: 'taken'; readonly agent: AgentId }
  /** A budget was used up and people were told: a person's word renews the one, midnight the other. */
  | { readonly why: 'limit'; readonly budget: Limit['budget'] }
  | { readonly why: 'day-limit'; readonly budget: Limit['budget']; readonly until: Instant }
  /** A budget is used up, and nobody was told yet. */
  | { readonly why: 'over-budget'; readonly limit: Limit; readonly until: Instant | null }
  | { readonly why: 'stopped' }
  /** The facilitator is being asked who is next. */
  | { readonly why: 'facilitation'; readonly agent: AgentId }
  /** Nobody is in the queue, and nobody would come into it. */
  | { readonly why: 'nobody-available' }
  /** Why it rests, and so how it goes on: by a grant, by a name, by another round, or by a first word. */
  | { readonly why: 'resting'; readonly after: 'manual' | 'mention' | 'rounds' | 'nothing' };

/** What keeps whom from the floor, what outlasts the rest first; whatever is not named, that one may pass, or lifts. */
const BLOCKS = {
  /** A turn that keeps the floor while it waits, to go on. */
  holder: ['catching-up'],
  /** A turn that waits without the floor, to go on. */
  parked: ['catching-up', 'paused', 'taken'],
  /** Whoever is next, and the turn of that one: budgets are looked at once it is known that there is somebody. */
  next: ['catching-up', 'paused', 'taken', 'facilitation', 'resting'],
  turn: ['over-budget'],
  /** A message that waits, to open an exchange: one with a person's new word, or with programs' and old ones alone. */
  person: ['catching-up', 'paused', 'taken', 'day-limit', 'nobody-available'],
  program: ['catching-up', 'paused', 'taken', 'limit', 'day-limit', 'stopped', 'nobody-available'],
  /** A program's message, to reach whoever has the floor or waits. */
  aside: ['limit', 'day-limit', 'over-budget', 'stopped'],
  /** An operator who starts an exchange, and one who names the next speaker. */
  start: ['catching-up', 'paused', 'day-limit', 'nobody-available'],
  grant: ['catching-up', 'paused'],
} as const satisfies Readonly<Record<string, readonly Obstacle['why'][]>>;

/** Who wants the floor granted, or wants to go on with it. */
export type Asker = keyof typeof BLOCKS;

type Blocking<A extends Asker> = Extract<Obstacle, { readonly why: (typeof BLOCKS)[A][number] }>;

/** Why the floor may not go to whoever asks now: the first reason that counts against that one, `null` when it may. */
export function gate<A extends Asker>(floor: Floor, at: Instant, asker: A): Blocking<A> | null {
  for (const why of BLOCKS[asker]) {
    const found = FOUND[why](floor, at);
    if (found !== null && isBlocking(found, asker)) return found;
  }
  return null;
}

/** The first of these that counts against whoever asks; `null` when none does. */
export function firstFor<A extends Asker>(asker: A, all: readonly Obstacle[]): Blocking<A> | null {
  return all.find((obstacle) => isBlocking(obstacle, asker)) ?? null;
}

/** Everything for which the floor may not be granted now, what outlasts the rest first. */
export function obstacles(floor: Floor, at: Instant): readonly Obstacle[] {
  const found = FINDERS.flatMap((find) => find(floor, at) ?? []);
  // Whoever has a turn is there, also an only agent that waits: a message reaches it.
  const isSomebodyThere = floor.turn !== null || floor.parked.length > 0;
  return isSomebodyThere ? found.filter(({ why }) => why !== 'nobody-available') : found;
}

function isBlocking<A extends Asker>(obstacle: Obstacle, asker: A): obstacle is Blocking<A> {
  return BLOCKS[asker].some((why) => why === obstacle.why);
}

type Finder = (floor: Floor, at: Instant) => Obstacle | null;

/** How each is found, what outlasts the rest first. Of budgets there is one at a time. */
const FOUND: Readonly<Record<Obstacle['why'], Finder>> = {
  'catching-up': ({ catchingUp }) => (catchingUp ? { why: 'catching-up' } : null),
  paused: ({ condition }) => (condition === 'paused' ? { why: 'paused' } : null),
  taken: ({ turn }) => (turn === null ? null : { why: 'taken', agent: turn.agent }),
  limit: budgetReached,
  'day-limit': budgetReached,
  'over-budget': budgetReached,
  stopped: ({ stopped }) => (stopped ? { why: 'stopped' } : null),
  facilitation: ({ facilitation }) =>
    facilitation === null ? null : { why: 'facilitation', agent: facilitation.facilitator },
  'nobody-available': (floor) => (isDeserted(floor) ? { why: 'nobody-available' } : null),
  resting: (floor) => (floor.condition === 'resting' ? { why: 'resting', after: restsAfter(floor) } : null),
};

const FINDERS: readonly Finder[] = [...new Set(Object.values(FOUND))];

function restsAfter(floor: Floor): Extract<Obstacle, { why: 'resting' }>['after'] {
  const { opensForMessages, needsName } = policyOf(floor);
  if (!opensForMessages) return 'manual';
  if (needsName && floor.settings.defaultAgent === null) return 'mention';
  return floor.usageSincePerson.turns > 0 ? 'rounds' : 'nothing';
}

function budgetReached(floor: Floor, at: Instant): Obstacle | null {
  const { limit } = floor;
  if (limit !== null && limit.until === null) return { why: 'limit', budget: limit.budget };
  if (limit !== null && limit.until !== null && at < limit.until)
    return { why: 'day-limit', budget: limit.budget, until: limit.until };
  const over = reached(floor, at);
  return over === null ? null : { why: 'over-budget', ...over };
}

/** Why a message was not routed when nobody is online: the one reason for which it is kept for whoever comes back. */
export const NOBODY = 'no agent available';

/** Agents that were alone and went to rest come back with the next message. */
function isDeserted({ seats }: Floor): boolean {
  return !seats.some(({ status, assigned }) => status === 'QUEUED' || (status === 'IDLE' && assigned));
}

/** Who is next: an agent, a question to the facilitator, nobody (`rest`), or somebody who has yet to reconnect (`later`). */
export type Next =
  | { readonly kind: 'agent'; readonly agent: AgentId }
  | { readonly kind: 'askFacilitator'; readonly facilitator: AgentId; readonly candidates: readonly AgentId[] }
  | { readonly kind: 'rest' }
  | { readonly kind: 'later' };

/** The next speaker by the channel's order policy, when the floor is free and an exchange is open. */
export function nextUp(floor: Floor): Next {
  const asked = nextAsked(floor);
  if (asked !== null) return isGrantable(floor, asked) ? { kind: 'agent', agent: asked } : { kind: 'later' };
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
  const asked = nextAsked(floor);
  const first = [...(asked === null ? [] : [asked]), ...grantable(floor)];
  const rest = floor.exchange === null ? inTurn(floor, queued(floor)) : dueByRounds(floor);
  return [...new Set([...first, ...rest.map((seat) => seat.agent)])];
}

/** The agent that another one asked last, as long as it has yet to be granted the floor for its answer. */
function nextAsked({ parked }: Floor): AgentId | null {
  const asks = parked.map(askOf).filter((asked) => asked?.is === 'asked');
  return asks.at(-1)?.agent ?? null;
}

/** Who asked an agent for its next turn, and waits for it; `undefined` when nobody does. */
export function askerOf({ parked }: Floor, agent: AgentId): AgentId | undefined {
  return parked.findLast((turn) => {
    const asked = askOf(turn);
    return asked?.is === 'asked' && asked.agent === agent;
  })?.agent;
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
  const { goesRound, ranksByPriority } = policyOf(floor);
  if (!goesRound) return [];
  return ranksByPriority ? byPriority(seats, floor) : seats;
}

/** Equal ones go by seat. */
function byPriority(seats: readonly Seat[], floor: Floor): readonly Seat[] {
  const placeOf = (seat: Seat): number => floor.seats.indexOf(seat);
  return seats.toSorted((a, b) => a.taken - b.taken || a.priority - b.priority || placeOf(a) - placeOf(b));
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

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A budget that is used up, and when it renews itself (`null`: with the next human message). */
type Reached = { readonly limit: Limit; readonly until: Instant | null };

/** The first budget that another turn would exceed, or `null`. Tokens and money are counted per channel, never per pair. */
function reached(floor: Floor, at: Instant): Reached | null {
  return exchangeLimit(floor, at) ?? dayLimit(floor, at);
}

/** What was spent with a price, in millionths of a dollar; `null`: it has none. Earlier versions wrote nothing in its place. */
export function pricedMicros({
  costMicros,
  use,
}: {
  readonly costMicros: number;
  readonly use?: Pick<ModelUse, 'source'>;
}): number | null {
  const isPriced = use === undefined ? costMicros > 0 : use.source !== 'unpriced';
  return isPriced ? costMicros : null;
}

/** For how long exchanges were open since a person or an operator last spoke. */
export function openMs({ usageSincePerson, exchange }: Floor, at: Instant): number {
  return usageSincePerson.ms + (exchange === null ? 0 : at - exchange.openedAt);
}

/** What was used since midnight UTC. */
export function today(floor: Floor, at: Instant): Floor['day'] {
  const startedAt = at - (at % DAY_MS);
  return floor.day.startedAt >= startedAt ? floor.day : { startedAt, tokens: 0, costMicros: 0, ms: 0 };
}

function exchangeLimit(floor: Floor, at: Instant): Reached | null {
  const { settings, usageSincePerson: used } = floor;
  const { tokens, costMicros, ms } = settings.exchangeBudget;
  if (used.turns >= settings.maxTurns) return forExchange('turns', used.turns, settings.maxTurns);
  if (tokens !== null && used.tokens >= tokens) return forExchange('tokens', used.tokens, tokens);
  if (costMicros !== null && used.costMicros >= costMicros) return forExchange('cost', used.costMicros, costMicros);
  const open = openMs(floor, at);
  if (ms !== null && open >= ms) return forExchange('minutes', open / MINUTE_MS, ms / MINUTE_MS);
  return null;
}

function dayLimit(floor: Floor, at: Instant): Reached | null {
  const { tokens, costMicros, ms } = floor.settings.dayBudget;
  const day = today(floor, at);
  const until = at - (at % DAY_MS) + DAY_MS;
  if (tokens !== null && day.tokens >= tokens)
    return { limit: { budget: 'tokens a day', used: day.tokens, max: tokens }, until };
  if (costMicros !== null && day.costMicros >= costMicros) {
    return { limit: { budget: 'cost a day', used: day.costMicros, max: costMicros }, until };
  }
  if (ms !== null && day.ms >= ms) {
    return { limit: { budget: 'minutes a day', used: day.ms / MINUTE_MS, max: ms / MINUTE_MS }, until };
  }
  return null;
}

function forExchange(budget: Limit['budget'], used: number, max: number): Reached {
  return { limit: { budget, used, max }, until: null };
}

/** A sign of the holder's work. */
export type Sign = Extract<Command, { type: 'work' }>;

/** Whether all that a command does is to put the holder's deadline off. */
export function isSign({ turn }: Floor, command: Command): command is Sign {
  if (command.type !== 'work' || turn?.status !== 'active') return false;
  return turn.agent === command.agent && turn.epoch === command.epoch && turn.openWork === command.open;
}
