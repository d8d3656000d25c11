import { z } from 'zod';
import { dollars } from '../../turns/crew-view.ts';
import { defined } from '../../lib/defined.ts';
import type { Frozen } from '../../lib/tagged.ts';
import { overlap } from './tickets/ticket.ts';
import { settingsSchema as reviewSettingsSchema } from '../reviews/review.ts';

/** The five states of a worker, with the symbols of the specification. Idle, ready and working workers are active. */
export const WORKER_SYMBOLS = { idle: '○', ready: '◐', working: '●', done: '✓', stuck: '!' } as const;

export type WorkerStatus = keyof typeof WORKER_SYMBOLS;

const STATUSES = ['idle', 'ready', 'working', 'done', 'stuck'] as const satisfies readonly WorkerStatus[];
const ACTIVE: ReadonlySet<WorkerStatus> = new Set(['idle', 'ready', 'working']);

/** Whether the runner may give the worker something to do. */
export function isActive(status: WorkerStatus): boolean {
  return ACTIVE.has(status);
}

type Row = { readonly from: WorkerStatus; readonly to: WorkerStatus; readonly trigger: string };

/** The transitions of the specification, its resets, and `retry`. All others are refused. */
export const WORKER_TRANSITIONS: readonly Row[] = [
  { from: 'idle', to: 'ready', trigger: 'a ticket was assigned' },
  { from: 'ready', to: 'working', trigger: 'the first step began' },
  { from: 'working', to: 'done', trigger: 'DONE, or the last step' },
  { from: 'done', to: 'working', trigger: 'tests failed or the merge met a conflict' },
  { from: 'done', to: 'idle', trigger: 'the work was merged' },
  { from: 'working', to: 'stuck', trigger: 'five errors in a row' },
  { from: 'done', to: 'stuck', trigger: 'three rounds of conflicts' },
  { from: 'stuck', to: 'working', trigger: 'a person asked for another try' },
  { from: 'ready', to: 'idle', trigger: 'the ticket could not be started' },
  { from: 'working', to: 'idle', trigger: 'the worker was reset' },
  { from: 'stuck', to: 'idle', trigger: 'the worker was reset' },
];

/** Whether the specification lists a transition. */
export function isTransition(from: WorkerStatus, to: WorkerStatus): boolean {
  return WORKER_TRANSITIONS.some((row) => row.from === from && row.to === to);
}

/** Seconds until the next try after the first, second, … error in a row. */
const BACKOFF_SECONDS = [2, 4, 8, 16, 32];
const LONGEST_BACKOFF_SECONDS = 60;
/** With this many errors in a row, a worker is stuck. A person can let it try as many times again. */
export const STUCK_AT = 5;
/** After as many failures in a row to resume its session, a worker is reset. */
export const MOST_UNRESUMED = 2;
/** After this many resets of its workers, a ticket starts only when a person assigns it. */
export const MOST_LOST = 3;
/** With more rounds of conflicts than this, a worker is stuck. */
export const MOST_CONFLICTS = 3;
/** A meeting about a conflict ends after this many milliseconds. */
export const MEETING_MS = 1_800_000;
/** After as many rounds of red checks or comments on a pull request, people are asked. */
export const MOST_PULL_ROUNDS = 3;

/** The time until the next try after this many errors in a row, in milliseconds. */
export function stepBackoffMs(errors: number): number {
  return (BACKOFF_SECONDS[errors - 1] ?? LONGEST_BACKOFF_SECONDS) * 1_000;
}

const text = z.string();
const count = z.int().min(0);
const instant = z.number();

/** The last two are turns of a meeting about a conflict: of the other ticket's side, and of the worker. */
export const STEP_KINDS = ['init', 'step', 'test', 'conflict', 'commit', 'nothing', 'side', 'meet'] as const;
/** What a worker can wait for. All but `stopped` are questions to people. */
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

/** What people can choose, by what the worker waits for. `keep` keeps the work, and the ticket is open again. */
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

