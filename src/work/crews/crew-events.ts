import { z } from 'zod';
import { hasTagOf, taggedUnion } from '../../lib/tagged.ts';
import type { Tagged } from '../../lib/tagged.ts';
import {
  WORKER_CHOICES,
  STEP_KINDS,
  LEAVING_REASONS,
  WORKER_WAITS,
  assignedSchema,
  meetingSchema,
  plannedStepSchema,
  sideSchema,
  crewApprovalSchema,
  proposalSchema,
  sourceSchema,
  replySchema,
  crewSettingsSchema,
  workerQuestionSchema,
  workerStatusSchema,
  worktreeSchema,
} from './crew.ts';
import { workSchema } from '../reviews/review.ts';

const text = z.string();
const worker = text;
const epoch = z.number();
const by = text;
const instant = z.number();
const verdict = z.enum(['green', 'red', 'flaky', 'none']);
const spent = {
  input: z.number(),
  output: z.number(),
  costMicros: z.number(),
  unpriced: z.literal(true).exactOptional(),
};
const ticket = assignedSchema.omit({ at: true }).shape;

const COMMANDS = {
  CONFIGURE: { settings: crewSettingsSchema },
  /** Adds idle workers. `touches`: file patterns of the tickets that the worker gets; absent: all tickets. */
  SPAWN: { workers: z.array(z.strictObject({ name: text, agent: text, touches: z.array(text).exactOptional() })) },
  /** Starts the crew. `by`: the name of a person. `askedBy`: the person's id. */
  RUN: { by, askedBy: text.exactOptional() },
  /** Stops the crew. `now`: steps under way end at once, and are repeated later. */
  STOP: { by, now: z.literal(true).exactOptional() },
  /**
   * The result of main's tests at the commit `tip`. `since`: the commit of the crew's `base` when these tests began;
   * `null` for none. The command is refused when `since` is no longer the commit of `base`.
   */
  BASE: { since: text.nullable(), tip: text, verdict: z.enum(['green', 'red', 'none']), why: text },
  /** Main moved by a commit of Conch that changes only tickets. The test result of the commit `from` holds for `to`. */
  BASE_CARRIED: { from: text, to: text },
  /** An operator accepts main with red tests or without tests. */
  ACCEPT_BASE: { by },
  /** Asks people something about the whole crew. Replaces an earlier question about the same subject. */
  ASK: crewApprovalSchema.pick({ about: true, digest: true, what: true }).shape,
  /** Answers the question with this subject and digest. */
  APPROVE: { ...crewApprovalSchema.pick({ about: true, digest: true }).shape, allowed: z.boolean(), by },
  /** Gives a ticket to an idle worker. `deps`: the known dependencies of the ticket, each merged or closed. */
  ASSIGN: { worker, ticket: z.strictObject(ticket), deps: z.array(text).exactOptional() },
  PREPARED: { worker, ticket: text },
  /** The worker's agent has a seat on the ticket's floor. In a meeting, the agent of the other side has one, too. */
  SEATED: { worker, ticket: text },
  /** The worktree could not be made or prepared. */
  UNSTARTED: { worker, ticket: text, why: text },
  /** The floor granted the turn of the step, or resumed the turn under a new epoch. */
  GRANTED: { worker, epoch },
  SAID: { worker, epoch, text },
  /** The turn with this epoch is over. `why`: empty when it completed. */
  ENDED: { worker, epoch, how: z.enum(['completed', 'failed', 'timedOut', 'stopped']), why: text },
  /** Usage of the worker's agent, of the other side in its meetings, or of its review. `unpriced`: no known price. */
  SPENT: { worker, ...spent },
  /** Why an agent's session ended. Refused unless an error of the worker was counted at the same instant. */
  CAUSE: { worker, why: text },
  /** The worktree was measured. `epoch`: of the turn of the step that is over; `null` after a review. */
  MEASURED: { worker, epoch: epoch.nullable(), work: worktreeSchema },
  TESTED: { worker, tip: text, verdict, output: text, weakened: text },
  /** A review with the id `review` begins. `tip`: the commit that was tested. `work`: what is reviewed. */
  REVIEWING: { worker, review: text, tip: text, work: workSchema },
  /** The review is over. `tree`: the digest of the files that the review saw last; `null` for none. */
  REVIEWED: { worker, review: text, passed: z.boolean(), why: text, tree: text.nullable() },
  /** A merge begins. `lands`: the tested merge is about to become main, or is main already. */
  MERGE_STARTED: { worker, tip: text, main: text, lands: z.literal(true).exactOptional() },
  MERGED: { worker, ticket: text, commit: text },
  /**
   * The worker's commit `tip` conflicts with main: found before its tests, or by its merge. `landed`: lines on commits
   * of main since the branch began, at most 20. `hunks`: the conflict's diff, shortened. `sides`: up to three merged
   * tickets that changed these files, ordered by file, for each file the newest first.
   */
  CONFLICT: {
    worker,
    tip: text,
    files: z.array(text),
    landed: z.array(text),
    hunks: text.exactOptional(),
    sides: z.array(sideSchema).exactOptional(),
  },
  /** Conch tried to note the agreement of a meeting on both tickets. */
  NOTED: { worker, ticket: text },
  /**
   * The tests of the merged tree failed, or the commands that prepare the worktree for these tests. `landed`: lines on
   * commits of main since the branch began, at most 20.
   */
  MERGED_RED: { worker, output: text, landed: z.array(text) },
  /**
   * The merge or the pull request was refused. `weakened`: the merged tree reports fewer tests than main, or no number
   * of tests.
   */
  REFUSED: { worker, why: text, weakened: z.literal(true).exactOptional() },
  /** The pull request for a commit of the branch is open. `head`: the commit that was pushed. */
  PULLED: { worker, tip: text, head: text, number: z.int(), url: text },
  /**
   * A pull request has red checks, comments or a conflict with main. `told`: ids of the checks, comments and conflict
   * in `about`.
   */
  PULL_RETURNED: { worker, number: z.int(), kind: z.enum(['step', 'conflict']), told: z.array(text), about: text },
  /** The service reports that the pull request was merged into main as `commit`. */
  PULL_MERGED: { worker, ticket: text, number: z.int(), commit: text },
  PULL_CLOSED: { worker, number: z.int(), why: text },
  /** Main moved while the merge was made or tested, or the crew refused to go on with the merge. */
  MOVED: { worker },
  /**
   * The worktree's work is stored. The worktree is removed, unless the worker leaves after a kill. A folder with files
   * that is no worktree any more stays as it is. `kept`: the ref of the stored work; `null` for none. `branch`: the
   * branch, if the ticket's next worker goes on from its commits.
   */
  CLEARED: { worker, ticket: text, kept: text.nullable(), branch: text.exactOptional() },
  /** The worktree of the ticket is gone, or the ticket is closed when Conch opens the crew. */
  LOST: { worker, why: text },
  KILL: { worker, by },
  /**
   * Stores the work of a worker's worktree and removes the worktree, also one that a killed worker left. Refused while
   * the merge of the worker becomes main.
   */
  CLEANUP: { worker, by },
  RETRY: { worker, by, words: text },
  /**
   * Requests the merge for a worker that is done, or counts a vote for the merge. Ends a wait for people, for a review
   * or for the merge window. Asks people the question that waited for the end of the review, unless it is `merge`.
   * Refused during tests, during the recheck after a review, and while the worker's question has no choice `merge`.
   * Where votes are needed, also refused while the worker has no question. `voter`: the id of the person; `by` if
   * absent.
   */
  MERGE: { worker, by, voter: text.exactOptional() },
  ANSWER: { worker, by, voter: text.exactOptional(), choice: z.enum(WORKER_CHOICES) },
  HOLD: { worker, by },
  PERSON_WROTE: { worker },
  PROPOSE: { worker, ...proposalSchema.omit({ id: true, from: true }).shape },
  /** A person makes a ticket of a message. */
  PROPOSE_MESSAGE: { ...sourceSchema.shape, ...proposalSchema.omit({ id: true, from: true }).shape },
  /** A person's reply asks a ticket made from a message to wait for other tickets. */
  REPLY: replySchema.shape,
  /**
   * The reply `message` was checked. `why`: why the ticket cannot wait for the tickets that the reply names; empty if
   * it can.
   */
  REPLY_READ: { message: text, why: text },
  /** The proposed ticket is written. `ticket`: its id. */
  ADMITTED: { proposal: text, by, ticket: text },
  KEPT_DROPPED: { ref: text },
  DROP: { proposal: text, by },
  /** Tells people something about the repository, or (`ticket`) about the work on one ticket. */
  NOTE: { text, ticket: text.exactOptional() },
  /** Pauses the crew: another crew learned that the agents' provider takes no work until `until`. */
  PAUSE: { until: instant, why: text },
  TICK: {},
};

