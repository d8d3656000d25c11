import { z } from 'zod';
import type { Frozen } from '../../lib/tagged.ts';
import { REVIEW_OUTCOMES } from '../../turns/floor/announcement.ts';
import {
  REVIEW_VERDICTS,
  TURN_PURPOSES,
  answeredFindingSchema,
  reportedFindingSchema,
  signalWordsSchema,
} from '../../turns/text/review-signals.ts';

/** The five states of a review, as the specification names them. */
export const REVIEW_STATUSES = ['init', 'working', 'reviewing', 'complete', 'failed'] as const;

export type ReviewStatus = (typeof REVIEW_STATUSES)[number];

type Row = { readonly from: ReviewStatus; readonly to: ReviewStatus; readonly trigger: string };

/** The specification's eight transitions, with its words for their triggers. All others are refused. */
export const REVIEW_TRANSITIONS: readonly Row[] = [
  { from: 'init', to: 'working', trigger: 'Agents started successfully' },
  { from: 'init', to: 'failed', trigger: 'Agent failed to start' },
  { from: 'working', to: 'reviewing', trigger: 'Primary agent finished iteration' },
  { from: 'working', to: 'complete', trigger: 'Primary agent signaled DONE' },
  { from: 'working', to: 'failed', trigger: 'Agent error or max iterations' },
  { from: 'reviewing', to: 'working', trigger: 'Review requires more work' },
  { from: 'reviewing', to: 'complete', trigger: 'Review passed (PASS signal)' },
  { from: 'reviewing', to: 'failed', trigger: 'Unrecoverable review failure' },
];

/** The trigger of a transition; `null` when the specification does not list it. */
export function triggerOf(from: ReviewStatus, to: ReviewStatus): string | null {
  return REVIEW_TRANSITIONS.find((row) => row.from === from && row.to === to)?.trigger ?? null;
}

/** The refusal of a transition that the specification does not list, with its two states. */
export type InvalidTransition = `InvalidTransition: ${ReviewStatus} to ${ReviewStatus}`;

/** The refusal to move from one state to another. */
export function invalidTransition(from: ReviewStatus, to: ReviewStatus): InvalidTransition {
  return `InvalidTransition: ${from} to ${to}`;
}

/** Whether a refusal is of a transition that the specification does not list. */
export function isInvalidTransition(refusal: string): refusal is InvalidTransition {
  return refusal.startsWith('InvalidTransition: ');
}

/** The specification's run state for each state of a review. */
export const RUN_STATES: Readonly<Record<ReviewStatus, string>> = {
  init: 'submitted',
  working: 'working',
  reviewing: 'reviewing',
  complete: 'completed',
  failed: 'failed',
};

const UNTILS = ['signal', 'review', 'consensus'] as const;
const ON_FAILS = ['stop', 'revise'] as const;
const SESSIONS = ['fresh', 'resume'] as const;
/**
 * What a review can wait for. `agents`: both agents. `agent`: an agent that is not available. `arbiter`, `fail`: a
 * person's decision. `budget`: a limit of the channel was reached. `provider`: an agent's provider takes no work until
 * the wait ends.
 */
export const WAITS = ['agents', 'agent', 'provider', 'arbiter', 'fail', 'budget'] as const;

/** The most iterations of a review, those that people added included. */
export const MOST_ITERATIONS = 100;
/** The longest task, in UTF-16 units. */
export const LONGEST_TASK = 100_000;

const text = z.string();
const agent = z.string();
const instant = z.number();
const count = z.int().min(0);

/**
 * A finding in the ledger of a review. `blocks`: the primary agent is asked to answer the finding before its DONE
 * counts, and REVISE does not count as a pass.
 */
