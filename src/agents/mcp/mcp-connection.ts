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

/** What a server needs besides its configuration. */
export type McpPorts = {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  /** How long a server may take to end after its input has, and again after it was asked to, in milliseconds. */
  readonly stopGraceMs?: number;
  /** Keeps what servers said of their tools over restarts; without it they are known while this program runs. */
  readonly memory?: { recall(name: string): string | null; remember(name: string, text: string): void };
  /** Under which name that is kept; its id unless told. */
  readonly name?: string;
  /** Told why it is given up, and (`null`) each time that it has said what tools it has. */
  readonly turned?: (why: string | null) => void;
  /** Who is signed in at servers; without it nobody is. */
  readonly logins?: ServerLogins;
  /** The sandbox in which an agent runs, and so do the servers that are programs; `undefined`: none. */
  readonly sandboxOf?: (agent: AgentId) => AgentSandbox | undefined;
  /** The sandbox of the agent that uses it; none unless given. */
  readonly sandbox?: AgentSandbox | undefined;
};

/** The sandbox of an agent, with the folder that it works in. */
export type AgentSandbox = { readonly plan: SandboxPlan; readonly cwd: string };

/** What came of a call. `code` as for the gate; `null` when the tool itself says that it did what it was to do. */
export type CallOutcome = ToolOutput & { readonly code: CallResult['code'] };

/** A call to carry out. */
export type McpCall = {
  readonly id: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly stopped: AbortSignal;
  /** The server has told of progress. */
  readonly progressed: () => void;
  /** The server asks people something before it goes on; without it, it is told that nobody answers. */
  readonly ask?: (asked: ElicitRequestParams, withdrawn: AbortSignal) => Promise<ElicitResult>;
};

/** What to connect to, and who is told of what happens then. */
type ConnectParts = {
  readonly id: string;
  readonly config: McpServerConfig;
  readonly ports: McpPorts;
  /** Its list of tools is another one. */
  readonly changed: () => void;
  /** It broke off, or lets nobody in any more, and why. */
  readonly lost: (why: Error) => void;
};

/** A server of tools that has answered. */
export type McpConnection = {
  readonly instructions: string;
  /** Asks for its tools; rejects with a sentence. */
  list(): Promise<ReadTools>;
  /** Sends a call, once. What came of it is a value, also when nobody knows. */
  call(tool: ServerTool, call: McpCall): Promise<CallOutcome>;
  /** Resolves when nothing of it is left. */
  close(): Promise<void>;
};

/**
 * Starts a server, or reaches it, in the newest protocol that both know. Rejects with a sentence that says why it cannot be
 * used; nothing of it is left then.
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
    await within(START_MS, 'did not start', ports, () => client.connect(transport, { timeout: NEVER_MS }));
  } catch (error) {
    await close();
    throw isEraUnknown(error) ? error : (endOf(transport) ?? loginOf(error, parts) ?? withReason(error));
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

/** A server in a sandbox reads what its arguments name, also in a home that is hidden. */
function showing({ plan }: AgentSandbox, args: readonly string[]): SandboxPlan {
  return { ...plan, readable: [...plan.readable, ...args.filter((arg) => isAbsolute(arg))] };
}

async function list(client: Client, { id, config, ports }: ConnectParts): Promise<ReadTools> {
  if (client.getServerCapabilities()?.tools === undefined) return { tools: [], refused: [] };
  const refresh = { timeout: NEVER_MS, cacheMode: 'refresh' } as const;
  const { tools } = await within(LIST_MS, 'did not list its tools', ports, () => client.listTools(undefined, refresh));
  return readTools(id, tools, config.tools);
}

/** How each call under way asks people something. */
type OpenCalls = Set<NonNullable<McpCall['ask']>>;

/** A server does not say in which call it asks: of several nobody knows whose people it means. */
async function answer(open: OpenCalls, asked: ElicitRequestParams, withdrawn: AbortSignal): Promise<ElicitResult> {
  const [ask, ...others] = open;
  return ask === undefined || others.length > 0 ? { action: 'cancel' } : await ask(asked, withdrawn);
}

/** The configuration says of all forms of a server what the server may say of one. */
function shownToAll<Asked extends { readonly requestedSchema: object }>(asked: Asked): Asked {
  return { ...asked, requestedSchema: { ...asked.requestedSchema, [PUBLIC]: true } };
}

type Sent = ConnectParts & {
  readonly tool: ServerTool;
  readonly call: McpCall;
  readonly open: OpenCalls;
};

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
  open.add(ask);
  try {
    const output = outputOf(await client.callTool(params, { signal, timeout: NEVER_MS, onprogress }));
    return { ...output, code: output.isError ? 'TOOL_FAILED' : null };
  } catch (error) {
    return time.over.aborted ? failure(`It did not answer in time. ${UNKNOWN}`, 'TIMEOUT') : broken(error, sent);
  } finally {
    open.delete(ask);
    time.end();
  }
}

