import type { Readable, Writable } from 'node:stream';
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { BackendError } from '../backend.ts';

/** How much an agent may send. */
export type LineLimits = {
  /** The longest message, in bytes. */
  readonly messageBytes: number;
  readonly messagesPerSecond: number;
};

export const LINE_LIMITS: LineLimits = { messageBytes: 8 * 1024 * 1024, messagesPerSecond: 10_000 };

/** What one agent is read with: `now` is a monotonic clock in milliseconds, `noise` is told of every line that is not a message. */
export type LineOptions = {
  readonly limits?: LineLimits;
  readonly now?: () => number;
  readonly noise?: (line: string) => void;
};

/**
 * Messages of the Agent Client Protocol over a pair of byte streams, one JSON object a line. Lines that are no messages are
 * passed over; too long a message, or too many, end the stream with a `BackendError`.
 */
export function lineStream(input: Readable, output: Writable, options: LineOptions = {}): Stream {
  return {
    readable: ReadableStream.from(messagesOf(input, options)),
    writable: new WritableStream<AnyMessage>({
      write: (message) => written(output, `${JSON.stringify(message)}\n`),
    }),
  };
}

async function* messagesOf(input: Readable, options: LineOptions): AsyncGenerator<AnyMessage> {
  const { limits = LINE_LIMITS, now = () => performance.now(), noise } = options;
  const rate = rateLimit(limits.messagesPerSecond, now);
  for await (const line of linesOf(input, limits.messageBytes)) {
    rate();
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

function rateLimit(most: number, now: () => number): () => void {
  let since = now();
  let count = 0;
  return () => {
    if (now() - since >= SECOND_MS) {
      since = now();
      count = 0;
    }
    count += 1;
    if (count > most) throw new BackendError(`sent more than ${most} messages in a second`);
  };
}

function written(output: Writable, line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(line, (error) => (error ? reject(error) : resolve()));
  });
}

const NEW_LINE = 0x0a;
const SECOND_MS = 1_000;
const NOISE_SHOWN = 200;
