import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { pid as ownPid } from 'node:process';
import { setTimeout as pause } from 'node:timers/promises';

/** The environment variable that holds the mark of a crew's processes. Child processes inherit the variable. */
export const RUN_MARK = 'CONCH_RUN';

/**
 * A living process whose environment has `CONCH_RUN`. `mark`: the value of that variable. `group`: the id of its process
 * group. `folder`: its working folder, or empty.
 */
export type MarkedProcess = {
  readonly pid: number;
  readonly group: number;
  readonly mark: string;
  readonly command: string;
  readonly folder: string;
};

/**
 * Returns the other living processes of this user (for root: of all users) with a `CONCH_RUN`, also those that left
 * their process group. None where the system does not show the environment of processes (outside Linux).
 */
export function markedProcesses(): readonly MarkedProcess[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? read(Number(name)) : []));
  } catch {
    return [];
  }
}

type IsMeant = (found: MarkedProcess) => boolean;

/**
 * Sends SIGTERM to the processes that match, and after `graceMs` SIGKILL to all that match then. Resolves when all have
 * ended, or when SIGKILL does not end the rest, with the processes that got SIGTERM.
 */
export async function endProcesses(isMeant: IsMeant, graceMs: number): Promise<readonly MarkedProcess[]> {
  const living = (): readonly MarkedProcess[] => markedProcesses().filter(isMeant);
  const found = living();
  for (const { pid } of found) sendSignal(pid, 'SIGTERM');
  let left = found;
  for (let waitedMs = 0; left.length > 0 && waitedMs < graceMs; waitedMs += LOOK_MS) {
    await pause(LOOK_MS);
    left = living();
  }
  for (let times = 0; left.length > 0 && times < MOST_KILLS; times += 1) {
    for (const { pid } of left) sendSignal(pid, 'SIGKILL');
    await pause(LOOK_MS);
    left = living();
  }
  return found;
}

const LOOK_MS = 20;
/** The most attempts to kill a process. A process that waits for a device cannot be killed. */
const MOST_KILLS = 50;

/** Sends a signal to a process, or to a process group when `pid` is negative. Returns whether any process got it. */
export function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** True when `pid` is `ancestor` or its descendant through processes that all live. Needs `/proc`, so Linux. */
export function isDescendant(pid: number, ancestor: number): boolean {
  for (let at = pid; at > 1; at = Number(statOf(at)[1])) if (at === ancestor) return true;
  return false;
}

/** The fields of a process after its name, from its state on; empty when they cannot be read. */
function statOf(pid: number): readonly string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}

function read(pid: number): readonly MarkedProcess[] {
  if (pid === ownPid) return [];
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    const mark = variables.find((each) => each.startsWith(`${RUN_MARK}=`))?.slice(RUN_MARK.length + 1);
    if (mark === undefined || mark === '') return [];
    const [state = 'X', , group = '0'] = statOf(pid);
    if (state === 'Z' || state === 'X') return [];
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return [{ pid, group: Number(group), mark, command, folder: folderOf(pid) }];
  } catch {
    // The process has ended, or this user may not read it.
    return [];
  }
}

function folderOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}
