import type { ChatAdapter } from '../adapters/port.ts';
import type { Supervisor } from '../agents/session/supervisor.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../lib/time.ts';
import type { Plans } from '../turns/channel-plan.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { ChannelSync } from './channel-sync.ts';
import type { Threads } from './thread-registry.ts';

type StartUpPorts = {
  readonly adapters: readonly ChatAdapter[];
  readonly config: () => Config;
  readonly clock: Clock;
  readonly manager: Pick<TurnManager, 'bringBack' | 'lose' | 'recover' | 'settle'>;
  readonly agents: Pick<Supervisor, 'seat' | 'start'>;
  readonly sync: Pick<ChannelSync, 'begin' | 'note'>;
  readonly threads: Pick<Threads, 'forgetOld'>;
  readonly plans: () => Plans;
  readonly adapterOf: (channel: ChannelId) => ChatAdapter | null;
  /** Starts an adapter: it delivers messages from now on. */
  readonly begin: (adapter: ChatAdapter) => Promise<void>;
  /** Called when threads were removed. */
  readonly forgotten: () => void;
  readonly retrying: <Result>(work: () => Promise<Result>) => Promise<Result>;
  readonly onBroken: (error: unknown) => void;
};

/** Starts Conch with the stored floors of an earlier process. */
export class StartUp {
  readonly #ports: StartUpPorts;
  #recovery: { readonly awake: readonly ChannelId[]; readonly plans: Plans } | null = null;
  #back: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(ports: StartUpPorts) {
    this.#ports = ports;
  }

  /** Recovers the stored floors, then starts the adapters without `losesEvents`. Resolves when they are started. */
  async begin(): Promise<void> {
    const { adapters, manager, agents, begin, config } = this.#ports;
    const plans = this.#ports.plans();
    const awake = await manager.recover(plans);
    await agents.start([]);
    const firstAdapters = adapters.filter((adapter) => adapter.capabilities.losesEvents !== true);
    const firstNames = new Set(firstAdapters.map(({ name }) => name));
    const laterChannels = config().channels.filter(({ adapter }) => !firstNames.has(adapter));
    await manager.lose(laterChannels.map(({ id }) => id));
    for (const adapter of firstAdapters) await begin(adapter);
    this.#recovery = { awake, plans };
  }

  /**
   * Resolves when the floors with work in progress have resumed and their agents were started or failed to start, or
   * when resuming failed; before `connect`, at once. Never rejects.
   */
  get back(): Promise<void> {
    return this.#back;
  }

  /**
   * Resumes the floors and connects the platforms with `losesEvents`. Resolves when both are done; rejects with an
   * `AdapterError` when a platform refuses for good.
   */
  async connect(): Promise<void> {
    const { adapters, begin, sync } = this.#ports;
    const { awake, plans } = this.#recovery ?? { awake: [], plans: this.#ports.plans() };
    const planned = this.#guarded(() => this.#plan(awake, plans));
    this.#back = planned.then(() => this.#guarded(() => this.#resumeFloors(awake, plans)));
    const laterAdapters = adapters.filter((adapter) => adapter.capabilities.losesEvents === true);
    const connecting = laterAdapters.map(async (adapter) => {
      sync.note(adapter);
      await begin(adapter);
      await planned;
      await sync.begin(adapter);
    });
    await Promise.all([...connecting, this.#back]);
  }

  /**
   * Resolves when the floors with work in progress have resumed, or resuming failed; before `connect`, at once. Does
   * not wait for platforms that are still being connected. From this call on, errors of resuming floors are not
   * reported.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#back;
  }

  async #plan(awake: readonly ChannelId[], plans: Plans): Promise<void> {
    const { manager, retrying } = this.#ports;
    await retrying(() => manager.bringBack(awake, plans));
    await retrying(() => manager.settle(plans));
  }

  async #resumeFloors(awake: readonly ChannelId[], plans: Plans): Promise<void> {
    const { adapters, adapterOf, agents, clock, forgotten, manager, retrying, sync, threads } = this.#ports;
    for (const adapter of adapters) {
      if (adapter.capabilities.losesEvents === true) continue;
      const own = awake.filter((channel) => adapterOf(channel) === adapter);
      await sync.begin(adapter, [...new Set([...own, ...(adapter.channelsToCatchUp?.() ?? [])])]);
    }
    await Promise.all(awake.map((channel) => agents.seat(channel)));
    const oldThreads = await retrying(() => threads.forgetOld(clock.now()));
    if (oldThreads.length === 0) return;
    forgotten();
    await retrying(() => manager.bringBack(oldThreads, plans));
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#isStopping) this.#ports.onBroken(error);
    }
  }
}
