import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ReactionKind } from '../../../src/adapters/port.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { ticketOf, wantedDeps } from '../../../src/work/crews/tickets/message-ticket.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, git, opened, playedBy, repository, stage, stageOf, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const works: Work = (folder, { channel }) => {
  if (folder === '') return 'Noted.';
  add(folder, `${channel.split('/').at(-1)}.txt`, 'x');
  return 'DONE';
};

type Room = Awaited<ReturnType<typeof stage>>;

const BOB = { id: 'bob', name: 'Bob', roles: [] };

/** Runs the command that a reaction to a message stands for, as an adapter does. */
async function react(room: Room, message: string, kind: ReactionKind, by?: typeof BOB) {
  const meant = room.app.crews.reaction(CHANNEL, message, kind);
  return meant === null ? null : await room.command(meant.line, meant.channel, meant.drawnFor, by);
}

/** Waits for a message of Conch with these words. Resolves with the id of the newest one. */
async function saying(room: Room, words: string): Promise<string> {
  const found = () => room.posts.findLastIndex((post) => post.includes(words));
  await until(() => found() !== -1);
  return String(found() + 1);
}

const quoted = (text: string) => ({ author: 'Ada', at: 0, text });

describe('a ticket of a message', () => {
  test('has the first line with words as its title, and quotes the messages', () => {
    const first = quoted('> \n## The **list** lacks a header\nSee line 3.\n---\nstatus: closed');
    const made = ticketOf({ first, after: [quoted('Yes, it does.')], where: 'https://example.org/m1' });
    expect(made.title).toBe('The **list** lacks a header');
    expect(made.text.split('\n')).toEqual([
      'Ada, 1970-01-01T00:00:00.000Z:',
      '> > ',
      '> ## The **list** lacks a header',
      '> See line 3.',
      '> ---',
      '> status: closed',
      '',
      'Ada, 1970-01-01T00:00:00.000Z:',
      '> Yes, it does.',
      '',
      'From https://example.org/m1.',
    ]);
    expect(ticketOf({ first: quoted('👍'), after: [], where: 'here' }).title).toBe('What Ada wrote');
    const long = ticketOf({ first: quoted('x '.repeat(500_000)), after: Array(50).fill(quoted('y')), where: 'here' });
    expect([long.title.length <= 100, long.text.length < 20_000]).toEqual([true, true]);
    expect(long.text).toContain('and 30 more messages of the thread');
  });

  test('waits for the tickets that are named after "after"', () => {
    const of = (...texts: readonly string[]) => wantedDeps(texts);
    expect(of('Do it after c-12.')).toEqual(['c-12']);
    expect(of('Do it', 'After c-12 and gh-7, c-12')).toEqual(['c-12', 'gh-7']);
    expect(of('Do it after lunch, soon after that', 'the day after')).toEqual([]);
  });

  test('is made once when several people react, and its worker finishes it', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const room = await stage(repo, works);
    const id = await room.write(CHANNEL, 'The list lacks a header, after c-1 and c-99');
    const answers = await Promise.all([react(room, id, 'ticket'), react(room, id, 'ticket', BOB)]);
    const [, ticket = ''] = /is the ticket ([\w-]+) now/.exec(answers[0]?.text ?? '') ?? [];
    expect(answers.map((answer) => answer?.text)).toEqual(Array(2).fill(`The message is the ticket ${ticket} now.`));
    expect((await react(room, id, 'ticket'))?.text).toBe(`The message is the ticket ${ticket} now.`);
    const file = git(repo, 'show', `main:.tickets/${ticket}.md`);
    expect(file).toContain('deps: [c-1]\n');
    expect(file).toContain(`# The list lacks a header, after c-1 and c-99\n\nAda, `);
    expect(file).toContain(`From message ${id} of ${CHANNEL}.`);
    expect(git(repo, 'rev-list', '--count', 'main')).toBe('2');
    await expect
      .poll(() => room.posts.join('\n'))
      .toMatch(new RegExp(`🎫 (?:Ada|Bob) made the ticket ${ticket} of a message of Ada`));
    await room.command('/crew run');
    await finished(room, 2);
    expect(room.app.crews.state('web')?.asked).toEqual([
      { message: id, channel: CHANNEL, asker: 'Ada', by: expect.any(String), ticket },
    ]);
  });

  test('whose worker has a question addresses the author of the message first', async () => {
    const room = await stage(repository({}), works, { merge: 'ask' });
    const id = await room.write(CHANNEL, 'The list lacks a header');
    await react(room, id, 'ticket', BOB);
    await room.command('/crew run');
    await saying(room, ': ✋ Ada: Merge it?');
    expect((await room.command('/crew ps')).text).toContain('✋ Ada: Merge it?');
    const [shown] = room.app.crews.crewView(CHANNEL, 1)?.workers ?? [];
    expect(shown?.waits).toMatch(/^Ada: Merge it\?/);
  });

  test('that could not be written is written after the next start', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    writeFileSync(join(repo, 'issues.jsonl'), '');
    const first = await stage(repo, works, { tickets: { kind: 'beads', file: 'issues.jsonl' } }, path);
    const id = await first.write(CHANNEL, 'More of it');
    expect((await react(first, id, 'ticket'))?.text).toContain(
      'The ticket was not written: Conch can read the tickets of this crew, but cannot write them',
    );
    for (let number = 2; number <= 100; number += 1)
      await react(first, await first.write(CHANNEL, `More ${number}`), 'ticket');
    expect((await react(first, await first.write(CHANNEL, 'Even more'), 'ticket'))?.text).toBe(
      'The ticket was not written: 100 proposed tickets wait for people. Admit or drop some: /crew tickets shows them all. Then try again.',
    );
    for (let number = 2; number <= 100; number += 1) await first.command(`/crew drop p-${number}`);
    await first.stop();
    opened.length = 0;
    const second = await stage(repo, works, {}, path);
    await until(() => second.app.crews.state('web')?.asked?.length === 1);
    expect(second.app.crews.state('web')?.proposals).toEqual([]);
    expect(git(repo, 'rev-list', '--count', 'main')).toBe('2');
  });

  test('is not made of a deleted message, a message of a program or an unknown message', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works);
    const deleted = await room.write(CHANNEL, 'Never mind');
    await room.amend(deleted);
    const program = await room.write(CHANNEL, 'Build 7 failed', { bot: true });
    expect((await react(room, deleted, 'ticket'))?.text).toContain('was deleted');
    expect((await react(room, program, 'ticket'))?.text).toContain('A program wrote this message');
    expect((await react(room, '999', 'ticket'))?.text).toContain('No message with the id 999');
    expect(room.app.crews.state('web')?.proposals).toBeUndefined();
    expect(room.app.crews.reaction('console:elsewhere', deleted, 'ticket')).toBeNull();
  });
});

