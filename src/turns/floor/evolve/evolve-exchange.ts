import type { Evolution, FactOf } from '../fact.ts';
import { NOTHING_USED } from '../floor.ts';
import type { Floor } from '../floor.ts';
import { openMs } from '../gate.ts';
import type { Instant } from '../../../lib/time.ts';

/** The part of `evolve` about the exchange: what follows one human message until the floor rests. */
export const EXCHANGE = {
  exchangeOpened: (floor, _opened, at) => opened(floor, at),
  exchangeClosed: closed,
  usageReset: reset,
  floorPaused: (floor, { on }) => ({
    ...floor,
    condition: on ? 'paused' : floor.exchange === null ? 'resting' : 'open',
  }),
  prioritised,
  facilitatorAsked: (floor, { facilitator, ask, deadlineAt }) => ({
    ...floor,
    asks: ask,
    facilitation: { facilitator, ask, deadlineAt },
  }),
  facilitatorAnswered: (floor) => ({ ...floor, facilitation: null }),
} as const satisfies Partial<Evolution>;

function opened(floor: Floor, at: Instant): Floor {
  const seats = floor.seats.map((seat) => ({ ...seat, taken: 0 }));
  if (floor.exchange !== null) return { ...floor, seats, exchange: { ...floor.exchange, silent: 0 } };
  const exchange = { openedAt: at, silent: 0 };
  return { ...floor, seats, exchange, condition: 'open', limit: null, stopped: false };
}

function reset(floor: Floor, { why }: FactOf<'usageReset'>, at: Instant): Floor {
  if (why === 'midnight') return { ...floor, limit: null };
  const exchange = floor.exchange === null ? null : { openedAt: at, silent: 0 };
  const day = why === 'more' && floor.limit?.until != null ? { startedAt: at, ...NOTHING_OF_A_DAY } : floor.day;
  return { ...floor, exchange, day, usageSincePerson: NOTHING_USED };
}

const NOTHING_OF_A_DAY = { tokens: 0, costMicros: 0, ms: 0 };

function closed(floor: Floor, fact: FactOf<'exchangeClosed'>, at: Instant): Floor {
  const limited = fact.reason === 'limit';
  return {
    ...floor,
    condition: floor.condition === 'paused' ? 'paused' : 'resting',
    exchange: null,
    usageSincePerson: { ...floor.usageSincePerson, ms: openMs(floor, at) },
    facilitation: null,
    seats: floor.seats.map((seat) => ({ ...seat, taken: 0 })),
    prioritised: limited ? floor.prioritised : [],
    limit: limited ? { budget: fact.budget ?? 'turns', until: fact.until ?? null } : floor.limit,
    stopped: fact.reason === 'stopped',
  };
}

const RANK = { operator: 0, person: 1, agent: 2 } as const;

/** Whom people name goes before whom agents hand over to; within a rank whoever was named first. */
function prioritised(floor: Floor, fact: FactOf<'prioritised'>): Floor {
  const earlier = floor.prioritised.find((named) => named.agent === fact.agent);
  const messages = [...(earlier?.messages ?? []), ...(fact.message === undefined ? [] : [fact.message])];
  if (earlier !== undefined && RANK[earlier.by] <= RANK[fact.by]) {
    return {
      ...floor,
      prioritised: floor.prioritised.map((named) => (named === earlier ? { ...named, messages } : named)),
    };
  }
  const others = floor.prioritised.filter((named) => named.agent !== fact.agent);
  const before = others.filter((named) => RANK[named.by] <= RANK[fact.by]);
  const behind = others.filter((named) => RANK[named.by] > RANK[fact.by]);
  return { ...floor, prioritised: [...before, { agent: fact.agent, by: fact.by, messages }, ...behind] };
}
