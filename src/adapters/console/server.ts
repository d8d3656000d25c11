import { existsSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import sirv from 'sirv';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import {
  closeServer,
  createQuietServer,
  guardServer,
  listenError,
  listenOn,
  portOf,
  readBody,
  refuseUpgrade,
  reply,
  targetOf,
} from '../../lib/guarded-server.ts';
import type { FaultLog, Listeners, Reply, UpgradeRefusal } from '../../lib/guarded-server.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AuditSource } from '../../turns/tool-calls.ts';
import {
  FOREIGN,
  NOT_LOOPBACK,
  NO_ACCESS,
  PageAccess,
  SESSION_SECONDS,
  cookieName,
  hasToken,
  isForLoopback,
  isOwnPage,
  reasonToRefuse,
} from './access.ts';
import type { FloorQueries } from '../port.ts';
import { exportCalls } from './audit.ts';
import { streamEvents } from './event-stream.ts';
import type { EventSource } from './event-stream.ts';
import { LINE_LIMIT } from './protocol.ts';
import { jsonOrNull, errorMessage } from '../../lib/defined.ts';

const FRAME_LIMIT = 1024 * 1024;
const PAGE_LIMIT = 64;
const PAGE = fileURLToPath(new URL('../../../dist/console', import.meta.url));
const NOT_BUILT = 'The console page is not built. Run "npm install" in the folder of Conch, then start it again.\n';

/**
 * Answer of `/healthz`. Offline agents do not change `status`. The answer contains no names, because the caller is not
 * authenticated.
 */
export type Health = {
  /** `stuck`: the database takes no writes. */
  readonly status: 'starting' | 'ready' | 'stuck';
  readonly agents: { readonly status: 'ok' | 'degraded' | 'down'; readonly offline: number; readonly of: number };
  /** `logins`: number of tool servers that wait for a login. `degraded`: at least one waits. */
  readonly tools: { readonly status: 'ok' | 'degraded'; readonly logins: number };
  /**
   * `degraded`: the last check of the file found damage, which the log names. `full`: the disk is full. `locked`:
   * another program writes to the file. `unreached`: PostgreSQL does not answer or refuses a request; another Conch may
   * have taken over.
   */
  readonly database: { readonly status: 'ok' | 'degraded' | 'full' | 'locked' | 'unreached' };
};

/** Sources of run events (`conch run watch` and other programs) and of tool calls (page, export). */
export type RunSources = {
  readonly events: EventSource;
  readonly audit: AuditSource;
  /** Called after an erasure: drops cached texts. */
  forget?(): void;
};

/** The longest body of a request, in bytes. */
const BODY_LIMIT = 64 * 1024;
const bodySchema = z.union([
  z.strictObject({ channel: z.string().min(1).max(200).nullish(), line: z.string().min(1).max(LINE_LIMIT) }),
  z.strictObject({ open: z.literal(true) }),
  z.strictObject({
    maintenance: z.discriminatedUnion('act', [
      z.strictObject({ act: z.literal('backup'), file: z.string().startsWith('/').max(4_096) }),
      z.strictObject({ act: z.literal('prune'), isDryRun: z.boolean() }),
      z.strictObject({ act: z.literal('erase'), what: z.enum(['person', 'message']), id: z.string().min(1).max(200) }),
    ]),
  }),
]);

/** A task for the database: a backup, a prune or an erasure. */
export type MaintenanceOrder = Extract<z.infer<typeof bodySchema>, { readonly maintenance: unknown }>['maintenance'];

type ServerParts = {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly pageDir?: string;
  readonly log: FaultLog;
  readonly health: () => Health;
  readonly welcome: (socket: WebSocket) => void;
  /** Runs a command line of `conch ctl`; `channel` is `null` when the caller named none. */
  readonly command: (channel: string | null, line: string) => Promise<Answer>;
  readonly maintenance: (order: MaintenanceOrder) => Promise<Answer>;
  readonly runs: () => RunSources | null;
  readonly crew: NonNullable<FloorQueries['crew']>;
  readonly timers: Timers;
  readonly clock: Clock;
};

type Running = ServerParts & {
  readonly streams: Set<ServerResponse>;
  readonly access: PageAccess;
  readonly link: () => string;
  readonly page: (exchange: Exchange) => Reply | null;
};

/** A listening server; `url` is the address of the page. */
export type ConsoleServer = {
  readonly url: string;
  /** Returns a link that gives one browser access, once, within one hour. */
  link(): string;
  close(): Promise<void>;
};

/** Starts the server. Rejects with one line if it cannot listen. Serves only the page and programs of this machine. */
export async function startServer(parts: ServerParts): Promise<ConsoleServer> {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_LIMIT });
  const http = createQuietServer();
  const access = new PageAccess(parts.token, parts.clock);
  const url = (): string => `http://${parts.host}:${portOf(http)}`;
  const link = (): string => `${url()}/?key=${access.newKey()}`;
  const running = { ...parts, streams: new Set<ServerResponse>(), access, link, page: pageOf(parts) };
  const listeners: Listeners = {
    request: (request, response) => respond(running, { request, response }),
    upgrade: (request, socket, head) => {
      const refusal = refusalOf(request, access, sockets);
      if (refusal !== null) return refuseUpgrade(socket, refusal);
      sockets.handleUpgrade(request, socket, head, (webSocket) => parts.welcome(webSocket));
    },
  };
  guardServer(http, listeners, parts.log);
  await listenOn(http, parts).catch((error: NodeJS.ErrnoException) => {
    throw listenError(error, parts, 'CONCH_PORT');
  });
  return {
    url: url(),
    link,
    close: async () => {
      const closed = closeServer(http);
      for (const socket of sockets.clients) socket.terminate();
      await closed;
    },
  };
}

