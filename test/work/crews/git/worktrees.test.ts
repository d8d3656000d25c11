import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { storeWork } from '../../../../src/work/crews/git/kept.ts';
import { tipOf } from '../../../../src/work/crews/git/repository.ts';
import {
  addWorktree,
  copyIncludes,
  deleteBranch,
  lfsPointers,
  listWorktrees,
  removeWorktree,
  updateSubmodules,
  worktreeName,
} from '../../../../src/work/crews/git/worktrees.ts';
import { scene } from './scene.ts';

const OF_CONCH = ['agents', '.conch'];

test('gives a worktree a free name of letters, digits, - and _', () => {
  const taken = new Set(['c-1', 'c-1-2']);
  const name = (id: string): string => worktreeName(id, (one) => taken.has(one));
  expect([name('c-42'), name('../x y~.lock'), name('c.1'), name('--'), name('ü')]).toEqual([
    'c-42',
    'x-y-lock',
    'c-1-3',
    'ticket',
    'ticket',
  ]);
});

describe('a worktree', () => {
  test('is created from a commit, without tracking; repeating it finds the worktree', async () => {
    const { root, git, gitIn, commit, open } = scene();
    const base = git('rev-parse', 'HEAD');
    commit('b.txt', 'later');
    const repository = await open();
    const place = { folder: join(root, 'agents/A-c-1'), branch: 'agent/A-c-1', base };
    await addWorktree(repository, place);
    await addWorktree(repository, place);
    expect([gitIn(place.folder, 'rev-parse', 'HEAD'), gitIn(place.folder, 'status', '--porcelain')]).toEqual([
      base,
      '',
    ]);
    expect(() => git('config', 'branch.agent/A-c-1.merge')).toThrow('Command failed');
    expect((await listWorktrees(repository)).map(({ branch }) => branch)).toEqual(['main', 'agent/A-c-1']);
    expect(git('status', '--porcelain')).toBe('');
  });

  test('is created only when no other one is being created', async () => {
    const { root, git, open, shim } = scene();
    const base = git('rev-parse', 'HEAD');
    const busy = join(root, '../busy');
    const env = shim(
      `case "$*" in *"worktree add"*) mkdir '${busy}' || exit 9; "$GIT" "$@"; end=$?; rmdir '${busy}'; exit $end;; esac; exec "$GIT" "$@"`,
    );
    const repository = await open({ env });
    const names = ['A', 'B', 'C', 'D'];
    const adding = names.map((name) => ({ folder: join(root, 'agents', name), branch: `agent/${name}`, base }));
    await Promise.all(adding.map((place) => addWorktree(repository, place)));
    expect(await listWorktrees(repository)).toHaveLength(1 + names.length);
  });

  test('that cannot be created leaves no branch, registration or folder', async () => {
    const { root, git, open, shim } = scene();
    const base = git('rev-parse', 'HEAD');
    const env = shim('case "$*" in *"worktree add"*) "$GIT" "$@"; exit 1;; esac; exec "$GIT" "$@"');
    const repository = await open({ env });
    const place = { folder: join(root, 'agents/A'), branch: 'agent/A', base };
    await expect(addWorktree(repository, place)).rejects.toThrow('git worktree failed');
    expect([git('branch', '--list', 'agent/*'), git('worktree', 'list').split('\n').length]).toEqual(['', 1]);
    expect(existsSync(place.folder)).toBe(false);
  });

  test('whose creation was killed is created again', async () => {
    const { root, git, open } = scene();
    const base = git('rev-parse', 'HEAD');
    const place = { folder: join(root, 'agents/A'), branch: 'agent/A', base };
    git('worktree', 'add', '--quiet', '-b', place.branch, place.folder);
    writeFileSync(join(root, '.git/worktrees/A/locked'), 'initializing');
    rmSync(join(place.folder, 'a.txt'));
    await addWorktree(await open(), place);
    expect(existsSync(join(place.folder, 'a.txt'))).toBe(true);
  });

  test('whose folder was deleted by hand is restored, and other registrations stay', async () => {
    const { root, git, commit, open } = scene();
    const base = git('rev-parse', 'HEAD');
    const repository = await open();
    const places = ['A', 'B'].map((name) => ({ folder: join(root, 'agents', name), branch: `agent/${name}`, base }));
    for (const place of places) await addWorktree(repository, place);
    const [one, other] = places;
    if (one === undefined || other === undefined) throw new Error('two places');
    const work = commit('work.txt', 'w', one.folder);
    for (const { folder } of places) rmSync(folder, { recursive: true });
    await addWorktree(repository, one);
    expect(git('rev-parse', 'agent/A')).toBe(work);
    expect(readFileSync(join(one.folder, 'work.txt'), 'utf8')).toBe('w');
    expect((await listWorktrees(repository)).map(({ folder }) => folder)).toEqual([root, one.folder, other.folder]);
  });

  test('runs no program that was configured after the repository was opened', async () => {
    const { home, root, git, commit, open } = scene();
    commit('.gitattributes', '*.txt filter=late\n');
    const base = commit('b.txt', 'b');
    const repository = await open();
    await addWorktree(repository, { folder: join(root, 'agents/A'), branch: 'agent/A', base });
    git('config', 'filter.late.smudge', `touch '${home}/ran'; cat`);
    git('config', 'core.hooksPath', home);
    writeFileSync(join(home, 'post-checkout'), `#!/bin/sh\ntouch '${home}/ran'\n`, { mode: 0o755 });
    await addWorktree(repository, { folder: join(root, 'agents/B'), branch: 'agent/B', base });
    expect([existsSync(join(root, 'agents/B/b.txt')), existsSync(join(home, 'ran'))]).toEqual([true, false]);
  });

  test('starts from the branch of an earlier assignment', async () => {
    const { root, git, gitIn, commit, open } = scene();
    git('branch', 'agent/A');
    const earlier = git('rev-parse', 'HEAD');
    const base = commit('b.txt', 'later');
    await addWorktree(await open(), { folder: join(root, 'agents/A'), branch: 'agent/A', base });
    expect([gitIn(join(root, 'agents/A'), 'rev-parse', 'HEAD'), git('rev-parse', 'agent/A')]).toEqual([
      earlier,
      earlier,
    ]);
  });

  test('is refused for invalid names, a missing base, and a folder that Conch did not create', async () => {
    const { home, root, git, open } = scene();
    const base = git('rev-parse', 'HEAD');
    const repository = await open();
    const folder = join(home, 'theirs');
    for (const branch of ['agent/a..b', 'agent/a b', 'agent/a.lock', '-b', 'agent/a~1'])
      await expect(addWorktree(repository, { folder, branch, base })).rejects.toThrow('cannot be the name of a branch');
    await expect(addWorktree(repository, { folder, branch: 'agent/A', base: 'main' })).rejects.toThrow(
      '"main" is no commit',
    );
    mkdirSync(folder);
    writeFileSync(join(folder, 'own.txt'), '');
    await expect(addWorktree(repository, { folder, branch: 'agent/A', base })).rejects.toThrow('Move it away.');
    git('worktree', 'add', '--quiet', '-b', 'other', join(root, 'agents/B'));
    await expect(addWorktree(repository, { folder: join(root, 'agents/B'), branch: 'agent/B', base })).rejects.toThrow(
      'is not the worktree of agent/B. Move it away.',
    );
    expect(existsSync(join(folder, 'own.txt'))).toBe(true);
    rmSync(join(root, 'agents/B/.git'));
    await expect(addWorktree(repository, { folder: join(root, 'agents/B'), branch: 'other', base })).rejects.toThrow(
      'is not the worktree of other. Move it away.',
    );
    expect(existsSync(join(root, 'agents/B/a.txt'))).toBe(true);
  });
});

