import { createCarrier } from '../adapters/delivery/carrier.ts';
import { adapterOf } from '../adapters/port.ts';
import type { ChatAdapter, Intake, Observatory, Speaker, Thread } from '../adapters/port.ts';
import type { AgentBackend } from '../agents/backends/backend.ts';
import type { AgentSpec } from '../agents/session/connection.ts';
import { createSupervisor } from '../agents/session/supervisor.ts';
import type { Supervisor } from '../agents/session/supervisor.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { Contact } from './channel-sync.ts';
import { createDesk } from './command-context.ts';
import { createFloors } from './agent-floors.ts';
import type { Log } from './log.ts';
import { channelsOf, createObservatory } from './read-model.ts';
import { offer, tellUnposted } from './offers.ts';
import { isFull, untilRoom } from './retry-on-full-disk.ts';
import { textScrubber } from './redact.ts';
import { intakeFor, observatoryFor, concerns } from './own-channels.ts';
import { Suspensions } from './channel-suspension.ts';
import { tell } from './transition-log.ts';
import { Threads } from './thread-registry.ts';
import { addressedIn } from '../turns/text/addressing.ts';
import type { Effect } from '../turns/floor/effect.ts';
import type { AgentId, ChannelId } from '../turns/floor/settings.ts';
import { Delivery } from '../engine/outbox-delivery.ts';
import { TurnManager } from '../turns/manager.ts';
import type { Change, ChannelPlan } from '../turns/manager.ts';
import { createOperators } from '../turns/commands/execute.ts';
import type { Operators } from '../turns/commands/execute.ts';
import { floorSettings, seatSettings } from '../turns/settings.ts';
import type { Settlement } from '../engine/port.ts';
import type { OutboxRow } from '../turns/records.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { Clock, Timers } from '../lib/time.ts';
import { viewOf } from '../turns/view.ts';

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

/** How long the first grant of a new channel waits for its agents. */
const SEATING_MS = 5_000;

/** Floors, agents and adapters, joined into one program. */
export class App {
  readonly #parts: AppParts;
  readonly #manager: TurnManager;
  readonly #supervisor: Supervisor;
  readonly #delivery: Delivery<Effect>;
  readonly #operators: Operators;
  readonly #observatory: Observatory;
  readonly #backends = new Map<AgentId, { readonly made: string; readonly backend: AgentBackend }>();
  readonly #toPlatform: (row: OutboxRow) => Promise<Settlement>;
  readonly #contact: Contact;
  readonly #threads: Threads;
  readonly #suspensions: Suspensions;
  readonly #clean: (text: string) => string;
  /** What was configured, and the same with every thread that has a floor. */
  #configured: Config;
  #config: Config;
  #isStopping = false;

