import { noticeButtons } from '../adapters/delivery/card.ts';
import { adapterOf, createOutboxSender } from '../adapters/delivery/chat-adapter.ts';
import type { ChatAdapter, Intake, Thread, FloorQueries } from '../adapters/port.ts';
import type { AgentBackend } from '../agents/backends/backend.ts';
import type { FolderTrust } from '../agents/trust/folder-trust.ts';
import { sessionJournal } from '../agents/session/session-journal.ts';
import { Supervisor } from '../agents/session/supervisor.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { willPass } from '../engine/errors.ts';
import { Delivery } from '../engine/outbox-delivery.ts';
import type { Settlement } from '../engine/port.ts';
import { retry, withinMs } from '../lib/retry.ts';
import { shownAt } from '../lib/time.ts';
import type { Clock, Timers } from '../lib/time.ts';
import { createOperators } from '../turns/commands/execute.ts';
import type { Operators } from '../turns/commands/execute.ts';
import type { Effect } from '../turns/floor/react.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import { isForPlatform } from '../turns/floor-store.ts';
import type { FloorStore, OutboxRow } from '../turns/floor-store.ts';
import { changesSeats } from '../turns/view.ts';
import { TurnManager } from '../turns/manager.ts';
import type { Change } from '../turns/manager.ts';
import type { Plans } from '../turns/channel-plan.ts';
import { agentSpecs, reuseBackends, plansOf } from './agent-factory.ts';
import { ChannelSync, Suspensions } from './channel-sync.ts';
import { createCommandContext, type CommandContextPorts } from './command-context.ts';
import { ChangeLog, redactedDraft, redactedReport, textCleaner } from './log.ts';
import type { Log } from './log.ts';
import { channelsOf, createReadModel, createShowing, intakeFor, queriesFor, sessionSettingsOf } from './read-model.ts';
import type { ReadModel } from './read-model.ts';
import { ChannelReviews } from './channel-reviews.ts';
import type { HumanMessage } from '../engine/port.ts';
import { CrewHost } from './crews/crew-host.ts';
import { Runs } from './runs/runs.ts';
import { StartUp } from './start-up.ts';
import { Threads } from './thread-registry.ts';
import { defined } from '../lib/defined.ts';

/** Dependencies of a running Conch. */
export type AppParts = Pick<CommandContextPorts, 'waiting'> & {
  readonly config: Config;
  readonly store: FloorStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly adapters: readonly ChatAdapter[];
  readonly backendFor: (agent: AgentConfig) => AgentBackend;
  /** Ids of operators without an entry in the configuration: the user of this machine's page. */
  readonly localOperators: readonly string[];
  /** Secrets to redact from texts; default: those of the configuration. Returns a new array when the set changes. */
  readonly secrets?: () => readonly string[];
  /** Called with an error after which Conch must end, such as one of the store or a refusal of a platform. */
  readonly onBroken: (error: unknown) => void;
  /** False while another process may serve the channels in place of this one. Default: always true. */
  readonly mayAct?: () => boolean;
  /** The longest delivery of pending outbox entries at a shutdown, in milliseconds. Default: `DRAIN_MS`. */
  readonly drainMs?: number;
  /** Decides whether agents may start in their folders. Absent: folders with files that agents obey are refused. */
  readonly trust?: FolderTrust;
};

/** The most rounds of outbox delivery at a shutdown, and the default limit of all rounds in milliseconds. */
const DRAIN_ROUNDS = 20;
const DRAIN_MS = 7_000;

/** Backoff of retries while the disk is full or another process writes to the database. */
const STORE_BACKOFF = { firstMs: 250, longestMs: 5_000 };

/** The delay of outbox entries for agents during a shutdown, in milliseconds. Conch ends before it has passed. */
const AFTER_SHUTDOWN_MS = 3_600_000;

/**
 * The time until an outbox entry is tried again, in milliseconds, while another process may have become the leader.
 * This process must neither post nor prompt meanwhile.
 */
const UNCERTAIN_MS = 500;

/** The longest time for which a new channel's first grant waits for attempts to connect agents, in milliseconds. */
const SEATING_MS = 5_000;

