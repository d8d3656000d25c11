import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  KeepError,
  applyStoredWork,
  commitWork,
  dropStoredWork,
  listStoredWork,
  showStoredWork,
  statusOf,
  storeWork,
} from '../../../../src/work/crews/git/kept.ts';
import { scene } from './scene.ts';
import type { Scene } from './scene.ts';

const REF = 'refs/conch/kept/A-c-1';

/** A scene with a worktree on its own branch. `put` writes a file in the worktree. */
function withWorktree(): Scene & { readonly tree: string; readonly put: (path: string, text: string) => void } {
  const one = scene();
  one.commit('.gitignore', '.env\nignored/\n');
  const tree = join(one.root, 'agents/A-c-1');
  one.git('worktree', 'add', '--quiet', '-b', 'agent/A-c-1', tree);
  return { ...one, tree, put: (path, text) => one.write(join('agents/A-c-1', path), text) };
}

describe('stored work', () => {
  test('holds a change of equal size in the second in which the index was written', async () => {
    const { git, gitIn, open, tree, put } = withWorktree();
    const at = new Date('2026-01-01T00:00:00Z');
    git('config', 'core.trustctime', 'false');
    const repository = await open();
    put('a.txt', 'before');
    utimesSync(join(tree, 'a.txt'), at, at);
    gitIn(tree, 'add', 'a.txt');
    utimesSync(gitIn(tree, 'rev-parse', '--git-path', 'index'), at, at);
    put('a.txt', 'change');
    utimesSync(join(tree, 'a.txt'), at, at);
    await storeWork(repository, tree, REF);
    expect(git('show', `${REF}/1:a.txt`)).toBe('change');
  });

  test('holds staged, unstaged and new files, and changes neither index, files nor branch', async () => {
    const { git, gitIn, open, tree, put } = withWorktree();
    const repository = await open();
    put('a.txt', 'staged\n');
    gitIn(tree, 'add', 'a.txt');
    put('a.txt', 'unstaged\n');
    put('new ü.txt', 'new');
    put('.env', 'SECRET=1');
    const before = [gitIn(tree, 'status', '--porcelain'), gitIn(tree, 'rev-parse', 'HEAD')];
    const stored = await storeWork(repository, tree, REF);
    expect([gitIn(tree, 'status', '--porcelain'), gitIn(tree, 'rev-parse', 'HEAD')]).toEqual(before);
    expect(stored.ref).toBe(`${REF}/1`);
    expect(git('ls-tree', '-z', '--name-only', `${REF}/1`).split('\0')).toEqual([
      '.gitignore',
      'a.txt',
      'new ü.txt',
      '',
    ]);
    expect([git('show', `${REF}/1:a.txt`), git('show', `${REF}/1^2:a.txt`)]).toEqual(['unstaged', 'staged']);
    expect((await statusOf(repository, tree)).tree).toBe(stored.tree);
    expect(git('fsck', '--strict')).toBe('');
  });

  test('is not stored twice, and gets the next number after a change', async () => {
    const { git, open, tree, put } = withWorktree();
    const repository = await open();
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: null });
    put('b.txt', '1');
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: `${REF}/1` });
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: `${REF}/1` });
    for (const count of [2, 9, 10]) git('update-ref', `${REF}/${count}`, `${REF}/1`);
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: `${REF}/10` });
    put('b.txt', '2');
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: `${REF}/11` });
  });

  test('can hold the commit of HEAD without changes, before its branch is deleted', async () => {
    const { git, commit, open, tree } = withWorktree();
    const made = commit('b.txt', 'b', tree);
    const repository = await open();
    await storeWork(repository, tree, REF, { always: true });
    expect(git('rev-parse', `${REF}/1^`)).toBe(made);
  });

  test('holds files that git was told to assume unchanged, and files in a conflict', async () => {
    const { git, gitIn, commit, open, tree, put } = withWorktree();
    commit('b.txt', 'b\n', tree);
    gitIn(tree, 'update-index', '--assume-unchanged', 'a.txt');
    gitIn(tree, 'update-index', '--skip-worktree', 'b.txt');
    put('a.txt', 'hidden\n');
    put('b.txt', 'hidden too\n');
    const repository = await open();
    await storeWork(repository, tree, REF);
    expect([git('show', `${REF}/1:a.txt`), git('show', `${REF}/1:b.txt`)]).toEqual(['hidden', 'hidden too']);
    gitIn(tree, 'update-index', '--no-assume-unchanged', 'a.txt');
    gitIn(tree, 'checkout', '--quiet', '--', 'a.txt');
    commit('a.txt', 'theirs\n');
    commit('a.txt', 'ours\n', tree);
    expect(() => gitIn(tree, 'merge', 'main')).toThrow('Command failed');
    await storeWork(repository, tree, REF);
    expect(git('show', `${REF}/2:a.txt`)).toContain('=======');
    expect(gitIn(tree, 'status', '--porcelain')).toContain('UU a.txt');
  });

  test('holds the work in a submodule, in the copy shared by all worktrees', async () => {
    const { home, root, git, gitIn, commit, open } = scene();
    git('init', '--quiet', '--initial-branch', 'main', join(home, 'lib'));
    commit('lib.txt', 'lib\n', join(home, 'lib'));
    git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', join(home, 'lib'), 'sub');
    git('commit', '--quiet', '-m', 'Add sub');
    const tree = join(root, 'agents/A');
    git('worktree', 'add', '--quiet', '-b', 'agent/A', tree);
    gitIn(tree, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'update', '--init');
    const repository = await open();
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: null });
    // The shared copy already has this commit, so it needs no ref.
    expect(gitIn(join(root, 'sub'), 'for-each-ref', 'refs/conch')).toBe('');
    const committed = commit('lib.txt', 'committed in both\n', join(tree, 'sub'));
    commit('a.txt', 'with the submodule\n', tree);
    expect(await storeWork(repository, tree, REF)).toMatchObject({ ref: null });
    writeFileSync(join(tree, 'sub/new.txt'), 'in the submodule');
    const { commit: stored } = await storeWork(repository, tree, REF);
    rmSync(join(root, '.git/worktrees/A/modules'), { recursive: true });
    expect(gitIn(join(root, 'sub'), 'show', `${committed}:lib.txt`)).toBe('committed in both');
    expect(gitIn(join(root, 'sub'), 'for-each-ref', 'refs/conch', '--format=%(objectname)')).toContain(committed);
    expect(gitIn(join(root, 'sub'), 'show', `${git('rev-parse', `${stored}:sub`)}:new.txt`)).toBe('in the submodule');
  });

  test('refuses a repository inside the worktree, because git does not store its files', async () => {
    const { gitIn, commit, open, tree } = withWorktree();
    mkdirSync(join(tree, 'inner'));
    gitIn(join(tree, 'inner'), 'init', '--quiet');
    commit('x.txt', 'x', join(tree, 'inner'));
    const repository = await open();
    await expect(storeWork(repository, tree, REF)).rejects.toThrow(
      'could not be stored: inner is a repository of its own inside the worktree. Move it out of the worktree. Nothing was removed.',
    );
    expect(await listStoredWork(repository)).toEqual([]);
  });

  test('reports that the disk is full, and leaves no ref', async () => {
    const { open, shim, tree, put } = withWorktree();
    put('large.txt', Array.from({ length: 40_000 }, (_, at) => `${Math.sin(at)}`).join('\n'));
    const env = shim('trap "" XFSZ; case "$*" in *" add "*) ulimit -f 16;; esac; exec "$GIT" "$@"');
    const repository = await open({ env });
    const storing = storeWork(repository, tree, REF);
    await expect(storing).rejects.toThrow(KeepError);
    await expect(storing).rejects.toThrow(
      `The work in ${tree} could not be stored: the disk is full. Free some space and try again. Nothing was removed.`,
    );
    expect(await listStoredWork(repository)).toEqual([]);
  });

  test('can be listed, shown, applied and dropped', async () => {
    const { gitIn, open, tree, put } = withWorktree();
    put('a.txt', 'changed\n');
    writeFileSync(join(tree, 'bytes.bin'), Buffer.from([0, 255, 254, 10]));
    const repository = await open();
    await storeWork(repository, tree, REF);
    gitIn(tree, 'checkout', '--quiet', '--', '.');
    gitIn(tree, 'clean', '-fdq');
    const [kept] = await listStoredWork(repository, 'refs/conch/kept/A-c-1/');
    if (kept === undefined) throw new Error('nothing is kept');
    expect(kept).toMatchObject({ ref: `${REF}/1`, at: expect.any(Number) as unknown });
    expect(await showStoredWork(repository, kept)).toContain('+changed');
    await applyStoredWork(repository, kept, tree);
    expect(readFileSync(join(tree, 'a.txt'), 'utf8')).toBe('changed\n');
    expect([...readFileSync(join(tree, 'bytes.bin'))]).toEqual([0, 255, 254, 10]);
    put('a.txt', 'other\n');
    rmSync(join(tree, 'bytes.bin'));
    await expect(applyStoredWork(repository, kept, tree)).rejects.toThrow('patch does not apply');
    expect(existsSync(join(tree, 'bytes.bin'))).toBe(false);
    await expect(dropStoredWork(repository, { ...kept, commit: kept.tree })).rejects.toThrow('git update-ref failed');
    await dropStoredWork(repository, kept);
    expect(await listStoredWork(repository)).toEqual([]);
  });
});

