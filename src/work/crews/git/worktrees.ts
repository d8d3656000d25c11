import { constants, existsSync } from 'node:fs';
import { cp, lstat, mkdtemp, readFile, readdir, readlink, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { KeyedQueue } from '../../../lib/keyed.ts';
import { GitError, gitIn, gitSettings, zeroSeparated } from '../../../lib/git.ts';
import { statusOf } from './kept.ts';
import { commitOf, tipOf, unless } from './repository.ts';
import type { Repository } from './repository.ts';

/** One worktree as git registers it. `branch` is `null` when HEAD is detached. */
type Worktree = { readonly folder: string; readonly head: string | null; readonly branch: string | null };

/** Creations, registrations and removals by this file run one at a time for each repository. */
const QUEUE = new KeyedQueue<string>();

/** Returns an id reduced to letters, digits, `-` and `_`, with a number at its end when the name is taken. */
export function worktreeName(id: string, isTaken: (name: string) => boolean): string {
  const name = id.replaceAll(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+/, '') || 'ticket';
  let free = name;
  for (let count = 2; isTaken(free); count += 1) free = `${name}-${count}`;
  return free;
}

/** Lists the worktrees that git has registered; the main worktree is first. */
export async function listWorktrees({ git }: Pick<Repository, 'git'>): Promise<readonly Worktree[]> {
  const entries = (await git(['worktree', 'list', '--porcelain'])).split('\n\n').filter((entry) => entry !== '');
  return entries.map((entry) => {
    const field = (name: string): string | null => new RegExp(`^${name} (.*)$`, 'm').exec(entry)?.[1] ?? null;
    const branch = field('branch')?.replace('refs/heads/', '') ?? null;
    return { folder: field('worktree') ?? '', head: field('HEAD'), branch };
  });
}

/**
 * Makes a worktree on a branch. A new branch begins at the commit `base`. A repeated call finds the worktree. A
 * registered worktree whose folder is missing is checked out again. After a failure, deletes a new branch that is still
 * at `base`. Throws `GitError`, or `Error` when branch, base or folder cannot be used.
 */
export async function addWorktree(
  repository: Repository,
  place: { readonly folder: string; readonly branch: string; readonly base: string },
): Promise<void> {
  await QUEUE.run(repository.commonDir, async () => await add(repository, place));
}

async function add(
  repository: Repository,
  { folder, branch, base }: { readonly folder: string; readonly branch: string; readonly base: string },
): Promise<void> {
  const { git } = repository;
  const isPlain = /^\w[\w-]*(?:\/[\w-]+)*$/.test(branch);
  const isName = isPlain || (await unless(1, git(['check-ref-format', `refs/heads/${branch}`]))) !== null;
  if (!isName || branch.startsWith('-'))
    throw new Error(`"${branch}" cannot be the name of a branch. Rename the ticket.`);
  if (!/^[0-9a-f]{40,64}$/.test(base) || (await commitOf(repository, base)) === null)
    throw new Error(`"${base}" is no commit of ${repository.root}.`);
  const registered = (await listWorktrees(repository)).find((one) => one.folder === folder);
  const tip = await tipOf(repository, branch);
  const isOnDisk = existsSync(folder) && (await readdir(folder)).length > 0;
  if (registered === undefined && isOnDisk)
    throw new Error(`${folder} is no worktree of this repository and is not empty. Move it away.`);
  if (registered !== undefined && isOnDisk) {
    const isUnfinished = await hasUnfinishedFiles(repository, folder);
    if (!isUnfinished && registered.branch === branch && existsSync(join(folder, '.git'))) return;
    if (!isUnfinished) throw new Error(`${folder} is not the worktree of ${branch}. Move it away.`);
    // git was ended in the middle of an earlier creation, so no agent has worked there.
    await undo(repository, folder);
  }
  const force = registered === undefined ? [] : ['--force', '--force'];
  const names = tip === null ? ['--no-track', '-b', branch, folder, base] : [folder, branch];
  try {
    await git(['worktree', 'add', '--quiet', ...force, ...names]);
  } catch (error) {
    await undo(repository, folder);
    if (tip === null) await deleteBranch(repository, branch, base).catch(() => undefined);
    throw error;
  }
}

/**
 * True when `folder` is an intact worktree of the repository: its file `.git` names an entry of the repository, which
 * names the folder. False for a moved or damaged worktree.
 */
export async function isLinked({ commonDir }: Repository, folder: string): Promise<boolean> {
  const gitDir = (await linkIn(folder)) ?? '';
  if (!gitDir.startsWith(`${commonDir}/worktrees/`)) return false;
  return (await readFile(join(gitDir, 'gitdir'), 'utf8').catch(() => '')).trimEnd() === join(folder, '.git');
}

async function linkIn(folder: string): Promise<string | undefined> {
  return /^gitdir: (.*)$/m.exec(await readFile(join(folder, '.git'), 'utf8').catch(() => ''))?.[1];
}

/** True when git was ended while it created the worktree: git locks it until all files are there. */
async function hasUnfinishedFiles({ commonDir }: Repository, folder: string): Promise<boolean> {
  const gitDir = (await linkIn(folder)) ?? '';
  if (!gitDir.startsWith(`${commonDir}/worktrees/`)) return false;
  return (await readFile(join(gitDir, 'locked'), 'utf8').catch(() => '')).trim() === 'initializing';
}

async function undo({ git }: Repository, folder: string): Promise<void> {
  await git(['worktree', 'remove', '--force', '--force', folder]).catch(() => undefined);
  await rm(folder, { recursive: true, force: true });
}

/**
 * Writes the `.git` file of a worktree again when it is missing, because git needs it to store the other files.
 * Registers a worktree without a registration anew, on its branch. Returns whether the folder is a worktree now.
 */
export async function repairWorktree(repository: Repository, folder: string, branch: string): Promise<boolean> {
  const link = join(folder, '.git');
  const registered = join(repository.commonDir, 'worktrees');
  const linked = await linkIn(folder);
  if (linked !== undefined && existsSync(linked)) return true;
  // A folder named .git is a repository of its own, in which Conch would store nothing.
  if (!existsSync(folder) || (existsSync(link) && linked === undefined)) return false;
  for (const name of await readdir(registered).catch(() => [])) {
    const place = await readFile(join(registered, name, 'gitdir'), 'utf8').catch(() => '');
    if (place.trimEnd() === link) await writeFile(link, `gitdir: ${join(registered, name)}\n`);
    if (place.trimEnd() === link) return true;
  }
  return await QUEUE.run(repository.commonDir, async () => await register(repository, folder, branch));
}

async function register(repository: Repository, folder: string, branch: string): Promise<boolean> {
  if ((await tipOf(repository, branch)) === null) return false;
  const scratch = await mkdtemp(join(tmpdir(), 'conch-worktree-'));
  const made = join(scratch, basename(folder));
  try {
    await repository.git(['worktree', 'add', '--quiet', '--no-checkout', made, branch]);
    const registration = (await linkIn(made)) ?? '';
    await writeFile(join(registration, 'gitdir'), `${join(folder, '.git')}\n`);
    await writeFile(join(folder, '.git'), `gitdir: ${registration}\n`);
    await gitIn(folder, repository.env)(['read-tree', 'HEAD']);
    return true;
  } catch (error) {
    if (error instanceof GitError) return false;
    throw error;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Removes a worktree: its registration in git and its folder. Does nothing when git knows no such worktree. git refuses
 * a worktree with changes or submodules, except when `stored` names the tree that holds all its files now. Throws
 * `GitError` or `KeepError`.
 */
export async function removeWorktree(
  repository: Repository,
  folder: string,
  stored: { readonly tree: string } | null = null,
): Promise<void> {
  await QUEUE.run(repository.commonDir, async () => {
    const isWorktree = (await isLinked(repository, folder)) || (await isRegistered(repository, folder));
    if (!isWorktree) return;
    const isStored = stored !== null && existsSync(folder) && (await statusOf(repository, folder)).tree === stored.tree;
    await repository.git(['worktree', 'remove', ...(isStored ? ['--force'] : []), folder]);
  });
}

async function isRegistered(repository: Repository, folder: string): Promise<boolean> {
  const [, ...linked] = await listWorktrees(repository);
  return linked.some((one) => one.folder === folder);
}

/**
 * Deletes a branch; does nothing when there is no such branch. Throws `Error` when it is checked out, and `GitError`
 * when it is at another commit than `expected`.
 */
export async function deleteBranch(repository: Repository, branch: string, expected: string): Promise<void> {
  if ((await tipOf(repository, branch)) === null) return;
  const isOut = (await listWorktrees(repository)).find((one) => one.branch === branch);
  if (isOut !== undefined) throw new Error(`${branch} is checked out in ${isOut.folder}. It was not deleted.`);
  await repository.git(['update-ref', '-d', `refs/heads/${branch}`, expected]);
}

type CopiedFiles = {
  readonly copied: readonly string[];
  readonly skipped: readonly { readonly path: string; readonly reason: string }[];
};

/** The most bytes of a file or folder that is copied. A larger one is only cloned copy-on-write. */
const MOST_COPIED = 100 * 1_048_576;

/**
 * Copies files of the user's copy into a worktree: those that match the list `.worktreeinclude` and that git ignores.
 * Never overwrites. Skips links that are absolute or leave the repository, and folders of Conch. Skips what is too
 * large to copy where the file system cannot clone. `without`: folders that are never copied.
 */
export async function copyIncludes(
  { git, root }: Repository,
  worktree: string,
  without: readonly string[],
): Promise<CopiedFiles> {
  const list = join(root, '.worktreeinclude');
  if (!existsSync(list)) return { copied: [], skipped: [] };
  const outside = without.map((path) => `:(top,exclude,literal)${path}`);
  const listing = ['ls-files', '-z', '--others', '--ignored', '--directory', `--exclude-from=${list}`];
  const matched = zeroSeparated(await git([...listing, '--', ':/', ...outside]));
  const input = matched.map((path) => `${path}\0`).join('');
  const ignored = matched.length === 0 ? null : await unless(1, git(['check-ignore', '-z', '--stdin'], { input }));
  const copied: string[] = [];
  const skipped: { path: string; reason: string }[] = [];
  for (const path of zeroSeparated(ignored ?? '')) {
    const isOut = without.some((one) => `${path}/`.startsWith(`${one}/`));
    const reason = isOut ? 'folder of Conch' : await copyOne(root, worktree, path.replace(/\/$/, ''));
    if (reason === null) copied.push(path);
    else skipped.push({ path, reason });
  }
  return { copied, skipped };
}

async function copyOne(root: string, worktree: string, path: string): Promise<string | null> {
  const to = join(worktree, path);
  if ((await lstat(to).catch(() => null)) !== null) return 'exists in the worktree';
  let parent = dirname(to);
  while (!existsSync(parent)) parent = dirname(parent);
  if (!`${await realpath(parent)}/`.startsWith(`${await realpath(worktree)}/`)) return 'would leave the worktree';
  const found = await measureFiles(root, path);
  if (typeof found === 'string') return found;
  const isLarge = found > MOST_COPIED;
  const clone = isLarge ? constants.COPYFILE_FICLONE_FORCE : constants.COPYFILE_FICLONE;
  try {
    await cp(join(root, path), to, {
      recursive: true,
      force: false,
      errorOnExist: true,
      verbatimSymlinks: true,
      mode: clone,
    });
    return null;
  } catch (error) {
    // Nothing was at this path before, so all of it is a part of this copy.
    await rm(to, { recursive: true, force: true });
    if (isLarge) return `larger than ${MOST_COPIED / 1_048_576} MiB, and the file system cannot clone it`;
    throw error;
  }
}

async function measureFiles(root: string, path: string): Promise<number | string> {
  const [place, top] = [join(root, path), await realpath(root)];
  const real = `${(await realpath(place).catch(() => null)) ?? ''}/`;
  if (!real.startsWith(`${top}/`) || real.startsWith(`${top}/.git/`)) return `${path} leaves the repository`;
  const found = await lstat(place);
  if (found.isSymbolicLink()) return isAbsolute(await readlink(place)) ? `${path} is an absolute link` : 0;
  if (!found.isDirectory()) return found.isFile() ? found.size : `${path} is no file`;
  let bytes = 0;
  for (const name of await readdir(place)) {
    const inside = await measureFiles(root, join(path, name));
    if (typeof inside === 'string') return inside;
    bytes += inside;
  }
  return bytes;
}

/**
 * Checks the submodules of a worktree out from the copies that the repository has. Contacts no remote, and leaves the
 * repository's configuration as it is. Returns the submodules that were not checked out, with the reason.
 */
export async function updateSubmodules(
  { commonDir, env }: Repository,
  worktree: string,
): Promise<readonly { readonly path: string; readonly reason: string }[]> {
  const git = gitIn(worktree, env);
  if (!existsSync(join(worktree, '.gitmodules'))) return [];
  const found = await unless(1, git(['config', '-z', '-f', '.gitmodules', '--get-regexp', '^submodule\\..*\\.path$']));
  const missing: { path: string; reason: string }[] = [];
  for (const entry of zeroSeparated(found ?? '')) {
    const [key = '', path = ''] = entry.split('\n');
    const name = key.slice('submodule.'.length, -'.path'.length);
    const copy = join(commonDir, 'modules', name);
    if (name.split('/').includes('..') || !existsSync(join(copy, 'HEAD'))) {
      missing.push({ path, reason: 'no copy of it in the repository' });
      continue;
    }
    const from = ['-c', `submodule.${name}.url=${copy}`, '-c', 'protocol.file.allow=always'];
    try {
      await git([...from, 'submodule', '--quiet', 'update', '--checkout', '--', path]);
      // "submodule sync" would overwrite the address that people set in the shared configuration.
      const set = (await gitSettings(worktree, env)).findLast((each) => each.name === `submodule.${name}.url`);
      if (set?.value) await gitIn(join(worktree, path), env)(['remote', 'set-url', 'origin', set.value]);
    } catch (error) {
      if (!(error instanceof GitError)) throw error;
      missing.push({ path, reason: error.message });
    }
  }
  return missing;
}

/** Returns the files of a worktree whose content is in Git LFS and was not fetched. */
export async function lfsPointers({ env }: Repository, worktree: string): Promise<readonly string[]> {
  const first = 'version https://git-lfs.github.com/spec/v1';
  const found = await unless(1, gitIn(worktree, env)(['grep', '-l', '-z', '-F', '-e', first]));
  const isPointer = async (path: string): Promise<boolean> => {
    const text = await readFile(join(worktree, path), 'utf8').catch(() => '');
    return text.length < 1_024 && text.startsWith(`${first}\n`);
  };
  const names = zeroSeparated(found ?? '');
  const isIn = await Promise.all(names.map(isPointer));
  return names.filter((_, at) => isIn[at] === true);
}
