import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defined } from '../../../lib/defined.ts';
import { GitError, gitDirOf, gitIn, gitSettings, zeroSeparated } from '../../../lib/git.ts';
import type { Git } from '../../../lib/git.ts';
import { commitAuthor } from './kept.ts';
import { DIFF, REMOTE_LIMIT_MS, commitOf, isAncestor, tipOf, treeOf, unless } from './repository.ts';
import type { Repository } from './repository.ts';
import { isLinked, listWorktrees } from './worktrees.ts';

/** The ref of the commit that waits until git can update the user's copy of main to it. */
const WAITING = 'refs/conch/main';

/**
 * Where main is. `tip`: the commit to build on. `hasDiverged`: main and `tip` each have commits that the other lacks.
 */
type MainState = { readonly main: string; readonly tip: string; readonly hasDiverged: boolean };

/** Returns where main is. Deletes the ref of the waiting commit when main has it. Throws when main is missing. */
export async function mainState(repository: Repository): Promise<MainState> {
  const names = [`refs/heads/${repository.main}`, WAITING].map((ref) => `${ref}^{commit}`);
  const [main = null, waiting = null] = (await repository.objects.read(names)).map((found) => found?.id ?? null);
  if (main === null) throw new Error(`${repository.root} has no branch ${repository.main} any more.`);
  if (waiting === null) return { main, tip: main, hasDiverged: false };
  if (!(await isAncestor(repository, waiting, main)))
    return { main, tip: waiting, hasDiverged: !(await isAncestor(repository, main, waiting)) };
  try {
    await repository.git(['update-ref', '-d', WAITING, waiting]);
  } catch (error) {
    // The ref changed after it was read: another reader deleted it, or a merge moved it.
    if (!(error instanceof GitError) || (await commitOf(repository, WAITING)) === waiting) throw error;
    return await mainState(repository);
  }
  return { main, tip: main, hasDiverged: false };
}

/**
 * Puts the integration worktree at a commit, without a branch. Creates it if missing, and anew if it is damaged or git
 * fails there. Otherwise removes untracked files, except ignored ones.
 */
export async function prepareIntegration(repository: Repository, folder: string, tip: string): Promise<void> {
  if (await isLinked(repository, folder)) {
    const git = gitIn(folder, repository.env);
    try {
      // Nobody else uses this worktree, so a lock there was left by git that was ended.
      await rm(join(await gitDirOf(folder, git), 'index.lock'), { force: true });
      await git(['checkout', '--quiet', '--force', '--detach', tip]);
      await git(['clean', '-ffdq']);
      return;
    } catch (error) {
      if (!(error instanceof GitError)) throw error;
    }
  }
  const isRegistered = (await listWorktrees(repository)).some((one) => one.folder === folder);
  if (!isRegistered && existsSync(folder) && readdirSync(folder).length > 0)
    throw new Error(`${folder} is no worktree of this repository and is not empty. Move it away.`);
  if (isRegistered) await repository.git(['worktree', 'remove', '--force', '--force', folder]);
  await repository.git(['worktree', 'add', '--quiet', '--detach', folder, tip]);
}

/** A commit to merge, and how to merge it. */
export type MergeRequest = {
  /** The integration worktree. */
  readonly folder: string;
  /** The commit to merge into. */
  readonly tip: string;
  readonly commit: string;
  /** The text that the ticket's file has in the merge commit. */
  readonly ticket?: FileText;
  /** The folder of the tickets: changes of the branch in it are dropped. */
  readonly ticketsDir?: string;
  /** A text that no merge may add to a file: the merge is refused. */
  readonly marker?: string;
  readonly message: string;
  readonly trailers: readonly (readonly [name: string, value: string])[];
  /** The time of the merge commit, in milliseconds. */
  readonly at: number;
};

/** One commit of main that changed a file in conflict. `ticket` is empty when the commit names none. */
type SideCommit = { readonly commit: string; readonly ticket: string };

/** A file in conflict, with the newest commits of main that changed it, at most five. */
type ConflictFile = { readonly path: string; readonly main: readonly SideCommit[] };

