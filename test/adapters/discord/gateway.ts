import { randomBytes } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import { WebSocketServer } from 'ws';
import { DispatchFaults } from './gateway-faults.ts';
import { identifyBody, membersBody, parsed, payloads, readyOf, resumeBody, turnedAway } from './gateway-handshake.ts';
import { OP, dispatch, frame, hears, replay, sightOf } from './gateway-session.ts';
import type { Connection, Session } from './gateway-session.ts';
import { wireGuild } from './state-wire-guild.ts';
import { wireMember } from './state-wire.ts';
import type { Event, World } from './state.ts';

export type GatewayOptions = {
  readonly heartbeatMs: number;
  readonly maxConcurrency: number;
  /** The most IDENTIFY requests before the token is reset. Counted since the start; Discord counts 24 hours. */
  readonly identifyLimit: number;
};

export type Identify = {
  readonly at: number;
  readonly intents: number;
  readonly accepted: boolean;
  readonly session: string | null;
};
export type Resume = {
  readonly at: number;
  readonly session: string;
  readonly seq: number;
  /** The number of replayed dispatches; `null`: the session was unknown. */
  readonly replayed: number | null;
  /** True when the client connected to `resume_gateway_url`. */
  readonly viaResumeUrl: boolean;
};

/** Close codes after which a client cannot resume. */
const ENDS_SESSION = new Set([1000, 1001, 4004, 4007, 4009, 4010, 4011, 4012, 4013, 4014]);
const PER_MINUTE = 120;

/** The gateway: sessions, sequence numbers, replay, and faults. */
export class Gateway {
  readonly identifies: Identify[] = [];
  readonly resumes: Resume[] = [];
  readonly #world: World;
  readonly #options: GatewayOptions;
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #connections = new Set<Connection>();
  readonly #sessions = new Map<string, Session>();
  readonly #faults = new DispatchFaults();
  readonly #watch: NodeJS.Timeout;
  #unreachable = false;

  constructor(world: World, options: GatewayOptions) {
    this.#world = world;
    this.#options = options;
    this.#watch = setInterval(() => this.#closeTheDead(), Math.min(options.heartbeatMs, 1000)).unref();
  }

