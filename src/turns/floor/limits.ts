import type { Limit } from './fact.ts';
import type { Floor } from './floor.ts';
import { reopened } from './evolve-exchange.ts';
import { today } from './evolve-turn.ts';
import type { Instant } from '../../lib/time.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A budget that is used up, and when it renews itself (`null`: with the next human message). */
export type Reached = { readonly limit: Limit; readonly until: Instant | null };

/** The first budget that another turn would exceed, or `null`. Tokens and money are counted per channel, never per pair. */
export function reached(floor: Floor, at: Instant): Reached | null {
  return exchangeLimit(floor, at) ?? dayLimit(floor, at);
}

function exchangeLimit(floor: Floor, at: Instant): Reached | null {
  const { settings } = floor;
  const exchange = floor.exchange ?? reopened(floor, at);
  const { tokens, costMicros, ms } = settings.exchangeBudget;
  if (exchange.turns >= exchange.allowance) return forExchange('turns', exchange.turns, exchange.allowance);
  if (tokens !== null && exchange.tokens >= tokens) return forExchange('tokens', exchange.tokens, tokens);
  if (costMicros !== null && exchange.costMicros >= costMicros)
    return forExchange('cost', exchange.costMicros, costMicros);
  if (ms !== null && at - exchange.openedAt >= ms) {
    return forExchange('minutes', (at - exchange.openedAt) / MINUTE_MS, ms / MINUTE_MS);
  }
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
