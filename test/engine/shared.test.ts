import { describe, expect, test } from 'vitest';
import { openSharedStore } from '../../src/engine/shared/open-shared.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { MemoryLog } from './memory-log.ts';
import { portContract } from './port-contract.ts';
import { sharingContract } from './sharing-contract.ts';
import { everything, open, options, seat, turn, write } from './sqlite/fixture.ts';
import { openShared } from './shared-store.ts';

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

sharingContract('memory', async () => {
  const log = new MemoryLog();
  return async () => log.seenBy();
});

describe('the same commands', () => {
  test('give the same floors and journals in a store that processes share, and in one that a process has alone', async () => {
    const alone = open();
    const log = new MemoryLog();
    const join = () => openSharedStore(options(':memory:'), log.seenBy(), (db, all) => new FloorStore(db, all));
    const [one, two] = [await join(), await join()];
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