/** The state of a worktree at the end of a step. */
export const worktreeSchema = z.strictObject({
  /** The digest of all files that git does not ignore. */
  tree: text,
  /** The commit of the branch, and how many commits it has beyond its base. */
  tip: text,
  ahead: count,
  /** Whether files differ from that commit. */
  dirty: z.boolean(),
  /** Files with unresolved conflicts. */
  unmerged: z.array(text),
  /** The subject of the last commit, and how many files the branch changes; absent before the first commit. */
  subject: text.exactOptional(),
  files: count.exactOptional(),
  /** The lines that the branch adds and removes; absent before the first commit. */
  added: count.exactOptional(),
  removed: count.exactOptional(),
  /** Changes in the user's copy during a step of an agent that does not ask, in words. Absent: none. */
  copy: text.exactOptional(),
  /** What refused the commit of the files that differ, such as a hook, with its last lines. Absent: nothing. */
  refused: text.exactOptional(),
});

const stepSchema = z.strictObject({
  kind: z.enum(STEP_KINDS),
  /** Additional text for the prompt of the step: output of tests, files in conflict, words of people. */
  about: text,
  /** Set until the floor is asked for its turn: the runner is stopped, others step, or an error is waited out. */
  queued: z.literal(true).exactOptional(),
  /** The epoch of its turn; `null` until the floor has granted it. A restart gives it another one. */
  epoch: z.number().nullable(),
  /** The last text of the turn ended with DONE alone on its last line. `broken`: DONE was followed by more text. */
  signalled: z.literal(true).exactOptional(),
  broken: text.exactOptional(),
  /** Set when the turn is over and the worktree was not measured yet. */
  over: z.literal(true).exactOptional(),
});

export const assignedSchema = z.strictObject({
  /** The id of the ticket. Its title and text are data of people. */
  id: text.min(1),
  title: text,
  text,
  /** A UUID: the session of the specification, for agents that take one. `sessionOf` counts its renewals in. */
  session: text,
  worktree: text,
  branch: text,
  /** The commit of main that the branch begins at. */
  base: text,
  /** The branch of an earlier worker on this ticket. The new branch starts with its commits. Absent: no such branch. */
  from: text.exactOptional(),
  /** The number of the worker's slot, from 0. */
  slot: count,
  /** The channel of the ticket: a thread of the crew's channel. */
  thread: text,
  /** Patterns of the files that it changes; absent when it names none. */
  touches: z.array(text).exactOptional(),
  at: instant,
});

/** Why a worker leaves its ticket. The worktree of one that is killed stays until the worker's next ticket. */
export const LEAVING_REASONS = ['merged', 'unchanged', 'killed', 'removed', 'kept', 'lost', 'unstarted'] as const;

/** A worker's question to people, with the reason. */
export const workerQuestionSchema = z.strictObject({ for: z.enum(WORKER_WAITS), why: text });

/** The reviews of a worker's ticket. */
const ticketReviewSchema = z.strictObject({
  /** How many began, and the id of the open one. */
  number: count,
  id: text.nullable(),
  /** The digest of the files that passed last. They need no other review. */
  passed: text.nullable(),
  /** What people are asked after the review. */
  question: workerQuestionSchema.nullable(),
});

/** The pull request of a worker's ticket. */
const pullSchema = z.strictObject({
  number: count,
  url: text,
  /** The commit of the branch, and the commit that was pushed for it. */
  tip: text,
  head: text,
  /** How often red checks or comments went back to the worker. */
  rounds: count,
  /** Ids of comments, and commits with red checks, that the worker was already told of. */
  told: z.array(text),
});

/** A person's vote for the merge of a commit. `voter`: the person's id. */
const voteSchema = z.strictObject({ voter: text, by: text, tip: text });

/** A worker's discovery, for other workers. `touches`: file patterns of its ticket; absent when the ticket has none. */
const discoverySchema = z.strictObject({ worker: text, ticket: text, text, touches: z.array(text).exactOptional() });

