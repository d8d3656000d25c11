import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/engine/errors.ts';
import { joinSharedStore, openSharedStore } from '../../src/engine/shared/open-shared.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import type { openDatabase } from '../../src/engine/sqlite/open.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { MemoryLog } from './memory-log.ts';
import { portContract } from './port-contract.ts';
import { leaderContract, sharingContract } from './sharing-contract.ts';
import { AT, everything, folder, open, options, seat, turn, write, written } from './sqlite/fixture.ts';
import { openShared } from './shared-store.ts';
import { board, boardUses, counter } from './toy.ts';

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

sharingContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});

/** Opens floors of two processes on one log. */
async function floorsOfTwo(): Promise<readonly [FloorStore, FloorStore, () => Promise<FloorStore>]> {
  const log = new MemoryLog();
  const join = () => openSharedStore(options(':memory:'), log.seenBy(), (db, all) => new FloorStore(db, all));
  return [await join(), await join(), join];
}

describe('a store that processes share', () => {
  test('shows no change that the log has not accepted', async () => {
    const memory = new MemoryLog();
    const log = memory.seenBy();
    const gate = Promise.withResolvers<void>();
    const store = await openShared({ ...log, commit: (group) => gate.promise.then(() => log.commit(group)) });
    const accepted = store.accept(written('m1'));
    await new Promise((resolve) => void setImmediate(resolve));
    expect(store.message('m1')).toBeNull();
    gate.resolve();
    await accepted;
    expect(store.message('m1')?.text).toBe('text of m1');
    await store.close();
  });

  test('ends when its copy cannot store a change of the log, which the next copy has', async () => {
    const memory = new MemoryLog();
    const log = memory.seenBy();
    const lost: unknown[] = [];
    let isFull = false;
    const filling: SharedLog = {
      ...log,
      commit: async (group) => {
        const verdict = await log.commit(group);
        const { db } = store.tables;
        if (isFull) db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true }))}`);
        return verdict;
      },
    };
    const all = { ...options(':memory:'), lost: (error: unknown) => void lost.push(error) };
    const store = await openSharedStore(all, filling, (db, every) => new FloorStore(db, every));
    isFull = true;
    const text = 'long '.repeat(10_000);
    await expect(store.accept({ ...written('m1'), text })).rejects.toMatchObject({ code: 'full' });
    expect(lost).toMatchObject([{ code: 'full' }]);
    await expect(store.accept(written('m2'))).rejects.toMatchObject({ code: 'full' });
    const next = await openShared(memory.seenBy());
    expect([next.message('m1')?.text, next.message('m2')]).toEqual([text, null]);
    await next.close();
  });

  test('tells when the log refuses a request, and when it accepts one again', async () => {
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
    const store = await joinSharedStore(options(':memory:'), refusing, (db, all) => new FloorStore(db, all), requests);
    await store.catchUp();
    told.length = 0;
    await store.accept(written('m1'));
    const refused = 'Error: the disk of the database is full';
    expect(told).toEqual([refused, refused, 'taken']);
    await store.close();
  });

  test('leaves the log when its copy cannot be opened, so that no other process waits', async () => {
    using place = folder();
    const memory = new MemoryLog();
    let closed = 0;
    const log = { ...memory.seenBy(), close: async () => void (closed += 1) };
    const broken = (): never => {
      throw new Error('no store');
    };
    await expect(joinSharedStore(options(place.file()), log, broken)).rejects.toThrow('no store');
    expect([await log.living(), closed]).toEqual([[], 1]);
    const unread = { ...log, pull: () => Promise.reject(new StoreError('corrupt', 'no rows')) };
    const make = (db: ReturnType<typeof openDatabase>, all: ReturnType<typeof options>) => new FloorStore(db, all);
    await expect(openSharedStore(options(place.file()), unread, make)).rejects.toThrow('no rows');
    expect([await log.living(), closed]).toEqual([[], 2]);
    await (await joinSharedStore(options(place.file()), log, make)).close();
  });

  test("leases a dead store's entries before entries of the transaction that takes them over", async () => {
    const memory = new MemoryLog();
    const one = await openShared(memory.seenBy());
    await one.host(board, boardUses).apply('test:one', { type: 'pin', text: 'first' }, AT);
    const log = memory.seenBy();
    const gate = Promise.withResolvers<void>();
    let asked = async (): Promise<void> => undefined;
    const two = await openShared({
      ...log,
      living: () => asked().then(() => log.living()),
      commit: (group) => gate.promise.then(() => log.commit(group)),
    });
    const [boards, counters] = [two.host(board, boardUses), two.host(counter)];
    const handed: (string | null)[] = [];
    boards.onChange(() => void two.owed(9, AT).then(({ rows }) => rows.map(({ text }) => handed.push(text))));
    const work: Promise<unknown>[] = [];
    // One transaction is running. The next one has a command, the takeover and another command.
    asked = async () => {
      work.push(counters.apply('a', { type: 'add', by: 1 }, AT));
      for (let tick = 0; tick < 9; tick += 1) await Promise.resolve();
      work.push(boards.apply('test:two', { type: 'pin', text: 'elsewhere' }, AT));
      setImmediate(() => {
        work.push(boards.apply('test:one', { type: 'pin', text: 'second' }, AT));
        gate.resolve();
      });
    };
    await two.recover(one.owner);
    await Promise.all(work);
    expect(handed).toContain('first');
    expect(handed).not.toContain('second');
    for (const store of [one, two]) await store.close();
  });

  test('has an erased text in no copy', async () => {
    const [one, two, join] = await floorsOfTwo();
    await seat(one);
    await write(one, 'm1', 'the secret of Ada');
    await turn(one, 'no secret here');
    await two.catchUp();
    expect(two.message('m1')?.text).toBe('the secret of Ada');
    await one.erase({ what: 'message', id: 'm1' });
    await two.catchUp();
    const three = await join();
    for (const store of [one, two, three]) {
      expect(everything(store, ['m1'])).not.toContain('the secret of Ada');
      expect(store.verify()).toEqual([]);
      await store.close();
    }
  });

  test('is pruned in all copies, and continues', async () => {
    const [one, two, join] = await floorsOfTwo();
    await seat(one);
    for (const id of ['m1', 'm2']) {
      await write(one, id);
      await turn(one, `the answer to ${id}`);
    }
    await two.catchUp();
    // A process that ends stores all states. Pruning deletes only rows before a stored state.
    await one.close();
    const pruner = await join();
    expect((await pruner.prune(() => AT + 1, false)).entries).toBeGreaterThan(0);
    await two.catchUp();
    await write(two, 'm3');
    await turn(two, 'the answer to m3');
    const three = await join();
    await pruner.catchUp();
    for (const store of [pruner, two, three]) {
      expect(store.floors.state('test:one')).toEqual(two.floors.state('test:one'));
      expect(store.verify()).toEqual([]);
      await store.close();
    }
  });
});

describe('the same commands', () => {
  test('give the same floors and journals in a shared store and in a store of one process', async () => {
    const alone = open();
    const [one, two] = await floorsOfTwo();
    await seat(alone);
    await seat(one);
    for (const [at, store] of [one, two, two, one, two].entries()) {
      await store.catchUp();
      for (const each of [alone, store]) {
        await write(each, `m${at}`);
        await turn(each, `answer ${at} with more than forty characters in it`);
      }
    }
    const ids = ['m0', 'm1', 'm2', 'm3', 'm4'];
    const comparable = (store: FloorStore) =>
      everything(store, ids).replaceAll(/"hash":"[0-9a-f]+",?|"since":\d+,?/gu, '');
    await one.catchUp();
    await two.catchUp();
    expect(comparable(one)).toBe(comparable(alone));
    expect(comparable(two)).toBe(comparable(alone));
    for (const store of [alone, one, two]) {
      expect(store.verify()).toEqual([]);
      await store.close();
    }
  });
});
