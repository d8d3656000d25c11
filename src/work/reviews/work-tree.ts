import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { defined } from '../../lib/defined.ts';
import { GitError, clearIndexFlags, copyIndex, gitIn, zeroSeparated } from '../../lib/git.ts';
import type { Git, GitEnvironment } from '../../lib/git.ts';
import type { ReviewedWork } from './review.ts';

/** With more changed files than this, the changed files are not listed at all. */
const MOST_FILES = 2_000;
/** With more new lines than this in all files together, only the files are listed, without the numbers of lines. */
const MOST_LINES = 20_000;

/** Options of a diff that runs no program of the repository. */
const PLAIN = ['--no-ext-diff', '--no-textconv', '--no-color'];

/**
 * The author of the commits that hold work under review. Fixed, so that equal files on the same HEAD give the same
 * commit.
 */
const AUTHOR = {
  GIT_AUTHOR_NAME: 'Conch',
  GIT_AUTHOR_EMAIL: 'conch@localhost',
  GIT_AUTHOR_DATE: '2000-01-01T00:00:00Z',
  GIT_COMMITTER_NAME: 'Conch',
  GIT_COMMITTER_EMAIL: 'conch@localhost',
  GIT_COMMITTER_DATE: '2000-01-01T00:00:00Z',
};

/**
 * Stores the files of a git repository, committed or not, as a commit under `ref`, without untracked files that git
 * ignores. Index, branch and files of the user stay as they are. Neither hooks nor filters of the repository run,
 * because an agent could have written them. `before`: the work to compare with. `without`: a folder whose changes are
 * no part of the work. Returns `null` for no repository, a bare one, no folder or no git. Throws when git fails.
 */
