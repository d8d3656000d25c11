import { adapterOf, createOutboxSender } from '../adapters/delivery/chat-adapter.ts';
import type { ChatAdapter, Intake, Thread } from '../adapters/port.ts';
import type { AgentBackend } from '../agents/backends/backend.ts';
import { sessionJournal } from '../agents/session/session-journal.ts';
import { createSupervisor } from '../agents/session/supervisor.ts';
import type { Supervisor } from '../agents/session/supervisor.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { StoreError } from '../engine/errors.ts';
import { Delivery } from '../engine/outbox-delivery.ts';
import type { Settlement } from '../engine/port.ts';
import { retry } from '../lib/retry.ts';
import { shownAt } from '../lib/time.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import { createOperators } from '../turns/commands/execute.ts';
import type { Operators } from '../turns/commands/execute.ts';
import type { Effect } from '../turns/floor/react.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { FloorStore, OutboxRow } from '../turns/floor-store.ts';
import { TurnManager } from '../turns/manager.ts';
import type { Change } from '../turns/manager.ts';
import { planOf } from '../turns/channel-plan.ts';
import { viewOf } from '../turns/view.ts';
import { agentSpecs, keptBackends } from './agent-factory.ts';
import { Suspensions } from './channel-suspension.ts';
import { ChannelSync } from './channel-sync.ts';
import { createCommandContext } from './command-context.ts';
import { logChange, redactedReport, textRedactor } from './log.ts';
import type { Log } from './log.ts';
import { channelsOf, concerns, createReadModel, intakeFor, queriesFor, sessionSettingsOf } from './read-model.ts';
import type { ReadModel } from './read-model.ts';
import { Runs } from './runs.ts';
import { Threads } from './thread-registry.ts';

/** What a running Conch is put together from. */
export type AppParts = {
  readonly config: Config;
  readonly store: FloorStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly adapters: readonly ChatAdapter[];
  /** What runs an agent of the configuration. */
  readonly backendFor: (agent: AgentConfig) => AgentBackend;
  /** Who may operate without being named in the configuration: the person at this machine's console. */
  readonly owners: readonly string[];
  /** The store or the program itself failed: nothing can be trusted to be written any more. */
  readonly onBroken: (error: unknown) => void;
};

/** A drain that needs more rounds waits for a platform that does not answer; what is left is sent after the next start. */
const DRAIN_ROUNDS = 20;

/** How long is waited, from try to try, for room on a full disk, or for another process that writes to the database. */
const UNTIL_IT_PASSES = { firstMs: 250, longestMs: 5_000 };

/** After it the program has ended, in milliseconds. */
const LONG_AFTER_MS = 3_600_000;

/** How long the first grant of a new channel waits for its agents. */
const SEATING_MS = 5_000;

/** Floors, agents and adapters, joined into one program. */
export class App {
  readonly #parts: AppParts;
  readonly #floors: ReadModel;
  readonly #runs: Runs;
  readonly #manager: TurnManager;
  readonly #agents: Supervisor;
  readonly #backendFor: AppParts['backendFor'];
  readonly #outbox: Delivery<Effect>;
  readonly #operators: Operators;
  readonly #sync: ChannelSync;
  readonly #suspensions: Suspensions;
  readonly #threads: Threads;
  /** What was configured, and the same with every thread that has a floor. */
  #configured: Config;
  #config: Config;
  #isStopping = false;

