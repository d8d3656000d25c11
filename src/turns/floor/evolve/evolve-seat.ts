import type { Evolution, FactOf } from '../fact.ts';
import type { Floor, Seat } from '../floor.ts';
import { moveSeat, newSeat, patchSeat } from '../seats.ts';

/** The part of `evolve` about seats, and about what the channel goes by. */
export const SEATS = {
  configured,
  settingsChanged: (floor, { settings, queue = floor.queue }) => ({ ...floor, settings, queue }),
  seatMoved: moveSeat,
  seatMarked: (floor, fact) => patchSeat(floor, fact.agent, marked(fact)),
  seatDropped: (floor, { agent }) => ({ ...floor, seats: floor.seats.filter((seat) => seat.agent !== agent) }),
  seatCreated: (floor, { seat }) => ({ ...floor, seats: [...floor.seats, newSeat(floor, seat)] }),
  announced: (floor, { key, repeat, announcement }) => ({
    ...floor,
    notice: { key, count: repeat },
    outage: floor.outage || announcement.kind === 'nobody',
  }),
  epochRaised: (floor, { by }) => ({ ...floor, epoch: floor.epoch + by, questions: floor.questions + by }),
  actRefused: (floor) => floor,
} as const satisfies Partial<Evolution>;

function marked({ mark, on }: FactOf<'seatMarked'>): Partial<Seat> {
  switch (mark) {
    case 'assigned':
      return { assigned: on };
    case 'disabled':
      return { disabled: on };
    case 'present':
      return { present: on };
  }
}

function configured(floor: Floor, fact: FactOf<'configured'>): Floor {
  const { settings, seats, configuration } = fact;
  const kept = seats.map((wanted) => {
    const seat = floor.seats.find((candidate) => candidate.agent === wanted.agent);
    return seat === undefined ? newSeat(floor, wanted) : { ...seat, ...wanted };
  });
  const others = floor.seats.filter((seat) => !seats.some((wanted) => wanted.agent === seat.agent));
  return { ...floor, settings, configured: configuration, seats: [...kept, ...others] };
}
