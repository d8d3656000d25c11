import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  advanceMain,
  findMerge,
  mainState,
  mergeCommit,
  prepareIntegration,
  pushTo,
} from '../../../../src/work/crews/git/merge.ts';
import type { MergeRequest, MergeResult } from '../../../../src/work/crews/git/merge.ts';
import type { Repository } from '../../../../src/work/crews/git/repository.ts';
import { deleteBranch, removeWorktree } from '../../../../src/work/crews/git/worktrees.ts';
import { scene } from './scene.ts';
import type { Scene } from './scene.ts';

const TICKET = '.tickets/c-1.md';

/** A scene with a ticket on main and a worker's worktree. */
type Crew = Scene & { readonly base: string; readonly tree: string; readonly place: string };
function crew(): Crew {
  const one = scene();
  writeFileSync(join(one.root, '.git/info/exclude'), '/agents/\n');
  one.commit('.tickets/c-2.md', 'status: open\n');
  const base = one.commit(TICKET, 'status: open\n');
  const tree = join(one.root, 'agents/A-c-1');
  one.git('worktree', 'add', '--quiet', '--no-track', '-b', 'agent/A-c-1', tree);
  return { ...one, base, tree, place: join(one.home, 'integration') };
}

function request({ base, place }: Crew, commit: string, more: Partial<MergeRequest> = {}): MergeRequest {
  return {
    folder: place,
    tip: base,
    commit,
    ticket: { path: TICKET, text: 'status: closed\n' },
    ticketsDir: '.tickets',
    marker: '<!-- conch -->',
    message: 'Merge c-1: a title',
    trailers: [
      ['Conch-Ticket', 'c-1'],
      ['Conch-Worker', 'A\nX: y'],
    ],
    at: 1_700_000_000_000,
    ...more,
  };
}

function merged(result: MergeResult): Extract<MergeResult, { kind: 'merged' }> {
  if (result.kind !== 'merged') throw new Error(`not merged: ${JSON.stringify(result)}`);
  return result;
}

/** The user's state of the repository, which no merge may change. */
const own = ({ git, root }: Scene): readonly string[] => [
  git('symbolic-ref', 'HEAD'),
  git('status', '--porcelain'),
  git('diff', '--cached'),
  git('diff'),
  git('stash', 'list'),
  readFileSync(join(root, '.git/config'), 'utf8'),
];

