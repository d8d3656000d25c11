import { z } from 'zod';
import { hasTagOf, taggedUnion } from '../../lib/tagged.ts';
import type { Tagged } from '../../lib/tagged.ts';
import {
  WORKER_CHOICES,
  STEP_KINDS,
  LEAVING_REASONS,
  WORKER_WAITS,
  WORKER_SYMBOLS,
  assignedSchema,
  meetingSchema,
  sideSchema,
  crewApprovalSchema,
  proposalSchema,
  sourceSchema,
  replySchema,
  crewSettingsSchema,
  workerQuestionSchema,
  worktreeSchema,
} from './crew.ts';
import { workSchema } from '../reviews/review.ts';
import type { WorkerStatus } from './crew.ts';

const text = z.string();
const worker = text;
const epoch = z.number();
const by = text;
const instant = z.number();
const status = z.enum(Object.keys(WORKER_SYMBOLS) as [WorkerStatus, ...WorkerStatus[]]);
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
  /** Adds idle workers. `agent` is the id of each one's agent; `touches` as in the worker. */
  SPAWN: { workers: z.array(z.strictObject({ name: text, agent: text, touches: z.array(text).exactOptional() })) },
  /** `askedBy`: the id of the operator who asks for it. */
  RUN: { by, askedBy: text.exactOptional() },
  /** `now`: steps under way end at once, and are repeated later. */
  STOP: { by, now: z.literal(true).exactOptional() },
  /**
   * The result of main's tests at the commit `tip`. `since`: the last tested commit when these tests began; `null` for
   * none. The command is refused when another commit was tested since.
   */
  BASE: { since: text.nullable(), tip: text, verdict: z.enum(['green', 'red', 'none']), why: text },
  /** A commit of Conch that changes only tickets moved main, so the result of its tests is still right. */
  BASE_CARRIED: { from: text, to: text },
  /** An operator lets tickets start although the tests of main are red. */
  ACCEPT_BASE: { by },
  /** Asks people something about the whole crew. Replaces an earlier question about the same subject. */
  ASK: crewApprovalSchema.pick({ about: true, digest: true, what: true }).shape,
  /** Answers the question with this digest. */
  APPROVE: { ...crewApprovalSchema.pick({ about: true, digest: true }).shape, allowed: z.boolean(), by },
  /** Gives a ticket to an idle worker. `deps`: the tickets that it was seen to depend on, all of them merged. */
  ASSIGN: { worker, ticket: z.strictObject(ticket), deps: z.array(text).exactOptional() },
  /** The worktree is made. */
  PREPARED: { worker, ticket: text },
  /** The agent has a seat on the ticket's floor. */
  SEATED: { worker, ticket: text },
  /** The worktree could not be made. */
  UNSTARTED: { worker, ticket: text, why: text },
  /** The floor granted the step, or goes on with it under a new epoch. */
  GRANTED: { worker, epoch },
  /** The agent said a text in the turn with this epoch. */
  SAID: { worker, epoch, text },
  /** That turn is over. */
  ENDED: { worker, epoch, how: z.enum(['completed', 'failed', 'timedOut', 'stopped']), why: text },
  /** `unpriced`: its price is unknown, so `costMicros` is 0. */
  SPENT: { worker, ...spent },
  /** Why the session of a turn that just failed ended. */
  CAUSE: { worker, why: text },
  /** `epoch`: the turn of the step that is over; `null` after a review. */
  MEASURED: { worker, epoch: epoch.nullable(), work: worktreeSchema },
  TESTED: { worker, tip: text, verdict, output: text, weakened: text },
  /** What is reviewed next, and the id of the review. `tip`: the commit that was tested. */
  REVIEWING: { worker, review: text, tip: text, work: workSchema },
  /** The review is over. `tree`: the digest of the files that it saw last. */
  REVIEWED: { worker, review: text, passed: z.boolean(), why: text, tree: text.nullable() },
  MERGE_STARTED: { worker, tip: text, main: text },
  MERGED: { worker, ticket: text, commit: text },
  /**
   * A commit cannot be merged: found before its tests, or by its merge. `hunks`: the lines in conflict. `sides`: the merged
   * tickets that the work conflicts with, newest first.
   */
  CONFLICT: {
    worker,
    tip: text,
    files: z.array(text),
    landed: z.array(text),
    hunks: text.exactOptional(),
    sides: z.array(sideSchema).exactOptional(),
  },
  /** The agreement of a meeting was noted on both tickets, or people were told why it was not. */
  NOTED: { worker, ticket: text },
  /** The tests of the merged tree are red. `landed`: tickets that were merged since the branch began. */
  MERGED_RED: { worker, output: text, landed: z.array(text) },
  /** The merge was not made. */
  REFUSED: { worker, why: text, weakened: z.literal(true).exactOptional() },
  /** The pull request for a commit of the branch is open. `head`: the commit that was pushed. */
  PULLED: { worker, tip: text, head: text, number: z.int(), url: text },
  /** Checks are red, there are comments, or main conflicts. `told`: ids of what the worker is told of now. */
  PULL_RETURNED: { worker, number: z.int(), kind: z.enum(['step', 'conflict']), told: z.array(text), about: text },
  /** The service says that the request was merged into main, and as which commit. */
  PULL_MERGED: { worker, ticket: text, number: z.int(), commit: text },
  PULL_CLOSED: { worker, number: z.int(), why: text },
  /** Main moved while the merge was tested. */
  MOVED: { worker },
  /**
   * The worktree is stored, and removed unless it stays. `kept`: the ref of its work, if it had any that is in no commit.
   * `branch`: the branch, if it stays with commits that main lacks.
   */
  CLEARED: { worker, ticket: text, kept: text.nullable(), branch: text.exactOptional() },
  /** The worktree of the ticket was removed, or the ticket was closed meanwhile. */
  LOST: { worker, why: text },
  KILL: { worker, by },
  /** Removes the worktree in any state. */
  CLEANUP: { worker, by },
  RETRY: { worker, by, words: text },
  /**
   * Merges the branch of a worker that is done, or counts a vote for the merge. Ends a wait for people, for a review
   * or for the merge window. Refused while the worker waits because of red tests. `voter`: the id of the person; `by`
   * if absent.
   */
  MERGE: { worker, by, voter: text.exactOptional() },
  ANSWER: { worker, by, voter: text.exactOptional(), choice: z.enum(WORKER_CHOICES) },
  /** A person does not want the work merged for now. */
  HOLD: { worker, by },
  /** A person wrote in the thread of the worker's ticket. */
  PERSON_WROTE: { worker },
  /** A worker proposes a ticket. */
  PROPOSE: { worker, ...proposalSchema.omit({ id: true, from: true }).shape },
  /** A person makes a ticket of a message. */
  PROPOSE_MESSAGE: { ...sourceSchema.shape, ...proposalSchema.omit({ id: true, from: true }).shape },
  /** A person's reply adds dependencies to a ticket that was made from a message. */
  REPLY: replySchema.shape,
  /** The reply `message` was compared with all tickets. `why`: why the ticket cannot wait for these; empty when it can. */
  REPLY_READ: { message: text, why: text },
  /** The proposed ticket is written. `ticket`: its id. */
  ADMITTED: { proposal: text, by, ticket: text },
  /** A person deleted stored work. */
  KEPT_DROPPED: { ref: text },
  DROP: { proposal: text, by },
  /** Tells people something about the repository, or (`ticket`) about the work on one ticket. */
  NOTE: { text, ticket: text.exactOptional() },
  /** The agents' provider takes no work until then, as another crew has found out. */
  PAUSE: { until: instant, why: text },
  TICK: {},
};

