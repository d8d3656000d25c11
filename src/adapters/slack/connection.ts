import type { WebClient } from '@slack/web-api';
import { SocketModeClient } from '@slack/socket-mode';
import { z } from 'zod';
import { backoffMs, delay, LATE, withinMs } from '../../lib/retry.ts';
import { AdapterError } from '../port.ts';
import type { AdapterParts } from '../port.ts';
import { reasonOf, CONNECT_RETRY, createConnectRetry } from '../delivery/connect-retry.ts';
import { NEW_SECRET, brokenBy, clientOptions, slackError, slackLogger, untilSlack } from './client.ts';
import type { Ack } from './commands.ts';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { HTTPModuleFunctions, isRawBodyError } from '@slack/bolt';
import { defined, parsedJson } from '../../lib/defined.ts';
import { closeServer, createQuietServer, guardServer, listenOn, reply, targetOf } from '../../lib/guarded-server.ts';

/** How Slack delivers events: over sockets that Conch opens, or as signed HTTP requests. */
export type ConnectionMode =
  | { readonly mode: 'socket'; readonly connections: number }
  | { readonly mode: 'http'; readonly host: string; readonly port: number; readonly path: string };

type ConnectionPorts = Pick<AdapterParts, 'clock' | 'timers' | 'log'> & {
  readonly connection: ConnectionMode;
  readonly appToken: string | null;
  readonly signingSecret: string | null;
  readonly apiUrl: string | null;
  readonly web: WebClient;
  readonly signal: AbortSignal;
  /** Handles a payload and acknowledges it. Rejects when Slack must send the payload again. */
  readonly take: (body: unknown, ack: Ack) => Promise<void>;
  readonly onLost: () => void;
  /** Called when connections work again after an outage, and when one of several was lost: events may be missing. */
  readonly onBack: () => void;
  readonly broken: (error: AdapterError) => void;
};

/** The connection that receives Slack's events. */
export type Connection = {
  /**
   * Connects, and resolves when events can come in. Rejects with an `AdapterError` when Slack refuses the app or the
   * setup is wrong. Can reject with another error when `stop` comes first.
   */
  start(): Promise<void>;
  stop(): Promise<void>;
};

const CHECK_MS = 60_000;

/**
 * Receives events by Slack's Socket Mode client or Bolt's request checks. Bolt's App is not used: it acknowledges an
 * event before Conch has stored it.
 */
export function createConnection(ports: ConnectionPorts): Connection {
  const { connection, log, take } = ports;
  const sockets = new Sockets({
    ...ports,
    take: (body, ack) => {
      take(body, ack).catch((error: unknown) => log.warn({ why: reasonOf(error) }, 'a payload was not acknowledged'));
    },
  });
  let server: Server | null = null;
  return {
    async start() {
      if (connection.mode === 'socket') await sockets.open(connection.connections);
      else server = await receiveHttp({ ...ports, ...connection, signingSecret: requireSecret(ports.signingSecret) });
      watch(ports).catch(() => undefined);
    },
    async stop() {
      sockets.close();
      if (server !== null) await closeServer(server);
      server = null;
    },
  };
}

function requireSecret(signingSecret: string | null): string {
  if (signingSecret !== null && signingSecret !== '') return signingSecret;
  throw slackError('Requests of Slack cannot be checked without SLACK_SIGNING_SECRET', NEW_SECRET.SLACK_SIGNING_SECRET);
}

/**
 * Tests the bot token every minute, and reports a token that Slack refuses. Slack does not report every such token, and
 * events come without the bot token.
 */
async function watch(ports: ConnectionPorts): Promise<void> {
  for (;;) {
    await delay(CHECK_MS, ports);
    try {
      await ports.web.auth.test();
    } catch (error) {
      const broken = brokenBy(error, 'SLACK_BOT_TOKEN');
      if (broken !== null && !ports.signal.aborted) return ports.broken(broken);
    }
  }
}

type SocketsPorts = Omit<ConnectionPorts, 'connection' | 'signingSecret' | 'web' | 'take'> & {
  readonly take: (body: unknown, ack: Ack) => void;
};

/**
 * A connection that is lost within this many milliseconds counts as a failed attempt: the next attempt waits longer.
 */
const GOOD_AFTER_MS = 5_000;

/** Keeps one or several sockets open. While Slack renews one of several, the others still receive events. */
class Sockets {
  readonly #ports: SocketsPorts;
  readonly #live = new Set<Socket>();
  readonly #firstOpened = Promise.withResolvers<void>();
  #isStarted = false;
  #isClosed = false;

