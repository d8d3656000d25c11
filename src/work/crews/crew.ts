import { z } from 'zod';
import { dollars } from '../../turns/crew-view.ts';
import { defined } from '../../lib/defined.ts';
import type { Frozen } from '../../lib/tagged.ts';
import { overlap } from './tickets/ticket.ts';
import { settingsSchema as reviewSettingsSchema } from '../reviews/review.ts';

/** The five states of a worker, with their symbols in the specification. */
export const WORKER_SYMBOLS = { idle: '○', ready: '◐', working: '●', done: '✓', stuck: '!' } as const;

export type WorkerStatus = keyof typeof WORKER_SYMBOLS;

/** A worker's state in stored facts and states. */
export const workerStatusSchema = z.enum(Object.keys(WORKER_SYMBOLS) as [WorkerStatus, ...WorkerStatus[]]);

const WORKER_TRANSITIONS: Readonly<Record<WorkerStatus, readonly WorkerStatus[]>> = {
  idle: ['ready'],
  ready: ['working', 'idle'],
  working: ['done', 'stuck', 'idle'],
  done: ['working', 'idle', 'stuck'],
  stuck: ['working', 'idle'],
};

/** Whether a worker can move from one state to another. */
export function isTransition(from: WorkerStatus, to: WorkerStatus): boolean {
  return WORKER_TRANSITIONS[from].includes(to);
}

const BACKOFF_SECONDS = [2, 4, 8, 16, 32];
const LONGEST_BACKOFF_SECONDS = 60;
/** A working worker is stuck when its errors in a row reach this number or a multiple of the number. */
export const STUCK_AT = 5;
/** A worker is reset when its session could not be resumed this many times since the last measured step. */
export const MOST_UNRESUMED = 2;
/** After this many resets of its workers that no person asked for, a ticket waits until a person assigns it. */
export const MOST_LOST = 3;
/** A worker is stuck after more merge conflicts than this on one ticket. Conflicts of pull requests do not count. */
export const MOST_CONFLICTS = 3;
/** The longest time for the turns of a meeting about a conflict, in milliseconds. */
export const MEETING_MS = 1_800_000;
/** The most rounds of red checks, comments or conflicts of a pull request. Another round asks people. */
export const MOST_PULL_ROUNDS = 3;

/** The time until the next try after this many errors in a row, in milliseconds. */
export function stepBackoffMs(errors: number): number {
  return (BACKOFF_SECONDS[errors - 1] ?? LONGEST_BACKOFF_SECONDS) * 1_000;
}

const text = z.string();
const count = z.int().min(0);
const instant = z.number();

/** Kinds of steps. `side`, `meet`: turns of a meeting, by the agent for the merged ticket and by the worker. */
export const STEP_KINDS = ['init', 'step', 'test', 'conflict', 'commit', 'nothing', 'side', 'meet'] as const;
/** The questions for which a worker can wait for people. */
export const WORKER_WAITS = [
  'merge',
  'weakened',
  'untested',
  'unfinished',
  'nothing',
  'progress',
  'refused',
  'budget',
  'review',
  'red',
  'treeless',
  'pull',
  'copy',
  'held',
] as const;
/** What people can choose for a worker that waits for them. */
export const WORKER_CHOICES = ['merge', 'continue', 'keep', 'unchanged'] as const;

/** The answers to each question. After `keep`, the work is stored, and only a person starts the open ticket again. */
export const CHOICES_FOR: Readonly<Record<(typeof WORKER_WAITS)[number], readonly (typeof WORKER_CHOICES)[number][]>> =
  {
    merge: ['merge', 'continue', 'keep'],
    weakened: ['merge', 'continue', 'keep'],
    untested: ['merge', 'keep'],
    unfinished: ['continue', 'merge', 'keep'],
    nothing: ['unchanged', 'continue', 'keep'],
    progress: ['continue', 'keep'],
    refused: ['merge', 'continue', 'keep'],
    budget: ['continue', 'keep'],
    review: ['merge', 'continue', 'keep'],
    red: ['continue', 'keep'],
    treeless: ['merge', 'keep'],
    pull: ['merge', 'continue', 'keep'],
    copy: ['continue', 'keep'],
    held: ['merge', 'continue', 'keep'],
  };

