import type { Limit } from './fact.ts';
import type { Floor } from './floor.ts';
import { reached } from './limits.ts';
import type { AgentId } from './settings.ts';
import type { Instant } from '../../lib/time.ts';

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
  | { readonly why: 'resting' };

/** What keeps whom from the floor; whatever is not named, that one may pass, or lifts. */
const BLOCKS = {
  /** A turn that keeps the floor while it waits, to go on. */
  holder: ['catching-up'],
  /** A turn that waits without the floor, to go on. */
  parked: ['catching-up', 'paused', 'taken'],
  /** Whoever is next; budgets are looked at once it is known that there is somebody. */
  next: ['catching-up', 'paused', 'taken', 'facilitation', 'resting'],
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
  return firstFor(asker, obstacles(floor, at));
}

/** The first of these that counts against whoever asks; `null` when none does. */
export function firstFor<A extends Asker>(asker: A, all: readonly Obstacle[]): Blocking<A> | null {
  const isBlocking = (obstacle: Obstacle): obstacle is Blocking<A> => BLOCKS[asker].some((why) => why === obstacle.why);
  return all.find(isBlocking) ?? null;
}

/** Everything for which the floor may not be granted now, what outlasts the rest first. */
export function obstacles(floor: Floor, at: Instant): readonly Obstacle[] {
  const { turn, facilitation } = floor;
  return [
    ...(floor.catchingUp ? [{ why: 'catching-up' } as const] : []),
    ...(floor.condition === 'paused' ? [{ why: 'paused' } as const] : []),
    ...(turn === null ? [] : [{ why: 'taken', agent: turn.agent } as const]),
    ...budgets(floor, at),
    ...(floor.stopped ? [{ why: 'stopped' } as const] : []),
    ...(facilitation === null ? [] : [{ why: 'facilitation', agent: facilitation.facilitator } as const]),
    ...(isDeserted(floor) ? [{ why: 'nobody-available' } as const] : []),
    ...(floor.condition === 'resting' ? [{ why: 'resting' } as const] : []),
  ];
}

function budgets(floor: Floor, at: Instant): readonly Obstacle[] {
  const { limit } = floor;
  if (limit !== null && limit.until === null) return [{ why: 'limit', budget: limit.budget }];
  if (limit !== null && limit.until !== null && at < limit.until)
    return [{ why: 'day-limit', budget: limit.budget, until: limit.until }];
  const over = reached(floor, at);
  return over === null ? [] : [{ why: 'over-budget', ...over }];
}

/** Agents that were alone and went to rest come back with the next message. */
function isDeserted({ seats }: Floor): boolean {
  return !seats.some(({ status, assigned }) => status === 'QUEUED' || (status === 'IDLE' && assigned));
}
