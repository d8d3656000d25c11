import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { z } from 'zod';

type Id = string | number | null;
type Conversation = { push(message: AnyMessage): void; end(): void; asked(method: string): void };
type Asked = { readonly conversation: Conversation; readonly id: Id; readonly method: string };
type Answer = { readonly result: unknown } | { readonly error: { readonly code: number; readonly message: string } };

/**
 * Carries several conversations of the Agent Client Protocol over one connection: what we ask gets a number of its own,
 * answers go back to who asked, and what the agent sends by itself goes to the conversation that has its `sessionId`.
 * `initialize` reaches the agent once; the other conversations get the same answer.
 */
export class AcpMultiplexer {
  readonly #send: (message: AnyMessage) => void;
  readonly #conversations = new Set<Conversation>();
  readonly #sessions = new Map<string, Conversation>();
  readonly #asked = new Map<number, Asked>();
  /** What the agent has asked and has no answer to yet. */
  readonly #theirs = new Map<Id, Conversation>();
  #numbers = 0;
  #greeting: Answer | 'asked' | null = null;
  #greeted: { readonly conversation: Conversation; readonly id: Id }[] = [];
  #open = true;

  constructor(send: (message: AnyMessage) => void) {
    this.#send = send;
  }

  /** One more conversation; `asked` is told of every method that goes out. */
  stream(asked: (method: string) => void): Stream {
    let incoming: ReadableStreamDefaultController<AnyMessage> | null = null;
    const conversation: Conversation = {
      asked,
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

  /** A message from the agent. */
  take(message: AnyMessage): void {
    if (!('method' in message)) return this.#answered(message);
    const session = sessionIn(message.params);
    const conversation = session === null ? this.#takenBack(message) : this.#sessions.get(session);
    if (conversation !== undefined) {
      if ('id' in message) this.#theirs.set(message.id, conversation);
      conversation.push(message);
    } else if ('id' in message) {
      const error = { code: INVALID_PARAMS, message: 'no such session' };
      this.#send({ jsonrpc: '2.0', id: message.id, error });
    }
  }

  /** The conversation in which the agent asked what it now takes back. */
  #takenBack(message: AnyMessage): Conversation | undefined {
    if (!('method' in message) || message.method !== '$/cancel_request') return undefined;
    const params = cancelParams.safeParse(message.params);
    return params.success ? this.#theirs.get(params.data.requestId) : undefined;
  }

  /** The connection is over: all conversations end. */
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
      this.#theirs.delete(message.id);
      this.#send(message);
    } else if (!('id' in message)) this.#send(this.#cancelling(conversation, message));
    else if (message.method === 'initialize') this.#greet(conversation, message);
    else this.#number(conversation, message);
  }

  #number(conversation: Conversation, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    conversation.asked(message.method);
    this.#numbers += 1;
    this.#asked.set(this.#numbers, { conversation, id: message.id, method: message.method });
    this.#send({ ...message, id: this.#numbers });
  }

  #greet(conversation: Conversation, message: Extract<AnyMessage, { method: string; id: Id }>): void {
    if (this.#greeting !== null && this.#greeting !== 'asked') {
      conversation.push({ jsonrpc: '2.0', id: message.id, ...this.#greeting });
      return;
    }
    this.#greeted.push({ conversation, id: message.id });
    if (this.#greeting === 'asked') return;
    this.#greeting = 'asked';
    this.#number(conversation, message);
  }

  /** A request that is taken back goes by the number under which the agent knows it. */
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
    for (const [id, owner] of this.#theirs) if (owner === conversation) this.#theirs.delete(id);
    for (const [number, asked] of this.#asked) {
      if (asked.conversation === conversation && asked.method !== 'initialize') this.#asked.delete(number);
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
