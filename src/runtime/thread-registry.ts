import { z } from 'zod';
import type { Thread } from '../adapters/port.ts';
import { withPlaces } from '../config/config.ts';
import type { ChannelConfig, Config } from '../config/config.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import type { FloorStore, StoredTexts } from '../turns/floor-store.ts';

type ThreadsStore = Pick<FloorStore, 'lastSeen'> & {
  readonly floors: Pick<FloorStore['floors'], 'awake'>;
  readonly keyValues: Pick<StoredTexts, 'remember' | 'remembered'>;
};

/** A thread at rest without messages for this time loses its floor at the next start. */
const FORGET_AFTER_MS = 7 * 86_400_000;
const OWNER = 'threads';
/**
 * `parentOnly`: a ticket's thread, whose floor the crew keeps, or a thread that lost its floor. Its parent is stored
 * because its messages have the retention of the parent.
 */
const threadSchema = z.object({ parent: z.string(), name: z.string(), parentOnly: z.literal(true).optional() });

/** The threads that have floors of their own. They survive restarts. */
export class Threads {
  readonly #store: ThreadsStore;
  readonly #threads = new Map<ChannelId, Thread>();
  readonly #parents = new Map<ChannelId, ChannelId>();

  constructor(store: ThreadsStore) {
    this.#store = store;
  }

  load(): void {
    for (const [id, value] of this.#store.keyValues.remembered(OWNER)) {
      const { parent, name, parentOnly } = threadSchema.parse(JSON.parse(value));
      this.#parents.set(id, parent);
      if (parentOnly !== true) this.#threads.set(id, { id, parent, name });
    }
  }

  /** The channel of a thread that `load` found in the store; `undefined` for other ids. */
  parentOf(id: ChannelId): ChannelId | undefined {
    return this.#parents.get(id);
  }

  /** Adds a thread. Returns `false` when the thread is known with the same parent. */
  admit(thread: Thread): boolean {
    if (this.#threads.get(thread.id)?.parent === thread.parent) return false;
    this.#threads.set(thread.id, thread);
    return true;
  }

  /** Stores a thread. */
  async keep({ id, parent, name }: Thread): Promise<void> {
    await this.#store.keyValues.remember(OWNER, id, JSON.stringify({ parent, name }));
  }

  /** Stores only the channel of a thread without a floor of its own. Does nothing for a thread with one. */
  async keepParent(id: ChannelId, parent: ChannelId): Promise<void> {
    const storedThread = { parent, name: '', parentOnly: true };
    if (!this.#threads.has(id)) await this.#store.keyValues.remember(OWNER, id, JSON.stringify(storedThread));
  }

  /**
   * Removes threads that are at rest and got no messages for a week. Their channel stays stored. Resolves with their
   * ids.
   */
  async forgetOld(now: Instant): Promise<readonly ChannelId[]> {
    const awake = new Set(this.#store.floors.awake());
    const forgotten: ChannelId[] = [];
    for (const id of [...this.#threads.keys()].filter((threadId) => !awake.has(threadId))) {
      if (now - (this.#store.lastSeen(id)?.sentAt ?? 0) <= FORGET_AFTER_MS) continue;
      const { parent = '' } = this.#threads.get(id) ?? {};
      this.#threads.delete(id);
      await this.keepParent(id, parent);
      forgotten.push(id);
    }
    return forgotten;
  }

  /**
   * The configuration with a channel for every thread, with the settings of its parent, if the parent gives threads
   * floors of their own.
   */
  within(config: Config): Config {
    if (this.#threads.size === 0) return config;
    const parents = new Map(config.channels.map((channel) => [channel.id, channel]));
    const threads = [...this.#threads.values()].flatMap(({ id, name, parent: of }): readonly ChannelConfig[] => {
      const parent = parents.get(of);
      return parent?.turnConfig.threads === 'own' ? [{ ...parent, id, name, parent: of }] : [];
    });
    return threads.length === 0 ? config : withPlaces(config, { channels: [...config.channels, ...threads] });
  }
}
