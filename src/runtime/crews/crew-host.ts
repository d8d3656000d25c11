import { resolve } from 'node:path';
import type { AgentConfig, ChannelConfig, Config, CrewConfig } from '../../config/config.ts';
import { channelIn, seatSettingsOf, withPlaces } from '../../config/config.ts';
import { defined, errorMessage } from '../../lib/defined.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { CrewCommands } from '../../turns/commands/context.ts';
import type { ChannelCommand, ReactionKind } from '../../adapters/port.ts';
import type { CrewAsk, CrewView } from '../../turns/crew-view.ts';
import { forTurn } from '../../turns/drawn-for.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import type { FloorStore } from '../../turns/floor-store.ts';
import { CREW_SIGNALS } from '../../work/crews/crew-decide.ts';
import type { ReviewedWork, ReviewSettings } from '../../work/reviews/review.ts';
import { createCrewCommands } from '../../work/crews/crew-commands.ts';
import { crewAskOf, crewViewOf } from '../../work/crews/crew-shown.ts';
import type { CrewSurroundings } from '../../work/crews/crew-shown.ts';
import { reactionCommand, ticketKey } from '../../work/crews/crew-words.ts';
import { crewOnFloor } from '../../work/crews/crew-binding.ts';
import type { CrewStore } from '../../work/crews/crew-binding.ts';
import type { CrewCommand, CrewFact } from '../../work/crews/crew-events.ts';
import { findApproval, findWorker, ticketMadeOf, sideAgentOf } from '../../work/crews/crew.ts';
import type { CrewApproval, Crew, CrewSettings, Worker } from '../../work/crews/crew.ts';
import { CrewRunner, sessionOf } from '../../work/crews/crews.ts';
import type { StartableTicket } from '../../work/crews/crews.ts';
import { TURN_LIMITS } from '../../work/runs/run.ts';
import { openCrewWork } from '../../work/crews/crew-work.ts';
import { runEnvironment } from '../../work/crews/checks/slots.ts';
import { reviewWaitMs } from '../channel-reviews.ts';
import { commandRunner, endMarked } from './run-command.ts';
import { messageAt, pullsOf, ticketsOf } from './ticket-sources.ts';
import { wantedDeps } from '../../work/crews/tickets/message-ticket.ts';
import type { HumanMessage } from '../../engine/port.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import { obstacleWords } from '../../turns/commands/read.ts';
import type { Obstacle } from '../../turns/floor/gate.ts';
import type { Log } from '../log.ts';
import type { ReadModel } from '../read-model.ts';

type CrewHostPorts = {
  readonly store: Pick<FloorStore, 'host' | 'id' | 'keyValues' | 'lastLines' | 'message' | 'announcementAt'>;
  readonly floors: Pick<ReadModel, 'view' | 'speaker'>;
  /** The configuration without the workers and threads of crews. */
  readonly config: () => Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly clean: (text: string) => string;
  /** Shows people the present state of a channel. */
  readonly show: (channel: string) => void;
  /** Opens a thread of a channel on its platform. Resolves with the thread's id. */
  readonly openThread: (channel: string, name: string, key: string) => Promise<string>;
  /** Applies the configuration again, with the workers that have seats now. */
  readonly reseat: () => Promise<void>;
  /** Stores the work of an agent since the commit `base` for a review, and checks it out for reviewers. */
  readonly finishedWork: (review: string, agent: string, base: string) => Promise<ReviewedWork>;
  readonly restart: (agent: string) => Promise<unknown>;
  /** The number of steps so far in an agent's open run in a channel; `null` for no open run. */
  readonly runSteps: (channel: string, agent: string) => number | null;
  readonly rest: (agent: string) => Promise<void>;
  /** A link to a message; `null` where its platform has none. */
  readonly link: (channel: string, message: string) => string | null;
};

const THREADS = 'crew-threads';
const MEMORY = 'crew-memory';
/** The most tickets of each state in the answer of a command. */
const TICKETS_TOLD = 50;
/** How many of a crew's newest facts are read for the log that people see. */
const FACTS_SHOWN = 200;
const MICROS = 1_000_000;
/** How many of a thread's last lines are searched for the question that its worker asks. */
const LINES_READ = 20;
/** Obstacles to the next turn in a ticket's thread with which its worker is shown as asking people. */
const STOPS: ReadonlySet<Obstacle['why']> = new Set(['paused', 'limit', 'day-limit', 'over-budget', 'stopped']);

