import { Client, ProtocolError, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import type { Transport } from '@modelcontextprotocol/client';
import { backoffMs } from '../../lib/retry.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { McpServerConfig } from '../../config/config.ts';
import type { AgentLog } from '../session/floor-port.ts';
import type { CallResult } from '../tools/tool-gate.ts';
import { StdioTransport, httpTransport } from './mcp-transport.ts';
import { outputOf } from './mcp-output.ts';
import type { ToolOutput } from './mcp-output.ts';
import { differenceOf, readTools } from './mcp-tools.ts';
import type { McpTool } from './mcp-tools.ts';

/** What a server needs besides its configuration. */
export type McpPorts = {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  /** How long a server may take to end after its input has, and again after it was asked to, in milliseconds. */
  readonly stopGraceMs?: number;
};

/** What came of a call. `code` as for the gate; `null` when the tool itself says that it did what it was to do. */
export type CallOutcome = ToolOutput & { readonly code: CallResult['code'] };

/** A call to carry out. */
export type McpCall = {
  readonly id: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly stopped: AbortSignal;
  /** The server has told of progress. */
  readonly progressed: () => void;
};

/**
 * One server of tools: started when it is first used, stopped when nobody has used it for a while. One that breaks off starts
 * again when it is next used, not before its backoff is over; after five failures in a row it stays down.
 */
export class McpServer {
  readonly id: string;
  readonly config: McpServerConfig;
  readonly #ports: McpPorts;
  #connection: Promise<Connection> | null = null;
  #closing: Promise<unknown> = Promise.resolve();
  #idle: Timer | null = null;
  #busy = 0;
  #failures = 0;
  #notBefore: Instant = -Infinity;
  #why = '';
  #legacy = false;
  #over = false;
  /** The definitions that were shown first, or were accepted since. */
  readonly #known = new Map<string, McpTool>();

  constructor(id: string, config: McpServerConfig, ports: McpPorts) {
    this.id = id;
    this.config = config;
    this.#ports = ports;
  }

  /** Why it is not used any more; `null` while it is. */
  get down(): string | null {
    return this.#failures < MOST_FAILURES ? null : this.#why;
  }

  /** Its tools as they are now. Rejects with a sentence when it cannot be used at the moment. */
  async tools(): Promise<readonly McpTool[]> {
    return await this.#use(async (connection) => {
      connection.list ??= this.#list(connection).catch((error: unknown) => {
        connection.list = null;
        throw error;
      });
      return await connection.list;
    });
  }

  /** What it says about its own use, when it has been started. */
  async instructions(): Promise<string> {
    const connection = await this.#connection?.catch(() => null);
    return connection?.client.getInstructions() ?? '';
  }

  /** Why people should look at a tool again before it is used; `null`: its definition is the one that was shown first. */
  changeOf(tool: McpTool): string | null {
    const known = this.#known.get(tool.name);
    return known === undefined || known.digest === tool.digest ? null : differenceOf(known, tool);
  }

  /** Somebody has seen what changed. */
  accept(tool: McpTool): void {
    this.#known.set(tool.name, tool);
  }

  /** Carries a call out, once: what came of it is a value, also when nobody knows. */
  async call(tool: McpTool, call: McpCall): Promise<CallOutcome> {
    let sent = false;
    try {
      return await this.#use(async ({ client }) => {
        sent = true;
        const outcome = await this.#send(client, tool, call);
        this.#failures = 0;
        return outcome;
      });
    } catch (error) {
      return failed(error, sent);
    }
  }

  /** It may be started again, whatever came of it before. */
  reset(): void {
    this.#failures = 0;
    this.#notBefore = -Infinity;
  }

  /** Ends it, and with it what it is doing; it is started again when it is used. Resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#idle?.cancel();
    const connection = this.#connection;
    this.#connection = null;
    this.#closing = Promise.all([this.#closing, connection?.then(closed, () => undefined)]);
    await this.#closing;
  }

  /** Ends it for good. */
  async close(): Promise<void> {
    this.#over = true;
    await this.stop();
  }

  async #use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    this.#busy += 1;
    this.#idle?.cancel();
    try {
      return await work(await this.#connected());
    } finally {
      this.#busy -= 1;
      if (this.#busy === 0) this.#idle = this.#ports.timers.after(IDLE_MS, () => void this.stop());
    }
  }

  async #connected(): Promise<Connection> {
    if (this.#over) throw new Error('it is not configured any more');
    if (this.#connection !== null) return await this.#connection;
    if (this.down !== null) throw new Error(`it is not tried again after ${MOST_FAILURES} failures: ${this.#why}`);
    const waitMs = this.#notBefore - this.#ports.clock.now();
    if (waitMs > 0) throw new Error(`it is tried again in ${Math.ceil(waitMs / 1_000)} s: ${this.#why}`);
    const connection = this.#closing.then(() => this.#connect());
    this.#connection = connection;
    try {
      return await connection;
    } catch (error) {
      if (this.#connection === connection) this.#failed(wordsOf(error));
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    const first = await this.#handshake(this.#legacy).catch((error: unknown) => {
      if (this.#legacy || !isEraUnknown(error)) throw error;
      return null;
    });
    if (first !== null) return first;
    this.#legacy = true;
    return await this.#handshake(true);
  }

  async #handshake(isLegacy: boolean): Promise<Connection> {
    const transport = this.#transport();
    const client = new Client(
      { name: 'conch', version: '1' },
      {
        capabilities: {},
        ...(isLegacy ? {} : { versionNegotiation: { mode: 'auto', probe: { timeoutMs: PROBE_MS } } }),
        listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void (connection.list = null) } },
      },
    );
    const connection: Connection = { client, transport, list: null };
    const onerror = ({ message }: Error): void =>
      this.#ports.log.debug({ server: this.id, message }, 'a server of tools');
    const onclose = (): void => void this.#lost(connection);
    Object.assign(client, { onerror });
    try {
      await this.#within(START_MS, 'did not start', () => client.connect(transport, { timeout: NEVER_MS }));
    } catch (error) {
      await closed(connection);
      throw isEraUnknown(error) ? error : (endOf(transport) ?? error);
    }
    Object.assign(client, { onclose });
    return connection;
  }

  #transport(): Transport {
    const { command, args, cwd = '.', env, url, headers } = this.config;
    if (url !== undefined) return httpTransport(url, headers);
    if (command === undefined) throw new Error(`impossible: the server ${this.id} was checked to be something`);
    const { timers, stopGraceMs = STOP_MS } = this.#ports;
    return new StdioTransport({ command, args, cwd, env, stopGraceMs, timers });
  }

  async #lost(connection: Connection): Promise<void> {
    const current = await this.#connection?.catch(() => null);
    if (current === connection) this.#failed(endOf(connection.transport)?.message ?? 'it broke off');
  }

  #failed(why: string): void {
    this.#connection = null;
    this.#failures += 1;
    this.#why = why;
    this.#notBefore = this.#ports.clock.now() + backoffMs(BACKOFF, this.#failures);
    const about = { server: this.id, cause: why, failures: this.#failures };
    this.#ports.log.warn(about, this.down === null ? 'a server of tools failed' : 'a server of tools is given up');
  }

  async #list({ client }: Connection): Promise<readonly McpTool[]> {
    if (client.getServerCapabilities()?.tools === undefined) return [];
    const refresh = { timeout: NEVER_MS, cacheMode: 'refresh' } as const;
    const listed = await this.#within(LIST_MS, 'did not list its tools', () => client.listTools(undefined, refresh));
    const { tools, refused } = readTools(this.id, listed.tools, this.config.tools);
    for (const why of refused) this.#ports.log.warn({ server: this.id, why }, 'a tool is not used');
    for (const tool of tools) {
      if (!this.#known.has(tool.name)) this.#known.set(tool.name, tool);
      const change = this.changeOf(tool);
      if (change !== null) this.#ports.log.warn({ server: this.id, tool: tool.name, change }, 'a tool was changed');
    }
    return tools;
  }

  async #send(client: Client, tool: McpTool, { id, input, stopped, progressed }: McpCall): Promise<CallOutcome> {
    const { clock, timers } = this.#ports;
    const limitMs = this.config.timeoutSeconds * 1_000;
    const endAt = clock.now() + LONGEST_CALL_MS;
    const late = new AbortController();
    const wait = (): Timer => timers.after(Math.min(limitMs, endAt - clock.now()), () => late.abort());
    let timer = wait();
    const onprogress = (): void => {
      timer.cancel();
      timer = wait();
      progressed();
    };
    const signal = AbortSignal.any([stopped, late.signal]);
    const params = { name: tool.name, arguments: input, _meta: { 'conch/call': id } };
    try {
      const result = await client.callTool(params, { signal, timeout: NEVER_MS, onprogress });
      const output = outputOf(result);
      return { ...output, code: output.isError ? 'TOOL_FAILED' : null };
    } catch (error) {
      if (!late.signal.aborted) throw error;
      return { text: `It did not answer in time. ${UNKNOWN}`, images: [], isError: true, code: 'TIMEOUT' };
    } finally {
      timer.cancel();
    }
  }

  async #within<T>(ms: number, what: string, work: () => Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = this.#ports.timers.after(ms, () => late.reject(new Error(`it ${what} within ${ms / 1_000} s`)));
    try {
      return await Promise.race([work(), late.promise]);
    } finally {
      timer.cancel();
    }
  }
}

