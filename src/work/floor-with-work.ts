import { withCauses } from '../engine/machine.ts';
import { floorMachine } from '../turns/floor-store.ts';
import { CREW_CAUSES, TICKET_REVIEW_CAUSES } from './crews/crew-binding.ts';
import { REVIEW_CAUSES, reviewOnFloor } from './reviews/review-binding.ts';
import { RUN_CAUSES } from './runs/floor-binding.ts';

/**
 * The floor machine as Conch hosts it. Facts of a floor give commands to its runs, its review and its crew in the same
 * transaction.
 */
export const floorWithWork = withCauses(floorMachine, [RUN_CAUSES, REVIEW_CAUSES, CREW_CAUSES]);

/** The review machine as Conch hosts it. Tells a ticket's crew what the review spent and how the review ended. */
export const reviewWithCrew = withCauses(reviewOnFloor, [TICKET_REVIEW_CAUSES]);