/** The crews of this Conch: opens their repositories, and gives their workers seats in the threads of their tickets. */
export class CrewHost {
  readonly commands: CrewCommands;
  readonly #ports: CrewHostPorts;
  readonly #crews: CrewStore;
  readonly #runners = new Map<string, CrewRunner>();
  /** Why a crew is not open, in words for people. */
  readonly #closedReasons = new Map<string, string>();
  readonly #sessionResumes = new Map<string, boolean>();
  /** The configuration with which each crew was opened, or could not be opened: as JSON, and its repository. */
  readonly #openedPlans = new Map<string, { readonly plan: string; readonly repo: string }>();
  /** Changes of each crew. A crew waits for the jobs of another crew only if that one leaves its new repository. */
  readonly #changes = new Map<string, Promise<void>>();
  /** By repository: resolves when the last crew that closed there has left it. */
  readonly #leaving = new Map<string, Promise<void>>();
  /** Opens one crew at a time: of two crews in one repository, the first of the configuration works there. */
  readonly #openQueue = new KeyedQueue<'open'>();
  /** Resolves when the crews were opened once, or when Conch stops before that. `null` afterwards. */
  #firstOpening: PromiseWithResolvers<void> | null = Promise.withResolvers<void>();
  #isStopped = false;
  #seating: Promise<void> = Promise.resolve();

