import { z } from 'zod';
import type { Thread } from '../adapters/port.ts';
import type { ChannelConfig, Config } from '../config/config.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import type { FloorStore } from '../turns/floor-store.ts';

/** Where threads are remembered. */
export type ThreadsStore = Pick<FloorStore, 'remember' | 'forget' | 'remembered' | 'lastSeen' | 'floor'>;

/** A thread at rest for so long is let go of; the next message in it opens its floor again. */
const FORGET_AFTER_MS = 7 * 86_400_000;
const OWNER = 'threads';
const keptSchema = z.object({ parent: z.string(), name: z.string() });

/** The threads that have floors of their own, over restarts. */
export class Threads {
  readonly #store: ThreadsStore;
  readonly #known = new Map<ChannelId, Thread>();

  constructor(store: ThreadsStore) {
    this.#store = store;
  }

  /** Reads what was remembered, and lets go of threads that nobody wrote in for a week. */
  async load(now: Instant): Promise<void> {
    for (const [id, value] of this.#store.remembered(OWNER)) {
      const thread = { id, ...keptSchema.parse(JSON.parse(value)) };
      if (this.#isForgotten(id, now)) await this.#store.forget(OWNER, id);
      else this.#known.set(id, thread);
    }
  }

  /** Remembers a thread; `false` when nothing is new about it. */
  async add(thread: Thread): Promise<boolean> {
    const { id, parent, name } = thread;
    if (this.#known.get(id)?.parent === parent) return false;
    await this.#store.remember(OWNER, id, JSON.stringify({ parent, name }));
    this.#known.set(id, thread);
    return true;
  }

  /** The configuration with every thread as a channel like its parent, for as long as that has floors for its threads. */
  within(config: Config): Config {
    const parents = new Map(config.channels.map((channel) => [channel.id, channel]));
    const threads = [...this.#known.values()].flatMap((thread) => {
      const parent = parents.get(thread.parent);
      return parent === undefined || parent.turnConfig.threads !== 'own' ? [] : [asChannel(thread, parent)];
    });
    if (threads.length === 0) return config;
    const { secrets } = config;
    const complete = { ...config, secrets, channels: [...config.channels, ...threads] };
    return Object.freeze(Object.defineProperty(complete, 'secrets', { enumerable: false }));
  }

  #isForgotten(id: ChannelId, now: Instant): boolean {
    const floor = this.#store.floor(id);
    const isAtRest = floor === null || (floor.turn === null && floor.held.length === 0 && floor.exchange === null);
    return isAtRest && now - (this.#store.lastSeen(id)?.sentAt ?? 0) > FORGET_AFTER_MS;
  }
}

function asChannel(thread: Thread, parent: ChannelConfig): ChannelConfig {
  return { ...parent, id: thread.id, name: thread.name, parent: parent.id };
}