describe('the merge commit', () => {
  test('has two parents, the closed ticket and the trailers, and moves no branch', async () => {
    const one = crew();
    const { git, base, tree, place, commit, open } = one;
    const tip = commit('new.txt', 'new\n', tree);
    const repository = await open();
    const made = merged(await mergeCommit(repository, request(one, tip)));
    expect(git('show', '--format=%P%n%B', '--no-patch', made.commit).split('\n')).toEqual([
      `${base} ${tip}`,
      'Merge c-1: a title',
      '',
      'Conch-Ticket: c-1',
      'Conch-Worker: A X: y',
    ]);
    expect([git('show', `${made.commit}:${TICKET}`), git('show', `${made.commit}:new.txt`)]).toEqual([
      'status: closed',
      'new',
    ]);
    expect([git('rev-parse', 'main'), git('rev-parse', 'agent/A-c-1')]).toEqual([base, tip]);
    expect([readFileSync(join(place, TICKET), 'utf8'), existsSync(join(place, 'new.txt'))]).toEqual([
      'status: closed\n',
      true,
    ]);
    expect(merged(await mergeCommit(repository, request(one, tip))).commit).toBe(made.commit);
  });

  test("drops the branch's changes of other tickets, and names them", async () => {
    const one = crew();
    const { git, tree, commit, open } = one;
    commit(TICKET, 'status: done by me\n', tree);
    commit('.tickets/c-2.md', 'status: closed\n', tree);
    commit('.tickets/proposed *.md', 'status: open\n', tree);
    const tip = commit('.tickets/x.md', 'status: open\n', tree);
    const made = merged(await mergeCommit(await open(), request(one, tip)));
    expect(made.dropped).toEqual(['.tickets/c-2.md', '.tickets/proposed *.md', '.tickets/x.md']);
    expect(git('diff', '--name-only', `${made.commit}^`, made.commit).split('\n')).toEqual([TICKET]);
  });

  test('takes the tickets of main without asking when both sides changed them', async () => {
    const one = crew();
    const { git, tree, commit, open } = one;
    commit('.tickets/c-2.md', 'status: branch\n', tree);
    const tip = commit(TICKET, 'status: branch\n', tree);
    commit('.tickets/c-2.md', 'status: main\n');
    const base = commit(TICKET, 'status: main\n');
    const made = merged(await mergeCommit(await open(), request({ ...one, base }, tip)));
    expect([git('show', `${made.commit}:.tickets/c-2.md`), git('show', `${made.commit}:${TICKET}`)]).toEqual([
      'status: main',
      'status: closed',
    ]);
  });

  test('is not created after a conflict; the result names the files and the commits of main', async () => {
    const one = crew();
    const { tree, place, gitIn, git, commit, open } = one;
    const tip = commit('a.txt', '1\n2\nbranch\n', tree);
    commit('a.txt', '1\n2\nother\n');
    git('commit', '--quiet', '--amend', '-m', 'Other work\n\nConch-Ticket: c-9');
    const base = git('rev-parse', 'main');
    const result = await mergeCommit(await open(), request({ ...one, base }, tip));
    expect(result).toEqual({
      kind: 'conflict',
      hunks: expect.stringMatching(/<<<<<<< HEAD\n \+other\n\+\+=======\n\+ branch\n/),
      files: [
        {
          path: 'a.txt',
          main: [{ commit: base, ticket: 'c-9' }],
        },
      ],
    });
    expect([gitIn(place, 'status', '--porcelain'), gitIn(place, 'rev-parse', 'HEAD')]).toEqual(['', base]);
  });

  test('names the merge that brought the other side to main', async () => {
    const one = crew();
    const { tree, commit, open, git } = one;
    const tip = commit('a.txt', '1\n2\nbranch\n', tree);
    git('switch', '--quiet', '-c', 'other', one.base);
    commit('a.txt', '1\n2\nother\n');
    git('switch', '--quiet', 'main');
    git('merge', '--quiet', '--no-ff', '-m', 'Merge c-9\n\nConch-Ticket: c-9', 'other');
    const result = await mergeCommit(await open(), request({ ...one, base: git('rev-parse', 'main') }, tip));
    expect(result.kind === 'conflict' && result.files[0]?.main.map(({ ticket }) => ticket)).toEqual(['c-9', '']);
  });

  test("is refused when the branch adds Conch's marker, and created when it removes one", async () => {
    const one = crew();
    const { git, tree, commit, open } = one;
    const repository = await open();
    const tip = commit('CLAUDE.md', 'x\n<!-- conch -->\ntask\n', tree);
    expect(await mergeCommit(repository, request(one, tip))).toEqual({ kind: 'refused', files: ['CLAUDE.md'] });
    git('merge', '--quiet', '--ff-only', 'agent/A-c-1');
    const removed = commit('CLAUDE.md', 'x\n', tree);
    expect(await mergeCommit(repository, request({ ...one, base: tip }, removed))).toMatchObject({ kind: 'merged' });
  });

  test('is not needed when main has the branch, and fails for an unrelated history', async () => {
    const one = crew();
    const { git, base, open } = one;
    const repository = await open();
    expect(await mergeCommit(repository, request(one, base))).toEqual({ kind: 'nothing' });
    const other = git('commit-tree', `${base}^{tree}`, '-m', 'Another history');
    await expect(mergeCommit(repository, request(one, other))).rejects.toThrow('refusing to merge unrelated histories');
  });

  test('is not created when git merge fails without a conflict', async () => {
    const one = crew();
    const tip = one.commit('new.txt', 'new\n', one.tree);
    const repository = await one.open({
      env: one.shim('case " $*" in *" merge --quiet"*) exit 1;; esac; exec "$GIT" "$@"'),
    });
    await expect(mergeCommit(repository, request(one, tip))).rejects.toThrow(`git did not merge ${tip}`);
  });

  test('is created in a worktree that a crash left dirty, locked or without its folder', async () => {
    const one = crew();
    const { git, tree, place, commit, open } = one;
    const tip = commit('new.txt', 'new\n', tree);
    const repository = await open();
    await prepareIntegration(repository, place, one.base);
    writeFileSync(join(place, 'left.txt'), '');
    writeFileSync(join(place, 'a.txt'), 'left');
    writeFileSync(join(git('-C', place, 'rev-parse', '--absolute-git-dir'), 'index.lock'), '');
    const first = merged(await mergeCommit(repository, request(one, tip)));
    expect(git('ls-tree', '--name-only', first.commit).split('\n')).toEqual(['.tickets', 'a.txt', 'new.txt']);
    rmSync(place, { recursive: true });
    expect(merged(await mergeCommit(repository, request(one, tip))).commit).toBe(first.commit);
    git('worktree', 'remove', '--force', place);
    mkdirSync(place);
    writeFileSync(join(place, 'theirs.txt'), '');
    await expect(mergeCommit(repository, request(one, tip))).rejects.toThrow('Move it away.');
  });
});

