import { hash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { copyFile, realpath, stat, utimes } from 'node:fs/promises';
import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { join, resolve as resolvePath } from 'node:path';
import type { GitAnswer, GitCall, GitEnd } from './git-runner.ts';
import { programBeside } from './installation.ts';
import { BoundedMap } from './keyed.ts';
import { isUnsafeVariable } from './unsafe-variables.ts';

/** The environment variables of git. */
export type GitEnvironment = Readonly<Record<string, string | undefined>>;

type GitOptions = {
  /**
   * Lets programs run that a configuration of git names: hooks, filters, merge drivers, programs for remotes. Default:
   * false.
   */
  readonly hooks?: boolean;
  /** The index file to work on. Default: the index of the worktree. */
  readonly index?: string;
  readonly input?: string;
  readonly set?: Readonly<Record<string, string>>;
  /** The timeout in milliseconds. Default: 60 s. */
  readonly limitMs?: number;
  /** The most bytes of standard output. Default: 64 MiB. */
  readonly mostOutput?: number;
  /** Returns one character for each byte of output. Default: the output is read as UTF-8. */
  readonly bytes?: true;
};

/**
 * Runs one command of git in a folder. Returns standard output. Throws `GitError`, or an `Error` when the configuration
 * names a program that cannot be switched off.
 */
export type Git = (args: readonly string[], options?: GitOptions) => Promise<string>;

/**
 * Thrown when git is missing or could not be run, is ended by a signal, exits with another code than 0, exceeds a
 * limit, or ends in an unknown way.
 */
export class GitError extends Error {
  /** `null` when git did not start, was ended by a signal, or ended in an unknown way. */
  readonly exitCode: number | null;
  /** The last 4,096 characters of standard error, or why git could not be run or its end is unknown. */
  readonly stderr: string;
  readonly isMissing: boolean;

  constructor(args: readonly string[], end: GitEnd) {
    const reason = end.limit ?? (end.stderr.trim() === '' ? `exit code ${end.code ?? 'unknown'}` : end.stderr.trim());
    const said = end.isMissing ? 'git was not found. Install git 2.30 or newer.' : reason;
    const command = args.find((word, at) => /^[a-z]/.test(word) && args[at - 1] !== '-c');
    super(`git ${command ?? ''} failed: ${said}`);
    this.name = 'GitError';
    this.exitCode = end.code;
    this.stderr = end.stderr;
    this.isMissing = end.isMissing;
  }

  /** True when git could not write because the disk or a quota is full, or a file limit was passed. */
  get isDiskFull(): boolean {
    return /No space left on device|Disk quota exceeded|File too large/i.test(this.stderr);
  }
}

const LIMIT_MS = 60_000;
const MOST_OUTPUT = 64 * 1_048_576;

/**
 * Settings of each command of `gitCommand`. They switch off programs, background tasks and recursion into submodules.
 * The settings of paths and diffs replace the user's, because Conch parses and applies output of one form only.
 */
const ALWAYS: readonly string[] = [
  'core.fsmonitor=false',
  'core.untrackedCache=false',
  'commit.gpgSign=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'protocol.ext.allow=never',
  'submodule.recurse=false',
  'core.quotePath=false',
  'log.showSignature=false',
  'diff.noprefix=false',
  'diff.mnemonicPrefix=false',
  'diff.srcPrefix=a/',
  'diff.dstPrefix=b/',
  'diff.relative=false',
  'diff.submodule=short',
  'diff.context=3',
  'diff.interHunkContext=0',
];

/**
 * Returns a function that runs git in a folder. Unless `hooks` is set, programs named by the repository's configuration
 * do not run: hooks, filters, monitors, merge drivers, credential helpers, commands for ssh. Danger: diff drivers run,
 * unless the command has `--no-ext-diff --no-textconv`. The user's own programs for remotes run, too. Variables such as
 * `GIT_*` are removed from the environment. `set`: variables added for every command.
 */
export function gitIn(folder: string, environment: GitEnvironment, set: Readonly<Record<string, string>> = {}): Git {
  return async (args, options = {}) => {
    const command = await gitCommand(folder, environment, args, { ...options, set: { ...set, ...options.set } });
    const end = await ended(command.args, command.env, options);
    if (end.code !== 0 || end.limit !== null) throw new GitError(args, end);
    return end.stdout.toString(options.bytes === true ? 'latin1' : 'utf8');
  };
}

/** All arguments of git for one command, and its environment. */
export type GitCommand = { readonly args: readonly string[]; readonly env: GitEnvironment };

/**
 * Returns the arguments and the environment with which git runs one command in a folder. Switches off hooks, filters
 * and other programs that the repository's configuration names, unless `hooks` is set. Diff drivers stay on.
 */
export async function gitCommand(
  folder: string,
  environment: GitEnvironment,
  args: readonly string[],
  { set = {}, index, hooks = false }: Pick<GitOptions, 'set' | 'index' | 'hooks'> = {},
): Promise<GitCommand> {
  const env = { ...safeEnvironment(environment), ...set };
  if (index !== undefined) env['GIT_INDEX_FILE'] = index;
  const { off, ssh } = hooks ? NO_SETTINGS : await settingsOf(folder, env);
  if (ssh !== null) env['GIT_SSH_COMMAND'] = ssh;
  const safe = [...ALWAYS, ...(hooks ? [] : ['core.hooksPath=/dev/null']), ...off];
  return { args: ['-C', folder, ...safe.flatMap((one) => ['-c', one]), ...args], env };
}

/**
 * Returns the path of a worktree's git folder, without links. A linked worktree has a git folder of its own. Throws
 * `GitError` when there is none.
 */
export async function gitDirOf(folder: string, git: Git): Promise<string> {
  const [own] = gitFoldersOf(folder) ?? [];
  return own === undefined ? (await git(['rev-parse', '--absolute-git-dir'])).trimEnd() : await realpath(own);
}

/** Returns the records of an output whose records end with NUL. Empty records are left out. */
export function zeroSeparated(output: string): readonly string[] {
  return output.split('\0').filter((record) => record !== '');
}

/** A value of git's configuration. `name`: section and key in lower case. `value`: `null` for a key without `=`. */
export type GitSetting = { readonly scope: string; readonly name: string; readonly value: string | null };

/**
 * Returns the values of git's configuration for a folder, in the order in which git reads them. Returns an empty list
 * when git cannot read a file. Throws `GitError`, or an `Error` when the configuration names a program that cannot be
 * switched off.
 */
export async function gitSettings(folder: string, environment: GitEnvironment): Promise<readonly GitSetting[]> {
  return (await settingsOf(folder, safeEnvironment(environment))).all;
}

type Settings = { readonly off: readonly string[]; readonly ssh: string | null; readonly all: readonly GitSetting[] };
const NO_SETTINGS: Settings = { off: [], ssh: null, all: [] };

function safeEnvironment(environment: GitEnvironment): Record<string, string | undefined> {
  const kept = Object.entries(environment).filter(([name]) => !isUnsafeVariable(name));
  return {
    ...Object.fromEntries(kept),
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_EDITOR: ':',
    GIT_SEQUENCE_EDITOR: ':',
    GIT_PAGER: 'cat',
    GIT_ASKPASS: '',
    SSH_ASKPASS_REQUIRE: 'never',
    LANGUAGE: 'C',
    LC_ALL: 'C.UTF-8',
  };
}

/** The values that replace settings of programs, in the system's, the user's and the repository's configuration. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/^filter\..*\.(?:clean|smudge|process)$/s, ''],
  [/^filter\..*\.required$/s, 'false'],
  // Merges as git does without a driver.
  [/^merge\..*\.driver$/s, 'git merge-file --marker-size=%L %A %O %B'],
  [/^core\.alternaterefscommand$/, 'true'],
];
/** The values that replace settings that name programs for remotes, in the repository's configuration alone. */
const REPLACED_LOCAL: readonly (readonly [RegExp, string])[] = [
  [/^credential\.(?:.*\.)?helper$/s, ''],
  [/^core\.gitproxy$/, ''],
  [/^remote\..*\.uploadpack$/s, 'git-upload-pack'],
  [/^remote\..*\.receivepack$/s, 'git-receive-pack'],
  [/^remote\..*\.vcs$/s, ''],
];

const KNOWN = new BoundedMap<string, Settings>(200);
/**
 * In milliseconds. Settings of files that changed less than this long ago are read once more later, because the files
 * could have changed for a moment while git read them.
 */
const RACY_MS = 1_000;
/** Size limit of a configuration file, in bytes. Settings are not cached when one of the files is larger. */
const MOST_TEXT = 1_048_576;

async function settingsOf(folder: string, env: GitEnvironment): Promise<Settings> {
  const files = configFiles(folder, env);
  const known = files === null ? undefined : KNOWN.get(files);
  if (known !== undefined) return known;
  const all = await readSettings(folder, env);
  if (all === null) return NO_SETTINGS;
  const settings = { ...programsOff(all), all };
  // Files that others include are not known here, so such settings are read each time.
  const includes = all.some(({ name }) => /^include(?:if)?\./.test(name));
  if (files !== null && !includes && files === configFiles(folder, env)) KNOWN.set(files, settings);
  return settings;
}

/**
 * Returns a key that changes when the text or the time of a file of git's configuration changes. Of the system's files,
 * only `/etc/gitconfig` counts; included files do not count. `null`: the settings must not be cached.
 */
function configFiles(folder: string, env: GitEnvironment): string | null {
  const places = gitFoldersOf(folder);
  if (places === null) return null;
  const home = env['HOME'] ?? '';
  const paths = [
    '/etc/gitconfig',
    join(home, '.gitconfig'),
    join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'git/config'),
    ...places.flatMap((place) => [join(place, 'config'), join(place, 'config.worktree')]),
  ];
  const newest = Date.now() - RACY_MS;
  try {
    const states = paths.map((path) => {
      const found = statSync(path, { bigint: true, throwIfNoEntry: false });
      if (found === undefined) return '';
      if (!found.isFile() || found.size > MOST_TEXT) throw new Error(`${path} is not compared.`);
      const isNew = Number(found.ctimeMs) > newest;
      return `${found.dev} ${found.ino} ${found.ctimeNs} ${isNew} ${hash('sha256', readFileSync(path))}`;
    });
    return JSON.stringify([folder, home, env['XDG_CONFIG_HOME'], env['PATH'], ...states]);
  } catch {
    return null;
  }
}

