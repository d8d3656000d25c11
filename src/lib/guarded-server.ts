import { LONGEST_TIMER_MS } from './time.ts';
import { BlockList, isIPv6 } from 'node:net';
import { STATUS_CODES, createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { WebSocket } from 'ws';

/** Log for faults of a server and its listeners. */
export type FaultLog = { error(fields: object, message: string): void };

/** The listeners of a server. Both may be asynchronous. */
export type Listeners = {
  readonly request: (request: IncomingMessage, response: ServerResponse) => unknown;
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => unknown;
};

/** A refusal of an upgrade or of a request that timed out: an HTTP status, a line for people, additional headers. */
export type UpgradeRefusal = {
  readonly status: number;
  readonly why: string;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Receives the events of a stream. A reader cannot continue after an event whose `id` is `null`. */
export type EventSink = (event: { readonly id: number | null; readonly name: string; readonly data: object }) => void;

/**
 * Timeouts in milliseconds. `headMs`: for the head of a request, and for an idle connection, which Node may close
 * earlier. `wholeMs`: from the end of the head to the end of the request.
 */
type RequestLimits = { readonly headMs: number; readonly wholeMs: number };

/** The timeouts of Node's own servers. */
const REQUEST_LIMITS: RequestLimits = { headMs: 60_000, wholeMs: 300_000 };

/**
 * Makes a server that closes connections whose request times out, and idle ones. Nothing is checked while nobody is
 * connected; Node's own servers check every 30 s.
 */
export function createQuietServer(limits: Partial<RequestLimits> = {}): Server {
  const { headMs, wholeMs } = { ...REQUEST_LIMITS, ...limits };
  const server = createServer({ connectionsCheckingInterval: LONGEST_TIMER_MS });
  const timers = new WeakMap<Duplex, NodeJS.Timeout>();
  const after = (socket: Duplex, ms: number, cut: () => void): void => {
    clearTimeout(timers.get(socket));
    if (!socket.destroyed) timers.set(socket, setTimeout(cut, ms).unref());
  };
  const refuse = (socket: Duplex): void => refuseUpgrade(socket, { status: 408, why: 'the request took too long' });
  server.on('connection', (socket) => {
    after(socket, headMs, () => refuse(socket));
    socket.once('close', () => clearTimeout(timers.get(socket)));
  });
  server.on('request', (request, response) => {
    const { socket } = request;
    after(socket, wholeMs, () => void (request.complete || refuse(socket)));
    response.once('close', () => after(socket, headMs, () => socket.destroy()));
  });
  server.on('upgrade', (_request, socket) => clearTimeout(timers.get(socket)));
  return server;
}

/** Listens and returns the port. Port 0 takes a free one. Rejects with Node's error. */
export function listenOn(server: Server, { host, port }: Address): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve(portOf(server));
    });
  });
}

type Address = { readonly host: string; readonly port: number };

/** The port of a server that listens. */
export function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('impossible: a server without a port');
  return address.port;
}

/** Returns the error of a server that cannot listen. It names the setting with which to choose another port. */
export function listenError(error: NodeJS.ErrnoException, { host, port }: Address, setting: string): Error {
  const taken = `Port ${port} is taken: another program listens on ${host}:${port}. End it, or set ${setting} to a free port.`;
  const refused = `Port ${port} cannot be used: ${error.message}. Set ${setting} to another port.`;
  return new Error(error.code === 'EADDRINUSE' ? taken : refused, { cause: error });
}

/**
 * Stops listening and closes the connections of a server, except upgraded ones. Resolves when upgraded connections have
 * ended, too.
 */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}

