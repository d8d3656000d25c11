import type { IncomingMessage, ServerResponse } from 'node:http';
import { channelRoutes } from './rest-channels.ts';
import { parseBody, readAll } from './rest-body.ts';
import { Refusal, refusals } from './rest-errors.ts';
import { guildRoutes } from './rest-guild.ts';
import { interactionRoutes } from './rest-interactions.ts';
import { messageRoutes } from './rest-messages.ts';
import { Buckets } from './rest-limits.ts';
import type { RateLimit } from './rest-limits.ts';
import { ok } from './rest-route.ts';
import type { Reply, Route } from './rest-route.ts';
import { webhookRoutes } from './rest-webhooks.ts';
import { Faults } from './faults.ts';
import type { Fault } from './faults.ts';
import type { Interaction } from './state-interactions.ts';
import type { World } from './state.ts';

/** A received request, answered or not. */
export type LoggedRequest = {
  readonly method: string;
  /** The path without "/api/v10" and without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** The parsed JSON, or `payload_json` of a multipart request; `null` when invalid. */
  readonly body: unknown;
  readonly files: readonly { readonly name: string; readonly size: number }[];
  readonly at: number;
  /** The status of the answer; `null` before the answer. */
  status: number | null;
  /** True when the request had the bot's token. */
  readonly authorized: boolean;
  readonly fault: Fault['kind'] | null;
};

type Found = { readonly route: Route; readonly params: Readonly<Record<string, string>> };
type Answered = {
  readonly response: ServerResponse;
  readonly log: LoggedRequest;
  readonly limits: Readonly<Record<string, string>>;
};

/** The REST server: routes, the token, rate limits, and faults before and after execution. */
export class Rest {
  readonly requests: LoggedRequest[] = [];
  readonly faults = new Faults();
  readonly #world: World;
  readonly #buckets: Buckets;
  readonly #routes: readonly { readonly route: Route; readonly path: RegExp }[];

  constructor(
    world: World,
    parts: {
      readonly interactions: ReadonlyMap<string, Interaction>;
      readonly gateway: () => unknown;
      readonly limit: RateLimit | null;
    },
  ) {
    this.#world = world;
    this.#buckets = new Buckets(parts.limit);
    const routes: readonly Route[] = [
      { method: 'GET', pattern: '/gateway/bot', act: () => ok(parts.gateway()) },
      { method: 'GET', pattern: '/gateway', open: true, act: () => ok({ url: world.origin.replace('http:', 'ws:') }) },
      ...interactionRoutes(parts.interactions),
      ...channelRoutes,
      ...messageRoutes,
      ...webhookRoutes,
      ...guildRoutes,
    ];
    this.#routes = routes.map((route) => ({ route, path: pathOf(route.pattern, world.application) }));
  }