/** The state of a worktree at the end of a step or of a review. */
export const worktreeSchema = z.strictObject({
  /** The digest of all files that git does not ignore. */
  tree: text,
  /** The commit at HEAD of the worktree. */
  tip: text,
  /** The number of commits in `tip` that main lacks, without merge commits. */
  ahead: count,
  dirty: z.boolean(),
  /** Files with unresolved conflicts, or with committed conflict markers. */
  unmerged: z.array(text),
  /** The subject of the last commit, merges left out, and the number of changed files. Absent while `ahead` is 0. */
  subject: text.exactOptional(),
  files: count.exactOptional(),
  /** The numbers of lines that the branch adds and removes; absent while `ahead` is 0. */
  added: count.exactOptional(),
  removed: count.exactOptional(),
  /**
   * What changed in the user's own checkout of the repository during the step, and what is uncommitted in the worktree,
   * in words. Absent: no change of the checkout, or unknown. Recorded only for agents that write without asking.
   */
  copy: text.exactOptional(),
  /** Why a hook, a filter or git refused a commit: the last lines. Absent: no refusal, or unresolved conflicts. */
  refused: text.exactOptional(),
});

/** A step. `about`: additional text for its prompt, such as output of tests, files in conflict, words of people. */
export const plannedStepSchema = z.strictObject({ kind: z.enum(STEP_KINDS), about: text });

const stepSchema = z.strictObject({
  ...plannedStepSchema.shape,
  /** Set until the floor is asked for the turn of the step. */
  queued: z.literal(true).exactOptional(),
  /** The epoch of the turn of the step; `null` until the floor has granted the turn. */
  epoch: z.number().nullable(),
  /** The last text of the turn ended with DONE alone on its last line. `broken`: DONE was followed by more text. */
  signalled: z.literal(true).exactOptional(),
  broken: text.exactOptional(),
  /** Set when the turn has completed and the worktree was not measured yet. */
  over: z.literal(true).exactOptional(),
});

export const assignedSchema = z.strictObject({
  /** The id of the ticket. Its title and text are data, and no instructions. */
  id: text.min(1),
  title: text,
  text,
  /** The UUID of the worker's first session on the ticket. `sessionOf` returns the UUID after renewals. */
  session: text,
  worktree: text,
  branch: text,
  /** The newest commit of main with which the branch begins. */
  base: text,
  /** The branch of an earlier attempt, with whose commits the ticket's branch begins. Absent: no such branch. */
  from: text.exactOptional(),
  /** The number of the worker's slot, a block of ports; from 0. */
  slot: count,
  /** The channel of the ticket: a thread of the crew's channel. */
  thread: text,
  /** Patterns of the files that the ticket changes; absent when the ticket names none. */
  touches: z.array(text).exactOptional(),
  at: instant,
});

/** Why a worker leaves its ticket. A killed worker's worktree stays until its next ticket or a removal by people. */
export const LEAVING_REASONS = ['merged', 'unchanged', 'killed', 'removed', 'kept', 'lost', 'unstarted'] as const;

/** A worker's question to people, with the reason. */
export const workerQuestionSchema = z.strictObject({ for: z.enum(WORKER_WAITS), why: text });

const ticketReviewSchema = z.strictObject({
  /** The number of reviews that began, and the id of the open review; `null` for none. */
  number: count,
  id: text.nullable(),
  /** The digest of the files that last passed a review. These files need no other review. `null` for none. */
  passed: text.nullable(),
  /** The question to people after the review; `null` for none. */
  question: workerQuestionSchema.nullable(),
});