export async function measureWork(
  environment: GitEnvironment,
  folder: string,
  ref: string,
  before: ReviewedWork | null,
  without: string | null = null,
): Promise<ReviewedWork | null> {
  const root = await rootOf(environment, folder);
  if (root === null) return null;
  const scratch = await mkdtemp(join(tmpdir(), 'conch-review-'));
  try {
    const gitFolder = (await gitIn(root, environment)(['rev-parse', '--absolute-git-dir'])).trim();
    const index = join(scratch, 'index');
    const git = gitIn(root, environment, { ...AUTHOR, GIT_INDEX_FILE: index });
    await copyIndex(join(gitFolder, 'index'), index).catch(() => undefined);
    // Git hides changes of files flagged assume-unchanged or skip-worktree. The reviewer must see them.
    await clearIndexFlags(git, root, zeroSeparated(await git(['ls-files', '--stage', '-v', '-z'])));
    const isInside = without !== null && `${without}/`.startsWith(`${root}/`);
    const left = isInside ? [`:(top,exclude,literal)${without.slice(root.length + 1)}`] : [];
    await git(['add', '--all', '--', '.', ...left]);
    const tree = (await git(['write-tree'])).trim();
    const head = await git(['rev-parse', '--verify', '--quiet', 'HEAD']).catch(() => '');
    const parent = head.trim() === '' ? [] : ['-p', head.trim()];
    const commit = (await git(['commit-tree', tree, ...parent, '-m', 'Work under review'])).trim();
    await git(['update-ref', ref, commit]);
    if (before?.commit == null) return { tree, commit };
    const changed = await changesOf(git, before.commit, commit);
    const diff = await shownChanges(git, ['diff', before.commit, commit], LONGEST_DIFF_IN_BRIEF);
    return { tree, commit, diff, ...defined({ changed }) };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** The longest difference that people are shown, and the longest one in a prompt, in UTF-16 units. */
const LONGEST_DIFF = 60_000;
const LONGEST_DIFF_IN_BRIEF = 20_000;

/**
 * The changes between two commits as git shows them, with a summary first; cut when they are long. `before`: `null` for
 * the parent of `after`, if it has one. Throws when git fails.
 */
export async function changesShown(
  environment: GitEnvironment,
  folder: string,
  before: string | null,
  after: string,
): Promise<string> {
  const command = before === null ? ['show', '--format=', after] : ['diff', before, after];
  return shownChanges(gitIn(folder, environment), command, LONGEST_DIFF);
}

async function shownChanges(git: Git, [verb = '', ...of]: readonly string[], longest: number): Promise<string> {
  const text = await git([verb, ...PLAIN, '--find-renames', '--stat', '--patch', ...of]);
  return text.length <= longest ? text.trimEnd() : `${text.slice(0, longest).toWellFormed()}\n… cut here`;
}

/** Deletes the refs that match a pattern, so that git can remove their commits. Does nothing outside a repository. */
export async function dropWork(environment: GitEnvironment, folder: string, pattern: string): Promise<void> {
  const root = await rootOf(environment, folder);
  if (root === null) return;
  const git = gitIn(root, environment, AUTHOR);
  const refs = (await git(['for-each-ref', '--format=%(refname)', pattern])).split('\n').filter((ref) => ref !== '');
  for (const ref of refs) await git(['update-ref', '-d', ref]);
}

/**
 * The top folder of a folder's repository; `null` for no repository, a bare one, no folder or no git. Throws when git
 * fails.
 */
async function rootOf(environment: GitEnvironment, folder: string): Promise<string | null> {
  try {
    return (await gitIn(folder, environment)(['rev-parse', '--show-toplevel'])).trimEnd();
  } catch (error) {
    if (error instanceof GitError && (error.isMissing || NO_REPOSITORY.test(error.stderr))) return null;
    throw error;
  }
}

const NO_REPOSITORY = /not a git repository|cannot change to|must be run in a work tree/;

async function changesOf(git: Git, before: string, after: string): Promise<ReviewedWork['changed']> {
  const diff = await git(['diff', ...PLAIN, '--no-renames', '--unified=0', before, after]);
  const changed: { file: string; lines: number[] }[] = [];
  let count = 0;
  for (const line of diff.split('\n')) {
    const [, old, file = old] = /^diff --git a\/(.*) b\/(.*)$/.exec(line) ?? [];
    if (file !== undefined) changed.push({ file, lines: [] });
    const [, from, length = '1'] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    if (from === undefined || (count += Number(length)) > MOST_LINES) continue;
    changed.at(-1)?.lines.push(...Array.from({ length: Number(length) }, (_, at) => Number(from) + at));
  }
  if (changed.length > MOST_FILES) return undefined;
  return count > MOST_LINES ? changed.map(({ file }) => ({ file })) : changed;
}

/**
 * Checks a commit out into the folder `place`, without a branch, for a reviewer to read. Makes the folder a worktree if
 * necessary. All other files in the folder are deleted. Throws when git fails, or `folder` is in no repository.
 */
export async function showWork(
  environment: GitEnvironment,
  folder: string,
  commit: string,
  place: string,
): Promise<void> {
  const root = await rootOf(environment, folder);
  if (root === null) throw new Error(`${folder} is in no git repository`);
  const git = gitIn(root, environment, AUTHOR);
  // In a place that belongs to another repository, a checkout would change the files there.
  const isThere = (await worktreesOf(git)).includes(place) && (await rootOf(environment, place)) === place;
  if (isThere) {
    await gitIn(place, environment)(['checkout', '--quiet', '--force', '--detach', commit]);
    await gitIn(place, environment)(['clean', '--quiet', '--force', '--force', '-d', '-x']);
    return;
  }
  await rm(place, { recursive: true, force: true });
  await git(['worktree', 'add', '--quiet', '--force', '--detach', place, commit]);
}

/** Removes the folder `place` with the files for a reviewer, and its registration as a worktree in git. */
export async function hideWork(environment: GitEnvironment, folder: string, place: string): Promise<void> {
  await rm(place, { recursive: true, force: true });
  const root = await rootOf(environment, folder);
  if (root === null) return;
  const git = gitIn(root, environment);
  const places = await worktreesOf(git);
  if (places.includes(place)) await git(['worktree', 'remove', '--force', place]);
}

/**
 * Returns what Conch has stored in a folder's repository: the refs below `refs`, and the worktrees directly in
 * `scratch`.
 */
export async function storedWork(
  environment: GitEnvironment,
  folder: string,
  { refs, scratch }: { readonly refs: string; readonly scratch: string },
): Promise<{ readonly refs: readonly string[]; readonly places: readonly string[] }> {
  const root = await rootOf(environment, folder);
  if (root === null) return { refs: [], places: [] };
  const git = gitIn(root, environment);
  const found = await git(['for-each-ref', '--format=%(refname)', `${refs}/**`]);
  const places = await worktreesOf(git);
  return {
    refs: found.split('\n').filter((ref) => ref !== ''),
    places: places.filter((place) => dirname(place) === scratch),
  };
}

async function worktreesOf(git: Git): Promise<readonly string[]> {
  const lines = (await git(['worktree', 'list', '--porcelain'])).split('\n');
  return lines.flatMap((line) => (line.startsWith('worktree ') ? line.slice('worktree '.length) : []));
}
