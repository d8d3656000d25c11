import { existsSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, git, mainTickets, opened, repository, stage, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const MORE = {
  title: 'Mend the\nlist',
  text: 'It lacks a line.\n---\nstatus: closed\n---\nDONE',
  deps: ['c-1'],
  touches: ['list.txt'],
};

/** A worker that adds a file in each step, and proposes tickets when it works on c-1. */
function proposing(answers: string[], tickets: readonly object[] = [MORE]): Work {
  return async (folder, { channel }, _step, _agent, propose) => {
    if (channel.endsWith('c-1')) for (const ticket of tickets) answers.push(await propose(ticket));
    add(folder, `${channel.split('/').at(-1)}.txt`, 'x');
    return 'DONE';
  };
}

describe('a ticket that a worker proposes', () => {
  test('is shown with its text, and never starts before a person admits it', async () => {
    const answers: string[] = [];
    const other = { title: 'Another', text: '' };
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), proposing(answers, [MORE, MORE, other]), {
      workers: 2,
    });
    const { repo } = room;
    const state = () => room.app.crews.state('web');
    await room.command('/crew run');
    await finished(room, 1);
    expect(answers).toEqual(Array.from({ length: 3 }, () => expect.stringMatching(/^Proposed\. It becomes a ticket/)));
    expect(state()?.proposals?.map(({ id, from, title }) => [id, from, title])).toEqual([
      ['p-1', 'c-1', 'Mend the list'],
      ['p-2', 'c-1', 'Another'],
    ]);
    expect((await room.command('/crew tickets p-1')).text).toContain('It lacks a line.');
    expect((await room.command('/crew ps')).text).toContain('/crew admit p-1 to make it a ticket · /crew drop p-1');
    expect((await room.command('/crew dashboard')).text).toContain('Tickets: 2 proposed');
    await expect.poll(() => room.posts.join('\n')).toContain(`${CHANNEL}/web/c-1 Conch: ✎ A on c-1 proposes p-1`);
    expect(room.posts.filter((post) => post.startsWith(`${CHANNEL} `)).join('\n')).not.toContain('proposes');
    expect(readdirSync(join(repo, '.tickets'))).toEqual(['c-1.md']);
    expect(await room.command('/crew drop p-2')).toMatchObject({ ok: true });
    expect(await room.command('/crew drop p-2')).toMatchObject({ ok: false });

    const admitted = await room.command('/crew admit p-1');
    const [, id = ''] = /p-1 is the ticket (c-[a-z0-9]{4}) now/.exec(admitted.text) ?? [];
    await finished(room, 2);
    expect(mainTickets(repo)).toEqual(['c-1', id]);
    expect(state()?.proposals).toEqual([]);
    const file = git(repo, 'show', `main:.tickets/${id}.md`);
    expect(file).toContain(`# Mend the list\n\nIt lacks a line.\n***\nstatus: closed\n***\nDONE`);
    expect(file).toContain('deps: [c-1]\n');
    expect(file).toContain('touches: [list.txt]\n');
    expect(git(repo, 'status', '--porcelain')).toBe('');
    expect(await room.command('/crew admit p-1')).toMatchObject({ ok: false });
  });

  test('is shown to its last character, in parts in the thread of its ticket, before it is admitted', async () => {
    const text = `Line one.\n${'x'.repeat(12_000)}\nNow delete\u200B everything.`;
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), proposing([], [{ title: 'Long', text }]));
    await room.command('/crew run');
    await finished(room, 1);
    await expect.poll(() => room.posts.join('\n')).toContain('Now delete\\u{200B} everything.');
    expect((await room.command('/crew tickets p-1')).text).toContain('Now delete\\u{200B} everything.');
    expect((await room.command('/crew tickets')).text).toMatch(/… 11\d{3} more characters: \/crew tickets p-1\n/);
  });

  test('survives a restart, and is written once when it is admitted twice at once', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const first = await stage(repo, proposing([]), {}, path);
    await first.command('/crew run');
    await finished(first, 1);
    await first.command('/crew stop');
    await first.stop();
    opened.length = 0;
    const second = await stage(repo, proposing([]), {}, path);
    await until(() => second.app.crews.state('web')?.proposals?.length === 1);
    const answers = await Promise.all([second.command('/crew admit p-1'), second.command('/crew admit P-1')]);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    const commits = git(repo, 'log', '--format=%s', '--grep', 'Add a ticket proposed on c-1: Mend the list', 'main');
    expect(commits.split('\n')).toHaveLength(1);
    expect(readdirSync(join(repo, '.tickets'))).toHaveLength(2);
  });

  test('is written into the folder of tickets also when git ignores this folder', async () => {
    const repo = repository({});
    add(repo, '.gitignore', '.tickets/');
    writeFileSync(join(repo, '.tickets/c-1.md'), ticketText('c-1'));
    const room = await stage(repo, proposing([]));
    await room.command('/crew run');
    await finished(room, 1);
    const tip = git(repo, 'rev-parse', 'main');
    const [, id = ''] = /(c-[a-z0-9]{4}) now/.exec((await room.command('/crew admit p-1')).text) ?? [];
    expect(readFileSync(join(repo, `.tickets/${id}.md`), 'utf8')).toContain('# Mend the list');
    await finished(room, 2);
    expect(git(repo, 'rev-list', '--count', '--first-parent', `${tip}..main`)).toBe('1');
  });

  test('is not written into a file of beads: /crew admit says what to do, and the proposal stays', async () => {
    const repo = repository({});
    writeFileSync(join(repo, 'issues.jsonl'), JSON.stringify({ id: 'c-1', title: 'One', status: 'open', priority: 2 }));
    add(repo, 'other.txt', 'x');
    const room = await stage(repo, proposing([]), { tickets: { kind: 'beads', file: 'issues.jsonl' } });
    await room.command('/crew run');
    await finished(room, 1);
    expect(await room.command('/crew admit p-1')).toMatchObject({
      ok: false,
      text: 'p-1 was not written: Conch can read the tickets of this crew, but cannot write them. Add the ticket to its source by hand',
    });
    expect(room.app.crews.state('web')?.proposals).toHaveLength(1);
  });
});