describe('the removal of', () => {
  test('a worktree requires that its current work is stored, and keeps other worktrees', async () => {
    const { root, git, open } = scene();
    const base = git('rev-parse', 'HEAD');
    const repository = await open();
    const folder = join(root, 'agents/A');
    await addWorktree(repository, { folder, branch: 'agent/A', base });
    git('worktree', 'add', '--quiet', '--detach', join(root, '../other'));
    rmSync(join(root, '../other'), { recursive: true });
    writeFileSync(join(folder, 'new.txt'), 'work');
    await expect(removeWorktree(repository, folder)).rejects.toThrow('contains modified or untracked files');
    const stored = await storeWork(repository, folder, 'refs/conch/kept/A-c');
    writeFileSync(join(folder, 'later.txt'), 'more work');
    await expect(removeWorktree(repository, folder, stored)).rejects.toThrow('contains modified or untracked files');
    await removeWorktree(repository, folder, await storeWork(repository, folder, 'refs/conch/kept/A-c'));
    await removeWorktree(repository, folder);
    expect(existsSync(folder)).toBe(false);
    expect(await listWorktrees(repository)).toHaveLength(2);
    await removeWorktree(repository, root);
    expect(existsSync(join(root, 'a.txt'))).toBe(true);
  });

  test('a branch requires the expected commit, and no worktree on it', async () => {
    const { root, git, commit, open } = scene();
    const base = git('rev-parse', 'HEAD');
    const repository = await open();
    const folder = join(root, 'agents/A');
    await addWorktree(repository, { folder, branch: 'agent/A', base });
    const tip = commit('w.txt', 'w', folder);
    await expect(deleteBranch(repository, 'agent/A', tip)).rejects.toThrow(`agent/A is checked out in ${folder}`);
    await removeWorktree(repository, folder);
    await expect(deleteBranch(repository, 'agent/A', base)).rejects.toThrow('git update-ref failed');
    await deleteBranch(repository, 'agent/A', tip);
    await deleteBranch(repository, 'agent/A', tip);
    expect(await tipOf(repository, 'agent/A')).toBeNull();
  });
});

