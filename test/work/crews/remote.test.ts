import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { until } from '../reviews/stage.ts';
import { add, finished, git, repository, stage, ticketText } from './stage.ts';

/** Looks at tickets are due after 50 ms in place of 5 s, and fetches in place of 60 s. */
const quick: Timers = {
  ...systemTimers,
  after: (ms, then) => systemTimers.after(ms === 5_000 || ms === 60_000 ? 50 : ms, then),
};
/** Looks at tickets are due after 20 ms in place of 5 s. No fetch is due by time. */
const unfetched: Timers = { ...systemTimers, after: (ms, then) => systemTimers.after(ms === 5_000 ? 20 : ms, then) };

/** A repository with a bare clone of it as the remote "origin". */
function cloned(): { readonly repo: string; readonly bare: string } {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const bare = join(mkdtempSync(join(tmpdir(), 'conch-bare-')), 'shop.git');
  git(repo, 'clone', '-q', '--bare', repo, bare);
  git(repo, 'remote', 'add', 'origin', bare);
  return { repo, bare };
}

const AUTHOR = ['-c', 'user.name=x', '-c', 'user.email=x@x'];

/** A git that writes its arguments into a file before it runs the real one. */
function countedGit() {
  const folder = mkdtempSync(join(tmpdir(), 'conch-git-'));
  const path = process.env['PATH'] ?? '';
  const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim();
  writeFileSync(join(folder, 'git'), `#!/bin/sh\necho "$*" >> ${folder}/calls\nexec ${real} "$@"\n`, { mode: 0o755 });
  return {
    begin: () => void (process.env['PATH'] = `${folder}:${path}`),
    end(verb: string): number {
      process.env['PATH'] = path;
      const calls = readFileSync(join(folder, 'calls'), 'utf8').split('\n');
      return calls.filter((line) => line.includes(` ${verb} `)).length;
    },
  };
}

const work = (folder: string): string => {
  add(folder, 'one.txt', 'one');
  return 'DONE';
};

