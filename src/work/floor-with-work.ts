import { withCauses } from '../engine/machine.ts';
import { floorMachine } from '../turns/floor-store.ts';
import { CREW_CAUSES, TICKET_REVIEW_CAUSES } from './crews/crew-binding.ts';
import { REVIEW_CAUSES, reviewOnFloor } from './reviews/review-binding.ts';
import { RUN_CAUSES } from './runs/floor-binding.ts';

/**
 * The floor as Conch hosts it: what happens to a turn happens to its run and to its review in the same transaction. A
 * machine that is told of floors is one more entry of the list.
 */
export const floorWithWork = withCauses(floorMachine, [RUN_CAUSES, REVIEW_CAUSES, CREW_CAUSES]);

/** The review as Conch hosts it: the crew whose work is reviewed learns how it ended. */
export const reviewWithCrew = withCauses(reviewOnFloor, [TICKET_REVIEW_CAUSES]);