/** An answer to a request. `body`: a text, or an object that is sent as JSON. */
export type Reply = {
  readonly status: number;
  readonly body?: string | object;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Sends an answer. Does nothing when an answer was begun or the client has disconnected. */
export function reply(response: ServerResponse, { status, body, headers }: Reply): void {
  if (response.headersSent || response.destroyed) return;
  if (body === undefined) return void response.writeHead(status, headers).end();
  const type = `${typeof body === 'string' ? 'text/plain' : 'application/json'}; charset=utf-8`;
  response.writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/**
 * Reads the body of a request; `null` when it is longer than `limit` bytes. The connection stays open for the answer.
 */
export async function readBody(request: IncomingMessage, limit: number): Promise<string | null> {
  if (Number(request.headers['content-length'] ?? 0) > limit) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * Attaches listeners to a server so that a fault in them cannot end Conch. A fault is logged and answered with 500 (400
 * for an upgrade). If an answer was begun, the connection is closed. Not logged: faults of requests that the client
 * broke off before their end.
 */
export function guardServer(server: Server, { request: answer, upgrade }: Listeners, log: FaultLog): void {
  server.on('error', (error) => {
    if (server.listening) log.error({ err: error }, 'a connection could not be accepted');
  });
  server.on('request', (request, response) => {
    const fail = (error: unknown): void => {
      if (!isGone(request)) log.error({ err: error }, 'a request could not be answered');
      failWith500(response);
    };
    request.on('error', nothing);
    response.on('error', () => response.destroy());
    // An error of a stream that is piped into the response is emitted on that stream only.
    response.on('pipe', (source: Readable) => source.on('error', fail));
    void attempt(() => answer(request, response), fail);
  });
  if (upgrade === undefined) return;
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    void attempt(
      () => upgrade(request, socket, head),
      (error) => {
        log.error({ err: error }, 'an upgrade could not be answered');
        if (hasAnswered(socket)) socket.destroy();
        else refuseUpgrade(socket, { status: 400, why: 'this request could not be understood' });
      },
    );
  });
}

/**
 * Returns a wrapper for the listeners of one WebSocket. An error of a listener goes to `fault` and closes this socket
 * with 1011. The socket's own errors are ignored.
 */
export function guardSocket(socket: WebSocket, fault: (error: unknown) => void): Guarded {
  socket.on('error', nothing);
  const fail = (error: unknown): void => {
    fault(error);
    closeSocket(socket, INTERNAL_ERROR, 'internal error');
  };
  return (listener) =>
    (...given) =>
      void attempt(() => listener(...given), fail);
}

type Guarded = <A extends readonly unknown[]>(listener: (...given: A) => unknown) => (...given: A) => void;

/** Closes a WebSocket, by force if the other side does not answer within 1 s. A long reason is cut. */
export function closeSocket(socket: WebSocket, code: number, why: string): void {
  socket.close(code, Buffer.from(why).subarray(0, LONGEST_REASON).toString());
  setTimeout(() => socket.terminate(), CLOSE_MS).unref();
}

/** Answers an upgrade, or a request that timed out, with a refusal and ends the connection. */
export function refuseUpgrade(socket: Duplex, { status, why, headers = {} }: UpgradeRefusal): void {
  const body = `${why}\n`;
  const usual = {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  };
  const lines = Object.entries({ ...usual, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.once('finish', () => socket.destroy());
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n'));
}

/** The path and query of a request; `null` unless its target is a path such as "/agent?x". */
export function targetOf({ url = '' }: IncomingMessage): { readonly path: string; readonly query: string } | null {
  if (!ORIGIN_FORM.test(url)) return null;
  const mark = url.indexOf('?');
  return mark === -1 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark + 1) };
}

/** True for `localhost` and for loopback addresses. An IPv6 address may have brackets, as in a URL. */
export function isLoopback(named: string): boolean {
  const host = named.replaceAll(/^\[|\]$/g, '');
  if (host === 'localhost') return true;
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8);
  loopback.addAddress('::1', 'ipv6');
  return loopback.check(host, isIPv6(host) ? 'ipv6' : 'ipv4');
}

const ORIGIN_FORM = /^\/(?!\/)[^\s#]*$/;
const INTERNAL_ERROR = 1011;
const CLOSE_MS = 1_000;
/** A close frame holds 123 bytes of text. Cutting inside a character may add two. */
const LONGEST_REASON = 120;

async function attempt(run: () => unknown, fail: (error: unknown) => void): Promise<void> {
  try {
    await run();
  } catch (error) {
    fail(error);
  }
}

function isGone(request: IncomingMessage): boolean {
  return request.destroyed && !request.complete;
}

function failWith500(response: ServerResponse): void {
  if (response.headersSent || response.destroyed) response.destroy();
  else response.writeHead(500, { Connection: 'close' }).end();
}

function hasAnswered(socket: Duplex): boolean {
  return !('bytesWritten' in socket) || socket.bytesWritten !== 0;
}

function nothing(): void {}