/**
 * The result of a merge. `dropped`: files in `ticketsDir`, without the ticket's own file, whose changes are not in the
 * merge commit. `hunks`: the diff of the files in conflict. `nothing`: `tip` has the commit already. `refused`: `files`
 * add the forbidden text `marker`.
 */
export type MergeResult =
  | { readonly kind: 'merged'; readonly commit: string; readonly dropped: readonly string[] }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'conflict'; readonly files: readonly ConflictFile[]; readonly hunks: string }
  | { readonly kind: 'refused'; readonly files: readonly string[] };

/**
 * Makes a merge commit in the integration worktree and leaves its files there for the tests. No branch changes. After a
 * conflict or refusal the worktree is at `tip` again. Throws `GitError` or `Error`.
 */
export async function mergeCommit(repository: Repository, request: MergeRequest): Promise<MergeResult> {
  const { folder, tip, commit, marker } = request;
  await prepareIntegration(repository, folder, tip);
  if (await isAncestor(repository, commit, tip)) return { kind: 'nothing' };
  const git = gitIn(folder, repository.env, await commitAuthor(folder, repository.env, request.at));
  const plain = ['--no-ff', '--no-commit', '--no-squash', '--no-stat', '--no-autostash', '--no-verify-signatures'];
  const isClean = (await unless(1, git(['-c', 'rerere.enabled=false', 'merge', '--quiet', ...plain, commit]))) !== null;
  const merged = await readFile(join(await gitDirOf(folder, git), 'MERGE_HEAD'), 'utf8').catch(() => '');
  if (merged.trim() !== commit) throw new Error(`git did not merge ${commit} in ${folder}.`);
  const dropped = await dropTickets(git, request);
  const unmerged = isClean ? [] : zeroSeparated(await git(['ls-files', '--unmerged', '-z']));
  const paths = [...new Set(unmerged.map((entry) => entry.split('\t')[1] ?? ''))].toSorted();
  const refused = marker === undefined || paths.length > 0 ? [] : await addedMarkers(git, tip, marker);
  if (paths.length > 0 || refused.length > 0) {
    const files: ConflictFile[] = [];
    for (const path of paths) files.push({ path, main: await sideOf(git, commit, tip, path) });
    const hunks = paths.length > 0 ? await git(['--literal-pathspecs', ...DIFF, '--', ...paths]) : '';
    await prepareIntegration(repository, folder, tip);
    return paths.length > 0 ? { kind: 'conflict', files, hunks } : { kind: 'refused', files: refused };
  }
  const tree = (await git(['write-tree'])).trim();
  const trailers = request.trailers.map(([name, value]) => `${name}: ${value.replaceAll(/\s+/g, ' ')}`);
  const message = [request.message, ...(trailers.length === 0 ? [] : [trailers.join('\n')])].join('\n\n');
  const made = (await git(['commit-tree', tree, '-p', tip, '-p', commit, '-m', message])).trim();
  await git(['reset', '--quiet', '--hard', made]);
  return { kind: 'merged', commit: made, dropped };
}

/**
 * Whether git cannot merge two commits by itself. Changes no branch, index or folder. Always false with a git before
 * 2.38, which cannot tell. Throws `GitError` or `Error`.
 */
export async function isInConflict({ git }: Repository, one: string, other: string): Promise<boolean> {
  try {
    return (await unless(1, git(['merge-tree', '--write-tree', '--no-messages', one, other]))) === null;
  } catch (error) {
    if (error instanceof GitError && error.exitCode === USAGE) return false;
    throw error;
  }
}

/** The exit code of git for an option that it does not know. */
const USAGE = 129;

/** The parts of a pull request's next commit. `previous`: the commit that was pushed last; `null` for none. */
type PullCommitRequest = Pick<MergeRequest, 'ticket' | 'ticketsDir' | 'marker' | 'message' | 'at'> & {
  /** The commit of the branch, and the newest commit of main that it contains. */
  readonly tip: string;
  readonly base: string;
  readonly previous: string | null;
};

/**
 * Makes the commit that a pull request shows: the branch with its ticket closed, and without changes of other tickets.
 * The commit follows the `previous` commit, so that it can be pushed without force. Returns the commit `tip` itself
 * when nothing has to change. No branch and no folder changes. Throws `GitError` or `Error`.
 */
