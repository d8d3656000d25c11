import { createHash, randomUUID } from 'node:crypto';
import { errorMessage } from '../../lib/defined.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import { Alarm } from '../../lib/time.ts';
import type { Clock, Timer, Timers } from '../../lib/time.ts';
import { FIRST_BASE_SLOT } from './checks/slots.ts';
import { decideCrew } from './crew-decide.ts';
import type { CrewCommand, CrewCommandOf, CrewFact, CrewFactOf, CrewRefusal } from './crew-events.ts';
import type { CrewStore } from './crew-binding.ts';
import type { Landing, LineOrCommit } from './git/merge.ts';
import { overlap } from './tickets/ticket.ts';
import { ticketOf, wantedDeps } from './tickets/message-ticket.ts';
import type { Quotation } from './tickets/message-ticket.ts';
import type { Ticket } from './tickets/ticket.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import type { ReviewedWork } from '../reviews/review.ts';
import { PROPOSALS_FULL, agreementNote } from './crew-words.ts';
import { crewDeadline, findWorker, isStepping, jobOf, nextReviewId, sideAgentOf, workerName } from './crew.ts';
import type {
  Assigned,
  Crew,
  CrewSettings,
  Job,
  Proposal,
  TicketMessage,
  TicketReply,
  PullRequest,
  WorktreeState,
  Worker,
} from './crew.ts';

/** A ticket that can start: its id, texts, file patterns and dependencies. */
export type StartableTicket = Pick<Assigned, 'id' | 'title' | 'text'> & Pick<Ticket, 'touches' | 'deps'>;

/** The result of a search for tickets. `tip`: the commit of main. `listed`: tickets that cannot start, with reasons. */
export type Seen = {
  readonly tip: string;
  readonly ready: readonly StartableTicket[];
  /** How many open tickets wait for other tickets, or for work on the same files. */
  readonly waiting: number;
  readonly listed: readonly { readonly id: string; readonly why: string }[];
};

/** The tickets that the last search found. `ready`: those that can start. */
export type SeenTickets = Pick<Seen, 'listed' | 'waiting'> & {
  readonly ready: readonly Pick<StartableTicket, 'id' | 'title'>[];
};

/** The result of tests. `weakened`: how the work makes tests weaker; empty when it does not. */
export type TestResult = {
  readonly verdict: 'green' | 'red' | 'flaky' | 'none';
  readonly output: string;
  readonly weakened: string;
};

/**
 * The conflict of the commit `tip` with main. `landed`: commits of main since the branch began, at most the newest 20.
 * `hunks`: the conflict's diff, shortened. `sides`: up to three merged tickets that changed the files; none without
 * meetings.
 */
export type Conflict = Required<Pick<CrewCommandOf<'CONFLICT'>, 'tip' | 'files' | 'landed' | 'hunks' | 'sides'>>;

/** Commands about a worker, without its name. */
type WorkerEnd<T extends CrewCommand['type']> = { readonly [K in T]: Omit<CrewCommandOf<K>, 'worker'> }[T];

/** The command that says how a merge ended. */
export type MergeEnd = WorkerEnd<'MERGED' | 'CONFLICT' | 'MERGED_RED' | 'REFUSED' | 'MOVED'>;

/** The command that reports the state of a pull request: opened, sent back, merged, closed or refused. */
export type PullEnd = WorkerEnd<'PULLED' | 'PULL_RETURNED' | 'PULL_MERGED' | 'PULL_CLOSED' | 'REFUSED'>;

