import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { remoteDiscord } from '../adapters/discord/server-remote.ts';
import type { RemoteDiscord } from '../adapters/discord/server-remote.ts';

const PROGRAM = new URL('discord-server-main.ts', import.meta.url).pathname;

/** A loopback Discord in a separate process. */
export type SpawnedDiscord = {
  readonly apiUrl: string;
  readonly token: string;
  readonly botUser: string;
  /** The first channel. */
  readonly channel: string;
  readonly remote: RemoteDiscord;
  /** Resolves with "<what> <fault> <method>" when such a request meets a fault; with `null` after the limit. */
  hit(what: string, limitMs: number): Promise<string | null>;
  close(): Promise<void>;
};

/** Starts the process and waits until it listens. */
export async function spawnDiscord(): Promise<SpawnedDiscord> {
  const child = spawn(process.execPath, [PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const [first] = (await once(lines, 'line')) as [string];
  const where = JSON.parse(first) as Pick<SpawnedDiscord, 'apiUrl' | 'token' | 'botUser' | 'channel'>;
  let wake: (hit: string) => void = () => undefined;
  lines.on('line', (line) => wake(line.slice('hit '.length)));
  return {
    ...where,
    remote: remoteDiscord(where.apiUrl),
    async hit(what, limitMs) {
      const struck = Promise.withResolvers<string>();
      wake = (hit) => {
        if (hit.startsWith(what)) struck.resolve(hit);
      };
      return Promise.race([struck.promise, pause(limitMs, null)]);
    },
    async close() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
