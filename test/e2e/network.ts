import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** Resolves once the condition is true. Rejects after `limitMs` with an error that names `what`. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`In ${limitMs} ms there was not: ${what}`);
    await pause(20);
  }
}

/** Forwards connections from one port to another. Returns a function that ends the forwarding. */
export async function letThrough(port: number, to: number): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    for (const socket of [near, far]) sockets.add(socket.on('error', () => undefined));
    near.pipe(far).pipe(near);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  };
}
