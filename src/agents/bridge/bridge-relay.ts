import type { AnyMessage } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import type { Timers } from '../../lib/time.ts';
import { sessionIn } from '../backends/acp/acp-stream.ts';

type Send = (message: AnyMessage) => unknown;

/** `stuck` is called when a prompt waited `graceMs` milliseconds for the end of a cancelled prompt. */
export type Patience = { readonly timers: Timers; readonly graceMs: number; readonly stuck: () => void };

type Id = string | number | null;
type Request = Extract<AnyMessage, { method: string; id: Id }>;
type Response = Exclude<AnyMessage, { method: string }>;
type Asked = { readonly to: Send; readonly id: Id; readonly method: string; readonly session: string | null };

/**
 * Relays messages between one agent and its host, over one connection after another. Repeats the agent's answer to
 * `initialize` for a new connection, and answers `session/resume` for an agent that cannot resume. Cancels prompts when
 * the connection is lost. A session's next prompt waits until the cancelled prompt has ended.
 */
export class BridgeRelay {
  readonly #toAgent: Send;
  readonly #cwd: string;
  readonly #patience: Patience;
  readonly #sessions = new Set<string>();
  readonly #asked = new Map<number, Asked>();
  /** The agent's requests that the host has not answered: the method by id. */
  readonly #open = new Map<Id, string>();
  /** Prompts that wait for the end of a cancelled prompt of their session. */
  #waiting: { readonly message: Request; readonly to: Send }[] = [];
  #numbers = 0;
  #host: Send | null = null;
  #greeting: unknown = null;
  #resumes = false;

  constructor(toAgent: Send, cwd: string, patience: Patience) {
    this.#toAgent = toAgent;
    this.#cwd = cwd;
    this.#patience = patience;
  }

  /** Called when a connection to the host was opened. `host` sends a message to the host. */
  connect(host: Send): void {
    this.#host = host;
  }

