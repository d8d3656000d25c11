import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import type { Place } from '../kill/bot.ts';

/** Returns whether this user can mount a file system that only one process sees. */
export function canMount(): boolean {
  return spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
}

/** Returns a command that runs Node with the data folder on its own tmpfs. `options`: those of tmpfs. */
export function ownDisk(place: Place, options: string): readonly string[] {
  mkdirSync(place.dataDir, { recursive: true });
  const script = `mount -t tmpfs -o ${options} tmpfs "$0" && exec "$@"`;
  return ['unshare', '-rm', 'sh', '-c', script, place.dataDir, process.execPath];
}
