import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, dirname, join, relative, resolve, sep } from 'node:path';
import { BackendError } from '../backends/backend.ts';
import { openSandboxExit } from './sandbox-network.ts';
import type { SandboxNetwork } from './sandbox-network.ts';

/** What a sandboxed program may use of this machine; all paths are absolute. */
export type SandboxPlan = {
  /** The agent's own home folder: the program finds it in place of the home of this user, and may write to it. Made if missing. */
  readonly home: string;
  /** Folders and files of Conch that the program finds empty. */
  readonly hidden: readonly string[];
  /** Folders and files that it may read, though they lie in what is hidden. */
  readonly readable: readonly string[];
  /** What it reaches over the network; `null`: nothing. */
  readonly network: SandboxNetwork | null;
};

/** One program to run. */
export type Program = {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
};

/** What the arguments depend on of this machine. */
export type SandboxMachine = {
  /** What is at a path, with links resolved; `null` for nothing. */
  kindOf(path: string): 'folder' | 'file' | null;
  realPath(path: string): string;
  readonly temporary: readonly string[];
  /** The home of this user. */
  readonly home: string;
};

/** What to do on a machine that starts no sandbox. */
export const SANDBOX_REMEDY =
  'Install bubblewrap (apt install bubblewrap), allow user namespaces, or set "sandbox" to false.';

/** A program as it is started in a sandbox; `close` is called when it has ended. */
type SandboxedProgram = Program & { close(): void };

/**
 * The program as it is started in a sandbox. Rejects with a terminal `BackendError` that says what to do when this machine cannot start
 * one: then nothing is started.
 */
