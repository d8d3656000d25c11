import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  RepositoryError,
  commitOf,
  fetchMain,
  fileIn,
  hooksProblem,
  isAncestor,
  tipOf,
} from '../../../../src/work/crews/git/repository.ts';
import { scene } from './scene.ts';

/** Returns the message of the RepositoryError with which opening fails. */
async function problem(opening: Promise<unknown>): Promise<string> {
  const error: unknown = await opening.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof RepositoryError)) throw new Error(`no RepositoryError: ${String(error)}`);
  return error.message;
}

describe('a repository', () => {
  test("opens from a subfolder, and hides Conch's folders from git once", async () => {
    const { root, git, open, write } = scene();
    write('src/agents/own.txt', 'the user’s');
    for (let count = 0; count < 2; count += 1) {
      const repository = await open({}, join(root, 'src'));
      expect([repository.root, repository.commonDir]).toEqual([root, join(root, '.git')]);
      repository.release();
    }
    write('agents/x.txt', '');
    write('.conch/y.txt', '');
    expect(git('status', '--porcelain', '-uall')).toBe('?? src/agents/own.txt');
    const lines = readFileSync(join(root, '.git/info/exclude'), 'utf8').split('\n');
    expect(lines.filter((line) => line === '/agents/' || line === '/.conch')).toEqual(['/agents/', '/.conch']);
  });

  test('returns its files, branches and commits', async () => {
    const { git, commit, open } = scene();
    const first = git('rev-parse', 'HEAD');
    const second = commit('dir/b ü.txt', 'text\n');
    const repository = await open();
    expect(await tipOf(repository, 'main')).toBe(second);
    expect(await tipOf(repository, 'none')).toBeNull();
    expect(await commitOf(repository, 'refs/conch/main')).toBeNull();
    expect(await isAncestor(repository, first, second)).toBe(true);
    expect(await isAncestor(repository, second, first)).toBe(false);
    await expect(isAncestor(repository, '0'.repeat(40), first)).rejects.toThrow('git merge-base failed');
    expect(await fileIn(repository, second, 'dir/b ü.txt')).toBe('text\n');
    expect(await fileIn(repository, first, 'dir/b ü.txt')).toBeNull();
  });

  test('opens with staged and unstaged changes, and keeps them', async () => {
    const { git, open, write } = scene();
    write('a.txt', 'staged\n');
    git('add', 'a.txt');
    write('a.txt', 'unstaged\n');
    await open();
    expect(git('status', '--porcelain')).toBe('MM a.txt');
  });
});

describe('a repository that a crew cannot use', () => {
  test('reports that a folder is missing, is a file or is in no repository', async () => {
    const { home, root, open } = scene();
    expect(await problem(open({}, join(home, 'none')))).toEqual(
      `There is no folder ${home}/none. Set the folder of a repository that Conch may read.`,
    );
    expect(await problem(open({}, join(root, 'a.txt')))).toEqual(
      `${root}/a.txt is a file. Set the folder of a repository.`,
    );
    expect(await problem(open({}, home))).toEqual(`${home} is in no git repository. Run: git init "${home}"`);
  });

  // The superuser reads every folder.
  test.skipIf(process.getuid?.() === 0)('reports that it cannot be read', async () => {
    const { root, open } = scene();
    chmodSync(root, 0o000);
    const found = await problem(open());
    chmodSync(root, 0o755);
    expect(found).toBe(`Conch may not read the folder ${root}. Set the folder of a repository that Conch may read.`);
  });

  test('reports that it is bare', async () => {
    const { home, root, git, open } = scene();
    git('clone', '--quiet', '--bare', root, join(home, 'bare.git'));
    expect(await problem(open({}, join(home, 'bare.git')))).toEqual(
      `${home}/bare.git is a bare repository, without files. Clone it, and set the folder of the clone: git clone "${home}/bare.git"`,
    );
  });

  test('reports how to end an unfinished merge or rebase', async () => {
    const { root, git, commit, open } = scene();
    git('checkout', '--quiet', '-b', 'other');
    commit('a.txt', 'other\n');
    git('checkout', '--quiet', 'main');
    commit('a.txt', 'main\n');
    expect(() => git('merge', 'other')).toThrow('Command failed');
    expect(await problem(open())).toEqual(
      `A merge is under way in ${root}. Finish it or run: git -C "${root}" merge --abort`,
    );
    git('merge', '--abort');
    expect(() => git('rebase', 'other')).toThrow('Command failed');
    expect(await problem(open())).toContain('A rebase is under way');
    git('rebase', '--abort');
    await open();
  });

  test('names the branches when main is missing, and the command to use when there is no commit', async () => {
    const { home, root, git, open } = scene();
    expect(await problem(open({ main: 'trunk' }))).toEqual(`${root} has no branch trunk. Set "main" to one of: main`);
    git('init', '--quiet', join(home, 'new'));
    expect(await problem(open({}, join(home, 'new')))).toEqual(
      `${home}/new has no commit yet. Run: git -C "${home}/new" commit --allow-empty -m "Begin"`,
    );
  });

  test('reports that git is missing or too old', async () => {
    const { home, open, shim } = scene();
    expect(await problem(open({ env: { PATH: home } }))).toEqual('git was not found. Install git 2.30 or newer.');
    const env = shim('case "$*" in *version*) echo "git version 2.29.9";; *) exec "$GIT" "$@";; esac');
    expect(await problem(open({ env }))).toBe('git 2.29 is too old. Install git 2.30 or newer.');
    await open({ env: shim('case "$*" in *version*) echo "git version 2.30.0";; *) exec "$GIT" "$@";; esac') });
  });

  test('refuses a worktree folder in which main has files', async () => {
    const { commit, open } = scene();
    commit('agents/one.md', 'x');
    expect(await problem(open())).toEqual(
      'main has files in agents/, where worktrees would lie. Set the folder of the worktrees to a path outside the repository.',
    );
    await open({ folder: null });
  });
});

