import type { Logger } from 'pino';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import { willPass } from '../../engine/errors.ts';
import type { KeptTexts } from '../../turns/floor-store.ts';
import type { ChatAdapter } from '../port.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';

/** Why nothing can be written for now. */
type Stuck = 'full' | 'locked';

/** What it takes to tell people. */
type StoreHealthPorts = {
  readonly timers: Timers;
  readonly log: Logger;
  readonly adapters: () => readonly ChatAdapter[];
  /** The channels of the configuration. */
  readonly channels: () => readonly { readonly id: ChannelId; readonly adapter: string }[];
};

/** Looked for room so long after what could not be written, and then ever less often. */
const LOOK: RetryPolicy = { firstMs: 1_000, longestMs: 5_000 };

const TEXTS = {
  full: '⚠️ The disk that Conch keeps this floor on is full. Nothing is lost, but nobody is heard and nothing is said until there is room.',
  locked: '⚠️ Another program writes to Conch’s database. Nobody is heard and nothing is said until it is done.',
};
const OVER = '✅ Conch can write again and goes on.';

/**
 * Whether the store can write: when it cannot, every channel is told once, beside the outbox, which lies on the same disk;
 * then a line is written again and again until that works.
 */
export class StoreHealth {
  readonly #ports: StoreHealthPorts;
  readonly #ending = new AbortController();
  #texts: Pick<KeptTexts, 'remember'> | null = null;
  #stuck: Stuck | null = null;

  constructor(ports: StoreHealthPorts) {
    this.#ports = ports;
  }

  /** `null` while all is well. */
  get stuck(): Stuck | null {
    return this.#stuck;
  }

  /** The store that is open from now on. */
  watch(texts: Pick<KeptTexts, 'remember'>): void {
    this.#texts = texts;
  }

  /** The store did not write what it should have. */
  failed(cause: unknown): void {
    if (!willPass(cause) || this.#texts === null || this.#stuck !== null || this.#ending.signal.aborted) return;
    const { code: why } = cause;
    this.#stuck = why;
    this.#ports.log.error({ why }, cause.message);
    void this.#untilItWrites(this.#texts, this.#tell(why));
  }

  stop(): void {
    this.#ending.abort();
  }

  async #untilItWrites(texts: Pick<KeptTexts, 'remember'>, told: readonly Promise<Told | null>[]): Promise<void> {
    const { timers, log } = this.#ports;
    const { signal } = this.#ending;
    try {
      await retry(() => texts.remember('runtime', 'room', ''), LOOK, { timers, signal, judge: judgeOf });
    } catch {
      return; // The program ends, or the store has another fault, which ends it.
    }
    this.#stuck = null;
    log.info({}, 'the database can be written again');
    for (const one of told) void one.then((post) => post && this.#over(post));
  }

  #tell(why: Stuck): readonly Promise<Told | null>[] {
    const { adapters, channels, log } = this.#ports;
    return channels().map(async ({ id, adapter: name }) => {
      const adapter = adapters().find((one) => one.name === name);
      if (adapter === undefined) return null;
      if (adapter.notice !== undefined) {
        adapter.notice(id, TEXTS[why]);
        return { adapter, channel: id, id: null };
      }
      try {
        const post = { outboxId: `room-${id}`, speaker: null, text: TEXTS[why], afterId: null, epoch: null };
        return { adapter, channel: id, id: await adapter.post(id, post) };
      } catch (error) {
        log.warn({ channel: id, err: error }, 'the channel was not told that nothing can be written');
        return null;
      }
    });
  }

  async #over({ adapter, channel, id }: Told): Promise<void> {
    if (id === null) adapter.notice?.(channel, OVER);
    else await adapter.edit?.(channel, id, OVER).catch(() => undefined);
  }
}

/** What stands in a channel; without an id it is not kept there. */
type Told = { readonly adapter: ChatAdapter; readonly channel: ChannelId; readonly id: string | null };

function judgeOf({ error }: { readonly error: unknown }): 'again' | 'give-up' {
  return willPass(error) ? 'again' : 'give-up';
}
