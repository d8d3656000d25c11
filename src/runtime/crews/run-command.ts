import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { childEnvironment, livingGroups, startProcessGroup } from '../../agents/process/process-group.ts';
import { RUN_MARK, endProcesses, isDescendant } from '../../lib/marked-processes.ts';
import type { Timers } from '../../lib/time.ts';
import type { CommandRun, CrewWorkPorts } from '../../work/crews/crew-work.ts';

/** The most output of a command that is kept, in bytes. The end of the output is kept. */
const MOST_OUTPUT = 1_048_576;
const GRACE_MS = 5_000;

/**
 * On Linux, ends the processes whose `CONCH_RUN` `isMeant` accepts, also those outside their process group. Spares the
 * sessions and commands that this Conch has open, and their descendants in the same process group. A process whose
 * parent has ended is no descendant.
 */
export async function endMarked(isMeant: (mark: string) => boolean): Promise<void> {
  const isOpen = (pid: number, group: number): boolean => livingGroups().has(group) && isDescendant(pid, group);
  await endProcesses(({ mark, group, pid }) => isMeant(mark) && !isOpen(pid, group), GRACE_MS);
}

/**
 * Returns a function that runs a command line of an operator in a process group of its own: without secrets of Conch,
 * without input, with a temporary folder of its own. After `limitMs` the group ends, and the result says so. On Linux,
 * leftover processes with the `CONCH_RUN` in `set` are ended before the promise resolves, except those that `endMarked`
 * spares.
 */
export function commandRunner(timers: Timers): CrewWorkPorts['run'] {
  return async (line, folder, { set, limitMs }) => {
    const scratch = await mkdtemp(join(tmpdir(), 'conch-crew-'));
    try {
      return await run(line, folder, { set: { ...set, TMPDIR: scratch }, limitMs, timers });
    } finally {
      await endMarked((mark) => mark === set[RUN_MARK]);
      await rm(scratch, { recursive: true, force: true });
    }
  };
}

async function run(
  line: string,
  folder: string,
  {
    set,
    limitMs,
    timers,
  }: { readonly set: Readonly<Record<string, string>>; readonly limitMs: number; readonly timers: Timers },
): Promise<CommandRun> {
  const group = await startProcessGroup({
    command: '/bin/sh',
    args: ['-c', `exec 2>&1\n${line}`],
    cwd: folder,
    env: childEnvironment({ from: process.env, set }),
    timers,
  });
  let timedOut = false;
  const limit = timers.after(limitMs, () => {
    timedOut = true;
    void group.stop(GRACE_MS);
  });
  group.stdin.end();
  let chunks: Buffer[] = [];
  let bytes = 0;
  group.stdout.on('data', (piece: Buffer) => {
    chunks.push(piece);
    bytes += piece.length;
    // Kept output is copied once for every mebibyte, so that a gigabyte of output costs little.
    if (bytes <= 2 * MOST_OUTPUT) return;
    chunks = [Buffer.concat(chunks).subarray(-MOST_OUTPUT)];
    bytes = MOST_OUTPUT;
  });
  const { code } = await group.exited;
  limit.cancel();
  return {
    code: timedOut ? null : code,
    timedOut,
    output: Buffer.concat(chunks).subarray(-MOST_OUTPUT).toString('utf8'),
  };
}