describe('advancing main', () => {
  /** Makes a merge commit. The user's copy is on `branch`, or on main for `null`. */
  async function ready(
    branch: string | null,
  ): Promise<Crew & { readonly repository: Repository; readonly to: string }> {
    const one = crew();
    if (branch !== null) one.git('checkout', '--quiet', '-b', branch);
    const tip = one.commit('a.txt', '1\n2\n3\nbranch\n', one.tree);
    const repository = await one.open();
    const { commit } = merged(await mergeCommit(repository, request(one, tip)));
    return { ...one, repository, to: commit };
  }

  test('moves the ref when main is checked out nowhere, and repeating it changes nothing', async () => {
    const one = await ready('feature');
    one.write('a.txt', 'dirty\n');
    const before = own(one);
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({ kind: 'advanced' });
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({ kind: 'advanced' });
    expect(one.git('rev-parse', 'main')).toBe(one.to);
    expect(own(one)).toEqual(before);
  });

  test("updates the user's copy that has main, and keeps its other changes", async () => {
    const one = await ready(null);
    one.git('config', 'merge.autoStash', 'true');
    one.write('.tickets/c-2.md', 'dirty\n');
    one.write('staged.txt', 'staged\n');
    one.git('add', 'staged.txt');
    const before = own(one);
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({ kind: 'advanced' });
    expect(own(one)).toEqual(before);
    expect(readFileSync(join(one.root, 'a.txt'), 'utf8')).toBe('1\n2\n3\nbranch\n');
  });

  test.each([
    ['changed file', 'a.txt', []],
    ['staged file', 'a.txt', ['add', 'a.txt']],
  ] as const)("waits while a %s of the user's copy is in the way, and continues later", async (_, path, then) => {
    const one = await ready(null);
    one.write(path, 'the user’s\n');
    if (then.length > 0) one.git(...then);
    const before = own(one);
    const result = await advanceMain(one.repository, { from: one.base, to: one.to });
    expect(result).toMatchObject({
      kind: 'waiting',
      folder: one.root,
      reason: expect.stringContaining('overwritten') as unknown,
    });
    expect(own(one)).toEqual(before);
    expect(await mainState(one.repository)).toMatchObject({ main: one.base, tip: one.to });
    expect(await mainState(one.repository)).toEqual({ main: one.base, tip: one.to, hasDiverged: false });
    // The next ticket builds on the commit that waits.
    const later = one.commit('later.txt', 'l\n', one.tree);
    const next = merged(await mergeCommit(one.repository, { ...request(one, later), tip: one.to }));
    expect(await advanceMain(one.repository, { from: one.to, to: next.commit })).toMatchObject({ kind: 'waiting' });
    one.git('checkout', '--quiet', 'HEAD', '--', 'a.txt');
    expect(await advanceMain(one.repository, { from: next.commit, to: next.commit })).toEqual({ kind: 'advanced' });
    expect([one.git('rev-parse', 'main'), one.git('for-each-ref', 'refs/conch/main')]).toEqual([next.commit, '']);
  });

  test("never overwrites the user's ignored files", async () => {
    const one = crew();
    writeFileSync(join(one.root, '.git/info/exclude'), '/agents/\n.env\n');
    one.git('-C', one.tree, 'commit', '--quiet', '--allow-empty', '-m', 'x');
    writeFileSync(join(one.tree, '.env'), 'theirs');
    one.git('-C', one.tree, 'add', '--force', '.env');
    one.git('-C', one.tree, 'commit', '--quiet', '-m', 'Add .env');
    one.write('.env', 'mine');
    const repository = await one.open();
    const { commit } = merged(await mergeCommit(repository, request(one, one.git('rev-parse', 'agent/A-c-1'))));
    expect(await advanceMain(repository, { from: one.base, to: commit })).toMatchObject({ kind: 'waiting' });
    expect(readFileSync(join(one.root, '.env'), 'utf8')).toBe('mine');
  });

  test('reports that main moved, and finds a merge that other commits follow', async () => {
    const one = await ready('feature');
    const moved = one.git('commit-tree', 'main^{tree}', '-p', 'main', '-m', 'By hand');
    one.git('update-ref', 'refs/heads/main', moved);
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({ kind: 'moved', main: moved });
    expect(one.git('rev-parse', 'main')).toBe(moved);
    const tip = one.git('rev-parse', 'agent/A-c-1');
    expect(await findMerge(one.repository, tip, { from: one.base, ...(await mainState(one.repository)) })).toBeNull();
    const again = merged(await mergeCommit(one.repository, { ...request(one, tip), tip: moved }));
    await advanceMain(one.repository, { from: moved, to: again.commit });
    one.git('update-ref', 'refs/heads/main', one.git('commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Later'));
    expect(await findMerge(one.repository, tip, { from: one.base, ...(await mainState(one.repository)) })).toBe(
      again.commit,
    );
  });

  test.each([null, 'feature'])('loses no commit that lands at the same moment (user on %s)', async (branch) => {
    const one = await ready(branch);
    const other = one.git('commit-tree', 'main^{tree}', '-p', 'main', '-m', 'By hand');
    const racing = `"$GIT" -C '${one.root}' update-ref refs/heads/main ${other}`;
    const env = one.shim(`case " $*" in *" update-ref -m "*|*" --ff-only "*) ${racing};; esac; exec "$GIT" "$@"`);
    one.repository.release();
    const repository = await one.open({ env });
    expect(await advanceMain(repository, { from: one.base, to: one.to })).toEqual({ kind: 'moved', main: other });
    expect(one.git('rev-parse', 'main')).toBe(other);
  });

  test('forgets a waiting commit that main has, also for several callers at once', async () => {
    const { repository, base, git } = await ready(null);
    git('update-ref', 'refs/conch/main', base);
    const callers = Array.from({ length: 8 }, () => mainState(repository));
    expect(await Promise.all(callers)).toEqual(callers.map(() => ({ main: base, tip: base, hasDiverged: false })));
    expect(git('for-each-ref', 'refs/conch/main')).toBe('');
  });

  test("combines waiting merges with the user's commits on main", async () => {
    const one = await ready(null);
    one.write('a.txt', 'in the way\n');
    await advanceMain(one.repository, { from: one.base, to: one.to });
    one.git('checkout', '--quiet', '--', 'a.txt');
    const mine = one.commit('mine.txt', 'm\n');
    expect(await mainState(one.repository)).toEqual({ main: mine, tip: one.to, hasDiverged: true });
    const joined = merged(
      await mergeCommit(one.repository, {
        folder: one.place,
        tip: mine,
        commit: one.to,
        message: 'Join',
        trailers: [],
        at: 0,
      }),
    );
    expect(await advanceMain(one.repository, { from: mine, to: joined.commit })).toEqual({ kind: 'advanced' });
    expect([one.git('show', 'main:mine.txt'), one.git('show', `main:${TICKET}`)]).toEqual(['m', 'status: closed']);
    expect(one.git('for-each-ref', 'refs/conch')).toBe('');
  });

  test('works when another worktree has main, and waits while main is rebased', async () => {
    const one = await ready('feature');
    const other = join(one.home, 'other');
    one.git('worktree', 'add', '--quiet', other, 'main');
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({ kind: 'advanced' });
    expect(readFileSync(join(other, 'a.txt'), 'utf8')).toContain('branch');
    one.commit('a.txt', 'theirs\n', one.root);
    one.commit('a.txt', 'mine\n', other);
    expect(() => one.git('-C', other, 'rebase', 'feature')).toThrow('Command failed');
    const main = one.git('rev-parse', 'main');
    const to = one.git('commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Next');
    expect(await advanceMain(one.repository, { from: main, to })).toMatchObject({
      kind: 'waiting',
      reason: 'A rebase of main is under way. Finish or abort it.',
    });
    expect(one.git('rev-parse', 'main')).toBe(main);
  });

  test('waits for files that need a filter, because Conch runs no filters', async () => {
    const one = await ready(null);
    one.git('config', 'filter.lfs.smudge', 'cat');
    writeFileSync(join(one.root, '.git/info/attributes'), '*.txt filter=lfs\n');
    expect(await advanceMain(one.repository, { from: one.base, to: one.to })).toEqual({
      kind: 'waiting',
      folder: one.root,
      reason: `a.txt needs the filter lfs. Run: git -C "${one.root}" merge --ff-only ${one.to}`,
    });
  });
});

