import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/engine/errors.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { writerOf } from '../../src/engine/shared/replica.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { MemoryLog } from './memory-log.ts';
import { portContract } from './port-contract.ts';
import { deletionContract, leaderContract, sharingContract } from './sharing-contract.ts';
import { AT, everything, folder, open, options, seat, turn, write, written } from './sqlite/fixture.ts';
import { leadIn, openShared } from './shared-store.ts';
import { counter } from './toy.ts';

portContract('a store that processes share, on a log in memory', async () => {
  const log = new MemoryLog();
  let store = await openShared(log.seenBy());
  return {
    store,
    restart: async () => {
      await store.close();
      store = await openShared(log.seenBy());
      return store;
    },
    dispose: () => store.close(),
  };
});

leaderContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});

deletionContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});

sharingContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});

/** Leads floors in a log. Resolves when earlier leaders have ended. */
function floorsIn(log: SharedLog, more: Partial<ReturnType<typeof options>> = {}): Promise<FloorStore> {
  return leadIn(log, { ...options(':memory:'), ...more }, (db, all) => new FloorStore(db, all));
}

describe('a store that processes share', () => {
  test('shows no state and no message that the log has not accepted', async () => {
    const memory = new MemoryLog();
    const log = memory.seenBy();
    const gate = Promise.withResolvers<void>();
    const store = await openShared({ ...log, commit: (group) => gate.promise.then(() => log.commit(group)) });
    const counters = store.host(counter);
    const told: number[] = [];
    counters.onChange(({ state }) => told.push(state.value));
    const added = Promise.all([store.accept(written('m1')), counters.apply('a', { type: 'add', by: 2 }, AT)]);
    await new Promise((resolve) => void setImmediate(resolve));
    expect([counters.state('a'), counters.journal('a', 9), told, store.message('m1')]).toEqual([null, [], [], null]);
    gate.resolve();
    await added;
    expect([counters.state('a')?.value, counters.journal('a', 9).length, told]).toEqual([2, 1, [2]]);
    expect(store.message('m1')?.text).toBe('text of m1');
    await store.close();
  });

  test('refuses what its copy has no space for, and the log gets none of it', async () => {
    const memory = new MemoryLog();
    const store = await floorsIn(memory.seenBy());
    const { db } = store.tables;
    db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true }))}`);
    const text = 'long '.repeat(10_000);
    await expect(store.accept({ ...written('m1'), text })).rejects.toMatchObject({ code: 'full' });
    db.pragma('max_page_count = 1000000');
    await store.accept(written('m2'));
    await store.close();
    const next = await openShared(memory.seenBy());
    expect([next.message('m1'), next.message('m2')?.text]).toEqual([null, 'text of m2']);
    await next.close();
  });

  test('ends when the log refuses its rows, and says so once', async () => {
    const memory = new MemoryLog();
    const log = memory.seenBy();
    const lost: unknown[] = [];
    const store = await floorsIn(log, { lost: (error: unknown) => void lost.push(error) });
    await log.leave(store.owner);
    await expect(store.accept(written('m1'))).rejects.toMatchObject({ code: 'buried' });
    await expect(store.accept(written('m2'))).rejects.toMatchObject({ code: 'buried' });
    expect(lost).toMatchObject([{ code: 'buried' }]);
    expect((await log.pull(0)).rows).toEqual([]);
    await store.close();
  });

  test('has what the earlier leader wrote after the last look of the process that takes over', async () => {
    const memory = new MemoryLog();
    const one = await floorsIn(memory.seenBy());
    const log = memory.seenBy();
    const takingOver: SharedLog = {
      ...log,
      lead: async (worker) => {
        if (memory.living.includes(one.owner)) {
          await one.accept(written('m1'));
          await one.close();
        }
        return await log.lead(worker);
      },
    };
    const two = await openShared(takingOver);
    expect(two.message('m1')?.text).toBe('text of m1');
    await two.close();
  });

  test('tells when a request to the log fails, and when one succeeds again', async () => {
    const log = new MemoryLog().seenBy();
    let refusals = 2;
    const refusing: SharedLog = {
      ...log,
      commit: async (group) => {
        refusals -= 1;
        if (refusals >= 0) throw new Error('the disk of the database is full');
        return await log.commit(group);
      },
    };
    const told: string[] = [];
    const requests = { failed: (error: unknown) => told.push(String(error)), succeeded: () => told.push('taken') };
    const make = (...given: ConstructorParameters<typeof FloorStore>) => new FloorStore(...given);
    const store = await leadIn(refusing, options(':memory:'), make, { requests });
    await store.accept(written('m1'));
    const refused = 'Error: the disk of the database is full';
    expect(told).toEqual([refused, refused, 'taken']);
    await store.close();
  });

  test('leaves the log when its copy cannot be opened or filled, so that no other process waits', async () => {
    using place = folder();
    const memory = new MemoryLog();
    let closed = 0;
    const log = { ...memory.seenBy(), close: async () => void (closed += 1) };
    const broken = (): never => {
      throw new Error('no store');
    };
    await expect(leadIn(log, options(place.file()), broken)).rejects.toThrow('no store');
    expect([memory.living, closed]).toEqual([[], 1]);
    const unread = { ...log, pull: () => Promise.reject(new StoreError('corrupt', 'no rows')) };
    const make = (...given: ConstructorParameters<typeof FloorStore>) => new FloorStore(...given);
    await expect(leadIn(unread, options(place.file()), make)).rejects.toThrow('no rows');
    expect([memory.living, closed]).toEqual([[], 2]);
    const rows = [{ table: 'memory', id: 'no list', row: null }];
    const spoiled = { ...log, pull: async () => ({ rows, position: 1, isAll: true }) };
    await expect(leadIn(spoiled, options(place.file()), make)).rejects.toThrow('malformed JSON');
    expect([memory.living, closed]).toEqual([[], 3]);
    await (await leadIn(log, options(place.file()), make)).close();
  });

  test('has an erased text neither in the log nor in a later copy', async () => {
    const memory = new MemoryLog();
    const one = await floorsIn(memory.seenBy());
    await seat(one);
    await write(one, 'm1', 'the secret of Ada');
    await turn(one, 'no secret here');
    const stored = async (): Promise<string> => JSON.stringify(await memory.seenBy().pull(0));
    expect(await stored()).toContain('the secret of Ada');
    await one.erase({ what: 'message', id: 'm1' });
    expect(await stored()).not.toContain('the secret of Ada');
    await one.close();
    const two = await floorsIn(memory.seenBy());
    expect(everything(two, ['m1'])).not.toContain('the secret of Ada');
    expect(two.verify()).toEqual([]);
    await two.close();
  });

  test('is pruned in a copy that follows, and continues there', async () => {
    const memory = new MemoryLog();
    const log = memory.seenBy();
    const following = openDatabase(':memory:');
    const follow = following.transaction(writerOf(following));
    const one = await floorsIn(log);
    await seat(one);
    for (const id of ['m1', 'm2']) {
      await write(one, id);
      await turn(one, `the answer to ${id}`);
    }
    const before = await log.pull(0);
    follow(before.rows);
    // A process that ends stores all states. Pruning deletes only rows before a stored state.
    await one.close();
    const two = await floorsIn(log);
    expect((await two.prune(() => AT + 1, false)).entries).toBeGreaterThan(0);
    await write(two, 'm3');
    await turn(two, 'the answer to m3');
    const kept = two.floors.state('test:one');
    await two.close();
    follow((await log.pull(before.position)).rows);
    const copy = new FloorStore(following, options(':memory:'));
    const three = await floorsIn(log);
    for (const store of [copy, three]) {
      expect(store.floors.state('test:one')).toEqual(kept);
      expect(everything(store, ['m1', 'm2', 'm3'])).toBe(everything(three, ['m1', 'm2', 'm3']));
      expect(store.verify()).toEqual([]);
    }
    for (const store of [copy, three]) await store.close();
  });
});

describe('the same commands', () => {
  test('give the same floors and journals in a shared store with several leaders and in a store of one process', async () => {
    const alone = open();
    await seat(alone);
    const memory = new MemoryLog();
    let shared = await floorsIn(memory.seenBy());
    await seat(shared);
    for (const [at, isNew] of [false, true, false, true, true].entries()) {
      if (isNew) {
        await shared.close();
        shared = await floorsIn(memory.seenBy());
      }
      for (const each of [alone, shared]) {
        await write(each, `m${at}`);
        await turn(each, `answer ${at} with more than forty characters in it`);
      }
    }
    const ids = ['m0', 'm1', 'm2', 'm3', 'm4'];
    expect(everything(shared, ids)).toBe(everything(alone, ids));
    for (const store of [alone, shared]) {
      expect(store.verify()).toEqual([]);
      await store.close();
    }
  });
});
