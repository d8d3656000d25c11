import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** Resolves once something holds; rejects, naming `what`, when it does not in time. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`In ${limitMs} ms there was not: ${what}`);
    await pause(20);
  }
}

/** Lets whatever comes to one port through to another; the way is closed with what this returns. */
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
