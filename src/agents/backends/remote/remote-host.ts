import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import {
  guardServer,
  isLoopback,
  listenError,
  listenOn,
  refuseUpgrade,
  reply,
  targetOf,
} from '../../../lib/guarded-server.ts';
import type { UpgradeRefusal } from '../../../lib/guarded-server.ts';
import type { AgentId, ChannelId } from '../../../turns/floor/settings.ts';
import { BoundedMap } from '../../../lib/keyed.ts';
import type { Clock, Timers } from '../../../lib/time.ts';
import type { AgentLog } from '../../session/floor-port.ts';
import { Heartbeat } from '../../session/supervisor.ts';
import { LINK_LIMITS, RemoteLink } from './remote-link.ts';
import type { LinkLimits } from './remote-link.ts';
import type { TokenBook, TokenEntry } from './tokens.ts';
import { TOOL_PATH, ToolEndpoints } from '../../tools/tool-server.ts';
import type { ToolEndpoint } from '../../tools/tool-server.ts';
import { hash } from 'node:crypto';

/** Options of the server that remote agents connect to. Durations are in milliseconds. */
export type RemoteHostOptions = {
  /** The port to listen on. 0 selects a free port. */
  readonly port: number;
  readonly host: string;
  readonly tokens: TokenBook;
  /**
   * Returns whether an agent without a connection slot may connect, such as a worker of a crew without a ticket.
   * Default: false.
   */
  readonly expects?: (agent: AgentId) => boolean;
  /** Origins of browser pages that may connect, such as "https://example.org". All other pages are refused. */
  readonly origins: readonly string[];
  /**
   * Key and certificate chain in PEM. Without them connections are unencrypted, and `host` must be loopback unless
   * `behindProxy` is set.
   */
  readonly tls?: { readonly key: string; readonly cert: string };
  /**
   * True when a proxy in front ends TLS. Then X-Forwarded-Proto must say "https" or "wss", and X-Forwarded-For names
   * the client.
   */
  readonly behindProxy?: boolean;
  /** `heartbeatMs`: interval of pings. `heartbeatTimeoutMs`: an agent silent for this long is disconnected. */
  readonly heartbeatMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly limits?: Partial<LinkLimits & HandshakeLimits> & {
    /** Timeout of a handshake in milliseconds. Default: 5,000. */
    readonly handshakeMs?: number;
  };
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
};

type Caller = { readonly agent: AgentId; readonly entry: TokenEntry };
/** Why a client is refused. `wrong`: the unknown token that it sent. */
type Stranger = UpgradeRefusal & { readonly wrong?: string };
type Attached = { readonly agent: AgentId; readonly link: RemoteLink; readonly sha256: string };

/** The server that remote agents connect to. Listens only after `start`. */
export class RemoteHost {
  readonly #options: RemoteHostOptions;
  readonly #limits: LinkLimits & HandshakeLimits;
  readonly #limiter: HandshakeLimiter;
  readonly #slots = new Map<AgentId, ConnectionSlot>();
  readonly #scopes = new Map<AgentId, readonly ChannelId[] | undefined>();
  readonly #attached = new Set<Attached>();
  readonly #server: Server;
  readonly #sockets: WebSocketServer;
  readonly #endpoints: ToolEndpoints;
  readonly #heartbeat: Heartbeat;
  #starting: Promise<void> | null = null;