/** The repository and the tickets of a crew. Methods can be repeated after a crash. */
export type CrewWork = {
  /**
   * Fetches main if the crew's settings say so, and tries a refused push again. Resolves with true when main moved.
   * Tells people once of a failure. Rejects when the fetch failed.
   */
  fetch(): Promise<boolean>;
  look(crew: Crew): Promise<Seen>;
  /** Runs the tests of main at a commit. */
  testBase(tip: string): Promise<{ readonly verdict: 'green' | 'red' | 'none'; readonly why: string }>;
  /**
   * Chooses the worktree and branch of a worker for a ticket. Avoids branches of other tickets that are finished, have
   * a worktree, or wait for a next worker. The result has `base`, or the newest commit that `base` and the branch of an
   * earlier attempt have in common.
   */
  place(worker: string, ticket: string, crew: Crew, base: string): Promise<TicketPlace>;
  /** Takes the ports of a slot. Resolves with false when the ports cannot be locked, or a program uses one of them. */
  takeSlot(slot: number): Promise<boolean>;
  releaseSlot(slot: number): void;
  /** Takes the ports of a ticket's slot again when the crew is opened. */
  keepSlot(ticket: Assigned): void;
  /** Makes the worktree, and runs the commands that prepare it. */
  prepare(ticket: Assigned, worker: string): Promise<void>;
  /**
   * Call it when the floor is asked for a step: `beforePrompt` then records the state of the user's own checkout of the
   * repository anew.
   */
  onStepAsked(worker: string): void;
  /** Call it before each prompt of a step. The prompt must wait for the promise; `null`: it need not wait. */
  beforePrompt(worker: string): Promise<void> | null;
  /** Measures the worktree, after `endProcesses`. `commits`: commits uncommitted changes first. */
  measure(ticket: Assigned, worker: string, commits: boolean): Promise<WorktreeState>;
  /**
   * Returns the conflict of a commit with main as it is now. Returns `null` when the two can be merged, for pull
   * requests, and with a git before 2.38, which cannot tell.
   */
  conflict(ticket: Assigned, tip: string): Promise<Conflict | null>;
  test(ticket: Assigned): Promise<TestResult>;
  /**
   * Merges a commit of the branch. Calls `started` before the merge is made, and before main gets the merge. When
   * `started` resolves with false or main moves, tries again, at most twice.
   */
  merge(ticket: Assigned, order: MergeOrder, started: MergeStarted): Promise<MergeEnd>;
  /**
   * Opens a pull request for a commit of the branch. With `pull`, checks that request, and pushes new commits to it.
   * Resolves with `null` when there is nothing new.
   */
  pull(ticket: Assigned, tip: string, pull: PullRequest | null): Promise<PullEnd | null>;
  /**
   * Stores uncommitted work under a private ref; also unmerged commits, when no next worker goes on from them. Then
   * removes the worktree, except when `why` is `killed`. A folder with files that is no worktree any more stays as it
   * is. Resolves with the ref, `null` for none, and with the branch if the next worker goes on from it.
   */
  clear(ticket: LeftTicket, left: LeftWork): Promise<Pick<CrewCommandOf<'CLEARED'>, 'kept' | 'branch'>>;
  /** Whether the worktree exists. Repairs a lost registration of it in git. */
  exists(ticket: Assigned): Promise<boolean>;
  /** Ends the ticket's processes that still run, except those of open sessions and commands. Linux only. */
  endProcesses(ticket: Pick<Assigned, 'session'>): Promise<void>;
  /**
   * Removes index and HEAD locks of git processes that were ended in the worktree. Call it while no agent works there.
   */
  unlock(ticket: Assigned): Promise<void>;
  /** Resolves with a line for each ref of stored work: the ref, and when the work was stored. */
  listStoredWork(): Promise<readonly string[]>;
  /**
   * Shows the changes of stored work, or deletes its ref. Resolves with words for people; `null` for an unknown ref.
   */
  showOrDropWork(ref: string, how: 'show' | 'drop'): Promise<string | null>;
  /** Puts stored work into the files of a worktree. Resolves with the result in words; `null` for an unknown ref. */
  applyStoredWork(ref: string, ticket: Assigned): Promise<string | null>;
  /** Brings merged commits that wait at `refs/conch/main` into the user's checkout of main. `text`: the result. */
  updateCopy(): Promise<{ readonly ok: boolean; readonly text: string }>;
  /** Compares git with the state of the crew. Resolves with one text for each difference. */
  check(crew: Crew): Promise<readonly string[]>;
  /** Whether a ticket is closed in its source. */
  isClosed(ticket: string): Promise<boolean>;
  /** Returns those of the ticket ids `ids` that the source of tickets lists. */
  findListed(ids: readonly string[]): Promise<readonly string[]>;
  /** Returns how a line or a commit came to main; `null` when main does not have it. */
  landing(place: LineOrCommit): Promise<Landing | null>;
  /** Returns why a ticket cannot wait for the tickets `deps`, for people; `null` when it can. */
  whyNotAfter(ticket: string, deps: readonly string[], crew: Crew): Promise<string | null>;
  /** Writes a proposed ticket into the source of tickets, once. Resolves with the ticket's id. */
  create(proposal: Proposal): Promise<string>;
  /**
   * Claims a ticket in its source, or renews the claim. Resolves with why the claim failed; `null` when the ticket is
   * claimed, or its source has no claims. `prepare`: called before a claim that can succeed. Rejects when `prepare` does.
   */
  claim(ticket: string, prepare?: () => Promise<void>): Promise<string | null>;
  /** Releases the claim of a ticket in its source. Tells people of a failure. */
  unclaim(ticket: string): Promise<void>;
  /**
   * Adds a note to each of these tickets that does not have it. Does nothing in a source without notes. `note`: a line
   * with its time, and a text.
   */
  note(tickets: readonly string[], note: string): Promise<void>;
  /** Marks a ticket as closed in its source, where Conch can write. `commit`: its merge; `null` for no change. */
  closed(ticket: string, commit: string | null): Promise<void>;
  /** Removes the crew's worktree for merges, and releases its ports and the repository's lock. */
  release(): Promise<void>;
};

/** A stored message of a person, with its thread, from which a ticket can be made. `asker`: the name of its author. */
export type QuotedMessage = Quotation & Pick<TicketMessage, 'message' | 'channel' | 'asker'>;