  /** Handles the WebSocket upgrades of an HTTP server. */
  attach(server: Server): void {
    server.on('upgrade', (request: IncomingMessage, socket, head) => {
      const url = new URL(request.url ?? '/', 'http://localhost');
      if (this.#unreachable || !['/', '/resume', '/resume/'].includes(url.pathname)) {
        socket.destroy();
        return;
      }
      if (url.searchParams.has('compress') || url.searchParams.get('encoding') !== 'json') {
        socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
        return;
      }
      this.#sockets.handleUpgrade(request, socket, head, (ws) => {
        const connection: Connection = {
          socket: ws,
          viaResumeUrl: url.pathname.startsWith('/resume'),
          session: null,
          beatAt: Date.now(),
          silent: false,
          received: [],
        };
        this.#welcome(connection, url.searchParams.get('v'));
      });
    });
  }

  /** Returns the answer of GET /gateway/bot. */
  about(): unknown {
    const { identifyLimit: total, maxConcurrency } = this.#options;
    const remaining = Math.max(0, total - this.identifies.length);
    const session_start_limit = { total, remaining, reset_after: 86_400_000, max_concurrency: maxConcurrency };
    return { url: this.#url(), shards: 1, session_start_limit };
  }

  /** Returns the number of connected clients with a session, without silenced clients. */
  get connected(): number {
    return [...this.#connections].filter(({ session, silent }) => session !== null && !silent).length;
  }

  /** Sends an event to all sessions that may receive the event, with the faults of dispatches applied. */
  tell(event: Event): void {
    for (const one of this.#faults.pass(event)) this.#send(one);
  }

  /** Sends the next dispatch of this name twice: at once, or again after the client reconnected. */
  duplicate(t = 'MESSAGE_CREATE', when: 'at-once' | 'after-reconnect' = 'at-once'): void {
    this.#faults.arm(when === 'at-once' ? 'duplicate' : 'duplicate-after-reconnect', t);
  }

  /** Never sends the next dispatch of this name, not even in a replay. */
  drop(t = 'MESSAGE_CREATE'): void {
    this.#faults.arm('drop', t);
  }

  /** Swaps the next two dispatches of this name. */
  reorder(t = 'MESSAGE_CREATE'): void {
    this.#faults.arm('reorder', t);
  }

  /** Breaks all connections without a close frame. Sessions can be resumed. */
  dropSockets(): void {
    for (const { socket } of this.#connections) socket.terminate();
  }

  /** While on: closes all connections and refuses new ones. */
  unreachable(on: boolean): void {
    this.#unreachable = on;
    if (on) this.dropSockets();
  }

  /** Sends opcode 9, Invalid Session. When not resumable, the session is forgotten and never replayed. */
  invalidate(resumable: boolean): void {
    for (const connection of this.#connections) {
      if (!resumable) this.#forget(connection);
      frame(connection, OP.InvalidSession, resumable);
    }
  }

  /** Forgets all sessions without telling clients. A resume gets opcode 9. */
  forgetSessions(): void {
    this.#sessions.clear();
  }

  /** Sends opcode 7, Reconnect, to all clients. */
  askToReconnect(): void {
    for (const connection of this.#connections) frame(connection, OP.Reconnect, null);
  }

  /** Closes all connections with a code. Codes in `ENDS_SESSION` also end the sessions. */
  closeWith(code: number): void {
    for (const connection of this.#connections) this.#close(connection, code);
  }

  /** Makes the present connections half open: nothing is read or sent, and they stay open. */
  silence(): void {
    for (const connection of this.#connections) {
      connection.silent = true;
      connection.socket.pause();
    }
  }

  /** Sends a dispatch with any content, also invalid, to all sessions. */
  odd(t: string, d: unknown): void {
    for (const session of this.#sessions.values()) dispatch(session, t, d);
  }

  /** Sends a frame with any text, also invalid JSON, to all clients. */
  raw(text: string): void {
    for (const { socket } of this.#connections) socket.send(text);
  }

  stop(): void {
    clearInterval(this.#watch);
    this.dropSockets();
    this.#sockets.close();
  }

  #welcome(connection: Connection, version: string | null): void {
    const { socket } = connection;
    this.#connections.add(connection);
    socket.on('close', (code) => this.#left(connection, code));
    socket.on('error', () => socket.terminate());
    socket.on('message', (text: Buffer) => this.#heard(connection, text.toString()));
    if (version !== '10') this.#close(connection, 4012);
    else frame(connection, OP.Hello, { heartbeat_interval: this.#options.heartbeatMs, _trace: [] });
  }

  #heard(connection: Connection, text: string): void {
    if (connection.silent) return;
    const now = Date.now();
    connection.received = [...connection.received.filter((at) => at > now - 60_000), now];
    if (connection.received.length > PER_MINUTE) return this.#close(connection, 4008);
    const payload = payloads.safeParse(parsed(text));
    if (!payload.success) return this.#close(connection, 4002);
    const { op, d } = payload.data;
    if (op === OP.Heartbeat) {
      connection.beatAt = now;
      return frame(connection, OP.HeartbeatAck, null);
    }
    if (op === OP.Identify) return this.#identify(connection, d);
    if (op === OP.Resume) return this.#resume(connection, d);
    if (connection.session === null) return this.#close(connection, 4003);
    if (op === OP.RequestGuildMembers) return this.#members(connection.session, d);
    if (op !== OP.PresenceUpdate && op !== OP.VoiceStateUpdate) this.#close(connection, 4001);
  }

  #identify(connection: Connection, d: unknown): void {
    const body = identifyBody.safeParse(d);
    if (!body.success) return this.#close(connection, 4002);
    if (connection.session !== null) return this.#close(connection, 4005);
    if (this.identifies.length >= this.#options.identifyLimit)
      this.#world.token = randomBytes(32).toString('base64url');
    const { intents, shard = [0, 1] } = body.data;
    const refused = turnedAway(this.#world, body.data);
    const session: Session = { id: randomBytes(16).toString('hex'), intents, seq: 0, told: [], connection };
    this.identifies.push({
      at: Date.now(),
      intents,
      accepted: refused === null,
      session: refused === null ? session.id : null,
    });
    if (refused !== null) return this.#close(connection, refused);
    connection.session = session;
    this.#sessions.set(session.id, session);
    dispatch(session, 'READY', readyOf(this.#world, session, shard));
    const guilds = [...this.#world.guilds.values()].filter(({ joined }) => joined);
    for (const guild of guilds) dispatch(session, 'GUILD_CREATE', wireGuild(this.#world, guild));
    this.#sendAgain();
  }

  #resume(connection: Connection, d: unknown): void {
    const body = resumeBody.safeParse(d);
    if (!body.success) return this.#close(connection, 4002);
    const { token, session_id: id, seq } = body.data;
    const { viaResumeUrl } = connection;
    const session = this.#sessions.get(id);
    const note = { at: Date.now(), session: id, seq, viaResumeUrl };
    if (token !== this.#world.token) return this.#close(connection, 4004);
    if (session === undefined) {
      this.resumes.push({ ...note, replayed: null });
      return frame(connection, OP.InvalidSession, false);
    }
    if (seq > session.seq) return this.#close(connection, 4007);
    if (session.connection !== null && session.connection !== connection) session.connection.socket.terminate();
    session.connection = connection;
    connection.session = session;
    this.resumes.push({ ...note, replayed: replay(session, seq) });
    dispatch(session, 'RESUMED', { _trace: [] });
    this.#sendAgain();
  }

  #members(session: Session, d: unknown): void {
    const body = membersBody.safeParse(d);
    const guild = body.success ? this.#world.guilds.get(body.data.guild_id) : undefined;
    if (!body.success || guild === undefined) return;
    const members = [...guild.members.values()].map((member) => wireMember(this.#world, member));
    const chunk = { guild_id: guild.id, members, chunk_index: 0, chunk_count: 1, nonce: body.data.nonce };
    dispatch(session, 'GUILD_MEMBERS_CHUNK', chunk);
  }

  #send(event: Event): void {
    for (const session of this.#sessions.values()) {
      if (hears(this.#world, session, event)) dispatch(session, event.t, event.render(sightOf(session)));
    }
  }

  #sendAgain(): void {
    for (const event of this.#faults.afterReconnect()) this.#send(event);
  }

  #close(connection: Connection, code: number): void {
    if (ENDS_SESSION.has(code)) this.#forget(connection);
    connection.socket.close(code);
  }

  #left(connection: Connection, code: number): void {
    this.#connections.delete(connection);
    if (connection.session?.connection !== connection) return;
    connection.session.connection = null;
    if (code === 1000 || code === 1001) this.#sessions.delete(connection.session.id);
  }

  #forget(connection: Connection): void {
    if (connection.session !== null) this.#sessions.delete(connection.session.id);
    connection.session = null;
  }

  #closeTheDead(): void {
    const before = Date.now() - 1.5 * this.#options.heartbeatMs - 1000;
    for (const connection of this.#connections) {
      if (connection.beatAt < before && !connection.silent) this.#close(connection, 4009);
    }
  }

  #url(): string {
    return this.#world.origin.replace('http:', 'ws:');
  }
}
