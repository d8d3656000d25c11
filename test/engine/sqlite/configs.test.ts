import { describe, expect, test } from 'vitest';
import { databaseProblems } from '../../../src/engine/sqlite/check.ts';
import type { Fold } from '../../../src/engine/sqlite/check.ts';
import { Configs } from '../../../src/engine/sqlite/configs.ts';
import { MEMORY, openDatabase } from '../../../src/engine/sqlite/open.ts';
import { replayJournal } from '../../../src/engine/replay.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';
import { floorMachine } from '../../../src/turns/floor-store.ts';
import { AT, folder, open, seat, seating, write } from './fixture.ts';

const FLOORS: Fold = { name: 'floor', replay: (recording) => replayJournal(recording, floorMachine) };
const CHANNELS = Array.from({ length: 20 }, (_, index) => `test:c${index}`);

function longestOf(store: FloorStore, what: 'facts' | 'state'): number {
  const table = what === 'facts' ? 'journal' : 'machines';
  return Number(store.tables.db.prepare(`SELECT max(length(${what})) FROM ${table}`).pluck().get());
}

function configsIn(store: FloorStore): number {
  return Number(store.tables.db.prepare('SELECT count(*) FROM configs').pluck().get());
}

describe('the configuration of floors', () => {
  test('is stored once for all floors with the same configuration, and shared in memory', async () => {
    using place = folder();
    const store = open(place.file());
    for (const channel of CHANNELS) await seat(store, channel);
    expect(configsIn(store)).toBe(2);
    const floors = CHANNELS.map((channel) => store.floors.state(channel));
    await store.close();
    const again = open(place.file());
    expect(longestOf(again, 'facts')).toBeLessThan(900);
    expect(longestOf(again, 'state')).toBeLessThan(1_500);
    expect(CHANNELS.map((channel) => again.floors.state(channel))).toEqual(floors);
    const [one, other] = CHANNELS.map((channel) => again.floors.state(channel));
    expect(one?.settings).toBe(one?.configured?.settings);
    expect(one?.settings).toBe(other?.settings);
    expect(one?.configured?.seats).toBe(other?.configured?.seats);
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('has a row for each different configuration, and all are read back', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.floors.apply('test:one', { type: 'mode', by: 'u1', mode: 'queue' }, AT);
    await seat(store, 'test:two');
    expect(configsIn(store)).toBe(3);
    await store.close();
    const again = open(place.file());
    expect(['test:one', 'test:two'].map((id) => again.floors.state(id)?.settings.mode)).toEqual(['queue', 'inject']);
    expect(again.floors.journal('test:one', 1)[0]?.fact).toMatchObject({
      type: 'settingsChanged',
      settings: { mode: 'queue' },
    });
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('is stored by the next commit after a rollback', async () => {
    using place = folder();
    const store = open(place.file());
    const [configure] = seating();
    if (configure === undefined) throw new Error('there is no command');
    store.tables.db.exec("CREATE TRIGGER full BEFORE INSERT ON machines BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await expect(store.floors.apply('test:one', configure, AT)).rejects.toThrow('no room');
    expect(configsIn(store)).toBe(0);
    store.tables.db.exec('DROP TRIGGER full');
    await store.floors.apply('test:one', configure, AT);
    await store.close();
    const again = open(place.file());
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('is found when another process reads the journal', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.close();
    expect(databaseProblems(place.file(), [FLOORS])).toEqual([]);
  });
});

describe('an unused configuration', () => {
  const DAY = 86_400_000;

  /** Makes a channel that had another mode long ago. */
  async function changed(path: string): Promise<FloorStore> {
    const store = open(path);
    await seat(store);
    await store.floors.apply('test:one', { type: 'mode', by: 'u1', mode: 'queue' }, AT);
    await store.floors.apply('test:one', { type: 'mode', by: 'u1', mode: 'parallel' }, AT);
    await write(store, 'm1');
    await store.close();
    const again = open(path);
    await again.floors.apply('test:one', { type: 'pause', by: 'u1' }, AT + DAY);
    expect(configsIn(again)).toBe(4);
    return again;
  }

  test('is deleted with the last row that uses it, and everything else is read back', async () => {
    using place = folder();
    const store = await changed(place.file());
    const floor = store.floors.state('test:one');
    const counted = await store.prune(() => AT + 1, true);
    expect([configsIn(store), counted.configs]).toEqual([4, 1]);
    expect(await store.prune(() => AT + 1, false)).toEqual(counted);
    expect(configsIn(store)).toBe(3);
    expect(store.verify()).toEqual([]);
    await store.close();
    const again = open(place.file());
    expect(again.floors.state('test:one')).toEqual(floor);
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test.each([1, 2, 3, 4])(
    'stays when it is used again before, during or after the search for unused ones: commit %i',
    async (moment) => {
      const db = openDatabase(MEMORY);
      const configs = new Configs(db);
      const [one, other] = [{ mode: 'one' }, { mode: 'other' }];
      const ids = [configs.idOf(one), configs.idOf(other)];
      let commits = 0;
      await configs.prune(async (commit) => {
        const written = commit();
        commits += 1;
        if (commits === moment) configs.idOf(one);
        return written;
      });
      if (moment > commits) configs.idOf(one);
      const stored = db.prepare<[], string>('SELECT id FROM configs').pluck().all();
      expect([ids.map((id) => stored.includes(id)), commits]).toEqual([[true, false], 3]);
      expect(configs.idOf(other)).toBe(ids[1]);
      expect(db.prepare('SELECT count(*) FROM configs').pluck().get()).toBe(2);
      db.close();
    },
  );
});
