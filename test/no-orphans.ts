import { existsSync, readFileSync, readdirSync } from 'node:fs';

type Seen = { readonly pid: number; readonly parent: number; readonly group: number; readonly command: string };

/** How often, and how long, ending processes are waited for. */
const LOOKS = 50;
const LOOK_MS = 100;

/**
 * Before the first test and after the last: whatever process was started meanwhile and has lost its parent was left behind
 * by a test. Only where the system shows its processes (Linux), and only in the check that lands work: elsewhere other
 * programs start and end beside the tests.
 */
export function setup(): (() => Promise<void>) | undefined {
  if (process.env['CI'] === undefined || !existsSync('/proc/self/stat')) return undefined;
  const before = new Set(processes().map(({ pid }) => pid));
  return async () => {
    let left: readonly Seen[] = [];
    for (let look = 0; look < LOOKS; look += 1) {
      left = processes().filter((one) => !before.has(one.pid) && one.parent === 1);
      if (left.length === 0) return;
      await new Promise((resolve) => void setTimeout(resolve, LOOK_MS));
    }
    throw new Error(
      `left behind by the tests: ${left.map(({ pid, group, command }) => `${command} (${pid}, group ${group})`).join(', ')}`,
    );
  };
}

function processes(): readonly Seen[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? seen(Number(name)) : []));
}

function seen(pid: number): readonly Seen[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const command = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
    const [state, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z') return [];
    return [{ pid, parent: Number(parent), group: Number(group), command }];
  } catch {
    return [];
  }
}
