import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { sendSignal } from '../../lib/marked-processes.ts';
import { isFolder } from '../../lib/private-file.ts';
import { systemTimers } from '../../lib/time.ts';
import type { Timers } from '../../lib/time.ts';
import { BackendError } from '../backends/backend.ts';
import { sandboxed } from './sandbox.ts';
import type { SandboxPlan } from './sandbox.ts';
import { isSecretName, isUnsafeVariable, passwordIn } from '../../lib/unsafe-variables.ts';

/** The program to run. A command without a slash is looked up on the PATH of `env`. No shell is used. */
type ProcessOptions = {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** How to install the program. Added to the error when the program is missing. */
  readonly install?: string;
  /** The sandbox of the program. Default: no sandbox, so the program has all rights of this user. */
  readonly sandbox?: SandboxPlan | undefined;
  readonly timers: Timers;
};

/**
 * How a process ended. `words`: for people: the exit code or signal, then the reason from standard error, if any. Paths
 * in the reason are cut to file names. `stderr`: the non-empty lines in the last 4,096 characters of standard error.
 * Secrets of the environment are redacted in `words` and `stderr`.
 */
export type ProcessEnd = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly words: string;
  readonly stderr: string;
};

/**
 * Starts a process as the leader of its own process group. Rejects when the process cannot start: with a terminal
 * `BackendError` when the folder, the program or the permission to run it is missing, or the sandbox is impossible. In
 * a sandbox, a missing program is no error: the process starts and exits.
 */
export async function startProcessGroup(options: ProcessOptions): Promise<ProcessGroup> {
  if (!isFolder(options.cwd)) throw new BackendError(`there is no folder ${options.cwd}`, { terminal: true });
  const program =
    options.sandbox === undefined ? { ...options, close() {} } : await sandboxed(options, options.sandbox);
  const child = spawn(program.command, program.args, {
    cwd: options.cwd,
    env: program.env,
    detached: true,
    shell: false,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.once('close', () => program.close());
  const pid = await started(child, options);
  return new ProcessGroup(child, pid, options);
}

/** The ids of the process groups that this process started and whose `exited` has not resolved. */
export function livingGroups(): ReadonlySet<number> {
  return LIVING;
}

const LIVING = new Set<number>();

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * A process and the child processes that stay in its group. When the first process ends, the others get SIGTERM, and
 * SIGKILL half a second later. All of them are killed when Conch ends.
 */
export class ProcessGroup {
  /** The id of the first process and of the group. */
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Resolves when the first process and its group ended, at the latest about 0.7 s after the first process. */
  readonly exited: Promise<ProcessEnd>;
  readonly #timers: Timers;
  #over = false;

  constructor(child: Child, pid: number, options: ProcessOptions) {
    this.pid = pid;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.#timers = options.timers;
    const lastLines = lastLinesOf(child.stderr, secretsOf(options.env));
    child.stdin.on('error', () => undefined);
    // The reader of stdout handles its errors. This listener prevents a crash while nobody reads.
    child.stdout.on('error', () => undefined);
    LIVING.add(pid);
    tellGuard();
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#over = true;
        endRest(pid, () => {
          LIVING.delete(pid);
          tellGuard();
          const lines = lastLines();
          resolve({ code, signal, words: wordsOf(code, signal, reasonIn(lines)), stderr: lines.join('\n') });
        });
      });
    });
  }

  /**
   * Sends SIGTERM to the group, and SIGKILL after `graceMs` milliseconds if the group has not ended. Resolves when
   * `exited` has resolved.
   */
  async stop(graceMs: number): Promise<void> {
    if (this.#over) return void (await this.exited);
    sendSignal(-this.pid, 'SIGTERM');
    const forced = this.#timers.after(graceMs, () => sendSignal(-this.pid, 'SIGKILL'));
    await this.exited;
    forced.cancel();
  }
}

async function started(child: Child, options: ProcessOptions): Promise<number> {
  await once(child, 'spawn').catch((error: NodeJS.ErrnoException) => Promise.reject(notStarted(error, options)));
  child.on('error', () => undefined);
  if (child.pid === undefined) throw new Error('impossible: a started process has no id');
  return child.pid;
}

function notStarted(error: NodeJS.ErrnoException, { command, install }: ProcessOptions): BackendError {
  const how = install === undefined ? '' : `; ${install}`;
  if (error.code === 'ENOENT')
    return new BackendError(`there is no program "${command}"${how}`, { terminal: true, cause: error });
  if (error.code === 'EACCES') {
    return new BackendError(`"${command}" may not be run: permission denied`, { terminal: true, cause: error });
  }
  return new BackendError(`"${command}" could not be started: ${error.message}`, { cause: error });
}

function wordsOf(code: number | null, signal: string | null, reason: string): string {
  const how = signal === null ? `exited with code ${code ?? 0}` : `was ended by ${signal}`;
  return reason === '' ? how : `${how}: ${reason}`;
}

function reasonIn(lines: readonly string[]): string {
  const messages = lines.filter((line) => !TRACE.test(line));
  const reason = messages.findLast((line) => ERROR.test(line)) ?? messages.at(-1) ?? '';
  const plain = reason.replace(PATHS, (path) => path.split(/[\\/]/).findLast((name) => name !== '') ?? '');
  return plain.length > LONGEST_REASON ? `${plain.slice(0, LONGEST_REASON)}…` : plain;
}

