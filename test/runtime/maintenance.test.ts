import { describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { createLog } from '../../src/runtime/log.ts';
import { Maintenance, carryOut } from '../../src/runtime/maintenance.ts';
import { Threads } from '../../src/runtime/thread-registry.ts';
import type { FloorStore } from '../../src/turns/floor-store.ts';
import { crewMachine } from '../../src/work/crews/crew-binding.ts';
import { AT, folder, open, seat, turn, write } from '../engine/sqlite/fixture.ts';

const DAY = 86_400_000;
const PRUNE = { act: 'prune', isDryRun: false } as const;

/** The demo's configuration with a default retention and one for each channel, in days. `null` keeps all. */
function kept(days: number | null, channels: Readonly<Record<string, number | null>> = {}): () => Config {
  const demo = loadConfig({ ...thisWorld(), env: {}, cwd: '/' }, 'look');
  const own = demo.channels.flatMap((channel) =>
    Object.entries(channels).map(([id, of]) => ({ ...channel, id, retention: { days: of } })),
  );
  const { secrets } = demo;
  return () => ({ ...demo, secrets, retention: { days }, channels: own });
}

async function withTalk(path: string, channels: readonly string[]): Promise<FloorStore> {
  const store = open(path);
  for (const channel of channels) {
    await seat(store, channel);
    for (const id of ['1', '2']) {
      await write(store, `${channel} ${id}`, 'a question', channel);
      for (const text of ['one', 'two', 'three']) await turn(store, text, channel);
    }
  }
  await store.close();
  return open(path);
}

const left = (store: FloorStore, channels: readonly string[]) =>
  channels.filter((channel) => store.message(`${channel} 1`) !== null);

describe('old data', () => {
  test('is pruned by the retention of each channel, and by the default elsewhere and in removed channels', async () => {
    using place = folder();
    const channels = ['test:month', 'test:ever', 'test:gone'];
    const store = await withTalk(place.file(), channels);
    const parts = { store, config: kept(2, { 'test:month': 30, 'test:ever': null }) };
    const at = (days: number) => ({ ...parts, clock: { now: () => AT + days * DAY } });
    expect(await carryOut(PRUNE, at(1))).toMatchObject({ ok: true, text: expect.stringContaining('Nothing is older') });
    expect(await carryOut(PRUNE, at(3))).toMatchObject({
      ok: true,
      text: expect.stringMatching(/^Deleted .* 1 messages, /),
    });
    expect(left(store, channels)).toEqual(['test:month', 'test:ever']);
    await carryOut(PRUNE, at(31));
    expect(left(store, channels)).toEqual(['test:ever']);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test.each([false, true])(
    'of a thread is pruned by the retention of its channel (floor forgotten: %s)',
    async (isOld) => {
      using place = folder();
      const channels = ['test:parent', 'test:thread'];
      const store = await withTalk(place.file(), channels);
      const threads = new Threads(store);
      const thread = { id: 'test:thread', parent: 'test:parent', name: 'a thread' };
      threads.admit(thread);
      await threads.keep(thread);
      const now = AT + 8 * DAY;
      if (isOld) await threads.forgetOld(now);
      const config = kept(1, { 'test:parent': 9 });
      await carryOut(PRUNE, { store, config, clock: { now: () => now } });
      expect(left(store, channels)).toEqual(channels);
      await carryOut(PRUNE, { store, config, clock: { now: () => AT + 10 * DAY } });
      expect(left(store, channels)).toEqual([]);
      const again = new Threads(store);
      again.load();
      expect(again.admit(thread)).toBe(isOld);
      await store.close();
    },
  );

  test('of a crew is pruned by the retention of its channel', async () => {
    using place = folder();
    const settings = { maxWorkers: 1, maxSteps: 9, merge: 'auto', ticketCostMicros: null, main: 'main' } as const;
    const first = open(place.file());
    const crews = first.host(crewMachine);
    for (const channel of ['test:month', 'test:ever'])
      for (const patience of [2, 3])
        await crews.apply(
          `crew of ${channel}`,
          { type: 'CONFIGURE', settings: { ...settings, channel, patience } },
          AT,
        );
    await first.close();
    const store = open(place.file());
    store.host(crewMachine);
    const parts = { store, config: kept(2, { 'test:month': 30, 'test:ever': null }) };
    const pruned = (days: number) =>
      carryOut({ act: 'prune', isDryRun: true }, { ...parts, clock: { now: () => AT + days * DAY } });
    expect(await pruned(3)).toMatchObject({ ok: true, text: expect.stringContaining('Nothing is older') });
    expect(await pruned(31)).toMatchObject({
      ok: true,
      text: expect.stringMatching(/^Would delete 1 entries of journals/),
    });
    await store.close();
  });

  test('is pruned a minute after the start and then once a day, until the stop', async () => {
    using place = folder();
    const store = await withTalk(place.file(), ['test:one']);
    const delays: number[] = [];
    const due: (() => void)[] = [];
    const timers = {
      after: (ms: number, run: () => void) => {
        delays.push(ms);
        if (ms >= 60_000) due.push(run);
        return { cancel: () => void due.splice(0) };
      },
    };
    const lines: string[] = [];
    const log = createLog({
      level: 'info',
      pretty: false,
      secrets: [],
      destination: { write: (line) => lines.push(line) },
    });
    const maintenance = new Maintenance({ store, config: kept(1), clock: { now: () => AT + 5 * DAY }, timers, log });
    maintenance.start();
    expect(delays).toContain(60_000);
    due.shift()?.();
    while (due.length === 0) await new Promise(setImmediate);
    expect(left(store, ['test:one'])).toEqual([]);
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ level: 'info', messages: 1, message: 'pruned old data' }),
    ]);
    expect(delays.at(-1)).toBe(DAY);
    maintenance.stop();
    expect(due).toEqual([]);
    await store.close();
  });
});

test('answers a maintenance command that cannot be executed with the reason', async () => {
  using place = folder();
  const store = open(place.file());
  const parts = { store, config: kept(null), clock: { now: () => AT } };
  expect(await carryOut({ act: 'backup', file: place.file() }, parts)).toEqual({
    ok: false,
    text: expect.stringContaining('exists already'),
  });
  expect(await carryOut({ act: 'erase', what: 'person', id: 'u9' }, parts)).toEqual({
    ok: true,
    text: 'Nothing of u9 is on record.',
  });
  await store.close();
});