/** What a merge conflicts with: a ticket that is merged. `about`: its text and its changes, as data. */
export const sideSchema = z.strictObject({ ticket: text, about: text });

/** A meeting about a conflict. `otherWorker`: who wrote the other ticket. `conflict`: what the worker resolves afterwards. */
export const meetingSchema = z.strictObject({ ...sideSchema.shape, otherWorker: text, hunks: text, conflict: text });

const workerSchema = z.strictObject({
  name: text,
  /** The id of its agent. */
  agent: text,
  /** Patterns of files: it takes only tickets whose `touches` overlap one of them. Absent: it takes all. */
  touches: z.array(text).exactOptional(),
  status: z.enum(STATUSES),
  startedAt: instant,
  ticket: assignedSchema.nullable(),
  /** True after the worktree was made. */
  prepared: z.boolean(),
  stepCount: count,
  /** The most steps; people can add some. */
  maxSteps: count,
  lastStepAt: instant.nullable(),
  usage: z.strictObject({ input: z.number(), output: z.number(), costMicros: z.number() }),
  /** The cost, in `usage`, at which a person last raised the budget. The budget counts from there. */
  budgetFrom: z.number(),
  step: stepSchema.nullable(),
  /** Set on a worker that is done: the part that is next. `recheck`: the worktree is measured after a review. */
  next: z.enum(['test', 'review', 'recheck', 'merge']).nullable(),
  /** Absent before the first review of the ticket. */
  review: ticketReviewSchema.exactOptional(),
  /** Absent while no pull request is open. */
  pull: pullSchema.exactOptional(),
  /** The last step was used without DONE, or left conflicts. The merge then waits for a person. */
  unfinished: z.boolean(),
  /** Errors in a row, and when the next try is due. */
  errors: count,
  retryAt: instant.nullable(),
  /** When the last error was counted. */
  errorAt: instant.nullable(),
  lastError: text,
  /** How often in a row its session could not be resumed; absent for never. */
  unresumed: count.exactOptional(),
  /** How often its session was replaced on this ticket. `timedOut`: a step timed out and is tried once more. */
  renewals: count,
  timedOut: z.boolean(),
  work: worktreeSchema.nullable(),
  /** Steps in a row that left the tree as it was. */
  unchanged: count,
  conflicts: count,
  /**
   * The open meeting about the last conflict. `turns`: how many are over. `agreed`: what the worker wrote as agreed; the
   * meeting is over when that is on both tickets. Absent: no meeting.
   */
  meeting: z
    .strictObject({ ...meetingSchema.shape, at: instant, turns: count, agreed: text.exactOptional() })
    .exactOptional(),
  /** The tickets about which it met, with their workers. Absent before the first meeting. */
  met: z.array(meetingSchema.pick({ ticket: true, otherWorker: true })).exactOptional(),
  /** The commit whose tests a person has accepted as they are. */
  accepted: text.nullable(),
  /** When the merge may begin. Absent: at once. */
  landsAt: instant.exactOptional(),
  /** The name of a person who held the merge before it was due. People are asked when it is due. */
  held: text.exactOptional(),
  /** Discoveries of other workers for the next prompt; absent for none. `telling`: how many of them the present prompt has. */
  heard: z.array(discoverySchema).exactOptional(),
  telling: count.exactOptional(),
  /** Who wants the present commit merged; absent for nobody. */
  votes: z.array(voteSchema).exactOptional(),
  waiting: z.strictObject({ for: z.enum(WORKER_WAITS), why: text, since: instant }).nullable(),
  /** Set when the worker leaves its ticket: the worktree is stored and removed next. */
  leaving: z.strictObject({ why: z.enum(LEAVING_REASONS), words: text }).nullable(),
  /**
   * The worktree of a killed worker's last ticket. It is stored and removed before the next ticket. `due`: a person asked
   * to remove it now.
   */
  left: assignedSchema
    .pick({ id: true, session: true, worktree: true, branch: true })
    .extend({ due: z.literal(true).exactOptional() })
    .exactOptional(),
});

