import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { withCauses } from '../../src/engine/machine.ts';
import type { Machine } from '../../src/engine/machine.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { defineFunctions } from '../../src/engine/sqlite/rows.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { AT, folder, open as openFloors, seat } from './sqlite/fixture.ts';
import { counter } from './toy.ts';
import { watch } from './sqlite/watch.ts';

function open(path = ':memory:', statesInMemory = 1000): SqliteStore {
  return new SqliteStore(openDatabase(path), { path, clock: { now: () => AT }, statesInMemory });
}

/** A machine that passes each command on to other machines. */
const relay = {
  ...counter,
  name: 'relay',
  causes: () => [
    { machine: 'counter', key: 'all', command: { type: 'add', by: 1 } },
    { machine: 'counter', key: 'all', command: { type: 'add', by: 2 } },
  ],
} satisfies typeof counter;

describe('a machine in a store', () => {
  test('needs no other machine', async () => {
    using place = folder();
    const store = open(place.file());
    const counters = store.host(counter);
    expect(counters.state('a')).toBeNull();
    expect(await counters.apply('a', { type: 'add', by: 2 }, AT)).toEqual({
      ok: true,
      state: { value: 2, resetAt: AT + 1_000 },
      facts: [{ type: 'added', by: 2, also: [] }],
      effects: [{ shown: 2 }],
    });
    expect(await counters.apply('a', { type: 'add', by: 0 }, AT)).toMatchObject({ ok: false, refusal: 'not-positive' });
    await store.close();
    const again = open(place.file());
    const found = again.host(counter);
    expect(found.state('a')).toEqual({ value: 2, resetAt: AT + 1_000 });
    expect([found.keys(), again.verify()]).toEqual([['a'], []]);
    await again.close();
  });

  test('is due at its deadline, and not a millisecond earlier, also after a restart', async () => {
    using place = folder();
    const store = open(place.file());
    await store.host(counter).apply('a', { type: 'add', by: 2 }, AT);
    await store.close();
    const again = open(place.file());
    const counters = again.host(counter);
    expect(await counters.due(AT + 999)).toEqual({ keys: [], next: AT + 1_000 });
    expect(await counters.due(AT + 1_000)).toEqual({ keys: ['a'], next: null });
    await counters.apply('a', { type: 'tick' }, AT + 1_000);
    expect([await counters.due(AT + 9_000), counters.state('a')?.value]).toEqual([{ keys: [], next: null }, 0]);
    await again.close();
  });

  test('replays its journal to the stored state', async () => {
    const store = open();
    const counters = store.host(counter);
    for (const by of [1, 2, 3]) await counters.apply('a', { type: 'add', by }, AT + by);
    const values: number[] = [];
    const replayed = counters.replay('a', ({ state }) => values.push(state.value));
    expect([values, replayed]).toEqual([
      [1, 3, 6],
      { steps: 3, brokenAt: null, stoppedBy: null, equal: true, booked: true },
    ]);
    await store.close();
  });

  test('lives beside floors in one file, with its own keys', async () => {
    using place = folder();
    const floors = openFloors(place.file());
    await seat(floors, 'a');
    await floors.close();
    const store = open(place.file());
    const counters = store.host(counter);
    expect(counters.state('a')).toBeNull();
    await counters.apply('a', { type: 'add', by: 1 }, AT);
    await store.close();
    const again = openFloors(place.file());
    expect([again.floors.keys(), again.floors.state('a')?.queue.length, again.verify()]).toEqual([['a'], 3, []]);
    await again.close();
  });

  test('applies several commands of one key in one commit, in order, also when one is refused', async () => {
    const store = open();
    const counters = store.host(counter);
    const acts = [
      { type: 'add', by: 1 },
      { type: 'add', by: 0 },
      { type: 'add', by: 5 },
    ] as const;
    const results = await counters.applyAll('a', acts, AT);
    expect(results.map(({ ok, state }) => [ok, state.value])).toEqual([
      [true, 1],
      [false, 1],
      [true, 6],
    ]);
    expect(counters.journal('a', 10).map(({ seq, hash }) => [seq, hash === counters.journal('a', 1)[0]?.hash])).toEqual(
      [
        [1, true],
        [2, true],
      ],
    );
    await store.close();
  });
});