  /** Called when the connection to the host was lost. Cancels the host's prompts and declines the agent's requests. */
  disconnect(): void {
    const host = this.#host;
    this.#host = null;
    this.#waiting = [];
    for (const [id, method] of this.#open) this.#decline(id, method);
    for (const { to, method, session } of this.#asked.values()) {
      if (to !== host || method !== 'session/prompt') continue;
      this.#toAgent({ jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: session } });
    }
  }

  /** Takes a message from the host. Drops the message when no host is connected. */
  fromHost(message: AnyMessage): void {
    const to = this.#host;
    if (to === null) return;
    if (!('method' in message)) {
      this.#open.delete(message.id);
      this.#toAgent(message);
    } else if (!('id' in message)) this.#notify(message, to);
    else if (message.method === 'initialize' && this.#greeting !== null) {
      to({ jsonrpc: '2.0', id: message.id, result: this.#greeting });
    } else if (message.method === 'session/resume' && !this.#resumes) this.#resume(message, to);
    else if (this.#isBusy(message, to)) this.#wait({ message, to });
    else this.#ask(message, to);
  }

  /**
   * Takes a message from the agent. Waits until the connection has sent a request or notification to the host: a slow
   * host slows the agent.
   */
  async fromAgent(message: AnyMessage): Promise<void> {
    if (!('method' in message)) return this.#answered(message);
    if ('id' in message) {
      this.#open.set(message.id, message.method);
      if (this.#host === null) return this.#decline(message.id, message.method);
    }
    await this.#host?.(message);
  }

  #wait(next: { readonly message: Request; readonly to: Send }): void {
    this.#waiting.push(next);
    const { timers, graceMs, stuck } = this.#patience;
    timers.after(graceMs, () => {
      if (this.#waiting.includes(next)) stuck();
    });
  }

  #ask(message: Request, to: Send): void {
    this.#numbers += 1;
    const session = sessionIn(message.params);
    this.#asked.set(this.#numbers, { to, id: message.id, method: message.method, session });
    const params = PLACED.has(message.method) ? { ...asObject(message.params), cwd: this.#cwd } : message.params;
    this.#toAgent({ ...message, id: this.#numbers, params });
  }

  #answered(message: Response): void {
    const asked = typeof message.id === 'number' ? this.#asked.get(message.id) : undefined;
    if (asked === undefined || typeof message.id !== 'number') return;
    this.#asked.delete(message.id);
    const session = asked.session ?? ('result' in message ? sessionIn(message.result) : null);
    if (session !== null && 'result' in message) this.#sessions.add(session);
    if (asked.to === this.#host) asked.to(this.#withHostId(message, asked));
    const next = this.#waiting.filter((each) => !this.#isBusy(each.message, each.to));
    this.#waiting = this.#waiting.filter((each) => !next.includes(each));
    for (const { message: waited, to } of next) this.#ask(waited, to);
  }

  #withHostId(message: Response, { id, method }: Asked): AnyMessage {
    if (!('result' in message) || method !== 'initialize') return { ...message, id };
    const greeting = greetingOf.safeParse(message.result);
    if (!greeting.success) return { ...message, id };
    const { agentCapabilities = {} } = greeting.data;
    const { sessionCapabilities = {} } = agentCapabilities;
    this.#resumes = 'resume' in sessionCapabilities;
    const able = { ...agentCapabilities, sessionCapabilities: { resume: {}, ...sessionCapabilities } };
    this.#greeting = { ...greeting.data, agentCapabilities: able };
    return { jsonrpc: '2.0', id, result: this.#greeting };
  }

  #resume(message: Request, to: Send): void {
    const session = sessionIn(message.params);
    const known = session !== null && this.#sessions.has(session);
    const error = { code: INVALID_PARAMS, message: 'no such session' };
    to({ jsonrpc: '2.0', id: message.id, ...(known ? { result: {} } : { error }) });
  }

  /** True for a prompt whose session still runs a prompt of a former connection. */
  #isBusy({ method, params }: Request, to: Send): boolean {
    const session = sessionIn(params);
    const before = [...this.#asked.values()].filter((asked) => asked.session === session && asked.to !== to);
    return method === 'session/prompt' && before.some((asked) => asked.method === method);
  }

  #notify(message: Exclude<AnyMessage, Response>, to: Send): void {
    if (message.method === 'session/cancel')
      this.#cancelWaiting(({ params }) => sessionIn(params) === sessionIn(message.params));
    if (message.method !== '$/cancel_request') return void this.#toAgent(message);
    const { requestId = null } = asObject(message.params);
    this.#cancelWaiting(({ id }) => id === requestId);
    const known = [...this.#asked].find(([, asked]) => asked.to === to && asked.id === requestId);
    if (known !== undefined) this.#toAgent({ ...message, params: { requestId: known[0] } });
  }

  #cancelWaiting(isMeant: (prompt: Request) => boolean): void {
    const cancelled = this.#waiting.filter(({ message }) => isMeant(message));
    this.#waiting = this.#waiting.filter((each) => !cancelled.includes(each));
    for (const { message, to } of cancelled)
      to({ jsonrpc: '2.0', id: message.id, result: { stopReason: 'cancelled' } });
  }

  #decline(id: Id, method: string): void {
    this.#open.delete(id);
    const error = { code: UNAVAILABLE, message: 'the host is not connected' };
    const cancelled = { outcome: { outcome: 'cancelled' } };
    const isPermission = method === 'session/request_permission';
    this.#toAgent({ jsonrpc: '2.0', id, ...(isPermission ? { result: cancelled } : { error }) });
  }
}

const INVALID_PARAMS = -32_602;
const UNAVAILABLE = -32_000;
/** Requests that name a folder. The bridge replaces the folder by its own working folder. */
const PLACED: ReadonlySet<string> = new Set(['session/new', 'session/load', 'session/resume']);

const greetingOf = z.looseObject({
  agentCapabilities: z.looseObject({ sessionCapabilities: z.looseObject({}).exactOptional() }).exactOptional(),
});
const anyObject = z.looseObject({});

function asObject(params: unknown): z.output<typeof anyObject> {
  return anyObject.safeParse(params).data ?? {};
}