/** The fields of each fact as stored. */
export const CREW_FACTS = {
  crewConfigured: COMMANDS.CONFIGURE,
  runnerSet: { running: z.boolean(), by, askedBy: text.exactOptional() },
  workerAdded: { worker, agent: text, touches: z.array(text).exactOptional() },
  baseTested: { tip: text, verdict: z.enum(['green', 'red', 'none', 'accepted']), why: text },
  approvalAsked: COMMANDS.ASK,
  approvalGiven: COMMANDS.APPROVE,
  ticketAssigned: { worker, ticket: assignedSchema, maxSteps: z.int() },
  workerMoved: { worker, from: status, to: status, trigger: text },
  worktreeMade: { worker },
  workerSeated: { worker },
  stepAsked: { worker, kind: z.enum(STEP_KINDS), about: text },
  /** The floor is asked for the turn of the step. `left`: what is left of its budgets, in words. */
  stepSent: { worker, left: text.exactOptional() },
  /** A person ends the step. `epoch`: its turn; `null` when the floor has not granted it. */
  stepCut: { worker, epoch: epoch.nullable(), by },
  stepBegun: { worker, epoch },
  stepHeard: { worker, epoch, signalled: z.boolean(), broken: text.exactOptional() },
  /** A worker found something out that others should know. */
  discovered: { worker, ticket: text, text },
  stepOver: { worker, epoch },
  /** A turn ended that counts as no step: the step is asked again. */
  stepPutBack: { worker, why: text },
  spent: { worker, ...spent },
  errorCounted: { worker, errors: z.int(), retryAt: instant.nullable(), why: text },
  /** Explains the error that was counted last. `unresumed`: the session could not be resumed. */
  errorExplained: { worker, why: text, unresumed: z.literal(true).exactOptional() },
  /** The error that was just counted is none. */
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
  /** The work is reviewed before it is merged. `question`: what people are asked after the review. */
  reviewDue: { worker, question: workerQuestionSchema.nullable() },
  reviewBegun: { worker, review: text, work: workSchema },
  reviewOver: { worker, passed: z.boolean(), why: text, tree: text.nullable() },
  /** People merge the work without waiting for the review. */
  reviewCut: { worker, review: text, by },
  waited: { worker, for: z.enum(WORKER_WAITS), why: text },
  waitOver: { worker, by, choice: z.enum(WORKER_CHOICES) },
  stepsAdded: { worker, maxSteps: z.int() },
  /** An operator voted to merge the commit `tip`. */
  voted: { worker, voter: text, by, tip: text },
  /** Votes for an earlier commit no longer count. */
  votesVoided: { worker, tip: text, votes: z.int() },
  /** The merge of the work was requested. `at`: the merge begins no earlier. */
  mergeAsked: { worker, at: instant.exactOptional() },
  /** The merge window is over: the merge may begin. */
  mergeDue: { worker },
  /** A person holds a merge that is not due yet. */
  mergeHeld: { worker, by },
  mergeStarted: { worker, tip: text, main: text },
  mergeDropped: { worker, why: text },
  conflicted: { worker, round: z.int(), files: z.array(text) },
  /** A meeting about the conflict begins before the worker resolves it. */
  meetingCalled: { worker, ...meetingSchema.shape },
  /** The worker wrote what the meeting agrees on. */
  agreed: { worker, text },
  /** `agreed`: empty when nothing was. `why`: what ended it. */
  meetingOver: { worker, agreed: text, why: text },
  /** `pull`: the number of the pull request that the service merged. */
  merged: { worker, ticket: text, commit: text, pull: z.int().exactOptional() },
  pullOpened: { worker, tip: text, head: text, number: z.int(), url: text },
  pullReturned: { worker, number: z.int(), round: z.int(), told: z.array(text), about: text },
  pullClosed: { worker, number: z.int(), why: text },
  leaving: { worker, why: z.enum(LEAVING_REASONS), words: text },
  /**
   * A worktree was stored. `kept`: the ref of the stored work; `null` when nothing was to be stored, or people know the
   * ref. `stays`: the worktree was not removed; that happens before the worker's next ticket. `branch`: as in `CLEARED`.
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
export const CREW_REFUSALS = [
  'UNCHANGED',
  'NO_WORKER',
  'NAME_TAKEN',
  'NOT_IDLE',
  'NOT_RUNNING',
  'TICKET_TAKEN',
  'TICKET_WAITS',
  'TICKET_FINISHED',
  'BASE_RED',
  'BASE_OUTDATED',
  'NOT_ITS_STEP',
  'INVALID_TRANSITION',
  'NOT_WAITING',
  'NO_SUCH_CHOICE',
  'MERGE_UNDER_WAY',
  'NOT_MERGING',
  'NOT_DUE',
  'NO_PROPOSAL',
  'NO_APPROVAL',
  'TOO_MANY_PROPOSALS',
] as const;

export type CrewRefusal = (typeof CREW_REFUSALS)[number];