export const findingSchema = z.strictObject({
  ...reportedFindingSchema.shape,
  id: text,
  status: z.enum(['new', 'persisting', 'fixed', 'disputed', 'reappeared']),
  blocks: z.boolean(),
  /** The iteration in which the finding was first reported. */
  opened: count,
  /**
   * How often the primary agent disputed the finding. A person's decision about repeated disputes sets the number to 0.
   * `reason`: the agent's last reason.
   */
  disputes: count,
  reason: text.exactOptional(),
});

/**
 * What is reviewed, at one instant. `tree`: the digest of the files, or of the primary agent's text without a
 * repository. `commit`: a commit with that tree, for the reviewer to read; `null` without a repository.
 */
export const workSchema = z.strictObject({
  tree: text,
  commit: text.nullable(),
  /**
   * Files that differ from the work of the newest verdict, void verdicts left out. `lines`: the new or changed lines;
   * absent when they are too many. `changed` is absent before the first verdict, without a repository, and when too
   * many files differ.
   */
  changed: z.array(z.strictObject({ file: text, lines: z.array(z.int()).exactOptional() })).exactOptional(),
  /** The folder in which the reviewer reads the files of the commit. */
  folder: text.exactOptional(),
  /**
   * The changes since the work of the newest verdict, void verdicts left out, as git shows them. Cut if they are long.
   * Absent before the first verdict, and without a repository.
   */
  diff: text.exactOptional(),
});

/** The crew that asked for a review, and the id of its ticket's task on the floor. */
export const ticketSchema = z.strictObject({ crew: text, task: text });

export const settingsSchema = z.strictObject({
  maxIterations: z.int().min(1).max(MOST_ITERATIONS),
  until: z.enum(UNTILS),
  onFail: z.enum(ON_FAILS),
  signals: signalWordsSchema,
  /** Iterations in a row with a tree that was reviewed before, after which the review is stalled. */
  patience: z.int().min(1),
  /** How long a review waits for agents and people, in milliseconds. */
  waitMs: z.number(),
  /** Whether the reviewer remembers its earlier turns ("resume") or gets a new session for each review ("fresh"). */
  session: z.enum(SESSIONS).exactOptional(),
  /** The agent that reviews when the reviewer's provider takes no work, or the reviewer is unavailable at the start. */
  fallback: text.exactOptional(),
});

const iterationSchema = z.strictObject({
  startedAt: instant,
  endedAt: instant.nullable(),
  tree: text.nullable(),
  /** The commit of the tree, and how many blocking findings were open at the end of the iteration. */
  commit: text.nullable(),
  blocking: count,
  verdict: z.enum(REVIEW_VERDICTS).nullable(),
  opened: count,
  fixed: count,
  disputed: count,
  reappeared: count,
  /** Why a signal in the primary agent's last turn could not be used. The agent reads this in its next turn. */
  fault: text.exactOptional(),
  /** The number of reviews that are void because the work changed during them, 3 at most. Absent: none. */
  voided: count.exactOptional(),
});

const turnSchema = z.strictObject({
  agent,
  /** What the turn is for. `repair`: the agent gave no usable verdict. `answers`: it left findings unanswered. */
  purpose: z.enum(TURN_PURPOSES),
  /** The newest epoch of the turn; `null` until the floor has granted it. */
  epoch: z.number().nullable(),
  /** True when the turn was asked for again because it was not completed the first time. */
  retried: z.boolean(),
  /** Why the reviewer's turn before this one gave no usable verdict, or why its verdict is void. */
  fault: text.exactOptional(),
  /** What the agent has signalled in its texts under this epoch. */
  heard: z
    .strictObject({
      signal: z.enum(['done', ...REVIEW_VERDICTS]).nullable(),
      /** Why the last text has no usable signal. */
      broken: text.exactOptional(),
      reason: text.exactOptional(),
      findings: z.array(reportedFindingSchema),
      answers: z.array(answeredFindingSchema),
      /** The digest of the primary agent's texts, which are the work without a repository; '' for the reviewer. */
      digest: text,
    })
    .exactOptional(),
  /** Set when the turn is over, until its work is measured. */
  ended: z.literal(true).exactOptional(),
});

