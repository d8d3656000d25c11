import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { defined } from '../../lib/defined.ts';
import type { ReviewedWork } from './review.ts';

const run = promisify(execFile);

/** The longest time of one git command, in milliseconds, and the most output of one, in bytes. */
const LIMIT_MS = 60_000;
const MOST_OUTPUT = 64 * 1_048_576;
/** More changed files than this are not listed one by one. */
const MOST_FILES = 2_000;

/** The author of the commits that hold work under review. Fixed, so that equal work gives equal commits. */
const AUTHOR = {
  GIT_AUTHOR_NAME: 'Conch',
  GIT_AUTHOR_EMAIL: 'conch@localhost',
  GIT_AUTHOR_DATE: '2000-01-01T00:00:00Z',
  GIT_COMMITTER_NAME: 'Conch',
  GIT_COMMITTER_EMAIL: 'conch@localhost',
  GIT_COMMITTER_DATE: '2000-01-01T00:00:00Z',
};

/**
 * Stores the files of a git repository, committed or not, as a commit under `ref`, without files that git ignores.
 * Index, branch and files of the user stay as they are. Neither hooks nor filters of the repository run, because an
 * agent could have written them. `before`: the work to compare with. `without`: a folder whose files are no part of the work. Returns `null` when the folder is in no repository.
 * Throws when git fails.
 */
export async function measureWork(
  environment: GitEnvironment,
  folder: string,
  ref: string,
  before: ReviewedWork | null,
  without: string | null = null,
): Promise<ReviewedWork | null> {
  const root = await rootOf(folder);
  if (root === null) return null;
  const scratch = await mkdtemp(join(tmpdir(), 'conch-review-'));
  try {
    const git = await gitIn(environment, root, join(scratch, 'index'));
    const index = (await git(['rev-parse', '--git-path', 'index'])).trim();
    await copyFile(join(root, index), join(scratch, 'index')).catch(() => undefined);
    const isInside = without !== null && `${without}/`.startsWith(`${root}/`);
    await git([
      'add',
      '--all',
      '--',
      '.',
      ...(isInside ? [`:(top,exclude,literal)${without.slice(root.length + 1)}`] : []),
    ]);
    const tree = (await git(['write-tree'])).trim();
    const head = await git(['rev-parse', '--verify', '--quiet', 'HEAD']).catch(() => '');
    const parent = head.trim() === '' ? [] : ['-p', head.trim()];
    const commit = (await git(['commit-tree', tree, ...parent, '-m', 'Work under review'])).trim();
    await git(['update-ref', ref, commit]);
    const changed = before?.commit == null ? undefined : await changesOf(git, before.commit, commit);
    return { tree, commit, ...defined({ changed }) };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Deletes the refs that match a pattern of git, so that git can remove their commits. Does nothing outside a repository. */
export async function dropWork(environment: GitEnvironment, folder: string, pattern: string): Promise<void> {
  const root = await rootOf(folder);
  if (root === null) return;
  const git = await gitIn(environment, root, null);
  const refs = (await git(['for-each-ref', '--format=%(refname)', pattern])).split('\n').filter((ref) => ref !== '');
  for (const ref of refs) await git(['update-ref', '-d', ref]);
}

/** The environment variables of git. */
export type GitEnvironment = Readonly<Record<string, string | undefined>>;

type Git = (args: readonly string[]) => Promise<string>;

async function rootOf(folder: string): Promise<string | null> {
  const found = await run('git', ['-C', folder, 'rev-parse', '--show-toplevel'], { timeout: LIMIT_MS }).catch(
    () => null,
  );
  return found === null ? null : found.stdout.trimEnd();
}

/** Runs git in a repository with all programs of its configuration switched off. `index`: the index to work on. */
async function gitIn(environment: GitEnvironment, root: string, index: string | null): Promise<Git> {
  const env = { ...environment, ...AUTHOR, ...(index === null ? {} : { GIT_INDEX_FILE: index }) };
  const given = async (args: readonly string[]): Promise<string> =>
    (await run('git', ['-C', root, ...args], { env, timeout: LIMIT_MS, maxBuffer: MOST_OUTPUT })).stdout;
  const filters = await given(['config', '--name-only', '--get-regexp', '^filter\\.']).catch(() => '');
  const off = filters
    .split('\n')
    .flatMap((name) =>
      /\.(?:clean|smudge|process|required)$/.test(name)
        ? ['-c', name.endsWith('.required') ? `${name}=false` : `${name}=`]
        : [],
    );
  const safe = [
    '-c',
    'core.fsmonitor=false',
    '-c',
    'core.hooksPath=/dev/null',
    '-c',
    'core.untrackedCache=false',
    ...off,
  ];
  return (args) => given([...safe, ...args]);
}

/** The files that differ between two commits, with the numbers of their new lines. */
async function changesOf(git: Git, before: string, after: string): Promise<ReviewedWork['changed']> {
  const diff = await git([
    '-c',
    'core.quotePath=false',
    'diff',
    '--no-ext-diff',
    '--no-textconv',
    '--no-renames',
    '--no-color',
    '--unified=0',
    before,
    after,
  ]);
  const changed: { file: string; lines: number[] }[] = [];
  for (const line of diff.split('\n')) {
    const [, old, file = old] = /^diff --git a\/(.*) b\/(.*)$/.exec(line) ?? [];
    if (file !== undefined) changed.push({ file, lines: [] });
    const [, from, length = '1'] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    if (from === undefined) continue;
    changed.at(-1)?.lines.push(...Array.from({ length: Number(length) }, (_, at) => Number(from) + at));
  }
  return changed.length > MOST_FILES ? undefined : changed;
}

/**
 * Checks a commit out into a folder of its own, without a branch, for a reviewer to read. The folder is made on the
 * first call. Throws when git fails.
 */
export async function showWork(
  environment: GitEnvironment,
  folder: string,
  commit: string,
  place: string,
): Promise<void> {
  const root = await rootOf(folder);
  if (root === null) throw new Error(`${folder} is in no git repository`);
  const git = await gitIn(environment, root, null);
  // A folder in a repository of somebody else is no worktree: a checkout there would change their files.
  const worktrees = (await git(['worktree', 'list', '--porcelain'])).split('\n');
  const isThere = worktrees.includes(`worktree ${place}`) && (await rootOf(place)) === place;
  if (isThere) {
    await (
      await gitIn(environment, place, null)
    )(['checkout', '--quiet', '--force', '--detach', commit]);
    return;
  }
  await rm(place, { recursive: true, force: true });
  await git(['worktree', 'prune']);
  await git(['worktree', 'add', '--quiet', '--force', '--detach', place, commit]);
}

/** Removes the folder that `showWork` made. Does nothing when there is none. */
export async function hideWork(environment: GitEnvironment, folder: string, place: string): Promise<void> {
  await rm(place, { recursive: true, force: true });
  const root = await rootOf(folder);
  if (root !== null) await (await gitIn(environment, root, null))(['worktree', 'prune']);
}

/** The part of a ref or folder name that stands for a review. */
export function reviewPath(id: string): string {
  return id.replaceAll(/[^\w-]/g, '-');
}