/** Makes a ticket of a message, and returns the ids of both. */
async function ticketFrom(room: Room, text: string): Promise<{ readonly message: string; readonly ticket: string }> {
  const message = await room.write(CHANNEL, text);
  const [, ticket = ''] = /is the ticket ([\w-]+) now/.exec((await react(room, message, 'ticket'))?.text ?? '') ?? [];
  return { message, ticket };
}

const answers = ({ posts }: Room): readonly string[] => posts.filter((post) => / to wait for | waits for /.test(post));

describe('a reply to a message that became a ticket', () => {
  test('makes the ticket wait for the tickets it names', async () => {
    const works1 = Promise.withResolvers<void>();
    const slow: Work = async (folder, turn, ...more) => {
      if (folder.includes('c-1')) await works1.promise;
      return works(folder, turn, ...more);
    };
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), slow, { workers: 2 });
    const { message, ticket } = await ticketFrom(room, 'The list lacks a header');
    await room.write(CHANNEL, 'Only after c-1, please', { replyTo: message });
    await until(() => answers(room).length === 1);
    expect(answers(room)).toEqual([`${CHANNEL} Conch: 🎫 ${ticket} waits for c-1, as Ada wants`]);
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers.some(({ step }) => step !== null) === true);
    await room.command('/crew dashboard');
    expect((await room.command(`/crew assign B ${ticket}`)).ok).toBe(false);
    works1.resolve();
    await finished(room, 2);
    expect(room.app.crews.state('web')?.finished.map(({ id }) => id)).toEqual(['c-1', ticket]);
  });

  test('is answered with the reason when the ticket cannot wait', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works, { merge: 'ask' });
    const one = await ticketFrom(room, 'The list lacks a header');
    const two = await ticketFrom(room, 'Translate the header');
    const say = async (text: string, more: Parameters<Room['write']>[2]) => {
      const before = answers(room).length;
      await room.write(CHANNEL, text, more);
      await until(() => answers(room).length > before);
      return answers(room).at(-1)?.replace(`${CHANNEL} Conch: `, '');
    };
    const refusal = (deps: string, why: string, by = 'Ada') =>
      `🎫 ${by} wants ${one.ticket} to wait for ${deps}. It does not: ${why}`;
    const replyTo = one.message;
    expect(await say('after c-99', { replyTo })).toBe(refusal('c-99', 'there is no ticket c-99'));
    expect(await say(`after ${one.ticket}`, { replyTo })).toBe(
      refusal(one.ticket, `it waits for itself: ${one.ticket} → ${one.ticket}`),
    );
    expect(await say(`after ${one.ticket}`, { replyTo: two.message })).toContain(`${two.ticket} waits for`);
    expect(await say(`after ${two.ticket}`, { replyTo })).toBe(
      refusal(two.ticket, `it waits for itself: ${one.ticket} → ${two.ticket} → ${one.ticket}`),
    );
    const carl = { id: 'carl', name: 'Carl', roles: [] };
    expect(await say('after c-1', { replyTo, by: carl })).toBe(refusal('c-1', 'only operators decide that', 'Carl'));
    await room.command('/crew run');
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'merge');
    await room.command('/crew answer A merge', `${CHANNEL}/web/c-1`);
    await until(() => room.app.crews.state('web')?.workers[0]?.ticket?.id === one.ticket);
    expect(await say('after c-1', { replyTo })).toBe(refusal('c-1', 'A works on it already'));
    await until(() => room.app.crews.state('web')?.workers[0]?.waiting?.for === 'merge');
    await room.command('/crew answer A merge', `${CHANNEL}/web/${one.ticket}`);
    await until(() => room.app.crews.state('web')?.finished.length === 2);
    expect(await say('after c-1', { replyTo })).toBe(refusal('c-1', 'it is finished'));
  });

  test('never makes two tickets wait for each other, even when both replies arrive at once', async () => {
    const room = await stage(repository({}), works);
    const one = await ticketFrom(room, 'The list lacks a header');
    const two = await ticketFrom(room, 'Translate the header');
    await Promise.all([
      room.write(CHANNEL, `after ${two.ticket}`, { replyTo: one.message }),
      room.write(CHANNEL, `after ${one.ticket}`, { replyTo: two.message }),
    ]);
    await until(() => answers(room).length === 2);
    expect(answers(room).filter((text) => text.includes('it waits for itself'))).toHaveLength(1);
    expect(room.app.crews.state('web')?.asked?.flatMap(({ after = [] }) => after)).toHaveLength(1);
  });

  test('is ignored when it is of a program, names no ticket, or answers another message', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works);
    const { message, ticket } = await ticketFrom(room, 'The list lacks a header');
    const other = await room.write(CHANNEL, 'Good morning');
    await room.write(CHANNEL, 'after c-1', { replyTo: message, bot: true });
    await room.write(CHANNEL, 'the day after', { replyTo: message });
    await room.write(CHANNEL, 'after c-1', { replyTo: other });
    await room.write(CHANNEL, 'after c-1');
    await room.write(CHANNEL, 'after c-1', { replyTo: message });
    await until(() => answers(room).length === 1);
    expect(room.app.crews.state('web')?.asked?.[0]?.after).toHaveLength(1);
    expect(ticket).not.toBe('');
  });

  test('is declined once, in its thread, when the ticket cannot be written', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    writeFileSync(join(repo, 'issues.jsonl'), '');
    let tries = 0;
    const after: Timers['after'] = (ms, act) => {
      if (ms === 5_000) tries += 1;
      return systemTimers.after(ms === 5_000 ? 20 : ms, act);
    };
    const crew = { tickets: { kind: 'beads', file: 'issues.jsonl' } };
    const room = await stage(repo, works, crew, ':memory:', { ...systemTimers, after });
    const message = await room.write(CHANNEL, 'The list lacks a header');
    await react(room, message, 'ticket');
    await room.write(CHANNEL, 'Only after c-1', { replyTo: message });
    await until(() => answers(room).length === 1);
    const why =
      'it cannot be written: Conch can read the tickets of this crew, but cannot write them. Add the ticket to its source by hand';
    expect(answers(room)).toEqual([
      `${CHANNEL} Conch: 🎫 Ada wants p-1 to wait for c-1. It does not: ${why}. Reply again when it is a ticket`,
    ]);
    expect(tries).toBeGreaterThanOrEqual(11);
    expect(room.app.crews.state('web')?.replies).toEqual([]);
  });

  test('counts also when it was written while Conch was not running', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const first = await stage(repo, works, {}, path);
    const { message, ticket } = await ticketFrom(first, 'The list lacks a header');
    await opened.pop()?.stop();
    const reply = {
      id: 'r1',
      channel: CHANNEL,
      author: BOB,
      text: 'after c-1',
      sentAt: 1,
      order: '9',
      replyTo: message,
    };
    const messages = [{ ...reply, addressed: [], attachments: [] }];
    const catchUp = async () => ({ messages, changes: [], gap: null });
    const platform = { catchUp, capabilities: { textLimit: 4_000, losesEvents: true } };
    const second = await stageOf({ repo, crew: {}, path, platform, backends: playedBy(works) });
    await until(() => answers(second).length === 1);
    expect(answers(second)).toEqual([`${CHANNEL} Conch: 🎫 ${ticket} waits for c-1, as Bob wants`]);
  });

  test('is answered once, also after a restart before the answer, and when it is delivered again', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const next = async (crew: object = {}) => {
      await opened.pop()?.stop();
      return stage(repo, works, crew, path);
    };
    const first = await next();
    const { message, ticket } = await ticketFrom(first, 'The list lacks a header');
    // The tickets cannot be read, so the reply is stored and not answered.
    const second = await next({ tickets: { kind: 'beads', file: 'missing.jsonl' } });
    const id = 'r1';
    const reply = { id, channel: CHANNEL, author: BOB, text: 'after c-1', sentAt: 1, order: '9', replyTo: message };
    await second.app.crews.hear({ ...reply, addressed: [], attachments: [] }, async () => true);
    expect([second.app.crews.state('web')?.replies?.length, answers(second)]).toEqual([1, []]);
    const third = await next();
    await until(() => answers(third).length === 1);
    for (const _time of [1, 2]) await third.write(CHANNEL, 'after c-1', { id, replyTo: message, by: BOB });
    await until(() => third.store.message(id) !== null);
    await third.command('/crew run');
    await finished(third, 2);
    expect(answers(third)).toEqual([`${CHANNEL} Conch: 🎫 ${ticket} waits for c-1, as Bob wants`]);
    expect(third.app.crews.state('web')?.asked?.[0]?.after).toEqual([{ id: 'c-1', message: id }]);
  });
});