  /** Must be called before the store recovers. */
  constructor(ports: CrewHostPorts) {
    this.#ports = ports;
    this.#crews = ports.store.host(crewOnFloor);
    this.#crews.onChange(({ key, state, facts }) => {
      this.#pauseOthers(key, facts);
      this.#show(state, facts);
    });
    this.commands = createCrewCommands({
      crewAt: (channel) => this.#runnerAt(channel),
      facts: (crew, limit) => this.#crews.journal(crew, limit),
      message: (id) => messageAt(id, ports),
      view: (runner) => this.#viewOf(runner, { clean: ports.clean, most: TICKETS_TOLD, facts: [] }),
      lines: (channel, limit) => ports.store.lastLines(channel, limit),
      clean: ports.clean,
    });
  }

  #show({ settings, workers }: Crew, facts: readonly CrewFact[]): void {
    const names = new Set(facts.flatMap((fact) => ('worker' in fact ? [fact.worker] : [])));
    const threads = workers.flatMap(({ name, ticket }) => (names.has(name) && ticket !== null ? [ticket.thread] : []));
    for (const channel of new Set([settings?.channel, ...threads]))
      if (channel !== undefined) this.#ports.show(channel);
  }

  /**
   * Returns the promise that an agent's prompt waits for; `null` for none. A turn can continue before the crews are
   * open: its worker's prompt then waits until they are.
   */
  beforePrompt(agent: string): Promise<void> | null {
    if (this.#firstOpening !== null && this.#isOfCrew(agent))
      return this.#firstOpening.promise.then(() => this.beforePrompt(agent) ?? undefined);
    for (const runner of this.#runners.values()) {
      const worker = workerWith(runner.state(), agent);
      if (worker !== undefined) return runner.beforePrompt(worker);
    }
    return null;
  }

  #isOfCrew(agent: string): boolean {
    return this.#ports.config().crews.some(({ id }) => {
      const crew = this.#crews.state(id);
      return crew !== null && workerWith(crew, agent) !== undefined;
    });
  }

  /** Stores a ticket that a worker proposes. Resolves with the answer for its agent. */
  async propose(agent: string, ticket: ProposedTicket): Promise<string> {
    const { clean } = this.#ports;
    for (const runner of this.#runners.values()) {
      const worker = findWorker(runner.state(), agent);
      if (worker?.agent !== agent) continue;
      return await runner.propose(worker, { ...ticket, title: clean(ticket.title), text: clean(ticket.text ?? '') });
    }
    return 'Not done: you are no worker of a crew.';
  }

  /**
   * Called when a floor changed. If the floor is of a ticket's thread, shows people the present state of the crew's
   * channel.
   */
  floorChanged(channel: string): void {
    const crew = this.#ports.config().crews.find((each) => this.#hasThread(each, channel));
    if (crew !== undefined) this.#ports.show(crew.channel);
  }

  /**
   * Returns the workers that ask people or are stuck, of the crew that works in a channel: its own channel, or a thread
   * of a ticket. Empty when the crew is not open; `null` where no crew works.
   */
  asks(channel: string): readonly CrewAsk[] | null {
    const runner = this.#runnerAt(channel);
    if (runner === null || typeof runner === 'string') return runner === null ? null : [];
    const crew = runner.state();
    const around = { whyHeld: this.#whyHeld, clean: this.#ports.clean };
    return crew.workers.flatMap((worker) => crewAskOf(crew, worker, around) ?? []);
  }

  /**
   * The view of the crew of a channel or of a ticket's thread, also of a finished ticket; `null` for none, or when the
   * crew is not open. `most`: the most tickets of each state; with 0, the view has no log either.
   */
  crewView(channel: string, most: number): CrewView | null {
    const runner = this.#runnerAt(channel) ?? this.#pastRunnerAt(channel);
    if (runner === null || typeof runner === 'string') return null;
    const facts = most === 0 ? [] : this.#crews.journal(runner.key, FACTS_SHOWN);
    return this.#viewOf(runner, { clean: this.#ports.clean, most, facts });
  }

  /** The id of the finished ticket of a thread; `null` for other channels. */
  pastThread(channel: string): string | null {
    const finished = this.#ports.config().crews.flatMap(({ id }) => this.#crews.state(id)?.finished ?? []);
    const found = finished.find(({ thread }) => thread === channel);
    return found?.id ?? null;
  }

  #pastRunnerAt(channel: string): CrewRunner | null {
    const isHere = ({ key }: CrewRunner): boolean =>
      this.#crews.state(key)?.finished.some(({ thread }) => thread === channel) === true;
    return [...this.#runners.values()].find((runner) => isHere(runner)) ?? null;
  }

  #viewOf(runner: CrewRunner, parts: Pick<CrewSurroundings, 'clean' | 'most' | 'facts'>): CrewView {
    const { store } = this.#ports;
    const { seen, problem } = runner;
    return crewViewOf(runner.state(), {
      ...parts,
      store: store.id,
      ...seen,
      problem,
      runSteps: (channel, agent) => this.#ports.runSteps(channel, agent),
      whyHeld: this.#whyHeld,
    });
  }

  readonly #whyHeld: CrewSurroundings['whyHeld'] = (channel, agent) => {
    const { floors, store } = this.#ports;
    const view = floors.view(channel);
    if (view === null) return null;
    const { holder, seats, obstacles } = view;
    const name = (id: string): string => floors.speaker(id)?.name ?? id;
    if (holder !== null && holder.agent !== agent) return { words: `waits for ${name(holder.agent)}` };
    if (holder?.waitingFor === 'approval') return { words: `${name(agent)} waits for approval.`, asks: true };
    if (seats.some((seat) => seat.agent === agent && seat.status === 'WAITING')) {
      const lastLine = store.lastLines(channel, LINES_READ).findLast(({ author }) => author.id === agent);
      return { words: `asks: ${excerpt(lastLine?.text ?? '', 200)}`, asks: true, since: lastLine?.at ?? null };
    }
    const stop = obstacles.find(({ why }) => STOPS.has(why));
    return stop === undefined ? null : { words: obstacleWords(stop, name), asks: true };
  };

  /**
   * When a crew pauses, pauses the other open crews with the same provider. A pause for a budget pauses no other crew.
   */
  #pauseOthers(crew: string, facts: readonly CrewFact[]): void {
    const { crews } = this.#ports.config();
    const provider = providerOf(crews.find(({ id }) => id === crew));
    for (const fact of facts) {
      if (fact.type !== 'paused' || fact.budget === true) continue;
      const { until, why } = fact;
      for (const other of crews) {
        if (other.id === crew || providerOf(other) !== provider || !this.#runners.has(other.id)) continue;
        this.#give(other.id, { type: 'PAUSE', until, why }, 'a pause could not be stored');
      }
    }
  }

  /**
   * Opens the crews that the configuration has added or changed and those that could not be opened before. Closes those
   * that it no longer has. A changed crew goes on with its workers when its jobs under way have ended.
   */
  async begin(): Promise<void> {
    const crews = this.#ports.config().crews.map(({ id }) => id);
    for (const id of new Set([...this.#openedPlans.keys(), ...crews]))
      this.#changes.set(
        id,
        (this.#changes.get(id) ?? Promise.resolve()).then(() => this.#openChanged(id)),
      );
    try {
      await Promise.all(this.#changes.values());
    } finally {
      this.#endWaits();
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endWaits();
    await Promise.all([...this.#runners.values()].map((runner) => runner.stop()));
    await Promise.all(this.#changes.values());
  }

  #endWaits(): void {
    this.#firstOpening?.resolve();
    this.#firstOpening = null;
  }

  async #openChanged(id: string): Promise<void> {
    const config = this.#ports.config();
    const crew = config.crews.find((each) => each.id === id);
    const plan = crew === undefined ? '' : JSON.stringify([crew, reviewWaitMs(config, crew.channel)]);
    const before = this.#openedPlans.get(id);
    if (before?.plan === plan && !this.#closedReasons.has(id)) return;
    const stopped = this.#runners.get(id)?.stop();
    for (const map of [this.#runners, this.#closedReasons, this.#openedPlans]) map.delete(id);
    if (before !== undefined && stopped !== undefined) this.#leaving.set(before.repo, stopped);
    await stopped;
    if (crew === undefined) return;
    await this.#leaving.get(crew.repo);
    if (this.#isStopped) return;
    this.#openedPlans.set(id, { plan, repo: crew.repo });
    await this.#openQueue.run('open', () => this.#open(crew));
  }

  /** Calls the listener with the facts of every change of a crew. */
  onFacts(listener: (facts: readonly CrewFact[]) => void): void {
    this.#crews.onChange(({ facts }) => listener(facts));
  }

  /** The state of a crew; `null` when it never began. */
  state(crew: string): Crew | null {
    return this.#crews.state(crew);
  }

  /** The configuration with agents and a channel for every worker whose ticket is prepared and that is not leaving. */
  within(config: Config): Config {
    const added = config.crews.flatMap((crew) =>
      (this.#crews.state(crew.id)?.workers ?? []).flatMap((worker) => {
        const parent = channelIn(config, crew.channel);
        const isSeated = worker.ticket !== null && worker.prepared && worker.leaving === null;
        if (!isSeated || parent === undefined) return [];
        const reviewer = reviewerOf(config, crew, worker);
        const taskSteps = parent.runs?.task ?? config.runs?.task ?? TURN_LIMITS.task;
        const place = { resumes: this.#resumes(worker), marks: this.#marksOf(crew) };
        return [seatOf(crew, worker, { parent, reviewer, taskSteps }, place)];
      }),
    );
    if (added.length === 0) return config;
    const { agents, channels } = config;
    const seats = new Set(added.map(({ channel }) => channel.id));
    return withPlaces(config, {
      agents: [...agents, ...added.flatMap((each) => each.agents)],
      // Replaces the channel of a thread in which people wrote before the worker was seated.
      channels: [...channels.filter(({ id }) => !seats.has(id)), ...added.map(({ channel }) => channel)],
    });
  }

  /**
   * The command that a reaction to a message means: 🎫 makes a ticket of the message, ✅ answers a worker's question with
   * a merge, 👎 holds the worker. Returns `null` for a reaction that means nothing.
   */
  reaction(channel: string, message: string, kind: ReactionKind): ChannelCommand | null {
    const runner = this.#runnerAt(channel);
    if (runner === null || typeof runner === 'string') return null;
    if (kind === 'ticket') return { channel, line: `/crew admit ${message}` };
    const { store } = this.#ports;
    for (const worker of runner.state().workers) {
      if (worker.ticket === null) continue;
      const { id, thread } = worker.ticket;
      const key = store.announcementAt(thread, message, ticketKey(runner.key, id));
      if (key === null) continue;
      const meant = reactionCommand(runner.key, worker, { key, kind });
      if (meant === null) return null;
      const { line, mark } = meant;
      return { channel: thread, line, ...(mark === null ? {} : { drawnFor: forTurn(store.id, mark) }) };
    }
    return null;
  }

  /**
   * Handles a message before it is stored. A reply to a message of which a ticket was made can name tickets for which
   * that ticket waits. Such a reply counts once, also when a crash comes before the message is stored.
   */
  async hear(message: HumanMessage, mayDecide: () => Promise<boolean>): Promise<void> {
    const { id, channel, thread = channel, replyTo, author, text, bot, ignore } = message;
    const { config, clean, clock, store } = this.#ports;
    const { crews } = config();
    const isHeard = crews.length > 0 && bot !== true && ignore === undefined;
    const deps = isHeard ? wantedDeps([clean(text)]) : [];
    if (deps.length === 0 || store.message(id) !== null) return;
    // On Discord and Slack, the id of a thread ends with the id of its first message.
    const first = thread.slice(thread.indexOf(':') + 1);
    for (const crew of crews) {
      const state = this.#crews.state(crew.id) ?? {};
      const about = [replyTo, first].find((each) => each !== undefined && ticketMadeOf(state, each) !== undefined);
      if (about === undefined) continue;
      const reply = { message: id, channel, about, deps: [...deps], by: author.name };
      const refused = (await mayDecide()) ? {} : { refused: true as const };
      await this.#crews.applyOnce(`reply ${id}`, crew.id, { type: 'REPLY', ...reply, ...refused }, clock.now());
    }
  }

  #runnerAt(channel: string): CrewRunner | string | null {
    const crew = this.#ports.config().crews.find((each) => each.channel === channel || this.#hasThread(each, channel));
    if (crew === undefined) return null;
    return (
      this.#runners.get(crew.id) ??
      this.#closedReasons.get(crew.id) ??
      'Conch is still opening it. Try again in a moment'
    );
  }

  #hasThread({ id }: CrewConfig, channel: string): boolean {
    return this.#crews.state(id)?.workers.some(({ ticket }) => ticket?.thread === channel) === true;
  }

  /**
   * Whether a worker's session continues earlier work. The first answer for a session is kept, because another answer
   * would restart the agent.
   */
  #resumes(worker: Worker): boolean {
    const session = sessionOf(worker);
    const resumedBefore = this.#sessionResumes.get(session);
    if (resumedBefore !== undefined) return resumedBefore;
    const resumes = worker.stepCount > 0 && !worker.timedOut;
    this.#sessionResumes.set(session, resumes);
    return resumes;
  }

  async #open(crew: CrewConfig): Promise<void> {
    const { config, log, clock, timers, restart, rest } = this.#ports;
    const { keyValues } = this.#ports.store;
    const { id } = crew;
    const failed = (error: unknown, words: string): void => log.error({ crew: id, err: error }, words);
    try {
      const work = await openCrewWork(
        { ...crew, guardsCopy: crew.backend.kind === 'command', marks: this.#marksOf(crew) },
        {
          env: { ...process.env },
          run: commandRunner(timers),
          endMarked,
          answerTo: (request) => this.#answerTo(id, request),
          tickets: (repository) => ticketsOf(crew, repository, clock),
          pulls: () => pullsOf(crew, clock),
          ticketsDir: 'dir' in crew.tickets ? crew.tickets.dir : null,
          say: (words, ticket) => this.#note(id, words, ticket),
          carried: (from, to) => this.#crews.apply(id, { type: 'BASE_CARRIED', from, to }, clock.now()),
          memory: {
            recall: (name) => keyValues.recall(MEMORY, `${id}/${name}`),
            remember: (name, value) => keyValues.remember(MEMORY, `${id}/${name}`, value),
          },
        },
      );
      if (this.#isStopped) return await work.release();
      const runner = new CrewRunner({
        key: id,
        crews: this.#crews,
        clock,
        timers,
        work,
        settings: settingsOf(crew, reviewWaitMs(config(), crew.channel)),
        workers: crew.workers,
        agentOf: (worker) => `${id}-${worker}`.toLowerCase(),
        openThread: (ticket) => this.#thread(crew, ticket),
        seat: () => this.#seat(),
        finishedWork: this.#ports.finishedWork,
        restart,
        rest,
        failed,
      });
      this.#runners.set(id, runner);
      await runner.begin();
    } catch (error) {
      const words = errorMessage(error);
      this.#runners.delete(id);
      this.#closedReasons.set(id, words);
      log.error({ crew: id }, `crew ${id} cannot work: ${words}`);
    }
  }

  /** Returns the prefix of `CONCH_RUN` by which a crew's processes are found. */
  #marksOf({ id }: Pick<CrewConfig, 'id'>): string {
    return `${this.#ports.store.id}/${id}/`;
  }

  /**
   * On Linux, ends the processes that crews left running. An earlier process of Conch may have started them. Call it
   * while no session is open.
   */
  async endProcesses(): Promise<void> {
    await endMarked((mark) => mark.startsWith(`${this.#ports.store.id}/`));
  }

  #note(crew: string, text: string, ticket?: string): void {
    this.#ports.log.info({ crew }, text);
    this.#give(crew, { type: 'NOTE', text, ...defined({ ticket }) }, 'a note could not be stored');
  }

  #give(crew: string, command: CrewCommand, words: string): void {
    const { log, clock } = this.#ports;
    const failed = (error: unknown): void => log.error({ crew, err: error }, words);
    this.#crews.apply(crew, command, clock.now()).catch(failed);
  }

  /**
   * Returns whether people allowed a crew's request; `null` while they have not decided. Asks them at the first call.
   */
  #answerTo(crew: string, request: Pick<CrewApproval, 'about' | 'digest' | 'what'>): boolean | null {
    const approval = findApproval(this.#crews.state(crew) ?? {}, request);
    if (approval !== undefined) return approval.allowed;
    this.#give(crew, { type: 'ASK', ...request }, 'a question could not be stored');
    return null;
  }

  #seat(): Promise<void> {
    const seated = this.#seating.then(() => this.#ports.reseat());
    this.#seating = seated.catch(() => undefined);
    return seated;
  }

  async #thread({ id, channel }: CrewConfig, ticket: StartableTicket): Promise<string> {
    const { keyValues } = this.#ports.store;
    const key = `${id}/${ticket.id}`;
    const storedThread = keyValues.recall(THREADS, key);
    if (storedThread !== null) return storedThread;
    const opened = await this.#ports.openThread(
      channel,
      this.#ports.clean(`${ticket.id} ${ticket.title}`).slice(0, 90),
      key,
    );
    await keyValues.remember(THREADS, key, opened);
    return opened;
  }
}

function providerOf(crew: CrewConfig | undefined): string {
  if (crew === undefined) return '';
  const { backend } = crew;
  const name = 'profile' in backend ? backend.profile : 'provider' in backend ? backend.provider : '';
  return [backend.kind, name, 'command' in backend ? backend.command : ''].join(' ');
}

function settingsOf(crew: CrewConfig, waitMs: number): CrewSettings {
  const { channel, maxWorkers, maxSteps, patience, merge, meetingTurns, review, main } = crew;
  const micros = (usd: number | null) => (usd === null ? undefined : Math.round(usd * MICROS));
  return {
    channel,
    maxWorkers,
    maxSteps,
    patience,
    merge,
    ticketCostMicros: micros(crew.ticketCostUsd) ?? null,
    ...defined({
      costMicros: micros(crew.costUsd),
      dayCostMicros: micros(crew.dayCostUsd),
      prompts: crew.prompts,
      meetingTurns: meetingTurns === 0 ? undefined : meetingTurns,
      votes: crew.votes > 1 ? crew.votes : undefined,
      window: crew.mergeWindow && windowOf(crew.mergeWindow),
      review: review && { reviewer: review.by, settings: reviewSettings(review.maxIterations, waitMs) },
    }),
    main,
  };
}

function windowOf({ seconds, quietHours }: NonNullable<CrewConfig['mergeWindow']>): CrewSettings['window'] {
  const ms = seconds * 1_000;
  if (quietHours === undefined) return { ms };
  const { from, to, timeZone: zone } = quietHours;
  return { ms, quiet: { from: minutesOf(from), to: minutesOf(to), zone } };
}

/** A time such as "22:30" in minutes since midnight. */
function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
}

