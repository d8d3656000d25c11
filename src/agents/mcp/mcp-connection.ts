import {
  Client,
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  isSpecType,
} from '@modelcontextprotocol/client';
import type { ElicitRequestParams, ElicitResult, Transport, JSONRPCMessage } from '@modelcontextprotocol/client';
import type { McpServerConfig } from '../../config/config.ts';
import { LONGEST_TIMER_MS } from '../../lib/time.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import { isAbsolute } from 'node:path';
import type { AgentId } from '../../turns/floor/settings.ts';
import type { SandboxPlan } from '../process/sandbox.ts';
import { PUBLIC } from '../../turns/text/form.ts';
import type { AgentLog } from '../session/floor-port.ts';
import type { CallResult } from '../tools/tool-gate.ts';
import { StdioTransport, httpTransport } from './mcp-transport.ts';
import { outputOf } from './mcp-output.ts';
import type { ToolOutput } from './mcp-output.ts';
import { readTools } from './mcp-tools.ts';
import type { ServerTool, ReadTools } from './mcp-tools.ts';
import { LoginError } from './login-store.ts';
import { LoginNeededError } from './server-logins.ts';
import type { ServerLogins } from './server-logins.ts';
import { z } from 'zod';
import { defined } from '../../lib/defined.ts';
import { LATE, withinMs } from '../../lib/retry.ts';

/** Dependencies of an MCP server, besides its configuration. */
export type McpPorts = {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  /** Grace after the end of a server's input, and again after SIGTERM, in milliseconds. */
  readonly stopGraceMs?: number;
  /** Stores the definitions of tools over restarts. Absent: nothing is stored. */
  readonly memory?: { recall(name: string): string | null; remember(name: string, text: string): void };
  /** The name under which the tools' definitions are stored. Default: the server's id. */
  readonly name?: string;
  /** Called with the reason when the server is given up, and with `null` each time the server has listed its tools. */
  readonly turned?: (why: string | null) => void;
  /** The logins at servers. Absent: no logins. */
  readonly logins?: ServerLogins;
  /** The sandbox of an agent and of its servers that are programs; `undefined` for none. */
  readonly sandboxOf?: (agent: AgentId) => AgentSandbox | undefined;
  /** The sandbox of the agent that uses the server. Default: none. */
  readonly sandbox?: AgentSandbox | undefined;
};

/** An agent's sandbox and working folder. */
export type AgentSandbox = { readonly plan: SandboxPlan; readonly cwd: string };

/** The outcome of a tool call. `code`: why the call failed; `null` when the tool reports success. */
export type CallOutcome = ToolOutput & { readonly code: CallResult['code'] };

/** A tool call to send to an MCP server. */
export type McpCall = {
  readonly id: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly stopped: AbortSignal;
  /** Called when the server reports progress. */
  readonly progressed: () => void;
  /** Asks people a question of the server. Absent: the server is told that the question was cancelled. */
  readonly ask?: (asked: ElicitRequestParams, withdrawn: AbortSignal) => Promise<ElicitResult>;
};

type ConnectParts = {
  readonly id: string;
  readonly config: McpServerConfig;
  readonly ports: McpPorts;
  readonly changed: () => void;
  /** Called with the reason when the connection is lost, or when the server needs a new login. */
  readonly lost: (why: Error) => void;
};

/** An open connection to an MCP server. */
export type McpConnection = {
  readonly instructions: string;
  /** Lists the server's tools. Rejects with an error for people. */
  list(): Promise<ReadTools>;
  /** Sends a tool call to the server, once. Resolves also when the outcome is unknown. */
  call(tool: ServerTool, call: McpCall): Promise<CallOutcome>;
  /** Closes the connection and ends a started program. Resolves when both have ended. */
  close(): Promise<void>;
};

/**
 * Starts or reaches a server, in the newest protocol that both sides know. Rejects with an error for people, after
 * every started program has ended.
 */
export async function connectServer(parts: ConnectParts): Promise<McpConnection> {
  try {
    return await handshake(parts, false);
  } catch (error) {
    if (!isEraUnknown(error)) throw error;
    return await handshake(parts, true);
  }
}

