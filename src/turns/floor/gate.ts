import type { Command } from './command.ts';
import type { Limit } from './announcement.ts';
import type { Floor, Seat, FloorTask } from './floor.ts';
import { policyOf } from './next-speaker.ts';
import type { AgentId, ModelUse } from './settings.ts';
import type { Instant } from '../../lib/time.ts';

/** A reason why the floor cannot be granted now. */
export type Obstacle =
  /** The channel's history is not read yet. */
  | { readonly why: 'catching-up' }
  | { readonly why: 'paused' }
  | { readonly why: 'taken'; readonly agent: AgentId }
  /**
   * A reached limit that ended the exchange. A new exchange for a person's message, or a new task, ends `limit`.
   * Midnight UTC ends `day-limit`. An operator ends both.
   */
  | { readonly why: 'limit'; readonly budget: Limit['budget'] }
  | { readonly why: 'day-limit'; readonly budget: Limit['budget']; readonly until: Instant }
  /** A reached limit that has not ended the exchange yet. */
  | { readonly why: 'over-budget'; readonly limit: Limit; readonly until: Instant | null }
  | { readonly why: 'stopped' }
  | { readonly why: 'facilitation'; readonly agent: AgentId }
  /** No agent is queued, and the next message would queue none. */
  | { readonly why: 'nobody-available' }
  | { readonly why: 'resting'; readonly after: FloorTask['kind'] | 'manual' | 'mention' | 'rounds' | 'nothing' };

/** For each kind of act, the obstacles that prevent it, in the order in which they are checked. */
const BLOCKS = {
  /** Obstacles to routing a message, or to resuming the turn that holds the floor. */
  holder: ['catching-up'],
  /** Obstacles to resuming a waiting turn that does not hold the floor. */
  parked: ['catching-up', 'paused', 'taken'],
  /** Obstacles to choosing the next speaker (`next`), or to granting it a turn (`turn`). */
  next: ['catching-up', 'paused', 'taken', 'facilitation', 'resting'],
  turn: ['limit', 'day-limit', 'over-budget'],
  /**
   * Obstacles to opening an exchange for pending messages. `person`: a new message of a person is among them, or an
   * operator acts. `program`: neither.
   */
  person: ['catching-up', 'paused', 'taken', 'day-limit', 'nobody-available'],
  program: ['catching-up', 'paused', 'taken', 'limit', 'day-limit', 'stopped', 'nobody-available'],
  /** Obstacles to delivering a program's message to the holder or a waiting agent. */
  aside: ['limit', 'day-limit', 'over-budget', 'stopped'],
  /** Obstacles to an operator's commands: to start an exchange (`start`), or to name the next speaker (`grant`). */
  start: ['catching-up', 'paused', 'day-limit', 'nobody-available'],
  grant: ['catching-up', 'paused'],
} as const satisfies Readonly<Record<string, readonly Obstacle['why'][]>>;

/** The kind of an act that obstacles can prevent. */
export type Asker = keyof typeof BLOCKS;

type Blocking<A extends Asker> = Extract<Obstacle, { readonly why: (typeof BLOCKS)[A][number] }>;

/** The first obstacle for an act; `null` when the act is allowed now. */
export function gate<A extends Asker>(floor: Floor, at: Instant, asker: A): Blocking<A> | null {
  for (const why of BLOCKS[asker]) {
    const found = find(why, floor, at);
    if (found !== null && isBlocking(found, asker)) return found;
  }
  return null;
}

/** The first of the obstacles `all` that prevents an act; `null` for none. */
export function firstFor<A extends Asker>(asker: A, all: readonly Obstacle[]): Blocking<A> | null {
  return all.find((obstacle) => isBlocking(obstacle, asker)) ?? null;
}

/** All obstacles to a grant now. */
export function obstacles(floor: Floor, at: Instant): readonly Obstacle[] {
  // While an agent has a turn, messages have an agent to go to, so `nobody-available` is no obstacle.
  const isSomebodyThere = floor.turn !== null || floor.parked.length > 0;
  const all: Obstacle[] = [];
  for (const why of isSomebodyThere ? WITH_SOMEBODY : KINDS) {
    const found = find(why, floor, at);
    if (found !== null) all.push(found);
  }
  return all;
}

function isBlocking<A extends Asker>(obstacle: Obstacle, asker: A): obstacle is Blocking<A> {
  const blocks: readonly Obstacle['why'][] = BLOCKS[asker];
  return blocks.includes(obstacle.why);
}

/** The obstacles to look for. `limit` also finds `day-limit` and `over-budget`: at most one of the three holds. */
const KINDS: readonly Obstacle['why'][] = [
  'catching-up',
  'paused',
  'taken',
  'limit',
  'stopped',
  'facilitation',
  'nobody-available',
  'resting',
];
const WITH_SOMEBODY = KINDS.filter((why) => why !== 'nobody-available');