const pullSchema = z.strictObject({
  number: count,
  url: text,
  /** The commit of the branch, and the commit that was pushed for it. */
  tip: text,
  head: text,
  /** How often new red checks, comments or conflicts were reported. */
  rounds: count,
  /** What was reported before: ids of remarks, `checks <commit>` and `conflict <commit>`. */
  told: z.array(text),
});

/** A person's vote for the merge of the commit `tip`. `voter`: the person's id. `by`: the person's name. */
const voteSchema = z.strictObject({ voter: text, by: text, tip: text });

/** A worker's discovery, for other tickets. `touches`: file patterns of its ticket; absent when the ticket has none. */
const discoverySchema = z.strictObject({ worker: text, ticket: text, text, touches: z.array(text).exactOptional() });

/**
 * A merged ticket with which a worker's work conflicts. `about`: the ticket's title or id, text and changes, shortened.
 */
export const sideSchema = z.strictObject({ ticket: text, about: text });

/**
 * A meeting about a conflict. `otherWorker`: the worker of the merged ticket. `hunks`: the conflict's diff, shortened.
 * `conflict`: text for the prompt of the step after the meeting.
 */
export const meetingSchema = z.strictObject({ ...sideSchema.shape, otherWorker: text, hunks: text, conflict: text });

const workerSchema = z.strictObject({
  name: text,
  agent: text,
  /** File patterns. The worker gets tickets whose `touches` overlap them, and those that people assign. Absent: all. */
  touches: z.array(text).exactOptional(),
  status: workerStatusSchema,
  startedAt: instant,
  ticket: assignedSchema.nullable(),
  prepared: z.boolean(),
  stepCount: count,
  /** The limit of steps on the ticket. People, conflicts and pull requests raise it. */
  maxSteps: count,
  lastStepAt: instant.nullable(),
  usage: z.strictObject({ input: z.number(), output: z.number(), costMicros: z.number() }),
  /** The cost in `usage` from which the ticket's budget counts: 0, or the cost when a person last extended it. */
  budgetFrom: z.number(),
  step: stepSchema.nullable(),
  /** The next stage of finished work; `null` for none. `recheck`: the worktree is measured after a review. */
  next: z.enum(['test', 'review', 'recheck', 'merge']).nullable(),
  /** The reviews of the work on the ticket. Absent until work first needs a review. */
  review: ticketReviewSchema.exactOptional(),
  /** The ticket's pull request. Absent before it was opened, and after it was closed without a merge into main. */
  pull: pullSchema.exactOptional(),
  /** The last allowed step ended without DONE, or with conflicts. The merge then waits for a person. */
  unfinished: z.boolean(),
  /** Errors in a row, and when the next try is due. */
  errors: count,
  retryAt: instant.nullable(),
  errorAt: instant.nullable(),
  lastError: text,
  /** How often the session could not be resumed since the last measured step; absent for never. */
  unresumed: count.exactOptional(),
  /** The number of replaced sessions on the ticket. `timedOut`: a session was replaced since the last finished step. */
  renewals: count,
  timedOut: z.boolean(),
  work: worktreeSchema.nullable(),
  /**
   * Counts the latest steps in a row that changed neither files nor commit. The first step counts when it leaves the
   * worktree at `base` without changes. Turns of meetings do not count. Answers of people and reviews set the count to 0.
   */
  unchanged: count,
  conflicts: count,
  /**
   * The open meeting about the last conflict; absent for none. `turns`: the number of measured turns. `agreed`:
   * the agreement that the worker wrote; absent before.
   */
  meeting: z
    .strictObject({ ...meetingSchema.shape, at: instant, turns: count, agreed: text.exactOptional() })
    .exactOptional(),
  /** The merged tickets of earlier meetings, with their workers. Absent before the first meeting ends. */
  met: z.array(meetingSchema.pick({ ticket: true, otherWorker: true })).exactOptional(),
  /** The commit that a person chose to merge although its tests are weaker; `null` for none. */
  accepted: text.nullable(),
  /** When the merge window ends and the merge may begin. Absent: no window is open. */
  landsAt: instant.exactOptional(),
  /** The name of a person who held the merge before it was due. People are asked when it is due. */
  held: text.exactOptional(),
  /**
   * Discoveries on other tickets, for prompts, oldest first. Absent: none. `telling`: how many of them the last prompt
   * told.
   */
  heard: z.array(discoverySchema).exactOptional(),
  telling: count.exactOptional(),
  /** The votes for the merge of the present commit; absent for none. */
  votes: z.array(voteSchema).exactOptional(),
  /** The question to people. `step`: the step that follows when they say "continue". Absent: a step of kind `step`. */
  waiting: workerQuestionSchema.extend({ since: instant, step: plannedStepSchema.exactOptional() }).nullable(),
  /** Set while the worker leaves its ticket, until the command `CLEARED`. */
  leaving: z.strictObject({ why: z.enum(LEAVING_REASONS), words: text }).nullable(),
  /**
   * The worktree that a killed worker left. When the worker gets a ticket, the work in it is stored and the worktree
   * removed. `due`: a person asked to remove the worktree now.
   */
  left: assignedSchema
    .pick({ id: true, session: true, worktree: true, branch: true })
    .extend({ due: z.literal(true).exactOptional() })
    .exactOptional(),
});