async function handshake(parts: ConnectParts, isLegacy: boolean): Promise<McpConnection> {
  const { id, config, ports, changed, lost } = parts;
  const transport = transportOf(parts);
  const bad = sieved(transport);
  const open: OpenCalls = new Set();
  const client = new Client(
    { name: 'conch', version: '1' },
    {
      capabilities: config.elicitation ? { elicitation: { form: {}, url: {} } } : {},
      inputRequired: { maxRounds: MOST_ROUNDS },
      ...(isLegacy ? {} : { versionNegotiation: { mode: 'auto', probe: { timeoutMs: PROBE_MS } } }),
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: changed } },
    },
  );
  const onerror = ({ message }: Error): void => ports.log.debug({ server: id, message }, 'a server of tools');
  Object.assign(client, { onerror });
  if (config.elicitation) {
    client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) => answer(open, params, mcpReq.signal));
  }
  const close = async (): Promise<void> => {
    Object.assign(client, { onclose: undefined });
    await Promise.allSettled([client.close(), transport.close()]);
  };
  try {
    await inTime(START_MS, 'did not start', ports, client.connect(transport, { timeout: LONGEST_TIMER_MS }));
  } catch (error) {
    await close();
    throw isEraUnknown(error)
      ? error
      : (endOf(transport) ?? loginOf(error, parts) ?? new Error(reasonOf(error), { cause: error }));
  }
  Object.assign(client, { onclose: () => lost(endOf(transport) ?? new Error('it broke off')) });
  return {
    instructions: client.getInstructions() ?? '',
    list: async () => {
      bad.take();
      const { tools, refused } = await list(client, parts);
      return { tools, refused: [...refused, ...bad.take()] };
    },
    call: (tool, call) => send(client, { tool, call, open, ...parts }),
    close,
  };
}

function transportOf({ id, config, ports }: ConnectParts): Transport {
  const { command, args, cwd = ports.sandbox?.cwd ?? '.', env, url, headers } = config;
  if (url !== undefined) return httpTransport(url, headers, ports.logins?.presented(id, config) ?? null);
  if (command === undefined) throw new Error(`impossible: the server ${id} was checked to be something`);
  const { timers, stopGraceMs = STOP_MS, sandbox } = ports;
  return new StdioTransport({
    command,
    args,
    cwd,
    env,
    stopGraceMs,
    timers,
    sandbox: sandbox && showing(sandbox, args),
  });
}

function showing({ plan }: AgentSandbox, args: readonly string[]): SandboxPlan {
  return { ...plan, readable: [...plan.readable, ...args.filter((arg) => isAbsolute(arg))] };
}

async function list(client: Client, { id, config, ports }: ConnectParts): Promise<ReadTools> {
  if (client.getServerCapabilities()?.tools === undefined) return { tools: [], refused: [] };
  const refresh = { timeout: LONGEST_TIMER_MS, cacheMode: 'refresh' } as const;
  const { tools } = await inTime(LIST_MS, 'did not list its tools', ports, client.listTools(undefined, refresh));
  return readTools(id, tools, config.tools);
}

/** For each call under way, the function that asks people a question of the server. */
type OpenCalls = Set<NonNullable<McpCall['ask']>>;

/**
 * Answers a server's question. A question does not name its call, so the question is cancelled unless exactly one call
 * is under way.
 */
async function answer(open: OpenCalls, asked: ElicitRequestParams, withdrawn: AbortSignal): Promise<ElicitResult> {
  const [ask, ...others] = open;
  return ask === undefined || others.length > 0 ? { action: 'cancel' } : await ask(asked, withdrawn);
}

function shownToAll<Asked extends { readonly requestedSchema: object }>(asked: Asked): Asked {
  return { ...asked, requestedSchema: { ...asked.requestedSchema, [PUBLIC]: true } };
}

type Sent = ConnectParts & { readonly tool: ServerTool; readonly call: McpCall; readonly open: OpenCalls };

