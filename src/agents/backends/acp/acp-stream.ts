import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import type { Readable, Writable } from 'node:stream';
import { delay } from '../../../lib/retry.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Instant, Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';
import { jsonOrNull } from '../../../lib/defined.ts';

type Id = string | number | null;
type Conversation = { push(message: AnyMessage): void; end(): void };
type Asked = { readonly conversation: Conversation; readonly id: Id; readonly method: string };
type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

/**
 * Runs several conversations of the Agent Client Protocol over one connection. `initialize` is sent once, or again
 * after an error.
 */
export class AcpMultiplexer {
  readonly #send: (message: AnyMessage) => void;
  readonly #conversations = new Set<Conversation>();
  readonly #sessions = new Map<string, Conversation>();
  readonly #asked = new Map<number, Asked>();
  /** Requests of the agent that have no answer yet, by id. */
  readonly #agentRequests = new Map<Id, Conversation>();
  #numbers = 0;
  #greeting: Answer | null = null;
  /** The requests that wait for the answer to `initialize`. The first of them was sent. */
  #greeted: { readonly conversation: Conversation; readonly id: Id }[] = [];
  #open = true;

  constructor(send: (message: AnyMessage) => void) {
    this.#send = send;
  }

  /** Opens one more conversation. */
  stream(): Stream {
    let incoming: ReadableStreamDefaultController<AnyMessage> | null = null;
    const conversation: Conversation = {
      push: (message) => incoming?.enqueue(message),
      end: () => {
        if (!this.#conversations.delete(conversation)) return;
        this.#forget(conversation);
        incoming?.close();
      },
    };
    const readable = new ReadableStream<AnyMessage>({
      start: (controller) => {
        incoming = controller;
      },
      cancel: () => {
        incoming = null;
        conversation.end();
      },
    });
    const writable = new WritableStream<AnyMessage>({
      write: (message) => this.#ask(conversation, message),
      close: () => conversation.end(),
      abort: () => conversation.end(),
    });
    this.#conversations.add(conversation);
    if (!this.#open) conversation.end();
    return { readable, writable };
  }

  /**
   * Delivers a message from the agent to its conversation: by its session, or by the request that is answered or
   * cancelled. Answers a request that names no known session with an error. Drops other messages of unknown
   * conversations.
   */
  take(message: AnyMessage): void {
    if (!('method' in message)) return this.#answered(message);
    const session = sessionIn(message.params);
    const conversation = session === null ? this.#takenBack(message) : this.#sessions.get(session);
    if (conversation !== undefined) {
      if ('id' in message) this.#agentRequests.set(message.id, conversation);
      conversation.push(message);
    } else if ('id' in message) {
      const error = { code: INVALID_PARAMS, message: 'no such session' };
      this.#send({ jsonrpc: '2.0', id: message.id, error });
    }
  }

  #takenBack(message: AnyMessage): Conversation | undefined {
    if (!('method' in message) || message.method !== '$/cancel_request') return undefined;
    const params = cancelParams.safeParse(message.params);
    return params.success ? this.#agentRequests.get(params.data.requestId) : undefined;
  }

  /** Ends all conversations, because the connection is closed. */
  close(): void {
    this.#open = false;
    for (const conversation of this.#conversations) conversation.end();
  }

  #ask(conversation: Conversation, message: AnyMessage): void {
    if (!this.#open) throw new Error('the connection is closed');
    const session = 'method' in message ? sessionIn(message.params) : null;
    if (session !== null && !this.#claim(session, conversation))
      throw new Error('impossible: a session of another conversation');
    if (!('method' in message)) {
      this.#agentRequests.delete(message.id);
      this.#send(message);
    } else if (!('id' in message)) this.#send(this.#cancelling(conversation, message));
    else if (message.method === 'initialize') this.#greet(conversation, message);
    else this.#number(conversation, message);
  }

  #number(conversation: Conversation, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    this.#numbers += 1;
    this.#asked.set(this.#numbers, { conversation, id: message.id, method: message.method });
    this.#send({ ...message, id: this.#numbers });
  }

  #greet(conversation: Conversation, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    if (this.#greeting !== null) {
      conversation.push({ jsonrpc: '2.0', id: message.id, ...this.#greeting });
      return;
    }
    this.#greeted.push({ conversation, id: message.id });
    if (this.#greeted.length === 1) this.#number(conversation, message);
  }

  #cancelling(conversation: Conversation, message: AnyMessage): AnyMessage {
    if (!('method' in message) || message.method !== '$/cancel_request') return message;
    const { requestId } = cancelParams.parse(message.params);
    const known = [...this.#asked].find(([, asked]) => asked.conversation === conversation && asked.id === requestId);
    return known === undefined ? message : { ...message, params: { requestId: known[0] } };
  }

  #answered(message: Exclude<AnyMessage, { method: string }>): void {
    const asked = typeof message.id === 'number' ? this.#asked.get(message.id) : undefined;
    if (asked === undefined || typeof message.id !== 'number') return;
    this.#asked.delete(message.id);
    const answer: Answer = 'error' in message ? { error: message.error } : { result: message.result };
    if (asked.method === 'initialize') return this.#welcome(answer);
    const session = 'result' in answer ? sessionIn(answer.result) : null;
    const isDouble = session !== null && !this.#claim(session, asked.conversation);
    const error = { code: INVALID_PARAMS, message: `the agent gave the session ${session} twice` };
    asked.conversation.push({ jsonrpc: '2.0', id: asked.id, ...(isDouble ? { error } : answer) });
  }

  #welcome(answer: Answer): void {
    this.#greeting = 'error' in answer ? null : answer;
    const waiting = this.#greeted;
    this.#greeted = [];
    for (const { conversation, id } of waiting)
      if (this.#conversations.has(conversation)) conversation.push({ jsonrpc: '2.0', id, ...answer });
  }

  #claim(session: string, conversation: Conversation): boolean {
    const owner = this.#sessions.get(session);
    if (owner === undefined) this.#sessions.set(session, conversation);
    return owner === undefined || owner === conversation;
  }

  #forget(conversation: Conversation): void {
    for (const [session, owner] of this.#sessions) if (owner === conversation) this.#sessions.delete(session);
    for (const [id, owner] of this.#agentRequests) if (owner === conversation) this.#agentRequests.delete(id);
    for (const [number, asked] of this.#asked) {
      if (asked.conversation === conversation && asked.method !== 'initialize') this.#asked.delete(number);
    }
  }
}

/** Parses a frame as a message. Returns `null` when the frame holds no valid message. */
export function messageIn(text: string): AnyMessage | null {
  const parsed = jsonOrNull(text);
  return envelope.safeParse(parsed).success ? (parsed as AnyMessage) : null;
}

const INVALID_PARAMS = -32_602;
const id = z.union([z.string(), z.number(), z.null()]);
const envelope = z.union([
  z.looseObject({ jsonrpc: z.literal('2.0'), method: z.string(), id: id.exactOptional() }),
  z.looseObject({ jsonrpc: z.literal('2.0'), id, error: z.looseObject({ code: z.number(), message: z.string() }) }),
  z.looseObject({ jsonrpc: z.literal('2.0'), id, result: z.unknown() }),
]);
const cancelParams = z.looseObject({ requestId: id });
const withSession = z.looseObject({ sessionId: z.string() });

/** The id of the session that a message's parameters or result name; `null` for none. */
export function sessionIn(params: unknown): string | null {
  return withSession.safeParse(params).data?.sessionId ?? null;
}

type LineLimits = {
  /** Approximate maximum size of one message, in bytes. */
  readonly messageBytes: number;
  readonly messagesPerSecond: number;
};

const LINE_LIMITS: LineLimits = { messageBytes: 8 * 1024 * 1024, messagesPerSecond: 10_000 };

/**
 * Options for reading an agent. `now`: a monotonic clock in milliseconds. `noise`: called with each line that is no
 * message, cut to 200 characters; not with blank lines.
 */
type LineOptions = {
  readonly limits?: LineLimits;
  readonly now?: () => Instant;
  readonly timers?: Timers;
  readonly noise?: (line: string) => void;
};

/**
 * Returns streams of messages over two byte streams, one JSON object a line. Skips lines that are no messages. Pauses
 * reading when the agent exceeds the rate limit. Ends with a `BackendError` for a message that is too long, or when the
 * agent exceeds the rate limit for 30 s.
 */
export function lineStream(input: Readable, output: Writable, options: LineOptions = {}): Stream {
  return {
    readable: ReadableStream.from(messagesOf(input, options)),
    writable: new WritableStream<AnyMessage>({ write: (message) => written(output, `${JSON.stringify(message)}\n`) }),
  };
}

/** Rate limit for an agent's messages, with bursts of twice the rate. */
export class MessageRate {
  readonly #perSecond: number;
  readonly #now: () => Instant;
  #credit: number;
  #creditAt: Instant;
  #slowedSince: Instant | null = null;

  constructor(perSecond: number, now: () => Instant) {
    this.#perSecond = perSecond;
    this.#now = now;
    this.#credit = perSecond * BURST_SECONDS;
    this.#creditAt = now();
  }

  /** The error message for an agent that exceeded its rate for too long. */
  get excess(): string {
    return `sent more than ${this.#perSecond} messages a second for ${MOST_SLOWED_MS / 1_000} s`;
  }

  /**
   * Counts one message. Returns how long to pause reading, in milliseconds, or `null` when the agent exceeded the rate
   * for 30 s.
   */
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
    const message = messageInLine(line);
    if (message !== null) yield message;
    else if (line.trim() !== '') noise?.(line.slice(0, NOISE_SHOWN).toWellFormed());
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

function messageInLine(line: string): AnyMessage | null {
  const parsed = line.trimStart().startsWith('{') ? jsonOrNull(line) : null;
  const isMessage = typeof parsed === 'object' && parsed !== null && 'jsonrpc' in parsed && parsed.jsonrpc === '2.0';
  return isMessage ? (parsed as AnyMessage) : null;
}

function written(output: Writable, line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(line, (error) => (error ? reject(error) : resolve()));
  });
}

const NEW_LINE = 0x0a;
const NOISE_SHOWN = 200;