/** Quiet hours: from `from` to `to`, nothing is merged unless a person asks. Both are minutes since midnight in `zone`. */
const quietHoursSchema = z.strictObject({ from: count, to: count, zone: text });

export const crewSettingsSchema = z.strictObject({
  /** The crew's channel. */
  channel: text,
  maxWorkers: z.int().min(1).max(100),
  maxSteps: z.int().min(1).max(1_000),
  /** Steps in a row without a changed file, after which people are asked. */
  patience: z.int().min(1),
  merge: z.enum(['auto', 'ask', 'pr']),
  /** How many people must choose the merge of a commit; absent for one. */
  votes: z.int().min(2).exactOptional(),
  /** The time between the announcement of a merge and the merge. Absent: none. */
  window: z.strictObject({ ms: z.int().min(1_000), quiet: quietHoursSchema.exactOptional() }).exactOptional(),
  /** The most money of a ticket, in millionths of a dollar; `null`: no limit. */
  ticketCostMicros: z.number().nullable(),
  /** The most money of the crew, and of one day of it (UTC), in millionths of a dollar; absent for no limit. */
  costMicros: z.number().exactOptional(),
  dayCostMicros: z.number().exactOptional(),
  /** The most turns of a meeting about a conflict with the work of another worker. Absent: no meetings. */
  meetingTurns: z.int().min(1).exactOptional(),
  /** The agent that reviews work between its tests and its merge. Absent: no reviews. */
  review: z.strictObject({ reviewer: text, settings: reviewSettingsSchema }).exactOptional(),
  /** The name of the branch into which work is merged. */
  main: text,
  /** Templates in place of `CREW_PROMPTS`. */
  prompts: z.partialRecord(z.enum(STEP_KINDS), text).exactOptional(),
});

/**
 * A finished ticket of a crew. `commit`: its merge commit; `null` when no change was needed. `thread`: the id of the
 * thread in which its worker worked. `title`: at most 60 characters of its title; absent for older tickets.
 */
const finishedSchema = z.strictObject({
  id: text,
  commit: text.nullable(),
  worker: text,
  at: instant,
  thread: text.exactOptional(),
  title: text.exactOptional(),
});

/** A ticket that a worker proposes, or that a person makes of a message. It is no ticket before it is written. */
export const proposalSchema = z.strictObject({
  /** Unique in the crew. */
  id: text,
  /** The ticket on which its worker was; empty for a message. */
  from: text,
  title: text,
  text,
  deps: z.array(text),
  touches: z.array(text),
});

/** The message from which a ticket was made. `asker`: the name of its author. `by`: the name of who made the ticket. */
export const sourceSchema = z.strictObject({ message: text, channel: text, asker: text, by: text });

/** A reply that adds the dependencies `deps` to the ticket made from a message. `by`: name of the reply's author. */
export const replySchema = z.strictObject({
  message: text,
  channel: text,
  /** The id of the message of which the ticket was made. */
  about: text,
  deps: z.array(text).min(1),
  by: text,
  /** True: the author of the reply may not set dependencies. Absent: the author may. */
  refused: z.literal(true).exactOptional(),
});

/** What people can allow for a whole crew: the commands of a setup file, or the first of several test runners. */
export const APPROVAL_SUBJECTS = ['setup', 'runner'] as const;

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

/** The most discoveries that a crew keeps, and the most that one prompt tells. */
export const MOST_DISCOVERIES = 50;
export const MOST_TOLD = 5;

/** The most open proposals, and the most replies without an answer. A crew takes no more of them. */
export const MOST_PROPOSALS = 100;

/** Results of tests, and merges that were not made. */
export const COUNTED = ['green', 'red', 'flaky', 'none', 'conflicts', 'dropped'] as const;