async function send(client: Client, sent: Sent): Promise<CallOutcome> {
  const { tool, call, open, config, ports } = sent;
  const { id, input, stopped, progressed } = call;
  const time = new CallTime(config.timeoutSeconds * 1_000, ports);
  const signal = AbortSignal.any([stopped, time.over]);
  const ask: NonNullable<McpCall['ask']> = async (asked, withdrawn) => {
    const unanswered = { action: 'cancel' } as const;
    const told = config.showAnswers && asked.mode !== 'url' ? shownToAll(asked) : asked;
    return await time.still(async () => call.ask?.(told, AbortSignal.any([signal, withdrawn])) ?? unanswered);
  };
  const onprogress = (): void => {
    time.renew();
    progressed();
  };
  const params = { name: tool.name, arguments: input, _meta: { 'conch/call': id } };
  // Leaves out the output schema: the client would report a result that breaks the schema as a failed call, although
  // the tool has run.
  const toolDefinition = { name: tool.name, inputSchema: { ...tool.schema, type: 'object' as const } };
  open.add(ask);
  try {
    const options = { signal, timeout: LONGEST_TIMER_MS, onprogress, toolDefinition };
    const output = outputOf(await client.callTool(params, options));
    return { ...output, code: output.isError ? 'TOOL_FAILED' : null };
  } catch (error) {
    return time.over.aborted
      ? failure(`The server did not answer in time. ${UNKNOWN}`, 'TIMEOUT')
      : broken(error, sent);
  } finally {
    open.delete(ask);
    time.end();
  }
}

/**
 * The two timeouts of a tool call: without progress, and in total. The time of open questions to people does not count.
 */
export class CallTime {
  readonly #limitMs: number;
  readonly #ports: McpPorts;
  readonly #over = new AbortController();
  #endAt: Instant;
  #timer: Timer | null = null;
  #openQuestions = 0;
  #stillSince: Instant = 0;

  constructor(limitMs: number, ports: McpPorts) {
    this.#limitMs = limitMs;
    this.#ports = ports;
    this.#endAt = ports.clock.now() + LONGEST_CALL_MS;
    this.renew();
  }

