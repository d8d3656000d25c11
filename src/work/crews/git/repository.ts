import {
  accessSync,
  realpathSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { pid } from 'node:process';
import { lockFile } from '../../../engine/lock.ts';
import type { FileLock } from '../../../engine/lock.ts';
import { GitObjects } from '../../../lib/git-objects.ts';
import { GitError, gitIn, gitSettings, zeroSeparated } from '../../../lib/git.ts';
import type { Git, GitEnvironment } from '../../../lib/git.ts';

/** A repository that a crew works in, locked for this process. */
export type Repository = {
  /** The top folder of the user's copy: the user's own checkout of the repository. */
  readonly root: string;
  /** The folder of git that all worktrees of the repository share. */
  readonly commonDir: string;
  readonly main: string;
  readonly env: GitEnvironment;
  /** Runs git in the user's copy. */
  readonly git: Git;
  readonly objects: Pick<GitObjects, 'read'>;
  /** Unlocks the repository. */
  release(): void;
};

/** Thrown when a crew cannot work in a folder. The message says why. */
export class RepositoryError extends Error {
  override readonly name = 'RepositoryError';
}

/** How a repository is opened. */
export type RepositoryOptions = {
  /** The name of the branch that work is merged into. */
  readonly main: string;
  readonly env: GitEnvironment;
  /** The folder of the worktrees, relative to the root. `null`: it is outside the repository. Default: `agents`. */
  readonly folder?: string | null;
};

/** Locks of this process. Held here, because garbage collection of a lock would release it. */
const HELD = new Set<FileLock>();

const BOOT_ID = '/proc/sys/kernel/random/boot_id';
/** The timeout of git with a remote, in milliseconds. */
export const REMOTE_LIMIT_MS = 300_000;

/**
 * Opens the repository of a folder and locks it for this process. The system unlocks it when the process ends in any
 * way. Hides the folder of the worktrees and `.conch` from git through `info/exclude`. Throws `RepositoryError`, or
 * another error when git fails otherwise.
 */
export async function openRepository(path: string, options: RepositoryOptions): Promise<Repository> {
  const { main, env, folder = 'agents' } = options;
  const startFolder = resolve(path);
  checkFolder(startFolder);
  const git = gitIn(startFolder, env);
  await checkGit(git);
  const { root, commonDir, gitDir } = await placesOf(git, startFolder);
  const underWay = operationIn(gitDir);
  if (underWay !== null) {
    const how = `Finish it or run: git -C "${root}" ${underWay} --abort`;
    throw new RepositoryError(`A ${underWay} is under way in ${root}. ${how}`);
  }
  const objects = new GitObjects(root, env);
  try {
    const tip = await tipOf({ objects }, main);
    if (tip === null) throw await mainMissing(git, root, main);
    if (folder !== null && (await git(['ls-tree', tip, '--', folder])) !== '') {
      const how = 'Set the folder of the worktrees to a path outside the repository.';
      throw new RepositoryError(`${main} has files in ${folder}/, where worktrees would lie. ${how}`);
    }
    const unlock = lockRepository(root, commonDir, [...(folder === null ? [] : [`/${folder}/`]), '/.conch']);
    const release = (): void => {
      objects.close();
      unlock();
    };
    return { root, commonDir, main, env, git: gitIn(root, env), objects, release };
  } catch (error) {
    objects.close();
    throw error;
  }
}

/** Returns the commit of a local branch; `null` when there is no such branch. */
export async function tipOf({ objects }: Pick<Repository, 'objects'>, branch: string): Promise<string | null> {
  return await commitOf({ objects }, `refs/heads/${branch}`);
}

/** Returns the commit that a ref or an id names; `null` when there is none. */
export async function commitOf({ objects }: Pick<Repository, 'objects'>, name: string): Promise<string | null> {
  const [found] = await objects.read([`${name}^{commit}`]);
  return found?.id ?? null;
}

/** Returns the id of a commit's tree. Throws when the repository has no such commit. */
export async function treeOf({ objects }: Pick<Repository, 'objects'>, commit: string): Promise<string> {
  const [found] = await objects.read([`${commit}^{commit}`]);
  const [, tree] = /^tree ([0-9a-f]+)\n/.exec(found?.body.toString('latin1', 0, 80) ?? '') ?? [];
  if (tree === undefined) throw new Error(`There is no commit ${commit}.`);
  return tree;
}

/** True when `one` is `other` or an ancestor of it. Throws `GitError` when a commit is missing. */
export async function isAncestor({ git }: Pick<Repository, 'git'>, one: string, other: string): Promise<boolean> {
  if (one === other) return true;
  return (await unless(1, git(['merge-base', '--is-ancestor', one, other]))) !== null;
}

/** Returns those of `commits` that `tip` does not contain. Commits that were not fetched yet count as missing. */
export async function missingIn(
  repository: Pick<Repository, 'git'>,
  commits: readonly string[],
  tip: string,
): Promise<ReadonlySet<string>> {
  const input = [...commits, `^${tip}`].map((line) => `${line}\n`).join('');
  const more = commits.length === 0 ? '' : await unless(128, repository.git(['rev-list', '-1', '--stdin'], { input }));
  const missing = new Set<string>();
  for (const commit of more === '' ? [] : commits)
    if ((await unless(128, isAncestor(repository, commit, tip).then(String))) !== 'true') missing.add(commit);
  return missing;
}

/** Returns the text of a file in a commit; `null` when the commit has no such file. */
export async function fileIn(
  repository: Pick<Repository, 'objects'>,
  commit: string,
  path: string,
): Promise<string | null> {
  return (await filesIn(repository, commit, [path])).get(path) ?? null;
}

/** Returns the texts of files in a commit, by their paths. Leaves out missing files and symbolic links. */
export async function plainFilesIn(
  repository: Pick<Repository, 'git' | 'objects'>,
  commit: string,
  paths: readonly string[],
) {
  const listing = ['--literal-pathspecs', 'ls-tree', '-z', commit, '--', ...paths];
  const entries = zeroSeparated((await unless(128, repository.git(listing))) ?? '');
  const plain = entries.filter((entry) => entry.startsWith('100')).map((entry) => entry.slice(entry.indexOf('\t') + 1));
  return await filesIn(repository, commit, plain);
}

/** Returns the texts of files in a commit, by their paths. Files that the commit lacks are left out. */
export async function filesIn(
  repository: Pick<Repository, 'objects'>,
  commit: string,
  paths: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  // git would read a path with a newline as two requests.
  const safePaths = paths.filter((path) => !path.includes('\n'));
  const texts = await blobsOf(
    repository,
    safePaths.map((path) => `${commit}:${path}`),
  );
  return new Map([...texts].map(([name, text]) => [name.slice(commit.length + 1), text]));
}

/** The texts of files by the `names` that git takes: a blob's id, or `commit:path`. Leaves out what is no file. */
export async function blobsOf(
  { objects }: Pick<Repository, 'objects'>,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = await objects.read(names);
  return new Map(
    names.flatMap((name, at) => {
      const { type, body } = found[at] ?? {};
      return type === 'blob' && body !== undefined ? [[name, body.toString('utf8')] as const] : [];
    }),
  );
}

/**
 * The result of fetching main. `remote`: `null` when the repository has none. `commit`: main of the remote; `null` when
 * main was not fetched. `problem`: why the fetch failed; `null` for no failure. "no branch": the remote has no main.
 */
type FetchedMain =
  | { readonly remote: string; readonly commit: string; readonly problem: null }
  | { readonly remote: string | null; readonly commit: null; readonly problem: string | null };

/** The remote of main, or "origin", and the name of main there; `null` when the repository has neither. */
export async function remoteOf({
  root,
  env,
  main,
}: Pick<Repository, 'root' | 'env' | 'main'>): Promise<{ readonly name: string; readonly branch: string } | null> {
  const settings = await gitSettings(root, env);
  const set = (key: string) => settings.findLast(({ name }) => name === `branch.${main}.${key}`)?.value ?? undefined;
  const hasOrigin = settings.some(({ name }) => name.startsWith('remote.origin.'));
  const name = set('remote') ?? (hasOrigin ? 'origin' : '.');
  return name === '.' ? null : { name, branch: (set('merge') ?? main).replace(/^refs\/heads\//, '') };
}

/** Fetches main from its remote into `refs/conch/remote/`. No other ref changes. */
export async function fetchMain(repository: Repository): Promise<FetchedMain> {
  const { git, main } = repository;
  const found = await remoteOf(repository);
  if (found === null) return { remote: null, commit: null, problem: null };
  const { name: remote, branch } = found;
  const to = `refs/conch/remote/${main}`;
  const quiet = ['--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-fetch-head', '--refmap='];
  try {
    await git(['fetch', ...quiet, '--end-of-options', remote, `+refs/heads/${branch}:${to}`], {
      limitMs: REMOTE_LIMIT_MS,
    });
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    const isMissing = /couldn't find remote ref/i.test(error.stderr);
    return { remote, commit: null, problem: isMissing ? 'no branch' : error.message };
  }
  const commit = await commitOf(repository, to);
  return commit === null ? { remote, commit, problem: 'no branch' } : { remote, commit, problem: null };
}

/** Returns a sentence when the repository sets up hooks that will not run in a worktree; else `null`. */
export async function hooksProblem({ env, commonDir }: Repository, worktree: string): Promise<string | null> {
  const set = (await gitSettings(worktree, env)).findLast(({ name }) => name === 'core.hookspath')?.value ?? null;
  if (set === null) return null;
  const git = gitIn(worktree, env);
  const path = resolve(worktree, (await git(['config', '--type=path', 'core.hooksPath'], { hooks: true })).trimEnd());
  if (existsSync(path)) return null;
  const where = path.startsWith(`${commonDir}/`) ? path : set;
  return `Hooks do not run in ${worktree}: core.hooksPath is ${where}, and this folder is missing there.`;
}

/** Arguments of git that show a diff without color, external programs and text conversion. */
export const DIFF = ['diff', '--no-color', '--no-ext-diff', '--no-textconv'];

/** Arguments of git that list HEAD, and the files that differ from HEAD. */
export const STATUS = 'status --porcelain=v2 --branch --no-ahead-behind -z --no-renames --untracked-files=all'.split(
  ' ',
);

/** Resolves with the text of `running`, without white space at its end; `null` when git ends with this exit code. */
export async function unless(exitCode: number, running: Promise<string>): Promise<string | null> {
  try {
    return (await running).trimEnd();
  } catch (error) {
    if (error instanceof GitError && error.exitCode === exitCode) return null;
    throw error;
  }
}

function operationIn(gitDir: string): 'rebase' | 'am' | 'merge' | 'cherry-pick' | 'revert' | null {
  const has = (name: string): boolean => existsSync(join(gitDir, name));
  if (has('rebase-merge') || has('rebase-apply')) return has('rebase-apply/applying') ? 'am' : 'rebase';
  if (has('MERGE_HEAD')) return 'merge';
  if (has('CHERRY_PICK_HEAD')) return 'cherry-pick';
  return has('REVERT_HEAD') ? 'revert' : null;
}

function checkFolder(path: string): void {
  try {
    if (!statSync(path).isDirectory()) throw new RepositoryError(`${path} is a file. Set the folder of a repository.`);
    accessSync(path, constants.R_OK | constants.X_OK);
  } catch (error) {
    if (error instanceof RepositoryError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'There is no folder' : 'Conch may not read the folder';
    throw new RepositoryError(`${why} ${path}. Set the folder of a repository that Conch may read.`);
  }
}

/** Throws a `RepositoryError` when git is missing or older than 2.30. */
export async function checkGit(git: Git): Promise<void> {
  let version: string;
  try {
    version = await git(['version']);
  } catch (error) {
    if (error instanceof GitError && error.isMissing)
      throw new RepositoryError('git was not found. Install git 2.30 or newer.');
    throw error;
  }
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(version) ?? [];
  if (Number(major) * 1_000 + Number(minor) < 2_030)
    throw new RepositoryError(`git ${major}.${minor} is too old. Install git 2.30 or newer.`);
}

async function placesOf(
  git: Git,
  startFolder: string,
): Promise<{ readonly root: string; readonly commonDir: string; readonly gitDir: string }> {
  try {
    const isInside = (await git(['rev-parse', '--is-inside-work-tree'])).trim() === 'true';
    if (!isInside) {
      const how = 'Clone it, and set the folder of the clone: git clone';
      throw new RepositoryError(`${startFolder} is a bare repository, without files. ${how} "${startFolder}"`);
    }
    const root = (await git(['rev-parse', '--show-toplevel'])).trimEnd();
    const gitDir = (await git(['rev-parse', '--absolute-git-dir'])).trimEnd();
    // git answers relative to the folder it runs in, and names worktrees by paths without links.
    const common = (await git(['rev-parse', '--git-common-dir'])).trimEnd();
    const commonDir = realpathSync(resolve(realpathSync(startFolder), common));
    return { root, commonDir, gitDir };
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    if (!error.stderr.includes('not a git repository')) throw new RepositoryError(error.message);
    const how = `Run: git init "${startFolder}"`;
    throw new RepositoryError(`${startFolder} is in no git repository. ${how}`);
  }
}

async function mainMissing(git: Git, root: string, main: string): Promise<RepositoryError> {
  const branches = (await git(['for-each-ref', '--count=10', '--format=%(refname:short)', 'refs/heads'])).trim();
  const message =
    branches === ''
      ? `${root} has no commit yet. Run: git -C "${root}" commit --allow-empty -m "Begin"`
      : `${root} has no branch ${main}. Set "main" to one of: ${branches.split('\n').join(', ')}`;
  return new RepositoryError(message);
}

function lockRepository(root: string, commonDir: string, excluded: readonly string[]): () => void {
  const owner = join(commonDir, 'conch-owner.json');
  let lock: FileLock | null = null;
  try {
    lock = lockFile(join(commonDir, 'conch.lock'));
    if (lock !== null) {
      const boot = existsSync(BOOT_ID) ? readFileSync(BOOT_ID, 'utf8').trim() : null;
      writeFileSync(owner, JSON.stringify({ pid, host: hostname(), boot }));
      excludePaths(commonDir, excluded);
    }
  } catch (error) {
    lock?.release();
    throw new RepositoryError(`Conch cannot write in ${commonDir}: ${(error as Error).message}`);
  }
  if (lock === null) {
    const found = existsSync(owner) ? /"pid":(\d+),"host":"([^"]*)"/.exec(readFileSync(owner, 'utf8')) : null;
    const who = found === null ? '' : ` (process ${found[1]} on ${found[2]})`;
    throw new RepositoryError(`Another Conch${who} works in ${root}. Stop it, or use another clone.`);
  }
  const held = lock;
  HELD.add(held);
  return () => {
    HELD.delete(held);
    held.release();
  };
}

/** Adds lines to git's file `info/exclude`, which all worktrees share. Leaves out lines that it has. */
export function excludePaths(commonDir: string, lines: readonly string[]): void {
  const file = join(commonDir, 'info/exclude');
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const missing = lines.filter((line) => !text.split(/\r?\n/).includes(line));
  if (missing.length === 0) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${missing.join('\n')}\n`);
}