/** The settings of a ticket's review. The worker's DONE alone does not complete the review. */
function reviewSettings(maxIterations: number, waitMs: number): ReviewSettings {
  const signals = CREW_SIGNALS;
  return { maxIterations, until: 'review', onFail: 'stop', signals, patience: 2, waitMs, session: 'fresh' };
}

function reviewerOf({ agents }: Config, { review }: CrewConfig, { next }: Worker): AgentConfig | undefined {
  return next === 'review' ? agents.find(({ id }) => id === review?.by) : undefined;
}

function seatOf(
  crew: CrewConfig,
  worker: Worker,
  {
    parent,
    reviewer,
    taskSteps,
  }: { readonly parent: ChannelConfig; readonly reviewer: AgentConfig | undefined; readonly taskSteps: number },
  place: WorkerPlace,
): { readonly agents: readonly AgentConfig[]; readonly channel: ChannelConfig } {
  const { ticket } = worker;
  if (ticket === null) throw new Error(`impossible: ${worker.name} is seated without a ticket`);
  const agent: AgentConfig = {
    id: worker.agent,
    name: `${crew.id}-${worker.name}`,
    description: `works on ${ticket.id}`,
    persona: '',
    avatar: null,
    priority: 10,
    timeoutSeconds: crew.quietSeconds,
    rejoin: 'auto',
    crew: crew.id,
    backend: backendOf(crew, worker, place),
    ...(crew.tools === undefined ? {} : { tools: crew.tools }),
    ...(crew.trusted ? { trusted: true } : {}),
  };
  const { stepTimeoutSeconds } = crew;
  const turnConfig = {
    ...parent.turnConfig,
    maxTurnSeconds: Math.max(stepTimeoutSeconds, crew.quietSeconds),
    waitTimeoutSeconds: ANSWER_WITHIN_SECONDS,
    facilitator: null,
    interruptResponder: null,
    defaultAgent: null,
  };
  const agents = [agent, ...sideOf(crew, worker, agent, place)];
  const seated = reviewer === undefined ? agents : [...agents, reviewer];
  const channel: ChannelConfig = {
    ...parent,
    id: ticket.thread,
    name: `${ticket.id} ${ticket.title}`.slice(0, 90),
    parent: parent.id,
    // Turns in a ticket's thread are `conversational` runs, but with the step limit of a `task` run.
    runs: { ...parent.runs, conversational: taskSteps },
    agents: seated.map(({ id }) => id),
    seats: seated.map((each) => seatSettingsOf(each, turnConfig)),
    turnConfig,
  };
  return { agents, channel };
}