export async function pullCommit(
  repository: Repository,
  { tip, base, previous, ticket, ticketsDir, marker, message, at }: PullCommitRequest,
): Promise<Exclude<MergeResult, { kind: 'nothing' | 'conflict' }>> {
  return await withIndex(repository, at, async (git) => {
    await git(['read-tree', tip]);
    const dropped = await dropTickets(git, { tip: base, ...defined({ ticket, ticketsDir }) });
    const refused = marker === undefined ? [] : await addedMarkers(git, base, marker);
    if (refused.length > 0) return { kind: 'refused', files: refused };
    const tree = (await git(['write-tree'])).trim();
    const follows = previous === null || (await isAncestor(repository, previous, tip));
    if (follows && tree === (await treeOf(repository, tip))) return { kind: 'merged', commit: tip, dropped };
    const parents = ['-p', tip, ...(follows || previous === null ? [] : ['-p', previous])];
    const commit = (await git(['commit-tree', tree, ...parents, '-m', message])).trim();
    return { kind: 'merged', commit, dropped };
  });
}

/** A file with its whole text, in a commit. */
export type FileText = { readonly path: string; readonly text: string };

/**
 * Makes a commit that follows `tip` and gives one file this text. No branch and no folder changes. Returns `null` when
 * the file has this text already. Throws `GitError` or `Error`.
 */
export async function fileCommit(
  repository: Repository,
  tip: string,
  { file, message }: { readonly file: FileText; readonly message: string },
): Promise<string | null> {
  return await withIndex(repository, null, async (git) => {
    await git(['read-tree', tip]);
    await setFile(git, file);
    const tree = (await git(['write-tree'])).trim();
    if (tree === (await treeOf(repository, tip))) return null;
    return (await git(['commit-tree', tree, '-p', tip, '-m', message])).trim();
  });
}

