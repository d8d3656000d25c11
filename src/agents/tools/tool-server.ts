import { hash, randomBytes } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import type { CallToolResult, RequestId } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { closeServer, createQuietServer, guardServer, listenOn, readBody, reply } from '../../lib/guarded-server.ts';
import type { FaultLog } from '../../lib/guarded-server.ts';
import { defined, jsonOrNull } from '../../lib/defined.ts';
import { FLOOR_TOOLS, isFloorTool } from './floor-tools.ts';
import type { FloorTools } from './floor-tools.ts';

/** Carries out a call of a tool that Conch runs. Resolves with the answer for the agent. */
export type ToolCalls = (
  name: string,
  input: Readonly<Record<string, unknown>>,
  withdrawn: AbortSignal,
) => Promise<string>;

/** A tool that Conch runs besides the floor tools, as the agent sees it. */
export type OfferedTool = {
  readonly alias: string;
  readonly description: string;
  readonly schema: Readonly<Record<string, unknown>>;
};

/** An MCP server on 127.0.0.1 with the floor tools and the other tools that Conch runs, for all sessions. */
export type ToolServer = {
  /**
   * Admits one more session. `name`: the server's name in the earlier session that the new session continues. The first
   * session starts the server. Rejects when no port is free.
   */
  open(name?: string): Promise<ToolEndpoint>;
  /** Ends the server and revokes every token. */
  close(): Promise<void>;
};

type ToolServerRules = {
  /** Origins of browser pages whose requests are answered, such as "https://example.org". Other pages are refused. */
  readonly origins: readonly string[];
  /** The longest body of a request, in bytes. */
  readonly longestCall: number;
};

/** Makes the tool server. The server listens from its first session on. Faults go to `log`. */
export function createToolServer(log: FaultLog = { error() {} }): ToolServer {
  const endpoints = new ToolEndpoints(LOCAL_RULES);
  let listening: Promise<{ readonly server: Server; readonly url: string }> | null = null;
  return {
    async open(name) {
      listening ??= listen(endpoints, log).catch((error: unknown) => {
        listening = null;
        throw error;
      });
      const { url } = await listening;
      return endpoints.open({ url, name });
    },
    async close() {
      endpoints.closeAll();
      const started = await listening?.catch(() => null);
      listening = null;
      if (started) await closeServer(started.server);
    },
  };
}

/** The URL path at which a server of Conch serves the tools. */
export const TOOL_PATH = '/mcp';

type EndpointAddress = {
  readonly url: string;
  /** The server's name in the earlier session that the new session continues. Default: a random name. */
  readonly name?: string | undefined;
  /**
   * Called for each POST to `TOOL_PATH` with a valid token; `false` refuses the request with 429. Default: always
   * `true`.
   */
  readonly mayCall?: () => boolean;
};

/** The request of a tool call. `signal`: aborted when the request's connection is closed. */
type CallRequest = { readonly id: RequestId; readonly signal: AbortSignal };

/** One session's access to the floor tools and the other tools that Conch runs. */
export class ToolEndpoint {
  /** The server's name in this session. Random for a new session, so that no earlier text can name its tools. */
  readonly name: string;
  readonly url: string;
  /** The secret that the agent sends as `Authorization: Bearer`. */
  readonly token = randomBytes(TOKEN_BYTES).toString('base64url');
  readonly mayCall: () => boolean;
  readonly #byToken: Map<string, ToolEndpoint>;
  #isOpen = true;
  #floorTools: FloorTools | null = null;
  #calls: ToolCalls | null = null;
  #tools: () => Promise<readonly OfferedTool[]> = async () => [];
  readonly #offered = new Set<string>();
  /** Calls under way of other tools than floor tools, by the id that the agent gave to their request. */
  readonly #calling = new Map<RequestId, AbortController>();

  constructor(address: EndpointAddress, byToken: Map<string, ToolEndpoint>) {
    this.url = address.url;
    this.name = address.name ?? `conch-${randomBytes(NAME_BYTES).toString('hex')}`;
    this.mayCall = address.mayCall ?? (() => true);
    this.#byToken = byToken;
    this.admit(this.token);
  }

  /**
   * Sets the floor tools of the present turn, and the function that runs other tools. `null`: the agent does not hold
   * the floor, and calls do nothing.
   */
  serve(floorTools: FloorTools | null, calls: ToolCalls | null = null): void {
    this.#floorTools = floorTools;
    this.#calls = floorTools === null ? null : calls;
  }

  /** Sets the tools besides the floor tools. `tools` is called for each list, and before each call of such a tool. */
  offer(tools: () => Promise<readonly OfferedTool[]>): void {
    this.#tools = tools;
  }

  /** True when the tools besides the floor tools ever had a tool of this name. */
  readonly offers = (name: string): boolean => this.#offered.has(name);