describe('commands for one key that share a commit', () => {
  const rowsOf = (store: SqliteStore): readonly unknown[] =>
    store.tables.db.prepare('SELECT seq, prev, at, json_array_length(facts) AS facts FROM journal ORDER BY row').all();

  test('share a row when they have the same instant, and get the same answers as alone', async () => {
    const store = open();
    const counters = store.host(counter);
    const told: unknown[] = [];
    counters.onChange(({ key, facts, state }) => told.push([key, facts.length, state.value]));
    const adding = [1, 2, 0].map((by) => counters.apply('a', { type: 'add', by }, AT));
    const later = counters.apply('a', { type: 'add', by: 4 }, AT + 1);
    const answers = await Promise.all([...adding, later]);
    expect(answers.map(({ ok, state }) => [ok, state.value])).toEqual([
      [true, 1],
      [true, 3],
      [false, 3],
      [true, 7],
    ]);
    expect(rowsOf(store)).toEqual([
      { seq: 2, prev: null, at: AT, facts: 2 },
      { seq: 3, prev: 1, at: AT + 1, facts: 1 },
    ]);
    expect([told, store.verify()]).toEqual([
      [
        ['a', 2, 3],
        ['a', 1, 7],
      ],
      [],
    ]);
    await store.close();
  });

  test('keep their effects when one of them throws', async () => {
    const store = open();
    const counters = store.host({
      ...counter,
      decide: (state, command, at) => {
        if (command.type === 'tick') throw new Error('impossible: planted');
        return counter.decide(state, command, at);
      },
    } satisfies typeof counter);
    const all = [{ type: 'add', by: 1 } as const, { type: 'tick' } as const, { type: 'add', by: 2 } as const];
    const outcomes = await Promise.allSettled(all.map((command) => counters.apply('a', command, AT)));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect([counters.state('a')?.value, rowsOf(store).length, store.verify()]).toEqual([3, 1, []]);
    await store.close();
  });

  test('have their own rows when they have ids, and are applied once by id', async () => {
    const store = open();
    const counters = store.host(counter);
    const ids = ['one', 'two', 'one', 'two'];
    const done = await Promise.all(ids.map((id) => counters.applyOnce(id, 'a', { type: 'add', by: 1 }, AT)));
    expect([done, counters.state('a')?.value]).toEqual([[true, true, false, false], 2]);
    const again = await Promise.all(ids.map((id) => counters.applyOnce(id, 'a', { type: 'add', by: 1 }, AT)));
    expect([again, counters.state('a')?.value, store.verify()]).toEqual([[false, false, false, false], 2, []]);
    await store.close();
  });
});