async function withIndex<Result>(
  { root, env }: Repository,
  at: number | null,
  work: (git: Git) => Promise<Result>,
): Promise<Result> {
  const scratch = await mkdtemp(join(tmpdir(), 'conch-pull-'));
  try {
    const author = await commitAuthor(root, env, at);
    return await work(gitIn(root, env, { ...author, GIT_INDEX_FILE: join(scratch, 'index') }));
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function setFile(git: Git, { path, text }: FileText): Promise<void> {
  const blob = (await git(['hash-object', '-w', '--stdin'], { input: text })).trim();
  await git(['update-index', '--add', '--cacheinfo', `100644,${blob},${path}`]);
}

async function dropTickets(
  git: Git,
  { tip, ticket, ticketsDir }: Pick<MergeRequest, 'tip' | 'ticket' | 'ticketsDir'>,
): Promise<readonly string[]> {
  const listing = ['diff', '--cached', '--name-only', '--no-renames', '-z', tip];
  const changed =
    ticketsDir === undefined ? [] : zeroSeparated(await git(['--literal-pathspecs', ...listing, '--', ticketsDir]));
  const dropped = changed.filter((path) => path !== ticket?.path);
  if (dropped.length > 0) {
    const input = dropped.map((path) => `${path}\0`).join('');
    const fromInput = ['--pathspec-from-file=-', '--pathspec-file-nul'];
    await git(['--literal-pathspecs', 'restore', '--staged', `--source=${tip}`, ...fromInput], { input });
  }
  if (ticket !== undefined) await setFile(git, ticket);
  return dropped;
}

async function addedMarkers(git: Git, tip: string, marker: string): Promise<readonly string[]> {
  const listing = ['diff', '--cached', '--name-only', '--no-renames', '--no-textconv', '-z', `-S${marker}`, tip];
  const added: string[] = [];
  for (const path of zeroSeparated(await git(listing))) {
    const count = async (blob: string): Promise<number> =>
      ((await unless(128, git(['cat-file', 'blob', blob]))) ?? '').split(marker).length;
    if ((await count(`:0:${path}`)) > (await count(`${tip}:${path}`))) added.push(path);
  }
  return added;
}

async function sideOf(git: Git, without: string, tip: string, path: string): Promise<readonly SideCommit[]> {
  const format = '--format=%H%x1f%(trailers:key=Conch-Ticket,valueonly,separator=%x2C)';
  const listing = ['--literal-pathspecs', 'log', '-z', '--show-pulls', '--max-count=5', format];
  return zeroSeparated(await git([...listing, `${without}..${tip}`, '--', path])).map((record) => {
    const [commit = '', ticket = ''] = record.split('\u001F');
    return { commit, ticket: ticket.trim() };
  });
}

/**
 * Returns the merge commit whose second parent is `commit`, among the commits after `from`; `null` when there is none.
 * Searches main, and merged work that main gets when git can update the user's copy.
 */
export async function findMerge(
  { git }: Repository,
  commit: string,
  { from, tip, main }: Pick<MainState, 'tip' | 'main'> & { readonly from: string },
): Promise<string | null> {
  const lines = (await git(['rev-list', '--merges', '--parents', tip, main, `^${from}`])).split('\n');
  return lines.find((line) => line.split(' ')[2] === commit)?.split(' ')[0] ?? null;
}

/** A line of a file, from 1, or a commit. */
export type LineOrCommit = { readonly file: string; readonly line: number } | { readonly commit: string };

/**
 * How `commit` came to main. `landed`: the commit of main that brought it. `subject` and `ticket`: those of `landed`;
 * '' for no ticket.
 */
export type Landing = Readonly<Record<'commit' | 'landed' | 'subject' | 'ticket', string>>;

/**
 * Finds how a line or a commit came to main. `null`: main does not have it. Merged work counts as main, also while git
 * cannot update the user's copy to it.
 */
export async function findLanding(repository: Repository, place: LineOrCommit): Promise<Landing | null> {
  const { git } = repository;
  const { tip } = await mainState(repository);
  const commit = 'commit' in place ? await commitOf(repository, place.commit) : await writerOf(git, tip, place);
  if (commit === null || !(await isAncestor(repository, commit, tip))) return null;
  const range = `${commit}..${tip}`;
  const after = new Set((await git(['rev-list', '--ancestry-path', range])).split('\n'));
  const firsts = (await git(['rev-list', '--first-parent', '--reverse', '--parents', range])).split('\n');
  const [merge = commit, parent = commit] =
    firsts.map((row) => row.split(' ')).find(([id = '']) => after.has(id)) ?? [];
  const landed = parent === commit ? commit : merge;
  const format = '--format=%s%x1f%(trailers:key=Conch-Ticket,valueonly,separator=%x2C)';
  const [subject = '', ticket = ''] = (await git(['log', '-1', format, landed])).trim().split('\u001F');
  return { commit, landed, subject, ticket };
}

async function writerOf(
  git: Git,
  tip: string,
  { file, line }: Extract<LineOrCommit, { file: string }>,
): Promise<string | null> {
  const lines = ['-L', `${line},${line}`, tip, '--', file];
  const shown = await unless(128, git(['blame', '--porcelain', '--no-textconv', ...lines]));
  return shown?.split(' ')[0] ?? null;
}

/** The result of advancing main. `waiting`: the user's copy was not updated; the commit is at `refs/conch/main`. */
type AdvancedMain =
  | { readonly kind: 'advanced' }
  | { readonly kind: 'moved'; readonly main: string }
  | { readonly kind: 'waiting'; readonly folder: string; readonly reason: string };

/**
 * Advances main to `to`, a commit built on `from`, only by fast-forward. Where main is checked out, git updates the
 * files. `to` waits when git refuses, when a file needs a filter, and during a rebase of main. Returns `moved` when
 * main moved meanwhile. A repeat after success changes nothing; a repeat after `waiting` tries again. Throws
 * `GitError`, or `Error` when main is missing.
 */
export async function advanceMain(
  repository: Repository,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<AdvancedMain> {
  const { git } = repository;
  const { main, tip } = await mainState(repository);
  const isExpected = main === from || tip === from || tip === to;
  if (main === to || !isExpected || !(await isAncestor(repository, main, to)))
    return (await isAncestor(repository, to, main)) ? { kind: 'advanced' } : { kind: 'moved', main };
  const holder = await holderOfMain(repository);
  let refusal = holder?.reason ?? null;
  if (holder === null || refusal === null) {
    try {
      if (holder === null) await git(['update-ref', '-m', 'conch: merge', `refs/heads/${repository.main}`, to, main]);
      else refusal = await fastForward(repository, holder.folder, main, to);
    } catch (error) {
      if (!(error instanceof GitError)) throw error;
      const now = await tipOf(repository, repository.main);
      if (now !== main && now !== to) return { kind: 'moved', main: now ?? '' };
      if (holder === null) throw error;
      refusal = error.stderr.trim();
    }
  }
  if (holder === null || refusal === null) {
    const after = await mainState(repository);
    return after.main === to ? { kind: 'advanced' } : { kind: 'moved', main: after.main };
  }
  await git(['update-ref', WAITING, to, tip === main ? '' : tip]);
  return { kind: 'waiting', folder: holder.folder, reason: refusal };
}

async function holderOfMain(
  repository: Repository,
): Promise<{ readonly folder: string; readonly reason: string | null } | null> {
  const { commonDir, main, root } = repository;
  const linked = join(commonDir, 'worktrees');
  const gitDirs = [commonDir, ...(existsSync(linked) ? readdirSync(linked).map((name) => join(linked, name)) : [])];
  const heads = gitDirs.flatMap((dir) => ['rebase-merge', 'rebase-apply'].map((name) => join(dir, name, 'head-name')));
  const isRebased = heads.some(
    (file) => existsSync(file) && readFileSync(file, 'utf8').trim() === `refs/heads/${main}`,
  );
  if (isRebased) return { folder: root, reason: `A rebase of ${main} is under way. Finish or abort it.` };
  const found = (await listWorktrees(repository)).find(({ branch, folder }) => branch === main && existsSync(folder));
  return found === undefined ? null : { folder: found.folder, reason: null };
}

/**
 * Fast-forwards main with the files of a person's copy. Returns why Conch does not try; `null` after success. Throws
 * `GitError` when git refuses.
 */
async function fastForward({ env }: Repository, folder: string, from: string, to: string): Promise<string | null> {
  const git = gitIn(folder, env);
  // Filters do not run here, so files that need one would get a wrong content.
  if ((await gitSettings(folder, env)).some(({ name }) => name.startsWith('filter.'))) {
    const input = await git(['diff', '--name-only', '--no-renames', '-z', from, to]);
    const fields = zeroSeparated(await git(['check-attr', '-z', '--stdin', 'filter'], { input }));
    const at = fields.findIndex((field, index) => index % 3 === 2 && !['unspecified', 'unset', 'set'].includes(field));
    if (at !== -1)
      return `${fields[at - 2] ?? ''} needs the filter ${fields[at] ?? ''}. Run: git -C "${folder}" merge --ff-only ${to}`;
  }
  await git(['merge', '--quiet', '--ff-only', '--no-autostash', '--no-overwrite-ignore', '--no-verify-signatures', to]);
  return null;
}

/** Returns the commit of a branch at a remote; `null` without such a branch, or if the repository lacks the commit. */
export async function pushedTip(repository: Repository, remote: string, branch: string): Promise<string | null> {
  const listed = await repository.git(['ls-remote', '--', remote, `refs/heads/${branch}`], {
    limitMs: REMOTE_LIMIT_MS,
  });
  const [, commit] = /^([0-9a-f]{40,64})\t/.exec(listed) ?? [];
  return commit === undefined ? null : await commitOf(repository, commit).catch(() => null);
}

/** Pushes a commit to a branch of a remote, never by force. Returns why the push failed; `null` after success. */
export async function pushTo(
  { git }: Repository,
  remote: string,
  { commit, branch }: { readonly commit: string; readonly branch: string },
): Promise<string | null> {
  const plain = ['--quiet', '--no-follow-tags', '--no-signed', '--recurse-submodules=no', '--no-force-with-lease'];
  try {
    await git(['push', ...plain, '--', remote, `${commit}:refs/heads/${branch}`], { limitMs: REMOTE_LIMIT_MS });
    return null;
  } catch (error) {
    if (error instanceof GitError) return error.message;
    throw error;
  }
}