/** Hours in which only people end a merge window. `from`, `to`: minutes since midnight in the time zone `zone`. */
const quietHoursSchema = z.strictObject({ from: count, to: count, zone: text });

export const crewSettingsSchema = z.strictObject({
  channel: text,
  maxWorkers: z.int().min(1).max(100),
  maxSteps: z.int().min(1).max(1_000),
  /**
   * The value of a worker's `unchanged` from which people are asked: when the work is not done, its tests are red or
   * its commit is refused. Before the last step, unresolved conflicts prevent this question.
   */
  patience: z.int().min(1),
  merge: z.enum(['auto', 'ask', 'pr']),
  /** How many people must choose the merge of a commit; absent for one. */
  votes: z.int().min(2).exactOptional(),
  /** The least time from the announcement of a merge to the merge, unless people merge earlier. Absent: none. */
  window: z.strictObject({ ms: z.int().min(1_000), quiet: quietHoursSchema.exactOptional() }).exactOptional(),
  /** The budget of a ticket, in millionths of a dollar; `null`: no limit. */
  ticketCostMicros: z.number().nullable(),
  /** The budgets since the last start, in all and for each UTC day, in millionths of a dollar. Absent: no limit. */
  costMicros: z.number().exactOptional(),
  dayCostMicros: z.number().exactOptional(),
  /** The most turns of a meeting about a conflict with the work of another worker. Absent: no meetings. */
  meetingTurns: z.int().min(1).exactOptional(),
  /** The agent that reviews work between its tests and its merge. Absent: no reviews. */
  review: z.strictObject({ reviewer: text, settings: reviewSettingsSchema }).exactOptional(),
  /** The name of the branch into which work is merged. */
  main: text,
  /** Prompts that replace the built-in ones, by the kind of step. */
  prompts: z.partialRecord(z.enum(STEP_KINDS), text).exactOptional(),
});

/**
 * A finished ticket of a crew. `commit`: the commit as which it was merged; `null` when no change was needed. `thread`:
 * the id of the ticket's thread. `title`: at most 60 characters. `thread` and `title` can be absent for older tickets.
 */
const finishedSchema = z.strictObject({
  id: text,
  commit: text.nullable(),
  worker: text,
  at: instant,
  thread: text.exactOptional(),
  title: text.exactOptional(),
});

