import { setTimeout as pause } from 'node:timers/promises';
import { commandLineOf, familyOf, processes, straysOf } from './processes.ts';
import type { Process } from './processes.ts';

/**
 * Follows the descendants of the process that forked this program. A message makes it kill descendants that lost their
 * parents, and answer with the killed ones. When the forking process ends, it kills all descendants and ends itself.
 */
const root = process.ppid;
const LOOK_MS = 200;
/** Looks before a kill, in which processes can end by themselves: after a message; after the forking process ended. */
const LOOKS = { told: 50, untold: 10 };
let family: readonly Process[] = [];

process.on('message', () => void reap(strays, LOOKS.told).then((left) => process.send?.(left)));
while (process.connected && process.ppid === root) {
  look();
  await pause(LOOK_MS);
}
await reap(look, LOOKS.untold);
process.exit();

function look(): readonly Process[] {
  family = familyOf(root, family, processes()).filter(({ pid }) => pid !== process.pid);
  return family;
}

function strays(): readonly Process[] {
  return straysOf(root, look());
}

/** Kills the processes that `some` still finds after `most` looks. Returns the killed ones. */
async function reap(some: () => readonly Process[], most: number): Promise<readonly Process[]> {
  let found = some();
  for (let looks = 0; looks < most && found.length > 0; looks += 1) {
    await pause(LOOK_MS);
    found = some();
  }
  const left = found.map((one) => ({ ...one, command: commandLineOf(one.pid) ?? one.command }));
  for (const { pid } of left) end(pid);
  return left;
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}