describe('/crew why', () => {
  test('names the ticket and the message that asked for a line, or for a commit', async () => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const adds: Work = (folder, { channel }) => {
      const ticket = channel.split('/').at(-1) ?? '';
      if (folder === '') return 'Noted.';
      add(folder, 'a list.txt', `line of ${ticket}`);
      add(folder, 'a list.txt', `more of ${ticket}`);
      return 'DONE';
    };
    const room = await stage(repo, adds);
    await room.command('/crew run');
    await finished(room, 1);
    const { message, ticket } = await ticketFrom(room, 'The list lacks a header');
    await finished(room, 2);
    git(repo, 'commit', '-q', '--allow-empty', '-m', 'By hand');
    const merge = room.app.crews.state('web')?.finished[1]?.commit ?? '';
    const commit = git(repo, 'log', '-1', '--no-merges', '--format=%H', `${merge}^2`);
    const why = async (place: string) => (await room.command(`/crew why ${place}`)).text;
    expect((await why('./a list.txt:4')).split('\n')).toEqual([
      `./a list.txt:4 on main comes from commit ${commit.slice(0, 10)}, merged as ${merge.slice(0, 10)}: Merge ${ticket}: The list lacks a header`,
      `It is the work on the ticket ${ticket}, which A worked on. Ada asked for it: "The list lacks a header" From message ${message} of ${CHANNEL}. Ada made the ticket.`,
    ]);
    expect(await why('a list.txt:1')).toMatch(
      /It is the work on the ticket c-1, which A worked on\. No message asked for this ticket\. Its own text may say more\.$/,
    );
    for (const place of [commit, merge.slice(0, 8)]) expect(await why(place)).toContain(`the ticket ${ticket},`);
    const hand = git(repo, 'rev-parse', 'HEAD');
    expect(await why(hand)).toBe(
      `${hand} on main comes from commit ${hand.slice(0, 10)}: By hand\nNo ticket brought it: somebody committed it without a crew.`,
    );
    expect(await why('list.txt:1')).toMatch(/: Begin\nNo ticket brought it/);
    for (const place of ['a list.txt:99', 'nothing.txt:1', '--help:1', '../a:1', '0123456'])
      expect(await why(place)).toBe(`main has no ${place}.`);
    for (const place of ['a list.txt', 'a list.txt:', 'main', ':1'])
      expect(await why(place)).toContain('Expected a file');
    await room.amend(message);
    expect(await why('a list.txt:4')).toContain('Ada asked for it: This message was deleted');
  });
});