export const crewSchema = z.strictObject({
  key: text,
  settings: crewSettingsSchema.nullable(),
  /** Whether the runner assigns tickets and asks for steps. */
  running: z.boolean(),
  /** The id of the operator who started it last. Its workers act for that person. */
  askedBy: text.exactOptional(),
  workers: z.array(workerSchema),
  finished: z.array(finishedSchema),
  /** Tickets that workers propose, oldest first, and how many there ever were. Absent before the first one. */
  proposals: z
    .array(z.strictObject({ ...proposalSchema.shape, worker: text, at: instant, source: sourceSchema.exactOptional() }))
    .exactOptional(),
  /** The tickets that people made of messages. `after`: tickets to wait for, with the reply that says so. Absent: none. */
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
  proposed: count.exactOptional(),
  /** What workers found out, newest last. Absent before the first time. */
  discoveries: z.array(discoverySchema).exactOptional(),
  /** Tickets that are not started until a person asks for it, with the reason. */
  refused: z.array(z.strictObject({ id: text, why: text })),
  /** The id of a ticket, once for each time that its worker was reset. Absent before the first time. */
  lost: z.array(text).exactOptional(),
  /** Private refs with work that was not merged, oldest first. */
  kept: z.array(z.strictObject({ ticket: text, ref: text })),
  /** Tickets whose workers were reset, with the branches that their next workers go on from. Absent before the first. */
  branches: z.array(assignedSchema.pick({ id: true, branch: true })).exactOptional(),
  /** The merge under way: the worker, the commit `tip` of its branch, and the commit `main` before the merge. */
  merging: z.strictObject({ worker: text, tip: text, main: text }).nullable(),
  /** The last question of each subject to the whole crew, with its answer. Absent before the first question. */
  approvals: z.array(crewApprovalSchema).exactOptional(),
  /** The last commit of main whose tests were run, or accepted by a person. */
  base: z.strictObject({ tip: text, verdict: z.enum(['green', 'red', 'none', 'accepted']), why: text }).nullable(),
  /** No step is asked for until then, because the agents' provider is at its limit. */
  paused: z.strictObject({ until: instant, why: text, budget: z.literal(true).exactOptional() }).nullable(),
  /** The cost, in `usage`, at the last start and at the begin of `day`. The budgets count from there. */
  budget: z.strictObject({ from: z.number(), day: count, dayFrom: z.number() }).exactOptional(),
  /** How often in a row that happened without a good step in between. */
  limits: count,
  /** Usage of all tickets. */
  usage: z.strictObject({ steps: count, input: z.number(), output: z.number(), costMicros: z.number() }),
  /** Set when some of that usage has no known price. */
  unpriced: z.literal(true).exactOptional(),
  /** How often each thing happened to work of all tickets. */
  counts: z.partialRecord(z.enum(COUNTED), count).exactOptional(),
});

export type Crew = Frozen<z.infer<typeof crewSchema>>;
export type CrewApproval = NonNullable<Crew['approvals']>[number];
export type TicketMessage = Frozen<z.infer<typeof sourceSchema>>;
export type TicketReply = Frozen<z.infer<typeof replySchema>>;
export type Discovery = NonNullable<Crew['discoveries']>[number];
export type Proposal = NonNullable<Crew['proposals']>[number];
export type CrewSettings = NonNullable<Crew['settings']>;
export type Worker = Crew['workers'][number];
export type Assigned = NonNullable<Worker['ticket']>;
export type WorktreeState = NonNullable<Worker['work']>;
export type WorkerStep = NonNullable<Worker['step']>;
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

/** The worker with this name, in any case, or with this agent; `undefined` for none. */
export function findWorker({ workers }: Pick<Crew, 'workers'>, name: string): Worker | undefined {
  return workers.find((worker) => worker.name.toLowerCase() === name.toLowerCase() || worker.agent === name);
}

/** The proposed ticket with this id, in any case; `undefined` for none. */
export function findProposal({ proposals = [] }: Pick<Crew, 'proposals'>, id: string): Proposal | undefined {
  return proposals.find((each) => each.id === id.toLowerCase());
}