/**
 * The git folders of a worktree: its own, then the folder that all worktrees share, if that is another folder. `null`
 * when the folder has no usable `.git`.
 */
export function gitFoldersOf(folder: string): readonly string[] | null {
  const place = join(folder, '.git');
  try {
    const path = statSync(place).isDirectory()
      ? '.git'
      : /^gitdir: (.*?)[\r\n]*$/.exec(readFileSync(place, 'utf8'))?.[1];
    const own = resolvePath(folder, path ?? '.git');
    // git takes a folder without HEAD for no repository, and looks further up.
    if (path === undefined || !existsSync(join(own, 'HEAD'))) return null;
    const shared = join(own, 'commondir');
    return existsSync(shared) ? [own, resolvePath(own, readFileSync(shared, 'utf8').trim())] : [own];
  } catch {
    return null;
  }
}

async function readSettings(folder: string, env: GitEnvironment): Promise<readonly GitSetting[] | null> {
  const args = ['config', '--list', '--show-scope', '--null'];
  const end = await ended(['-C', folder, ...args], env, {});
  if (end.code === null || end.limit !== null) throw new GitError(args, end);
  if (end.code !== 0) return null;
  const fields = end.stdout.toString().split('\0');
  return Array.from({ length: Math.floor(fields.length / 2) }, (_, at) => {
    const [scope = '', entry = ''] = fields.slice(2 * at, 2 * at + 2);
    const [name = '', ...value] = entry.split('\n');
    return { scope, name, value: value.length === 0 ? null : value.join('\n') };
  });
}

