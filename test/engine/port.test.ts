import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { CasStore, Cells } from './cas-store.ts';
import { portContract } from './port-contract.ts';
import { AT, folder, written } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';

portContract('SQLite in a file', async () => {
  const place = folder();
  const path = place.file();
  const open = (): SqliteStore => new SqliteStore(openDatabase(path), { path, clock: { now: () => AT } });
  let store = open();
  return {
    store,
    restart: async () => {
      await store.close();
      store = open();
      return store;
    },
    dispose: async () => {
      await store.close();
      place[Symbol.dispose]();
    },
  };
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

portContract('a store that can only compare and set', async () => {
  const cells = new Cells();
  let starts = 0;
  const open = (): CasStore => new CasStore(cells, { id: `one.${(starts += 1)}`, pause: turn });
  return { store: open(), restart: async () => open(), dispose: async () => undefined };
});

/** Two stores with the same cells. Each can write between the other one's decision and write. */
function rivals(pause = turn) {
  const cells = new Cells();
  return ['one', 'two'].map((id) => {
    const store = new CasStore(cells, { id, pause });
    return { store, counters: store.host(counter), boards: store.host(board, boardUses) };
  });
}

describe('two stores with the same cells', () => {
  test('lose no change of the same keys, whichever store is overtaken', async () => {
    const step = fc.record({ store: fc.nat(1), key: fc.constantFrom('a', 'b'), also: fc.boolean(), waits: fc.nat(3) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 10 }), async (steps) => {
        const waits = steps.flatMap(({ waits: turns }) => [turns, 3 - turns]);
        const stores = rivals(async () => {
          for (let left = waits.shift() ?? 0; left > 0; left -= 1) await turn();
        });
        const results = await Promise.all(
          steps.map(({ store, key, also }) =>
            stores[store]!.counters.apply(key, { type: 'add', by: 1, also: also ? ['all'] : [] }, AT),
          ),
        );
        expect(results.every(({ ok }) => ok)).toBe(true);
        const [one] = stores;
        for (const key of ['a', 'b', 'all']) {
          const times = steps.filter((each) => each.key === key || (key === 'all' && each.also)).length;
          expect(one!.counters.state(key)?.value ?? 0).toBe(times);
          expect(one!.counters.journal(key, 99).map(({ seq }) => seq)).toEqual(
            Array.from({ length: times }, (_, n) => n + 1),
          );
        }
      }),
      { numRuns: 60 },
    );
  });

  test('decide again when another store was faster', async () => {
    const [one, two] = rivals();
    await Promise.all([
      one!.counters.apply('a', { type: 'add', by: 1 }, AT),
      two!.counters.apply('a', { type: 'add', by: 2 }, AT),
    ]);
    expect([one!.counters.state('a')?.value, one!.store.losses + two!.store.losses]).toEqual([3, 1]);
  });

  test('give a message to its machine once when both get it', async () => {
    const [one, two] = rivals();
    await Promise.all([one!.store.accept(written('m1')), two!.store.accept(written('m1', 'again'))]);
    const note = { type: 'note', id: 'm1' } as const;
    const results = await Promise.all([one!, two!].map(({ boards }) => boards.apply('test:one', note, AT)));
    expect(results.map((result) => (result.ok ? 'done' : result.refusal)).toSorted()).toEqual(['again', 'done']);
    expect(one!.boards.state('test:one')?.count).toBe(1);
  });

  test('apply a command with an id once when both get it', async () => {
    const [one, two] = rivals();
    const done = await Promise.all(
      [one!, two!].map(({ counters }) => counters.applyOnce('x 1.0', 'a', { type: 'add', by: 1 }, AT)),
    );
    expect([done.filter(Boolean).length, one!.counters.state('a')?.value]).toEqual([1, 1]);
  });

  test("take over a dead store's entries in flight as uncertain, and the dead store can settle none", async () => {
    const [one, two] = rivals();
    await one!.boards.apply('test:one', { type: 'pin', text: 'a' }, AT);
    const [lost] = (await one!.store.lease(9, AT)).rows;
    await two!.boards.apply('test:two', { type: 'pin', text: 'b' }, AT);
    const [own] = (await two!.store.lease(9, AT)).rows;
    await two!.store.recover(one!.store.owner);
    expect((await two!.store.lease(9, AT)).rows).toMatchObject([{ id: lost!.id, uncertain: true }]);
    await one!.store.settle(lost!, { state: 'confirmed', platformId: 'p1' });
    await two!.store.settle(own!, { state: 'retry', notBefore: AT });
    expect((await two!.store.lease(9, AT)).rows).toMatchObject([{ id: own!.id, uncertain: false }]);
    await two!.store.settle(lost!, { state: 'retry', notBefore: AT });
    expect((await two!.store.lease(9, AT)).rows).toMatchObject([{ id: lost!.id, uncertain: true }]);
  });

  test('lease an entry once, and only the store with the lease settles it', async () => {
    const [one, two] = rivals();
    await one!.boards.apply('test:one', { type: 'pin', text: 'a' }, AT);
    const [mine, theirs] = await Promise.all([one!.store.lease(9, AT), two!.store.lease(9, AT)]);
    const [taker, other] = mine.rows.length === 1 ? [one!, two!] : [two!, one!];
    const [row] = [...mine.rows, ...theirs.rows];
    expect(mine.rows.length + theirs.rows.length).toBe(1);
    await other.store.settle(row!, { state: 'failed', why: 'not mine' });
    await taker.store.settle(row!, { state: 'retry', notBefore: AT });
    expect((await other.store.lease(9, AT)).rows).toMatchObject([{ id: row!.id }]);
  });
});