/** The fields of each fact. */
const CREW_FACTS = {
  crewConfigured: COMMANDS.CONFIGURE,
  runnerSet: { running: z.boolean(), by, askedBy: text.exactOptional() },
  workerAdded: { worker, agent: text, touches: z.array(text).exactOptional() },
  baseTested: { tip: text, verdict: z.enum(['green', 'red', 'none', 'accepted']), why: text },
  approvalAsked: COMMANDS.ASK,
  approvalGiven: COMMANDS.APPROVE,
  ticketAssigned: { worker, ticket: assignedSchema, maxSteps: z.int() },
  workerMoved: { worker, from: workerStatusSchema, to: workerStatusSchema, trigger: text },
  worktreeMade: { worker },
  workerSeated: { worker },
  stepAsked: { worker, kind: z.enum(STEP_KINDS), about: text },
  /** The floor is asked for the turn of the step. `left`: the rest of the budgets, in words; absent without budgets. */
  stepSent: { worker, left: text.exactOptional() },
  /** A person, or a meeting's end or agreement, ends the step. `epoch`: that of its turn; `null` before the grant. */
  stepCut: { worker, epoch: epoch.nullable(), by },
  stepBegun: { worker, epoch },
  stepHeard: { worker, epoch, signalled: z.boolean(), broken: text.exactOptional() },
  discovered: { worker, ticket: text, text },
  stepOver: { worker, epoch },
  /** A turn that counts as no step ended. The step is queued again. */
  stepPutBack: { worker, why: text },
  spent: { worker, ...spent },
  errorCounted: { worker, errors: z.int(), retryAt: instant.nullable(), why: text },
  /** The reason for the error that was counted last. `unresumed`: the session could not be resumed. */
  errorExplained: { worker, why: text, unresumed: z.literal(true).exactOptional() },
  errorForgiven: { worker },
  /** `budget`: the crew waits for the next day, not for the agents' provider. */
  paused: { until: instant, why: text, budget: z.literal(true).exactOptional() },
  pauseOver: {},
  noted: { text, ticket: text.exactOptional() },
  ticketProposed: { worker, ...proposalSchema.shape },
  messageProposed: { ...sourceSchema.shape, ...proposalSchema.omit({ from: true }).shape },
  proposalAdmitted: { proposal: text, by, ticket: text },
  ticketReplied: COMMANDS.REPLY,
  /** The answer to a reply. `why`: why the ticket does not wait for `deps`; empty when it does. */
  replyAnswered: { message: text, channel: text, ticket: text, deps: z.array(text), by, why: text },
  keptDropped: { ref: text },
  proposalDropped: { proposal: text, by },
  retryDue: { worker },
  /** The step is tried again with a new session. */
  sessionRenewed: { worker, retryAt: instant, why: text },
  workMeasured: { worker, work: worktreeSchema, unchanged: z.int(), unfinished: z.boolean() },
  tested: { worker, tip: text, verdict, output: text },
  /** A worker's work needs a review. `question`: the question to people after the review; `null` for none. */
  reviewDue: { worker, question: workerQuestionSchema.nullable() },
  reviewBegun: { worker, review: text, work: workSchema },
  reviewOver: { worker, passed: z.boolean(), why: text, tree: text.nullable() },
  /** The command `MERGE` ended a review early. `review`: the id of the review, which is cancelled. */
  reviewCut: { worker, review: text, by },
  /** People are asked. `step`: the step that follows when they say "continue"; absent for a step of kind `step`. */
  waited: { worker, for: z.enum(WORKER_WAITS), why: text, step: plannedStepSchema.exactOptional() },
  /**
   * `unaccepted`: the choice `merge` does not accept weaker tests. Absent: it does, also in facts of earlier versions.
   */
  waitOver: { worker, by, choice: z.enum(WORKER_CHOICES), unaccepted: z.literal(true).exactOptional() },
  stepsAdded: { worker, maxSteps: z.int() },
  voted: { worker, voter: text, by, tip: text },
  /** Votes for an earlier commit no longer count. */
  votesVoided: { worker, tip: text, votes: z.int() },
  /** The merge of the work comes next, or its merge window moved. `at`: the end of the window; absent for none. */
  mergeAsked: { worker, at: instant.exactOptional() },
  /** The merge window is over: the merge may begin. */
  mergeDue: { worker },
  /** A person holds a merge that is not due yet. */
  mergeHeld: { worker, by },
  mergeStarted: { worker, tip: text, main: text, lands: z.literal(true).exactOptional() },
  mergeDropped: { worker, why: text },
  conflicted: { worker, round: z.int(), files: z.array(text) },
  /** A meeting about the conflict begins before the worker resolves it. */
  meetingCalled: { worker, ...meetingSchema.shape },
  agreed: { worker, text },
  /** A meeting ended. `agreed`: the agreement; empty for none. `why`: the reason; empty after the command `NOTED`. */
  meetingOver: { worker, agreed: text, why: text },
  /** The work was merged. `pull`: the number of the pull request, if a service merged it. */
  merged: { worker, ticket: text, commit: text, pull: z.int().exactOptional() },
  pullOpened: { worker, tip: text, head: text, number: z.int(), url: text },
  pullReturned: { worker, number: z.int(), round: z.int(), told: z.array(text), about: text },
  pullClosed: { worker, number: z.int(), why: text },
  leaving: { worker, why: z.enum(LEAVING_REASONS), words: text },
  /**
   * A worktree's work was stored. `kept`: the ref of the stored work; `null` when there was no work to store, or the
   * crew has the ref. `stays`: the worktree stays, because the worker was killed. `branch`: the branch, if the ticket's
   * next worker goes on from its commits.
   */
  worktreeCleared: {
    worker,
    ticket: text,
    kept: text.nullable(),
    branch: text.exactOptional(),
    stays: z.literal(true).exactOptional(),
  },
  /** A person wants the worktree removed that a killed worker left. */
  removalAsked: { worker, by },
};

