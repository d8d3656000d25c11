import type { Fact } from './fact.ts';
import type { Floor, Seat } from './floor.ts';
import { evolveExchange } from './evolve/evolve-exchange.ts';
import type { ExchangeFact } from './evolve/evolve-exchange.ts';
import { evolveMessage } from './evolve/evolve-message.ts';
import type { MessageFact } from './evolve/evolve-message.ts';
import { evolveTurn } from './evolve/evolve-turn.ts';
import type { TurnFact } from './evolve/evolve-turn.ts';
import { moveSeat, newSeat, patchSeat } from './seats.ts';
import type { Instant } from '../../lib/time.ts';

/**
 * The floor after a fact. Total over every fact that `decide` can produce; a fact that does not fit the floor is a bug
 * and throws "impossible: …", naming the channel, the agent and what was asked.
 */
export function evolve(floor: Floor, fact: Fact, at: Instant): Floor {
  switch (fact.type) {
    case 'exchangeOpened':
    case 'usageReset':
    case 'exchangeClosed':
    case 'floorPaused':
    case 'agentCalled':
    case 'choosingStarted':
    case 'choosingEnded':
      return evolveExchange(floor, fact, at);
    case 'turnGranted':
    case 'turnContinued':
    case 'turnWaited':
    case 'questionShown':
    case 'questionClosed':
    case 'turnStopped':
    case 'waitAnswered':
    case 'turnExtended':
    case 'turnResumed':
    case 'disconnected':
    case 'turnEnded':
    case 'said':
    case 'worked':
    case 'spent':
      return evolveTurn(floor, fact, at);
    case 'messageRouted':
    case 'injectReported':
    case 'messageAmended':
      return evolveMessage(floor, fact);
    default:
      return evolveSeats(floor, fact);
  }
}

/** What is left: the compiler refuses a new fact that neither a part above nor this one knows. */
type OtherFact = Exclude<Fact, ExchangeFact | TurnFact | MessageFact>;

function evolveSeats(floor: Floor, fact: OtherFact): Floor {
  switch (fact.type) {
    case 'configured':
      return configured(floor, fact);
    case 'settingsChanged':
      return { ...floor, settings: fact.settings, queue: fact.queue ?? floor.queue };
    case 'seatMoved':
      return moveSeat(floor, fact);
    case 'seatMarked':
      return patchSeat(floor, fact.agent, marked(fact));
    case 'seatDropped':
      return { ...floor, seats: floor.seats.filter((seat) => seat.agent !== fact.agent) };
    case 'seatCreated':
      return { ...floor, seats: [...floor.seats, newSeat(floor, fact.seat)] };
    case 'announced':
      return {
        ...floor,
        notice: { key: fact.key, count: fact.repeat },
        outage: floor.outage || fact.announcement.kind === 'nobody',
      };
    case 'epochRaised':
      return { ...floor, epoch: floor.epoch + fact.by, questions: floor.questions + fact.by };
    case 'caughtUp':
      return { ...floor, catchingUp: false };
    case 'actRefused':
      return floor;
  }
}

function marked({ mark, on }: Extract<Fact, { type: 'seatMarked' }>): Partial<Seat> {
  switch (mark) {
    case 'assigned':
      return { assigned: on };
    case 'disabled':
      return { disabled: on };
    case 'present':
      return { present: on };
  }
}

function configured(floor: Floor, fact: Extract<Fact, { type: 'configured' }>): Floor {
  const { settings, seats, configuration } = fact;
  const kept = seats.map((wanted) => {
    const seat = floor.seats.find((candidate) => candidate.agent === wanted.agent);
    return seat === undefined ? newSeat(floor, wanted) : { ...seat, ...wanted };
  });
  const others = floor.seats.filter((seat) => !seats.some((wanted) => wanted.agent === seat.agent));
  return { ...floor, settings, configured: configuration, seats: [...kept, ...others] };
}
