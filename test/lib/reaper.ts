import { setTimeout as pause } from 'node:timers/promises';
import { commandLineOf, familyOf, processes, straysOf } from './processes.ts';
import type { Process } from './processes.ts';

/**
 * A program beside the one that forked it, whose descendants it follows. On a message it ends those that have lost their
 * parents and answers with what they were; once that one is gone, however it ended, it ends all and itself.
 */
const root = process.ppid;
const LOOK_MS = 200;
/** So many looks long, what is about to end is let end by itself: while there is somebody to tell, and after that. */
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

/** Ends what is left of some after a while, by force. */
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