/**
 * Whether a discovery may concern a ticket: another one whose files overlap. A ticket that names no files may change all.
 */
export function mayConcern({ ticket, touches }: Discovery, of: Pick<Assigned, 'id' | 'touches'>): boolean {
  if (ticket === of.id) return false;
  return touches === undefined || of.touches === undefined || overlap(touches, of.touches);
}

/** Returns the id of the ticket made of a message, or of its proposal while no ticket is written. `undefined`: neither. */
export function madeOf(
  { proposals = [], asked = [] }: Pick<Crew, 'proposals' | 'asked'>,
  message: string,
): string | undefined {
  return (
    asked.find((each) => each.message === message)?.ticket ??
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
  asked: string | Pick<CrewApproval, 'about' | 'digest'>,
): CrewApproval | undefined {
  return typeof asked === 'string'
    ? approvals.find((each) => approvalId(each) === asked.toLowerCase())
    : approvals.find(({ about, digest }) => about === asked.about && digest === asked.digest);
}

/** The name of the n-th worker, from 0: A, B, …, Z, AA. */
export function workerName(index: number): string {
  const last = String.fromCodePoint(65 + (index % 26));
  return index < 26 ? last : workerName(Math.floor(index / 26) - 1) + last;
}

/** What the program does for a worker outside the store. Each job can be repeated after a crash. */
export type Job = 'prepare' | 'seat' | 'note' | 'measure' | 'test' | 'review' | 'merge' | 'pull' | 'clear';

/** The job that a worker waits for; `null` for none. Merges come one after the other, in the order of the list. */
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

/** Whether a person can hold the worker's merge. False while the merge runs, and once a pull request is open. */
export function canHold({ merging }: Pick<Crew, 'merging'>, { name, ticket, leaving, pull }: Worker): boolean {
  return ticket !== null && leaving === null && pull === undefined && merging?.worker !== name;
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

/** The id of the agent that speaks for the other ticket in a meeting of a worker. No worker can have such a name. */
export function sideAgentOf(agent: string): string {
  return `${agent}.side`;
}

const DAY_MS = 86_400_000;

/** The number of a day, since 1970 in UTC. */
export function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

/** The budget that is used up, and the instant until which the crew waits then: `null` until people start it again. */
export function budgetUsed(
  { settings, usage, budget }: Crew,
  at: number,
): { readonly why: string; readonly until: number | null } | null {
  const { costMicros, dayCostMicros } = settings ?? {};
  if (costMicros !== undefined && usage.costMicros - (budget?.from ?? 0) >= costMicros)
    return { why: 'the budget of the crew is used up', until: null };
  const today = budget?.day === dayOf(at) ? usage.costMicros - budget.dayFrom : 0;
  if (dayCostMicros === undefined || today < dayCostMicros) return null;
  return { why: 'the budget of the day is used up', until: (dayOf(at) + 1) * DAY_MS };
}

/** What is left of the budgets that a worker's next step counts towards, in words; empty without budgets. */
export function budgetLeft({ settings, usage, budget }: Crew, worker: Worker, at: number): string {
  const { ticketCostMicros = null, costMicros, dayCostMicros } = settings ?? {};
  const today = budget?.day === dayOf(at) ? usage.costMicros - budget.dayFrom : 0;
  const rows: readonly (readonly [string, number | null | undefined, number])[] = [
    ['ticket', ticketCostMicros, worker.usage.costMicros - worker.budgetFrom],
    ['crew', costMicros, usage.costMicros - (budget?.from ?? 0)],
    ['day', dayCostMicros, today],
  ];
  return rows
    .flatMap(([of, most, used]) => (most == null ? [] : [`${dollars(Math.max(0, most - used))} of the ${of}'s budget`]))
    .join(', ');
}

/** The instant at which a worker's meeting ends, even if nobody speaks; `null`: it has none, or it only writes notes. */
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