/** How long a call may take without a sign of progress, and in all. */
class CallTime {
  readonly #limitMs: number;
  readonly #ports: McpPorts;
  readonly #over = new AbortController();
  #endAt: Instant;
  #timer: Timer | null = null;
  /** Questions that people have not answered. */
  #asking = 0;

  constructor(limitMs: number, ports: McpPorts) {
    this.#limitMs = limitMs;
    this.#ports = ports;
    this.#endAt = ports.clock.now() + LONGEST_CALL_MS;
    this.renew();
  }

  /** Aborted when it is up, or was ended. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  renew(): void {
    this.#timer?.cancel();
    if (this.#asking > 0 || this.over.aborted) return;
    const leftMs = Math.min(this.#limitMs, this.#endAt - this.#ports.clock.now());
    this.#timer = this.#ports.timers.after(leftMs, () => this.#over.abort());
  }

  /** It stands still while people are asked. */
  async still<T>(asking: () => Promise<T>): Promise<T> {
    const from = this.#ports.clock.now();
    this.#asking += 1;
    this.renew();
    try {
      return await asking();
    } finally {
      this.#asking -= 1;
      this.#endAt += this.#ports.clock.now() - from;
      this.renew();
    }
  }

  end(): void {
    this.#over.abort();
    this.renew();
  }
}

/** What a server answered is known; of what broke off nothing is. */
function broken(error: unknown, sent: Sent): CallOutcome {
  const login = loginOf(error, sent);
  if (login instanceof LoginNeededError && !login.isWider) sent.lost(login);
  if (login !== null) return failure(`It was not run: ${login.message}.`, 'TOOL_FAILED');
  const words = reasonOf(error).replaceAll(/\s+/g, ' ').slice(0, LONGEST_WORDS);
  return error instanceof ProtocolError ? failure(words, 'TOOL_FAILED') : failure(`${words}. ${UNKNOWN}`, 'UNKNOWN');
}

/** What of a login kept a request from being carried out; `null`: nothing of one. */
function loginOf(error: unknown, { id, config, ports: { logins } }: ConnectParts): LoginError | null {
  if (error instanceof LoginError) return error;
  if (logins === undefined || logins.presented(id, config) === null) return null;
  if (error instanceof InsufficientScopeError) return logins.widen(id, config, error);
  const isRefused = error instanceof SdkHttpError && error.status === UNAUTHORIZED;
  return isRefused ? new LoginError('it does not take the login that it has just been given') : null;
}

function withReason(error: unknown): Error {
  return new Error(reasonOf(error), { cause: error });
}

/** What a server answered beside its protocol is not repeated: it may be a whole page. */
function reasonOf(error: unknown): string {
  if (error instanceof SdkHttpError) return `it answered with ${error.status}`;
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  return message === 'fetch failed' && cause instanceof Error ? `it cannot be reached: ${cause.message}` : message;
}

function failure(text: string, code: CallOutcome['code']): CallOutcome {
  return { text, images: [], isError: true, code };
}

async function within<T>(ms: number, what: string, { timers }: McpPorts, work: () => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = timers.after(ms, () => late.reject(new Error(`it ${what} within ${ms / 1_000} s`)));
  try {
    return await Promise.race([work(), late.promise]);
  } finally {
    timer.cancel();
  }
}

function endOf(transport: Transport): Error | null {
  return transport instanceof StdioTransport && transport.ended !== null ? new Error(transport.ended) : null;
}

/** Some servers end when they are asked which protocol they speak. */
function isEraUnknown(error: unknown): boolean {
  return error instanceof SdkError && error.code === SdkErrorCode.EraNegotiationFailed;
}

const UNAUTHORIZED = 401;
const UNKNOWN = 'Nobody knows what it has done: look before you try it again.';
const LONGEST_WORDS = 500;

/** Durations in milliseconds. */
const START_MS = 20_000;
const PROBE_MS = 5_000;
const LIST_MS = 10_000;
const LONGEST_CALL_MS = 600_000;
const STOP_MS = 2_000;
/** How often a server may ask in one call by answering with what it wants to know. */
const MOST_ROUNDS = 3;
/** The library's own timers are not used: these here are told the time. */
const NEVER_MS = 2_147_483_647;

/** Tools that a server listed and that are none, each with why. Forgotten when they are taken. */
type BadTools = { take(): readonly string[] };

/**
 * Keeps from the client what it does not read, and what it would refuse as a whole. Log messages and news about resources, prompts
 * and tasks are dropped: thousands of them at once would fill the memory. Of a list of tools only entries that are tools are left.
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

/** How many bad entries of a list are told, and how much of the name of one. */
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

/** The entry if it is a tool in every protocol; without what it says of its output, where that is one in newer ones alone. */
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
