import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { SlackOptions, SlackServer } from './server.ts';

/** The fake Slack in its own process. */
export type SlackProcess = Pick<SlackServer, 'port' | 'apiUrl' | 'botToken' | 'appToken' | 'signingSecret' | 'ids'> & {
  readonly pid: number;
  /** Calls a function of the server, or reads a value: `control('write', ann, channel, 'hello')`. */
  control(path: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
};

/** Starts the process. Options must be plain JSON. */
export async function spawnSlack(options: Omit<SlackOptions, 'now'> = {}): Promise<SlackProcess> {
  const main = new URL('./server-main.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [main, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const [line]: string[] = await Promise.race([once(lines, 'line'), ended.then(() => ['{}'])]);
  const known = JSON.parse(line ?? '{}') as Omit<SlackProcess, 'pid' | 'control' | 'close'>;
  if (child.pid === undefined || !known.port) throw new Error('the loopback Slack did not start');
  return {
    ...known,
    pid: child.pid,
    async control(path, ...args) {
      const url = `http://127.0.0.1:${known.port}/control/${path}`;
      const answer = await fetch(url, { method: 'POST', body: JSON.stringify(args) });
      const { ok, result, error } = (await answer.json()) as { ok: boolean; result: unknown; error?: string };
      if (!ok) throw new Error(error);
      return result;
    },
    async close() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