/** True for a value that the repository's own configuration sets. */
export function isLocalSetting({ scope }: GitSetting): boolean {
  return scope === 'local' || scope === 'worktree';
}

function programsOff(all: readonly GitSetting[]): Pick<Settings, 'off' | 'ssh'> {
  const off: string[] = [];
  const helpers: string[] = [];
  let ssh = 'ssh';
  for (const setting of all) {
    const { name, value } = setting;
    const isLocal = isLocalSetting(setting);
    const found = [...REPLACED, ...(isLocal ? REPLACED_LOCAL : [])].find(([pattern]) => pattern.test(name));
    // The first "=" ends the name of a setting of `-c`, so such a program could not be switched off.
    if (found !== undefined && name.includes('='))
      throw new Error(`The configuration of git names "${name}". Remove the "=" from this name.`);
    if (found !== undefined) off.push(`${name}=${found[1]}`);
    else if (name === 'core.sshcommand' && !isLocal) ssh = value ?? '';
    else if (name === 'credential.helper') helpers.push(`${name}=${value ?? ''}`);
  }
  const isReset = off.includes('credential.helper=');
  return { off: isReset ? [...off, ...helpers] : off, ssh: `${ssh} -o BatchMode=yes` };
}

function ended(args: readonly string[], env: GitEnvironment, options: GitOptions): Promise<GitEnd> {
  const { input = '', limitMs = LIMIT_MS, mostOutput = MOST_OUTPUT } = options;
  return new Promise((resolve) => {
    try {
      runner ??= startRunner();
    } catch (error) {
      return resolve({ ...NO_END, stderr: `${NOT_STARTED} ${String(error)}` });
    }
    const { child, waiting } = runner;
    const call: GitCall = { id: (calls += 1), args, env, input, limitMs, mostOutput };
    waiting.set(call.id, (answer) => resolve({ ...NO_END, ...answer }));
    if (child.pid === undefined) return;
    clearTimeout(resting);
    child.channel?.ref();
    child.send(call);
  });
}