describe('the remote of a crew', () => {
  test.each([true, false])('that refuses a push gets the merge at a later fetch, with fetch %s', async (fetch) => {
    const { repo, bare } = cloned();
    const hook = join(bare, 'hooks/pre-receive');
    writeFileSync(hook, '#!/bin/sh\necho closed today >&2\nexit 1\n');
    chmodSync(hook, 0o755);
    const room = await stage(repo, work, { push: true, fetch }, ':memory:', quick);
    const told = () => room.posts.filter((post) => post.includes('the push of main was refused'));
    await room.command('/crew run');
    await finished(room, 1);
    await until(() => told().length === 1);
    expect(told()[0]).toContain('closed today');
    expect(git(bare, 'rev-parse', 'main')).not.toBe(git(repo, 'rev-parse', 'main'));
    rmSync(hook);
    await until(() => git(bare, 'rev-parse', 'main') === git(repo, 'rev-parse', 'main'));
    expect(told()).toHaveLength(1);
  });

  test('that is missing is reported as missing, and gets the merge when it is added', async () => {
    const { repo, bare } = cloned();
    git(repo, 'remote', 'remove', 'origin');
    const room = await stage(repo, work, { push: true, fetch: false }, ':memory:', quick);
    await room.command('/crew run');
    await finished(room, 1);
    const told = () => room.posts.filter((post) => post.includes('main is not pushed: there is no remote'));
    await until(() => told().length > 0);
    git(repo, 'remote', 'add', 'origin', bare);
    await until(() => git(bare, 'rev-parse', 'main') === git(repo, 'rev-parse', 'main'));
    expect(told()).toHaveLength(1);
  });

  test('that cannot be reached keeps tickets from starting, and is reported once', async () => {
    const { repo, bare } = cloned();
    git(repo, 'remote', 'set-url', 'origin', `${bare}-gone`);
    const room = await stage(repo, work, {}, ':memory:', quick);
    const told = () => room.posts.filter((post) => post.includes('no ticket starts: main could not be fetched'));
    await room.command('/crew run');
    await until(() => told().length === 1);
    expect(room.app.crews.state('web')?.workers[0]?.status).toBe('idle');
    git(repo, 'remote', 'set-url', 'origin', bare);
    await finished(room, 1);
    expect(told()).toHaveLength(1);
  });

  test('that has no main is reported with the command to use, and work under way is merged', async () => {
    const { repo, bare } = cloned();
    writeFileSync(join(repo, '.tickets/c-2.md'), ticketText('c-2', { deps: ['c-1'] }));
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'Add c-2');
    const room = await stage(
      repo,
      (folder, { channel }) => {
        if (channel.endsWith('c-1')) git(bare, 'branch', '-m', 'main', 'trunk');
        add(folder, `${channel.slice(-3)}.txt`, 'x');
        return 'DONE';
      },
      {},
      ':memory:',
      quick,
    );
    await room.command('/crew run');
    await finished(room, 1);
    await until(() => room.posts.some((post) => post.includes('no ticket starts: origin has no branch main')));
    await expect.poll(async () => (await room.command('/crew ps')).text).toContain('git push origin main');
    git(repo, 'push', '-q', 'origin', 'main');
    await finished(room, 2);
  });

  test('that has no main gets it at once from a crew that pushes', async () => {
    const { repo, bare } = cloned();
    git(bare, 'branch', '-m', 'main', 'trunk');
    const room = await stage(repo, work, { push: true });
    await room.command('/crew run');
    await finished(room, 1);
    expect(git(bare, 'rev-parse', 'main')).toBe(git(repo, 'rev-parse', 'main'));
  });

  test('is fetched when a ticket is assigned and before its merge, and not at every look at tickets', async () => {
    const { repo, bare } = cloned();
    const theirs = git(bare, ...AUTHOR, 'commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Theirs');
    git(bare, 'update-ref', 'refs/heads/main', theirs);
    const counted = countedGit();
    counted.begin();
    const bases: string[] = [];
    const room = await stage(
      repo,
      (folder) => {
        bases.push(git(folder, 'rev-parse', 'HEAD'));
        return work(folder);
      },
      { workers: 2 },
      ':memory:',
      unfetched,
    );
    await room.command('/crew run');
    await finished(room, 1);
    expect(bases).toEqual([theirs]);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(counted.end('fetch')).toBe(2);
  });

  test('whose main has diverged is reported, and is not overwritten', async () => {
    const { repo, bare } = cloned();
    const other = git(bare, ...AUTHOR, 'commit-tree', 'main^{tree}', '-p', 'main', '-m', 'o');
    add(repo, 'mine.txt', 'mine');
    git(bare, 'update-ref', 'refs/heads/main', other);
    const room = await stage(repo, work, { push: true }, ':memory:', quick);
    await room.command('/crew run');
    await finished(room, 1);
    expect(room.posts.join('\n')).toContain(
      `each have commits that the other lacks. Run: git merge ${other.slice(0, 10)}`,
    );
    expect(git(bare, 'rev-parse', 'main')).toBe(other);
  });
});

describe('a merge', () => {
  test('that reports fewer tests than main waits for people, and its commit names authors and run', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const room = await stage(
      repo,
      (folder) => {
        writeFileSync(join(folder, 'list.txt'), '');
        git(folder, 'commit', '-qam', 'Less', '--author', 'Bea <bea@example.org>');
        return 'DONE';
      },
      { test: 'echo "# tests $(grep -c . list.txt)"' },
    );
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    await until(() => worker()?.waiting?.for === 'weakened');
    expect(worker()?.waiting?.why).toBe('the merged tree reports 0 tests, and main reports 1');
    const session = worker()?.ticket?.session;
    await room.command('/crew answer A merge');
    await finished(room, 1);
    expect(git(repo, 'log', '-1', '--format=%(trailers:only)', 'main').trim().split('\n')).toEqual([
      'Conch-Ticket: c-1',
      'Conch-Worker: A',
      `Conch-Run: ${session}`,
      'Co-authored-by: Bea <bea@example.org>',
    ]);
  });
});

describe('a prepare command that reaches its time limit', () => {
  test('in the worktree of a ticket refuses the ticket with the reason', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), work, {
      prepare: ['case "$PWD" in */agents/A-*) sleep 60;; esac'],
      prepareTimeoutSeconds: 1,
    });
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.refused.length === 1);
    expect(room.app.crews.state('web')?.refused[0]?.why).toContain('did not end within 1 s');
  });

  test('in the worktree of main counts as red tests of main', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), work, {
      prepare: ['sleep 60'],
      prepareTimeoutSeconds: 1,
    });
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.base?.verdict === 'red');
    expect(room.app.crews.state('web')?.base?.why).toContain('"sleep 60" did not end within 1 s');
    expect(room.app.crews.state('web')?.workers[0]?.status).toBe('idle');
  });
});