/**
 * Returns the agent that speaks for the other ticket in a meeting, in a session of its own. After the meeting, its late
 * posts still have its name: returns the agent of the last meeting. Returns `[]` before the ticket's first meeting.
 */
function sideOf(
  crew: CrewConfig,
  { ticket, meeting, met = [] }: Worker,
  agent: AgentConfig,
  place: WorkerPlace,
): readonly AgentConfig[] {
  const sides = meeting === undefined ? met : [...met, meeting];
  const last = sides.at(-1);
  if (ticket === null || last === undefined) return [];
  // A negative number, which no other session of the ticket has.
  const speaker = { ticket: { ...ticket, id: last.ticket }, renewals: -sides.length };
  const backend = backendOf(crew, speaker, { ...place, resumes: false });
  const name = `${crew.id}-${last.otherWorker}`;
  return [{ ...agent, id: sideAgentOf(agent.id), name, description: `speaks for ${last.ticket}`, backend }];
}

/** How long a turn in a ticket's thread waits for an answer, in seconds: a week. */
const ANSWER_WITHIN_SECONDS = 604_800;

type WorkerPlace = { readonly resumes: boolean; readonly marks: string };

function backendOf(
  crew: CrewConfig,
  worker: Pick<Worker, 'ticket' | 'renewals'>,
  { resumes, marks }: WorkerPlace,
): AgentConfig['backend'] {
  const { backend } = crew;
  const { ticket } = worker;
  if (ticket === null || (backend.kind !== 'acp' && backend.kind !== 'command')) return backend;
  const set = {
    ...backend.set,
    ...runEnvironment({ id: crew.id, marks }, ticket),
    CONCH_TICKET: ticket.id,
    CONCH_SESSION: sessionOf(worker),
    ...(resumes ? { CONCH_SESSION_RESUMES: '1' } : {}),
  };
  return { ...backend, cwd: resolve(ticket.worktree), set };
}

function workerWith({ workers }: Crew, agent: string): Worker | undefined {
  return workers.find((each) => [each.agent, sideAgentOf(each.agent)].includes(agent));
}
