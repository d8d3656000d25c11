import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { Input } from './bytes.ts';

/** What came of one input: `silent` when the other side neither answered nor closed within its time. */
export type Outcome = 'done' | 'silent' | 'absent';

/** Between the pieces of one input, unless something is heard before. */
const PIECE_MS = 2;
/** How long the other side has for its answer, or to close after a caller has closed its half. */
export const ANSWER_MS = 10_000;

/** Sends one input over a connection of its own; `from` is the address that it comes from. */
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

/** A caller that begins a request and falls silent; what it returns tells whether it was let go of, and ends it. */
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

/** A socket that is being shut down cannot be reset, and would stay open for ever. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** Where programs connect to us: the newest connection is the one that is spoken to. */
export type Plug = {
  readonly port: number;
  /** How often it was connected. */
  readonly count: () => number;
  /** Sends one input over the connection of now; waits for one if there is none. */
  send(input: Input): Promise<Outcome>;
  /** Whether it hears, within so many milliseconds, bytes that fit. */
  hears(fits: (bytes: Buffer) => boolean, withinMs: number): Promise<boolean>;
  close(): void;
};

/** What a plug does with what it hears: the bytes to answer with. */
export type Answering = (bytes: Buffer, first: boolean) => Buffer | null;

/** Opens a plug; `waitMs` is how long it waits for a connection before it counts as absent. */
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
