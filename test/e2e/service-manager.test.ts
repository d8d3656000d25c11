import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable } from 'node:stream';
import { createInterface } from 'node:readline';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { DEMO, inPlace } from './demo.ts';

/** A Python program that prints each datagram of a Unix socket as JSON. Node has no Unix datagram sockets. */
const LISTENER = `
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('"listening"', flush=True)
while True:
    print(json.dumps(s.recv(65536).decode()), flush=True)
`;

/** Opens a socket that receives the notifications of a service, in place of systemd. */
async function notifySocket() {
  const path = join(mkdtempSync(join(tmpdir(), 'conch-notify-')), 'notify');
  const child: ChildProcessByStdio<null, Readable, null> = spawn('python3', ['-c', LISTENER, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String(JSON.parse((await lines.next()).value ?? '"closed"'));
  await next();
  /** Resolves with the next notification that contains this variable, or with 'closed' at the socket's end. */
  const until = async (variable: string): Promise<string> => {
    for (;;) {
      const text = await next();
      if (text.includes(variable) || text === 'closed') return text;
    }
  };
  return { path, until, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

const isMissing = [
  ['systemd-notify', '--version'],
  ['python3', '--version'],
].some(([program = '', ...args]) => spawnSync(program, args).error !== undefined);

describe.skipIf(isMissing)('a Conch with the environment of a systemd service', () => {
  test('notifies systemd of its start, of each watchdog period and of its end', () =>
    inPlace(DEMO, async (_place, start) => {
      using socket = await notifySocket();
      const bot = start({ env: { NOTIFY_SOCKET: socket.path, WATCHDOG_USEC: '200000' } });
      expect(await socket.until('READY=1')).toBe('READY=1\nSTATUS=serving');
      const reports = [await socket.until('WATCHDOG'), await socket.until('WATCHDOG'), await socket.until('WATCHDOG')];
      expect(reports).toEqual(['WATCHDOG=1', 'WATCHDOG=1', 'WATCHDOG=1']);
      const ended = bot.end('SIGTERM');
      expect(await socket.until('STOPPING')).toBe('STOPPING=1\nSTATUS=ending');
      expect((await ended).code).toBe(0);
    }));

  test('starts without a reachable service manager, and logs that once', () =>
    inPlace(DEMO, async (place, start) => {
      const bot = start({ env: { NOTIFY_SOCKET: join(place.dataDir, 'none'), WATCHDOG_USEC: '100000' } });
      await bot.ready();
      await bot.end('SIGTERM');
      expect(bot.out().split('the service manager gets no reports from Conch')).toHaveLength(2);
    }));
});