describe('the lock of a repository', () => {
  test('reports that the lock cannot be written', async () => {
    const { root, open } = scene();
    mkdirSync(join(root, '.git/conch.lock'));
    const message = await problem(open());
    expect(message.split(':')[0]).toBe(`Conch cannot write in ${root}/.git`);
  });

  test('names the process that holds it, and is free after that process releases it', async () => {
    const { root, git, home, open } = scene();
    const first = await open();
    const message = `Another Conch (process ${process.pid} on ${hostname()}) works in ${root}. Stop it, or use another clone.`;
    expect(await problem(open())).toBe(message);
    git('worktree', 'add', '--quiet', '--detach', join(home, 'linked'));
    expect(await problem(open({}, join(home, 'linked')))).toContain('Another Conch');
    first.release();
    await open();
  });

  test('of a killed process can be taken', async () => {
    const { root, open } = scene();
    const engine = new URL('../../../../src/engine/lock.ts', import.meta.url).href;
    const code = `const { lockFile } = await import('${engine}'); globalThis.lock = lockFile(process.argv[1]); console.log('locked'); setInterval(() => {}, 1000);`;
    const other = spawn(process.execPath, ['--input-type=module', '-e', code, join(root, '.git/conch.lock')]);
    writeFileSync(join(root, '.git/conch-owner.json'), JSON.stringify({ pid: other.pid, host: 'old', boot: null }));
    await new Promise((resolve) => void other.stdout.once('data', resolve));
    expect(await problem(open())).toContain(`process ${other.pid} on old`);
    const ended = new Promise((resolve) => void other.once('exit', resolve));
    other.kill('SIGKILL');
    await ended;
    await open();
    const owner: unknown = JSON.parse(readFileSync(join(root, '.git/conch-owner.json'), 'utf8'));
    expect(owner).toMatchObject({ pid: process.pid, host: hostname() });
  });
});

describe('main of a remote', () => {
  test('is fetched without other changes; a failure is explained', async () => {
    const { home, root, git, commit, gitIn, open } = scene();
    const repository = await open();
    expect(await fetchMain(repository)).toEqual({ remote: null, commit: null, problem: null });
    git('clone', '--quiet', root, join(home, 'remote'));
    git('remote', 'add', 'origin', join(home, 'remote'));
    const commitThere = commit('b.txt', 'remote', join(home, 'remote'));
    const before = git('for-each-ref', 'refs/heads', 'refs/remotes', 'refs/tags');
    expect(await fetchMain(repository)).toEqual({ remote: 'origin', commit: commitThere, problem: null });
    expect(git('for-each-ref', 'refs/heads', 'refs/remotes', 'refs/tags')).toBe(before);
    gitIn(join(home, 'remote'), 'branch', '-m', 'main', 'gone');
    expect(await fetchMain(repository)).toEqual({ remote: 'origin', commit: null, problem: 'no branch' });
    git('remote', 'set-url', 'origin', join(home, 'gone'));
    expect(await fetchMain(repository)).toMatchObject({ problem: expect.stringContaining('not') as unknown });
  });
});

test('names hooks that cannot run in a worktree', async () => {
  const { home, git, open } = scene();
  const repository = await open();
  const worktree = join(home, 'wt');
  git('worktree', 'add', '--quiet', '--detach', worktree);
  expect(await hooksProblem(repository, worktree)).toBeNull();
  git('config', 'core.hooksPath', '.husky/_');
  expect(await hooksProblem(repository, worktree)).toBe(
    `Hooks do not run in ${worktree}: core.hooksPath is .husky/_, and this folder is missing there.`,
  );
  mkdirSync(join(worktree, '.husky/_'), { recursive: true });
  expect(await hooksProblem(repository, worktree)).toBeNull();
});