  constructor(parts: AppParts) {
    const { store, clock, timers, onBroken } = parts;
    this.#parts = parts;
    this.#configured = parts.config;
    this.#config = parts.config;
    this.#clean = textScrubber(parts.config.secrets.map((secret) => secret.reveal()));
    this.#threads = new Threads(store);
    const config = (): Config => this.#config;
    this.#observatory = createObservatory(store, config, clock);
    this.#manager = new TurnManager({
      store,
      clock,
      timers,
      failed: (error) => this.#deadlineFailed(error),
      addressed: (channel, text) => addressedIn(text, this.#seatedIn(channel)),
      takeDraft: (channel) => this.#supervisor.takeDraft(channel),
      changed: (change) => this.#publish(change),
    });
    this.#supervisor = this.#createSupervisor();
    this.#contact = this.#createContact();
    this.#suspensions = new Suspensions({ store, log: parts.log, manager: this.#manager });
    this.#toPlatform = createCarrier({
      adapterOf: (channel) => this.#adapterOf(channel),
      speakerOf: (agent) => this.#speaker(agent),
      now: () => clock.now(),
      clean: this.#clean,
      doubtful: ({ channel, id }, done, why) =>
        parts.log.warn({ channel, outboxId: id, done, why }, 'possible duplicate'),
    });
    this.#delivery = new Delivery({
      store: {
        owed: (limit, at) => untilRoom(() => store.owed(limit, at), parts),
        settle: (row, settlement) => untilRoom(() => store.settle(row, settlement), parts),
      },
      clock,
      timers,
      broken: onBroken,
      carry: (row) => this.#carry(row),
      failed: (row, why, settled) => this.#notDelivered(row, why, settled),
    });
    const { owners, log } = parts;
    const desk = { manager: this.#manager, roster: this.#supervisor, observatory: this.#observatory };
    this.#operators = createOperators(createDesk({ ...desk, store, config, clock, log, owners }));
  }

  /** Recovers and begins on this machine: floors, agents, and adapters that lose nothing. Other platforms follow with `connect`. */
  async start(): Promise<void> {
    const { adapters, clock } = this.#parts;
    await this.#threads.load(clock.now());
    this.#config = this.#threads.within(this.#configured);
    await this.#manager.recover(this.#config.channels.map(planOf));
    for (const adapter of adapters) if (adapter.capabilities.losesEvents !== true) await this.#bringUp(adapter);
    this.#delivery.start();
    await this.#supervisor.start();
    await this.#supervisor.configure(this.#specs());
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
    this.#contact.stop();
    await this.#supervisor.stop();
    await this.#delivery.drain(DRAIN_ROUNDS);
    await this.#delivery.stop();
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
    const gone = before.filter(({ id }) => !next.channels.some((channel) => channel.id === id));
    const fresh = next.channels.filter(({ id }) => !before.some((channel) => channel.id === id));
    const plans = [...next.channels.map(planOf), ...gone.map((channel) => ({ ...planOf(channel), seats: [] }))];
    const lose = (id: ChannelId) => untilRoom(() => this.#manager.apply(id, { type: 'loseTouch' }), this.#parts);
    await Promise.all(fresh.map(({ id }) => lose(id)));
    await untilRoom(() => this.#manager.configure(plans), this.#parts);
    const seated = this.#supervisor.configure(this.#specs());
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
    else await this.#contact.catchUp(adapter, channel);
  }

  #intake(adapter: ChatAdapter): Intake {
    return intakeFor(adapter, {
      message: (message) => this.#manager.receive(message),
      amend: (change) => this.#manager.amend(change),
      command: (channel, by, line, epoch) => this.#operators.run(channel, by, line, epoch),
      thread: (thread) => this.#thread(thread),
      disconnected: () => this.#contact.lost(adapter),
      reconnected: ({ missed }) => this.#contact.back(adapter, missed),
      suspend: (channel, why) => void this.#suspensions.suspend(channel, why).catch(this.#parts.onBroken),
      restore: (channel) => void this.#suspensions.restore(channel).catch(this.#parts.onBroken),
      broken: this.#parts.onBroken,
    });
  }

  async #bringUp(adapter: ChatAdapter): Promise<void> {
    await adapter.start(this.#intake(adapter), observatoryFor(adapter, this.#observatory));
    await this.#contact.begin(adapter);
  }

  async #thread(thread: Thread): Promise<void> {
    const { id, parent, since } = thread;
    if (!(await this.#threads.add(thread))) return;
    if (since !== undefined) await this.#contact.mark(id, parent, since);
    this.#parts.log.info({ channel: id, parent }, 'thread opened');
    const opened = this.#reconfigure();
    opened.catch(this.#parts.onBroken);
  }

  #createContact(): Contact {
    const { store, timers, log, onBroken } = this.#parts;
    return new Contact({
      manager: this.#manager,
      timers,
      log,
      store,
      channelsOf: ({ name }) => channelsOf(this.#config, name),
      patiently: (work) => untilRoom(work, this.#parts),
      failed: onBroken,
    });
  }

  /** A deadline that could not be written for want of room is only late. */
  #deadlineFailed(failure: unknown): void {
    const { log, onBroken } = this.#parts;
    if (isFull(failure)) log.error({}, failure.message);
    else onBroken(failure);
  }

  #publish(change: Change): void {
    const { log, adapters } = this.#parts;
    tell(log, change, this.#channelName(change.channel));
    if (change.facts.some((fact) => fact.type === 'seatCreated')) {
      this.#supervisor.configure(this.#specs()).catch(this.#parts.onBroken);
    }
    const view = viewOf(change.floor, change.at);
    for (const adapter of adapters) if (concerns(adapter, change.channel)) adapter.card?.(change.channel, view);
    this.#delivery.kick();
  }

  #carry(row: OutboxRow): Promise<Settlement> {
    if (row.effect.type === 'offer') return offer(this.#manager, row.channel, row.effect.question);
    return row.lane === 'posts' || row.lane === 'receipts' ? this.#toPlatform(row) : this.#supervisor.deliver(row);
  }

  #notDelivered(row: OutboxRow, why: string, settled: boolean): void {
    const { channel, id, effect, attempts } = row;
    this.#parts.log.error({ channel, outboxId: id, effect: effect.type, attempts, why }, 'not delivered');
    if (!settled || (effect.type === 'post' && this.#suspensions.isSuspended(channel))) return;
    const told = tellUnposted(this.#manager, row, why);
    told.catch((error: unknown) => this.#parts.log.error({ channel, err: error }, 'the channel was not told'));
  }

  #createSupervisor(): Supervisor {
    const { store, clock, timers, log } = this.#parts;
    const { turnConfig } = this.#config;
    return createSupervisor({
      agents: [],
      clock,
      timers,
      log,
      memory: {
        load: (channel, agent) => store.agent(`${channel} ${agent}`),
        save: (channel, agent, session) =>
          untilRoom(() => store.saveAgent(`${channel} ${agent}`, session), this.#parts),
      },
      floors: createFloors({
        reader: store,
        config: () => this.#config,
        clock,
        adapterOf: (channel) => this.#adapterOf(channel),
        apply: (channel, command) => this.#manager.apply(channel, command),
        clean: this.#clean,
      }),
      settings: {
        heartbeatMs: turnConfig.heartbeatSeconds * 1_000,
        heartbeatTimeoutMs: turnConfig.heartbeatTimeoutSeconds * 1_000,
        interruptGraceMs: turnConfig.interruptGraceSeconds * 1_000,
        channel: (id) => {
          const found = this.#config.channels.find((channel) => channel.id === id);
          const { coalesceMs, contextTokens, turnCompleteSignal } = found?.turnConfig ?? this.#config.turnConfig;
          return { coalesceMs, contextTokens, signal: turnCompleteSignal };
        },
      },
    });
  }

  /** Every agent with the channels in which it has a seat, by the configuration or by an operator. */
  #specs(): readonly AgentSpec[] {
    return this.#config.agents.map((agent) => {
      const { id, name, description, persona } = agent;
      const channels = this.#config.channels
        .map((channel) => channel.id)
        .filter((channel) => this.#isSeated(channel, id));
      return { id, name, description, persona, backend: this.#backendOf(agent), channels };
    });
  }

  #backendOf(agent: AgentConfig): AgentBackend {
    const made = JSON.stringify(agent.backend);
    const known = this.#backends.get(agent.id);
    if (known?.made === made) return known.backend;
    const backend = this.#parts.backendFor(agent);
    this.#backends.set(agent.id, { made, backend });
    return backend;
  }

  #isSeated(channel: ChannelId, agent: AgentId): boolean {
    return this.#parts.store.floor(channel)?.seats.some((seat) => seat.agent === agent) === true;
  }

  /** Who can be addressed in a channel; one whose floor is only being opened has the agents of its configuration. */
  #seatedIn(channel: ChannelId): readonly AgentConfig[] {
    const seats = this.#parts.store.floor(channel)?.seats ?? [];
    const planned = this.#config.channels.find(({ id }) => id === channel)?.agents ?? [];
    return this.#config.agents.filter(({ id }) =>
      seats.length === 0 ? planned.includes(id) : this.#isSeated(channel, id),
    );
  }

  #adapterOf(channel: ChannelId): ChatAdapter | null {
    return adapterOf(this.#parts.adapters, channel);
  }

  #speaker(agent: AgentId): Speaker {
    const known = this.#config.agents.find(({ id }) => id === agent);
    return { id: agent, name: known?.name ?? agent, avatar: known?.avatar ?? null };
  }

  #channelName(channel: ChannelId): string {
    return this.#config.channels.find(({ id }) => id === channel)?.name ?? channel;
  }
}

function planOf(channel: Config['channels'][number]): ChannelPlan {
  return { id: channel.id, settings: floorSettings(channel), seats: seatSettings(channel) };
}
