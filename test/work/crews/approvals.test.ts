import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findSetup } from '../../../src/work/crews/checks/setup-files.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, git, opened, repository, stage, ticketText } from './stage.ts';

const at = (files: Readonly<Record<string, string>>) =>
  findSetup(async (paths) => new Map(Object.entries(files).filter(([path]) => paths.includes(path))));

describe('setup files of a repository', () => {
  test.each([
    ['.cursor/worktrees.json', '{"setup-worktree":["a","b"]}', ['a', 'b']],
    ['.cursor/worktrees.json', '{"setup-worktree":["a"],"setup-worktree-unix":["u"]}', ['u']],
    ['.cursor/worktrees.json', '{"setup-worktree":"setup.sh"}', ["sh '.cursor/setup.sh'"]],
    ['conductor.json', '{"scripts":{"setup":"npm ci","run":"npm start"}}', ['npm ci']],
    ['.emdash.json', '{"scripts":{"setup":"s","prepare":"p","teardown":"t"}}', ['p', 's']],
  ])('%s with %s names commands', async (file, text, commands) => {
    expect(await at({ [file]: text })).toMatchObject({ file, commands });
  });

  test.each([
    ['conductor.json', '{"scripts":{"run":"npm start"}}'],
    ['conductor.json', '{"scripts":{"setup":["npm ci"]}}'],
    ['.emdash.json', 'no JSON'],
    ['.cursor/worktrees.json', '{"setup-worktree-windows":["w"]}'],
  ])('%s with %s names no commands', async (file, text) => {
    expect(await at({ [file]: text })).toBe(null);
  });

  test('are searched in a fixed order, and the digest changes with the file and with the script that it names', async () => {
    const conductor = { 'conductor.json': '{"scripts":{"setup":"npm ci"}}' };
    const cursor = { '.cursor/worktrees.json': '{"setup-worktree":"setup.sh"}' };
    expect(await at({ ...conductor, ...cursor })).toMatchObject({ file: '.cursor/worktrees.json' });
    const digests = await Promise.all([
      at(cursor),
      at({ ...cursor, '.cursor/setup.sh': 'one' }),
      at({ ...cursor, '.cursor/setup.sh': 'two' }),
      at({ '.cursor/worktrees.json': '{"setup-worktree":"setup.sh"} ' }),
    ]);
    expect(new Set(digests.map((found) => found?.digest)).size).toBe(4);
  });

  test('keep their digest when their commands name no file of main', async () => {
    const text = '{"scripts":{"setup":"npm ci"}}';
    const digest = hash('sha256', JSON.stringify(['conductor.json', text, null]));
    expect(await at({ 'conductor.json': text })).toMatchObject({ digest });
  });

  test.each([
    ['conductor.json', '{"scripts":{"setup":"./tools/setup.sh --all"}}'],
    ['conductor.json', '{"scripts":{"setup":"npm ci && sh tools/setup.sh"}}'],
    ['.emdash.json', '{"scripts":{"setup":"npm ci","prepare":"bash \\"tools/setup.sh\\""}}'],
    ['.cursor/worktrees.json', '{"setup-worktree":["npm ci","X=1 tools/../tools/setup.sh;true"]}'],
  ])('%s with %s has another digest when the script changes that a command names', async (file, text) => {
    const first = await at({ [file]: text, 'tools/setup.sh': 'one' });
    const again = await at({ [file]: text, 'tools/setup.sh': 'one', 'tools/other.sh': 'x' });
    const other = await at({ [file]: text, 'tools/setup.sh': 'two' });
    expect([again?.digest === first?.digest, other?.digest === first?.digest]).toEqual([true, false]);
  });
});

test.each([
  ['outside the worktree', '../../setup.sh', () => {}],
  ['that git ignores', 'setup.sh', (repo: string) => writeFileSync(join(repo, '.cursor/setup.sh'), 'touch made')],
  ['that is a link', 'link.sh', (repo: string) => symlinkSync('../../setup.sh', join(repo, '.cursor/link.sh'))],
] as const)('refuses a setup script %s, because an approval would not cover its text', async (_name, script, make) => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  add(repo, '.gitignore', 'made\nagents/\nsetup.sh');
  add(repo, '.worktreeinclude', 'setup.sh');
  mkdirSync(join(repo, '.cursor'));
  writeFileSync(join(repo, 'setup.sh'), 'touch made');
  make(repo);
  add(repo, '.cursor/worktrees.json', JSON.stringify({ 'setup-worktree': script }));
  const room = await stage(repo, oneFile, { test: 'test ! -f made' });
  await room.command('/crew run');
  await finished(room, 1);
  expect(asked(room, 'setup')).toBeUndefined();
  const place = script.startsWith('..') ? '../setup.sh' : `.cursor/${script}`;
  expect(told(room)).toContain(
    `c-1: the commands of .cursor/worktrees.json were not run: its script ${place} is no file of main`,
  );
});

/** A repository whose setup file makes the file "made", which git ignores. */
function withSetup(): string {
  const repo = repository({ 'c-1': ticketText('c-1'), 'c-2': ticketText('c-2', { deps: ['c-1'] }) });
  add(repo, '.gitignore', 'made\nagents/');
  add(repo, 'conductor.json', '{"scripts":{"setup":"echo $CONDUCTOR_ROOT_PATH > made"}}');
  return repo;
}

const asked = (room: Awaited<ReturnType<typeof stage>>, about: string) =>
  room.app.crews.state('web')?.approvals?.find((each) => each.about === about);