/** Reads standard error to its end, so that the process does not block on a full pipe. */
function lastLinesOf(stderr: Readable, secrets: readonly string[]): () => readonly string[] {
  let tail = '';
  const clean = (all: string) => secrets.reduce((text, secret) => text.replaceAll(secret, '[secret]'), all);
  // Redacts before the cut: a secret that is cut in two would not be found.
  stderr.setEncoding('utf8').on('data', (text: string) => void (tail = clean(tail + text).slice(-TAIL)));
  stderr.on('error', () => undefined);
  return () => {
    const lines = tail.split('\n').map((line) => clean(stripVTControlCharacters(line).replace(NOT_TEXT, '')).trim());
    return lines.filter((line) => line !== '');
  };
}

function endRest(pid: number, ended: () => void): void {
  const look = (leftMs: number): void => {
    const isAlive = sendSignal(-pid, leftMs === REST_GRACE_MS ? 'SIGTERM' : leftMs > 0 ? 0 : 'SIGKILL');
    if (!isAlive || leftMs < -REST_KILL_MS) setImmediate(ended);
    else systemTimers.after(REST_LOOK_MS, () => look(leftMs - REST_LOOK_MS));
  };
  look(REST_GRACE_MS);
}

/**
 * To end the rest of a group after its first process, in milliseconds: from SIGTERM to SIGKILL, between two checks,
 * after SIGKILL.
 */
const REST_GRACE_MS = 500;
const REST_LOOK_MS = 20;
const REST_KILL_MS = 200;

type Guard = ChildProcessByStdio<Writable, null, null>;

/** A shell that kills the living groups when Conch ends for any reason, also in a crash. `null`: no shell runs. */
let guard: Guard | null = null;
const GUARD =
  'groups=$1; while read -r line; do groups=$line; done; for group in $groups; do kill -s KILL -- "-$group"; done';

/** Delay after the end of the last group before the guard ends, in milliseconds. */
const GUARD_IDLE_MS = 60_000;
let idle: NodeJS.Timeout | undefined;

function tellGuard(): void {
  const groups = [...LIVING].join(' ');
  clearTimeout(idle);
  if (guard === null) guard = startGuard(groups);
  else guard.stdin.write(`${groups}\n`);
  if (groups === '') idle = setTimeout(endGuard, GUARD_IDLE_MS).unref();
}

function endGuard(): void {
  guard?.stdin.end();
  guard = null;
}

/** Starts a guard with the groups as its argument: Conch could be killed before it writes the groups to the guard. */
function startGuard(groups: string): Guard {
  const shell = spawn('/bin/sh', ['-c', GUARD, 'sh', groups], {
    detached: true,
    env: {},
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.on('error', () => {
    if (guard === shell) guard = null;
  });
  shell.stdin.on('error', () => undefined);
  shell.once('exit', (_code, signal) => {
    if (guard !== shell) return;
    guard = null;
    if (signal !== null && LIVING.size > 0) tellGuard();
  });
  shell.unref();
  return shell;
}

const TAIL = 4_096;
const LONGEST_REASON = 160;
const TRACE =
  /^(?:at |Node\.js v\d|node:internal|Traceback |File "|\^+$|[{}]+$|npm (?:error|ERR!) (?:code|A complete log))/;
const ERROR = /^(?:Uncaught )?(?:[\w.]*(?:Error|Exception|Panic)\b|error\b|fatal\b|panic\b)/i;
const PATHS = /(?<![\w:/])(?:file:\/\/)?(?:\/[^\s/'":,;()]+){2,}\/?|[A-Za-z]:\\[^\s'":,;()]+/g;
const NOT_TEXT = /[\p{Cc}\p{Cf}]/gu;

type EnvironmentParts = {
  readonly from: Readonly<Record<string, string | undefined>>;
  /** Names of variables to inherit besides the default ones. */
  readonly pass?: readonly string[];
  /** Variables set for this child. They override inherited ones. */
  readonly set?: Readonly<Record<string, string>>;
};

/**
 * Returns the environment of a child process. It inherits only the default variables and those in `pass`, so that other
 * secrets of Conch do not reach an agent. Throws a terminal `BackendError` when `set` or `pass` names a variable that
 * changes how programs are loaded or how Git runs.
 */
export function childEnvironment(parts: EnvironmentParts): Record<string, string> {
  const set = parts.set ?? {};
  const refused = [...Object.keys(set), ...(parts.pass ?? [])].filter(isUnsafeVariable);
  if (refused.length > 0) {
    throw new BackendError(`these variables are not allowed in the environment of an agent: ${refused.join(', ')}`, {
      terminal: true,
    });
  }
  const passed = new Set(parts.pass);
  const inherited = Object.entries(parts.from).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && (ORDINARY.test(entry[0]) || passed.has(entry[0])),
  );
  return { ...Object.fromEntries(inherited), ...set };
}

/**
 * Returns the values of an environment to redact, longest first: values with secret-sounding names, and passwords in
 * URLs. Leaves out values of less than 6 characters, because they would match plain words.
 */
export function secretsOf(environment: Readonly<Record<string, string>>): readonly string[] {
  const named = Object.entries(environment).flatMap(([name, value]) => (isSecretName(name) ? [value] : []));
  const passwords = Object.values(environment).flatMap((value) => passwordIn(value) ?? []);
  return [...named, ...passwords]
    .filter((value) => value.length >= SHORTEST)
    .toSorted((one, other) => other.length - one.length);
}

const ORDINARY =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|COLORTERM|TMPDIR|TMP|TEMP|TZ|XDG_\w+|(?:HTTPS?|NO|ALL)_PROXY|SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|SYSTEMROOT|APPDATA|LOCALAPPDATA|USERPROFILE|PATHEXT|COMSPEC)$/i;
const SHORTEST = 6;