test('never forces a push, and explains why one was refused', async () => {
  const one = crew();
  const { git, home, root, base, commit, open } = one;
  git('clone', '--quiet', '--bare', root, join(home, 'remote.git'));
  git('remote', 'add', 'origin', join(home, 'remote.git'));
  git('config', 'remote.origin.push', '+refs/heads/*:refs/heads/*');
  const repository = await open();
  const next = commit('b.txt', 'b\n');
  expect(await pushTo(repository, 'origin', { commit: next, branch: 'main' })).toBeNull();
  expect(git('-C', join(home, 'remote.git'), 'for-each-ref', '--format=%(refname) %(objectname)')).toContain(
    `refs/heads/main ${next}`,
  );
  expect(
    await pushTo(repository, 'origin', {
      commit: git('commit-tree', 'main^{tree}', '-p', base, '-m', 'Other'),
      branch: 'main',
    }),
  ).toContain('non-fast-forward');
  expect(git('-C', join(home, 'remote.git'), 'rev-parse', 'main')).toBe(next);
});

/** Merges a ticket and removes its worktree and branch. Skips a merge that an earlier call made. */
async function wholeMerge(one: Crew, repository: Repository, tip: string): Promise<void> {
  const done = await findMerge(repository, tip, { from: one.base, ...(await mainState(repository)) });
  if (done === null) {
    const { tip: from } = await mainState(repository);
    const { commit } = merged(await mergeCommit(repository, { ...request(one, tip), tip: from }));
    const { kind } = await advanceMain(repository, { from, to: commit });
    if (kind !== 'advanced') throw new Error(`main is ${kind}`);
  }
  await removeWorktree(repository, one.tree);
  await deleteBranch(repository, 'agent/A-c-1', tip);
}

