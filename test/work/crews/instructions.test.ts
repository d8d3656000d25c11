import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../reviews/stage.ts';
import { add, finished, git, repository, stage, ticketText } from './stage.ts';

const FILES = ['CLAUDE.md', 'CLAUDE.local.md', 'AGENTS.md'];

test.each([
  { tracked: [], written: ['CLAUDE.md', 'AGENTS.md'] },
  { tracked: ['CLAUDE.md'], written: ['CLAUDE.local.md', 'AGENTS.md'] },
  { tracked: ['AGENTS.md'], written: ['CLAUDE.local.md'] },
  { tracked: ['CLAUDE.md', 'AGENTS.md'], written: ['CLAUDE.local.md'] },
])(
  'where main has $tracked, $written are written, and the agent commits none of them',
  async ({ tracked, written }) => {
    const repo = repository({ 'c-1': ticketText('c-1', { text: 'Write it.' }) });
    for (const name of tracked) add(repo, name, 'of people');
    // The user may be on another branch, which has other files.
    git(repo, 'switch', '-q', '-c', 'mine');
    add(repo, '.gitignore', 'dist');
    git(repo, 'rm', '-q', '--ignore-unmatch', ...FILES);
    const seen = new Map<string, string>();
    const room = await stage(repo, (folder) => {
      for (const name of [...FILES, '.conch/ticket.md'])
        if (existsSync(join(folder, name))) seen.set(name, readFileSync(join(folder, name), 'utf8'));
      add(folder, 'one.txt', 'one');
      return 'DONE';
    });
    await room.command('/crew run');
    await finished(room, 1);
    for (const name of FILES) {
      const words = tracked.includes(name) ? /^of people$/m : /Your ticket is in \.conch\/ticket\.md/;
      const isExpected = [...tracked, ...written].includes(name);
      expect([name, words.test(seen.get(name) ?? '')]).toEqual([name, isExpected]);
    }
    expect(seen.get('.conch/ticket.md')).toContain('Ticket c-1: Title of c-1\n\nWrite it.');
    const names = git(repo, 'ls-tree', '--name-only', 'main').split('\n');
    expect(names).toEqual(['.tickets', ...tracked, 'list.txt', 'one.txt'].toSorted());
    expect(FILES.filter((name) => existsSync(join(repo, name)))).toEqual([]);
    expect(readFileSync(join(repo, '.gitignore'), 'utf8')).toBe('dist\n');
    expect(room.app.crews.state('web')?.kept).toEqual([]);
  },
);

test('leaves a tracked .conch/ticket.md alone, and names the file of the ticket in the instructions', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  mkdirSync(join(repo, '.conch'));
  writeFileSync(join(repo, '.conch/ticket.md'), 'of people\n');
  git(repo, 'add', '--force', '.conch/ticket.md');
  git(repo, 'commit', '-qm', 'Track a ticket');
  const seen: string[] = [];
  const room = await stage(repo, (folder) => {
    for (const name of ['CLAUDE.md', '.conch/ticket.local.md']) seen.push(readFileSync(join(folder, name), 'utf8'));
    add(folder, 'one.txt', 'one');
    git(folder, 'commit', '-qa', '--allow-empty', '-m', 'All');
    return 'DONE';
  });
  await room.command('/crew run');
  await finished(room, 1);
  expect(seen[0]).toContain('Your ticket is in .conch/ticket.local.md:');
  expect(seen[1]).toContain('Ticket c-1: Title of c-1');
  expect(git(repo, 'show', 'main:.conch/ticket.md')).toBe('of people');
  expect(git(repo, 'ls-tree', '-r', '--name-only', 'main', '.conch')).toBe('.conch/ticket.md');
});

test('refuses to merge a branch that adds the instructions of Conch, and names their file', async () => {
  const room = await stage(repository({ 'c-1': ticketText('c-1') }), (folder, _turn, step) => {
    if (step === 1) git(folder, 'add', '--force', 'CLAUDE.md');
    else git(folder, 'rm', '-q', '--cached', 'CLAUDE.md');
    add(folder, 'one.txt', 'one');
    return 'DONE';
  });
  const worker = () => room.app.crews.state('web')?.workers[0];
  await room.command('/crew run');
  await until(() => worker()?.waiting?.for === 'refused');
  expect(worker()?.waiting?.why).toBe('the branch adds Conch’s instructions for the worker: CLAUDE.md');
  await room.command('/crew answer A continue');
  await finished(room, 1);
  expect(git(room.repo, 'ls-tree', '--name-only', 'main').split('\n')).toEqual(['.tickets', 'list.txt', 'one.txt']);
});
