import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, git, mainTickets, playedBy, repository, stage, stageOf, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const oneFile: Work = (folder) => {
  add(folder, 'one.txt', 'one');
  return 'DONE';
};

const { PATH = '' } = process.env;
afterEach(() => {
  process.env['PATH'] = PATH;
});

/** Puts a script in front of git. `$GIT` is the real program. */
function replaceGit(script: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'conch-other-git-'));
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
  writeFileSync(join(folder, 'git'), `#!/bin/sh\nGIT=${real}\n${script}\n`);
  chmodSync(join(folder, 'git'), 0o755);
  process.env['PATH'] = `${folder}:${PATH}`;
}

test('lists tickets that cannot be read or named with the reason, and works on the others', async () => {
  const repo = repository({ 'c-1': ticketText('c-1'), 'c..2': ticketText('c..2'), 'c-3': 'no front matter\n' });
  writeFileSync(join(repo, '.tickets/c-4.md'), Buffer.from('---\nid: c-4\n---\n# \u00FC\n', 'latin1'));
  mkdirSync(join(repo, '.tickets/c-5.md'));
  const room = await stage(repo, oneFile);
  await room.command('/crew run');
  await finished(room, 1);
  const { text } = await room.command('/crew dashboard');
  for (const line of [
    'c..2: its id "c..2" cannot be the name of a branch',
    'c-3: it does not begin with a line "---"',
    'c-4: it is not UTF-8',
    'c-5: it does not begin with a line "---"',
  ])
    expect(text).toContain(line);
  expect(mainTickets(repo)).toEqual(['c-1']);
});

test('refuses a second crew that reaches the same repository by a link, and names the process that has it', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const link = join(mkdtempSync(join(tmpdir(), 'conch-crew-link-')), 'repo');
  symlinkSync(repo, link);
  const other = { id: 'api', repo: link, channel: 'console:api', backend: { kind: 'command', command: 'unused' } };
  const room = await stageOf({
    repo,
    crew: {},
    config: {
      channels: [
        { id: CHANNEL, agents: ['pm'] },
        { id: 'console:api', agents: ['pm'] },
      ],
    },
    others: [other],
    backends: playedBy(oneFile),
  });
  expect(await room.command('/crew ps')).toMatchObject({ ok: true });
  expect(await room.command('/crew ps', 'console:api')).toMatchObject({
    ok: false,
    text: expect.stringContaining(`Another Conch (process ${process.pid} on`),
  });
});

test('works where main is checked out in another worktree, and people are on a branch with staged changes', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  git(repo, 'switch', '-q', '-c', 'mine');
  const other = join(mkdtempSync(join(tmpdir(), 'conch-crew-main-')), 'main');
  git(repo, 'worktree', 'add', '-q', other, 'main');
  writeFileSync(join(repo, 'list.txt'), 'first\nstaged\n');
  git(repo, 'add', 'list.txt');
  writeFileSync(join(repo, 'list.txt'), 'first\nstaged\nmore\n');
  const picture = () => [
    git(repo, 'status', '--porcelain=v2', '--branch'),
    readFileSync(join(repo, 'list.txt'), 'utf8'),
  ];
  const before = picture();
  const room = await stage(repo, oneFile);
  await room.command('/crew run');
  await finished(room, 1);
  expect(picture()).toEqual(before);
  expect(readFileSync(join(other, 'one.txt'), 'utf8')).toBe('one\n');
  expect(git(other, 'status', '--porcelain')).toBe('');
});

test('keeps the worktree of a worker whose work cannot be stored, and resets the worker when it can be stored', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const hold = Promise.withResolvers<void>();
  let isHalf = false;
  const room = await stage(repo, async (folder) => {
    writeFileSync(join(folder, 'half.txt'), 'half\n');
    isHalf = true;
    await hold.promise;
    return '';
  });
  const state = () => room.app.crews.state('web');
  // A ref with this name makes refs for stored work below it impossible.
  git(repo, 'update-ref', 'refs/conch/kept/A-c-1', 'main');
  await room.command('/crew run');
  await until(() => isHalf);
  await room.command('/crew stop');
  await room.command('/crew cleanup A');
  const worktree = join(repo, 'agents/A-c-1');
  await until(() => room.posts.join('\n').includes(`c-1: The work in ${worktree} could not be stored: git update-ref`));
  hold.resolve();
  expect(state()?.workers[0]).toMatchObject({ status: 'working', leaving: { why: 'removed' } });
  expect(readFileSync(join(worktree, 'half.txt'), 'utf8')).toBe('half\n');
  git(repo, 'update-ref', '-d', 'refs/conch/kept/A-c-1');
  await until(() => state()?.workers[0]?.status === 'idle');
  expect(existsSync(worktree)).toBe(false);
  expect(git(repo, 'show', 'refs/conch/kept/A-c-1/1:half.txt')).toBe('half');
  expect(room.posts.filter((post) => post.includes('could not be stored'))).toHaveLength(1);
});

test.each([
  ['missing', () => void (process.env['PATH'] = tmpdir()), 'git was not found. Install git 2.30 or newer.'],
  ['too old', () => replaceGit('echo git version 2.25.1'), 'git 2.25 is too old. Install git 2.30 or newer.'],
])('says what to install when git is %s, and the rest of the program works', async (_what, change, words) => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  change();
  const room = await stage(repo, oneFile);
  expect(await room.command('/crew run')).toMatchObject({ ok: false, text: expect.stringContaining(words) });
  expect(await room.command('/floor status')).toMatchObject({ ok: true });
});

test('reports a disk that fills up while work is stored, and loses no work', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const full = join(mkdtempSync(join(tmpdir(), 'conch-full-')), 'full');
  replaceGit(
    `for word; do case $word in write-tree|commit-tree|hash-object) if [ -e ${full} ]; then echo 'fatal: unable to write loose object file: No space left on device' >&2; exit 128; fi;; esac; done; exec $GIT "$@"`,
  );
  const hold = Promise.withResolvers<void>();
  let isHalf = false;
  const room = await stage(repo, async (folder) => {
    if (isHalf) return (add(folder, 'one.txt', 'one'), 'DONE');
    writeFileSync(join(folder, 'half.txt'), 'half\n');
    isHalf = true;
    await hold.promise;
    return '';
  });
  await room.command('/crew run');
  await until(() => isHalf);
  writeFileSync(full, '');
  await room.command('/crew cleanup A');
  await until(() => room.posts.join('\n').includes('could not be stored: the disk is full. Free some space'));
  expect(readFileSync(join(repo, 'agents/A-c-1/half.txt'), 'utf8')).toBe('half\n');
  rmSync(full);
  hold.resolve();
  await finished(room, 1);
  expect(git(repo, 'show', 'refs/conch/kept/A-c-1/1:half.txt')).toBe('half');
  expect(readFileSync(join(repo, 'one.txt'), 'utf8')).toBe('one\n');
});
