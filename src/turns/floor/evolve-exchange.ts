import type { Fact } from './fact.ts';
import { NOTHING_USED } from './floor.ts';
import type { Exchange, Floor } from './floor.ts';
import type { Instant } from '../../lib/time.ts';

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
      return opened(
        { ...floor, condition: 'open', limit: null, stopped: false },
        fact.by === 'message' || fact.by === 'operator' ? freshExchange(floor, at) : reopened(floor, at),
      );
    case 'exchangeExtended':
      return opened(
        { ...floor, condition: 'open', stopped: false, limit: null, day: freshDay(floor, at) },
        freshExchange(floor, at),
      );
    case 'exchangeRestarted':
      return restarted(floor, fact.scope, at);
    case 'exchangeClosed':
      return closed(floor, fact, at);
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

/** The exchange that goes on from the one before it: nothing that was used without a person is forgotten. */
export function reopened(floor: Floor, at: Instant): Exchange {
  const { turns, tokens, costMicros, ms } = floor.unattended;
  return { ...freshExchange(floor, at), openedAt: at - ms, turns, tokens, costMicros };
}

function opened(floor: Floor, exchange: Exchange): Floor {
  const seats = floor.seats.map((seat) => ({ ...seat, taken: 0 }));
  return { ...floor, exchange, unattended: NOTHING_USED, seats };
}

function restarted(floor: Floor, scope: Extract<Fact, { type: 'exchangeRestarted' }>['scope'], at: Instant): Floor {
  if (scope === 'count') return { ...floor, exchange: freshExchange(floor, at) };
  return opened(floor, {
    ...(scope === 'all' || floor.exchange === null ? freshExchange(floor, at) : floor.exchange),
    silent: 0,
  });
}

function freshExchange(floor: Floor, at: Instant): Exchange {
  return { openedAt: at, turns: 0, allowance: floor.settings.maxTurns, silent: 0, tokens: 0, costMicros: 0 };
}

/** An operator who resumes after a day's budget was used up allows as much again. */
function freshDay(floor: Floor, at: Instant): Floor['day'] {
  const wasDay = floor.limit !== null && floor.limit.until !== null;
  return wasDay ? { startedAt: at, tokens: 0, costMicros: 0, ms: 0 } : floor.day;
}

function closed(floor: Floor, fact: Extract<Fact, { type: 'exchangeClosed' }>, at: Instant): Floor {
  const limited = fact.reason === 'limit';
  return {
    ...floor,
    condition: floor.condition === 'paused' ? 'paused' : 'resting',
    exchange: null,
    unattended: floor.exchange === null ? floor.unattended : used(floor.exchange, at),
    choosing: null,
    seats: floor.seats.map((seat) => ({ ...seat, taken: 0 })),
    called: limited ? floor.called : [],
    limit: limited ? { budget: fact.budget ?? 'turns', until: fact.until ?? null } : floor.limit,
    stopped: fact.reason === 'stopped',
  };
}

function used({ openedAt, turns, tokens, costMicros }: Exchange, at: Instant): Floor['unattended'] {
  return { turns, tokens, costMicros, ms: at - openedAt };
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