  constructor(options: RemoteHostOptions) {
    this.#options = options;
    this.#limits = { ...LINK_LIMITS, ...HANDSHAKE_LIMITS, ...options.limits };
    this.#limiter = new HandshakeLimiter(options.clock, this.#limits);
    this.#server = serverOf(options);
    this.#sockets = new WebSocketServer({
      noServer: true,
      maxPayload: this.#limits.frameBytes,
      perMessageDeflate: false,
    });
    this.#endpoints = new ToolEndpoints({ origins: options.origins, longestCall: this.#limits.frameBytes });
    this.#heartbeat = new Heartbeat({ ...options, beat: (beat) => this.#beat(beat) });
    this.#sockets.on('headers', (headers) => headers.push(`${HEARTBEAT_HEADER}: ${options.heartbeatMs}`));
    const listeners = {
      request: (request: IncomingMessage, response: ServerResponse) => this.#call(request, response),
      upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => this.#upgrade(request, socket, head),
    };
    guardServer(this.#server, listeners, options.log);
  }

  /**
   * Resolves when the server listens. Rejects with a one-line error when it cannot. Later calls return the first
   * result.
   */
  start(): Promise<void> {
    this.#starting ??= this.#listen();
    return this.#starting;
  }

  async #listen(): Promise<void> {
    const { host, port, tls, behindProxy } = this.#options;
    if (tls === undefined && behindProxy !== true && !isLoopback(host)) {
      throw new Error(
        `Remote agents would reach ${host} without encryption. Set remote.tlsCert and remote.tlsKey, or remote.behindProxy if a proxy ends TLS, or listen on 127.0.0.1.`,
      );
    }
    await listenOn(this.#server, { host, port }).catch((error: NodeJS.ErrnoException) => {
      throw listenError(error, { host, port }, 'remote.port');
    });
    this.#heartbeat.start();
  }

  /**
   * Returns the agent's connection slot. Creates it on the first call. From then on the agent may connect; before, only
   * an agent that `expects` allows.
   */
  slot(agent: AgentId): ConnectionSlot {
    const known = this.#slots.get(agent);
    if (known !== undefined) return known;
    const slot = new ConnectionSlot();
    this.#slots.set(agent, slot);
    return slot;
  }

  /**
   * Opens an endpoint with the floor's tools for one session, at the host that the agent connected to. `name`: the name
   * of the tool server in the session to continue. Returns `null` when the host is unknown.
   */
  openToolEndpoint(link: RemoteLink, name?: string): ToolEndpoint | null {
    const { toolsUrl: url } = link;
    return url === null ? null : this.#endpoints.open({ url, name, mayCall: () => link.countMessage() });
  }

  /**
   * Returns whether the token of the agent's newest connection allows the channel. True for a token for all channels,
   * and before the first connection.
   */
  mayServe(agent: AgentId, channel: ChannelId): boolean {
    return this.#scopes.get(agent)?.includes(channel) ?? true;
  }

  /** Closes all connections and stops listening. Connections that stay open for 2 s are cut. */
  async stop(): Promise<void> {
    this.#heartbeat.stop();
    this.#endpoints.closeAll();
    for (const { link } of this.#attached) link.drop('Conch is ending', { code: GOING_AWAY, final: false });
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const forced = this.#options.timers.after(STOP_MS, () => this.#cut());
    await Promise.all([closed, Promise.all([...this.#sockets.clients].map(socketClosed))]);
    forced.cancel();
  }

  #cut(): void {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#server.closeAllConnections();
  }

  async #call(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (targetOf(request) === null) reply(response, { status: 400 });
    else if (request.url !== TOOL_PATH) reply(response, { status: 426, headers: { Upgrade: 'websocket' } });
    else if (isEncrypted(request, this.#options)) await this.#endpoints.answer(request, response);
    else reply(response, { status: 403 });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = callerOf(request, this.#options);
    const caller = this.#authorize(request, address);
    if ('status' in caller) {
      this.#options.log.debug({ address, status: caller.status }, `remote agent refused: ${caller.why}`);
      return refuseUpgrade(socket, caller);
    }
    this.#sockets.handleUpgrade(request, socket, head, (opened) => {
      const { agent, entry } = caller;
      const toolsUrl = toolsUrlOf(request, this.#options);
      const link = new RemoteLink(opened, { ...this.#options, limits: this.#limits, toolsUrl });
      this.#attach({ agent, link, sha256: entry.sha256 }, entry.channels);
    });
  }

  #authorize(request: IncomingMessage, address: string): Caller | UpgradeRefusal {
    const caller = this.#identify(request);
    // Attempts with a valid token are counted per address and token. So other clients of that address cannot use up
    // their limit.
    const retryAfter = this.#limiter.admit('entry' in caller ? `${address} ${caller.entry.sha256}` : address);
    if (retryAfter > 0) {
      const headers = { 'Retry-After': String(retryAfter) };
      return { status: 429, why: `too many attempts, try again in ${retryAfter} s`, headers };
    }
    const { origin } = request.headers;
    const target = targetOf(request);
    if (target === null) return { status: 400, why: `expected the path ${PATH}` };
    if (target.path !== PATH) return { status: 404, why: `agents connect to ${PATH}` };
    if (target.query !== '')
      return { status: 400, why: 'the URL must have no query: send the token in the Authorization header' };
    if (origin !== undefined && !this.#options.origins.includes(origin)) {
      return { status: 403, why: 'pages of this origin may not connect' };
    }
    if (!isEncrypted(request, this.#options)) {
      return { status: 403, why: 'the connection to the proxy is not encrypted' };
    }
    if (!('entry' in caller)) return this.#refused(caller, address);
    if (this.#slots.has(caller.agent) || this.#options.expects?.(caller.agent) === true) return caller;
    return { status: 403, why: `the configuration has no remote agent ${caller.agent}` };
  }

  #refused({ wrong, ...refusal }: Stranger, address: string): UpgradeRefusal {
    if (wrong !== undefined && this.#limiter.wrong(address, wrong)) {
      this.#options.log.warn({ address }, 'locked out after too many wrong tokens');
    }
    return refusal;
  }

  #identify(request: IncomingMessage): Caller | Stranger {
    const [, token] = /^Bearer ([\w~+/.=-]{1,512})$/i.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined) return unauthorized('expected the header "Authorization: Bearer <token>"');
    const { tokens, log } = this.#options;
    try {
      return tokens.holderOf(token) ?? { ...unauthorized('the token is unknown'), wrong: token };
    } catch (error) {
      log.error({ err: error }, 'tokens cannot be read');
      return { status: 503, why: 'tokens cannot be read' };
    }
  }

  #attach(attached: Attached, channels: readonly ChannelId[] | undefined): void {
    const { agent, link } = attached;
    const { log } = this.#options;
    this.#attached.add(attached);
    this.#scopes.set(agent, channels);
    log.info({ agent }, 'remote agent connected');
    void this.#detach(attached);
    this.slot(agent).attach(link);
  }

  async #detach(attached: Attached): Promise<void> {
    const { agent, link } = attached;
    const { why } = await link.closed;
    this.#attached.delete(attached);
    this.#options.log.info({ agent, why }, 'remote agent disconnected');
  }

  #beat(beat: Parameters<RemoteLink['beat']>[0]): void {
    for (const { agent, link, sha256 } of this.#attached) {
      if (this.#isRevoked(agent, sha256)) link.drop('the token was revoked', { code: REVOKED });
      else link.beat(beat);
    }
  }

  /**
   * Returns whether the agent's token changed or was revoked. Returns false when tokens cannot be read, so that no
   * connection is closed by mistake.
   */
  #isRevoked(agent: AgentId, sha256: string): boolean {
    try {
      return this.#options.tokens.digestOf(agent) !== sha256;
    } catch (error) {
      this.#options.log.error({ err: error }, 'tokens cannot be read');
      return false;
    }
  }
}

const PATH = '/agent';
/**
 * The header with the ping interval in milliseconds. An agent that receives nothing for three intervals can assume that
 * the connection is lost.
 */
export const HEARTBEAT_HEADER = 'Conch-Heartbeat-Ms';
const HANDSHAKE_MS = 5_000;
const HANDSHAKE_CHECKS = 5;
const MOST_CONNECTIONS = 10_000;
const STOP_MS = 2_000;
const GOING_AWAY = 1001;
/** The close code for a revoked or replaced token. Reconnecting with that token is pointless. */
export const REVOKED = 4401;

function serverOf({ tls, limits }: RemoteHostOptions): Server {
  const ms = limits?.handshakeMs ?? HANDSHAKE_MS;
  const timeouts = { headersTimeout: ms, requestTimeout: ms, connectionsCheckingInterval: ms / HANDSHAKE_CHECKS };
  const server =
    tls === undefined ? createServer(timeouts) : createTlsServer({ ...timeouts, ...tls, handshakeTimeout: ms });
  server.maxConnections = MOST_CONNECTIONS;
  return server;
}

function unauthorized(why: string): UpgradeRefusal {
  return { status: 401, why, headers: { 'WWW-Authenticate': 'Bearer' } };
}

function socketClosed(socket: { once(event: 'close', listener: () => void): unknown }): Promise<void> {
  return new Promise((resolve) => void socket.once('close', () => resolve()));
}

/** Holds the single connection of one agent. */
export class ConnectionSlot {
  #link: RemoteLink | null = null;
  #arrival = Promise.withResolvers<RemoteLink>();

  /** The open connection. `null` while the agent is disconnected. */
  get link(): RemoteLink | null {
    return this.#link?.open === true ? this.#link : null;
  }

  /** Resolves with the open connection, or with the next one. */
  arrival(): Promise<RemoteLink> {
    const { link } = this;
    return link === null ? this.#arrival.promise : Promise.resolve(link);
  }

  /** Sets the agent's new connection and closes the earlier one. */
  attach(link: RemoteLink): void {
    const before = this.link;
    this.#link = link;
    this.#arrival.resolve(link);
    this.#arrival = Promise.withResolvers<RemoteLink>();
    before?.drop('another connection of the same agent took its place', { code: REPLACED, final: false });
  }
}

/**
 * The close code for a connection that another connection of the same agent replaced. The agent must not reconnect: the
 * two connections would replace each other forever.
 */
export const REPLACED = 4409;

/**
 * Limits of handshakes for one client: an address, or an address with a valid token. Durations are in milliseconds.
 */
type HandshakeLimits = {
  /**
   * How many different wrong tokens within `lockoutMs` lock an address out for `lockoutMs`. Clients with a valid token
   * are not locked out.
   */
  readonly wrongTokens: number;
  readonly lockoutMs: number;
  /** How many handshakes are allowed within `windowMs`. */
  readonly handshakes: number;
  readonly windowMs: number;
};

/** Default limits: 10 wrong tokens lock an address out for 60 s. 60 handshakes are allowed in 10 s. */
export const HANDSHAKE_LIMITS: HandshakeLimits = {
  wrongTokens: 10,
  lockoutMs: 60_000,
  handshakes: 60,
  windowMs: 10_000,
};

type CallerRecord = { since: number; handshakes: number; wrong: Set<string>; wrongSince: number; lockedUntil: number };

/**
 * Counts handshakes and wrong tokens in memory. Different wrong tokens count as guesses. A wrong token that is sent
 * again counts once: its sender is a misconfigured agent.
 */
export class HandshakeLimiter {
  readonly #clock: Clock;
  readonly #limits: HandshakeLimits;
  readonly #callers = new BoundedMap<string, CallerRecord>(REMEMBERED);

  constructor(clock: Clock, limits: HandshakeLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Counts an attempt to connect. Returns the seconds until the client may try again; 0 when it may connect now. */
  admit(by: string): number {
    const now = this.#clock.now();
    const caller = this.#caller(by, now);
    if (now < caller.lockedUntil) return secondsUntil(caller.lockedUntil, now);
    if (now - caller.since >= this.#limits.windowMs) {
      caller.since = now;
      caller.handshakes = 0;
    }
    caller.handshakes += 1;
    return caller.handshakes > this.#limits.handshakes ? secondsUntil(caller.since + this.#limits.windowMs, now) : 0;
  }

  /** Counts the different wrong tokens of an address. Returns whether this token locks the address out. */
  wrong(address: string, token: string): boolean {
    const now = this.#clock.now();
    const { wrongTokens, lockoutMs } = this.#limits;
    const caller = this.#caller(address, now);
    if (now - caller.wrongSince >= lockoutMs) {
      caller.wrong.clear();
      caller.wrongSince = now;
    }
    caller.wrong.add(hash('sha256', token));
    if (caller.wrong.size < wrongTokens) return false;
    caller.wrong.clear();
    caller.lockedUntil = now + lockoutMs;
    return true;
  }

  #caller(by: string, now: number): CallerRecord {
    const known = this.#callers.get(by);
    if (known !== undefined) return known;
    const caller = { since: now, handshakes: 0, wrong: new Set<string>(), wrongSince: now, lockedUntil: 0 };
    this.#callers.set(by, caller);
    return caller;
  }
}

const REMEMBERED = 10_000;

function secondsUntil(at: number, now: number): number {
  return Math.max(1, Math.ceil((at - now) / 1_000));
}

type Ingress = { readonly tls?: object } & Pick<RemoteHostOptions, 'behindProxy'>;

type Headers = Pick<IncomingMessage, 'headers'>;

/**
 * Returns whether the client's connection to the proxy is encrypted. Always true without a proxy: `start` then required
 * TLS or a loopback address.
 */
function isEncrypted({ headers }: Headers, { behindProxy }: Ingress): boolean {
  // Traefik sends "wss" for a WebSocket. Of several proxies the one nearest to Conch counts.
  return behindProxy !== true || /^(?:https|wss)$/i.test(lastOf(headers['x-forwarded-proto']) ?? '');
}

function callerOf({ headers, socket }: IncomingMessage, { behindProxy }: Ingress): string {
  const forwarded = behindProxy === true ? headers['x-forwarded-for'] : undefined;
  return lastOf(forwarded) ?? socket.remoteAddress ?? 'unknown';
}

/**
 * Returns the URL of the floor's tools: the host and port that the client connected to. `null` when its headers name no
 * valid host.
 */
export function toolsUrlOf({ headers }: Headers, { tls, behindProxy }: Ingress): string | null {
  const forwarded = behindProxy === true ? lastOf(headers['x-forwarded-host']) : undefined;
  const host = forwarded ?? headers.host ?? '';
  const url = `${tls !== undefined || behindProxy === true ? 'https' : 'http'}://${host}${TOOL_PATH}`;
  return HOST.test(host) && URL.canParse(url) ? url : null;
}

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** Returns the last value of a header, which the nearest proxy added. */
function lastOf(header: string | string[] | undefined): string | undefined {
  return [header].flat().at(-1)?.split(',').at(-1)?.trim();
}
