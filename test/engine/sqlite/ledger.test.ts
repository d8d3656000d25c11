import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { databaseProblems } from '../../../src/engine/sqlite/check.ts';
import type { Fold } from '../../../src/engine/sqlite/check.ts';
import { readLedger } from '../../../src/engine/sqlite/ledger.ts';
import { replayJournal } from '../../../src/engine/replay.ts';
import type { Command } from '../../../src/turns/floor/command.ts';
import type { ModelUse } from '../../../src/turns/floor/settings.ts';
import { floorMachine } from '../../../src/turns/floor-store.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';
import { AT, folder, open, seat, turn, write } from './fixture.ts';

const FLOORS: Fold = { name: 'floor', replay: (recording) => replayJournal(recording, floorMachine) };

const USE: ModelUse = {
  backend: 'llm',
  model: 'm-1',
  input: 1_000,
  output: 200,
  cached: 900,
  source: 'computed',
  outcome: 'answered',
  ms: 1_500,
  requestedBy: 'u1',
};

/** Spends tokens of an agent with a seat, with or without the floor. */
async function spend(
  store: FloorStore,
  change: Partial<Extract<Command, { type: 'spend' }>> = {},
  at = AT,
): Promise<void> {
  const spent = { type: 'spend', agent: 'pm', epoch: 1, tokens: 1_200, costMicros: 3_500, use: USE } as const;
  await store.floors.apply('test:one', { ...spent, ...change }, at);
}

async function withCalls(path: string): Promise<FloorStore> {
  const store = open(path);
  await seat(store);
  await write(store, 'm1');
  await spend(store);
  await turn(store, 'a plan');
  await spend(store, {
    costMicros: 0,
    use: { ...USE, model: null, source: 'unpriced', outcome: 'retried', requestedBy: 'u2' },
  });
  await spend(store, { costMicros: 0, tokens: 7, use: { ...USE, outcome: 'failed', run: 'test:one pm#1' } });
  return store;
}

function edit(path: string, change: string): void {
  const db = new Database(path);
  db.exec(change);
  db.close();
}

describe('the ledger', () => {
  test('has a row for each model call that a floor is told of, and no cost for an unpriced call', async () => {
    using place = folder();
    await (await withCalls(place.file())).close();
    const { backend, input, output, cached, ms } = USE;
    const one = { key: 'test:one', at: AT, agent: 'pm', epoch: 1, backend, input, output, cached, ms };
    expect(readLedger(place.file(), 0)).toEqual([
      {
        ...one,
        run: null,
        requestedBy: 'u1',
        model: 'm-1',
        tokens: 1_200,
        costMicros: 3_500,
        source: 'computed',
        outcome: 'answered',
      },
      {
        ...one,
        run: null,
        requestedBy: 'u2',
        model: null,
        tokens: 1_200,
        costMicros: null,
        source: 'unpriced',
        outcome: 'retried',
      },
      {
        ...one,
        run: 'test:one pm#1',
        requestedBy: 'u1',
        model: 'm-1',
        tokens: 7,
        costMicros: 0,
        source: 'computed',
        outcome: 'failed',
      },
    ]);
    expect(readLedger(place.file(), AT + 1)).toEqual([]);
    expect(databaseProblems(place.file(), [FLOORS])).toEqual([]);
  });

  test('is written in the same commit as the fact', async () => {
    using place = folder();
    const store = await withCalls(place.file());
    const before = store.floors.journal('test:one', 999).length;
    store.tables.db.exec("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await expect(spend(store)).rejects.toThrow('no room');
    store.tables.db.exec('DROP TRIGGER full');
    expect(store.floors.journal('test:one', 999).length).toBe(before);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test.each([
    ['a changed cost', 'UPDATE ledger SET cost = 1 WHERE id = 1'],
    ['a lost row', 'DELETE FROM ledger WHERE id = 2'],
    [
      'a row twice',
      'INSERT INTO ledger SELECT 99, machine, row, n, at, agent, epoch, run, requested_by, backend, model, tokens, input, output, cached, cost, source, outcome, ms, checksum FROM ledger WHERE id = 1',
    ],
  ])('finds %s', async (_what, change) => {
    using place = folder();
    await (await withCalls(place.file())).close();
    edit(place.file(), change);
    expect(databaseProblems(place.file(), [FLOORS])).not.toEqual([]);
    const store = open(place.file());
    expect(store.floors.replay('test:one').booked).toBe(false);
    await store.close();
  });

  test('loses the rows that retention prunes from its journal', async () => {
    using place = folder();
    const store = await withCalls(place.file());
    const DAY = 86_400_000;
    await spend(store, { tokens: 11 }, AT + DAY);
    await store.close();
    const again = open(place.file());
    expect(await again.prune(() => AT + 1, true)).toMatchObject({ calls: 3 });
    expect(readLedger(place.file(), 0)).toHaveLength(4);
    expect(await again.prune(() => AT + 1, false)).toMatchObject({ calls: 3 });
    expect(readLedger(place.file(), 0).map(({ tokens }) => tokens)).toEqual([11]);
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('forgets an erased person who asked for calls, also in the journal, and nothing else', async () => {
    using place = folder();
    const store = await withCalls(place.file());
    const use = { ...USE, requestedBy: 'somebody-5551234' };
    await Promise.all([spend(store, { use }), spend(store), turn(store, 'said in the same row')]);
    expect(await store.erase({ what: 'person', id: use.requestedBy })).toEqual({ messages: 0, posts: 0, acts: 1 });
    for (const name of ['conch.db', 'conch.db-wal'])
      expect(readFileSync(place.file(name)).includes('5551234')).toBe(false);
    expect(readLedger(place.file(), 0).map(({ requestedBy }) => requestedBy)).toEqual([
      'u1',
      'u2',
      'u1',
      '[erased]',
      'u1',
    ]);
    expect(store.lines('test:one', 0, 99).map(({ text }) => text)).toContain('said in the same row');
    expect(store.verify()).toEqual([]);
    expect(await store.erase({ what: 'person', id: use.requestedBy })).toEqual({ messages: 0, posts: 0, acts: 0 });
    await store.close();
  });
});
