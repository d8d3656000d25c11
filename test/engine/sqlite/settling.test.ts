import { copyFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { OutboxRow } from '../../../src/turns/floor-store.ts';
import { AT, folder, open, seat, turn, write, written } from './fixture.ts';

const LATER = AT + 1_000;

/** A store whose disk counts syncs, and waits while `gate` is set. */
async function watched(path: string) {
  const disk = { syncs: 0, gate: null as Promise<void> | null };
  const sync = (): Promise<void> | null => {
    disk.syncs += 1;
    return disk.gate;
  };
  const store = open(path, { disk: { sync, close: () => undefined } });
  await seat(store);
  await write(store, 'm1', 'please build it');
  const posts = async (at = AT): Promise<readonly OutboxRow[]> => {
    const { rows } = await store.lease(100, at);
    return rows.filter(({ lane }) => lane === 'posts');
  };
  const post = async (at = AT): Promise<OutboxRow> => {
    const [row, ...more] = await posts(at);
    if (row === undefined || more.length > 0) throw new Error('expected one post');
    return row;
  };
  return { disk, store, posts, post };
}

/** The texts that a new process finds uncertain in a copy of the present file. */
async function inDoubt(path: string): Promise<readonly (string | null)[]> {
  for (const end of ['', '-wal']) copyFileSync(`${path}${end}`, `${path}.copy${end}`);
  const store = open(`${path}.copy`);
  await store.recover();
  const { rows } = await store.lease(100, AT);
  await store.close();
  return rows.filter(({ lane, uncertain }) => lane === 'posts' && uncertain).map(({ text }) => text);
}

const CONFIRMED = { state: 'confirmed', platformId: 'p1' } as const;

describe("the settlement of a lane's last post", () => {
  test('is written with the next commit, and causes none itself', async () => {
    using place = folder();
    const { disk, store, post } = await watched(place.file());
    await turn(store, 'a plan');
    const row = await post();
    const before = disk.syncs;
    await store.settle(row, CONFIRMED);
    expect(disk.syncs).toBe(before);
    expect(await inDoubt(place.file())).toEqual(['a plan']);
    await store.accept(written('m2'));
    expect(await inDoubt(place.file())).toEqual([]);
    await store.close();
  });

  test('is committed after a second without another commit', async () => {
    using place = folder();
    const { disk, store, post } = await watched(place.file());
    await turn(store, 'a plan');
    await store.settle(await post(), CONFIRMED);
    expect((await store.lease(100, AT)).next).toBe(LATER);
    const before = disk.syncs;
    await store.lease(100, LATER - 1);
    expect(disk.syncs).toBe(before);
    expect((await store.lease(100, LATER)).next).toBeNull();
    expect(disk.syncs).toBe(before + 1);
    expect(await inDoubt(place.file())).toEqual([]);
    await store.close();
  });

  test('is committed at a normal end', async () => {
    using place = folder();
    const { store, post } = await watched(place.file());
    await turn(store, 'a plan');
    await store.settle(await post(), CONFIRMED);
    await store.close();
    const again = open(place.file());
    await again.recover();
    expect((await again.lease(100, AT)).rows.filter(({ lane }) => lane === 'posts')).toEqual([]);
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('is on the disk before the next post is leased, even a post whose commit was already running', async () => {
    using place = folder();
    const { disk, store, posts, post } = await watched(place.file());
    await turn(store, 'a plan');
    const first = await post();
    const { promise, resolve } = Promise.withResolvers<void>();
    disk.gate = promise;
    const { agent = '', epoch = 0 } = store.floors.state('test:one')?.turn ?? {};
    const next = store.floors.apply('test:one', { type: 'say', agent, epoch, text: 'some code', mentions: [] }, AT);
    await new Promise((done) => setImmediate(done));
    await store.settle(first, CONFIRMED);
    disk.gate = null;
    resolve();
    await next;
    expect((await posts()).map(({ text, afterId }) => [text, afterId])).toEqual([['some code', 'p1']]);
    expect(await inDoubt(place.file())).toEqual(['some code']);
    await store.close();
  });
});

test('a post with later posts in its lane is settled on the disk before the next one is leased', async () => {
  using place = folder();
  const { disk, store, posts, post } = await watched(place.file());
  await turn(store, 'a text that is longer than one post of this platform can be');
  const row = await post();
  const before = disk.syncs;
  await store.settle(row, CONFIRMED);
  expect(disk.syncs).toBe(before + 1);
  expect(await posts()).toHaveLength(1);
  expect(await inDoubt(place.file())).toHaveLength(1);
  await store.close();
});
