import { existsSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import sirv from 'sirv';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { createQuietServer, guardServer, refuseUpgrade, targetOf } from '../../lib/guarded-server.ts';
import type { FaultLog, Listeners, UpgradeRefusal } from '../../lib/guarded-server.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AuditSource } from '../../turns/tool-calls.ts';
import { exportCalls } from './audit.ts';
import { ctlAnswer, hasToken, readJsonBody } from './command-endpoint.ts';
import type { UpkeepOrder } from './command-endpoint.ts';
import { streamEvents } from './event-stream.ts';
import type { EventSource } from './event-stream.ts';
import { SESSION_SECONDS, createPageAccess } from './access.ts';
import type { PageAccess } from './access.ts';

const FRAME_LIMIT = 1024 * 1024;
/** The most pages that are open at once. */
const PAGE_LIMIT = 64;
const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]']);
const PAGE = fileURLToPath(new URL('../../../dist/console', import.meta.url));
const NOT_BUILT = 'The console page is not built. Run "npm install" in the folder of Conch, then start it again.\n';

/**
 * What `/healthz` answers. Agents that are gone degrade it and make it no less ready: people are heard, and the others speak.
 * Only numbers, for whoever asks need not be known.
 */
export type Health = {
  /** `stuck`: nothing can be written, so nobody is heard. */
  readonly status: 'starting' | 'ready' | 'stuck';
  readonly agents: { readonly status: 'ok' | 'degraded' | 'down'; readonly offline: number; readonly of: number };
  /** `degraded`: so many servers of tools wait for a login; `conch mcp list` says which. */
  readonly tools: { readonly status: 'ok' | 'degraded'; readonly logins: number };
  /**
   * `degraded`: the last check of the whole file found something; the log says what. `full`: its disk takes nothing;
   * `locked`: another program writes to it.
   */
  readonly database: { readonly status: 'ok' | 'degraded' | 'full' | 'locked' };
};

/** What is told of runs: for `conch run watch` and other programs that read along, and for whoever looks into tool calls. */
export type RunsTold = {
  readonly events: EventSource;
  readonly audit: AuditSource;
  /** Words were erased: what of them lies in memory is looked up anew. */
  forget?(): void;
};

/** What the server is told and what it asks. */
type ServerParts = {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  /** The built page; the one that `npm install` builds unless said. */
  readonly pageDir?: string;
  readonly log: FaultLog;
  readonly health: () => Health;
  readonly welcome: (socket: WebSocket) => void;
  /** Runs a command line of `conch ctl`; `channel` is `null` when the caller named none. */
  readonly command: (channel: string | null, line: string) => Promise<Answer>;
  /** For `conch backup`, `conch prune` and `conch erase`. */
  readonly upkeep: (order: UpkeepOrder) => Promise<Answer>;
  /** `null` when there are none. */
  readonly runs: () => RunsTold | null;
  readonly timers: Timers;
  readonly clock: Clock;
};

/** A server with the streams that programs have open. */
type Running = ServerParts & {
  readonly streams: Set<ServerResponse>;
  readonly access: PageAccess;
  /** The same as in `ConsoleServer`. */
  readonly link: () => string;
};

/** A listening server; `url` is where the page is. */
export type ConsoleServer = {
  readonly url: string;
  /** A new address of the page that lets one browser in, once, within an hour. */
  link(): string;
  close(): Promise<void>;
};

