import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Delivery } from './events-delivery.ts';
import type { Fault, Faults } from './faults.ts';
import { isObject, objects } from './state-text.ts';
import type { Channel, Json, World } from './state.ts';

/** One received call of the Web API, without tokens. */
export type LoggedCall = {
  readonly method: string;
  readonly args: Json;
  readonly at: number;
  /** The result: 'ok', Slack's error or the fault. 'under way' before the answer. */
  outcome: string;
};

/** The parts that every method uses. */
export type Slack = {
  readonly world: World;
  readonly delivery: Delivery;
  readonly faults: Faults;
  readonly log: LoggedCall[];
  readonly options: SlackRules;
  /** Each trigger opens one view within 3 s. */
  readonly triggers: Map<string, { readonly user: string; readonly at: number; used: boolean }>;
  /** Calls that a fault leaves without an answer. */
  readonly hanging: Set<ServerResponse>;
};

export type SlackRules = {
  /** The limit of history and replies calls per minute; `null`: none. */
  readonly historyPerMinute: number | null;
  /** How long a message can be edited, in milliseconds; `null`: always. */
  readonly editWindowMs: number | null;
};

export type Call = { readonly slack: Slack; readonly method: string; readonly args: Json };

export type Method = { readonly scopes: readonly string[]; readonly token?: 'app'; readonly run: (call: Call) => Json };

/** An error answer of Slack. */
export class Refusal extends Error {
  readonly error: string;
  readonly extra: Json;

  constructor(error: string, extra: Json = {}) {
    super(error);
    this.error = error;
    this.extra = extra;
  }
}

const STRUCTURED = new Set(['blocks', 'attachments', 'metadata', 'view', 'chunks', 'files', 'loading_messages']);

type Answer = { readonly status: number; readonly headers: Record<string, string>; readonly body: Json };

/** Answers one POST /api/<method>. */
export async function serveCall(
  slack: Slack,
  methods: Readonly<Record<string, Method>>,
  http: { readonly request: IncomingMessage; readonly response: ServerResponse; readonly body: Buffer },
): Promise<void> {
  const method = new URL(http.request.url ?? '/', 'http://loopback').pathname.slice('/api/'.length);
  const { args, token } = argsOf(http.request, http.body);
  const entry: LoggedCall = { method, args, at: slack.world.now(), outcome: 'under way' };
  slack.log.push(entry);
  const execute = () => {
    const answer = answered({ slack, method, args }, methods[method], token);
    entry.outcome = answer.body['ok'] === true ? 'ok' : String(answer.body['error']);
    return answer;
  };
  const fault = slack.faults.take(method, args);
  if (fault === null) return send(http.response, execute());
  await suffer(slack, fault, { response: http.response, execute });
  if (entry.outcome === 'under way') entry.outcome = fault.kind === 'error' ? fault.error : fault.kind;
}

export function text(args: Json, key: string): string | null {
  const value = args[key];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : null;
}

export function needed(args: Json, key: string): string {
  const value = text(args, key);
  if (value === null) throw new Refusal('invalid_arguments', messages(`[ERROR] missing required field: ${key}`));
  return value;
}

export function flag(args: Json, key: string): boolean {
  return args[key] === true || args[key] === 'true' || args[key] === '1' || args[key] === 1;
}

export function list(args: Json, key: string): Json[] {
  return objects(args[key]);
}

/** Returns the page of a list for `limit` (default: `usual`) and `cursor`. */
export function page<T>(
  args: Json,
  items: readonly T[],
  usual: number,
): { readonly items: T[]; readonly next: string } {
  const limit = Math.min(Number(args['limit'] ?? usual) || usual, 999);
  const cursor = text(args, 'cursor');
  const from = cursor === null ? 0 : Number(Buffer.from(cursor, 'base64').toString().replace('next:', ''));
  if (!Number.isInteger(from)) throw new Refusal('invalid_cursor');
  const next = from + limit < items.length ? Buffer.from(`next:${from + limit}`).toString('base64') : '';
  return { items: items.slice(from, from + limit), next };
}

/** Returns the channel. Throws `channel_not_found` when it is unknown, or private and without the bot. */
export function knownChannel({ slack: { world }, args }: Call, key = 'channel'): Channel {
  const channel = world.channels.get(needed(args, key));
  const member = channel?.members.has(world.app.botUser) === true;
  if (channel === undefined || (channel.kind !== 'channel' && !member)) throw new Refusal('channel_not_found');
  return channel;
}

