import type { FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import { decideReview } from './review-decide.ts';
import { reviewCommandSchema, reviewFactSchema } from './review-events.ts';
import type { ReviewCommand, ReviewFact, ReviewRefusal } from './review-events.ts';
import { evolveReview } from './review-evolve.ts';
import { emptyReviews, isOpen, reviewStateSchema } from './review.ts';
import type { ReviewState } from './review.ts';

/** The reviews of every channel. */
export type ReviewStore = MachineStore<ReviewState, ReviewCommand, ReviewFact, never, ReviewRefusal>;

const FINDING_TEXTS = ['title', 'detail', 'reason'].map((field) => `findings.${field}`);

/** Texts that people or agents wrote, and the ids of people. */
const REVIEW_TEXTS: FactFields = {
  reviewStarted: ['task', 'by'],
  turnHeard: ['reason', 'broken', ...FINDING_TEXTS, 'answers.reason'],
  verdictGiven: ['reason'],
  findingsKept: FINDING_TEXTS,
  waited: ['why'],
  waitOver: ['by'],
  iterationsAdded: ['by'],
  reviewEnded: ['why', 'by'],
};

/** The review machine. Its key is a channel, and a channel has at most one open review. */
export const reviewMachine = {
  name: 'review',
  channelOf: (key: string) => key,
  version: 1,
  empty: emptyReviews,
  decide: decideReview,
  evolve: evolveReview,
  react: () => [],
  nextDeadline: ({ review }: ReviewState): Instant | null => review?.waiting?.until ?? null,
  rest: ({ review }: ReviewState) => (isOpen(review) ? null : ''),
  state: reviewStateSchema,
  fact: reviewFactSchema,
  texts: REVIEW_TEXTS,
  command: reviewCommandSchema,
} satisfies Machine<ReviewState, ReviewCommand, ReviewFact, never, ReviewRefusal>;