  constructor(parts: AppParts) {
    const { store, clock, log } = parts;
    this.#parts = parts;
    this.#configured = parts.config;
    this.#config = parts.config;
    const shared = {
      ...parts,
      config: () => this.#config,
      adapterOf: (channel: ChannelId) => this.#adapterOf(channel),
      retrying: <Result>(work: () => Promise<Result>) => this.#retrying(work),
      clean: textRedactor(parts.config.secrets.map((secret) => secret.reveal())),
    };
    this.#floors = createReadModel(store, shared.config, clock);
    this.#manager = new TurnManager({
      ...parts,
      failed: (error) => this.#deadlineFailed(error),
      addressed: (channel, text) => this.#floors.addressed(channel, text),
      takeDraft: (channel) => this.#agents.takeDraft(channel),
      changed: (change) => this.#publish(change),
    });
    const manager = this.#manager;
    const floors = this.#floors;
    this.#backendFor = keptBackends(parts.backendFor);
    this.#runs = new Runs({ ...shared, manager, floors: this.#floors });
    this.#agents = this.#createAgents(shared.clean);
    this.#suspensions = new Suspensions({ store, log, manager });
    this.#threads = new Threads(store);
    this.#outbox = this.#createOutbox(shared.clean);
    this.#sync = new ChannelSync({
      ...shared,
      manager,
      channelsOf: ({ name }) => channelsOf(this.#config, name),
      failed: parts.onBroken,
    });
    const suspended = (channel: ChannelId) => this.#suspensions.why(channel);
    const asked = { ...shared, manager, roster: this.#agents, floors, suspended, runs: this.#runs.commands };
    this.#operators = createOperators(createCommandContext(asked));
  }

  /** Recovers and begins on this machine: floors, agents, and adapters that lose nothing. Other platforms follow with `connect`. */
  async start(): Promise<void> {
    const { adapters, clock } = this.#parts;
    await this.#threads.load(clock.now());
    this.#config = this.#threads.within(this.#configured);
    const resting = await this.#manager.recover(this.#config.channels.map(planOf), {
      mayRest: (seats) => seats.every(({ agent }) => !this.#comesByItself(agent)),
      isUnheard: (channel) => this.#adapterOf(channel)?.capabilities.losesEvents ?? this.#adapterOf(channel) === null,
    });
    for (const adapter of adapters) if (adapter.capabilities.losesEvents !== true) await this.#bringUp(adapter);
    await this.#agents.start();
    // Whoever brings what agents are owed has to know them: at a floor that was at rest they are present from the start.
    const seated = this.#seatAgents(resting);
    this.#outbox.start();
    await seated;
  }

  /** Connects the other platforms, with patience; resolves when all can be heard. Rejects with an `AdapterError` when one never will. */
  async connect(): Promise<void> {
    const { adapters, log } = this.#parts;
    const remote = adapters.filter((adapter) => adapter.capabilities.losesEvents === true);
    await Promise.all(remote.map((adapter) => this.#bringUp(adapter)));
    if (this.#isStopping) return;
    log.info({ channels: this.#config.channels.length, agents: this.#config.agents.length }, 'ready');
  }

  /**
   * Ends in good order: takes nothing new in, says what was generated, settles what is under way.
   * Turns that are open resume with the next start.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#manager.stop();
    this.#sync.stop();
    await this.#agents.stop();
    await this.#outbox.drain(DRAIN_ROUNDS);
    await this.#outbox.stop();
    for (const adapter of this.#parts.adapters) await adapter.stop();
    await this.#parts.store.close();
  }

  /** Applies a changed configuration to floors and agents; turns under way go on. */
  async reload(next: Config): Promise<void> {
    this.#configured = next;
    await this.#reconfigure();
  }

  /** Channels that are new are caught up before anything is granted in them; those that are gone lose their seats. */
  async #reconfigure(): Promise<void> {
    const before = this.#config.channels;
    const next = this.#threads.within(this.#configured);
    this.#config = next;
    const known = new Set(before.map(({ id }) => id));
    const wanted = new Set(next.channels.map(({ id }) => id));
    const gone = before.filter(({ id }) => !wanted.has(id));
    const fresh = next.channels.filter(({ id }) => !known.has(id));
    const plans = [...next.channels.map(planOf), ...gone.map((channel) => ({ ...planOf(channel), seats: [] }))];
    const lose = (id: ChannelId) => this.#retrying(() => this.#manager.apply(id, { type: 'disconnect' }));
    await Promise.all(fresh.map(({ id }) => lose(id)));
    await this.#retrying(() => this.#manager.configure(plans));
    const seated = this.#seatAgents();
    for (const { id } of fresh) this.#open(id, seated).catch(this.#parts.onBroken);
    await seated;
  }

  /** A channel's first grant waits until its agents are there, but not for long: one that does not come keeps nobody waiting. */
  async #open(channel: ChannelId, seated: Promise<void>): Promise<void> {
    const adapter = this.#adapterOf(channel);
    const late = Promise.withResolvers<void>();
    const timer = this.#parts.timers.after(SEATING_MS, late.resolve);
    await Promise.race([seated, late.promise]);
    timer.cancel();
    if (adapter === null) this.#parts.log.warn({ channel }, 'its platform is not connected: start Conch anew');
    else await this.#sync.catchUp(adapter, channel);
  }

  #intake(adapter: ChatAdapter): Intake {
    return intakeFor(adapter, {
      message: (message) => this.#manager.receive(message),
      amend: (change) => this.#manager.amend(change),
      command: (channel, by, line, epoch) => this.#operators.run(channel, by, line, epoch),
      thread: (thread) => this.#thread(thread),
      disconnected: () => this.#sync.lost(adapter),
      reconnected: ({ missed }) => this.#sync.back(adapter, missed),
      suspend: (channel, why) => void this.#suspensions.suspend(channel, why).catch(this.#parts.onBroken),
      restore: (channel) => void this.#suspensions.restore(channel).catch(this.#parts.onBroken),
      broken: this.#parts.onBroken,
    });
  }

  async #bringUp(adapter: ChatAdapter): Promise<void> {
    await adapter.start(this.#intake(adapter), queriesFor(adapter, this.#floors));
    await this.#sync.begin(adapter);
  }

  async #thread(thread: Thread): Promise<void> {
    const { id, parent, since } = thread;
    if (!(await this.#threads.add(thread))) return;
    if (since !== undefined) await this.#sync.mark(id, parent, since);
    this.#parts.log.info({ channel: id, parent }, 'thread opened');
    const opened = this.#reconfigure();
    opened.catch(this.#parts.onBroken);
  }

  /**
   * Does work that nobody waits for, again and again while the disk is full or another process writes to the database:
   * nothing of it was written, and all is well once that is over. Any other error rejects.
   */
  #retrying<Result>(work: () => Promise<Result>): Promise<Result> {
    const { timers, log } = this.#parts;
    return retry(work, UNTIL_IT_PASSES, {
      timers,
      judge: ({ error }) => (willPass(error) ? 'again' : 'give-up'),
      waiting: ({ error, failures }) => {
        if (willPass(error)) log.error({ attempt: failures }, error.message);
      },
    });
  }

  /** A deadline that could not be written for now is only late. */
  #deadlineFailed(failure: unknown): void {
    const { log, onBroken } = this.#parts;
    if (willPass(failure)) log.error({}, failure.message);
    else onBroken(failure);
  }

  #publish(change: Change): void {
    const { clock, log, adapters, onBroken } = this.#parts;
    const { channel, facts } = change;
    logChange(log, { ...change, at: shownAt(clock, change.at) }, this.#floors.channelName(channel));
    if (facts.some((fact) => fact.type === 'seatCreated')) this.#seatAgents().catch(onBroken);
    const view = viewOf(change.floor, change.at);
    for (const adapter of adapters) if (concerns(adapter, channel)) adapter.card?.(channel, view);
    this.#outbox.kick();
  }

  /** Brings the agents in step with the configuration and with the seats that operators gave. */
  #seatAgents(resting?: ReadonlySet<ChannelId>): Promise<void> {
    return this.#agents.configure(agentSpecs(this.#config, this.#floors, this.#backendFor), resting);
  }

  #comesByItself(agent: string): boolean {
    const known = this.#config.agents.find(({ id }) => id === agent);
    return known !== undefined && this.#backendFor(known).comesByItself === true;
  }

  #createAgents(clean: (text: string) => string): Supervisor {
    const { store, clock, timers, log } = this.#parts;
    const sessions = store.host(sessionJournal);
    return createSupervisor({
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
        apply: (channel, report) => this.#manager.apply(channel, redactedReport(report, clean)),
        draft: (channel, agent, epoch, text) =>
          this.#adapterOf(channel)?.draft?.(
            channel,
            this.#floors.speaker(agent),
            epoch,
            text === null ? null : clean(text),
          ),
      },
      settings: sessionSettingsOf(() => this.#config, this.#runs.gateFor),
    });
  }

  /** Brings what the floors owe to platforms and agents, and tells a floor what its platform refused for good. */
  #createOutbox(clean: (text: string) => string): Delivery<Effect> {
    const { store, clock, timers, log, onBroken } = this.#parts;
    const manager = this.#manager;
    const toPlatform = createOutboxSender({
      adapterOf: (channel) => this.#adapterOf(channel),
      speakerOf: (agent) => this.#floors.speaker(agent),
      now: () => clock.now(),
      clean,
      doubtful: ({ channel, id }, done, why) => log.warn({ channel, outboxId: id, done, why }, 'possible duplicate'),
    });
    return new Delivery({
      store: {
        owed: (limit, at) => this.#retrying(() => store.owed(limit, at)),
        settle: (row, settlement) => this.#retrying(() => store.settle(row, settlement)),
      },
      clock,
      timers,
      broken: onBroken,
      carry: (row) => {
        if (row.effect.type === 'offer') return openToAnswers(manager, row.channel, row.effect.question);
        if (!/^(?:agent|interrupt):/.test(row.lane)) return toPlatform(row);
        return this.#isStopping ? leftForNextStart(clock.now()) : this.#agents.deliver(row);
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

  #adapterOf(channel: ChannelId): ChatAdapter | null {
    return adapterOf(this.#parts.adapters, channel);
  }
}

/** What agents are owed follows from the floors when the program starts again: at its end there is nothing to tell of it. */
async function leftForNextStart(now: Instant): Promise<Settlement> {
  return { state: 'retry', notBefore: now + LONG_AFTER_MS };
}

type Manager = Pick<TurnManager, 'apply'>;

/** Lets people answer a question. Its text came before this in the same lane; if it was refused, the question is over already. */
export async function openToAnswers(manager: Manager, channel: ChannelId, question: number): Promise<Settlement> {
  await manager.apply(channel, { type: 'shown', question });
  return { state: 'confirmed', platformId: null };
}

/** Tells a floor of a text that its platform will never show: what an agent said, or a question. It need not know of others. */
export async function reportUnposted(manager: Manager, { channel, effect }: OutboxRow, why: string): Promise<void> {
  if (effect.type === 'post') await manager.apply(channel, { type: 'undelivered', agent: effect.agent, why });
  if (effect.type !== 'announce' || effect.announcement.kind !== 'approval') return;
  await manager.apply(channel, { type: 'shown', question: effect.announcement.question, why });
}

/** Whether nothing was written, and the same may be written later. */
function willPass(error: unknown): error is StoreError {
  return error instanceof StoreError && (error.code === 'full' || error.code === 'locked');
}