/** A ticket that a worker proposes, or that a person makes of a message. The ticket is not yet written. */
export const proposalSchema = z.strictObject({
  /** Unique in the crew. */
  id: text,
  /** The id of the ticket that the worker had when it made the proposal; empty for a message. */
  from: text,
  title: text,
  text,
  deps: z.array(text),
  touches: z.array(text),
});

/**
 * The message from which a ticket was made. `asker`: the name of its author. `by`: the name of the person who made the
 * ticket.
 */
export const sourceSchema = z.strictObject({ message: text, channel: text, asker: text, by: text });

/** A person's reply that asks a ticket made from a message to wait for the tickets `deps`. `by`: the person's name. */
export const replySchema = z.strictObject({
  message: text,
  channel: text,
  /** The id of the message of which the ticket was made. */
  about: text,
  deps: z.array(text).min(1),
  by: text,
  /** True: the author of the reply has no right to set dependencies. Absent: the author has it. */
  refused: z.literal(true).exactOptional(),
});

/** What people can allow for a whole crew: the commands of a setup file, or the first of several test runners. */
const APPROVAL_SUBJECTS = ['setup', 'runner'] as const;

/** A crew's question to people, with their answer. */
export const crewApprovalSchema = z.strictObject({
  about: z.enum(APPROVAL_SUBJECTS),
  /** Digest of the question's subject. Another digest is another question. */
  digest: text,
  /** The question's text for people. */
  what: text,
  /** `null` while nobody has answered. */
  allowed: z.boolean().nullable(),
  /** The name of the person who answered; empty before. */
  by: text,
});

/** The most discoveries that a crew keeps, and the most that a worker collects between two prompts. */
export const MOST_DISCOVERIES = 50;
export const MOST_HEARD = 5;

/** The most open proposals, and the most replies without an answer. */
export const MOST_PROPOSALS = 100;

/** What a crew counts: results of tests of work, conflicts, and merges that began and were not made. */
export const COUNTED = ['green', 'red', 'flaky', 'none', 'conflicts', 'dropped'] as const;

export const crewSchema = z.strictObject({
  key: text,
  settings: crewSettingsSchema.nullable(),
  /** Whether the crew runs. While false, no ticket is assigned, and the floor is not asked for steps. */
  running: z.boolean(),
  /** The id of the operator who started the crew last. The workers act for that person. */
  askedBy: text.exactOptional(),
  workers: z.array(workerSchema),
  finished: z.array(finishedSchema),
  /** Proposed tickets that are neither written nor dropped, oldest first. Absent before the first proposal. */
  proposals: z
    .array(z.strictObject({ ...proposalSchema.shape, worker: text, at: instant, source: sourceSchema.exactOptional() }))
    .exactOptional(),
  /**
   * The tickets made of messages. `after`: the tickets that people's replies asked a ticket to wait for, each with the
   * id of the reply. Absent before the first ticket.
   */
  asked: z
    .array(
      z.strictObject({
        ...sourceSchema.shape,
        ticket: text,
        after: z.array(z.strictObject({ id: text, message: text })).exactOptional(),
      }),
    )
    .exactOptional(),
  /** Replies that name tickets to wait for and are not answered yet. Absent before the first one. */
  replies: z.array(replySchema).exactOptional(),
  /** The number of proposals so far, also of written and dropped ones. Absent before the first proposal. */
  proposed: count.exactOptional(),
  /** The last `MOST_DISCOVERIES` discoveries of workers, newest last. Absent before the first discovery. */
  discoveries: z.array(discoverySchema).exactOptional(),
  /** Tickets that start only when a person assigns them, with the reason. */
  refused: z.array(z.strictObject({ id: text, why: text })),
  /** The id of a ticket, once for each reset of its worker that no person asked for. Absent before the first reset. */
  lost: z.array(text).exactOptional(),
  /** Private refs with work that was not merged, oldest first. */
  kept: z.array(z.strictObject({ ticket: text, ref: text })),
  /**
   * Unmerged tickets that workers left, with the branch from which the next worker goes on. Absent before the first.
   */
  branches: z.array(assignedSchema.pick({ id: true, branch: true })).exactOptional(),
  /**
   * The merge under way: the worker, the commit `tip` of its branch, and the commit `main` before the merge. `lands`:
   * the tested merge is about to become main, or is main and is not recorded yet.
   */
  merging: z.strictObject({ worker: text, tip: text, main: text, lands: z.literal(true).exactOptional() }).nullable(),
  /** The last question of each subject to the whole crew, with its answer. Absent before the first question. */
  approvals: z.array(crewApprovalSchema).exactOptional(),
  /** The last verdict on a commit of main. `accepted`: by a person. `null`: no verdict, so main must be tested. */
  base: z.strictObject({ tip: text, verdict: z.enum(['green', 'red', 'none', 'accepted']), why: text }).nullable(),
  /**
   * While set, the floor is not asked for steps. `budget`: the day's budget is used up, and a start by people also ends
   * the pause. Otherwise, the agents' provider takes no work.
   */
  paused: z.strictObject({ until: instant, why: text, budget: z.literal(true).exactOptional() }).nullable(),
  /**
   * The values of `usage.costMicros` from which budgets count. `from`: at the last start of the crew. `dayFrom`: before
   * the first cost on `day` (`dayOf`), or at a later start on that day.
   */
  budget: z.strictObject({ from: z.number(), day: count, dayFrom: z.number() }).exactOptional(),
  /** The number of pauses for a limit of the provider since a worktree was last measured. */
  limits: count,
  usage: z.strictObject({ steps: count, input: z.number(), output: z.number(), costMicros: z.number() }),
  /** Set when a part of `usage` has no known price. */
  unpriced: z.literal(true).exactOptional(),
  counts: z.partialRecord(z.enum(COUNTED), count).exactOptional(),
});

