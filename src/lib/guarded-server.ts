import { BlockList, isIPv6 } from 'node:net';
import { STATUS_CODES, createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { WebSocket } from 'ws';

/** Where a fault is told, once, with what it was. */
export type FaultLog = { error(fields: object, message: string): void };

/** What answers the callers of a server; both may be asynchronous. */
export type Listeners = {
  readonly request: (request: IncomingMessage, response: ServerResponse) => unknown;
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => unknown;
};

/** Why an upgrade is refused: an HTTP status, a line for people, and headers beside the usual ones. */
export type UpgradeRefusal = {
  readonly status: number;
  readonly why: string;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Takes the events of a stream as they happen; one without an `id` cannot be asked for again. */
export type EventSink = (event: { readonly id: number | null; readonly name: string; readonly data: object }) => void;

/** How long a caller may take to send the head of a request, and all of it, in milliseconds. */
type RequestLimits = { readonly headMs: number; readonly wholeMs: number };

/** As long as Node's own servers wait. */
const REQUEST_LIMITS: RequestLimits = { headMs: 60_000, wholeMs: 300_000 };

/**
 * Makes a server that cuts off callers who do not send their request in time, and that does nothing while nobody calls: Node's own
 * servers look for such callers every half minute for ever.
 */
export function createQuietServer(limits: Partial<RequestLimits> = {}): Server {
  const { headMs, wholeMs } = { ...REQUEST_LIMITS, ...limits };
  const server = createServer({ connectionsCheckingInterval: NEVER_MS });
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

/** Listens; returns the port that was taken (`port` 0 takes a free one). Rejects with Node's error. */
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

/** Says why a server cannot listen, and which setting names another port. */
export function listenError(error: NodeJS.ErrnoException, { host, port }: Address, setting: string): Error {
  const taken = `Port ${port} is taken: another program listens on ${host}:${port}. End it, or set ${setting} to a free port.`;
  const refused = `Port ${port} cannot be used: ${error.message}. Set ${setting} to another port.`;
  return new Error(error.code === 'EADDRINUSE' ? taken : refused, { cause: error });
}

/** Cuts off every connection of a server and stops listening. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}

/** An answer to a request: a text, or an object as JSON. */
export type Reply = {
  readonly status: number;
  readonly body?: string | object;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Answers once: does nothing when the answer has begun or the caller has gone. */
export function reply(response: ServerResponse, { status, body, headers }: Reply): void {
  if (response.headersSent || response.destroyed) return;
  if (body === undefined) return void response.writeHead(status, headers).end();
  const type = `${typeof body === 'string' ? 'text/plain' : 'application/json'}; charset=utf-8`;
  response.writeHead(status, { 'Content-Type': type, 'Cache-Control': 'no-store', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Reads the body of a request; `null` when it is longer than `limit` bytes. The connection stays, so that the caller hears the answer. */
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

/** The value of a JSON text; `null` when the text is not JSON. */
export function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The longest time that a timer of the platform takes, in milliseconds. */
const NEVER_MS = 2_147_483_647;

/**
 * Lets listeners answer a server's callers so that no caller can end the program: a fault of theirs is logged and refuses the
 * one caller, with 500 (400 for an upgrade), or with the end of its connection when an answer was already begun.
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
    // A file that cannot be read any more tells only its own stream, never the response that it is piped into.
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
 * Makes the guard of one WebSocket, which wraps its listeners: what one of them throws, or rejects with, is handed to `fault`
 * and closes this socket alone, with 1011. The socket's own errors end nothing but the socket.
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

/** Wraps one listener. */
type Guarded = <A extends readonly unknown[]>(listener: (...given: A) => unknown) => (...given: A) => void;

/** Closes a WebSocket, and by force when the other side does not answer within a second; a long reason is cut. */
export function closeSocket(socket: WebSocket, code: number, why: string): void {
  socket.close(code, Buffer.from(why).subarray(0, LONGEST_REASON).toString());
  setTimeout(() => socket.terminate(), CLOSE_MS).unref();
}

/** Answers an upgrade with a refusal and ends the connection. */
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

/** The path and the query of a request; `null` unless its target is a path such as "/agent?x". Never throws. */
export function targetOf({ url = '' }: IncomingMessage): { readonly path: string; readonly query: string } | null {
  if (!ORIGIN_FORM.test(url)) return null;
  const mark = url.indexOf('?');
  return mark === -1 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark + 1) };
}

/** Whether only this machine reaches a host, by its name or address. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  const loopback = new BlockList();
  loopback.addSubnet('127.0.0.0', 8);
  loopback.addAddress('::1', 'ipv6');
  return loopback.check(host, isIPv6(host) ? 'ipv6' : 'ipv4');
}

const ORIGIN_FORM = /^\/(?!\/)[^\s#]*$/;
const INTERNAL_ERROR = 1011;
const CLOSE_MS = 1_000;
/** A close frame holds 123 bytes of text; cutting a character in two may add two. */
const LONGEST_REASON = 120;

async function attempt(run: () => unknown, fail: (error: unknown) => void): Promise<void> {
  try {
    await run();
  } catch (error) {
    fail(error);
  }
}

/** Whether the caller has left in the middle of its request: what fails then is no fault of ours. */
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
