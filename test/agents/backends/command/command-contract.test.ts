import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createCommandBackend } from '../../../../src/agents/backends/command/command-backend.ts';
import { livingGroups } from '../../../../src/agents/process/process-group.ts';
import { compiledCode } from '../../../lib/compiled.ts';
import { contract } from '../contract.ts';
import type { Act, Rig } from '../contract.ts';

contract('command', commandRig);

/** Creates a rig whose commands get their acts from this process over a socket. */
async function commandRig(): Promise<Rig> {
  const plays: (readonly Act[])[] = [];
  const seen: string[] = [];
  const pids: number[] = [];
  const sockets = new Set<Socket>();
  let arrived = Promise.withResolvers<void>();
  const send = (socket: Socket, message: unknown) => void socket.write(`${JSON.stringify(message)}\n`);
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    const lines = createInterface({ input: socket }).on('line', (line) => {
      const { pid, prompt, paused } = JSON.parse(line) as { pid?: number; prompt?: string; paused?: true };
      if (paused) arrived.resolve();
      if (pid === undefined || prompt === undefined) return;
      pids.push(pid);
      seen.push(prompt);
      send(socket, plays.shift() ?? [{ do: 'write', text: 'Noted.' }]);
    });
    lines.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    backend: createCommandBackend({
      command: process.execPath,
      args: [fileURLToPath(new URL('fixtures/command-agent.ts', import.meta.url))],
      set: { ...compiledCode(), RIG_PORT: String(port) },
      input: 'stdin',
      output: 'jsonl',
      timeoutMs: 20_000,
      maxOutputBytes: 100_000,
    }),
    inject: 'next-prompt',
    crash: /^exited with code 3: it burns$/,
    play: (...acts) => void plays.push(acts),
    async paused() {
      await arrived.promise;
      arrived = Promise.withResolvers();
    },
    release: () => sockets.forEach((socket) => send(socket, 'go')),
    seen: async () => seen,
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      const left = pids.filter((pid) => livingGroups().has(pid));
      if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    },
  };
}
