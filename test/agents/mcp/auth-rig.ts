import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { McpServer as SdkServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** The tokens granted to a client. `resource`: the URL of the server for which they are valid. */
type Grant = { readonly access: string; readonly refresh: string; readonly scope: string; readonly resource: string };

/** Faults of the authorization service and of the MCP server. */
export type AuthFaults = {
  /** `iss` in the redirect to the browser. `describedAs`: `issuer` in the metadata. `null`: the real issuer. */
  iss: string | null;
  describedAs: string | null;
  /** The error that the service sends to the browser instead of a code. */
  error: string | null;
  /** The authorization service that the server names in its metadata. `null`: the service of this rig. */
  signedInBy: string | null;
  /** The status of every answer at the token endpoint, sent with `tokenBody`. `null`: real answers. */
  tokenStatus: number | null;
  tokenBody: string;
  /** Called on each refresh request, after the old tokens are spent and before the answer. */
  renewing: (() => Promise<unknown>) | null;
  /** The additional scope that the tool "admin" requires. */
  adminScope: string | null;
  /** The URL to which the token endpoint redirects. */
  movedTo: string | null;
  registers: boolean;
  /** True when the tools return the `Authorization` header of their call. */
  echoes: boolean;
  tokenType: string;
  expiresIn: number;
};

/** An MCP server that requires a token, and the service that issues tokens, on this machine. */
export type AuthRig = {
  readonly url: string;
  readonly issuer: string;
  readonly faults: AuthFaults;
  /** All requests to the service: path and form. */
  readonly asked: { readonly path: string; readonly form: URLSearchParams }[];
  /** All `Authorization` headers that the server received. `undefined`: a request without one. */
  readonly presented: Set<string | undefined>;
  /** Returns how many calls of its tools have run. */
  runs(): number;
  /** Returns how many requests the server refused with 401 since the last `expire()`. */
  refused(): number;
  /** Returns the newest tokens, expired or not. `null`: none, or revoked. */
  good(): Grant | null;
  /** Makes the access token expire. */
  expire(): void;
  /** Revokes all tokens granted so far. */
  revoke(): void;
  close(): Promise<void>;
};

export async function startAuth(): Promise<AuthRig> {
  const state: State = {
    grant: null,
    expired: false,
    codes: new Map(),
    spent: new Set(),
    runs: 0,
    refused: 0,
    clients: new Set(),
  };
  const faults: AuthFaults = {
    iss: null,
    describedAs: null,
    error: null,
    signedInBy: null,
    tokenStatus: null,
    tokenBody: 'no',
    renewing: null,
    adminScope: null,
    movedTo: null,
    registers: true,
    echoes: false,
    tokenType: 'Bearer',
    expiresIn: 3_600,
  };
  const asked: AuthRig['asked'] = [];
  const presented: AuthRig['presented'] = new Set();
  const service: Service = { state, faults, asked, presented, issuer: '', url: '' };
  const [auth, tools] = [
    await listening((request, response) => serve(service, request, response)),
    await listening((request, response) => serveTools(service, request, response)),
  ];
  service.issuer = auth.origin;
  service.url = `${tools.origin}/mcp`;
  return {
    url: service.url,
    issuer: service.issuer,
    faults,
    asked,
    presented,
    runs: () => state.runs,
    refused: () => state.refused,
    good: () => state.grant,
    expire: () => {
      state.expired = true;
      state.refused = 0;
    },
    revoke: () => void (state.grant = null),
    close: async () => {
      await Promise.all([auth.close(), tools.close()]);
    },
  };
}

/** Follows redirects like a browser, until one leads back to Conch. Resolves with that URL. */
export async function browse(address: string): Promise<string> {
  const response = await fetch(address, { redirect: 'manual' });
  const location = response.headers.get('location');
  if (location === null) throw new Error(`the service shows a page: ${response.status} ${await response.text()}`);
  return location;
}

type State = {
  grant: Grant | null;
  expired: boolean;
  runs: number;
  refused: number;
  readonly codes: Map<string, { readonly query: URLSearchParams; used: boolean }>;
  readonly spent: Set<string>;
  readonly clients: Set<string>;
};

type Service = Pick<AuthRig, 'faults' | 'asked' | 'presented'> & {
  readonly state: State;
  issuer: string;
  url: string;
};

async function serve(service: Service, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { faults, asked, issuer, state } = service;
  const { pathname, searchParams } = new URL(request.url ?? '/', issuer);
  const body = await bodyOf(request);
  const form = new URLSearchParams(pathname === '/register' ? {} : body);
  asked.push({ path: pathname, form });
  if (pathname === '/.well-known/oauth-authorization-server') return json(response, 200, descriptionOf(service));
  if (pathname === '/register' && faults.registers) {
    const client_id = `client-${state.clients.size + 1}`;
    state.clients.add(client_id);
    return json(response, 201, { ...JSON.parse(body), client_id });
  }
  if (pathname === '/authorize') return authorize(service, searchParams, response);
  if (pathname === '/token') return await token(service, form, response);
  response.writeHead(404).end('no such page');
}

function descriptionOf({ issuer, faults }: Service): object {
  return {
    issuer: faults.describedAs ?? issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    ...(faults.registers ? { registration_endpoint: `${issuer}/register` } : {}),
    response_types_supported: ['code'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
    authorization_response_iss_parameter_supported: true,
  };
}

/** Answers the authorization page like a person who approves every request. */
function authorize({ state, faults, issuer }: Service, query: URLSearchParams, response: ServerResponse): void {
  const isKnown = query.get('client_id') === 'configured' || state.clients.has(query.get('client_id') ?? '');
  if (!isKnown || query.get('code_challenge_method') !== 'S256')
    return json(response, 400, { error: 'invalid_request' });
  const back = new URL(query.get('redirect_uri') ?? '');
  back.searchParams.set('state', query.get('state') ?? '');
  back.searchParams.set('iss', faults.iss ?? issuer);
  if (faults.error !== null) back.searchParams.set('error', faults.error);
  else {
    const code = randomBytes(16).toString('hex');
    state.codes.set(code, { query, used: false });
    back.searchParams.set('code', code);
  }
  response.writeHead(302, { location: back.href }).end();
}

async function token(service: Service, form: URLSearchParams, response: ServerResponse): Promise<void> {
  const { state, faults } = service;
  if (faults.movedTo !== null) return void response.writeHead(307, { location: faults.movedTo }).end();
  if (faults.tokenStatus !== null) return void response.writeHead(faults.tokenStatus).end(faults.tokenBody);
  if (form.get('grant_type') === 'refresh_token') {
    const { grant } = state;
    const refresh = form.get('refresh_token') ?? '';
    // A refresh token used twice counts as stolen: the whole grant is revoked.
    if (state.spent.has(refresh)) state.grant = null;
    if (grant === null || grant.refresh !== refresh || form.get('resource') !== grant.resource) return refuse(response);
    state.spent.add(refresh);
    const next = make(grant.scope, grant.resource);
    state.grant = next;
    await faults.renewing?.();
    state.expired = false;
    return send(response, next, faults);
  }
  const known = state.codes.get(form.get('code') ?? '');
  if (known === undefined || known.used) {
    state.grant = null;
    return refuse(response);
  }
  known.used = true;
  const { query } = known;
  const challenge = createHash('sha256')
    .update(form.get('code_verifier') ?? '')
    .digest('base64url');
  const isSame = ['client_id', 'redirect_uri', 'resource'].every((key) => query.get(key) === form.get(key));
  if (challenge !== query.get('code_challenge') || !isSame) return refuse(response);
  state.grant = make(query.get('scope') ?? '', query.get('resource') ?? '');
  state.expired = false;
  send(response, state.grant, faults);
}

function make(scope: string, resource: string): Grant {
  const [access, refresh] = [randomBytes(24).toString('hex'), randomBytes(24).toString('hex')];
  return { access: `access-${access}`, refresh: `refresh-${refresh}`, scope, resource };
}

function send(response: ServerResponse, { access, refresh, scope }: Grant, { tokenType, expiresIn }: AuthFaults): void {
  const times = { token_type: tokenType, expires_in: expiresIn };
  json(response, 200, { access_token: access, refresh_token: refresh, scope, ...times });
}

function refuse(response: ServerResponse): void {
  json(response, 400, { error: 'invalid_grant', error_description: 'this is over' });
}

async function serveTools(service: Service, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { faults, state, presented, url, issuer } = service;
  const origin = new URL(url).origin;
  if (request.url === '/.well-known/oauth-protected-resource/mcp') {
    const authorization_servers = [faults.signedInBy ?? issuer];
    return json(response, 200, { resource: url, authorization_servers, scopes_supported: ['read'] });
  }
  const { authorization } = request.headers;
  presented.add(authorization);
  if (request.url !== '/mcp') return void response.writeHead(404).end();
  const body = await bodyOf(request);
  const { grant } = state;
  const where = `resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
  if (grant === null || state.expired || authorization !== `Bearer ${grant.access}` || grant.resource !== url) {
    state.refused += 1;
    return void response.writeHead(401, { 'www-authenticate': `Bearer scope="read", ${where}` }).end();
  }
  const { adminScope } = faults;
  if (body.includes('"admin"') && adminScope !== null && !grant.scope.split(' ').includes(adminScope)) {
    const wants = `Bearer error="insufficient_scope", scope="${adminScope}", ${where}`;
    return void response.writeHead(403, { 'www-authenticate': wants }).end();
  }
  const server = new SdkServer({ name: 'web', version: '1' });
  const run = () => {
    state.runs += 1;
    return { content: [{ type: 'text' as const, text: faults.echoes ? (authorization ?? '') : 'done' }] };
  };
  server.registerTool('echo', { description: 'Says it', inputSchema: {} }, run);
  server.registerTool('admin', { description: 'Does more', inputSchema: {} }, run);
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  await transport.handleRequest(request, response, body === '' ? undefined : JSON.parse(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function listening(answer: Answer): Promise<{ readonly origin: string; close(): Promise<unknown> }> {
  const server: Server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('impossible: a server without a port');
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { origin: `http://127.0.0.1:${address.port}`, close };
}
