import type { Readable, Writable } from 'node:stream';
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { delay } from '../../../lib/retry.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Instant, Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';

/** How much an agent may send. */
export type LineLimits = {
  /** The longest message, in bytes. */
  readonly messageBytes: number;
  readonly messagesPerSecond: number;
};

const LINE_LIMITS: LineLimits = { messageBytes: 8 * 1024 * 1024, messagesPerSecond: 10_000 };

/** What one agent is read with: `now` is a monotonic clock in milliseconds, `noise` is told of every line that is not a message. */
type LineOptions = {
  readonly limits?: LineLimits;
  readonly now?: () => Instant;
  readonly timers?: Timers;
  readonly noise?: (line: string) => void;
};

/**
 * Messages of the Agent Client Protocol over a pair of byte streams, one JSON object a line. Lines that are no messages are
 * passed over. Of an agent that sends too many nothing is read for a while, so that it has to wait; too long a message, or too
 * many for half a minute, end the stream with a `BackendError`.
 */
export function lineStream(input: Readable, output: Writable, options: LineOptions = {}): Stream {
  return {
    readable: ReadableStream.from(messagesOf(input, options)),
    writable: new WritableStream<AnyMessage>({
      write: (message) => written(output, `${JSON.stringify(message)}\n`),
    }),
  };
}

/** Counts an agent's messages: so many a second, twice as many in a burst. Whoever sends more has to wait. */
export class MessageRate {
  readonly #perSecond: number;
  readonly #now: () => Instant;
  #credit: number;
  #creditAt: Instant;
  /** Since when it has had to wait again and again; `null` while it keeps to the rate. */
  #slowedSince: Instant | null = null;

  constructor(perSecond: number, now: () => Instant) {
    this.#perSecond = perSecond;
    this.#now = now;
    this.#credit = perSecond * BURST_SECONDS;
    this.#creditAt = now();
  }

  /** What it does that sends too much for too long. */
  get excess(): string {
    return `sent more than ${this.#perSecond} messages a second for ${MOST_SLOWED_MS / 1_000} s`;
  }

  /** Counts one: how long nothing more is to be taken, in milliseconds, or `null` when waiting was of no use for too long. */
  count(): number | null {
    const now = this.#now();
    const most = this.#perSecond * BURST_SECONDS;
    const earned = ((now - this.#creditAt) / 1_000) * this.#perSecond;
    this.#creditAt = now;
    this.#credit = Math.max(-most, Math.min(most, this.#credit + earned) - 1);
    if (this.#credit >= most - this.#perSecond) this.#slowedSince = null;
    if (this.#credit >= 0) return 0;
    this.#slowedSince ??= now;
    if (now - this.#slowedSince >= MOST_SLOWED_MS) return null;
    return Math.ceil((-this.#credit / this.#perSecond) * 1_000) + WAIT_MS;
  }
}

const BURST_SECONDS = 2;
const WAIT_MS = 250;
const MOST_SLOWED_MS = 30_000;

async function* messagesOf(input: Readable, options: LineOptions): AsyncGenerator<AnyMessage> {
  const { limits = LINE_LIMITS, now = () => performance.now(), timers = systemTimers, noise } = options;
  const rate = new MessageRate(limits.messagesPerSecond, now);
  for await (const line of linesOf(input, limits.messageBytes)) {
    const waitMs = rate.count();
    if (waitMs === null) throw new BackendError(rate.excess);
    if (waitMs > 0) await delay(waitMs, { timers });
    const message = messageIn(line);
    if (message !== null) yield message;
    else if (line.trim() !== '') noise?.(line.slice(0, NOISE_SHOWN));
  }
}

async function* linesOf(input: Readable, longest: number): AsyncGenerator<string> {
  let pending: Buffer[] = [];
  let size = 0;
  for await (const chunk of input) {
    if (!Buffer.isBuffer(chunk)) throw new Error('impossible: the output of an agent is not bytes');
    let from = 0;
    for (let end = chunk.indexOf(NEW_LINE); end !== -1; end = chunk.indexOf(NEW_LINE, from)) {
      pending.push(chunk.subarray(from, end));
      yield Buffer.concat(pending).toString('utf8');
      pending = [];
      size = 0;
      from = end + 1;
    }
    pending.push(chunk.subarray(from));
    size += chunk.length - from;
    if (size > longest) throw new BackendError(`sent a message of more than ${Math.floor(longest / 1_048_576)} MiB`);
  }
}

function messageIn(line: string): AnyMessage | null {
  if (!line.trimStart().startsWith('{')) return null;
  try {
    const parsed: unknown = JSON.parse(line);
    return isMessage(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

function isMessage(value: unknown): value is AnyMessage {
  return typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
}

function written(output: Writable, line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(line, (error) => (error ? reject(error) : resolve()));
  });
}

const NEW_LINE = 0x0a;
const NOISE_SHOWN = 200;
