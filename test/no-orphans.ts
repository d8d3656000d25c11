import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Process } from './lib/processes.ts';

/**
 * Ends processes that tests started and left running, however the run ends: a separate reaper process does it. The run
 * fails when its end finds such a process. Works only where the system lists its processes (Linux).
 */
export function setup(): (() => Promise<void>) | undefined {
  if (!existsSync('/proc/self/stat')) return undefined;
  const reaper = fork(new URL('./lib/reaper.ts', import.meta.url), { detached: true });
  reaper.unref();
  reaper.channel?.unref();
  return async () => {
    reaper.channel?.ref();
    reaper.send('end');
    const [left] = (await once(reaper, 'message')) as [readonly Process[]];
    reaper.channel?.unref();
    if (left.length === 0) return;
    const words = left.map(({ pid, group, command }) => `${command} (${pid}, group ${group})`);
    throw new Error(`left behind by the tests: ${words.join(', ')}`);
  };
}
