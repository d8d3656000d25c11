import type { Fact } from './fact.ts';
import type { Exchange, Floor } from './floor.ts';
import type { Instant } from './settings.ts';

/** Facts about the exchange. */
export type ExchangeFact = Extract<
  Fact,
  {
    type:
      | 'exchangeOpened'
      | 'exchangeRestarted'
      | 'exchangeExtended'
      | 'exchangeClosed'
      | 'floorPaused'
      | 'floorUnpaused'
      | 'agentCalled'
      | 'choosingStarted'
      | 'choosingEnded'
      | 'limitLifted';
  }
>;

/** The part of `evolve` about the exchange: what follows one human message until the floor rests. */
export function evolveExchange(floor: Floor, fact: ExchangeFact, at: Instant): Floor {
  switch (fact.type) {
    case 'exchangeOpened':
      return opened({ ...floor, condition: 'open', limit: null, stopped: false }, at);
    case 'exchangeExtended':
      return opened({ ...floor, condition: 'open', stopped: false, limit: null, day: freshDay(floor, at) }, at);
    case 'exchangeRestarted':
      return fact.scope === 'all' ? opened(floor, at) : { ...floor, exchange: freshExchange(floor, at) };
    case 'exchangeClosed':
      return closed(floor, fact);
    case 'floorPaused':
      return { ...floor, condition: 'paused' };
    case 'floorUnpaused':
      return { ...floor, condition: floor.exchange === null ? 'resting' : 'open' };
    case 'agentCalled':
      return called(floor, fact);
    case 'choosingStarted':
      return {
        ...floor,
        asks: fact.ask,
        choosing: { facilitator: fact.facilitator, ask: fact.ask, deadlineAt: fact.deadlineAt },
      };
    case 'choosingEnded':
      return { ...floor, choosing: null };
    case 'limitLifted':
      return { ...floor, limit: null };
  }
}

function opened(floor: Floor, at: Instant): Floor {
  return { ...floor, exchange: freshExchange(floor, at), seats: floor.seats.map((seat) => ({ ...seat, taken: 0 })) };
}

function freshExchange(floor: Floor, at: Instant): Exchange {
  return { openedAt: at, turns: 0, allowance: floor.settings.maxTurns, silent: 0, tokens: 0, costMicros: 0 };
}

/** An operator who resumes after a day's budget was used up allows as much again. */
function freshDay(floor: Floor, at: Instant): Floor['day'] {
  const wasDay = floor.limit !== null && floor.limit.until !== null;
  return wasDay ? { startedAt: at, tokens: 0, costMicros: 0, ms: 0 } : floor.day;
}

function closed(floor: Floor, fact: Extract<Fact, { type: 'exchangeClosed' }>): Floor {
  const limited = fact.reason === 'limit';
  return {
    ...floor,
    condition: floor.condition === 'paused' ? 'paused' : 'resting',
    exchange: null,
    choosing: null,
    seats: floor.seats.map((seat) => ({ ...seat, taken: 0 })),
    called: limited ? floor.called : [],
    limit: limited ? { budget: fact.budget ?? 'turns', until: fact.until ?? null } : floor.limit,
    stopped: fact.reason === 'stopped',
  };
}

const CALL_RANK = { operator: 0, person: 1, agent: 2 } as const;

/** People's calls go before agents' hand-overs; within a rank the first call counts. */
function called(floor: Floor, fact: Extract<Fact, { type: 'agentCalled' }>): Floor {
  const earlier = floor.called.find((call) => call.agent === fact.agent);
  const messages = [...(earlier?.messages ?? []), ...(fact.message === undefined ? [] : [fact.message])];
  if (earlier !== undefined && CALL_RANK[earlier.by] <= CALL_RANK[fact.by]) {
    return { ...floor, called: floor.called.map((call) => (call === earlier ? { ...call, messages } : call)) };
  }
  const others = floor.called.filter((call) => call.agent !== fact.agent);
  const before = others.filter((call) => CALL_RANK[call.by] <= CALL_RANK[fact.by]);
  const behind = others.filter((call) => CALL_RANK[call.by] > CALL_RANK[fact.by]);
  return { ...floor, called: [...before, { agent: fact.agent, by: fact.by, messages }, ...behind] };
}