test('copies only ignored files from the list, never over another file or from outside', async () => {
  const { home, root, git, commit, open, write } = scene();
  commit('.gitignore', '.env*\nbuild/\nagents/\nlinks/\n');
  write('.env', 'KEY=1');
  write('.env.own', 'mine');
  write('not-ignored.txt', '');
  write('build/deep/x.o', 'x');
  symlinkSync('deep/x.o', join(root, 'build/inside'));
  write('agents/B/.env', 'other worker');
  write('links/a', '');
  symlinkSync('/etc/hostname', join(root, 'links/out'));
  symlinkSync(home, join(root, '.env.link'));
  write('.worktreeinclude', '.env*\nbuild\nnot-ignored.txt\nagents\nlinks/\na.txt\n');
  const repository = await open();
  const tree = join(root, 'agents/A');
  git('worktree', 'add', '--quiet', '--detach', tree);
  writeFileSync(join(tree, '.env.own'), 'theirs');
  const { copied, skipped } = await copyIncludes(repository, tree, OF_CONCH);
  expect(copied).toEqual(['.env', 'build/']);
  expect(skipped).toEqual([
    { path: '.env.link', reason: '.env.link leaves the repository' },
    { path: '.env.own', reason: 'exists in the worktree' },
    { path: 'agents/', reason: 'folder of Conch' },
    { path: 'links/', reason: 'links/out leaves the repository' },
  ]);
  expect([readFileSync(join(tree, '.env'), 'utf8'), readFileSync(join(tree, '.env.own'), 'utf8')]).toEqual([
    'KEY=1',
    'theirs',
  ]);
  expect([readFileSync(join(tree, 'build/inside'), 'utf8'), readlinkSync(join(tree, 'build/inside'))]).toEqual([
    'x',
    'deep/x.o',
  ]);
  expect([existsSync(join(tree, 'links')), existsSync(join(tree, 'agents'))]).toEqual([false, false]);
  expect((await copyIncludes(repository, tree, OF_CONCH)).copied).toEqual([]);
});

test('clones a large folder by the file system or skips it whole', async () => {
  const { root, git, commit, open, write } = scene();
  commit('.gitignore', 'deps/\n');
  write('.worktreeinclude', 'deps/\n');
  write('deps/small', 's');
  write('deps/zlarge', '');
  truncateSync(join(root, 'deps/zlarge'), 101 * 1_048_576);
  const tree = join(root, 'agents/A');
  git('worktree', 'add', '--quiet', '--detach', tree);
  const { copied, skipped } = await copyIncludes(await open(), tree, OF_CONCH);
  const reason = 'larger than 100 MiB, and the file system cannot clone it';
  const cloned = existsSync(join(tree, 'deps'));
  expect({ copied, skipped }).toEqual(
    cloned ? { copied: ['deps/'], skipped: [] } : { copied: [], skipped: [{ path: 'deps/', reason }] },
  );
});

test("creates submodules from the repository's own copies, and removes them once stored", async () => {
  const { home, root, git, gitIn, commit, open } = scene();
  git('init', '--quiet', '--initial-branch', 'main', join(home, 'lib'));
  commit('lib.txt', 'lib\n', join(home, 'lib'));
  git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', join(home, 'lib'), 'sub');
  git('commit', '--quiet', '-m', 'Add sub');
  const repository = await open();
  const folder = join(root, 'agents/A');
  await addWorktree(repository, { folder, branch: 'agent/A', base: git('rev-parse', 'HEAD') });
  rmSync(join(home, 'lib'), { recursive: true });
  // The user may have set another address than the one in `.gitmodules`.
  git('config', 'submodule.sub.url', 'ssh://example.org/lib');
  const config = readFileSync(join(root, '.git/config'), 'utf8');
  expect(await updateSubmodules(repository, folder)).toEqual([]);
  expect(readFileSync(join(folder, 'sub/lib.txt'), 'utf8')).toBe('lib\n');
  expect(gitIn(join(folder, 'sub'), 'config', 'remote.origin.url')).toBe('ssh://example.org/lib');
  expect(readFileSync(join(root, '.git/config'), 'utf8')).toBe(config);
  await expect(removeWorktree(repository, folder)).rejects.toThrow('submodules cannot be moved or removed');
  await removeWorktree(repository, folder, await storeWork(repository, folder, 'refs/conch/kept/A-c'));
  expect(existsSync(folder)).toBe(false);
  rmSync(join(root, '.git/modules'), { recursive: true });
  await addWorktree(repository, { folder, branch: 'agent/A', base: git('rev-parse', 'HEAD') });
  expect(await updateSubmodules(repository, folder)).toEqual([
    { path: 'sub', reason: 'no copy of it in the repository' },
  ]);
});

test('names files whose content was not fetched from LFS', async () => {
  const { root, commit, open } = scene();
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 1\n`;
  commit('big file.bin', pointer);
  commit('docs.md', `A pointer:\n${pointer}`);
  expect(await lfsPointers(await open(), root)).toEqual(['big file.bin']);
});
