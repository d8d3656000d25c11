import { copyFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { Commits } from '../../../src/engine/sqlite/commits.ts';
import { openDatabase } from '../../../src/engine/sqlite/open.ts';
import { folder, open, seat, write } from './fixture.ts';

/** A commit log on a disk whose syncs end when the test says so. */
function slowDisk() {
  const syncs: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const events: string[] = [];
  const hooks = {
    beforeCommit: () => void events.push('commit'),
    committed: () => void events.push('durable'),
    undone: () => void events.push('undone'),
    lost: () => void events.push('lost'),
  };
  const sync = () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    syncs.push({ resolve, reject });
    return promise;
  };
  const db = openDatabase(':memory:');
  const commits = new Commits(db, ':memory:', hooks, { sync, close: () => void events.push('closed') });
  const say = (what: string) => commits.run(() => () => what).then((said) => events.push(said));
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return { commits, syncs, events, say, turn };
}

describe('a slow disk', () => {
  test('is awaited before any answer, and the next group gathers meanwhile', async () => {
    const { syncs, events, say, turn } = slowDisk();
    const first = say('one');
    await turn();
    const others = [say('two'), say('three')];
    await turn();
    expect([events, syncs.length]).toEqual([['commit'], 1]);
    syncs[0]?.resolve();
    await first;
    await turn();
    expect([events, syncs.length]).toEqual([['commit', 'durable', 'one', 'commit'], 2]);
    syncs[1]?.resolve();
    await Promise.all(others);
    expect(events.slice(4)).toEqual(['durable', 'two', 'three']);
  });

  test('ends the store when a sync fails: nothing is confirmed, and no sync is tried again', async () => {
    const { syncs, events, say, turn } = slowDisk();
    const lost = say('one');
    await turn();
    const waiting = say('two');
    syncs[0]?.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
    await expect(lost).rejects.toMatchObject({ code: 'unavailable' });
    await expect(waiting).rejects.toMatchObject({ code: 'unavailable' });
    await expect(say('three')).rejects.toMatchObject({ code: 'unavailable' });
    expect([events, syncs.length]).toEqual([['commit', 'closed', 'lost'], 1]);
  });

  test('is awaited at the end, too', async () => {
    const { commits, syncs, events, say, turn } = slowDisk();
    const first = say('one');
    await turn();
    const closing = commits.close(() => void events.push('last'));
    syncs[0]?.resolve();
    await first;
    await turn();
    syncs[1]?.resolve();
    await closing;
    expect(events).toEqual(['commit', 'durable', 'one', 'last', 'commit', 'durable', 'closed']);
  });
});

test('a file has confirmed data at once, also for a reader other than its owner', async () => {
  using place = folder();
  const store = open(place.file());
  await seat(store);
  await write(store, 'm1');
  for (const end of ['', '-wal']) copyFileSync(place.file(`conch.db${end}`), place.file(`copy.db${end}`));
  const copy = open(place.file('copy.db'));
  expect(copy.message('m1')?.fate).toMatchObject({ state: 'delivered' });
  expect(copy.verify()).toEqual([]);
  await Promise.all([copy.close(), store.close()]);
});