describe('the commit at DONE', () => {
  test('holds changes and new files, and names files that it leaves out', async () => {
    const { commit, gitIn, open, tree, put } = withWorktree();
    put('a.txt', 'changed\n');
    put('new *.txt', 'new');
    put('.env.example', 'KEY=');
    put('.env.local', 'KEY=1');
    put('web/node_modules/x/i.js', '');
    put('large.bin', '');
    truncateSync(join(tree, 'large.bin'), 5 * 1_048_576 + 1);
    symlinkSync('/etc/hostname', join(tree, 'outside'));
    symlinkSync('a.txt', join(tree, 'inside'));
    put('staged.env', '');
    mkdirSync(join(tree, 'inner'));
    gitIn(join(tree, 'inner'), 'init', '--quiet');
    commit('x.txt', 'x', join(tree, 'inner'));
    put('.envrc', 'KEY=1');
    gitIn(tree, 'add', '-f', '.envrc');
    const { leftOut, refused } = await commitWork(await open(), tree, 'Do it');
    expect(refused).toBeNull();
    expect(gitIn(tree, 'show', '--format=%s by %an', '--name-only').split('\n')).toEqual([
      'Do it by Ann',
      '',
      '.env.example',
      'a.txt',
      'inside',
      'new *.txt',
      'staged.env',
    ]);
    expect(Object.fromEntries(leftOut.map(({ path, reason }) => [path, reason]))).toEqual({
      '.env.local': 'environment file',
      '.envrc': 'environment file',
      'inner/': 'repository inside the worktree',
      'large.bin': 'larger than 5 MiB',
      outside: 'link that leaves the worktree',
      'web/node_modules/x/i.js': 'dependency folder',
    });
  });

  test("fails with the hook's message, and fails on conflicts", async () => {
    const { root, gitIn, commit, open, tree, put } = withWorktree();
    put('a.txt', 'changed\n');
    writeFileSync(join(root, '.git/hooks/pre-commit'), '#!/bin/sh\necho "no tabs" >&2; exit 1\n');
    chmodSync(join(root, '.git/hooks/pre-commit'), 0o755);
    const repository = await open();
    const refused = await commitWork(repository, tree, 'Do it');
    const words = 'the hook pre-commit refused the commit:\nno tabs';
    expect(refused).toEqual({ leftOut: [], refused: words });
    const message = join(root, '.git/hooks/commit-msg');
    writeFileSync(join(root, '.git/hooks/pre-commit'), '#!/bin/sh\ngit var GIT_EDITOR\n');
    writeFileSync(message, '#!/bin/sh\ngit var GIT_EDITOR; echo "no ticket"; exit 3\n', { mode: 0o755 });
    expect((await commitWork(repository, tree, 'Do it')).refused).toMatch(
      /^the hook commit-msg refused the commit:\n[^]*no ticket$/,
    );
    rmSync(message);
    expect(await commitWork(repository, tree, 'Do it')).toMatchObject({ refused: null });
    expect(await commitWork(repository, tree, 'Do it')).toEqual({
      leftOut: [],
      refused: null,
    });
    rmSync(join(root, '.git/hooks/pre-commit'));
    commit('a.txt', 'theirs\n');
    expect(() => gitIn(tree, 'merge', 'main')).toThrow('Command failed');
    expect(await commitWork(repository, tree, 'Do it')).toMatchObject({
      refused: 'Files with conflicts: a.txt',
    });
  });

  test('fails with the words of git when a required filter fails', async () => {
    const { git, open, tree, put } = withWorktree();
    git('config', 'filter.bad.clean', 'echo "no smudge" >&2; false');
    git('config', 'filter.bad.required', 'true');
    put('.gitattributes', '* filter=bad\n');
    put('a.txt', 'changed\n');
    const { refused } = await commitWork(await open(), tree, 'Do it');
    expect(refused).toMatch(/^git add failed: no smudge\n[^]*: clean filter 'bad' failed$/);
  });
});