describe('a merge of a crew with reactions', () => {
  test('counts a reaction as a vote for the commit that the message shows, and for no other', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works, { merge: 'ask', votes: 2 });
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    const first = await saying(room, 'Merge it?');
    const taken = await saying(room, 'takes c-1');
    expect(room.app.crews.reaction(CHANNEL, taken, 'yes')).toBeNull();
    expect((await react(room, first, 'yes'))?.text).toBe('Your vote counts: 1 of 2.');
    await room.command('/crew answer A continue', `${CHANNEL}/web/c-1`);
    await until(() => worker()?.waiting?.for === 'merge' && worker()?.votes === undefined);
    await expect.poll(() => room.posts.join('\n')).toContain('there is a new commit, so 1 vote for');
    expect(await react(room, first, 'yes', BOB)).toMatchObject({ ok: false });
    expect(room.app.crews.reaction(CHANNEL, first, 'no')).toBeNull();
    const second = await saying(room, 'Merge it?');
    expect(second).not.toBe(first);
    expect((await react(room, second, 'yes'))?.text).toBe('Your vote counts: 1 of 2.');
    expect(await react(room, second, 'yes')).toMatchObject({ ok: false });
    expect(await react(room, second, 'yes', BOB)).toMatchObject({ ok: true, text: 'Decided.' });
    await finished(room, 1);
  });

  test('counts a late reaction for the question of its message only, when another person holds the merge', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works, { merge: 'ask' });
    await room.command('/crew run');
    const first = await saying(room, 'Merge it?');
    await room.command('/crew hold A', CHANNEL, undefined, BOB);
    const second = await saying(room, 'The merge is held');
    expect(await react(room, first, 'yes')).toMatchObject({ ok: false });
    expect(await react(room, second, 'yes')).toMatchObject({ ok: true });
    await finished(room, 1);
  });

  test('has the merge window and the quiet hours of the configuration', async () => {
    const quietHours = { from: '00:30', to: '23:45', timeZone: 'Europe/Berlin' };
    const room = await stage(repository({}), works, { mergeWindow: { seconds: 90, quietHours } });
    const quiet = { from: 30, to: 1_425, zone: 'Europe/Berlin' };
    expect(room.app.crews.state('web')?.settings?.window).toEqual({ ms: 90_000, quiet });
  });

  test('is held by 👎 after it is announced, and continues after 👍', async () => {
    const room = await stage(repository({ 'c-1': ticketText('c-1') }), works, { mergeWindow: { seconds: 3_600 } });
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    const told = await saying(room, 'is merged at');
    expect(room.app.crews.reaction(CHANNEL, told, 'yes')).toBeNull();
    expect(await react(room, told, 'no', BOB)).toMatchObject({ ok: true });
    expect(worker()?.waiting).toMatchObject({ for: 'held', why: 'held by Bob' });
    const asked = await saying(room, 'The merge is held');
    expect(await react(room, asked, 'yes')).toMatchObject({ ok: true });
    await finished(room, 1);
  });
});