/** The commit to merge. `accepted`: people have accepted that the commit makes tests weaker. */
export type MergeOrder = { readonly worker: string; readonly tip: string; readonly accepted: boolean };

/**
 * Records that a merge into main begins, or (`lands`) that main gets it. Resolves with false when the merge must stop.
 */
export type MergeStarted = (main: string, lands?: true) => Promise<boolean>;

type TicketPlace = Pick<Assigned, 'worktree' | 'branch' | 'base' | 'from'>;

/** The ticket of a worktree that a worker leaves. `slot`: absent when its ports were released before. */
export type LeftTicket = Pick<Assigned, 'id' | 'session' | 'worktree' | 'branch'> & Partial<Pick<Assigned, 'slot'>>;

/**
 * Why a worktree's work is stored. `over`: its worker was killed before, and now has a ticket again or people remove
 * the worktree. `merged`: the commit of its branch that was merged; `null` for none. `goesOn`: the ticket's next
 * worker can go on from its branch if the branch has commits that main lacks.
 */
export type LeftWork = {
  readonly why: NonNullable<Worker['leaving']>['why'] | 'over';
  readonly merged: string | null;
  readonly goesOn: boolean;
};

/** What the runner of a crew needs from the rest of Conch. */
export type CrewPorts = {
  readonly key: string;
  readonly crews: CrewStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly work: CrewWork;
  readonly settings: CrewSettings;
  /** The least number of workers. Each opening of the crew adds the missing ones. */
  readonly workers: number;
  /** The id of a worker's agent. */
  readonly agentOf: (worker: string) => string;
  /** Opens the thread of a ticket. Resolves with its id. A repeated call resolves with the same thread. */
  readonly openThread: (ticket: StartableTicket) => Promise<string>;
  /**
   * Seats the agents that prepared tickets need: workers, sides of meetings, reviewers. Unseats crews' other agents.
   */
  readonly seat: () => Promise<void>;
  /** Stores the work of an agent since `base` for the review with this id, and shows it to reviewers. */
  readonly finishedWork: (review: string, agent: string, base: string) => Promise<ReviewedWork>;
  /** Starts the sessions of an agent anew. */
  readonly restart: (agent: string) => Promise<unknown>;
  /** Closes the sessions of an agent's seats, and ends their processes. Background runs go on. */
  readonly rest: (agent: string) => Promise<void>;
  /** Called with each error that breaks off a task of the crew, such as a search for tickets. `words`: its message. */
  readonly failed: (error: unknown, words: string) => void;
};

/** The least time between searches for tickets, in milliseconds. Some facts, such as a merge, end this time early. */
const LOOK_MS = 5_000;
/** Types of facts after which other tickets may be ready. */
const SHOWS_TICKETS: ReadonlySet<CrewFact['type']> = new Set([
  'merged',
  'worktreeCleared',
  'runnerSet',
  'workerAdded',
  'baseTested',
  'proposalAdmitted',
  'replyAnswered',
  'approvalGiven',
]);
const AGAIN_MS = 5_000;
/** The most attempts to answer a reply whose ticket cannot be written. They take about a minute. */
const MOST_TRIES = 12;
const PULL_MS = 60_000;
const CLAIM_MS = 24 * 3_600_000;
/** The least time between routine fetches of main, in milliseconds. Tickets and merges can cause more fetches. */
const FETCH_MS = 60_000;

/** The UUID of a worker's session for its ticket, another one after each renewal; empty without a ticket. */
export function sessionOf({ ticket, renewals }: Pick<Worker, 'ticket' | 'renewals'>): string {
  if (ticket === null || renewals === 0) return ticket?.session ?? '';
  const digest = createHash('sha256').update(`${ticket.session} ${renewals}`).digest('hex');
  const variant = ((Number.parseInt(digest[16] ?? '0', 16) & 0x3) | 0x8).toString(16);
  const parts = [digest.slice(0, 8), digest.slice(8, 12), `4${digest.slice(13, 16)}`];
  return [...parts, `${variant}${digest.slice(17, 20)}`, digest.slice(20, 32)].join('-');
}

/** Runs one crew: searches for tickets, assigns them, and does the jobs that its workers wait for. */
export class CrewRunner {
  readonly #ports: CrewPorts;
  readonly #alarm: Alarm;
  readonly #jobs = new Map<string, Promise<void>>();
  /** By worker: resolves when the processes of its last step that failed or was put back have ended. */
  readonly #endings = new Map<string, Promise<void>>();
  readonly #again = new Set<() => void>();
  readonly #pulls = new Map<string, () => void>();
  #looking: Promise<void> | null = null;
  /** Answers one reply after the other, because an answer may change the next one. */
  readonly #answers = new KeyedQueue<'reply'>();
  #lookLater: Timer | null = null;
  #fetchLater: Timer | null = null;
  #claimLater: Timer | null = null;
  #seen: SeenTickets = { listed: [], waiting: 0, ready: [] };
  /** Why the crew's last try to read tickets, test main and assign tickets failed, in words; `null` if it did not. */
  problem: string | null = null;
  #isLookDue = false;
  #isRunning = false;
  #isStopped = false;
  /** The last fetch of main for a search for tickets, with its error; `null` one minute after the fetch began. */
  #fetched: { readonly failed: Error | null } | null = null;