  /** Aborted when one of the timeouts passes, and when `end` is called. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  renew(): void {
    this.#timer?.cancel();
    if (this.#openQuestions > 0 || this.over.aborted) return;
    const leftMs = Math.min(this.#limitMs, this.#endAt - this.#ports.clock.now());
    this.#timer = this.#ports.timers.after(leftMs, () => this.#over.abort());
  }

  /** Runs `asking`, which asks people, and suspends both timeouts until it ends. */
  async still<T>(asking: () => Promise<T>): Promise<T> {
    if (this.#openQuestions === 0) this.#stillSince = this.#ports.clock.now();
    this.#openQuestions += 1;
    this.renew();
    try {
      return await asking();
    } finally {
      this.#openQuestions -= 1;
      if (this.#openQuestions === 0) this.#endAt += this.#ports.clock.now() - this.#stillSince;
      this.renew();
    }
  }

  end(): void {
    this.#over.abort();
    this.renew();
  }
}

function broken(error: unknown, sent: Sent): CallOutcome {
  const login = loginOf(error, sent);
  if (login instanceof LoginNeededError && !login.isWider) sent.lost(login);
  if (login !== null) return failure(`The call was not run: ${login.message}.`, 'TOOL_FAILED');
  const words = reasonOf(error).replaceAll(/\s+/g, ' ').slice(0, LONGEST_WORDS);
  return error instanceof ProtocolError ? failure(words, 'TOOL_FAILED') : failure(`${words}. ${UNKNOWN}`, 'UNKNOWN');
}

function loginOf(error: unknown, { id, config, ports: { logins } }: ConnectParts): LoginError | null {
  if (error instanceof LoginError) return error;
  if (logins === undefined || logins.presented(id, config) === null) return null;
  if (error instanceof InsufficientScopeError) return logins.widen(id, config, error);
  const isRefused = error instanceof SdkHttpError && error.status === UNAUTHORIZED;
  return isRefused ? new LoginError(`it refused the new login (${UNAUTHORIZED})`) : null;
}

/** Returns an error's reason in words for people. Leaves out the body of an HTTP answer: it can be a whole page. */
function reasonOf(error: unknown): string {
  if (error instanceof SdkHttpError) return `it answered with ${error.status}`;
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  return message === 'fetch failed' && cause instanceof Error ? `it cannot be reached: ${cause.message}` : message;
}

function failure(text: string, code: CallOutcome['code']): CallOutcome {
  return { text, images: [], isError: true, code };
}

async function inTime<T>(ms: number, what: string, { timers }: McpPorts, work: Promise<T>): Promise<T> {
  const result = await withinMs(ms, work, timers);
  if (result === LATE) throw new Error(`it ${what} within ${ms / 1_000} s`);
  return result;
}

function endOf(transport: Transport): Error | null {
  return transport instanceof StdioTransport && transport.ended !== null ? new Error(transport.ended) : null;
}

/** True for the error that no protocol could be negotiated. Some servers end at the request to negotiate. */
function isEraUnknown(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed;
}

const UNAUTHORIZED = 401;
const UNKNOWN = 'Nobody knows what the call has done: check before you repeat it.';
const LONGEST_WORDS = 500;

/** Timeouts in milliseconds: of a start, a probe, a list of tools, and a whole call; then the default `stopGraceMs`. */
const START_MS = 20_000;
const PROBE_MS = 5_000;
const LIST_MS = 10_000;
const LONGEST_CALL_MS = 600_000;
const STOP_MS = 2_000;
/** Most times in one tool call that a server may answer with questions in place of a result. */
const MOST_ROUNDS = 3;
/** The invalid entries of a server's list of tools, each with the reason. `take` returns and clears them. */
type BadTools = { take(): readonly string[] };

/**
 * Filters a server's messages for the client. Drops log messages and notifications about resources, prompts and tasks,
 * which could fill the memory. Removes invalid entries from a list of tools, because the client would refuse the whole
 * list.
 */
export function sieved(transport: Transport): BadTools {
  const bad: string[] = [];
  let listener = transport.onmessage;
  Object.defineProperty(transport, 'onmessage', {
    get: () => listener,
    set: (next: typeof listener) => {
      listener = (message, extra) => {
        if ('method' in message && UNREAD.test(message.method)) return;
        next?.(withoutBadTools(message, bad), extra);
      };
    },
  });
  return { take: () => bad.splice(0) };
}

const UNREAD = /^notifications\/(?:message$|resources\/|prompts\/|tasks)/;

/** Most invalid entries of a server's list of tools that are reported for each page. `LONGEST_NAME`: in characters. */
const MOST_TOLD = 20;
const LONGEST_NAME = 100;

function withoutBadTools(message: JSONRPCMessage, bad: string[]): JSONRPCMessage {
  if (!('result' in message) || !Array.isArray(message.result['tools'])) return message;
  const listed: readonly unknown[] = message.result['tools'];
  const told = bad.length;
  const tools = listed.flatMap((entry): readonly unknown[] => {
    const tool = toolIn(entry);
    if (tool === null && bad.length - told < MOST_TOLD)
      bad.push(`${nameOf(entry)}: its definition is not that of a tool`);
    return tool === null ? [] : [tool];
  });
  return { ...message, result: { ...message.result, tools } };
}

function toolIn(entry: unknown): object | null {
  const read = z
    .looseObject({ inputSchema: ofObject, outputSchema: ofObject.optional().catch(undefined) })
    .safeParse(entry);
  if (!read.success) return null;
  const { outputSchema, ...tool } = read.data;
  const whole = { ...tool, ...defined({ outputSchema }) };
  return isSpecType.Tool(whole) ? whole : null;
}

const ofObject = z.looseObject({
  type: z.literal('object'),
  properties: z.record(z.string(), z.unknown()).optional(),
  required: z.array(z.string()).optional(),
});

function nameOf(tool: unknown): string {
  const name = typeof tool === 'object' && tool !== null && 'name' in tool ? tool.name : null;
  return typeof name === 'string' ? JSON.stringify(name.slice(0, LONGEST_NAME)) : 'a tool without a name';
}