type Exchange = { readonly request: IncomingMessage; readonly response: ServerResponse };

/** Answers a request; `null` if the handler wrote the response itself. */
type Handler = (parts: Running, exchange: Exchange) => Reply | null | Promise<Reply | null>;
type Route = { readonly methods?: readonly string[]; readonly answer: Handler };

/** Handlers by path; other paths are files of the page. */
const ROUTES: Readonly<Record<string, Route>> = {
  // For health checks that restart Conch. A full disk, or an unreachable platform, must not cause a restart.
  '/livez': { methods: ['GET', 'HEAD'], answer: () => ({ status: 200, body: 'ok\n' }) },
  '/healthz': {
    answer: ({ health }) => {
      const body = health();
      return { status: body.status === 'ready' ? 200 : 503, body };
    },
  },
  '/ctl': { answer: ctlReply },
  '/session': { methods: ['GET', 'POST'], answer: sessionReply },
  '/runs/events': {
    methods: ['GET'],
    answer: toReaders((exchange, runs, parts) => streamEvents(exchange, { ...parts, events: runs.events })),
  },
  '/crew': { methods: ['GET'], answer: crewReply },
  '/runs/audit': { methods: ['GET'], answer: toReaders((exchange, runs) => exportCalls(exchange, runs.audit)) },
};
const PAGE_ROUTE: Route = { methods: ['GET', 'HEAD'], answer: (parts, exchange) => parts.page(exchange) };

async function respond(parts: Running, exchange: Exchange): Promise<void> {
  harden(exchange.response);
  const answer = await replyTo(parts, exchange);
  if (answer !== null) reply(exchange.response, answer);
}

function replyTo(parts: Running, exchange: Exchange): ReturnType<Handler> {
  const { request } = exchange;
  if (!isForLoopback(request)) return { status: 403, body: `${NOT_LOOPBACK}.\n` };
  const path = targetOf(request)?.path;
  if (path === undefined) return { status: 400, body: 'This is no path of the console.\n' };
  const { methods, answer } = (Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined) ?? PAGE_ROUTE;
  if (methods?.includes(request.method ?? '') === false)
    return { status: 405, body: `Only ${methods.join(' and ')}.\n` };
  return answer(parts, exchange);
}

/**
 * Answers `POST /ctl`: a JSON body `{ channel?, line }`, `{ open: true }` or `{ maintenance: order }`, with the header
 * `Authorization: Bearer <the console's token>`.
 */
async function ctlReply(parts: Running, { request }: Exchange): Promise<Reply> {
  if (request.method !== 'POST') return refused(405, 'Send commands with POST.');
  if (request.headers.origin !== undefined) return refused(403, 'Web pages may not send commands.');
  if (!hasToken(request, parts.token)) return refused(401, 'The token does not belong to this Conch.');
  const body = await readBody(request, BODY_LIMIT);
  if (body === null) return refused(413, 'The command is too long.');
  const parsed = bodySchema.safeParse(jsonOrNull(body));
  if (!parsed.success) return refused(400, 'Expected a JSON body with "line", "open" or "maintenance".');
  try {
    return { status: 200, body: await answerTo(parsed.data, parts) };
  } catch (error) {
    return refused(500, `The command failed: ${errorMessage(error)}`);
  }
}

async function answerTo(body: z.infer<typeof bodySchema>, parts: Running): Promise<Answer> {
  if ('open' in body) return { ok: true, text: parts.link() };
  return 'maintenance' in body ? parts.maintenance(body.maintenance) : parts.command(body.channel ?? null, body.line);
}

