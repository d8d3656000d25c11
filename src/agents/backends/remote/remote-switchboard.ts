import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { z } from 'zod';

type Id = string | number | null;
type Line = { push(message: AnyMessage): void; end(): void; asked(method: string): void };
type Asked = { readonly line: Line; readonly id: Id; readonly method: string };
type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

/**
 * Carries several conversations of the Agent Client Protocol over one connection: what we ask gets a number of its own,
 * answers go back to who asked, and what the agent sends by itself goes to the conversation that has its `sessionId`.
 * `initialize` reaches the agent once; the other conversations get the same answer.
 */
export class Switchboard {
  readonly #send: (message: AnyMessage) => void;
  readonly #lines = new Set<Line>();
  readonly #sessions = new Map<string, Line>();
  readonly #asked = new Map<number, Asked>();
  #numbers = 0;
  #greeting: Answer | 'asked' | null = null;
  #greeted: { readonly line: Line; readonly id: Id }[] = [];
  #open = true;

  constructor(send: (message: AnyMessage) => void) {
    this.#send = send;
  }

  /** One more conversation; `asked` is told of every method that goes out. */
  stream(asked: (method: string) => void): Stream {
    let incoming: ReadableStreamDefaultController<AnyMessage> | null = null;
    const line: Line = {
      asked,
      push: (message) => incoming?.enqueue(message),
      end: () => {
        if (!this.#lines.delete(line)) return;
        this.#forget(line);
        incoming?.close();
      },
    };
    const readable = new ReadableStream<AnyMessage>({
      start: (controller) => {
        incoming = controller;
      },
      cancel: () => {
        incoming = null;
        line.end();
      },
    });
    const writable = new WritableStream<AnyMessage>({
      write: (message) => this.#ask(line, message),
      close: () => line.end(),
      abort: () => line.end(),
    });
    this.#lines.add(line);
    if (!this.#open) line.end();
    return { readable, writable };
  }

  /** A message from the agent. */
  take(message: AnyMessage): void {
    if (!('method' in message)) return this.#answered(message);
    const session = sessionIn(message.params);
    const line = session === null ? undefined : this.#sessions.get(session);
    if (line !== undefined) line.push(message);
    else if ('id' in message) {
      const error = { code: INVALID_PARAMS, message: 'no such session' };
      this.#send({ jsonrpc: '2.0', id: message.id, error });
    }
  }

  /** The connection is over: all conversations end. */
  close(): void {
    this.#open = false;
    for (const line of this.#lines) line.end();
  }

  #ask(line: Line, message: AnyMessage): void {
    if (!this.#open) throw new Error('the connection is closed');
    const session = 'method' in message ? sessionIn(message.params) : null;
    if (session !== null && !this.#claim(session, line))
      throw new Error('impossible: a session of another conversation');
    if (!('method' in message)) this.#send(message);
    else if (!('id' in message)) this.#send(this.#cancelling(line, message));
    else if (message.method === 'initialize') this.#greet(line, message);
    else this.#number(line, message);
  }

  #number(line: Line, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    line.asked(message.method);
    this.#numbers += 1;
    this.#asked.set(this.#numbers, { line, id: message.id, method: message.method });
    this.#send({ ...message, id: this.#numbers });
  }

  #greet(line: Line, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    if (this.#greeting !== null && this.#greeting !== 'asked') {
      line.push({ jsonrpc: '2.0', id: message.id, ...this.#greeting });
      return;
    }
    this.#greeted.push({ line, id: message.id });
    if (this.#greeting === 'asked') return;
    this.#greeting = 'asked';
    this.#number(line, message);
  }

  /** A request that is taken back goes by the number under which the agent knows it. */
  #cancelling(line: Line, message: AnyMessage): AnyMessage {
    if (!('method' in message) || message.method !== '$/cancel_request') return message;
    const { requestId } = cancelParams.parse(message.params);
    const known = [...this.#asked].find(([, asked]) => asked.line === line && asked.id === requestId);
    return known === undefined ? message : { ...message, params: { requestId: known[0] } };
  }

  #answered(message: Exclude<AnyMessage, { method: string }>): void {
    const asked = typeof message.id === 'number' ? this.#asked.get(message.id) : undefined;
    if (asked === undefined || typeof message.id !== 'number') return;
    this.#asked.delete(message.id);
    const answer: Answer = 'error' in message ? { error: message.error } : { result: message.result };
    if (asked.method === 'initialize') return this.#welcome(answer);
    const session = 'result' in answer ? sessionIn(answer.result) : null;
    const isDouble = session !== null && !this.#claim(session, asked.line);
    const error = { code: INVALID_PARAMS, message: `the agent gave the session ${session} twice` };
    asked.line.push({ jsonrpc: '2.0', id: asked.id, ...(isDouble ? { error } : answer) });
  }

  #welcome(answer: Answer): void {
    this.#greeting = 'error' in answer ? null : answer;
    const waiting = this.#greeted;
    this.#greeted = [];
    for (const { line, id } of waiting) if (this.#lines.has(line)) line.push({ jsonrpc: '2.0', id, ...answer });
  }

  #claim(session: string, line: Line): boolean {
    const owner = this.#sessions.get(session);
    if (owner === undefined) this.#sessions.set(session, line);
    return owner === undefined || owner === line;
  }

  #forget(line: Line): void {
    for (const [session, owner] of this.#sessions) if (owner === line) this.#sessions.delete(session);
    for (const [number, asked] of this.#asked) {
      if (asked.line === line && asked.method !== 'initialize') this.#asked.delete(number);
    }
  }
}

/** The message that a frame holds; `null` when it holds none. */
export function messageIn(text: string): AnyMessage | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return envelope.safeParse(parsed).success ? (parsed as AnyMessage) : null;
  } catch {
    return null;
  }
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

function sessionIn(params: unknown): string | null {
  const parsed = withSession.safeParse(params);
  return parsed.success ? parsed.data.sessionId : null;
}