/** One running Conch: joins floors, agents and adapters. */
export class App {
  readonly #parts: AppParts;
  readonly #floors: ReadModel;
  readonly runs: Runs;
  readonly reviews: ChannelReviews;
  readonly crews: CrewHost;
  readonly #show: (change: Change) => void;
  readonly #manager: TurnManager;
  readonly #agents: Supervisor;
  readonly #backendFor: AppParts['backendFor'];
  readonly #outbox: Delivery<Effect>;
  readonly #operators: Operators;
  readonly #sync: ChannelSync;
  readonly #suspensions: Suspensions;
  readonly #threads: Threads;
  readonly #startUp: StartUp;
  readonly #changes: ChangeLog;
  /** The loaded configuration. `#config`: the same with channels of threads, and with the workers of crews. */
  #configured: Config;
  #config: Config;
  #isStopping = false;
  /** True once `connect` opens the crews. Until then a reload does not open them. */
  #hasCrews = false;

  constructor(parts: AppParts) {
    const { store, clock, log } = parts;
    this.#parts = parts;
    this.#changes = new ChangeLog(log);
    [this.#configured, this.#config] = [parts.config, parts.config];
    const shared = {
      ...parts,
      config: this.#current,
      adapterOf: this.#adapterOf,
      retrying: <Result>(work: () => Promise<Result>) => this.#retrying(work),
      clean: textCleaner(parts),
      taskRequesterOf: (channel: ChannelId) => this.#taskRequesterOf(channel),
    };
    this.#floors = createReadModel({ store, floor: (channel) => this.#manager.floor(channel) }, shared.config, clock);
    this.#show = createShowing(parts.adapters, this.#floors);
    this.#manager = new TurnManager({
      ...parts,
      // After a failure that will pass, the manager tries the floor's deadline again. Any other failure ends Conch.
      failed: (error) => void (willPass(error) || parts.onBroken(error)),
      addressed: this.#floors.addressed,
      opensReview: (message) => this.reviews.arrived(message),
      takeDraft: (channel) => redactedDraft(this.#agents.takeDraft(channel), shared.clean),
      changed: this.#publish,
    });
    const [manager, floors] = [this.#manager, this.#floors];
    this.#backendFor = reuseBackends(parts.backendFor, () => this.#configured);
    this.runs = new Runs({ ...shared, manager, floors, shownIn: (channel) => this.reviews.shownIn(channel) });
    this.reviews = new ChannelReviews({ ...shared, floors, lastCause: (...seat) => this.#agents.lastCause(...seat) });
    this.crews = this.#createCrews();
    this.#agents = this.#createAgents(shared.clean);
    this.#suspensions = new Suspensions({ texts: store.keyValues, log, manager });
    this.#threads = new Threads(store);
    this.#outbox = this.#createOutbox(shared.clean);
    this.#sync = new ChannelSync({
      ...shared,
      manager,
      receive: (adapter, message) => this.#receive(adapter, message),
      channelsOf: ({ name }) => channelsOf(this.#config, name),
    });
    this.#startUp = new StartUp({
      ...shared,
      manager,
      agents: this.#agents,
      sync: this.#sync,
      threads: this.#threads,
      plans: () => this.#plans(),
      begin: (adapter) => adapter.start(this.#intake(adapter), queriesFor(adapter, this.#queries())),
      forgotten: () => void (this.#config = this.#complete()),
    });
    this.#operators = this.#createOperators(shared);
  }

  #createOperators(shared: Omit<AppParts, 'config'> & { readonly config: () => Config }): Operators {
    const suspended = (channel: ChannelId) => this.#suspensions.why(channel);
    const { commands: runs, people } = this.runs;
    const [reviews, crews] = [this.reviews.commands, this.crews.commands];
    const manager: Pick<TurnManager, 'apply'> = { apply: (...args) => this.#suspensions.give(...args) };
    const own = { manager, roster: this.#agents, floors: this.#floors, suspended };
    return createOperators(createCommandContext({ ...shared, ...own, runs, reviews, crews, people }));
  }

  #taskRequesterOf(channel: ChannelId): string | null {
    const task = this.#manager.floor(channel)?.task;
    if (task?.kind === 'ticket') return this.crews.state(task.key)?.askedBy ?? null;
    // A ticket's review has the requester '' if its crew has none.
    return this.reviews.state(channel)?.review?.by || null;
  }

  #createCrews(): CrewHost {
    return new CrewHost({
      ...this.#parts,
      floors: this.#floors,
      config: () => this.#configured,
      clean: textCleaner(this.#parts),
      show: (channel) => {
        const view = this.#floors.view(channel);
        if (view !== null) this.#adapterOf(channel)?.card?.(channel, view);
      },
      openThread: (channel, name, key) => this.#openThread(channel, name, key),
      reseat: () => this.#reconfigure(),
      finishedWork: (...work) => this.reviews.finishedWork(...work),
      restart: (agent) => this.#agents.restart(agent),
      runSteps: (channel, agent) => this.runs.stepsOf({ channel, agent }),
      rest: (agent) => this.#agents.rest(agent),
      link: (channel, message) => this.#adapterOf(channel)?.link?.(channel, message) ?? null,
    });
  }

  #queries(): FloorQueries {
    const clean = textCleaner(this.#parts);
    return {
      ...this.#floors,
      review: (channel) => this.reviews.reviewView(channel, clean),
      crewAsks: (channel) => this.crews.asks(channel),
      crew: (channel, most) => this.crews.crewView(channel, most),
      pastThread: (channel) => this.crews.pastThread(channel),
      reaction: (channel, message, kind) => this.crews.reaction(channel, message, kind),
    };
  }

  #connectTrust(): void {
    const { trust, onBroken } = this.#parts;
    trust?.connect({
      clean: textCleaner(this.#parts),
      channelsOf: (agent) => this.#floors.seatsOf(agent),
      tell: (channel, command) => void this.#retrying(() => this.#manager.apply(channel, command)).catch(onBroken),
    });
  }

  /**
   * Starts Conch with the platforms without `losesEvents`. Resolves when messages are accepted from these platforms.
   * `connect` connects the others. Floors with work in progress resume in `connect`, or before their next command.
   */
  async start(): Promise<void> {
    this.#connectTrust();
    this.#threads.load();
    this.#config = this.#complete();
    await this.crews.endProcesses();
    await this.#agents.configure(agentSpecs(this.#config, this.#backendFor));
    await this.#startUp.begin();
    this.#outbox.start();
    await this.runs.begin(this.#agents);
    // When a stored review cannot be read, Conch ends in good order.
    try {
      this.reviews.begin();
    } catch (error) {
      this.#parts.onBroken(error);
    }
  }

  /**
   * Connects the platforms with `losesEvents`, with retries, then opens the crews. Rejects with an `AdapterError` when
   * a platform refuses for good.
   */
  async connect(): Promise<void> {
    const connected = this.#startUp.connect();
    void this.#startUp.back.then(() => this.#changes.started());
    await connected;
    if (this.#isStopping) return;
    this.#hasCrews = true;
    await this.crews.begin();
    this.#parts.log.info({ channels: this.#config.channels.length, agents: this.#config.agents.length }, 'ready');
  }

  /** Stops in good order: ends work, delivers pending entries for at most `drainMs`, then stops the adapters. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#manager.stop();
    this.#sync.stop();
    await Promise.all([this.runs.stop(), this.reviews.stop(), this.crews.stop(), this.#agents.stop()]);
    await this.crews.endProcesses();
    await this.#startUp.stop();
    const { adapters, drainMs = DRAIN_MS, store, timers } = this.#parts;
    await withinMs(drainMs, this.#outbox.drain(DRAIN_ROUNDS), timers);
    // A platform that stops ends the waits of posts for its rate limit, so that entries in delivery are settled.
    for (const adapter of adapters) await adapter.stop();
    await this.#outbox.stop();
    await store.close();
  }

  /** Applies a changed configuration to floors, agents and crews. */
  async reload(next: Config): Promise<void> {
    this.#configured = next;
    await this.#reconfigure();
    // Not awaited: jobs of changed crews may take minutes to end.
    if (this.#hasCrews) void this.crews.begin().catch(this.#parts.onBroken);
  }

  async #reconfigure(): Promise<void> {
    const formerIds = new Set(this.#config.channels.map(({ id }) => id));
    this.#config = this.#complete();
    const fresh = this.#config.channels.map(({ id }) => id).filter((id) => !formerIds.has(id));
    await this.#retrying(() => this.#manager.lose(fresh));
    await this.#retrying(() => this.#manager.configure(this.#plans()));
    const seated = this.#agents.configure(agentSpecs(this.#config, this.#backendFor));
    for (const id of fresh) this.#open(id, seated).catch(this.#parts.onBroken);
    await seated;
  }

  /** The configuration with a channel for every thread that has a floor, and the workers of crews. */
  #complete(): Config {
    return this.crews.within(this.#threads.within(this.#configured));
  }

  async #openThread(channel: ChannelId, name: string, key: string): Promise<ChannelId> {
    const adapter = this.#adapterOf(channel);
    if (adapter?.openThread === undefined) throw new Error(`the platform of ${channel} opens no threads`);
    const { id } = await adapter.openThread(channel, name, key);
    await this.#threads.keepParent(id, channel);
    return id;
  }

  #plans(): Plans {
    const channelOf = (id: ChannelId) => this.#floors.channel(id);
    return plansOf({ configured: this.#configured, config: this.#config }, channelOf, this.#backendFor);
  }

  /**
   * Reads a channel's missed messages, then lets its floor grant turns. Waits until `seated` resolves, at most
   * `SEATING_MS`. `seated`: the first attempts to connect the agents, successful or not. Only logs a warning when the
   * channel's platform is not connected.
   */
  async #open(channel: ChannelId, seated: Promise<void>): Promise<void> {
    const adapter = this.#adapterOf(channel);
    const late = Promise.withResolvers<void>();
    const timer = this.#parts.timers.after(SEATING_MS, late.resolve);
    await Promise.race([seated, late.promise]);
    timer.cancel();
    if (adapter === null)
      this.#parts.log.warn({ channel }, 'the platform of the channel is not connected: restart Conch');
    else await this.#sync.catchUp(adapter, channel);
  }

  #intake(adapter: ChatAdapter): Intake {
    const keep = (work: () => Promise<void>): void => void this.#retrying(work).catch(this.#parts.onBroken);
    return intakeFor(adapter, this.runs.people, {
      message: (message) => this.#receive(adapter, message),
      amend: (change) => this.#manager.amend(change),
      command: (channel, by, line, drawnFor) => this.#operators.run(channel, by, line, drawnFor),
      refusal: (channel, by, line, drawnFor) => this.#operators.refusal(channel, by, line, drawnFor),
      thread: (thread) => this.#thread(thread),
      disconnected: () => this.#sync.lost(adapter),
      reconnected: ({ missed }) => this.#sync.back(adapter, missed),
      suspend: (channel, why) => keep(() => this.#suspensions.suspend(channel, why)),
      restore: (channel) => keep(() => this.#suspensions.restore(channel)),
      broken: this.#parts.onBroken,
    });
  }

  /** Crews get a message before it is stored. After a crash in between, the message is delivered or read again. */
  async #receive(adapter: ChatAdapter, message: HumanMessage): Promise<void> {
    await this.crews.hear(message, async () => {
      const { author } = message;
      const roles = await adapter.rolesOf?.(author.id);
      if (roles !== undefined) this.runs.people.notePerson({ ...author, roles });
      return this.runs.people.operates(author);
    });
    await this.#manager.receive(message);
  }

  async #thread(thread: Thread): Promise<void> {
    const { id, parent, since } = thread;
    if (!this.#threads.admit(thread)) return;
    const { log, onBroken } = this.#parts;
    this.#config = this.#complete();
    const lost = this.#retrying(() => this.#manager.lose([id]));
    if (since !== undefined) await this.#sync.mark(id, parent, since);
    log.info({ channel: id, parent }, 'thread opened');
    const opened = lost
      .then(() => this.#retrying(() => this.#manager.bringBack([id], this.#plans())))
      .then(() => this.#retrying(() => this.#threads.keep(thread)))
      .then(() => this.#open(id, this.#agents.seat(id)));
    opened.catch(onBroken);
  }

  /**
   * Retries work while the disk is full or another process writes to the database; nothing was written then. Rejects
   * with any other error.
   */
  #retrying<Result>(work: () => Promise<Result>): Promise<Result> {
    const { timers, log } = this.#parts;
    return retry(work, STORE_BACKOFF, {
      timers,
      judge: ({ error }) => (willPass(error) ? 'again' : 'give-up'),
      waiting: ({ error, failures }) => {
        if (willPass(error)) log.error({ attempt: failures }, error.message);
      },
    });
  }

  readonly #publish = (change: Change): void => {
    const { clock, onBroken } = this.#parts;
    const { channel, facts } = change;
    this.#changes.add({ ...change, at: shownAt(clock, change.at) }, this.#floors.channelName(channel));
    if (facts.some(changesSeats)) this.#agents.seat(channel).catch(onBroken);
    this.#show(change);
    this.crews.floorChanged(channel);
    this.#outbox.kick();
  };

  #createAgents(clean: (text: string) => string): Supervisor {
    const { store, clock, timers, log } = this.#parts;
    const sessions = store.host(sessionJournal);
    return new Supervisor({
      agents: [],
      clock,
      timers,
      log,
      journal: {
        state: (key) => sessions.state(key),
        apply: (key, move, at) => {
          const cause = move.cause === null ? null : clean(move.cause);
          return this.#retrying(() => sessions.apply(key, { ...move, cause }, at));
        },
      },
      floors: {
        ...this.#floors,
        briefOf: (channel, agent) => this.reviews.briefOf(channel, agent),
        apply: (channel, report) => {
          const bookedReport =
            report.type === 'spend' ? this.runs.withRequester({ channel, agent: report.agent }, report) : report;
          return this.#manager.apply(channel, redactedReport(bookedReport, clean));
        },
        draft: (channel, agent, epoch, draft) => {
          const text = draft === null ? null : clean(draft);
          if (this.#parts.mayAct?.() !== false)
            this.#adapterOf(channel)?.draft?.(channel, this.#floors.speaker(agent), epoch, text);
          this.runs.drafted?.({ channel, agent }, text);
          if (text !== null) this.#manager.shown(channel, () => redactedDraft(this.#agents.draft(channel), clean));
        },
      },
      settings: sessionSettingsOf(this.#current, this.runs, this.crews),
    });
  }

  #createOutbox(clean: (text: string) => string): Delivery<Effect> {
    const { store, clock, timers, log, onBroken, mayAct = () => true } = this.#parts;
    const manager = this.#manager;
    const toPlatform = createOutboxSender({
      adapterOf: this.#adapterOf,
      speakerOf: this.#floors.speaker,
      threadOf: this.#floors.threadOf,
      buttonsOf: ({ effect }) => noticeButtons(effect, store.id, (agent) => this.#floors.speaker(agent)?.name ?? agent),
      now: () => clock.now(),
      clean,
      reportDoubtfulPost: ({ channel, id }, done, why) =>
        log.warn({ channel, outboxId: id, done, why }, 'possible duplicate'),
    });
    return new Delivery({
      store: {
        lease: (limit, at) => this.#retrying(() => store.lease(limit, at)),
        settle: (row, settlement) => this.#retrying(() => store.settle(row, settlement)),
      },
      clock,
      timers,
      broken: onBroken,
      carry: async (row) => {
        if (!mayAct()) return { state: 'retry', notBefore: clock.now() + UNCERTAIN_MS };
        if (row.effect.type === 'offer' || row.effect.type === 'offerTrust')
          return openToAnswers(manager, row.channel, row.effect);
        if (isForPlatform(row.effect)) return toPlatform(row);
        if (!this.#isStopping) return this.#agents.deliver(row);
        // Entries for agents are not stored: the floor creates them again at the next start.
        return { state: 'retry', notBefore: clock.now() + AFTER_SHUTDOWN_MS };
      },
      failed: (row, why, settled) => {
        const { channel, id, effect, attempts } = row;
        log.error({ channel, outboxId: id, effect: effect.type, attempts, why }, 'not delivered');
        if (!settled || (effect.type === 'post' && this.#suspensions.why(channel) !== null)) return;
        reportUnposted(manager, row, why).catch((error: unknown) =>
          log.error({ channel, err: error }, 'the channel was not told'),
        );
      },
    });
  }

  readonly #current = (): Config => this.#config;

  readonly #adapterOf = (channel: ChannelId): ChatAdapter | null => adapterOf(this.#parts.adapters, channel);
}

type Manager = Pick<TurnManager, 'apply'>;

/**
 * Marks a request, or the question about an agent's files, as shown, so that people can decide it. The outbox entry
 * with its text was settled before. If the platform refused that text, a request is closed already.
 */
export async function openToAnswers(
  manager: Manager,
  channel: ChannelId,
  offer: Extract<Effect, { type: 'offer' | 'offerTrust' }>,
): Promise<Settlement> {
  const { type: _type, ...offerFields } = offer;
  await manager.apply(
    channel,
    'agent' in offerFields ? { type: 'trustShown', ...offerFields } : { type: 'shown', ...offerFields },
  );
  return { state: 'confirmed', platformId: null };
}

/** Tells a floor that its platform refused an agent's text or a request for good. Other entries need no report. */
export async function reportUnposted(manager: Manager, { channel, effect }: OutboxRow, why: string): Promise<void> {
  if (effect.type === 'post') await manager.apply(channel, { type: 'undelivered', agent: effect.agent, why });
  if (effect.type !== 'announce' || effect.announcement.kind !== 'approval') return;
  const { question, key } = effect.announcement;
  await manager.apply(channel, { type: 'shown', question, ...defined({ key }), why });
}