/** Commands of git that write. A crash before or after each of them must be harmless. */
const WRITES =
  '*" worktree add "*|*" worktree remove "*|*" checkout "*|*" clean "*|*" merge "*|*" restore "*|*" hash-object "*|*" update-index "*|*" write-tree"*|*" commit-tree "*|*" reset "*|*" update-ref "*';

describe('a crash at each write of a merge', () => {
  test.each(['before', 'after'])(
    '%s git wrote is harmless: a repeat ends with one merge',
    async (when) => {
      let ended = false;
      let crashes = 0;
      for (let at = 1; !ended; at += 1) {
        const one = crew();
        const tip = one.commit('.tickets/c-2.md', 'dropped\n', one.tree);
        const counter = join(one.home, 'count');
        const crash = `n=$(cat '${counter}' 2>/dev/null || echo 0); n=$((n+1)); echo $n > '${counter}'; if [ $n -ge ${at} ]; then ${when === 'after' ? '[ $n -eq ' + at + ' ] && "$GIT" "$@";' : ''} kill -9 $$; fi`;
        const broken = one.shim(`case " $*" in ${WRITES}) ${crash};; esac; exec "$GIT" "$@"`);
        const first = await one.open({ env: broken });
        ended = await wholeMerge(one, first, tip).then(
          () => true,
          () => false,
        );
        if (!ended) crashes += 1;
        first.release();
        const repository = await one.open();
        await wholeMerge(one, repository, tip);
        expect(one.git('rev-list', '--merges', '--count', 'main')).toBe('1');
        expect([one.git('show', `main:${TICKET}`), one.git('show', 'main:.tickets/c-2.md')]).toEqual([
          'status: closed',
          'status: open',
        ]);
        expect([one.git('branch', '--format=%(refname:short)'), one.git('status', '--porcelain')]).toEqual([
          'main',
          '',
        ]);
        expect([existsSync(one.tree), one.git('for-each-ref', 'refs/conch')]).toEqual([false, '']);
        repository.release();
      }
      expect(crashes).toBeGreaterThanOrEqual(11);
    },
    // The test starts git about a thousand times.
    600_000,
  );
});
