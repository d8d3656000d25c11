import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { z } from 'zod';
import { VERB_SERVER } from './acp-words.ts';
import { VERBS } from './verbs.ts';
import type { VerbName, Verbs } from './verbs.ts';

/** One session's way to the floor's verbs. */
export type VerbDoor = {
  /** Where the tools are, on this machine. */
  readonly url: string;
  /** What the agent must show: `Authorization: Bearer`. */
  readonly token: string;
  /** Whose turn the calls belong to from now on; `null` while the agent has no floor. */
  serve(verbs: Verbs | null): void;
  /** The token is good for nothing from now on. */
  close(): void;
};

/** The floor's verbs as tools of the Model Context Protocol, over HTTP on 127.0.0.1; one server for all sessions. */
export type VerbServer = {
  /** Lets one more session in; the first one starts the server. Rejects when no port can be had. */
  open(): Promise<VerbDoor>;
  /** Ends the server and takes every token back. */
  close(): Promise<void>;
};

/** Makes the server; nothing listens before the first session. */
export function createVerbServer(): VerbServer {
  const doors = new Map<string, Door>();
  let listening: Promise<{ readonly server: Server; readonly url: string }> | null = null;
  return {
    async open() {
      listening ??= listen((request, response) => answer(doors, request, response));
      const { url } = await listening;
      const token = randomBytes(32).toString('base64url');
      const digest = digestOf(token);
      const door: Door = { verbs: null };
      doors.set(digest, door);
      return { url, token, serve: (verbs) => void (door.verbs = verbs), close: () => void doors.delete(digest) };
    },
    async close() {
      doors.clear();
      const started = await listening;
      listening = null;
      if (started === null) return;
      started.server.closeAllConnections();
      await new Promise((resolve) => started.server.close(resolve));
    },
  };
}

type Verb = { readonly description: string; readonly input: z.ZodObject };
type Door = { verbs: Verbs | null };
type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

async function listen(respond: Answer): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.headersSent || response.writeHead(500).end());
  });
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  server.unref();
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('impossible: a server without a port');
  return { server, url: `http://127.0.0.1:${address.port}/mcp` };
}

/** Every call stands alone: no state is kept between requests, so nothing is lost when an agent comes back. */
async function answer(
  doors: ReadonlyMap<string, Door>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [, token = ''] = /^Bearer (\S{1,200})$/.exec(request.headers.authorization ?? '') ?? [];
  const door = doors.get(digestOf(token));
  if (request.headers.origin !== undefined) return refuse(response, 403);
  if (door === undefined) return refuse(response, 401);
  if (request.url !== '/mcp') return refuse(response, 404);
  if (request.method !== 'POST') return refuse(response, 405);
  const body = await jsonOf(request);
  if (body === null) return refuse(response, 413);
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  const server = serverFor(door);
  response.once('close', () => void server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response, body.value);
}

function serverFor(door: Door): McpServer {
  const server = new McpServer({ name: VERB_SERVER, version: '1' });
  for (const name of Object.keys(VERBS) as VerbName[]) {
    const { description, input }: Verb = VERBS[name];
    server.registerTool(name, { description, inputSchema: input.shape }, (given) => ({
      content: [{ type: 'text', text: door.verbs?.apply(name, given) ?? NO_FLOOR }],
    }));
  }
  return server;
}

async function jsonOf(request: IncomingMessage): Promise<{ readonly value: unknown } | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) return null;
    size += chunk.length;
    if (size > LONGEST_BODY) return null;
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

function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

const NO_FLOOR = 'You do not have the floor: nothing was done.';
const HEADERS_TIMEOUT_MS = 5_000;
const LONGEST_BODY = 256 * 1_024;
