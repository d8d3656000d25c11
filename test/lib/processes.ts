import { readFileSync, readdirSync } from 'node:fs';

/** A process of this machine. `startedAt` distinguishes it from a later process with the same pid. */
export type Process = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  readonly startedAt: string;
  readonly command: string;
};

/** Returns all running processes, without zombies. Needs Linux. */
export function processes(): readonly Process[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? read(Number(name)) : []));
}

/**
 * Returns the processes of `all` that descend from `root`. Descendants found earlier (`known`) and their children
 * count, even if their parents have ended. Processes in the group or session of a descendant count, too.
 */
export function familyOf(root: number, known: readonly Process[], all: readonly Process[]): readonly Process[] {
  const before = new Map(known.map((one) => [one.pid, one.startedAt]));
  const family = new Set(all.filter(({ pid, startedAt }) => before.get(pid) === startedAt).map(({ pid }) => pid));
  const isFrom = (id: number): boolean => family.has(id) || before.has(id);
  const isNew = ({ pid, parent, group, session }: Process): boolean =>
    pid !== root && !family.has(pid) && (parent === root || isFrom(parent) || isFrom(group) || isFrom(session));
  for (let found = all.filter(isNew); found.length > 0; found = all.filter(isNew)) {
    for (const { pid } of found) family.add(pid);
  }
  return all.filter(({ pid }) => family.has(pid));
}

/** Returns the processes of a family that no chain of parents connects to `root`. */
export function straysOf(root: number, family: readonly Process[]): readonly Process[] {
  const joined = new Set([root]);
  const isJoined = ({ pid, parent }: Process): boolean => !joined.has(pid) && joined.has(parent);
  for (let found = family.filter(isJoined); found.length > 0; found = family.filter(isJoined)) {
    for (const { pid } of found) joined.add(pid);
  }
  return family.filter(({ pid }) => !joined.has(pid));
}

/** The command line of a process, or `null` when it has ended. */
export function commandLineOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() || null;
  } catch {
    return null;
  }
}

/** Positions of fields in `/proc/PID/stat`, counted from the field after the command. */
const [STATE, PARENT, GROUP, SESSION, STARTED_AT] = [0, 1, 2, 3, 19];

function read(pid: number): readonly Process[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[STATE] === 'Z' || fields[STATE] === 'X') return [];
    return [
      {
        pid,
        parent: Number(fields[PARENT]),
        group: Number(fields[GROUP]),
        session: Number(fields[SESSION]),
        startedAt: fields[STARTED_AT] ?? '',
        command: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')),
      },
    ];
  } catch {
    return [];
  }
}