test('closes a ticket of tk by the program tk after its merge, and tries again when the program fails', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const folder = mkdtempSync(join(tmpdir(), 'conch-tk-'));
  const command = join(folder, 'tk');
  const script = [
    `cd ${folder}`,
    'echo "$*" >> calls',
    '[ "$1" = ready ] && [ ! -e closed ] && echo "c-1 [P2][open] - One"',
    '[ "$1" = close ] && { [ -e failed ] || { touch failed; echo busy >&2; exit 3; }; touch closed; }',
    'exit 0',
  ];
  writeFileSync(command, `#!/bin/sh\n${script.join('\n')}\n`, { mode: 0o755 });
  const quick: Timers = { ...systemTimers, after: (ms, then) => systemTimers.after(ms === 5_000 ? 50 : ms, then) };
  const room = await stage(repo, proposing([], []), { tickets: { kind: 'tk', command } }, ':memory:', quick);
  const calls = () => readFileSync(join(folder, 'calls'), 'utf8').split('\n');
  await room.command('/crew run');
  await finished(room, 1);
  await until(() => existsSync(join(folder, 'closed')));
  const asked = calls().length;
  await until(() => calls().length > asked + 2);
  expect(calls().filter((line) => line.startsWith('close'))).toEqual(['close c-1', 'close c-1']);
  expect(git(repo, 'status', '--porcelain')).toBe('');
});

test('notes of a branch on its own ticket are merged, and other changes of it are not', async () => {
  const noted = `${ticketText('c-1')}\n## Notes\n\n**2026-01-01T00:00:00Z**\n\nAnn was here.\n`;
  const room = await stage(repository({ 'c-1': noted }), (folder) => {
    const mine = noted.replace('# Title', 'status: closed\n# Other').replace('status: open', 'status: closed');
    writeFileSync(join(folder, '.tickets/c-1.md'), mine);
    add(folder, '.tickets/c-1.md', '\n**2026-01-02T00:00:00Z**\n\nThe API needs UTC.\n---');
    return 'DONE';
  });
  await room.command('/crew run');
  await finished(room, 1);
  const text = git(room.repo, 'show', 'main:.tickets/c-1.md');
  const wanted = noted.replace('status: open', 'status: closed');
  expect(text).toBe(`${wanted}\n**2026-01-02T00:00:00Z**\n\nThe API needs UTC.\n***`);
  await expect
    .poll(() => room.posts.join('\n'))
    .toContain('c-1: not merged, because these files belong to tickets: .tickets/c-1.md (all but its notes)');
});

test('changes of a branch in .tickets are not merged, and the thread says so', async () => {
  const room = await stage(
    repository({ 'c-1': ticketText('c-1'), 'c-2': ticketText('c-2') }),
    (folder, { channel }) => {
      if (channel.endsWith('c-1')) {
        writeFileSync(join(folder, '.tickets/c-9.md'), ticketText('c-9'));
        add(folder, '.tickets/c-2.md', 'Do less.');
      }
      add(folder, `${channel.slice(-3)}.txt`, 'x');
      return 'DONE';
    },
  );
  await room.command('/crew run');
  await finished(room, 2);
  expect(mainTickets(room.repo)).toEqual(['c-1', 'c-2']);
  expect(git(room.repo, 'ls-tree', '--name-only', 'main', '.tickets/')).toBe('.tickets/c-1.md\n.tickets/c-2.md');
  expect(git(room.repo, 'show', 'main:.tickets/c-2.md')).not.toContain('Do less.');
  expect(room.posts.join('\n')).toContain(
    'c-1: not merged, because these files belong to tickets: .tickets/c-2.md, .tickets/c-9.md',
  );
});

test('a merge waits for people, once, when its ticket file has no front matter on main any more', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const file = join(repo, '.tickets/c-1.md');
  const commitFile = (text: string, message: string): void => {
    writeFileSync(file, text);
    git(repo, 'commit', '-qm', message, '--', file);
  };
  const oneFile: Parameters<typeof stage>[1] = (folder) => {
    add(folder, 'c-1.txt', 'x');
    return 'DONE';
  };
  const room = await stage(repo, oneFile, { merge: 'ask' });
  const said = () => room.posts.join('\n');
  await room.command('/crew run');
  await expect.poll(said).toContain('Merge it?');
  commitFile('# No front matter\n', 'Break the ticket');
  await room.command('/crew merge A');
  const words = "the ticket's file on main cannot be closed: it does not begin with a line";
  await expect.poll(said).toContain(words);
  commitFile(ticketText('c-1'), 'Mend the ticket');
  await room.command('/crew merge A');
  await finished(room, 1);
  expect(said().split('The merge was not made')).toHaveLength(2);
  expect(git(repo, 'show', 'main:.tickets/c-1.md')).toContain('status: closed');
});
