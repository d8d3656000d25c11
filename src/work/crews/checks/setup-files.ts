import { hash } from 'node:crypto';
import { posix } from 'node:path';
import { z } from 'zod';
import { jsonOrNull } from '../../../lib/defined.ts';

/**
 * Commands of a repository that prepare a worktree. `digest`: of the file that names them, and of the files of main
 * that a command names by their path. `unbound`: the path of a script that stands for the commands and that cannot be
 * read at main, so that the digest leaves its text out; `null` for none.
 */
export type SetupFile = {
  readonly file: string;
  readonly commands: readonly string[];
  readonly digest: string;
  readonly unbound: string | null;
};

/** Returns the texts of files of main by their paths. Leaves out paths without a file. */
type ReadAtMain = (paths: readonly string[]) => Promise<ReadonlyMap<string, string>>;

const line = z.string().trim().min(1);
const cursorSetup = z.union([line, z.array(line)]).optional();
const CURSOR = z.object({ 'setup-worktree': cursorSetup, 'setup-worktree-unix': cursorSetup });
const CONDUCTOR = z.object({ scripts: z.object({ setup: line }) });
const EMDASH = z.object({ scripts: z.object({ prepare: line.optional(), setup: line.optional() }) });

/**
 * Reads the commands of each known setup file. The first file with commands counts. A string in place of an array is
 * the path of a script.
 */
const FORMS: Readonly<Record<string, (json: unknown) => readonly string[] | string>> = {
  '.cursor/worktrees.json': (json) => {
    const { data } = CURSOR.safeParse(json);
    return data?.['setup-worktree-unix'] ?? data?.['setup-worktree'] ?? [];
  },
  'conductor.json': (json) => {
    const { data } = CONDUCTOR.safeParse(json);
    return data === undefined ? [] : [data.scripts.setup];
  },
  '.emdash.json': (json) => {
    const { prepare, setup } = EMDASH.safeParse(json).data?.scripts ?? {};
    return [prepare, setup].flatMap((command) => command ?? []);
  },
};

/** Returns the first known setup file of main that names commands; `null` for none. */
export async function findSetup(read: ReadAtMain): Promise<SetupFile | null> {
  const texts = await read(Object.keys(FORMS));
  for (const [file, commandsOf] of Object.entries(FORMS)) {
    const text = texts.get(file) ?? null;
    const found = text === null ? [] : commandsOf(jsonOrNull(text));
    if (found.length === 0) continue;
    // A quote in the path would end the quoted word in the shell command.
    const script = typeof found === 'string' ? posix.join(posix.dirname(file), found.replaceAll("'", '')) : null;
    const commands = typeof found === 'string' ? [`sh '${script}'`] : found;
    const named = script === null ? [...new Set(commands.flatMap(pathsOf))].toSorted() : [script];
    const scripts = await read(named);
    const unbound = script !== null && !scripts.has(script) ? script : null;
    const bound = named.flatMap((path) => scripts.get(path) ?? []);
    const parts = [file, text, ...(bound.length === 0 ? [null] : bound)];
    return { file, commands, digest: hash('sha256', JSON.stringify(parts)), unbound };
  }
  return null;
}

function pathsOf(command: string): readonly string[] {
  const words = command.split(/[\s;&|<>()'"`$={},]+/u).map((word) => posix.normalize(word));
  return words.filter((word) => !/^(?:\.\.?(?:$|\/)|\/)/.test(word));
}

/**
 * The environment variables by which commands of setup files find the user's copy, the worktree and the slot's first
 * port.
 */
export function setupEnvironment(root: string, worktree: string, port: string): Readonly<Record<string, string>> {
  return {
    ROOT_WORKTREE_PATH: root,
    CONDUCTOR_ROOT_PATH: root,
    CONDUCTOR_WORKSPACE_PATH: worktree,
    CONDUCTOR_PORT: port,
    EMDASH_ROOT_PATH: root,
    EMDASH_TASK_PATH: worktree,
    EMDASH_PORT: port,
  };
}
