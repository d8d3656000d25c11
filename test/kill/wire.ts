import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { Random } from './random.ts';

/** The moments at which the proxy cuts a connection: before it passes on a request, before the answer, or after the answer. */
export const CUTS = ['request', 'answer', 'after'] as const;
type Cut = (typeof CUTS)[number];

/** A TCP proxy in front of a server. It can cut connections. */
export type Wire = {
  /** The server's URL, with host and port of the proxy. */
  readonly url: string;
  /** The moment at which the proxy cuts three of ten connections that carry a request. `null` cuts none. */
  cut: Cut | null;
  /** Connections cut so far. */
  readonly cuts: number;
  /** Separates the server from its clients until `join`. `isSilent`: connections stay open, and nothing passes. */
  part(isSilent: boolean): void;
  join(): void;
  close(): Promise<void>;
};

const CHANCE = 0.3;

/** Starts a proxy before the server at `url`. Draws from `random` which connections it cuts. */
export async function wireTo(url: string, random: Random): Promise<Wire> {
  const { port, hostname } = new URL(url);
  const sockets = new Set<Socket>();
  const wire = { cut: null as Cut | null, cuts: 0 };
  let parted: 'silent' | 'closed' | null = null;
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((near) => {
    if (parted === 'closed') return void near.destroy();
    const far = connect(Number(port), hostname);
    let ends: Cut | null = null;
    const end = (): void => {
      wire.cuts += 1;
      far.destroy();
      near.destroy();
    };
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      sockets.add(one.on('error', () => undefined).on('close', () => sockets.delete(one) && other.destroy()));
    near.on('data', (request) => {
      if (parted !== null) return;
      ends = wire.cut !== null && random.chance(CHANCE) ? wire.cut : null;
      if (ends === 'request') end();
      else far.write(request);
    });
    far.on('data', (answer) => {
      if (parted !== null) return;
      if (ends === null) near.write(answer);
      else if (ends === 'after') near.end(answer, end);
      else end();
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const own = new URL(url);
  own.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(wire, {
    url: own.href,
    part(isSilent: boolean): void {
      parted = isSilent ? 'silent' : 'closed';
      if (!isSilent) destroyAll();
    },
    join(): void {
      parted = null;
      // What was sent meanwhile is lost.
      destroyAll();
    },
    async close(): Promise<void> {
      destroyAll();
      server.close();
      await once(server, 'close');
    },
  });
}