const waitingSchema = z.strictObject({
  for: z.enum(WAITS),
  why: text,
  /** The deadline of the wait; `null` for none. */
  until: instant.nullable(),
  /** The agent that is not available, in a wait for both agents or for a provider. */
  away: agent.exactOptional(),
});

const reviewSchema = z.strictObject({
  id: text,
  primary: agent,
  reviewer: agent,
  task: text,
  /** The id of the person who asked for the review, or last started the ticket's crew; empty when unknown. */
  by: text,
  /** Set when the primary agent only speaks, or is remote: its texts are the work. */
  textOnly: z.literal(true).exactOptional(),
  /**
   * Set when the primary agent and the reviewer had the same model at the start of the review: its name. Absent for
   * different or unknown models, and for the review of a ticket.
   */
  sameModel: text.exactOptional(),
  ticket: ticketSchema.exactOptional(),
  settings: settingsSchema,
  status: z.enum(REVIEW_STATUSES),
  startedAt: instant,
  /** The number of the newest iteration; 0 before the first. */
  iteration: count,
  iterations: z.array(iterationSchema),
  turn: turnSchema.nullable(),
  waiting: waitingSchema.nullable(),
  /** The work when it was last measured. */
  work: workSchema.nullable(),
  /** The work of the newest verdict that is not void, without its `diff`; `null` before the first such verdict. */
  reviewed: workSchema.nullable(),
  /** The newest verdict; `null` before it, and when the work has changed since or the verdict is void. */
  verdict: z.strictObject({ verdict: z.enum(REVIEW_VERDICTS), tree: text, reason: text }).nullable(),
  /** The tree for which a DONE of the primary agent counts in this iteration; `null` for none. */
  done: text.nullable(),
  findings: z.array(findingSchema),
  /** Iterations in a row with a tree that was reviewed before. A person's decision sets the number to 0. */
  unchanged: count,
  usage: z.strictObject({ turns: count, tokens: z.number(), costMicros: z.number() }),
  outcome: z.strictObject({ kind: z.enum(REVIEW_OUTCOMES), why: text, at: instant }).nullable(),
});

/** The reviews of one channel: the open one or the last one, and how many there were. */
export const reviewStateSchema = z.strictObject({ channel: text, count, review: reviewSchema.nullable() });

export type Review = Frozen<z.infer<typeof reviewSchema>>;
export type ReviewState = Frozen<z.infer<typeof reviewStateSchema>>;
type RunningReview = Review & { readonly status: 'init' | 'working' | 'reviewing' };
export type ReviewSettings = Review['settings'];
export type ReviewTurn = NonNullable<Review['turn']>;
export type Heard = NonNullable<ReviewTurn['heard']>;
export type Finding = Review['findings'][number];
export type ReviewedWork = NonNullable<Review['work']>;
export type ReviewOutcome = (typeof REVIEW_OUTCOMES)[number];

/** The reviews of a channel in which there was none. */
export function emptyReviews(channel: string): ReviewState {
  return { channel, count: 0, review: null };
}

/** Whether a review is neither complete nor failed. */
export function isOpen(review: Review | null): review is RunningReview {
  return review !== null && review.status !== 'complete' && review.status !== 'failed';
}

/** Whether an agent is one of the two agents of a review. */
export function isMember({ primary, reviewer }: Pick<Review, 'primary' | 'reviewer'>, id: string): boolean {
  return id === primary || id === reviewer;
}

/** Whether a review with this wait continues only by a person's decision. */
export function asksPeople(waiting: Pick<NonNullable<Review['waiting']>, 'for'> | null): boolean {
  return waiting?.for === 'arbiter' || waiting?.for === 'fail';
}

/** The findings that are not fixed, also those that the primary agent disputes. */
export function openFindings({ findings }: Pick<Review, 'findings'>): readonly Finding[] {
  return findings.filter(({ status }) => status !== 'fixed');
}