/** Returns the channel. Throws `not_in_channel` when the bot is not in it. */
export function joinedChannel(call: Call, key = 'channel'): Channel {
  const channel = knownChannel(call, key);
  if (!channel.members.has(call.slack.world.app.botUser)) throw new Refusal('not_in_channel');
  return channel;
}

export function needScope({ slack: { world } }: Call, scope: string): void {
  if (!world.app.botScopes.includes(scope)) throw missing(scope, world.app.botScopes);
}

function missing(scope: string, provided: readonly string[]): Refusal {
  return new Refusal('missing_scope', { needed: scope, provided: provided.join(',') });
}

function messages(...all: string[]): Json {
  return { response_metadata: { messages: all } };
}

function answered(call: Call, method: Method | undefined, token: string | null): Answer {
  const { app } = call.slack.world;
  const headers: Record<string, string> = { 'x-slack-req-id': `req-${call.slack.log.length}` };
  try {
    if (method === undefined) throw new Refusal('unknown_method', { req_method: call.method });
    const scopes = authorised(call, method, token);
    headers['x-oauth-scopes'] = (token === app.appToken ? app.appScopes : app.botScopes).join(',');
    if (scopes.length > 0) headers['x-accepted-oauth-scopes'] = scopes.join(',');
    const lacking = scopes.find((scope) => !(token === app.appToken ? app.appScopes : app.botScopes).includes(scope));
    if (lacking !== undefined) throw missing(lacking, token === app.appToken ? app.appScopes : app.botScopes);
    return { status: 200, headers, body: { ok: true, ...method.run(call) } };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const limited = error.error === 'ratelimited';
    if (limited) headers['retry-after'] = String(Number(error.extra['retry_after']));
    const body = limited ? { ok: false, error: 'ratelimited' } : { ok: false, error: error.error, ...error.extra };
    return { status: limited ? 429 : 200, headers, body };
  }
}

function authorised({ slack: { world } }: Call, method: Method, token: string | null): readonly string[] {
  const { app } = world;
  if (token === null) throw new Refusal('not_authed');
  if (token !== app.botToken && token !== app.appToken) throw new Refusal('invalid_auth');
  if (app.revoked !== null) throw new Refusal(app.revoked);
  if (method.token === 'app' && token !== app.appToken) throw new Refusal('not_allowed_token_type');
  if (method.token === undefined && token === app.appToken && method.scopes.length > 0)
    throw new Refusal('not_allowed_token_type');
  return method.scopes;
}

async function suffer(
  slack: Slack,
  fault: Fault,
  { response, execute }: { response: ServerResponse; execute: () => Answer },
): Promise<void> {
  switch (fault.kind) {
    case 'reset-before':
      return void response.socket?.resetAndDestroy();
    case 'reset-after':
      execute();
      return void response.socket?.resetAndDestroy();
    case 'hang-before':
      return void slack.hanging.add(response);
    case 'hang-after':
      execute();
      return void slack.hanging.add(response);
    case 'late': {
      const early = fault.execute === 'last' ? null : execute();
      await new Promise((resolve) => void setTimeout(resolve, fault.ms).unref());
      return send(response, early ?? execute());
    }
    case 'status':
      if (fault.when === 'after') execute();
      return void response
        .writeHead(fault.status, { 'content-type': 'text/html' })
        .end('<html>something went wrong</html>');
    case 'ratelimited':
      return send(response, {
        status: 429,
        headers: { 'retry-after': String(fault.retryAfterSeconds) },
        body: { ok: false, error: 'ratelimited' },
      });
    case 'error':
      return send(response, { status: 200, headers: {}, body: { ok: false, error: fault.error, ...fault.extra } });
  }
}

function send(response: ServerResponse, { status, headers, body }: Answer): void {
  if (response.destroyed) return;
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
  response.end(JSON.stringify(body));
}

function argsOf(request: IncomingMessage, body: Buffer): { readonly args: Json; readonly token: string | null } {
  const raw = body.toString('utf8');
  const json = request.headers['content-type']?.startsWith('application/json') === true;
  const given: unknown = json ? JSON.parse(raw || '{}') : Object.fromEntries(new URLSearchParams(raw));
  const query = Object.fromEntries(new URL(request.url ?? '/', 'http://loopback').searchParams);
  const merged: Json = { ...query, ...(isObject(given) ? given : {}) };
  const { token, ...args } = merged;
  const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
  const decoded = Object.fromEntries(Object.entries(args).map(([key, value]) => [key, structured(key, value)]));
  return { args: decoded, token: bearer ?? (typeof token === 'string' ? token : null) };
}

/** Parses lists and objects, which forms carry as JSON. */
function structured(key: string, value: unknown): unknown {
  if (typeof value !== 'string' || !STRUCTURED.has(key)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