describe('a command that causes commands for other machines', () => {
  test('changes all of them in one transaction, and tells listeners of each', async () => {
    const store = open();
    const [counters, relays] = [store.host(counter), store.host(relay)];
    const told: unknown[] = [];
    counters.onChange(({ key, facts, state }) => told.push([key, facts.length, state.value]));
    await relays.apply('r', { type: 'add', by: 1 }, AT);
    expect([told, counters.state('all')?.value, relays.state('r')?.value]).toEqual([[['all', 2, 3]], 3, 1]);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('still has its own consequences when further consequences are added to a machine without named facts', async () => {
    const store = open();
    const more = {
      types: ['reset'],
      commands: () => [{ machine: 'counter', key: 'z', command: { type: 'add', by: 1 } }],
    };
    const counters = store.host(withCauses(counter, [more]));
    await counters.apply('a', { type: 'add', by: 2, also: ['b'] }, AT);
    await counters.apply('a', { type: 'tick' }, AT + 1_000);
    expect(['a', 'b', 'z'].map((key) => counters.state(key)?.value)).toEqual([0, 2, 1]);
    await store.close();
  });

  test('changes nothing when one of them cannot be decided', async () => {
    const store = open();
    const broken = {
      ...counter,
      decide: () => {
        throw new Error('impossible: planted');
      },
    } satisfies typeof counter;
    const [counters, relays] = [store.host(broken), store.host(relay)];
    await expect(relays.apply('r', { type: 'add', by: 1 }, AT)).rejects.toThrow('planted');
    expect([counters.state('all'), relays.state('r'), store.verify()]).toEqual([null, null, []]);
    await store.close();
  });

  test('follows the chain to its end, and throws for an endless chain', async () => {
    const store = open();
    const counters = store.host(counter);
    await counters.apply('a', { type: 'add', by: 1, also: ['b', 'c'] }, AT);
    expect(counters.keys()).toEqual(['a', 'b', 'c']);
    await expect(
      counters.apply('a', { type: 'add', by: 1, also: Array.from({ length: 1_001 }, (_, n) => `k${n}`) }, AT),
    ).rejects.toThrow('impossible: more than 1000 commands follow from one');
    await counters.apply('a', { type: 'add', by: 1, also: Array.from({ length: 1_000 }, (_, n) => `k${n}`) }, AT);
    expect(counters.state('a')?.value).toBe(2);
    await store.close();
  });

  test('throws for a machine that takes no commands, and for one that is not hosted', async () => {
    const { isCommand: _none, ...deaf } = counter;
    const store = open();
    store.host(deaf);
    const relays = store.host(relay);
    await expect(relays.apply('r', { type: 'add', by: 1 }, AT)).rejects.toThrow(
      'counter is given a command that it does not take',
    );
    const alone = open();
    await expect(alone.host(relay).apply('r', { type: 'add', by: 1 }, AT)).rejects.toThrow(
      'no machine counter is hosted',
    );
    await Promise.all([store.close(), alone.close()]);
  });

  test('with an id is applied once, also across a restart', async () => {
    using place = folder();
    const store = open(place.file());
    const counters = store.host(counter);
    const add = (by: number) => counters.applyOnce('run 7.0', 'a', { type: 'add', by }, AT);
    expect(await Promise.all([add(1), add(10)])).toEqual([true, false]);
    await store.close();
    const again = open(place.file());
    const found = again.host(counter);
    expect(await found.applyOnce('run 7.0', 'a', { type: 'add', by: 100 }, AT)).toBe(false);
    expect(found.state('a')?.value).toBe(1);
    await again.close();
  });
});

describe('states that lag behind their journal', () => {
  test('are folded at the next start after a kill', async () => {
    const image = await running(40);
    const again = new SqliteStore(image, { path: ':memory:', clock: { now: () => AT } });
    const counters = again.host(counter);
    expect(['a', 'b', 'c'].map((key) => counters.state(key)?.value)).toEqual([40, 40, 40]);
    expect(await counters.due(AT + 100_000)).toEqual({ keys: ['a', 'b', 'c'], next: null });
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('are stored when they lag by thousands of rows, and all survive a small memory', async () => {
    const store = open(':memory:', 2);
    const counters = store.host(counter);
    const keys = Array.from({ length: 30 }, (_, n) => `k${n}`);
    for (let round = 0; round < 800; round += 1)
      await Promise.all(keys.map((key) => counters.apply(key, { type: 'add', by: 1 }, AT + round)));
    const stored = store.tables.db.prepare('SELECT min(row) FROM machines').pluck().get();
    expect(stored).toBeGreaterThan(3_000);
    expect(keys.map((key) => counters.state(key)?.value)).toEqual(keys.map(() => 800));
    expect(store.verify()).toEqual([]);
    await store.close();
  });
});

describe('a state that nobody changes', () => {
  const REST_MS = 600_000;
  /** Counts two rounds over the keys. `lookedAt`: reads a state and counts the queries for it. */
  async function resting(keys: readonly string[], afterMs: number) {
    const db = openDatabase(':memory:');
    const { asked } = watch(db);
    const reads = (): number => [...asked].reduce((sum, [sql, n]) => sum + (sql.includes('AS intact') ? n : 0), 0);
    const store = new SqliteStore(db, { path: ':memory:', clock: { now: () => AT } });
    const counters = store.host(counter);
    for (const key of keys) await counters.apply(key, { type: 'add', by: 1 }, AT);
    for (const key of keys) await counters.apply(key, { type: 'add', by: 1 }, AT);
    await counters.apply('other', { type: 'add', by: 1 }, AT + afterMs);
    const lookedAt = (key: string) => {
      const before = reads();
      return { value: counters.state(key)?.value, reads: reads() - before };
    };
    return { store, counters, lookedAt };
  }

  test('stays in memory for ten minutes', async () => {
    const { lookedAt } = await resting(['a'], REST_MS - 1);
    expect(lookedAt('a')).toEqual({ value: 2, reads: 0 });
  });

  test('is then removed at the next change of another key, after it was stored', async () => {
    const { store, lookedAt } = await resting(['a'], REST_MS);
    expect(lookedAt('other').reads).toBe(0);
    expect(lookedAt('a')).toEqual({ value: 2, reads: 1 });
    const lag = 'SELECT count(*) FROM journal j JOIN machines m ON m.id = j.machine WHERE m.key = ? AND j.row > m.row';
    expect(store.tables.db.prepare(lag).pluck().get('a')).toBe(0);
    expect(store.verify()).toEqual([]);
  });

  test('is removed with at most fifty others at a time, so that no command waits', async () => {
    const keys = Array.from({ length: 120 }, (_, n) => `k${n}`);
    const { counters, lookedAt } = await resting(keys, REST_MS);
    const inMemory = (): number => keys.filter((key) => lookedAt(key).reads === 0).length;
    expect(inMemory()).toBe(70);
    await counters.apply('other', { type: 'add', by: 1 }, AT + REST_MS + 1);
    expect(lookedAt('k119')).toEqual({ value: 2, reads: 0 });
    for (const ms of [2, 3, 4]) await counters.apply('other', { type: 'add', by: 1 }, AT + REST_MS + ms);
    expect(lookedAt('k119')).toEqual({ value: 2, reads: 1 });
  });
});

/** The database of a killed program: three counters, counted `times` times, without a final store of states. */
async function running(times: number) {
  const path = ':memory:';
  const db = openDatabase(path);
  const counters = new SqliteStore(db, { path, clock: { now: () => AT } }).host(counter);
  for (let time = 0; time < times; time += 1)
    await Promise.all(['a', 'b', 'c'].map((key) => counters.apply(key, { type: 'add', by: 1 }, AT + time)));
  const bytes = db.serialize();
  db.close();
  const image = new Database(bytes);
  defineFunctions(image);
  return image;
}

const laterState = z.strictObject({ total: z.number() });
const laterFact = z.strictObject({ plus: z.number() });

describe('data that an earlier version of a machine stored', () => {
  const later: Machine<
    { readonly total: number },
    { readonly type: 'add'; readonly by: number },
    { readonly plus: number },
    never
  > = {
    channelOf: (key) => key,
    name: 'counter',
    version: 2,
    empty: () => ({ total: 0 }),
    decide: (_state, { by }) => ({ ok: true, facts: [{ plus: by }] }),
    evolve: ({ total }, { plus }) => ({ total: total + plus }),
    react: () => [],
    nextDeadline: () => null,
    state: laterState,
    fact: laterFact,
    upcast: {
      state: (stored) => ({ total: counter.state.parse(stored).value }),
      fact: (stored) => {
        const fact = counter.fact.parse(stored);
        return { plus: fact.type === 'added' ? fact.by : 0 };
      },
    },
  };

  test('is read by a later version, both states and facts, and its journal continues', async () => {
    using place = folder();
    const store = open(place.file());
    await store.host(counter).apply('a', { type: 'add', by: 2 }, AT);
    await store.close();
    const again = open(place.file());
    const counters = again.host(later);
    await counters.apply('a', { type: 'add', by: 5 }, AT);
    expect(counters.state('a')).toEqual({ total: 7 });
    expect(counters.journal('a', 9).map(({ fact }) => fact)).toEqual([{ plus: 2 }, { plus: 5 }]);
    await again.close();
  });

  test('is refused with a message when a newer version wrote it', async () => {
    using place = folder();
    const store = open(place.file());
    await store.host(later).apply('a', { type: 'add', by: 5 }, AT);
    await store.close();
    const again = open(place.file());
    expect(() => again.host(counter).state('a')).toThrow('it is of version 2 of counter, this one knows 1');
    await again.close();
  });
});
