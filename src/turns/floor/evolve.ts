import { EXCHANGE } from './evolve/evolve-exchange.ts';
import { MESSAGES } from './evolve/evolve-message.ts';
import { SEATS } from './evolve/evolve-seat.ts';
import { TURNS } from './evolve/evolve-turn.ts';
import type { Evolution, Fact, FactOf } from './fact.ts';
import type { Floor } from './floor.ts';
import type { Instant } from '../../lib/time.ts';

/**
 * The floor after a fact. Total over every fact that `decide` can produce; a fact that does not fit the floor is a bug
 * and throws "impossible: …", naming the channel, the agent and what was asked.
 */
export function evolve(floor: Floor, fact: Fact, at: Instant): Floor {
  return apply(fact.type, fact, { floor, at });
}

/** The compiler refuses a fact that no part knows. */
const EVOLUTION: Evolution = { ...SEATS, ...EXCHANGE, ...MESSAGES, ...TURNS };

function apply<T extends Fact['type']>(
  type: T,
  fact: FactOf<T>,
  { floor, at }: { readonly floor: Floor; readonly at: Instant },
): Floor {
  return EVOLUTION[type](floor, fact, at);
}
