import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import type { Place } from '../kill/bot.ts';

/** Whether this machine lets a user mount a file system that only their own process sees. */
export function canMount(): boolean {
  return spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
}

/** The command before a program that gives it a disk of its own, in memory, for its data; `options` are those of tmpfs. */
export function ownDisk(place: Place, options: string): readonly string[] {
  mkdirSync(place.dataDir, { recursive: true });
  const script = `mount -t tmpfs -o ${options} tmpfs "$0" && exec "$@"`;
  return ['unshare', '-rm', 'sh', '-c', script, place.dataDir, process.execPath];
}