export type CrewCommand = Tagged<'type', typeof COMMANDS>;
export type CrewFact = Tagged<'type', typeof CREW_FACTS>;
export type CrewCommandOf<T extends CrewCommand['type']> = Extract<CrewCommand, { readonly type: T }>;
export type CrewFactOf<T extends CrewFact['type']> = Extract<CrewFact, { readonly type: T }>;

/** Returns whether a value is a command of a crew. Checks its type only. */
export const isCrewCommand = hasTagOf('type', COMMANDS);
export const crewFactSchema = taggedUnion('type', CREW_FACTS);

/** Why a command was refused. A refusal changes nothing. */
const CREW_REFUSALS = [
  'UNCHANGED',
  'NO_WORKER',
  'NAME_TAKEN',
  'NOT_IDLE',
  'NOT_RUNNING',
  'TICKET_TAKEN',
  'TICKET_WAITS',
  'TICKET_FINISHED',
  'BASE_RED',
  'BASE_UNTESTED',
  'BASE_OUTDATED',
  'NOT_ITS_STEP',
  'INVALID_TRANSITION',
  'NOT_WAITING',
  'NO_SUCH_CHOICE',
  'MERGE_UNDER_WAY',
  'NOTHING_TO_HOLD',
  'NOT_MERGING',
  'UNTESTED',
  'NOT_DUE',
  'NO_PROPOSAL',
  'NO_APPROVAL',
  'TOO_MANY_PROPOSALS',
] as const;

export type CrewRefusal = (typeof CREW_REFUSALS)[number];
