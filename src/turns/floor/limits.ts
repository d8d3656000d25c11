import type { Limit } from './fact.ts';
import type { Floor } from './floor.ts';
import type { Instant } from '../../lib/time.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A budget that is used up, and when it renews itself (`null`: with the next human message). */
export type Reached = { readonly limit: Limit; readonly until: Instant | null };

/** The first budget that another turn would exceed, or `null`. Tokens and money are counted per channel, never per pair. */
export function reached(floor: Floor, at: Instant): Reached | null {
  return exchangeLimit(floor, at) ?? dayLimit(floor, at);
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