  /** Accepts another token for this session, such as an earlier one that a returning agent still has. */
  admit(token: string): void {
    if (this.#isOpen) this.#byToken.set(hash('sha256', token), this);
  }

  /** Revokes all tokens of the session. */
  close(): void {
    this.#isOpen = false;
    for (const [digest, each] of this.#byToken) if (each === this) this.#byToken.delete(digest);
  }

  /** Makes an MCP server that answers one request. */
  server(): McpServer {
    const server = new McpServer({ name: this.name, version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', async () => ({
      tools: [...FLOOR_LIST, ...(await this.#list()).map(listed)],
    }));
    server.setRequestHandler('tools/call', async ({ params: { name, arguments: input = {} } }, { mcpReq }) => {
      if (isFloorTool(name)) return result(await this.#floorTools?.apply(name, input));
      return await this.#call(mcpReq, async (withdrawn) => {
        const isOffered = (await this.#list()).some(({ alias }) => alias === name);
        if (!isOffered) return { ...result(`Tool ${name} not found`), isError: true };
        return result(await this.#calls?.(name, input, withdrawn));
      });
    });
    // A cancellation comes in a separate request. The server object of that request does not know the call.
    server.setNotificationHandler('notifications/cancelled', ({ params: { requestId } }) => {
      if (requestId !== undefined) this.#calling.get(requestId)?.abort();
    });
    return server;
  }

  async #call<T>({ id, signal }: CallRequest, run: (withdrawn: AbortSignal) => Promise<T>): Promise<T> {
    const cancelled = new AbortController();
    this.#calling.set(id, cancelled);
    try {
      return await run(AbortSignal.any([signal, cancelled.signal]));
    } finally {
      if (this.#calling.get(id) === cancelled) this.#calling.delete(id);
    }
  }

  async #list(): Promise<readonly OfferedTool[]> {
    const tools = await this.#tools();
    for (const { alias } of tools) this.#offered.add(alias);
    return tools;
  }
}

/** The sessions with access to the floor tools and the other tools that Conch runs. Answers requests on any server. */
export class ToolEndpoints {
  readonly #rules: ToolServerRules;
  readonly #byToken = new Map<string, ToolEndpoint>();

  constructor(rules: ToolServerRules) {
    this.#rules = rules;
  }

  /** Admits one more session. */
  open(address: EndpointAddress): ToolEndpoint {
    return new ToolEndpoint(address, this.#byToken);
  }

  /** Revokes every token. */
  closeAll(): void {
    this.#byToken.clear();
  }

  /** Answers one request. Rejects when that fails. Keeps no MCP session between requests: a reconnect loses nothing. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { origin, authorization = '' } = request.headers;
    const [, token = ''] = /^Bearer (\S{1,200})$/.exec(authorization) ?? [];
    const endpoint = this.#byToken.get(hash('sha256', token));
    if (origin !== undefined && !this.#rules.origins.includes(origin)) return refuse(response, 403);
    if (endpoint === undefined) return refuse(response, 401);
    if (request.url !== TOOL_PATH) return refuse(response, 404);
    if (request.method !== 'POST') return refuse(response, 405);
    if (!endpoint.mayCall()) return refuse(response, 429);
    const text = await readBody(request, this.#rules.longestCall);
    if (text === null) return refuse(response, 413);
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    const server = endpoint.server();
    response.once('close', () => void server.close().catch(() => undefined));
    await server.connect(transport);
    const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const postRequest = new Request(endpoint.url, { method: 'POST', headers });
    const answer = await transport.handleRequest(postRequest, { parsedBody: jsonOrNull(text) });
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  }
}

async function listen(
  endpoints: ToolEndpoints,
  log: FaultLog,
): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createQuietServer({ headMs: HEADERS_TIMEOUT_MS });
  guardServer(server, { request: (request, response) => endpoints.answer(request, response) }, log);
  const port = await listenOn(server, { host: '127.0.0.1', port: 0 });
  server.unref();
  return { server, url: `http://127.0.0.1:${port}${TOOL_PATH}` };
}

function result(text = NO_FLOOR): CallToolResult {
  return { content: [{ type: 'text', text }] };
}

function listed({ alias: name, description, schema }: OfferedTool) {
  return { name, description, inputSchema: { ...schema, type: 'object' as const } };
}

const HEADERS: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { 'WWW-Authenticate': 'Bearer' },
  429: { 'Retry-After': '1' },
};

function refuse(response: ServerResponse, status: number): void {
  reply(response, { status, ...defined({ headers: HEADERS[status] }) });
}

const NO_FLOOR = 'You do not have the floor: nothing was done.';
const HEADERS_TIMEOUT_MS = 5_000;
const TOKEN_BYTES = 32;
const NAME_BYTES = 6;
/** Floor tools post where the agent posts anyway, or propose a ticket. Codex asks before tools without these hints. */
const HARMLESS = { readOnlyHint: false, destructiveHint: false, openWorldHint: false };
const LOCAL_RULES: ToolServerRules = { origins: [], longestCall: 256 * 1_024 };

const FLOOR_LIST = Object.entries(FLOOR_TOOLS).map(([name, { description, input }]) => {
  return {
    name,
    description,
    inputSchema: { ...z.toJSONSchema(input), type: 'object' as const },
    annotations: HARMLESS,
  };
});