  constructor(ports: SocketsPorts) {
    this.#ports = ports;
    this.#firstOpened.promise.catch(() => undefined);
  }

  async open(count: number): Promise<void> {
    const { appToken } = this.#ports;
    if (appToken === null || appToken === '')
      throw slackError('Socket Mode needs SLACK_APP_TOKEN', NEW_SECRET.SLACK_APP_TOKEN);
    for (let number = 1; number <= count; number += 1) {
      this.#keep(number, appToken).catch((error: unknown) => this.#fail(error));
    }
    await this.#firstOpened.promise;
  }

  close(): void {
    this.#isClosed = true;
    for (const socket of this.#live) socket.close();
    this.#live.clear();
    this.#firstOpened.reject(new Error('stopped before Slack answered'));
  }

  /** Keeps one socket open until `close`. A socket that Slack renews stays open until the next one works. */
  async #keep(number: number, appToken: string): Promise<void> {
    const { clock, log } = this.#ports;
    const connectWithRetry = createConnectRetry('Slack', this.#ports);
    let previousSocket: Socket | null = null;
    let failures = 0;
    while (!this.#isClosed) {
      const socket = await connectWithRetry(
        () => openSocket({ ...this.#ports, appToken }),
        untilSlack('SLACK_APP_TOKEN'),
      );
      previousSocket?.close();
      if (this.#isClosed) return socket.close();
      const openedAt = clock.now();
      this.#addLive(socket);
      const end = await socket.ended;
      if (end === 'disabled') throw slackError('Socket Mode is switched off for the Slack app', SWITCH_ON);
      this.#removeLive(socket, end);
      log.debug({ connection: number, end }, 'a connection to Slack ended');
      previousSocket = socket;
      if (end === 'lost') socket.close();
      failures = end === 'refresh' || clock.now() - openedAt >= GOOD_AFTER_MS ? 0 : failures + 1;
      await delay(backoffMs(CONNECT_RETRY, failures), this.#ports);
    }
    previousSocket?.close();
  }

  #addLive(socket: Socket): void {
    this.#live.add(socket);
    if (this.#isStarted && this.#live.size === 1) this.#ports.onBack();
    this.#isStarted = true;
    this.#firstOpened.resolve();
  }

  /**
   * Called when a socket ended. Slack sends a lost socket's events again, but perhaps minutes later: the history is
   * read.
   */
  #removeLive(socket: Socket, end: 'refresh' | 'lost'): void {
    this.#live.delete(socket);
    if (this.#isClosed) return;
    if (this.#live.size === 0) this.#ports.onLost();
    else if (end === 'lost') this.#ports.onBack();
  }

  #fail(error: unknown): void {
    const isStarted = this.#isStarted;
    this.#firstOpened.reject(error);
    if (this.#isClosed || this.#ports.signal.aborted) return;
    this.close();
    if (!isStarted) return;
    if (!(error instanceof AdapterError)) throw error;
    this.#ports.broken(error);
  }
}

const SWITCH_ON = 'Switch it on on the page "Socket Mode" of your app, or set adapters.slack.mode to "http".';

type SocketPorts = Pick<SocketsPorts, 'apiUrl' | 'timers' | 'log' | 'take'> & { readonly appToken: string };

/**
 * Why a socket ended. `refresh`: Slack wants a new one. `disabled`: Socket Mode is off. `lost`: the connection broke,
 * or Slack reports too many sockets.
 */
type End = 'refresh' | 'disabled' | 'lost';

type Socket = {
  /** Resolves when the socket ends. After `refresh`, the socket can still deliver payloads until it is closed. */
  readonly ended: Promise<End>;
  close(): void;
};

const HELLO_WITHIN_MS = 20_000;

async function openSocket(ports: SocketPorts): Promise<Socket> {
  const client = new Client(ports);
  client.on('slack_event', (event: { readonly body: unknown; readonly ack: Ack }) =>
    ports.take(event.body, async (replyBody) => event.ack(replyBody ?? {})),
  );
  const ended = new Promise<End>((resolve) => {
    client.on('told', resolve);
    client.on('disconnected', () => resolve('lost'));
  });
  const close = (): void => void client.disconnect().catch(() => undefined);
  try {
    const end = await withinMs(HELLO_WITHIN_MS, Promise.race([client.start().then(() => null), ended]), ports.timers);
    if (end === null || end === 'disabled') return { ended, close };
    throw end === LATE ? new Error(`no greeting from Slack within ${HELLO_WITHIN_MS / 1_000} s`) : NO_GREETING;
  } catch (error) {
    close();
    throw error instanceof Error ? error : NO_GREETING;
  }
}

const NO_GREETING = new Error('the connection closed before Slack greeted');
const frameSchema = z.looseObject({ type: z.string(), reason: z.string().nullish(), payload: z.unknown().optional() });
const ENDS: Readonly<Record<string, End>> = { link_disabled: 'disabled', too_many_websockets: 'lost' };
const limitedSchema = z.looseObject({ type: z.literal('app_rate_limited') });

/**
 * Slack's client for one connection, without its reconnects. This class checks each frame first, because an unexpected
 * payload would end the program. The socket stays open when Slack asks for a new one.
 */
class Client extends SocketModeClient {
  readonly #ports: SocketPorts;

  constructor(ports: SocketPorts) {
    super({
      appToken: ports.appToken,
      autoReconnectEnabled: false,
      logger: slackLogger((words) => ports.log.debug({ words: String(words).slice(0, 300) }, "Slack's client")),
      clientOptions: clientOptions(ports.apiUrl),
    });
    this.#ports = ports;
  }

  protected override async onWebSocketMessage(raw: string | ArrayBuffer, isBinary: boolean): Promise<void> {
    const frame = isBinary || typeof raw !== 'string' ? null : parsedJson(raw, frameSchema);
    if (frame === null) return this.#ports.log.warn('a frame of Slack was not understood');
    if (frame.type === 'disconnect') {
      this.emit('told', ENDS[frame.reason ?? ''] ?? 'refresh');
      return;
    }
    if (limitedSchema.safeParse(frame.payload).success) return this.#ports.take(frame.payload, async () => undefined);
    try {
      await super.onWebSocketMessage(raw, isBinary);
    } catch {
      this.#ports.log.warn({ type: frame.type }, 'a payload of Slack was not understood');
    }
  }
}

type HttpReceiverPorts = Pick<ConnectionPorts, 'timers' | 'log' | 'take'> &
  Extract<ConnectionMode, { mode: 'http' }> & { readonly signingSecret: string };

const BODY_LIMIT = 1_048_576;
/** The time in which Slack wants an answer to its request, in milliseconds. */
const ANSWER_WITHIN_MS = 3_000;

const anyValue = z.unknown().optional();
const plainSchema = z.looseObject({ ssl_check: anyValue, type: anyValue, challenge: anyValue });

async function receiveHttp(ports: HttpReceiverPorts): Promise<Server> {
  const server = createQuietServer();
  guardServer(server, { request: (request, response) => answer(ports, request, response) }, ports.log);
  await listenOn(server, ports).catch((cause: Error) => {
    const what = `Slack's requests cannot be taken on ${ports.host}:${ports.port} (${cause.message})`;
    throw slackError(what, 'Choose another adapters.slack.port.', cause);
  });
  return server;
}

async function answer(ports: HttpReceiverPorts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const target = targetOf(request);
  if (target === null) return reply(response, { status: 400 });
  if (target.path !== ports.path) return reply(response, { status: 404 });
  if (request.method !== 'POST') return reply(response, { status: 405 });
  const body = await bodyOf(ports, request);
  if (!body.ok) return reply(response, { status: body.status });
  const plain = plainSchema.safeParse(body.value).data;
  if (plain?.ssl_check !== undefined) return reply(response, { status: 200 });
  if (plain?.type === 'url_verification') return reply(response, { status: 200, body: { challenge: plain.challenge } });
  const late = ports.timers.after(ANSWER_WITHIN_MS, () => reply(response, { status: 503 }));
  try {
    await ports.take(body.value, async (acked) => reply(response, { status: 200, ...defined({ body: acked }) }));
  } catch (error) {
    ports.log.warn({ why: reasonOf(error) }, 'a request of Slack failed');
    reply(response, { status: 500 });
  } finally {
    late.cancel();
  }
  reply(response, { status: 200 });
}

type Body = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly status: number };

async function bodyOf({ signingSecret, log }: HttpReceiverPorts, request: IncomingMessage): Promise<Body> {
  try {
    const options = { enabled: true, signingSecret, bodyLimit: BODY_LIMIT };
    const verified = await HTTPModuleFunctions.parseAndVerifyHTTPRequest(options, request);
    return { ok: true, value: HTTPModuleFunctions.parseHTTPRequestBody(verified) };
  } catch (error) {
    // The body is parsed after its signature was checked.
    if (error instanceof SyntaxError) return { ok: false, status: 400 };
    if (isRawBodyError(error)) return { ok: false, status: 413 };
    log.warn({ why: reasonOf(error) }, 'a request was not signed by Slack');
    return { ok: false, status: 401 };
  }
}
