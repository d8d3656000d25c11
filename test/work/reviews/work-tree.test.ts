import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { dropWork, measureWork } from '../../../src/work/reviews/work-tree.ts';

let root = '';

const git = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', root, '-c', 'user.name=Ann', '-c', 'user.email=ann@localhost', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
const write = (file: string, text: string): void => writeFileSync(join(root, file), text);
/** The user's state of the repository, which measuring must not change. */
const own = (): readonly string[] => [
  git('status', '--porcelain'),
  git('rev-parse', 'HEAD'),
  git('branch', '--list'),
  git('diff', '--cached'),
  git('stash', 'list'),
];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'conch-work-tree-'));
  git('init', '--quiet', '--initial-branch', 'main');
  write('a.txt', 'one\ntwo\n');
  write('.gitignore', '.env\n');
  git('add', '--all');
  git('commit', '--quiet', '-m', 'Begin');
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

describe('the work in a repository', () => {
  test("is stored with all uncommitted changes, and the user's index, branch and files stay", async () => {
    write('a.txt', 'one\n2\n');
    write('staged.txt', 'staged');
    git('add', 'staged.txt');
    write('new file ü.txt', 'new');
    write('.env', 'SECRET=1');
    const before = own();
    const work = await measureWork(process.env, root, 'refs/conch/review/r1/1', null);
    expect(own()).toEqual(before);
    expect(git('show', `${work?.commit}:a.txt`)).toBe('one\n2\n');
    expect(
      git('-c', 'core.quotePath=false', 'ls-tree', '--name-only', work?.commit ?? '')
        .trim()
        .split('\n'),
    ).toEqual(['.gitignore', 'a.txt', 'new file ü.txt', 'staged.txt']);
    expect(git('rev-parse', 'refs/conch/review/r1/1').trim()).toBe(work?.commit);
  });

  test('lists a file with very many new lines without their numbers', async () => {
    const first = await measureWork(process.env, root, 'refs/conch/review/r1/1', null);
    write('data.csv', '1\n'.repeat(150_000));
    const second = await measureWork(process.env, root, 'refs/conch/review/r1/2', first);
    expect(second?.changed).toEqual([{ file: 'data.csv' }]);
  });

  test('has an equal digest when nothing changed, and shows the changed lines otherwise', async () => {
    const first = await measureWork(process.env, root, 'refs/conch/review/r1/1', null);
    const second = await measureWork(process.env, root, 'refs/conch/review/r1/2', first);
    expect(second).toEqual({ ...first, changed: [], diff: '' });
    write('a.txt', 'one\n2\nthree\n');
    const third = await measureWork(process.env, root, 'refs/conch/review/r1/3', second);
    expect(third?.tree).not.toBe(second?.tree);
    expect(third?.changed).toEqual([{ file: 'a.txt', lines: [2, 3] }]);
    expect(third?.diff?.split('\n').filter((line) => /^[-+]\w/.test(line))).toEqual(['-two', '+2', '+three']);
  });

  test('holds a change of equal size in the second in which the index was written', async () => {
    const at = new Date('2026-01-01T00:00:00Z');
    git('config', 'core.trustctime', 'false');
    write('a.txt', 'before');
    utimesSync(join(root, 'a.txt'), at, at);
    git('add', 'a.txt');
    utimesSync(join(root, '.git/index'), at, at);
    write('a.txt', 'change');
    utimesSync(join(root, 'a.txt'), at, at);
    const work = await measureWork(process.env, root, 'refs/conch/review/r1/1', null);
    expect(git('show', `${work?.commit}:a.txt`)).toBe('change');
  });

  test('holds changed files that an agent has flagged as unchanged in the index', async () => {
    write('b.txt', 'one\n');
    git('add', '--all');
    git('commit', '--quiet', '-m', 'More');
    const first = await measureWork(process.env, root, 'refs/conch/review/r1/0', null);
    git('update-index', '--assume-unchanged', 'a.txt');
    git('update-index', '--skip-worktree', 'b.txt');
    write('a.txt', 'hidden\n');
    write('b.txt', 'hidden\n');
    const work = await measureWork(process.env, root, 'refs/conch/review/r1/1', first);
    expect(work?.changed?.map(({ file }) => file)).toEqual(['a.txt', 'b.txt']);
    expect(git('ls-files', '-v')).toContain('h a.txt\nS b.txt');
  });

  test('runs no hooks, filters or monitors that an agent could have configured', async () => {
    const ran = join(root, '..', `${root.split('/').at(-1)}-ran`);
    const program = join(root, '.git', 'evil.sh');
    writeFileSync(program, `#!/bin/sh\ntouch '${ran}'\ncat\n`);
    chmodSync(program, 0o755);
    for (const hook of ['pre-commit', 'post-index-change', 'reference-transaction']) {
      writeFileSync(join(root, '.git/hooks', hook), `#!/bin/sh\ntouch '${ran}'\n`);
      chmodSync(join(root, '.git/hooks', hook), 0o755);
    }
    git('config', 'core.fsmonitor', program);
    git('config', 'filter.evil.clean', program);
    git('config', 'filter.evil.required', 'true');
    rmSync(ran, { force: true });
    write('.gitattributes', '* filter=evil\n');
    write('b.txt', 'more');
    expect((await measureWork(process.env, root, 'refs/conch/review/r1/1', null))?.commit).toMatch(/^[0-9a-f]{40}$/);
    expect(existsSync(ran)).toBe(false);
  });

  test('of a finished review is deleted', async () => {
    await measureWork(process.env, root, 'refs/conch/review/r1/1', null);
    await measureWork(process.env, root, 'refs/conch/review/r2/1', null);
    await dropWork(process.env, root, 'refs/conch/review/r1');
    expect(git('for-each-ref', '--format=%(refname)', 'refs/conch').trim()).toBe('refs/conch/review/r2/1');
  });
});

test('stores no work for a folder outside a repository', async () => {
  rmSync(join(root, '.git'), { recursive: true });
  expect(await measureWork(process.env, root, 'refs/conch/review/r1/1', null)).toBeNull();
});

test('throws when git fails, in place of taking the folder for one outside a repository', async () => {
  git('config', 'core.repositoryFormatVersion', '99');
  await expect(measureWork(process.env, root, 'refs/conch/review/r1/1', null)).rejects.toThrow('rev-parse failed');
});