type Runner = { readonly child: ChildProcess; readonly waiting: Map<number, (end: Partial<GitEnd>) => void> };

const PROGRAM = programBeside('git-runner', import.meta.url);
/** The process that starts git ends after this time without a command, in milliseconds. */
const REST_MS = 60_000;
/** The process that starts git. `null`: the next command starts the process. */
let runner: Runner | null = null;
let resting: NodeJS.Timeout | undefined;
let calls = 0;

const NO_END: GitEnd = { code: null, stdout: Buffer.alloc(0), stderr: '', isMissing: false, limit: null };
const NOT_STARTED = 'the process that runs git could not be started. Restart Conch, or raise its limits (ulimit):';
const LOST = 'the process that runs git was ended. It is unknown whether the command was done. Try again.';

/** Starts the process that starts git. It keeps Conch from exiting only while a command is under way. */
function startRunner(): Runner {
  const child = fork(PROGRAM, {
    env: { NODE_COMPILE_CACHE: getCompileCacheDir() },
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const started: Runner = { child, waiting: new Map() };
  const { waiting } = started;
  const rest = (): void => {
    if (runner !== started) return;
    runner = null;
    child.disconnect();
  };
  const over = (stderr: string): void => {
    if (runner === started) runner = null;
    for (const end of waiting.values()) end({ stderr });
    waiting.clear();
  };
  child.unref();
  child.on('error', (error) => over(child.pid === undefined ? `${NOT_STARTED} ${error.message}` : LOST));
  // Node emits "disconnect" after the last answer, and may emit "exit" before it.
  child.once('disconnect', () => over(LOST));
  child.on('message', ({ id, ...end }: GitAnswer) => {
    waiting.get(id)?.(end);
    waiting.delete(id);
    if (waiting.size > 0) return;
    child.channel?.unref();
    resting = setTimeout(rest, REST_MS).unref();
  });
  return started;
}

/**
 * Copies an index of git. The copy gets the index's time of change, in whole seconds. Danger: with a newer time, git
 * would overlook a file that changed in the second in which the index was written and kept its size. Rejects when there
 * is no index.
 */
export async function copyIndex(from: string, to: string): Promise<void> {
  const { mtimeMs } = await stat(from);
  await copyFile(from, to);
  const second = Math.floor(mtimeMs / 1_000);
  await utimes(to, second, second);
}

/**
 * Clears the flags of an index that make git take files for unchanged. Files that a sparse checkout leaves out stay
 * out. `entries`: the output of `ls-files --stage -v -z`, by record.
 */
export async function clearIndexFlags(git: Git, worktree: string, entries: readonly string[]): Promise<void> {
  const seen = entries.flatMap((entry) => {
    const path = entry.slice(entry.indexOf('\t') + 1);
    return /^[a-rt-z] /.test(entry) || (/^[sS] /.test(entry) && existsSync(join(worktree, path))) ? [`${path}\0`] : [];
  });
  if (seen.length === 0) return;
  for (const flag of ['--no-assume-unchanged', '--no-skip-worktree'])
    await git(['update-index', flag, '-z', '--stdin'], { input: seen.join('') });
}
