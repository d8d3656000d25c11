import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { Input } from './bytes.ts';

/** The outcome of an input. `silent`: the other side neither answered nor closed in time. */
export type Outcome = 'done' | 'silent' | 'absent';

/** The wait between the pieces of an input, unless an answer comes earlier. */
const PIECE_MS = 2;
/** The time in which the other side must answer, or close after the caller closed its half. */
export const ANSWER_MS = 10_000;

/** Sends one input over a new connection. `from`: its source address. */
export async function deliver(port: number, from: string | null, { pieces, end }: Input): Promise<Outcome> {
  const address = { port, host: '127.0.0.1', allowHalfOpen: true };
  const socket = connect(from === null ? address : { ...address, localAddress: from });
  const closed = new Promise<'done'>((resolve) =>
    socket.on('error', () => undefined).on('close', () => resolve('done')),
  );
  socket.on('data', () => undefined).on('end', () => socket.end());
  await write(socket, pieces);
  if (end === 'reset') reset(socket);
  else socket.end();
  const late = new AbortController();
  const outcome = await Promise.race([closed, pause(ANSWER_MS, 'silent' as const, { signal: late.signal })]);
  late.abort();
  socket.destroy();
  return outcome;
}

/** Begins a request and falls silent. The returned function tells whether the caller was disconnected, and ends it. */
export function fallSilent(port: number): () => boolean {
  const socket = connect(port, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: '));
  socket.on('error', () => undefined).on('data', () => undefined);
  return () => {
    const isGone = socket.destroyed || socket.readableEnded;
    socket.destroy();
    return isGone;
  };
}

async function write(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (!socket.writable) return;
    const { promise: heard, resolve } = Promise.withResolvers<unknown>();
    socket.once('data', resolve).once('close', resolve);
    socket.write(piece);
    await Promise.race([heard, pause(PIECE_MS)]);
    socket.off('data', resolve).off('close', resolve);
  }
}

/** A socket that is shutting down cannot be reset and would stay open forever. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** A port where programs connect to us. Inputs go to the newest connection. */
export type Plug = {
  readonly port: number;
  /** The number of connections so far. */
  readonly count: () => number;
  /** Sends an input over the present connection. Waits for a connection if there is none. */
  send(input: Input): Promise<Outcome>;
  /** True when bytes that fit arrive within `withinMs` milliseconds. */
  hears(fits: (bytes: Buffer) => boolean, withinMs: number): Promise<boolean>;
  close(): void;
};

/** Returns the bytes to answer with; `null`: none. */
export type Answering = (bytes: Buffer, first: boolean) => Buffer | null;

/** Opens a plug. `waitMs`: how long it waits for a connection before it counts as absent. */
export async function openPlug(answering: Answering, waitMs = ANSWER_MS): Promise<Plug> {
  let socket: Socket | null = null;
  let count = 0;
  const listeners = new Set<(bytes: Buffer) => void>();
  const server = createServer({ allowHalfOpen: true }, (caller) => {
    socket?.destroy();
    socket = caller;
    count += 1;
    let first = true;
    caller.on('data', (bytes) => {
      const answer = answering(bytes, first);
      first = false;
      if (answer !== null && caller.writable) caller.write(answer);
      for (const listener of listeners) listener(bytes);
    });
    caller.on('end', () => caller.end()).on('error', () => undefined);
    caller.on('close', () => {
      if (socket === caller) socket = null;
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const connection = async (): Promise<Socket | null> => {
    const end = performance.now() + waitMs;
    for (;;) {
      if (socket !== null || performance.now() >= end) return socket;
      await pause(PIECE_MS);
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    count: () => count,
    async send({ pieces, end }) {
      const open = await connection();
      if (open === null) return 'absent';
      await write(open, pieces);
      if (end === 'half') open.end();
      if (end === 'reset') reset(open);
      return 'done';
    },
    async hears(fits, withinMs) {
      const { promise: heard, resolve } = Promise.withResolvers<boolean>();
      const listener = (bytes: Buffer): void => {
        if (fits(bytes)) resolve(true);
      };
      listeners.add(listener);
      const timer = setTimeout(() => resolve(false), withinMs);
      try {
        return await heard;
      } finally {
        clearTimeout(timer);
        listeners.delete(listener);
      }
    },
    close() {
      socket?.destroy();
      server.close();
    },
  };
}