/** Listens, or rejects with one clear line when the port is taken. Lets in only this machine's own page and `conch ctl`. */
export async function startServer(parts: ServerParts): Promise<ConsoleServer> {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_LIMIT });
  const page = pageOf(parts);
  const http = createQuietServer();
  const access = createPageAccess(parts.token, parts.clock);
  const url = (): string => `http://${parts.host}:${portOf(http)}`;
  const link = (): string => `${url()}/?key=${access.newKey()}`;
  const running = { ...parts, streams: new Set<ServerResponse>(), access, link };
  const listeners: Listeners = {
    request: (request, response) => respond(running, page, { request, response }),
    upgrade: (request, socket, head) => {
      const refusal = refusalOf(request, http, access);
      if (refusal !== null) return refuseUpgrade(socket, refusal);
      if (sockets.clients.size >= PAGE_LIMIT) return refuseUpgrade(socket, FULL);
      sockets.handleUpgrade(request, socket, head, (webSocket) => parts.welcome(webSocket));
    },
  };
  guardServer(http, listeners, parts.log);
  await listen(http, parts);
  return {
    url: url(),
    link,
    close: async () => {
      const closed = new Promise<void>((resolve) => http.close(() => resolve()));
      http.closeAllConnections();
      for (const socket of sockets.clients) socket.terminate();
      await closed;
    },
  };
}

function listen(http: Server, parts: ServerParts): Promise<void> {
  return new Promise((resolve, reject) => {
    http.once('error', (error: NodeJS.ErrnoException) => {
      const taken = `Port ${parts.port} is taken: another program listens on ${parts.host}:${parts.port}. End it, or set CONCH_PORT to a free port.`;
      const refused = `Port ${parts.port} cannot be used: ${error.message}. Set CONCH_PORT to another port.`;
      reject(new Error(error.code === 'EADDRINUSE' ? taken : refused, { cause: error }));
    });
    http.listen(parts.port, parts.host, resolve);
  });
}

type Exchange = { readonly request: IncomingMessage; readonly response: ServerResponse };
type Page = (exchange: Exchange) => void;

async function respond(parts: Running, page: Page, exchange: Exchange): Promise<void> {
  const { request, response } = exchange;
  harden(response);
  if (!isLoopback(request.headers.host)) return finish(response, 403, 'This console answers only to this machine.\n');
  const path = targetOf(request)?.path;
  if (path === undefined) return finish(response, 400, 'This is no path of the console.\n');
  if (path === '/healthz') {
    const health = parts.health();
    return finish(response, health.status === 'ready' ? 200 : 503, health);
  }
  if (path === '/ctl') {
    const reply = await ctlAnswer(request, parts);
    return finish(response, reply.status, reply.answer);
  }
  if (path === '/session') return answerSession(parts, exchange);
  if (path === '/runs/events' || path === '/runs/audit') return readRuns(parts, path, exchange);
  if (request.method !== 'GET' && request.method !== 'HEAD') return finish(response, 405, 'Only GET.\n');
  page(exchange);
}

const keySchema = z.strictObject({ key: z.string().min(1).max(200) });

/**
 * Lets a browser in: `POST` uses up the key of a link, `GET` says whether the browser is let in. The page's script posts the key, so that a
 * client that only fetches the link, to preview it or ahead of time, does not use it up.
 */