export type Crew = Frozen<z.infer<typeof crewSchema>>;
export type CrewApproval = NonNullable<Crew['approvals']>[number];
export type TicketMessage = Frozen<z.infer<typeof sourceSchema>>;
export type TicketReply = Frozen<z.infer<typeof replySchema>>;
type Discovery = NonNullable<Crew['discoveries']>[number];
export type Proposal = NonNullable<Crew['proposals']>[number];
export type CrewSettings = NonNullable<Crew['settings']>;
export type Worker = Crew['workers'][number];
export type Assigned = NonNullable<Worker['ticket']>;
export type WorktreeState = NonNullable<Worker['work']>;
export type WorkerStep = NonNullable<Worker['step']>;
export type PlannedStep = Pick<WorkerStep, 'kind' | 'about'>;
export type WorkerChoice = (typeof WORKER_CHOICES)[number];
export type WorkerWait = (typeof WORKER_WAITS)[number];
export type PullRequest = NonNullable<Worker['pull']>;
export type WorkerQuestion = Frozen<z.infer<typeof workerQuestionSchema>>;

/** A crew without workers. */
export function emptyCrew(key: string): Crew {
  return {
    key,
    settings: null,
    running: false,
    workers: [],
    finished: [],
    refused: [],
    kept: [],
    merging: null,
    base: null,
    paused: null,
    limits: 0,
    usage: { steps: 0, input: 0, output: 0, costMicros: 0 },
  };
}

/** A worker without a ticket. */
export function idleWorker({
  name,
  agent,
  startedAt,
  touches,
  left,
}: Pick<Worker, 'name' | 'agent' | 'startedAt' | 'touches' | 'left'>): Worker {
  return {
    name,
    agent,
    ...defined({ touches, left }),
    status: 'idle',
    startedAt,
    ticket: null,
    prepared: false,
    stepCount: 0,
    maxSteps: 0,
    lastStepAt: null,
    usage: { input: 0, output: 0, costMicros: 0 },
    budgetFrom: 0,
    step: null,
    next: null,
    unfinished: false,
    errors: 0,
    retryAt: null,
    errorAt: null,
    lastError: '',
    renewals: 0,
    timedOut: false,
    work: null,
    unchanged: 0,
    conflicts: 0,
    accepted: null,
    waiting: null,
    leaving: null,
  };
}