type Connection = {
  readonly client: Client;
  readonly transport: Transport;
  /** As it was last asked for; `null`: it has changed since. */
  list: Promise<readonly McpTool[]> | null;
};

async function closed({ client, transport }: Connection): Promise<void> {
  Object.assign(client, { onclose: undefined });
  await Promise.allSettled([client.close(), transport.close()]);
}

/** Some servers end when they are asked which protocol they speak. */
function isEraUnknown(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed;
}

function endOf(transport: Transport): Error | null {
  return transport instanceof StdioTransport && transport.ended !== null ? new Error(transport.ended) : null;
}

/** A call that has come to no result. What a server answered is known; of what broke off after it was sent nothing is. */
function failed(error: unknown, sent: boolean): CallOutcome {
  const words = wordsOf(error);
  const isAnswer = error instanceof ProtocolError;
  const text = !sent ? `It was not run: ${words}.` : isAnswer ? words : `${words}. ${UNKNOWN}`;
  return { text, images: [], isError: true, code: sent && !isAnswer ? 'UNKNOWN' : 'TOOL_FAILED' };
}

function wordsOf(error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(String(error));
  return message.replaceAll(/\s+/g, ' ').slice(0, LONGEST_WORDS);
}

const UNKNOWN = 'Nobody knows what it has done: look before you try it again.';
const LONGEST_WORDS = 500;

/** Durations in milliseconds. */
const START_MS = 20_000;
const PROBE_MS = 5_000;
const LIST_MS = 10_000;
const LONGEST_CALL_MS = 600_000;
const IDLE_MS = 600_000;
const STOP_MS = 2_000;
const BACKOFF = { firstMs: 1_000, longestMs: 60_000 };
const MOST_FAILURES = 5;
/** The library's own timers are not used: these here are told the time. */
const NEVER_MS = 2_147_483_647;