export async function sandboxed(program: Program, plan: SandboxPlan): Promise<SandboxedProgram> {
  await checkSandbox();
  mkdirSync(plan.home, { recursive: true, mode: 0o700 });
  const exit = plan.network === null ? null : await openSandboxExit(plan.network, program.env);
  const close = (): void => exit?.close();
  try {
    const { prefix = [], env = {}, readable = [] } = exit ?? {};
    const shown = { ...plan, readable: [...plan.readable, ...readable] };
    const args = sandboxArgs(program, { ...shown, prefix }, thisMachine());
    return { ...program, command: bwrapPath() ?? 'bwrap', args, env: { ...program.env, ...env }, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Rejects with a terminal `BackendError` that says what to do when this machine cannot start a sandbox. */
export async function checkSandbox(): Promise<void> {
  const why = await sandboxFault();
  if (why !== null)
    throw new BackendError(`it is to run in a sandbox, and ${why}. ${SANDBOX_REMEDY}`, { terminal: true });
}

/** Why no sandbox can be started on this machine; `null` when one was started just now. */
export async function sandboxFault(): Promise<string | null> {
  const path = bwrapPath();
  if (path === null) return 'bubblewrap (bwrap) is not installed';
  const args = [...NAMESPACES, '--unshare-net', '--ro-bind', '/', '/', ...DEVICES, '--', 'true'];
  return new Promise((done) => {
    execFile(path, args, { timeout: PROBE_MS }, (error, _out, stderr) => {
      const [line = ''] = stderr.trim().split('\n');
      done(error === null ? null : `no sandbox can be started here (${line === '' ? error.message : line})`);
    });
  });
}

const PROBE_MS = 10_000;
const NAMESPACES = ['--die-with-parent', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'];
const DEVICES = ['--dev', '/dev', '--proc', '/proc'];

/**
 * The arguments of `bwrap` for a program. All of the machine can be read, but for homes, sockets in `/run`, temporary files and what is
 * hidden; only the program's folder and its own home can be written. A mount lies above those of the folders around it.
 */
export function sandboxArgs(
  program: Program,
  plan: Omit<SandboxPlan, 'network'> & { readonly prefix?: readonly string[] },
  machine: SandboxMachine,
): readonly string[] {
  const cwd = machine.realPath(program.cwd);
  const flags = mountsOf(program, plan, machine).flatMap(({ flags: each }) => each);
  const run = [...(plan.prefix ?? []), program.command, ...program.args];
  return [...NAMESPACES, '--unshare-net', '--ro-bind', '/', '/', ...DEVICES, ...flags, '--chdir', cwd, '--', ...run];
}

/** The mounts in their order. */
function mountsOf(
  program: Program,
  plan: Pick<SandboxPlan, 'home' | 'hidden' | 'readable'>,
  machine: SandboxMachine,
): readonly Mount[] {
  const { env } = program;
  const cwd = machine.realPath(program.cwd);
  const homes = [env['HOME'], machine.home, '/root', '/home'].filter(
    (path) => path !== undefined && machine.kindOf(path) === 'folder',
  );
  const outside = [...homes, '/run', ...machine.temporary].map((path) => machine.realPath(path ?? ''));
  const hidden = plan.hidden.map((path) => machine.realPath(path));
  const covered = [...new Set([...outside, ...hidden])];
  const over = outside.find((path) => isWithin(path, cwd)) ?? hidden.find((path) => path === cwd);
  if (over !== undefined) {
    throw new BackendError(
      `its folder ${cwd} holds ${over}, which a sandbox hides: give it a folder of its own as "cwd"`,
      {
        terminal: true,
      },
    );
  }
  const [home] = homes;
  const isOpen = (path: string): boolean => !isWithin(path, cwd) && !covered.some((each) => isWithin(each, path));
  return [
    ...covered.filter((path) => machine.kindOf(path) === 'folder').map((path) => mount(path, ['--tmpfs', path])),
    ...covered
      .filter((path) => machine.kindOf(path) === 'file')
      .map((path) => mount(path, ['--ro-bind', '/dev/null', path])),
    ...(home === undefined ? [] : [mount(machine.realPath(home), ['--bind', plan.home, machine.realPath(home)], 1)]),
    ...readablePaths(program, plan, machine)
      .filter(isOpen)
      .map((path) => mount(path, ['--ro-bind', path, path], 1)),
    mount(cwd, ['--bind', cwd, cwd], 2),
  ].toSorted((one, other) => one.depth - other.depth || one.rank - other.rank);
}

type Mount = { readonly depth: number; readonly rank: number; readonly flags: readonly string[] };

function mount(path: string, flags: readonly string[], rank = 0): Mount {
  return { depth: path.split(sep).filter((part) => part !== '').length, rank, flags };
}

/** Programs on the PATH that lie in a hidden home, the names of servers, and what the plan says. */
function readablePaths(
  { command, cwd, env }: Program,
  plan: Pick<SandboxPlan, 'readable'>,
  machine: SandboxMachine,
): readonly string[] {
  const folders = (env['PATH'] ?? '').split(delimiter).filter((path) => path.startsWith(sep));
  const named = /[\\/]/.test(command) ? [resolve(cwd, command)] : folders.map((folder) => join(folder, command));
  const programs = named.filter((path) => machine.kindOf(path) === 'file');
  const found = [...folders, ...programs.map((path) => dirname(machine.realPath(path))), '/etc/resolv.conf'];
  const wanted = [...found, ...plan.readable].filter((path) => machine.kindOf(path) !== null);
  return [...new Set(wanted.map((path) => machine.realPath(path)))];
}

/** Whether a path is a folder or lies in it. */
function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`));
}

function thisMachine(): SandboxMachine {
  const all = ['/tmp', '/var/tmp', tmpdir()].filter((path) => existsSync(path));
  return {
    kindOf(path) {
      const found = statSync(path, { throwIfNoEntry: false });
      return found === undefined ? null : found.isDirectory() ? 'folder' : 'file';
    },
    realPath: (path) => (existsSync(path) ? realpathSync(path) : path),
    home: homedir(),
    temporary: [...new Set(all.map((path) => realpathSync(path)))],
  };
}

/** Looked up on the PATH of Conch, never on that of the agent. */
function bwrapPath(): string | null {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((path) => path.startsWith(sep));
  return folders.map((folder) => join(folder, 'bwrap')).find((path) => existsSync(path)) ?? null;
}
