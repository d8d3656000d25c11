import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import { willPass } from '../../engine/errors.ts';
import type { StoredTexts } from '../../turns/floor-store.ts';
import type { ChatAdapter } from '../port.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';

/** Why the store cannot be written. */
type WriteFault = 'full' | 'locked';

type StoreHealthPorts = {
  readonly timers: Timers;
  readonly log: Logger;
  readonly adapters: () => readonly ChatAdapter[];
  readonly channels: () => readonly { readonly id: ChannelId; readonly adapter: string }[];
};

const WRITE_RETRY: RetryPolicy = { firstMs: 1_000, longestMs: 5_000 };

const TEXTS = {
  full: '⚠️ Conch’s disk is full. Messages wait and nothing is posted until somebody frees space. Nothing is lost.',
  locked: '⚠️ Another program is writing to Conch’s database. Messages wait and nothing is posted until it is done.',
};
const RESOLVED = '✅ Conch can write again.';

/**
 * Warns people when the store cannot be written. Each configured channel gets at most one message or notice, sent
 * directly, because the outbox is in the store. Tells people when a test write succeeds again.
 */
export class StoreHealth {
  readonly #ports: StoreHealthPorts;
  readonly #stopping = new AbortController();
  #texts: Pick<StoredTexts, 'remember'> | null = null;
  #fault: WriteFault | null = null;

  constructor(ports: StoreHealthPorts) {
    this.#ports = ports;
  }

  /** Why the store cannot be written; `null`: no warning is open. */
  get fault(): WriteFault | null {
    return this.#fault;
  }

  /** Sets the store that gets the test writes. */
  watch(texts: Pick<StoredTexts, 'remember'>): void {
    this.#texts = texts;
  }

  /** Called when a write failed. Warns only for a full disk or a locked database. */
  failed(cause: unknown): void {
    if (!willPass(cause) || this.#texts === null || this.#fault !== null || this.#stopping.signal.aborted) return;
    const { code: why } = cause;
    this.#fault = why;
    this.#ports.log.error({ why }, cause.message);
    void this.#retryWrite(this.#texts, this.#warn(why));
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #retryWrite(texts: Pick<StoredTexts, 'remember'>, warnings: readonly Promise<Warning | null>[]): Promise<void> {
    const { timers, log } = this.#ports;
    const { signal } = this.#stopping;
    const judge = ({ error }: { readonly error: unknown }) => (willPass(error) ? 'again' : 'give-up');
    try {
      await retry(() => texts.remember('runtime', 'room', ''), WRITE_RETRY, { timers, signal, judge });
    } catch {
      return; // Conch was stopped, or the store has another fault.
    }
    this.#fault = null;
    log.info({}, 'the database can be written again');
    for (const warning of warnings) void warning.then((post) => post && this.#withdraw(post));
  }

  #warn(why: WriteFault): readonly Promise<Warning | null>[] {
    const { adapters, channels, log } = this.#ports;
    return channels().map(async ({ id, adapter: name }) => {
      const adapter = adapters().find((one) => one.name === name);
      if (adapter === undefined) return null;
      if (adapter.notice !== undefined) {
        adapter.notice(id, TEXTS[why]);
        return { adapter, channel: id, id: null };
      }
      try {
        // A new id each time: Discord answers a repeated id with the earlier message, which now shows `RESOLVED`.
        const post = { outboxId: `room-${randomUUID()}`, speaker: null, text: TEXTS[why], afterId: null, epoch: null };
        return { adapter, channel: id, id: await adapter.post(id, post) };
      } catch (error) {
        log.warn({ channel: id, err: error }, 'the channel was not warned that the store cannot be written');
        return null;
      }
    });
  }

  async #withdraw({ adapter, channel, id }: Warning): Promise<void> {
    if (id === null) adapter.notice?.(channel, RESOLVED);
    else await adapter.edit?.(channel, id, RESOLVED).catch(() => undefined);
  }
}

/** `id` is `null` when the warning was shown as a notice, which is not stored. */
type Warning = { readonly adapter: ChatAdapter; readonly channel: ChannelId; readonly id: string | null };
