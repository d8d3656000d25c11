import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { z } from 'zod';
import { guardServer } from '../../lib/guarded-server.ts';
import type { FaultLog } from '../../lib/guarded-server.ts';
import { VERBS } from './verbs.ts';
import type { VerbName, Verbs } from './verbs.ts';

/** One session's way to the floor's verbs. */
export type VerbDoor = {
  /** What the server is called in this session: unpredictable, so that nothing written before can stand for its tools. */
  readonly name: string;
  /** Where the tools are, for this agent. */
  readonly url: string;
  /** What the agent must show: `Authorization: Bearer`. */
  readonly token: string;
  /** Whose turn the calls belong to from now on; `null` while the agent has no floor. */
  serve(verbs: Verbs | null): void;
  /** An earlier token of the same session opens this door, too: an agent that comes back need not be told another. */
  admit(token: string): void;
  /** Its tokens are good for nothing from now on. */
  close(): void;
};

/** The floor's verbs as tools of the Model Context Protocol, over HTTP on 127.0.0.1; one server for all sessions. */
export type VerbServer = {
  /**
   * Lets one more session in, under the name that it had if it goes on with an earlier one; the first one starts the
   * server. Rejects when no port can be had.
   */
  open(name?: string): Promise<VerbDoor>;
  /** Ends the server and takes every token back. */
  close(): Promise<void>;
};

/** What callers may do besides showing a token. */
export type VerbRules = {
  /** Browser pages that may call, such as "https://example.org"; all others are refused. */
  readonly origins: readonly string[];
  /** The longest call, in bytes. */
  readonly longestCall: number;
};

/** Where one session finds the verbs. */
export type VerbDoorParts = {
  readonly url: string;
  /** The server's name in an earlier session that this one goes on with. */
  readonly name?: string | undefined;
  /** Asked before every call whether the agent may make one more. */
  readonly mayCall?: () => boolean;
};

/** Makes the server; nothing listens before the first session. `log` is told of faults, if it is given. */
export function createVerbServer(log: FaultLog = { error() {} }): VerbServer {
  const doors = new VerbDoors(LOCAL_RULES);
  let listening: Promise<{ readonly server: Server; readonly url: string }> | null = null;
  return {
    async open(name) {
      listening ??= listen(doors, log);
      const { url } = await listening;
      return doors.open({ url, name });
    },
    async close() {
      doors.closeAll();
      const started = await listening;
      listening = null;
      if (started === null) return;
      started.server.closeAllConnections();
      await new Promise((resolve) => started.server.close(resolve));
    },
  };
}

/** The path of the tools on every server that has them. */
export const VERB_PATH = '/mcp';

/** The sessions that may use the verbs, and the answers to their calls, whichever server the calls come in by. */
export class VerbDoors {
  readonly #rules: VerbRules;
  readonly #doors = new Map<string, Door>();

  constructor(rules: VerbRules) {
    this.#rules = rules;
  }

  /** Lets one more session in. */
  open({ url, name = newName(), mayCall = always }: VerbDoorParts): VerbDoor {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const door: Door = { name, verbs: null, open: true, mayCall };
    const admit = (each: string) => void (door.open && this.#doors.set(digestOf(each), door));
    admit(token);
    const serve = (verbs: Verbs | null) => void (door.verbs = verbs);
    return { name, url, token, serve, admit, close: () => this.#close(door) };
  }

  /** Takes every token back. */
  closeAll(): void {
    this.#doors.clear();
  }

  /**
   * Answers one call; rejects when that fails. Every call stands alone: no state is kept between requests, so nothing is lost
   * when an agent comes back.
   */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { origin, authorization = '' } = request.headers;
    const [, token = ''] = /^Bearer (\S{1,200})$/.exec(authorization) ?? [];
    const door = this.#doors.get(digestOf(token));
    if (origin !== undefined && !this.#rules.origins.includes(origin)) return refuse(response, 403);
    if (door === undefined) return refuse(response, 401);
    if (request.url !== VERB_PATH) return refuse(response, 404);
    if (request.method !== 'POST') return refuse(response, 405);
    if (!door.mayCall()) return refuse(response, 429);
    const body = await jsonOf(request, this.#rules.longestCall);
    if (body === null) return refuse(response, 413);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    const server = serverFor(door);
    response.once('close', () => void server.close().catch(() => undefined));
    await server.connect(transport);
    await transport.handleRequest(request, response, body.value);
  }

  #close(door: Door): void {
    door.open = false;
    for (const [digest, each] of this.#doors) if (each === door) this.#doors.delete(digest);
  }
}

type Verb = { readonly description: string; readonly input: z.ZodObject };
type Door = { readonly name: string; verbs: Verbs | null; open: boolean; readonly mayCall: () => boolean };

async function listen(doors: VerbDoors, log: FaultLog): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer();
  guardServer(server, { request: (request, response) => doors.answer(request, response) }, log);
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  server.unref();
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('impossible: a server without a port');
  return { server, url: `http://127.0.0.1:${address.port}${VERB_PATH}` };
}

function serverFor(door: Door): McpServer {
  const server = new McpServer({ name: door.name, version: '1' });
  for (const name of Object.keys(VERBS) as VerbName[]) {
    const { description, input }: Verb = VERBS[name];
    server.registerTool(name, { description, inputSchema: input.shape, annotations: HARMLESS }, (given) => ({
      content: [{ type: 'text', text: door.verbs?.apply(name, given) ?? NO_FLOOR }],
    }));
  }
  return server;
}

/** The body; `null` when it is too long. The connection stays, so that the caller hears the answer. */
async function jsonOf(request: IncomingMessage, longest: number): Promise<{ readonly value: unknown } | null> {
  if (Number(request.headers['content-length'] ?? 0) > longest) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    if (!Buffer.isBuffer(chunk)) return null;
    size += chunk.length;
    if (size > longest) return null;
    chunks.push(chunk);
  }
  try {
    return { value: JSON.parse(Buffer.concat(chunks).toString('utf8')) };
  } catch {
    return { value: null };
  }
}

function refuse(response: ServerResponse, status: number): void {
  const headers = status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {};
  response.writeHead(status, headers).end();
}

function newName(): string {
  return `conch-${randomBytes(NAME_BYTES).toString('hex')}`;
}

function always(): boolean {
  return true;
}

function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

const NO_FLOOR = 'You do not have the floor: nothing was done.';
const HEADERS_TIMEOUT_MS = 5_000;
const TOKEN_BYTES = 32;
const NAME_BYTES = 6;
/** They speak in the channel where the agent speaks anyway. Codex asks for tools that do not say so. */
const HARMLESS = { readOnlyHint: false, destructiveHint: false, openWorldHint: false };
const LOCAL_RULES: VerbRules = { origins: [], longestCall: 256 * 1_024 };
