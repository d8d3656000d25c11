import { describe, expect, test } from 'vitest';
import type { ChatAdapter } from '../../../src/adapters/port.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, add, finished, playedBy, repository, stage, stageOf, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const works: Work = (folder, { channel }) => {
  if (folder === '') return 'Noted.';
  add(folder, `${channel.split('/').at(-1)}.txt`, 'x');
  return 'DONE';
};

/** Looks at tickets are due after 50 ms in place of 5 s. */
const quick: Timers = { ...systemTimers, after: (ms, then) => systemTimers.after(ms === 5_000 ? 50 : ms, then) };

describe('a platform that refuses threads', () => {
  test('keeps tickets from starting, with its reason in /crew ps, until it accepts threads', async () => {
    let refusals = 0;
    let isOpen = false;
    const opened: string[] = [];
    const openThread: NonNullable<ChatAdapter['openThread']> = async (channel, name, key) => {
      if (!isOpen) {
        refusals += 1;
        throw new Error('Missing the permission "Create Public Threads"');
      }
      opened.push(name);
      return { id: `${channel}/${key}`, parent: channel, name };
    };
    const repo = repository({ 'c-1': ticketText('c-1') });
    const room = await stageOf({ repo, crew: {}, timers: quick, platform: { openThread }, backends: playedBy(works) });
    await room.command('/crew run');
    await until(() => refusals > 2);
    expect((await room.command('/crew ps')).text).toContain(
      '⚠ No ticket can start: Missing the permission "Create Public Threads"',
    );
    expect(room.app.crews.state('web')?.workers.map(({ status }) => status)).toEqual(['idle']);
    isOpen = true;
    await finished(room, 1);
    expect(opened).toEqual(['c-1 Title of c-1']);
    expect((await room.command('/crew ps')).text).not.toContain('No ticket can start');
  });
});

test('a question of a worker waits for a week, because nobody else needs the floor of its ticket', async () => {
  const hold = Promise.withResolvers<void>();
  const held: Work = async (folder, turn, ...more) => {
    if (folder !== '') await hold.promise;
    return works(folder, turn, ...more);
  };
  const room = await stage(repository({ 'c-1': ticketText('c-1') }), held);
  await room.command('/crew run');
  const waitMs = () => room.store.floors.state(`${CHANNEL}/web/c-1`)?.settings.waitTimeoutMs;
  await until(() => waitMs() === 7 * 86_400_000);
  expect(room.store.floors.state(CHANNEL)?.settings.waitTimeoutMs).toBe(600_000);
  hold.resolve();
  await finished(room, 1);
});

test('refuses an answer to a question that is closed', async () => {
  const room = await stage(repository({ 'c-1': ticketText('c-1') }), works, { merge: 'ask' });
  const worker = () => room.app.crews.state('web')?.workers[0];
  await room.command('/crew run');
  await until(() => worker()?.waiting?.for === 'merge');
  const thread = `${CHANNEL}/web/c-1`;
  const answers = [
    await room.command('/crew answer A merge', thread),
    await room.command('/crew answer A keep', thread),
  ];
  expect(answers).toMatchObject([{ ok: true }, { ok: false, text: expect.stringContaining('has no open question') }]);
  await finished(room, 1);
  expect(room.app.crews.state('web')?.kept).toEqual([]);
});

test('lists two thousand tickets, and continues to work', { timeout: 120_000 }, async () => {
  const ids = Array.from({ length: 2_000 }, (_, index) => `c-${String(index + 1).padStart(4, '0')}`);
  const deps = (index: number) => (index === 0 ? [] : [ids[0] ?? '']);
  const tickets = Object.fromEntries(ids.map((id, index) => [id, ticketText(id, { deps: deps(index) })]));
  const room = await stage(repository(tickets), works, { workers: 2 });
  await room.command('/crew run');
  await until(() => (room.app.crews.state('web')?.finished.length ?? 0) > 2);
  const { text } = await room.command('/crew dashboard');
  expect(text).toMatch(/Tickets: 19\d\d ready, 0 waiting for others/);
  await room.command('/crew stop');
});