/** The worker with this name, in any letter case, or with this agent; `undefined` for none. */
export function findWorker({ workers }: Pick<Crew, 'workers'>, name: string): Worker | undefined {
  return workers.find((worker) => worker.name.toLowerCase() === name.toLowerCase() || worker.agent === name);
}

/** The proposed ticket with this id, in any letter case; `undefined` for none. */
export function findProposal({ proposals = [] }: Pick<Crew, 'proposals'>, id: string): Proposal | undefined {
  return proposals.find((each) => each.id === id.toLowerCase());
}

/**
 * Whether a discovery of one ticket may concern another ticket: their `touches` overlap, or one of them names no files.
 */
export function mayConcern({ ticket, touches }: Discovery, of: Pick<Assigned, 'id' | 'touches'>): boolean {
  if (ticket === of.id) return false;
  return touches === undefined || of.touches === undefined || overlap(touches, of.touches);
}

/**
 * Returns the id of the ticket made of a message, or of its proposal while no ticket is written. `undefined`: neither.
 */
export function ticketMadeOf(
  { proposals = [], asked: requestedTickets = [] }: Pick<Crew, 'proposals' | 'asked'>,
  message: string,
): string | undefined {
  return (
    requestedTickets.find((each) => each.message === message)?.ticket ??
    proposals.find(({ source }) => source?.message === message)?.id
  );
}

/** The id that people write to answer a question. A changed question has another id. */
export function approvalId({ about, digest }: Pick<CrewApproval, 'about' | 'digest'>): string {
  return `${about}-${digest.slice(0, 8)}`;
}

/**
 * Finds a question by its subject and digest, or by the id that a person wrote in capital or small letters. Returns
 * `undefined` when there is none.
 */
export function findApproval(
  { approvals = [] }: Pick<Crew, 'approvals'>,
  wanted: string | Pick<CrewApproval, 'about' | 'digest'>,
): CrewApproval | undefined {
  return typeof wanted === 'string'
    ? approvals.find((each) => approvalId(each) === wanted.toLowerCase())
    : approvals.find(({ about, digest }) => about === wanted.about && digest === wanted.digest);
}

/** The name of the n-th worker, from 0: A, B, …, Z, AA. */
export function workerName(index: number): string {
  const last = String.fromCodePoint(65 + (index % 26));
  return index < 26 ? last : workerName(Math.floor(index / 26) - 1) + last;
}

/** What Conch does for a worker outside the store. Each job can be repeated after a crash. */
export type Job = 'prepare' | 'seat' | 'note' | 'measure' | 'test' | 'review' | 'merge' | 'pull' | 'clear';

/**
 * The job that a worker waits for; `null` for none. While one worker's work is merged, no other worker has the job
 * `merge`.
 */
export function jobOf(crew: Crew, worker: Worker): Job | null {
  const { left } = worker;
  if (worker.leaving !== null || left?.due === true || (left !== undefined && worker.ticket !== null)) return 'clear';
  if (worker.ticket === null || worker.waiting !== null || worker.retryAt !== null) return null;
  if (worker.status === 'ready' && worker.step === null) return worker.prepared ? 'seat' : 'prepare';
  if (worker.step?.over === true) return 'measure';
  if (worker.meeting !== undefined && worker.step === null)
    return worker.meeting.agreed === undefined ? 'seat' : 'note';
  if (worker.status !== 'done') return null;
  if (worker.next === 'test') return 'test';
  if (worker.next === 'recheck') return 'measure';
  if (worker.next === 'review') return worker.review?.id == null ? 'review' : null;
  if (worker.next !== 'merge' || worker.landsAt !== undefined) return null;
  if (crew.settings?.merge === 'pr') return 'pull';
  return crew.merging === null || crew.merging.worker === worker.name ? 'merge' : null;
}

