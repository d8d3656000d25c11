import { z } from 'zod';
import { hasTagOf, taggedUnion } from '../../lib/tagged.ts';
import type { Tagged } from '../../lib/tagged.ts';
import {
  LONGEST_TASK,
  MOST_ITERATIONS,
  REVIEW_STATUSES,
  WAITS,
  findingSchema,
  settingsSchema,
  ticketSchema,
  workSchema,
} from './review.ts';
import { REVIEW_OUTCOMES } from '../../turns/floor/announcement.ts';
import type { InvalidTransition } from './review.ts';
import {
  MOST_FINDINGS,
  REVIEW_VERDICTS,
  TURN_PURPOSES,
  answeredFindingSchema,
  reportedFindingSchema,
} from '../../turns/text/review-signals.ts';

const text = z.string();
const agent = z.string();
const epoch = z.number();
const by = text;

const signalled = {
  signal: z.enum(['done', ...REVIEW_VERDICTS]).nullable(),
  broken: text.exactOptional(),
  reason: text.exactOptional(),
  findings: z.array(reportedFindingSchema).max(MOST_FINDINGS).exactOptional(),
  answers: z.array(answeredFindingSchema).max(MOST_FINDINGS).exactOptional(),
};

const spent = { tokens: z.number(), costMicros: z.number(), unpriced: z.literal(true).exactOptional() };
const COMMANDS = {
  START: {
    id: text.min(1),
    primary: agent,
    reviewer: agent,
    task: text.min(1).max(LONGEST_TASK),
    by,
    settings: settingsSchema,
    textOnly: z.literal(true).exactOptional(),
    sameModel: text.exactOptional(),
    ticket: ticketSchema.exactOptional(),
    /** Work that is finished already: the review then begins with the turn of the reviewer. */
    work: workSchema.exactOptional(),
  },
  /** Both agents are in the queue with an open session. */
  READY: {},
  /** Git cannot read the work of this agent, for the reason in `why`. The review fails. */
  UNABLE: { agent, why: text },
  /** An agent of the review is not available for now. */
  LOST: { agent, why: text },
  /** Both agents are available again. */
  BACK: {},
  /** The floor granted the turn that the review asked for, or goes on with it under a new epoch. */
  GRANTED: { agent, epoch },
  /** The agent said a text in the turn with this epoch. */
  SAID: { agent, epoch, text },
  /**
   * The turn with this epoch has ended. `completed`: false when, for example, the agent failed, the turn timed out, or
   * a person skipped it.
   */
  ENDED: { agent, epoch, completed: z.boolean() },
  /** The work after the turn with this epoch; `null` when the primary agent works in no repository. */
  MEASURED: { epoch, work: workSchema.nullable() },
  /**
   * The tokens and the cost that an agent of the review used. `unpriced`: the price is unknown, so `costMicros` is 0.
   */
  SPENT: spent,
  /** A budget of the channel is used up. */
  BUDGET: { why: text },
  /** The channel's budgets allow turns again. */
  RAISED: {},
  ACCEPT: { by },
  /** A person decides for the reviewer: the primary agent works on its findings. */
  UPHOLD: { by },
  /** Allows more iterations. Also ends a wait for a person's decision or for a budget. */
  MORE: { by, iterations: z.int().min(1).max(MOST_ITERATIONS) },
  CANCEL: { by, reason: text },
  TICK: {},
};

/** The fields of each fact as stored. */
export const REVIEW_FACTS = {
  reviewStarted: COMMANDS.START,
  reviewMoved: { from: z.enum(REVIEW_STATUSES), to: z.enum(REVIEW_STATUSES), trigger: text },
  /** The reviewer is not available, and another agent reviews in its place. */
  reviewerReplaced: { reviewer: agent, why: text },
  iterationBegun: { iteration: z.int() },
  turnAsked: {
    agent,
    purpose: z.enum(TURN_PURPOSES),
    retried: z.boolean(),
    /** Why the reviewer's turn before this one gave no usable verdict, or why its verdict is void. */
    fault: text.exactOptional(),
  },
  turnGranted: { agent, epoch },
  /** `digest`: of the primary agent's texts; empty for the reviewer. */
  turnHeard: { agent, epoch, ...signalled, digest: text },
  /** An agent wrote a signal that is not its own to give. The signal counts as text. */
  signalIgnored: { agent, epoch, signal: text },
  turnOver: { agent, epoch },
  workMeasured: { work: workSchema },
  /** The work changed while it was reviewed, so the verdict is void. `last`: the review is not repeated. */
  verdictVoided: { tree: text, last: z.literal(true).exactOptional() },
  /** `reason`: the reason for the verdict, if it is not the one in the reviewer's turn. */
  verdictGiven: { verdict: z.enum(REVIEW_VERDICTS), tree: text, reason: text.exactOptional() },
  doneSignalled: { tree: text },
  findingsKept: { findings: z.array(findingSchema) },
  unchangedCounted: { unchanged: z.int() },
  waited: { for: z.enum(WAITS), why: text, until: z.number().nullable(), away: agent.exactOptional() },
  waitOver: { by: text.nullable() },
  iterationsAdded: { by, iterations: z.int() },
  spent,
  reviewEnded: { kind: z.enum(REVIEW_OUTCOMES), why: text, by: text.nullable() },
};

export type ReviewCommand = Tagged<'type', typeof COMMANDS>;
export type ReviewFact = Tagged<'type', typeof REVIEW_FACTS>;
export type ReviewCommandOf<T extends ReviewCommand['type']> = Extract<ReviewCommand, { readonly type: T }>;
export type ReviewFactOf<T extends ReviewFact['type']> = Extract<ReviewFact, { readonly type: T }>;

/** Returns whether a value is a command of a review. Checks its type only. */
export const isReviewCommand = hasTagOf('type', COMMANDS);
export const reviewFactSchema = taggedUnion('type', REVIEW_FACTS);

/** Why a command was refused. A refusal changes nothing. */
const REVIEW_REFUSALS = [
  'REVIEW_OPEN',
  'NO_REVIEW',
  'SAME_AGENT',
  'NOT_ITS_TURN',
  'NOT_WAITING',
  'TOO_MANY_ITERATIONS',
  'NOT_DUE',
  'UNCHANGED',
] as const;

export type ReviewRefusal = (typeof REVIEW_REFUSALS)[number] | InvalidTransition;