function find(why: Obstacle['why'], floor: Floor, at: Instant): Obstacle | null {
  switch (why) {
    case 'catching-up':
      return floor.catchingUp ? { why } : null;
    case 'paused':
      return floor.condition === 'paused' ? { why } : null;
    case 'taken':
      return floor.turn === null ? null : { why, agent: floor.turn.agent };
    case 'limit':
    case 'day-limit':
    case 'over-budget':
      return budgetReached(floor, at);
    case 'stopped':
      return floor.stopped ? { why } : null;
    case 'facilitation':
      return floor.facilitation === null ? null : { why, agent: floor.facilitation.facilitator };
    case 'nobody-available':
      return floor.seats.some(isAvailable) ? null : { why };
    case 'resting':
      return floor.condition === 'resting' ? { why, after: restsAfter(floor) } : null;
  }
}

function restsAfter(floor: Floor): Extract<Obstacle, { why: 'resting' }>['after'] {
  if (floor.task !== undefined) return floor.task.kind;
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
  const over = exchangeLimit(floor, at) ?? dayLimit(floor, at);
  return over === null ? null : { why: 'over-budget', ...over };
}

/**
 * Why a message is unrouted when no agent is available. Such a message is held; messages unrouted for another reason
 * are not.
 */
export const NOBODY = 'no agent available';

/** Why a message is unrouted when no room is left to hold it. */
export const OVERFLOW = 'too many held messages';

/** IDLE agents that were alone are queued by the next message, so they count as available. */
function isAvailable({ status, assigned }: Seat): boolean {
  return status === 'QUEUED' || (status === 'IDLE' && assigned);
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

type Reached = { readonly limit: Limit; readonly until: Instant | null };

/** The cost of reported usage in millionths of a dollar; `null` when its price is not known. */
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

/** Whether tokens were spent whose price is not known. */
export function isUnpriced(spent: Parameters<typeof pricedMicros>[0] & { readonly tokens: number }): boolean {
  return spent.tokens > 0 && pricedMicros(spent) === null;
}

/**
 * Duration of exchanges since usage was last reset, in milliseconds. Leaves out the time that Conch's process stood
 * still.
 */
export function openMs({ usageSincePerson, exchange }: Floor, at: Instant): number {
  return usageSincePerson.ms + (exchange === null ? 0 : at - exchange.openedAt);
}

/** Usage since midnight UTC, or since an operator resumed the floor after a day's limit. */
export function today(floor: Floor, at: Instant): Floor['day'] {
  const startedAt = at - (at % DAY_MS);
  return floor.day.startedAt >= startedAt ? floor.day : { startedAt, tokens: 0, costMicros: 0, ms: 0 };
}

function exchangeLimit(floor: Floor, at: Instant): Reached | null {
  const { settings, usageSincePerson: used } = floor;
  const { tokens, costMicros, ms } = settings.exchangeBudget;
  if (used.turns >= settings.maxTurns) return reached('turns', used.turns, settings.maxTurns);
  if (tokens !== null && used.tokens >= tokens) return reached('tokens', used.tokens, tokens);
  if (costMicros !== null && used.costMicros >= costMicros) return reached('cost', used.costMicros, costMicros);
  const open = openMs(floor, at);
  if (ms !== null && open >= ms) return reached('minutes', open / MINUTE_MS, ms / MINUTE_MS);
  return null;
}

function dayLimit(floor: Floor, at: Instant): Reached | null {
  const { tokens, costMicros, ms } = floor.settings.dayBudget;
  const day = today(floor, at);
  const until = at - (at % DAY_MS) + DAY_MS;
  if (tokens !== null && day.tokens >= tokens) return reached('tokens a day', day.tokens, tokens, until);
  if (costMicros !== null && day.costMicros >= costMicros)
    return reached('cost a day', day.costMicros, costMicros, until);
  if (ms !== null && day.ms >= ms) return reached('minutes a day', day.ms / MINUTE_MS, ms / MINUTE_MS, until);
  return null;
}

function reached(budget: Limit['budget'], used: number, max: number, until: Instant | null = null): Reached {
  return { limit: { budget, used, max }, until };
}

/** The command that reports a sign of the holder's work. */
export type Sign = Extract<Command, { type: 'work' }>;

/** Whether a command is a sign of work that only moves the deadline of the holder's turn. */
export function isSign({ turn }: Floor, command: Command): command is Sign {
  if (command.type !== 'work' || turn?.status !== 'active') return false;
  return turn.agent === command.agent && turn.epoch === command.epoch && turn.openWork === command.open;
}
