import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { origin } from './events.ts';
import { isObject } from './state-text.ts';
import { nextId } from './state.ts';
import type { Json, World } from './state.ts';

/** Connections beyond this number are closed with `too_many_websockets`. */
const MOST_CONNECTIONS = 10;
const PING_MS = 5_000;
/** After this time Slack cuts a silent connection. */
const SILENCE_MS = 30_000;

/** One Socket Mode connection. */
export type Connection = {
  readonly id: number;
  readonly socket: WebSocket;
  /** True once it was asked to close: it gets no new events. */
  leaving: boolean;
  /** Half open: Slack neither reads from it nor sends over it. */
  silent: boolean;
};

export type DisconnectReason = 'warning' | 'refresh_requested' | 'link_disabled' | 'too_many_websockets';

export type Sockets = {
  /** Returns a URL that opens one connection, once. */
  ticketUrl(): string;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Returns the connections that can get events. */
  open(): readonly Connection[];
  /** Sends over the next connection in turn, if possible not over `other`. `null`: there is no connection. */
  send(frame: Json, other?: Connection): Connection | null;
  /** Asks one connection (by its position) or all to disconnect, and closes them after `afterMs`. */
  disconnect(reason: DisconnectReason, options?: { readonly which?: number; readonly afterMs?: number }): void;
  /** Cuts one or all connections without a close frame. */
  drop(which?: number): void;
  /** Makes one or all connections silent: they neither read, send nor close. */
  silence(which?: number): void;
  /** Returns the number of connections opened so far. */
  opened(): number;
  /** Returns the number of connections that Slack closed because the client did not. */
  abandoned(): number;
  close(): void;
};

/** Creates the Socket Mode side of Slack. `heard` gets every acknowledgement with its envelope id. */
export function createSockets(world: World, heard: (envelopeId: string, payload: unknown) => void): Sockets {
  const server = new WebSocketServer({ noServer: true });
  const tickets = new Set<string>();
  const connections: Connection[] = [];
  const timers = new Set<NodeJS.Timeout>();
  let opened = 0;
  let abandoned = 0;
  let turn = 0;
  const pinging = setInterval(() => {
    for (const { socket, silent } of connections) if (!silent && socket.readyState === socket.OPEN) socket.ping();
  }, PING_MS);

  const open = () => connections.filter(({ socket, leaving }) => !leaving && socket.readyState === socket.OPEN);
  const chosen = (which?: number) => (which === undefined ? [...connections] : open().slice(which, which + 1));

  function disconnect(one: Connection, reason: DisconnectReason, afterMs: number): void {
    one.leaving = true;
    write(one, { type: 'disconnect', reason, debug_info: { host: 'loopback' } });
    later(afterMs, () => {
      if (one.socket.readyState === one.socket.OPEN) abandoned += 1;
      one.socket.close(1000);
    });
  }

  function later(ms: number, run: () => void): void {
    const timer = setTimeout(() => {
      timers.delete(timer);
      run();
    }, ms);
    timers.add(timer);
  }

  function connected(socket: WebSocket): void {
    opened += 1;
    const one: Connection = { id: opened, socket, leaving: false, silent: false };
    const many = open().length >= MOST_CONNECTIONS;
    connections.push(one);
    socket.on('error', () => undefined);
    socket.on('close', () => void connections.splice(connections.indexOf(one), 1));
    socket.on('message', (raw: Buffer) => {
      const frame = parsed(raw.toString('utf8'));
      if (!one.silent && typeof frame['envelope_id'] === 'string') heard(frame['envelope_id'], frame['payload']);
    });
    if (many) return disconnect(one, 'too_many_websockets', 500);
    const debug = { host: 'loopback', build_number: 1, approximate_connection_time: 18_060 };
    write(one, {
      type: 'hello',
      num_connections: open().length,
      debug_info: debug,
      connection_info: { app_id: world.app.id },
    });
  }

  return {
    ticketUrl() {
      const ticket = `${nextId(world, 'T')}-${Math.random().toString(36).slice(2)}`;
      tickets.add(ticket);
      return `${origin.get(world)?.replace('http', 'ws')}/link/?ticket=${ticket}&app_id=${world.app.id}`;
    },
    upgrade(request, socket, head) {
      const url = new URL(request.url ?? '/', 'http://loopback');
      if (url.pathname !== '/link/' || !tickets.delete(url.searchParams.get('ticket') ?? '')) {
        socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
        return;
      }
      server.handleUpgrade(request, socket, head, connected);
    },
    open,
    send(frame, other) {
      const able = open();
      const rest = able.length > 1 && other !== undefined ? able.filter((one) => one !== other) : able;
      const one = rest[turn % Math.max(1, rest.length)];
      if (one === undefined) return null;
      turn += 1;
      write(one, frame);
      return one;
    },
    disconnect(reason, { which, afterMs = 200 } = {}) {
      for (const one of chosen(which)) disconnect(one, reason, afterMs);
    },
    drop(which) {
      for (const { socket } of chosen(which)) socket.terminate();
    },
    silence(which) {
      for (const one of chosen(which)) {
        one.silent = true;
        one.socket.pause();
        later(SILENCE_MS, () => one.socket.terminate());
      }
    },
    opened: () => opened,
    abandoned: () => abandoned,
    close() {
      clearInterval(pinging);
      for (const timer of timers) clearTimeout(timer);
      for (const { socket } of connections) {
        socket.resume();
        socket.terminate();
      }
      server.close();
    },
  };
}

function write(one: Connection, frame: Json): void {
  if (!one.silent && one.socket.readyState === one.socket.OPEN) one.socket.send(JSON.stringify(frame));
}

function parsed(text: string): Json {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