const told = (room: Awaited<ReturnType<typeof stage>>) => room.posts.join('\n');

function oneFile(folder: string, { channel }: { readonly channel: string }): string {
  add(folder, `${channel.slice(-3)}.txt`, 'x');
  return 'DONE';
}

test('runs the commands of a setup file after one approval, and asks again when the file changed', async () => {
  const room = await stage(
    withSetup(),
    (folder, turn) => {
      if (turn.channel.endsWith('c-1'))
        writeFileSync(join(folder, 'conductor.json'), '{"scripts":{"setup":"echo changed > made"}}');
      return oneFile(folder, turn);
    },
    { test: 'test -f made' },
  );
  const { repo } = room;
  await room.command('/crew run');
  await until(() => room.app.crews.state('web')?.base?.verdict === 'red');
  const first = asked(room, 'setup')?.digest ?? '';
  await until(() => told(room).includes(`/crew accept setup-${first.slice(0, 8)} to run them`));
  expect(told(room)).toContain('conductor.json of main names commands for new worktrees: echo $CONDUCTOR_ROOT_PATH');
  expect((await room.command('/crew ps')).text).toContain(`/crew decline setup-${first.slice(0, 8)}`);
  expect(room.app.crews.crewView(CHANNEL, 1)?.buttons.map(({ line }) => line)).toContain(
    `/crew accept setup-${first.slice(0, 8)}`,
  );
  expect(await room.command('/crew accept setup-00000000')).toMatchObject({ ok: false });
  expect(await room.command(`/crew accept setup-${first.slice(0, 8)}`)).toMatchObject({ ok: true });
  await until(() => room.app.crews.state('web')?.finished.length === 1);
  // The merge of c-1 changed the file, so its commands need a new approval.
  await until(() => asked(room, 'setup')?.digest !== first);
  expect(asked(room, 'setup')).toMatchObject({ allowed: null, what: expect.stringContaining('echo changed') });
  expect(git(repo, 'show', 'main:c-1.txt')).toBe('x');
});

test('shows every setup command before people allow them, also invisible characters', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  mkdirSync(join(repo, '.cursor'));
  const commands = Array.from({ length: 30 }, (_, index) => `echo ${index}`);
  add(repo, '.cursor/worktrees.json', JSON.stringify({ 'setup-worktree': [...commands, 'echo a\u202Eb'] }));
  const room = await stage(repo, oneFile, { test: 'true' });
  await room.command('/crew run');
  await until(() => asked(room, 'setup') !== undefined);
  expect(asked(room, 'setup')?.what).toContain([...commands, String.raw`echo a\u{202E}b`].join(' · '));
});

test('asks about no setup commands that are too long to show', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  add(repo, 'conductor.json', JSON.stringify({ scripts: { setup: `echo ${'x'.repeat(1_500)}; touch made` } }));
  const room = await stage(repo, oneFile, { test: 'test ! -f made' });
  await room.command('/crew run');
  await finished(room, 1);
  expect(asked(room, 'setup')).toBeUndefined();
  expect(told(room)).toContain('the commands of conductor.json were not run: they are too long to show');
});

test('starts tickets without the commands of a setup file that people declined, and says so, also after a restart', async () => {
  const repo = withSetup();
  const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
  const first = await stage(repo, () => '', { test: 'test -f made' }, path);
  await first.command('/crew run');
  await until(() => first.app.crews.state('web')?.base?.verdict === 'red');
  const id = `setup-${asked(first, 'setup')?.digest.slice(0, 8)}`;
  expect(await first.command(`/crew decline ${id}`)).toMatchObject({ ok: true });
  await first.stop();
  opened.length = 0;
  const second = await stage(repo, oneFile, { test: 'test ! -f made' }, path);
  expect(await second.command('/crew accept')).toMatchObject({ ok: true });
  await finished(second, 2);
  expect(asked(second, 'setup')).toMatchObject({ allowed: false, by: 'Ada' });
  expect(told(second)).toContain('c-1: the commands of conductor.json were not run: people declined them');
});

test('says in the thread that nobody has allowed the commands of a setup file', async () => {
  const room = await stage(withSetup(), oneFile, { test: 'test ! -f made' });
  await room.command('/crew run');
  await finished(room, 2);
  expect(told(room)).toContain(`${CHANNEL}/web/c-1 Conch: · c-1: the commands of conductor.json were not run: nobody`);
});

test('starts no worker while main has several test runners, until an operator accepts the first runner', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  add(repo, 'package.json', '{"scripts":{"test":"true"}}');
  add(repo, 'Cargo.toml', '');
  const room = await stage(repo, oneFile, { test: 'auto' });
  await room.command('/crew run');
  await until(() => asked(room, 'runner') !== undefined);
  const id = `runner-${asked(room, 'runner')?.digest.slice(0, 8)}`;
  await until(() => told(room).includes(`/crew accept ${id} to use only this command`));
  expect(told(room)).toContain(
    'main has tests of several kinds (npm test --silent, cargo test). Use npm test --silent',
  );
  expect(await room.command(`/crew decline ${id}`)).toMatchObject({ ok: true });
  await expect.poll(async () => (await room.command('/crew ps')).text).toContain('set "test" of the crew web');
  expect(room.app.crews.state('web')?.workers[0]?.status).toBe('idle');
  expect(await room.command(`/crew accept ${id}`)).toMatchObject({ ok: true });
  await finished(room, 1);
  await until(() => told(room).includes('✓ Ada allowed the test runner'));
});
