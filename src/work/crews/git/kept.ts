import { hash } from 'node:crypto';
import { lstat, mkdtemp, readFile, readlink, realpath, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { GitError, clearIndexFlags, copyIndex, gitDirOf, gitIn, gitSettings, zeroSeparated } from '../../../lib/git.ts';
import type { Git, GitEnvironment } from '../../../lib/git.ts';
import { BoundedMap } from '../../../lib/keyed.ts';
import { DIFF, STATUS, treeOf, unless } from './repository.ts';
import type { Repository } from './repository.ts';

/** Work stored as a commit. `ref` is `null` when nothing differs from HEAD and nothing was stored. */
type StoredWork = { readonly ref: string | null; readonly commit: string; readonly tree: string };

/** Thrown when work could not be stored or read. Remove nothing then. */
export class KeepError extends Error {
  constructor(worktree: string, reason: string, options?: ErrorOptions) {
    super(`The work in ${worktree} could not be stored: ${reason} Nothing was removed.`, options);
    this.name = 'KeepError';
  }
}

/** The author of stored work, and of commits when git knows no name or no email address of the user. */
const CONCH = { name: 'Conch', email: 'conch@localhost' };
/** Options with which git 2.36 or newer answers only after all objects and refs are on the disk. */
const DURABLE = ['-c', 'core.fsync=all'];

/**
 * Stores all files of a worktree that git does not ignore, staged, unstaged and new, as a commit under the next number
 * of `refPrefix`. Index, files and branch stay as they are. An index that differs from the files and from HEAD becomes
 * the last parent. When the newest ref has the same files and the same HEAD, returns that ref and stores nothing, even
 * if the index differs. Stores nothing when files and index are as in HEAD, and HEAD is in a branch or another ref,
 * unless `always` is set. Throws `KeepError`.
 */
export async function storeWork(
  repository: Repository,
  worktree: string,
  refPrefix: string,
  { always = false } = {},
): Promise<StoredWork> {
  if (!refPrefix.startsWith('refs/conch/kept/')) throw new Error(`impossible: kept work under ${refPrefix}`);
  const git = gitIn(worktree, repository.env, identityOf(CONCH));
  try {
    const seen = await lookAt(repository, worktree, refPrefix);
    const { tree, indexTree, headTree } = await snapshot(repository, worktree, { keep: refPrefix, seen });
    const { head } = seen;
    const isClean = tree === headTree && (indexTree === null || indexTree === tree);
    const isHeld = !seen.isDetached || (await git(['for-each-ref', '--count=1', '--contains', 'HEAD'])) !== '';
    if (isClean && head !== null && isHeld && !always) return { ref: null, commit: head, tree };
    const newest = await newestStoredWork(repository, refPrefix);
    if (newest !== undefined && newest.tree === tree && newest.parent === head)
      return { ref: newest.ref, commit: newest.commit, tree };
    const parents = head === null ? [] : ['-p', head];
    if (indexTree !== null && indexTree !== tree && indexTree !== headTree) {
      const message = `Index of ${refPrefix}`;
      parents.push('-p', (await git([...DURABLE, 'commit-tree', indexTree, ...parents, '-m', message])).trim());
    }
    const message = `Work kept from ${relative('refs/conch/kept', refPrefix)}`;
    const commit = (await git([...DURABLE, 'commit-tree', tree, ...parents, '-m', message])).trim();
    const ref = `${refPrefix}/${newest === undefined ? 1 : numberOf(newest.ref) + 1}`;
    await git([...DURABLE, 'update-ref', ref, commit, '']);
    return { ref, commit, tree };
  } catch (error) {
    throw keepError(worktree, error);
  }
}

/** Returns the state of a worktree. `tree`: the digest of all files that git does not ignore. Throws `KeepError`. */
export async function statusOf(repository: Repository, worktree: string): Promise<Look & { readonly tree: string }> {
  try {
    const seen = await lookAt(repository, worktree, null);
    return { ...seen, tree: (await snapshot(repository, worktree, { keep: null, seen })).tree };
  } catch (error) {
    throw keepError(worktree, error);
  }
}

/** One ref of stored work. `parent` is `null` for work on no commit. `at`: milliseconds since 1970. */
type StoredRef = StoredWork & {
  readonly ref: string;
  readonly parent: string | null;
  readonly at: number;
};

/** Lists stored work, in the order of the refs. `under`: the beginning of the refs, with a slash at its end. */
export async function listStoredWork({ git }: Repository, under = 'refs/conch/kept/'): Promise<readonly StoredRef[]> {
  const fields = ['refname', 'objectname', 'tree', 'parent', 'creatordate:unix'];
  const lines = (await git(['for-each-ref', `--format=${fields.map((field) => `%(${field})`).join('%00')}`, under]))
    .split('\n')
    .filter((line) => line !== '');
  return lines.map((line) => {
    const [ref = '', commit = '', tree = '', parents = '', seconds = '0'] = line.split('\0');
    const [parent = ''] = parents.split(' ');
    return { ref, commit, tree, parent: parent === '' ? null : parent, at: Number(seconds) * 1_000 };
  });
}

/** Returns what stored work changes, as a summary and a diff. */
export async function showStoredWork({ git }: Repository, { parent, commit }: StoredRef): Promise<string> {
  return await git([...DIFF, '--stat', '--patch', parent ?? (await emptyTree(git)), commit]);
}

/** Returns the stored work with the highest number under a ref; `undefined` for none. */
export async function newestStoredWork(repository: Repository, refPrefix: string): Promise<StoredRef | undefined> {
  const refs = await listStoredWork(repository, `${refPrefix}/`);
  return refs.toSorted((one, other) => numberOf(one.ref) - numberOf(other.ref)).at(-1);
}

/** Puts stored work into the files of a worktree. Changes nothing and throws `GitError` when the work does not fit. */
export async function applyStoredWork(
  { env }: Repository,
  { parent, commit }: StoredRef,
  worktree: string,
): Promise<void> {
  const git = gitIn(worktree, env);
  const scratch = await mkdtemp(join(tmpdir(), 'conch-kept-'));
  try {
    const patch = join(scratch, 'patch');
    const from = parent ?? (await emptyTree(git));
    await git([...DIFF, '--binary', '--full-index', '--no-renames', `--output=${patch}`, from, commit]);
    // git refuses an empty patch.
    if ((await lstat(patch)).size > 0) await git(['apply', '--whitespace=nowarn', patch]);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Deletes the ref of stored work. Throws `GitError` when the ref is not at this commit any more. */
export async function dropStoredWork({ git }: Repository, { ref, commit }: StoredRef): Promise<void> {
  await git(['update-ref', '-d', ref, commit]);
}

/** The result of committing a worktree. `leftOut`: files that stay out of the commit. */
type CommittedWork = {
  readonly leftOut: readonly { readonly path: string; readonly reason: string }[];
  /** Why a hook, a filter or git refused the commit, in words; `null` when it was not refused. */
  readonly refused: string | null;
};

/**
 * Commits the changes of tracked files and the new files that git does not ignore, on the worktree's branch. Some new
 * files stay out: links that leave the worktree, environment files, files over 5 MiB, dependency folders and nested
 * repositories. A tracked file counts as new when its type changed, such as a file that became a link. Runs the hooks
 * and filters of the repository. `refused` says when files have conflicts, or when git refuses to add or commit, such
 * as for a filter that fails. Throws `GitError` when git cannot list the files.
 */
export async function commitWork(
  { env }: Pick<Repository, 'env'>,
  worktree: string,
  message: string,
): Promise<CommittedWork> {
  const git = gitIn(worktree, env, await commitAuthor(worktree, env));
  const list = async (...args: readonly string[]): Promise<readonly string[]> => zeroSeparated(await git(args));
  const unmerged = await list('diff', '--name-only', '--diff-filter=U', '-z');
  if (unmerged.length > 0)
    return { leftOut: [], refused: `Files with conflicts: ${[...new Set(unmerged)].join(', ')}` };
  const fresh = await list('ls-files', '--others', '--exclude-standard', '-z');
  const staged = await list('diff', '--cached', '--name-only', '--no-renames', '--diff-filter=AT', '-z');
  const changed = await list('diff', '--name-only', '--no-renames', '--diff-filter=T', '-z');
  const leftOut: { path: string; reason: string }[] = [];
  for (const path of new Set([...fresh, ...staged, ...changed])) {
    const reason = await reasonAgainst(worktree, path);
    if (reason !== null) leftOut.push({ path, reason });
  }
  const out = new Set(leftOut.map(({ path }) => path));
  const paths = (names: readonly string[]) => ({ input: names.map((name) => `${name}\0`).join(''), hooks: true });
  const fromInput = ['--pathspec-from-file=-', '--pathspec-file-nul'];
  const scratch = await mkdtemp(join(tmpdir(), 'conch-commit-'));
  try {
    await git(['add', '--update', '--', ':/'], { hooks: true });
    const added = fresh.filter((path) => !out.has(path));
    if (added.length > 0) await git(['--literal-pathspecs', 'add', ...fromInput], paths(added));
    const unstaged = [...staged, ...changed].filter((path) => out.has(path));
    if (unstaged.length > 0) await git(['--literal-pathspecs', 'reset', '--quiet', ...fromInput], paths(unstaged));
    if ((await git(['diff', '--cached', '--name-only'])) === '') return { leftOut, refused: null };
    const set = { GIT_TRACE2_EVENT: join(scratch, 'events') };
    await git(['commit', '--quiet', '-m', message], { hooks: true, limitMs: HOOKS_LIMIT_MS, set });
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    const hook = refusingHook(await readFile(join(scratch, 'events'), 'utf8').catch(() => ''));
    const refused = hook === null ? error.message : `the hook ${hook} refused the commit:\n${error.stderr.trim()}`;
    return { leftOut, refused };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return { leftOut, refused: null };
}

/**
 * Returns the hook that failed, from the events that git traced; `null` for none. Leaves out events of a git that a
 * hook ran: their `sid` has a "/".
 */
function refusingHook(events: string): string | null {
  const own = events.split('\n').filter((line) => !/"sid":"[^"]*\//.test(line));
  const started = own.findLast((line) => line.includes('"child_class":"hook"'));
  const [, id = ''] = /"child_id":(\d+)/.exec(started ?? '') ?? [];
  const hasFailed = own.some(
    (line) => line.includes('"child_exit"') && /"code":[^0]/.test(line) && line.includes(`"child_id":${id},`),
  );
  return hasFailed ? (/"hook_name":"([^"]+)"/.exec(started ?? '')?.[1] ?? null) : null;
}

/**
 * Variables for the author of commits: the user of git, or Conch when git knows no name or no email address. `at`: the
 * time of the commits, in milliseconds; `null`: now.
 */
export async function commitAuthor(
  folder: string,
  env: GitEnvironment,
  at: number | null = null,
): Promise<Record<string, string>> {
  const set = new Map((await gitSettings(folder, env)).map((setting) => [setting.name, setting.value ?? undefined]));
  const [name, email] = [set.get('user.name'), set.get('user.email')];
  const date = at === null ? null : `@${Math.trunc(at / 1_000)} +0000`;
  return {
    ...identityOf(name === undefined || email === undefined ? CONCH : { name, email }),
    ...(date === null ? {} : { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date }),
  };
}

/** The longest time of a commit with its hooks, in milliseconds: hooks may run linters and tests. */
const HOOKS_LIMIT_MS = 900_000;
const MOST_BYTES = 5 * 1_048_576;
const DEPENDENCIES =
  /(?:^|\/)(?:node_modules|bower_components|\.pnpm-store|\.venv|venv|\.tox|__pycache__|site-packages|\.gradle|\.bundle)(?:\/|$)/;
const ENVIRONMENT = /(?:^|\/)\.env(?:rc|\.(?!example$|sample$|template$|dist$)[^/]*)?$/;

async function reasonAgainst(worktree: string, path: string): Promise<string | null> {
  if (DEPENDENCIES.test(path)) return 'dependency folder';
  if (ENVIRONMENT.test(path)) return 'environment file';
  if (path.endsWith('/')) return 'repository inside the worktree';
  const file = join(worktree, path);
  const found = await lstat(file).catch(() => null);
  if (found?.isSymbolicLink() === true) {
    const target = resolve(await realpath(dirname(file)), await readlink(file));
    const real = await realpath(file).catch(() => target);
    const root = await realpath(worktree);
    return [target, real].every((place) => place.startsWith(`${root}/`)) ? null : 'link that leaves the worktree';
  }
  return found !== null && found.size > MOST_BYTES ? 'larger than 5 MiB' : null;
}

type Look = Awaited<ReturnType<typeof lookAt>>;

/** The entries of git indexes, by the digest of the index file. */
const ENTRIES = new BoundedMap<string, readonly string[]>(40);
const MOST_REMEMBERED = 10_000;

/**
 * Lists the entries of the index of a worktree, with their flags. Asks git only for an index that is not remembered.
 */
export async function indexEntries(worktree: string, git: Git): Promise<readonly string[]> {
  const file = join(await gitDirOf(worktree, git), 'index');
  const digestNow = async (): Promise<string | null> => {
    const bytes = await readFile(file).catch(() => null);
    return bytes === null ? null : hash('sha256', bytes);
  };
  const digest = await digestNow();
  const cached = digest === null ? undefined : ENTRIES.get(digest);
  if (cached !== undefined) return cached;
  const entries = zeroSeparated(await git(['ls-files', '--stage', '-v', '-z']));
  const isSame = digest !== null && digest === (await digestNow());
  if (isSame && entries.length <= MOST_REMEMBERED) ENTRIES.set(digest, entries);
  return entries;
}

/**
 * Returns the state of a worktree and its submodules. `entries`: of the index. `unmerged`: files in a conflict.
 * `isDetached`: HEAD names a commit and no branch. `isDirty`: files or index differ from HEAD. `isClean`: not dirty,
 * HEAD has a commit, and git checks all files. `keep`: the prefix of the refs that keep commits of submodules; `null`
 * keeps none.
 */
async function lookAt(repository: Repository, worktree: string, keep: string | null) {
  const git = gitIn(worktree, repository.env);
  // This status runs no git in submodules, because their own settings could name programs.
  const status = zeroSeparated(await git([...STATUS, '--ignore-submodules=dirty']));
  const entries = await indexEntries(worktree, git);
  const files = status.filter((entry) => !entry.startsWith('# '));
  const [, head = null] = /^# branch\.oid ([0-9a-f]+)$/.exec(status[0] ?? '') ?? [];
  const isDetached = status[1] === '# branch.head (detached)';
  const unmerged = files.filter((entry) => entry.startsWith('u ')).map((entry) => entry.split(' ').slice(10).join(' '));
  const isDirty = files.length > 0 || (await storeSubmodules(repository, entries, { worktree, keep })).length > 0;
  // Letters other than H mark files in conflict, and files that git was told not to check.
  const isClean = !isDirty && head !== null && entries.every((entry) => entry.startsWith('H '));
  return { head, isDetached, entries, unmerged, isDirty, isClean };
}

/** The trees of files, index and HEAD. `indexTree`: `null` during conflicts. `headTree`: `null` before a commit. */
type Snapshot = { readonly tree: string; readonly indexTree: string | null; readonly headTree: string | null };

type SnapshotOrder = { readonly keep: string | null; readonly seen: Look };

/** Writes the files of a worktree as a tree, through a copy of its index. Writes nothing for a clean worktree. */
async function snapshot(repository: Repository, worktree: string, { keep, seen }: SnapshotOrder): Promise<Snapshot> {
  const { head, entries, isClean } = seen;
  const own = gitIn(worktree, repository.env);
  // Fallback for a worktree that is a submodule: `repository` has no such commit, the submodule's own repository has.
  const inSubmodule = async (): Promise<string> => (await own(['rev-parse', `${head}^{tree}`])).trim();
  const headTree = head === null ? null : await treeOf(repository, head).catch(inSubmodule);
  if (isClean && headTree !== null) return { tree: headTree, indexTree: headTree, headTree };
  const scratch = await mkdtemp(join(tmpdir(), 'conch-index-'));
  try {
    const index = join(scratch, 'index');
    const git = gitIn(worktree, repository.env, { ...identityOf(CONCH), GIT_INDEX_FILE: index });
    const gitDir = await gitDirOf(worktree, git);
    await copyIndex(join(gitDir, 'index'), index).catch(async () => await git(['read-tree', 'HEAD']));
    const indexTree = await unless(128, git([...DURABLE, 'write-tree']));
    await clearIndexFlags(git, worktree, entries);
    await git([...DURABLE, 'add', '--all', '--', ':/']);
    const added = zeroSeparated(await git(['ls-files', '--stage', '-v', '-z']));
    for (const entry of await storeSubmodules(repository, added, { worktree, keep }))
      await git(['update-index', '--cacheinfo', entry]);
    return { tree: (await git([...DURABLE, 'write-tree'])).trim(), indexTree, headTree };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Stores the work in submodules, unless `keep` is `null`. Returns new index entries for submodules with another commit.
 */
async function storeSubmodules(
  repository: Repository,
  entries: readonly string[],
  place: { readonly worktree: string; readonly keep: string | null },
): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const entry of entries) {
    const [, id = '', path = ''] = /^\S 160000 (\w+) \d\t(.*)$/s.exec(entry) ?? [];
    if (path === '' || !existsSync(join(place.worktree, path, '.git'))) continue;
    const commit = await storeSubmodule(repository, { ...place, path });
    if (commit !== id) changed.push(`160000,${commit},${path}`);
  }
  return changed;
}

/**
 * Returns the commit with the work in a submodule. Unless `keep` is `null`, stores the commit in the copy that all
 * worktrees share. Throws for a repository that is no submodule of such a copy.
 */
async function storeSubmodule(
  repository: Repository,
  { worktree, path, keep }: { readonly worktree: string; readonly path: string; readonly keep: string | null },
): Promise<string> {
  const folder = join(worktree, path);
  const git = gitIn(folder, repository.env);
  const gitDir = await gitDirOf(folder, git);
  const name = gitDir.startsWith(`${repository.commonDir}/`)
    ? gitDir.split('/modules/').slice(1).join('/modules/')
    : '';
  const shared = join(repository.commonDir, 'modules', name);
  if (name === '' || !existsSync(shared))
    throw new Error(`${path} is a repository of its own inside the worktree. Move it out of the worktree.`);
  const seen = await lookAt(repository, folder, keep);
  const commit = (seen.isClean ? seen.head : null) ?? (await commitOfSubmodule(repository, folder, { keep, seen }));
  if (keep === null || shared === gitDir) return commit;
  const having = ['--git-dir', shared, 'for-each-ref', '--count=1', '--contains', commit];
  // The exit code of git is 129 when the copy has no such commit.
  if (((await unless(129, git(having))) ?? '') !== '') return commit;
  await git(['update-ref', 'refs/conch/kept/submodule', commit]);
  const refs = `refs/conch/kept/submodule:${keep}/${commit}`;
  await gitIn(shared, repository.env)([...DURABLE, 'fetch', '--quiet', '--no-tags', '--refmap=', gitDir, refs]);
  return commit;
}

async function commitOfSubmodule(repository: Repository, folder: string, order: SnapshotOrder): Promise<string> {
  const { head } = order.seen;
  const { tree, headTree } = await snapshot(repository, folder, order);
  if (head !== null && tree === headTree) return head;
  const git = gitIn(folder, repository.env, { ...identityOf(CONCH), ...FIXED_DATE });
  const parents = head === null ? [] : ['-p', head];
  return (await git([...DURABLE, 'commit-tree', tree, ...parents, '-m', 'Work kept from a submodule'])).trim();
}

/** Fixed dates, so that equal work in a submodule gives a commit with the same hash. */
const FIXED_DATE = { GIT_AUTHOR_DATE: '2000-01-01T00:00:00Z', GIT_COMMITTER_DATE: '2000-01-01T00:00:00Z' };

function identityOf({ name, email }: { readonly name: string; readonly email: string }): Record<string, string> {
  return { GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email, GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email };
}

async function emptyTree(git: Git): Promise<string> {
  return (await git(['hash-object', '-w', '-t', 'tree', '--stdin'])).trim();
}

function numberOf(ref: string): number {
  return Number(ref.slice(ref.lastIndexOf('/') + 1));
}

function keepError(worktree: string, error: unknown): Error {
  if (error instanceof KeepError) return error;
  const isFull =
    (error instanceof GitError && error.isDiskFull) ||
    ['ENOSPC', 'EDQUOT', 'EFBIG'].includes((error as NodeJS.ErrnoException).code ?? '');
  const why = isFull
    ? 'the disk is full. Free some space and try again.'
    : (error as Error).message.replace(/\.?$/, '.');
  return new KeepError(worktree, why, { cause: error });
}