  constructor(ports: CrewPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => void this.#meet().catch((error) => this.#failed(error)));
    ports.crews.onChange(({ key, state, facts }) => {
      if (key !== ports.key || !this.#isRunning) return;
      for (const fact of facts) {
        if (fact.type === 'stepSent') this.#ports.work.onStepAsked(fact.worker);
        if (isEndOfStep(fact)) this.#endStep(state, fact);
        if (SHOWS_TICKETS.has(fact.type)) this.#lookSoon();
        if (fact.type === 'ticketReplied') this.#do(this.#answer(fact));
        // After a meeting, the agent of the other side keeps its seat and name. Its session is closed.
        if (fact.type === 'meetingOver')
          this.#do(this.#ports.rest(sideAgentOf(findWorker(state, fact.worker)?.agent ?? fact.worker)));
        if (fact.type === 'merged') this.#do(this.#ports.work.closed(fact.ticket, fact.commit));
      }
      this.#round(state);
    });
  }

  /** The repository and the tickets of the crew. */
  get work(): Pick<
    CrewWork,
    'listStoredWork' | 'showOrDropWork' | 'applyStoredWork' | 'check' | 'updateCopy' | 'landing'
  > {
    return this.#ports.work;
  }

  get key(): string {
    return this.#ports.key;
  }

  /** The tickets that the last search found. Some of them may have a worker or be finished now. */
  get seen(): SeenTickets {
    return this.#seen;
  }

  state(): Crew {
    const { crews, key } = this.#ports;
    const state = crews.state(key);
    if (state === null) throw new Error(`impossible: crew ${key} has not begun`);
    return state;
  }

  /**
   * Continues the crew's work when the crew is opened, and adds missing workers. Begins no job once the runner was
   * stopped.
   */
  async begin(): Promise<void> {
    const { settings, workers, work } = this.#ports;
    await this.give({ type: 'CONFIGURE', settings });
    await this.spawn(Math.max(0, workers - this.state().workers.length));
    for (const { name, ticket, status, prepared, leaving } of this.state().workers) {
      if (ticket !== null) work.keepSlot(ticket);
      const isAtWork = prepared && leaving === null && status !== 'idle' && status !== 'stuck';
      if (ticket === null || !isAtWork) continue;
      const isThere = await work.exists(ticket);
      if (isThere) await work.unlock(ticket);
      if (isThere && (status === 'done' || !(await this.#isClosed(ticket)))) continue;
      const why = isThere ? 'its ticket was closed meanwhile' : `its worktree ${ticket.worktree} is gone`;
      await this.give({ type: 'LOST', worker: name, why });
    }
    if (this.#isStopped) return;
    for (const proposal of this.state().proposals ?? [])
      if (proposal.source !== undefined) this.#do(this.admit(proposal, proposal.source.by));
    this.#isRunning = true;
    for (const reply of this.state().replies ?? []) this.#do(this.#answer(reply));
    this.#renewClaims();
    // A stopped crew searches for tickets once, too, so that people see them.
    this.#look();
    this.#round(this.state());
  }

  #renewClaims(): void {
    for (const { ticket, leaving } of this.state().workers)
      if (ticket !== null && leaving === null) this.#do(this.#renewClaim(ticket.id));
    this.#claimLater = this.#ports.timers.after(CLAIM_MS, () => this.#renewClaims());
  }

  async #renewClaim(ticket: string): Promise<void> {
    const why = await this.#ports.work.claim(ticket);
    if (why !== null && this.#isRunning) await this.give({ type: 'NOTE', text: `${ticket}: ${why}`, ticket });
  }

  /** Whether a ticket is closed in its source. False when the source fails; the error is reported. */
  async #isClosed({ id }: Assigned): Promise<boolean> {
    try {
      return await this.#ports.work.isClosed(id);
    } catch (error) {
      this.#failed(error);
      return false;
    }
  }

  /** Stops the runner. Releases the repository once no job is under way. The next start repeats unfinished jobs. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    this.#isStopped = true;
    this.#alarm.cancel();
    this.#lookLater?.cancel();
    this.#claimLater?.cancel();
    for (const resume of this.#again) resume();
    await this.#looking;
    this.#fetchLater?.cancel();
    await Promise.all(this.#jobs.values());
    await this.#ports.work.release();
  }

  /** Gives a command to the crew. Returns why it was refused, or `null`. */
  async give(command: CrewCommand): Promise<CrewRefusal | null> {
    const { crews, key, clock } = this.#ports;
    const applied = await crews.apply(key, command, clock.now());
    return applied.ok ? null : applied.refusal;
  }

  /** Returns the promise that a worker's prompt waits for; `null` for none. Never rejects: failures are reported. */
  beforePrompt(worker: Worker): Promise<void> | null {
    if (!this.#isRunning || !isStepping(worker)) return null;
    const { name } = worker;
    const { work } = this.#ports;
    const ending = this.#endings.get(name);
    const before = ending === undefined ? work.beforePrompt(name) : ending.then(async () => work.beforePrompt(name));
    return before?.then(undefined, (error: unknown) => this.#failed(error)) ?? null;
  }

  /** Stores a ticket that a worker proposes. Resolves with the answer for its agent. */
  async propose({ name }: Worker, ticket: ProposedTicket): Promise<string> {
    const { title, text = '', deps = [], touches = [] } = ticket;
    const parts = { title: title.replaceAll(/\s+/g, ' '), text, deps: [...deps], touches: [...touches] };
    const refusal = await this.give({ type: 'PROPOSE', worker: name, ...parts });
    if (refusal === 'TOO_MANY_PROPOSALS')
      return 'Not done: too many proposed tickets wait for people. Write this one in your answer, so that people read it.';
    return refusal === null || refusal === 'UNCHANGED'
      ? 'Proposed. It becomes a ticket when a person admits it. Go on with your own ticket.'
      : 'Not done: this turn is no turn of work on a ticket.';
  }

  /**
   * Makes a ticket of a message, once. Resolves with the ticket's id. Rejects with words for people. Can be repeated.
   */
  async makeOf(quoted: QuotedMessage, by: string): Promise<string> {
    const { message, channel, asker } = quoted;
    const deps = await this.#ports.work.findListed(wantedDeps([quoted.first, ...quoted.after].map(({ text }) => text)));
    const made = { message, channel, asker, by, ...ticketOf(quoted), deps: [...deps], touches: [] };
    if ((await this.give({ type: 'PROPOSE_MESSAGE', ...made })) === 'TOO_MANY_PROPOSALS')
      throw new Error(PROPOSALS_FULL);
    return this.#ticketOf(message, by);
  }

  /** The id of the ticket made of a message; empty for none. Writes the ticket first if it is only proposed. */
  async #ticketOf(message: string, by?: string): Promise<string> {
    const { proposals = [], asked: requestedTickets = [] } = this.state();
    const proposal = proposals.find((each) => each.source?.message === message);
    if (proposal !== undefined) return this.admit(proposal, by ?? proposal.source?.by ?? '');
    return requestedTickets.find((each) => each.message === message)?.ticket ?? '';
  }

  async #answer(reply: TicketReply, tries = 1): Promise<void> {
    const { message, about, deps } = reply;
    const answered = this.#answers.run('reply', async () => {
      const why = await this.#ports.work.whyNotAfter(await this.#ticketOf(about), deps, this.state());
      return await this.give({ type: 'REPLY_READ', message, why: why ?? '' });
    });
    await answered.catch(async (error: unknown) => {
      await this.#brokeOff(error);
      if (!this.#isRunning) return;
      const isWritten = this.state().proposals?.every(({ source }) => source?.message !== about) !== false;
      const why = `it cannot be written: ${errorMessage(error)}. Reply again when it is a ticket`;
      await (isWritten || tries < MOST_TRIES
        ? this.#answer(reply, tries + 1)
        : this.give({ type: 'REPLY_READ', message, why }));
    });
  }

  /** Writes a proposed ticket. Resolves with the ticket's id. Rejects with words for people. Can be repeated. */
  async admit(proposal: Proposal, by: string): Promise<string> {
    const ticket = await this.#ports.work.create(proposal);
    await this.give({ type: 'ADMITTED', proposal: proposal.id, by, ticket });
    return ticket;
  }

  /**
   * Adds a worker named `wanted`, or `wanted` workers with the next free names. `touches`: file patterns of the tickets
   * that the workers get; empty: all tickets.
   */
  async spawn(wanted: number | string, touches: readonly string[] = []): Promise<CrewRefusal | null> {
    const { agentOf } = this.#ports;
    const crew = this.#ports.crews.state(this.key);
    const names: string[] = typeof wanted === 'string' ? [wanted] : [];
    const missing = typeof wanted === 'string' ? 0 : wanted;
    for (let index = 0; names.length < missing; index += 1) {
      const name = workerName(index);
      if (crew === null || findWorker(crew, name) === undefined) names.push(name);
    }
    const more = touches.length === 0 ? {} : { touches: [...touches] };
    return this.give({ type: 'SPAWN', workers: names.map((name) => ({ name, agent: agentOf(name), ...more })) });
  }

  /** Gives a ready ticket to a worker, also a ticket that only people start. Returns why not; `null` when given. */
  async assign(worker: string, id: string): Promise<CrewRefusal | 'NO_TICKET' | null> {
    if (!this.state().running) return 'NOT_RUNNING';
    await this.#ports.work.fetch();
    const { tip, ready } = await this.#ports.work.look(this.state());
    const ticket = ready.find((each) => each.id === id);
    if (ticket === undefined) return 'NO_TICKET';
    await this.#testBase(tip);
    return this.#assign(worker, ticket);
  }

  #round(crew: Crew): void {
    if (!this.#isRunning) return;
    this.#alarm.noLaterThan(crewDeadline(crew));
    for (const worker of crew.workers) {
      const job = jobOf(crew, worker);
      if (job !== null && !this.#jobs.has(worker.name)) this.#start(worker.name);
      else if (job !== 'pull') this.#pulls.get(worker.name)?.();
    }
    const isIdle = crew.workers.some(({ status, leaving }) => status === 'idle' && leaving === null);
    if (crew.running && isIdle && this.#looking === null && this.#lookLater === null) this.#look();
  }

  #start(name: string): void {
    const done = this.#job(name)
      .catch((error: unknown) => this.#brokeOff(error))
      .finally(() => {
        this.#jobs.delete(name);
        if (this.#isRunning) this.#round(this.state());
      });
    this.#jobs.set(name, done);
  }

  async #brokeOff(why: unknown): Promise<void> {
    this.#failed(why);
    await this.#pause(AGAIN_MS);
  }

  /** Resolves after `ms`, or earlier when the runner stops. `ends` gets the function that ends the wait. */
  async #pause(ms: number, ends: (resume: () => void) => void = () => undefined): Promise<void> {
    if (!this.#isRunning) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#again.add(resolve);
    ends(resolve);
    const timer = this.#ports.timers.after(ms, () => resolve());
    await promise;
    timer.cancel();
    this.#again.delete(resolve);
  }

  async #job(name: string): Promise<void> {
    const crew = this.state();
    const worker = findWorker(crew, name);
    const job = worker === undefined ? null : jobOf(crew, worker);
    if (worker === undefined || job === null) return;
    const command = await this.#carryOut(job, worker, worker.ticket);
    if (command !== null && this.#isRunning) await this.give(command);
  }

  async #carryOut(job: Job, worker: Worker, ticket: Assigned | null): Promise<CrewCommand | null> {
    if (job === 'clear') return this.#clear(worker);
    if (ticket === null) return null;
    switch (job) {
      case 'prepare':
        return this.#prepare(worker, ticket);
      case 'seat':
        return this.#seat(worker, ticket);
      case 'note':
        return this.#note(worker, ticket);
      case 'measure':
        return this.#measure(worker, ticket);
      case 'test':
        return (await this.#treeless(worker, ticket)) ?? this.#test(worker, ticket);
      case 'review':
        return (await this.#treeless(worker, ticket)) ?? this.#review(worker, ticket);
      case 'merge':
        return this.#merge(worker, ticket);
      case 'pull':
        return this.#pull(worker, ticket);
    }
  }

  async #prepare({ name }: Worker, ticket: Assigned): Promise<CrewCommand> {
    try {
      await this.#ports.work.prepare(ticket, name);
    } catch (error) {
      return { type: 'UNSTARTED', worker: name, ticket: ticket.id, why: errorMessage(error) };
    }
    return { type: 'PREPARED', worker: name, ticket: ticket.id };
  }

  async #seat({ name }: Worker, { id }: Assigned): Promise<CrewCommand> {
    await this.#ports.seat();
    return { type: 'SEATED', worker: name, ticket: id };
  }

  async #note({ name, meeting }: Worker, { id }: Assigned): Promise<CrewCommand> {
    if (meeting !== undefined)
      try {
        await this.#ports.work.note([id, meeting.ticket], agreementNote(id, name, meeting));
      } catch (error) {
        const why = errorMessage(error);
        await this.give({ type: 'NOTE', text: `${id}: the agreement is not on the tickets: ${why}`, ticket: id });
      }
    return { type: 'NOTED', worker: name, ticket: id };
  }

  async #measure({ name, step, stepCount, maxSteps }: Worker, ticket: Assigned): Promise<CrewCommand | null> {
    // Conch commits after a review, after the last step, and when DONE answers a request to commit.
    const commits = step === null || stepCount >= maxSteps || (step.signalled === true && step.kind === 'commit');
    try {
      const work = await this.#ports.work.measure(ticket, name, commits);
      return { type: 'MEASURED', worker: name, epoch: step?.epoch ?? null, work };
    } catch (error) {
      if (await this.#ports.work.exists(ticket)) throw error;
      return { type: 'LOST', worker: name, why: errorMessage(error) };
    }
  }

  /** Returns the command for a worker whose worktree is gone; `null` while it is there. */
  async #treeless({ name: worker }: Worker, ticket: Assigned): Promise<CrewCommandOf<'LOST'> | null> {
    const isThere = await this.#ports.work.exists(ticket);
    return isThere ? null : { type: 'LOST', worker, why: `its worktree ${ticket.worktree} is gone` };
  }

  /**
   * Tests the work. Reports a conflict with main in place of a test result, because its resolution changes the work.
   */
  async #test({ name, agent, work, unfinished }: Worker, ticket: Assigned): Promise<CrewCommand | null> {
    if (work === null) return null;
    // A program that the worker left running could hold a port of its slot, or change files under the tests.
    await this.#ports.rest(agent);
    // People decide about unfinished work first, so its conflict is found later.
    const conflict = unfinished ? null : await this.#ports.work.conflict(ticket, work.tip);
    if (conflict !== null) return { type: 'CONFLICT', worker: name, ...conflict };
    const result = await this.#ports.work.test(ticket);
    return { type: 'TESTED', worker: name, tip: work.tip, ...result };
  }

