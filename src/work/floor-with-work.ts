import type { Machine } from '../engine/machine.ts';
import type { Command } from '../turns/floor/command.ts';
import type { Fact } from '../turns/floor/fact.ts';
import type { Floor } from '../turns/floor/floor.ts';
import type { Effect } from '../turns/floor/react.ts';
import type { Refusal } from '../turns/floor/refusals.ts';
import { floorMachine } from '../turns/floor-store.ts';
import { REVIEW_CAUSES } from './reviews/review-binding.ts';
import { RUN_CAUSES } from './runs/floor-binding.ts';

/** What floors cause in other machines. A machine that is told of floors is one line here. */
const CAUSES = [RUN_CAUSES, REVIEW_CAUSES];

/** The floor as Conch hosts it: what happens to a turn happens to its run and to its review in the same transaction. */
export const floorWithWork = {
  ...floorMachine,
  causes: (fact, floor) => CAUSES.flatMap(({ commands }) => commands(fact, floor)),
  causing: new Set<Fact['type']>(CAUSES.flatMap(({ types }): readonly Fact['type'][] => types)),
} satisfies Machine<Floor, Command, Fact, Effect, Refusal>;