/** The id of the next review of a worker's ticket. It is the same after a crash. */
export function nextReviewId({ ticket, review }: Pick<Worker, 'ticket' | 'review'>): string {
  if (ticket === null) throw new Error('impossible: a review without a ticket');
  return `${ticket.thread}-${ticket.session.slice(0, 8)}-${(review?.number ?? 0) + 1}`;
}

/** Whether the floor was asked for the worker's step, and the step is not over. */
export function isStepping({ step }: Worker): boolean {
  return step !== null && step.over === undefined && step.queued === undefined;
}

/** Whether a step is a turn of a meeting. Such a turn costs money and counts as no step. */
export function isMeeting({ kind }: Pick<WorkerStep, 'kind'>): boolean {
  return kind === 'side' || kind === 'meet';
}

/** The id of the agent that speaks for the merged ticket in a meeting. No worker's agent has a dot in its id. */
export function sideAgentOf(agent: string): string {
  return `${agent}.side`;
}

const DAY_MS = 86_400_000;

/** The number of the UTC day of an instant. Day 0 is 1970-01-01. */
export function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

function budgetsLeft({ settings, usage, budget }: Crew, at: number, worker?: Worker) {
  const { ticketCostMicros: ticket, costMicros: crew, dayCostMicros: day } = settings ?? {};
  const today = budget?.day === dayOf(at) ? usage.costMicros - budget.dayFrom : 0;
  return defined({
    ticket: ticket == null || worker === undefined ? undefined : ticket - worker.usage.costMicros + worker.budgetFrom,
    crew: crew === undefined ? undefined : crew - usage.costMicros + (budget?.from ?? 0),
    day: day === undefined ? undefined : day - today,
  });
}

/**
 * Returns the budget of the crew or the day that is used up; `null` for none. `until`: the end of the UTC day; `null`:
 * the crew waits until people start it.
 */
export function budgetUsed(state: Crew, at: number): { readonly why: string; readonly until: number | null } | null {
  const { crew = 1, day = 1 } = budgetsLeft(state, at);
  if (crew <= 0) return { why: 'the budget of the crew is used up', until: null };
  return day <= 0 ? { why: 'the budget of the day is used up', until: (dayOf(at) + 1) * DAY_MS } : null;
}

/** Whether the budget of a worker's ticket is used up. */
export function isTicketBudgetUsed(crew: Crew, worker: Worker): boolean {
  return (budgetsLeft(crew, 0, worker).ticket ?? 1) <= 0;
}

/** The rest of the budgets of the ticket, the crew and the day, in words; empty without budgets. */
export function budgetLeft(crew: Crew, worker: Worker, at: number): string {
  return Object.entries(budgetsLeft(crew, at, worker))
    .map(([of, left]) => `${dollars(Math.max(0, left))} of the ${of}'s budget`)
    .join(', ');
}

/** When the turns of a meeting end at the latest. `null`: no meeting, or an agreement and no step that was sent. */
export function meetingEnd({ meeting, step }: Pick<Worker, 'meeting' | 'step'>): number | null {
  const isOver = meeting?.agreed !== undefined && (step === null || step.queued === true);
  return meeting === undefined || isOver ? null : meeting.at + MEETING_MS;
}

/** The next instant at which a crew changes by itself; `null` for none. */
export function crewDeadline({ workers, paused }: Crew): number | null {
  const all = workers.flatMap((worker) => {
    const { retryAt, landsAt = null } = worker;
    return [retryAt, landsAt, meetingEnd(worker)].filter((at) => at !== null);
  });
  if (paused !== null) all.push(paused.until);
  return all.length === 0 ? null : Math.min(...all);
}
