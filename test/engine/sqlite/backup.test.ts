import { existsSync, statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { RESTORE_JUMP } from '../../../src/turns/floor-store.ts';
import { AT, everything, folder, open, seat, turn, write } from './fixture.ts';

describe('a backup', () => {
  test('has all committed data in one private file, and the store goes on', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1');
    const copying = store.backupTo(place.file('copy.db'));
    await write(store, 'm2');
    await copying;
    expect(existsSync(place.file('copy.db-wal'))).toBe(false);
    expect(statSync(place.file('copy.db')).mode & 0o777).toBe(0o600);
    await turn(store, 'one');
    expect(store.verify()).toEqual([]);
    await store.close();
    const copy = open(place.file('copy.db'));
    expect(copy.verify()).toEqual([]);
    expect(copy.message('m1')?.fate?.state).toBe('delivered');
    await copy.close();
  });

  test('never replaces a file', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await expect(store.backupTo(place.file())).rejects.toThrow('exists already');
    expect(store.floors.keys()).toEqual(['test:one']);
    await store.close();
  });
});

describe('a restored backup', () => {
  test('reuses no epoch and no outbox id, and treats its pending posts as uncertain', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1');
    await turn(store, 'one');
    await store.backupTo(place.file('copy.db'));
    await turn(store, 'two');
    const epoch = store.floors.state('test:one')?.epoch ?? 0;
    const before = new Set((await store.lease(100, AT)).rows.map((row) => row.id));
    await store.close();

    const restored = open(place.file('copy.db'));
    await restored.recover();
    expect(restored.floors.journal('test:one', 1)[0]?.fact).toEqual({ type: 'epochRaised', by: RESTORE_JUMP });
    expect(restored.floors.state('test:one')?.epoch).toBeGreaterThan(epoch);
    const owed = (await restored.lease(100, AT)).rows;
    expect(owed.filter((row) => row.lane === 'posts').map((row) => [row.text, row.uncertain])).toEqual([['one', true]]);
    for (const row of owed) await restored.settle(row, { state: 'confirmed', platformId: row.id });
    await write(restored, 'm2');
    const fresh = (await restored.lease(100, AT)).rows;
    expect(fresh.length).toBeGreaterThan(0);
    expect(fresh.filter((row) => before.has(row.id))).toEqual([]);
    expect(restored.verify()).toEqual([]);
    const state = everything(restored, ['m1', 'm2']);
    await restored.close();

    const again = open(place.file('copy.db'));
    expect(everything(again, ['m1', 'm2'])).toBe(state);
    await again.close();
  });
});