async function answerSession({ access }: Running, { request, response }: Exchange): Promise<void> {
  const name = `conch_${request.socket.localPort}`;
  if (request.method === 'GET') {
    const why = reasonToRefuse(request, name, access);
    return why === null ? finish(response, 200, 'You are let in.\n') : finish(response, 401, `${why}.\n`);
  }
  if (request.method !== 'POST') return finish(response, 405, 'Only GET and POST.\n');
  if (!isOwnPage(request)) return finish(response, 403, `${FOREIGN}.\n`);
  const asked = keySchema.safeParse(await readJsonBody(request));
  const session = asked.success ? access.exchange(asked.data.key) : null;
  if (session === null) return finish(response, 401, `${NO_ACCESS}.\n`);
  const kept = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_SECONDS}`;
  response.setHeader('Set-Cookie', `${name}=${session.cookie}; ${kept}`);
  return finish(response, 200, { part: session.part });
}

/** Lets a program with the token read of runs, and the page. */
async function readRuns(parts: Running, path: string, { request, response }: Exchange): Promise<void> {
  if (request.method !== 'GET') return finish(response, 405, 'Only GET.\n');
  const isProgram = request.headers.origin === undefined && hasToken(request, parts.token);
  const why = isProgram ? null : reasonToRefuse(request, `conch_${request.socket.localPort}`, parts.access);
  if (why !== null) return finish(response, 403, `${why}.\n`);
  const query = targetOf(request)?.query ?? '';
  const runs = parts.runs();
  if (runs === null) return finish(response, 404, 'This Conch has no runs.\n');
  const refusal =
    path === '/runs/audit'
      ? await exportCalls(response, query, runs.audit)
      : streamEvents({ request, response }, query, { ...parts, events: runs.events });
  if (refusal !== null) finish(response, refusal.status, refusal.text);
}

function pageOf(parts: ServerParts): Page {
  const folder = parts.pageDir ?? PAGE;
  if (!existsSync(folder)) return ({ response }) => finish(response, 503, NOT_BUILT);
  const files = sirv(folder, {
    // Looks at the folder at each request: a page that was built anew meanwhile is served whole.
    dev: true,
    etag: true,
    brotli: true,
    gzip: true,
    setHeaders: (response, path) =>
      response.setHeader('Cache-Control', path.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'no-cache'),
  });
  return ({ request, response }) => {
    // No page asks for a part of a file, and one that lies outside of the file would not be understood.
    delete request.headers.range;
    files(request, response, () => finish(response, 404, 'Not found.\n'));
  };
}

const FULL: UpgradeRefusal = { status: 503, why: 'Too many pages are open' };

function refusalOf(request: IncomingMessage, http: Server, access: PageAccess): UpgradeRefusal | null {
  if (targetOf(request) === null) return { status: 400, why: 'This is no path of the console' };
  if (request.url !== '/socket') return { status: 404, why: 'Not found' };
  const why = reasonToRefuse(request, cookieName(http), access);
  return why === null ? null : { status: 403, why };
}

const FOREIGN = 'Another site may not talk to this console';
const NO_ACCESS = 'This browser is not let in: run "conch open" and open the link that it prints';

/** Why a page may not talk to this server; `null` when it may. */
function reasonToRefuse(request: IncomingMessage, cookie: string, access: PageAccess): string | null {
  if (!isLoopback(request.headers.host)) return 'This console answers only to this machine';
  if (!isOwnPage(request)) return FOREIGN;
  return access.isLetIn({ cookie: cookieOf(request, cookie), part: partOf(request) }) ? null : NO_ACCESS;
}

function isOwnPage(request: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site } = request.headers;
  // Browsers leave the origin out when a page only reads from its own server.
  return origin === undefined
    ? request.method === 'GET' && site === 'same-origin' && !isUpgrade(request)
    : origin === `http://${host}`;
}

/** The session's part that the page keeps: a header of requests; of sockets, for which a page sets no headers, the second protocol. */
function partOf({ headers }: IncomingMessage): string | null {
  const shown = headers['conch-page'] ?? headers['sec-websocket-protocol']?.split(',')[1];
  return typeof shown === 'string' ? shown.trim() : null;
}

function isUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined;
}

/** A name that leads elsewhere than to this machine is a sign of DNS rebinding. */
function isLoopback(host: string | undefined): boolean {
  return host !== undefined && LOOPBACK.has(host.replace(/:\d+$/, '').toLowerCase());
}

function cookieOf(request: IncomingMessage, name: string): string | null {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim().split('='));
  return pairs.find(([key]) => key === name)?.[1] ?? null;
}

function cookieName(http: Server): string {
  return `conch_${portOf(http)}`;
}

function portOf(http: Server): number {
  return (http.address() as AddressInfo).port;
}

function harden(response: ServerResponse): void {
  const sockets = "connect-src 'self' ws://127.0.0.1:* ws://localhost:*";
  const policy = `default-src 'self'; img-src 'self' data: https:; ${sockets}; base-uri 'none'; form-action 'none'`;
  response.setHeader('Content-Security-Policy', `${policy}; frame-ancestors 'none'`);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}

function finish(response: ServerResponse, status: number, body: string | object): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.setHeader('Content-Type', `${typeof body === 'string' ? 'text/plain' : 'application/json'}; charset=utf-8`);
  response.setHeader('Cache-Control', 'no-store');
  response.writeHead(status).end(text);
}