  /** Serves one request to "/api/v10/…". */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const method = request.method ?? 'GET';
    const path = url.pathname.replace(/^\/api(?:\/v\d+)?/u, '');
    const bytes = await readAll(request);
    const body = await parseBody(bytes, request.headers['content-type'] ?? '').catch((error: unknown) => error);
    const shown = decodeURI(path).replaceAll('%40', '@');
    const fault = this.faults.take({ method, path: shown, body: bytes.toString('utf8') });
    const log: LoggedRequest = {
      method,
      path: shown,
      query: Object.fromEntries(url.searchParams),
      body: isBody(body) ? body.json : null,
      files: isBody(body) ? body.files.map(({ name, content }) => ({ name, size: content.length })) : [],
      at: Date.now(),
      status: null,
      authorized: request.headers.authorization === `Bot ${this.#world.token}`,
      fault: fault?.kind ?? null,
    };
    this.requests.push(log);
    const found = this.#find(method, path);
    const limits = this.#buckets.take(found === null ? null : bucketOf(found));
    const answered: Answered = { response, log, limits: limits.headers };
    if (fault !== null && !isExecuted(fault)) return failBefore(answered, fault);
    if (limits.retryAfterMs !== null) return limited(answered, { retryAfterMs: limits.retryAfterMs, scope: 'user' });
    const reply = this.#act(found, { body, query: url.searchParams, authorized: log.authorized });
    if (fault === null) send(answered, reply);
    else failAfter(answered, fault, reply);
  }

  #find(method: string, path: string): Found | null {
    for (const { route, path: pattern } of this.#routes) {
      const match = route.method === method ? pattern.exec(path) : null;
      if (match !== null) {
        const parts = Object.entries(match.groups ?? {}).map(([name, part]) => [name, decodeURIComponent(part)]);
        return { route, params: Object.fromEntries(parts) };
      }
    }
    return null;
  }

  #act(
    found: Found | null,
    sent: { readonly body: unknown; readonly query: URLSearchParams; readonly authorized: boolean },
  ): Reply {
    try {
      if (found === null) throw refusals.notFound();
      if (found.route.open !== true && !sent.authorized) throw refusals.unauthorized();
      if (!isBody(sent.body)) throw sent.body;
      return found.route.act({ world: this.#world, params: found.params, query: sent.query, body: sent.body });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status, code, message, errors } = error;
      return { status, json: { message, code, ...(errors === null ? {} : { errors }) } };
    }
  }
}

type ParsedBody = Awaited<ReturnType<typeof parseBody>>;

function isBody(body: unknown): body is ParsedBody {
  return typeof body === 'object' && body !== null && 'json' in body && 'files' in body;
}

function isExecuted(fault: Fault): boolean {
  return (
    ['reset-after', 'hang-after', 'late'].includes(fault.kind) || (fault.kind === 'status' && fault.executed === true)
  );
}

function failBefore(answered: Answered, fault: Fault): void {
  const { response } = answered;
  if (fault.kind === 'reset-before') response.socket?.resetAndDestroy();
  if (fault.kind === 'status') send(answered, replyOf(fault));
  if (fault.kind === 'rate-limit') limited(answered, fault);
}

function failAfter(answered: Answered, fault: Fault, reply: Reply): void {
  const { response } = answered;
  if (fault.kind === 'reset-after') response.socket?.resetAndDestroy();
  if (fault.kind === 'late') setTimeout(() => send(answered, reply), fault.ms).unref();
  if (fault.kind === 'status') send(answered, replyOf(fault));
}

function replyOf(fault: Fault & { readonly kind: 'status' }): Reply {
  const { status, code, message = 'Something went wrong' } = fault;
  return code === undefined ? { status } : { status, json: { message, code } };
}

function limited(answered: Answered, how: { readonly retryAfterMs: number; readonly scope: string }): void {
  const { retryAfterMs, scope } = how;
  const retry_after = retryAfterMs / 1000;
  const global = scope === 'global';
  const headers = {
    'Retry-After': String(retry_after),
    'X-RateLimit-Scope': scope,
    'X-RateLimit-Remaining': '0',
    'X-RateLimit-Reset-After': String(retry_after),
    ...(global ? { 'X-RateLimit-Global': 'true' } : {}),
  };
  const json = { message: 'You are being rate limited.', retry_after, global };
  send({ ...answered, limits: { ...answered.limits, ...headers } }, { status: 429, json });
}

function send({ response, log, limits }: Answered, reply: Reply): void {
  if (response.destroyed) return;
  log.status = reply.status;
  if (reply.json !== undefined) {
    response.writeHead(reply.status, { ...limits, 'Content-Type': 'application/json' });
    response.end(JSON.stringify(reply.json));
  } else if (reply.status === 204) {
    response.writeHead(204, limits).end();
  } else {
    response.writeHead(reply.status, { 'Content-Type': 'text/html' });
    response.end(`<html><head><title>${reply.status}</title></head><body>cloudflare</body></html>`);
  }
}

function bucketOf({ route, params }: Found): { readonly route: string; readonly major: string } | null {
  if (route.pattern.startsWith('/interactions')) return null;
  const major = [params['channel'], params['guild'], params['webhook'], params['token']].join(' ');
  return { route: `${route.method} ${route.pattern}`, major };
}

function pathOf(pattern: string, application: string): RegExp {
  const named = pattern.replace('{application}', application).replaceAll(/:(\w+)/gu, '(?<$1>[^/]+)');
  return new RegExp(`^${named}$`, 'u');
}