  async #review(worker: Worker, { base }: Assigned): Promise<CrewCommand | null> {
    const { name, agent, work } = worker;
    if (work === null) return null;
    await this.#ports.seat();
    const review = nextReviewId(worker);
    const finished = await this.#ports.finishedWork(review, agent, base);
    return { type: 'REVIEWING', worker: name, review, tip: work.tip, work: finished };
  }

  async #merge({ name, agent, work, accepted }: Worker, ticket: Assigned): Promise<CrewCommand | null> {
    if (work === null) return null;
    await this.#ports.rest(agent);
    const started: MergeStarted = async (main, lands) => {
      const more = lands ? { lands } : {};
      const refusal = await this.give({ type: 'MERGE_STARTED', worker: name, tip: work.tip, main, ...more });
      return refusal === null || refusal === 'UNCHANGED';
    };
    const order = { worker: name, tip: work.tip, accepted: accepted === work.tip };
    return { ...(await this.#ports.work.merge(ticket, order, started)), worker: name };
  }

  async #pull({ name, work, pull }: Worker, ticket: Assigned): Promise<CrewCommand | null> {
    if (work === null) return null;
    const end = await this.#ports.work.pull(ticket, work.tip, pull ?? null);
    if (end !== null) return { ...end, worker: name };
    await this.#pause(PULL_MS, (resume) => this.#pulls.set(name, resume));
    this.#pulls.delete(name);
    return null;
  }

  async #clear({ name, ticket, leaving, left, work, pull }: Worker): Promise<CrewCommand | null> {
    if (leaving === null) {
      if (left === undefined) return null;
      const { workers, finished } = this.state();
      const isOthers = workers.some((other) => other.name !== name && other.ticket?.id === left.id);
      const goesOn = !isOthers && !finished.some(({ id }) => id === left.id);
      const cleared = await this.#ports.work.clear(left, { why: 'over', merged: null, goesOn });
      return { type: 'CLEARED', worker: name, ticket: left.id, ...cleared };
    }
    if (ticket === null) return null;
    // The leaving worker loses its seat, so that its session ends before its folder is touched.
    await this.#ports.seat();
    const merged = leaving.why === 'merged' ? (pull?.tip ?? work?.tip ?? null) : null;
    const { why } = leaving;
    const isOver = why === 'merged' || why === 'unchanged' || (await this.#isClosed(ticket));
    const cleared = await this.#ports.work.clear(ticket, { why, merged, goesOn: !isOver });
    if (why === 'unchanged') await this.#ports.work.closed(ticket.id, null);
    return { type: 'CLEARED', worker: name, ticket: ticket.id, ...cleared };
  }

  #lookSoon(): void {
    this.#lookLater?.cancel();
    this.#lookLater = null;
    this.#isLookDue = true;
  }

  #look(): void {
    this.#isLookDue = false;
    this.#looking = this.#looked()
      .then(() => void (this.problem = null))
      .catch((error: unknown) => {
        this.problem = errorMessage(error);
        this.#failed(error);
      })
      .finally(() => {
        this.#looking = null;
        if (!this.#isRunning) return;
        if (this.#isLookDue) return this.#round(this.state());
        this.#lookLater = this.#ports.timers.after(LOOK_MS, () => {
          this.#lookLater = null;
          this.#round(this.state());
        });
      });
  }

  async #looked(): Promise<void> {
    const { work } = this.#ports;
    let seen = await work.look(this.state());
    this.#seen = seen;
    if (await this.#fetch(this.#givesOneOf(seen))) seen = await work.look(this.state());
    this.#seen = seen;
    const { tip, ready } = seen;
    if (ready.length > 0) await this.#testBase(tip);
    for (const ticket of ready) {
      if (!this.state().running || !this.#isRunning) return;
      const taker = this.#takerOf(ticket);
      if (taker !== undefined) await this.#assign(taker.name, ticket);
    }
  }

  /**
   * Fetches main at once if `isNeeded`: a ticket can be given now. Otherwise fetches at most once a minute, to find
   * tickets that others pushed. Rejects for a minute after a failed fetch, so the search gives no ticket. Resolves
   * with true when main moved.
   */
  async #fetch(isNeeded: boolean): Promise<boolean> {
    const { work, timers } = this.#ports;
    if (this.#fetched !== null && this.#fetched.failed !== null) throw this.#fetched.failed;
    if (this.#fetched !== null && !isNeeded) return false;
    const fetched: { failed: Error | null } = { failed: null };
    this.#fetched = fetched;
    this.#fetchLater?.cancel();
    this.#fetchLater = timers.after(FETCH_MS, () => (this.#fetched = null));
    return await work.fetch().catch((error: unknown) => {
      fetched.failed = error instanceof Error ? error : new Error(String(error));
      throw error;
    });
  }

  #givesOneOf({ tip, ready }: Seen): boolean {
    const { base } = this.state();
    const isRed = base?.verdict === 'red' && base.tip === tip;
    return !isRed && ready.some((ticket) => this.#takerOf(ticket) !== undefined);
  }

  /** The idle worker that a ticket is given to, `undefined` for none. Workers with fitting patterns come first. */
  #takerOf({ id, touches: wanted }: StartableTicket): Worker | undefined {
    const { workers, refused } = this.state();
    if (refused.some((each) => each.id === id)) return undefined;
    const idle = workers.filter(({ status, leaving }) => status === 'idle' && leaving === null);
    const fits = idle.filter(({ touches }) => touches === undefined || overlap(touches, wanted));
    return fits.find(({ touches }) => touches !== undefined) ?? fits[0];
  }

  async #testBase(tip: string): Promise<void> {
    const since = this.state().base?.tip ?? null;
    if (since === tip || !this.state().running) return;
    const tested = await this.#ports.work.testBase(tip);
    await this.give({ type: 'BASE', since, tip, ...tested });
  }

  async #assign(worker: string, ticket: StartableTicket): Promise<CrewRefusal | null> {
    const { work, openThread, clock } = this.#ports;
    const { base } = this.state();
    if (base === null) return 'BASE_UNTESTED';
    const { touches, deps, ...words } = ticket;
    const more = touches.length === 0 ? {} : { touches: [...touches] };
    const unplaced = { worktree: '', branch: '', base: base.tip, slot: -1, thread: '', session: randomUUID() };
    const order = { type: 'ASSIGN', worker, ticket: { ...words, ...more, ...unplaced }, deps: [...deps] } as const;
    // Checks that the crew accepts the assignment before the ticket gets a slot, a thread and a claim.
    const decided = decideCrew(this.state(), order, clock.now());
    if (!decided.ok) return decided.refusal;
    const slot = await this.#freeSlot();
    const isFreeFor = (name: 'id' | 'slot', value: string | number) =>
      this.state().workers.every((each) => each.ticket?.[name] !== value);
    let isClaimed = false;
    try {
      const place = await work.place(worker, ticket.id, this.state(), base.tip);
      let thread = '';
      const why = await work.claim(ticket.id, async () => void (thread = await openThread(ticket)));
      if (why !== null) {
        this.#seen = { ...this.#seen, listed: [...this.#seen.listed, { id: ticket.id, why }] };
        return 'TICKET_TAKEN';
      }
      isClaimed = true;
      return await this.give({ ...order, ticket: { ...order.ticket, ...place, slot, thread } });
    } finally {
      // Another worker can have got the ticket or the slot meanwhile.
      if (isFreeFor('slot', slot)) work.releaseSlot(slot);
      if (isClaimed && isFreeFor('id', ticket.id)) await work.unclaim(ticket.id);
    }
  }

  async #freeSlot(): Promise<number> {
    const takenSlots = new Set(this.state().workers.map((each) => each.ticket?.slot));
    for (let slot = 0; slot < FIRST_BASE_SLOT; slot += 1)
      if (!takenSlots.has(slot) && (await this.#ports.work.takeSlot(slot))) return slot;
    throw new Error('the ports of every slot are in use by other programs');
  }

  #endStep(crew: Crew, fact: EndOfStep): void {
    const { name, agent, ticket } = findWorker(crew, fact.worker) ?? {};
    if (name === undefined || agent === undefined || ticket == null) return;
    const { restart, seat, work } = this.#ports;
    // After an error the session starts anew. After a renewal the agent gets its new session.
    const session = { errorCounted: () => restart(agent), sessionRenewed: seat, stepPutBack: async () => {} };
    const ended = session[fact.type]()
      .then(() => work.endProcesses(ticket))
      .then(() => (fact.type === 'errorCounted' ? work.unlock(ticket) : undefined))
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        if (this.#endings.get(name) === ended) this.#endings.delete(name);
      });
    this.#endings.set(name, ended);
  }

  async #meet(): Promise<void> {
    await this.give({ type: 'TICK' });
    if (this.#isRunning) this.#round(this.state());
  }

  #do(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    this.#ports.failed(error, errorMessage(error));
  }
}

type EndOfStep = CrewFactOf<'errorCounted' | 'sessionRenewed' | 'stepPutBack'>;

function isEndOfStep(fact: CrewFact): fact is EndOfStep {
  return fact.type === 'errorCounted' || fact.type === 'sessionRenewed' || fact.type === 'stepPutBack';
}
