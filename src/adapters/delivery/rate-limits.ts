import { BoundedMap } from '../../lib/keyed.ts';
import { delay } from '../../lib/retry.ts';
import type { Clock, Instant, Timers, Timer } from '../../lib/time.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts } from '../port.ts';
import type { Content, MessageClient, MessageRef } from './message-client.ts';

const MINUTE_MS = 60_000;
/** The share of the edits per minute that can be made at once. */
const BURST = 1 / 4;
const CHANNELS_KEPT = 1_000;

/**
 * Sends messages within a platform's limits, and edits messages. Drafts and cards of all channels share one edit
 * budget.
 */
export class RateLimits {
  readonly #ports: { readonly client: MessageClient; readonly clock: Clock; readonly timers: Timers };
  readonly #stopping = new AbortController();
  /** When the next new message can be sent, by channel. Threads share the entry of their channel. */
  readonly #places = new BoundedMap<string, Instant>(CHANNELS_KEPT);
  readonly #sending = new Map<ChannelId, Set<Promise<unknown>>>();
  /** When the edit budget is full again. A past time: the budget is full. */
  #fullAt: Instant;

  constructor(ports: { readonly client: MessageClient; readonly clock: Clock; readonly timers: Timers }) {
    this.#ports = ports;
    this.#fullAt = ports.clock.now();
  }

  /** Returns how long the next new message to a channel would wait, in milliseconds. */
  wait(channel: ChannelId): number {
    return Math.max(0, (this.#places.get(placeOf(channel)) ?? 0) - this.#ports.clock.now());
  }

  /** Sends a message after the channel's wait. After `stop`, sends the message at once. */
  async send(channel: ChannelId, content: Content): Promise<MessageId> {
    const { client, timers } = this.#ports;
    const waitMs = this.wait(channel);
    this.#hold(channel, waitMs + client.limits.postGapMs);
    if (waitMs > 0) await delay(waitMs, { timers, signal: this.#stopping.signal }).catch(() => undefined);
    const sending = client.send(channel, content);
    this.#watch(channel, sending);
    try {
      return await sending;
    } catch (error) {
      this.#hold(channel, Math.max(limitedMs(error), this.wait(channel)));
      throw error;
    }
  }

  async change(message: MessageRef, content: Content): Promise<'changed' | 'gone'> {
    try {
      return await this.#ports.client.change(message, content);
    } catch (error) {
      const heldMs = limitedMs(error);
      if (heldMs > 0) this.#holdEdits(heldMs);
      throw error;
    }
  }

  /** Takes one edit from the budget of drafts and cards. Returns `false` when the budget is used up. */
  takeEdit(): boolean {
    const budget = budgetOf(this.#ports.client);
    if (budget === null) return true;
    const { refillMs, burst } = budget;
    const now = this.#ports.clock.now();
    const from = Math.max(this.#fullAt, now);
    if (from + refillMs - now > burst * refillMs) return false;
    this.#fullAt = from + refillMs;
    return true;
  }

  /** Resolves when all messages now being sent to a channel were sent or failed. */
  async waitForSends(channel: ChannelId): Promise<void> {
    const sends = this.#sending.get(channel);
    if (sends !== undefined) await Promise.all(sends);
  }

  /** Ends the waits of `send`: messages are sent at once. */
  stop(): void {
    this.#stopping.abort();
  }

  #hold(channel: ChannelId, ms: number): void {
    if (this.#ports.client.limits.postGapMs > 0) this.#places.set(placeOf(channel), this.#ports.clock.now() + ms);
  }

  #watch(channel: ChannelId, sending: Promise<unknown>): void {
    const sends = this.#sending.get(channel) ?? new Set();
    this.#sending.set(channel, sends);
    const ended = sending
      .catch(() => undefined)
      .finally(() => {
        sends.delete(ended);
        if (sends.size === 0) this.#sending.delete(channel);
      });
    sends.add(ended);
  }

  #holdEdits(ms: number): void {
    const { refillMs, burst } = budgetOf(this.#ports.client) ?? { refillMs: 0, burst: 1 };
    this.#fullAt = Math.max(this.#fullAt, this.#ports.clock.now() + ms + (burst - 1) * refillMs);
  }
}

/** Returns the id of the channel whose wait between messages counts. Threads share the wait of their channel. */
function placeOf(channel: ChannelId): string {
  return channel.split('/', 1)[0] ?? channel;
}

/** The edit budget: `burst` edits at first, one more every `refillMs`. `null`: no limit. */
function budgetOf({ limits }: MessageClient): { readonly refillMs: number; readonly burst: number } | null {
  const { editsPerMinute: count } = limits;
  return count === null ? null : { refillMs: MINUTE_MS / count, burst: Math.max(1, Math.floor(count * BURST)) };
}

function limitedMs(error: unknown): number {
  return error instanceof ChatError && error.fault === 'limited' ? (error.retryAfterMs ?? 0) : 0;
}

/**
 * Runs a task on request: never twice at once, and with a minimum time between two starts, except for urgent requests.
 */
export type Throttle = {
  /** Requests a run of the task as soon as the limits allow. Several requests before a run begins cause one run. */
  kick(): void;
  /**
   * Requests a run of the task and cancels the wait that the last run asked for. `isUrgent`: also ignores the minimum
   * gap.
   */
  hurry(isUrgent?: boolean): void;
  /** Starts no more runs. Resolves when the present run has ended. */
  stop(): Promise<void>;
};

type ThrottlePorts = Pick<AdapterParts, 'clock' | 'timers'> & {
  /** Returns the minimum time since the start of the last run, in milliseconds. Called from timers: must not throw. */
  readonly gapMs: () => number;
  /** Time before the first run, in milliseconds. Default: 0. */
  readonly delayMs?: number;
};

/**
 * Creates a throttle for `run`, which must not reject. If `run` resolves with a number, the throttle repeats the run
 * after at least that many milliseconds, or after a later `hurry`.
 */
export function createThrottle(ports: ThrottlePorts, run: () => Promise<number | null>): Throttle {
  const { clock, timers, gapMs } = ports;
  let startedAt: Instant | null = null;
  let heldUntil = clock.now() + (ports.delayMs ?? 0);
  let timer: Timer | null = null;
  let running: Promise<void> | null = null;
  let isRequested = false;
  let isStopped = false;

  function arm(): void {
    if (isStopped || !isRequested || running !== null || timer !== null) return;
    const waitMs = Math.max(startedAt === null ? 0 : startedAt + gapMs(), heldUntil) - clock.now();
    if (waitMs <= 0) return begin();
    timer = timers.after(waitMs, () => {
      timer = null;
      arm();
    });
  }

  function begin(): void {
    isRequested = false;
    startedAt = clock.now();
    running = runOnce();
  }

  async function runOnce(): Promise<void> {
    const againMs = await run();
    running = null;
    if (againMs !== null) {
      isRequested = true;
      heldUntil = clock.now() + againMs;
    }
    arm();
  }

  return {
    kick() {
      isRequested = true;
      arm();
    },
    hurry(isUrgent = false) {
      isRequested = true;
      [heldUntil, startedAt] = [0, isUrgent ? null : startedAt];
      timer?.cancel();
      timer = null;
      arm();
    },
    async stop() {
      isStopped = true;
      timer?.cancel();
      await running;
    },
  };
}