function refused(status: number, text: string): Reply {
  return { status, body: { ok: false, text } satisfies Answer };
}

const keySchema = z.strictObject({ key: z.string().min(1).max(200) });

/**
 * Answers `/session`: `POST` exchanges the key of a link for a session, `GET` says whether the browser has a session.
 * The page's script posts the key, so a client that only fetches the link, such as a preview, does not use it up.
 */
async function sessionReply({ access }: Running, { request }: Exchange): Promise<Reply> {
  if (request.method === 'GET') {
    const why = reasonToRefuse(request, access);
    return why === null ? { status: 200, body: 'This browser has access.\n' } : { status: 401, body: `${why}.\n` };
  }
  if (!isOwnPage(request)) return { status: 403, body: `${FOREIGN}.\n` };
  const parsed = keySchema.safeParse(jsonOrNull((await readBody(request, BODY_LIMIT)) ?? ''));
  const session = parsed.success ? access.exchange(parsed.data.key) : null;
  if (session === null) return { status: 401, body: `${NO_ACCESS}.\n` };
  const cookieAttributes = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_SECONDS}`;
  const headers = { 'Set-Cookie': `${cookieName(request)}=${session.cookie}; ${cookieAttributes}` };
  return { status: 200, body: { part: session.part }, headers };
}

type Reading = (
  exchange: Exchange & { readonly query: string },
  runs: RunSources,
  parts: Running,
) => ReturnType<Handler>;

/** Returns a handler that calls `read` for the page and for programs with the token, and refuses other callers. */
function toReaders(read: Reading): Handler {
  return (parts, exchange) => {
    const { request } = exchange;
    const isProgram = request.headers.origin === undefined && hasToken(request, parts.token);
    const why = isProgram ? null : reasonToRefuse(request, parts.access);
    if (why !== null) return { status: 403, body: `${why}.\n` };
    const runs = parts.runs();
    if (runs === null) return { status: 404, body: 'This Conch has no runs.\n' };
    return read({ ...exchange, query: targetOf(request)?.query ?? '' }, runs, parts);
  };
}

const crewQuerySchema = z.object({ channel: z.string().max(200), most: z.coerce.number().int().min(0).max(500) });

/** Answers the page's `GET /crew?channel=…&most=…` with a channel's crew. */
function crewReply({ access, crew, clock }: Running, { request }: Exchange): Reply {
  const why = reasonToRefuse(request, access);
  if (why !== null) return { status: 403, body: `${why}.\n` };
  const parsed = crewQuerySchema.safeParse(Object.fromEntries(new URLSearchParams(targetOf(request)?.query ?? '')));
  if (!parsed.success) return { status: 400, body: 'Expected a channel, and a number of tickets up to 500.\n' };
  const { channel, most } = parsed.data;
  return { status: 200, body: { now: clock.now(), crew: crew(channel, most) } };
}

function pageOf(parts: ServerParts): (exchange: Exchange) => Reply | null {
  const folder = parts.pageDir ?? PAGE;
  if (!existsSync(folder)) return () => ({ status: 503, body: NOT_BUILT });
  const files = sirv(folder, {
    // Reads the folder at each request, so that a page that was rebuilt while Conch runs is served whole.
    dev: true,
    etag: true,
    brotli: true,
    gzip: true,
    setHeaders: (response, path) =>
      response.setHeader('Cache-Control', path.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'no-cache'),
  });
  return ({ request, response }) => {
    // The page requests no ranges, and a range outside of the file would fail.
    delete request.headers.range;
    files(request, response, () => reply(response, { status: 404, body: 'Not found.\n' }));
    return null;
  };
}

function refusalOf(request: IncomingMessage, access: PageAccess, sockets: WebSocketServer): UpgradeRefusal | null {
  if (targetOf(request) === null) return { status: 400, why: 'This is no path of the console' };
  if (request.url !== '/socket') return { status: 404, why: 'Not found' };
  const why = reasonToRefuse(request, access);
  if (why !== null) return { status: 403, why };
  return sockets.clients.size < PAGE_LIMIT ? null : { status: 503, why: 'Too many pages are open' };
}

function harden(response: ServerResponse): void {
  const sockets = "connect-src 'self' ws://127.0.0.1:* ws://localhost:*";
  const policy = `default-src 'self'; img-src 'self' data: https:; ${sockets}; base-uri 'none'; form-action 'none'`;
  response.setHeader('Content-Security-Policy', `${policy}; frame-ancestors 'none'`);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Referrer-Policy', 'no-referrer');
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}
