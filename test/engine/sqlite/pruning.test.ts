import { copyFileSync, readFileSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';
import { AT, folder, open, options, seat, turn, write, written } from './fixture.ts';
import { Platform } from '../../../src/adapters/console/platform.ts';
import { runMachine } from '../../../src/work/runs/run-machine.ts';
import { Random } from '../../sim/random.ts';
import { counter } from '../toy.ts';

const DAY = 86_400_000;

/** A store with a long old history in a channel and some turns of today. Its states are stored. */
async function withHistory(
  path: string,
  turns = 60,
  alsoSaid: (store: FloorStore) => Promise<unknown> = async () => {},
): Promise<FloorStore> {
  const store = open(path);
  await seat(store);
  await alsoSaid(store);
  for (let n = 1; n <= turns; n += 1) {
    await write(store, `m${n}`, `question ${n}`);
    await turn(store, `answer ${n}`);
    await turn(store, `more ${n}`);
    await turn(store, `last ${n}`);
  }
  await deliver(store);
  await store.close();
  const again = open(path);
  await today(again, `m${turns + 1}`);
  await again.close();
  return open(path);
}

/** Delivers all pending entries. */
async function deliver(store: FloorStore): Promise<void> {
  for (let { rows } = await store.lease(100, AT); rows.length > 0; { rows } = await store.lease(100, AT)) {
    for (const row of rows) await store.settle(row, { state: 'confirmed', platformId: `p-${row.id}` });
  }
}

async function today(store: FloorStore, id: string): Promise<void> {
  await store.accept({ ...written(id), sentAt: AT + DAY });
  await store.floors.apply('test:one', { type: 'receive', id, addressed: [] }, AT + DAY);
}

const OLD = () => AT + 1;

/** A machine whose keys are channels, like the floor's keys. */
const besideFloor = { ...counter, name: 'review', channelOf: (key: string) => key };

describe('retention', () => {
  test('deletes old rows, and leaves an intact journal, the same floor, and new rows', async () => {
    using place = folder();
    const store = await withHistory(place.file());
    const floor = store.floors.state('test:one');
    const before = statSync(place.file()).size;
    const counted = await store.prune(OLD, true);
    expect(counted.entries).toBeGreaterThan(300);
    expect(counted).toMatchObject({ messages: 60, posts: 180 });
    expect(statSync(place.file()).size).toBe(before);
    expect(store.message('m1')).not.toBeNull();
    expect(await store.prune(OLD, false)).toEqual(counted);
    expect([store.message('m1'), store.message('m60')]).toEqual([null, null]);
    expect(store.message('m61')?.fate?.state).toBe('delivered');
    expect(store.floors.state('test:one')).toEqual(floor);
    expect(store.verify()).toEqual([]);
    expect(store.floors.replay('test:one')).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    expect(statSync(place.file()).size).toBeLessThan(before / 2);
    await turn(store, 'the answer of today');
    await store.close();
    expect(readFileSync(place.file()).includes('answer 7')).toBe(false);
    const again = open(place.file());
    expect(again.verify()).toEqual([]);
    expect(await again.prune(OLD, false)).toEqual({ entries: 0, messages: 0, posts: 0, calls: 0, configs: 0 });
    await again.close();
  });

  test('reaches machines with keys per agent, such as background runs', async () => {
    using place = folder();
    const keys = ['test:one dev', 'test:two dev'];
    const first = open(place.file());
    const before = first.host(counter);
    for (const key of keys) for (let n = 0; n < 9; n += 1) await before.apply(key, { type: 'add', by: 1 }, AT);
    await first.close();
    const store = open(place.file());
    const counters = store.host(counter);
    expect(await store.prune((channel) => (channel === 'test:one' ? OLD() : null), false)).toMatchObject({
      entries: 8,
    });
    expect(keys.map((key) => [counters.state(key)?.value, counters.journal(key, 99).length])).toEqual([
      [9, 0],
      [9, 9],
    ]);
    expect(store.verify()).toEqual([]);
    await store.close();
    const unhosted = open(place.file());
    expect(await unhosted.prune(() => OLD(), false)).toMatchObject({ entries: 0 });
    await unhosted.close();
  });

  test('T80 takes the channel of a key from its machine, whatever the form of the key', async () => {
    using place = folder();
    const reviews = { ...counter, name: 'review', channelOf: (key: string) => key.split('/')[1] ?? '' };
    const keys = ['r1/test:one/dev qa', 'r1/test:two/dev qa'];
    const first = open(place.file());
    const before = first.host(reviews);
    for (const key of keys) for (let n = 0; n < 9; n += 1) await before.apply(key, { type: 'add', by: 1 }, AT);
    await first.close();
    const store = open(place.file());
    const hosted = store.host(reviews);
    await store.prune((channel) => (channel === 'test:one' ? OLD() : null), false);
    expect(keys.map((key) => hosted.journal(key, 99).length)).toEqual([0, 9]);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('deletes nothing when no channel is due', async () => {
    using place = folder();
    const store = await withHistory(place.file(), 3);
    expect(await store.prune(() => null, false)).toEqual({ entries: 0, messages: 0, posts: 0, calls: 0, configs: 0 });
    expect(await store.prune(() => AT, false)).toEqual({ entries: 0, messages: 0, posts: 0, calls: 0, configs: 0 });
    expect(store.message('m1')).not.toBeNull();
    await store.close();
  });

  test('keeps a message that the floor still holds, at any age', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.floors.apply('test:one', { type: 'mode', mode: 'queue', by: 'ada' }, AT);
    for (const id of ['m1', 'm2', 'm3']) await write(store, id);
    expect(store.floors.state('test:one')?.held.map(({ id }) => id)).toEqual(['m2', 'm3']);
    await today(store, 'm4');
    await store.prune(OLD, false);
    expect(store.message('m2')?.text).toBe('text of m2');
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('keeps a message that the floor still holds, also when another machine has a key of the same name', async () => {
    using place = folder();
    const store = open(place.file());
    const beside = store.host(besideFloor);
    await seat(store);
    await store.floors.apply('test:one', { type: 'mode', mode: 'queue', by: 'ada' }, AT);
    for (const id of ['m1', 'm2', 'm3']) await write(store, id);
    for (let n = 0; n < 2; n += 1) await beside.apply('test:one', { type: 'add', by: 1 }, AT);
    await today(store, 'm4');
    expect(await store.prune(OLD, false)).toMatchObject({ messages: 0 });
    expect(['m1', 'm2', 'm3'].map((id) => store.message(id)?.text)).toEqual(['text of m1', 'text of m2', 'text of m3']);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('deletes old posts, also when another machine has a key of the same name', async () => {
    using place = folder();
    // The rows of the other machine are newer than the floor's first rows, and older than all posts.
    const store = await withHistory(place.file(), 3, async (first) => {
      const beside = first.host(besideFloor);
      for (let n = 0; n < 2; n += 1) await beside.apply('test:one', { type: 'add', by: 1 }, AT);
    });
    store.host(besideFloor);
    expect(await store.prune(OLD, true)).toMatchObject({ messages: 3, posts: 9 });
    expect(await store.prune(OLD, false)).toMatchObject({ messages: 3, posts: 9 });
    await store.close();
  });

  test('leaves an intact file when it is killed after any commit, and continues later', async () => {
    using place = folder();
    using killed = folder();
    await (await withHistory(place.file(), 40)).close();
    let moments = 0;
    const faults: string[] = [];
    const look = async (): Promise<void> => {
      for (const name of ['conch.db', 'conch.db-wal']) copyFileSync(place.file(name), killed.file(name));
      const left = openFloorStore(options(killed.file()));
      faults.push(...left.verify());
      await left.prune(OLD, false);
      faults.push(...left.verify());
      if (left.message('m1') !== null || left.floors.state('test:one')?.lines === undefined) faults.push('not pruned');
      await left.close();
      moments += 1;
    };
    const disk = { sync: () => look(), close: () => undefined };
    const store = open(place.file(), { disk });
    await store.prune(OLD, false);
    await store.close();
    expect(faults).toEqual([]);
    expect(moments).toBeGreaterThan(5);
  });

  test('leaves a checkpoint whose later change is found', async () => {
    using place = folder();
    const store = await withHistory(place.file(), 3);
    await store.prune(OLD, false);
    await store.close();
    const db = new Database(place.file());
    db.exec(
      `DROP TRIGGER journal_keeps; UPDATE journal SET facts = replace(facts, '"epoch":', '"epoch":1') WHERE prev IS NULL`,
    );
    db.close();
    const again = open(place.file());
    expect(again.verify()).toContainEqual(expect.stringMatching(/the journal of test:one was changed/u));
    await again.close();
  });
});

/** True when the files of the database have a word anywhere. */
function isLeft(file: (name?: string) => string, word: string): boolean {
  return ['conch.db', 'conch.db-wal'].some((name) => readFileSync(file(name)).includes(word));
}

describe('an erasure', () => {
  test('of a person leaves none of its words in the file, the log, or any read', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1', 'my number is 5551234');
    await turn(store, 'noted');
    await write(store, 'm2', 'again: 5551234');
    expect(isLeft(place.file, '5551234')).toBe(true);
    expect(await store.erase({ what: 'person', id: 'u1' })).toEqual({ messages: 2, posts: 0, acts: 0 });
    expect(isLeft(place.file, '5551234')).toBe(false);
    expect(store.message('m1')).toMatchObject({ text: '[erased]', author: { id: '[erased]', name: '[erased]' } });
    expect(store.lines('test:one', 0, 9).map(({ text }) => text)).not.toContain('again: 5551234');
    expect(store.verify()).toEqual([]);
    expect(await store.erase({ what: 'person', id: 'u1' })).toEqual({ messages: 0, posts: 0, acts: 0 });
    await store.close();
  });

  test('of a person erases its words from a message of the console that a later post edited', async () => {
    using place = folder();
    const store = open(place.file());
    const console = new Platform(store.tables, { now: () => AT });
    const speaker = { id: 'conch', name: 'Conch', avatar: null };
    const shown = {
      channel: 'test:one',
      kind: 'system',
      speaker,
      text: 'dev asks',
      epoch: null,
      replyTo: null,
    } as const;
    const { message } = await console.add({ ...shown, nonce: 'of an earlier post' });
    await seat(store);
    await write(store, 'm1');
    await turn(store, 'allowed by 5551234');
    for (const row of (await store.lease(100, AT)).rows) {
      if (row.text?.includes('5551234') === true) await console.edit('test:one', message.id, row.text);
      await store.settle(row, { state: 'confirmed', platformId: message.id });
    }
    expect(isLeft(place.file, '5551234')).toBe(true);
    const also = { stretches: [], isTheirs: (text: string) => text.includes('5551234') };
    await store.erase({ what: 'person', id: 'u1' }, also);
    expect([isLeft(place.file, '5551234'), console.message('test:one', message.id)?.text]).toEqual([false, '[erased]']);
    await store.close();
  });

  test('leaves no copy of a word in pages from which SQLite moved rows', async () => {
    const hadCopies: number[] = [];
    for (let seed = 1; seed <= 12; seed += 1) {
      using place = folder();
      const store = open(place.file());
      const { db } = store.tables;
      db.exec('CREATE TABLE scratch (n INTEGER PRIMARY KEY, text TEXT)');
      const insert = db.prepare('INSERT INTO scratch VALUES (?, ?)');
      const remove = db.prepare('DELETE FROM scratch WHERE n = ?');
      const grow = db.prepare('UPDATE scratch SET text = text || ? WHERE n = ?');
      const random = new Random(seed);
      for (let n = 1; n <= 200; n += 1) {
        insert.run(n, `${n % 3 === 0 ? '5551234' : 'another'}${'-'.repeat(random.between(0, 599))}`);
        if (random.chance(1 / 4)) remove.run(random.between(1, n));
        if (random.chance(1 / 3)) grow.run('+'.repeat(random.between(0, 899)), random.between(1, n));
      }
      db.exec("UPDATE scratch SET text = '[erased]' WHERE text LIKE '5551234%'");
      db.pragma('wal_checkpoint(TRUNCATE)');
      if (isLeft(place.file, '5551234')) hadCopies.push(seed);
      await store.erase({ what: 'person', id: 'u1' });
      expect(isLeft(place.file, '5551234')).toBe(false);
      await store.close();
    }
    expect(hadCopies).not.toEqual([]);
  });

  test('of a post deletes its text from the journal, whose chain and fold stay intact', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1');
    await turn(store, `the key of the house is 5551234, ${'and so on '.repeat(12)}`);
    await deliver(store);
    const post = store.tables.db
      .prepare<[], string>("SELECT platform_id FROM outbox WHERE text LIKE '%5551234%'")
      .pluck()
      .get();
    expect(isLeft(place.file, '5551234')).toBe(true);
    const erased = await store.erase({ what: 'message', id: post ?? '' });
    expect(erased.posts).toBeGreaterThan(1);
    expect(isLeft(place.file, '5551234')).toBe(false);
    expect(store.lines('test:one', 0, 9).map(({ text }) => text)).toContain('[erased]');
    expect(store.floors.replay('test:one')).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    expect(store.verify()).toEqual([]);
    await store.close();
    const again = open(place.file());
    expect(again.verify()).toEqual([]);
    await turn(again, 'and on it goes');
    await again.close();
  });

  test('of an unknown message changes nothing', async () => {
    const store = open();
    expect(await store.erase({ what: 'message', id: 'm9' })).toEqual({ messages: 0, posts: 0, acts: 0 });
    await store.close();
  });

  /** A channel in which u1 wrote, caused model calls, and gave commands. */
  async function withPerson(path: string): Promise<FloorStore> {
    const store = open(path);
    await seat(store);
    for (let n = 1; n <= 150; n += 1) {
      await write(store, `m${n}`, `unique-word ${n}`);
      const use = { backend: 'b', model: 'm', input: 1, output: 1, cached: 0, source: 'computed', ms: 1 } as const;
      const asked = { ...use, outcome: 'answered', requestedBy: 'u1' } as const;
      await store.floors.apply(
        'test:one',
        { type: 'spend', agent: 'pm', epoch: 0, tokens: 2, costMicros: 3, use: asked },
        AT,
      );
      await turn(store, `answer ${n}`);
      await store.floors.apply('test:one', { type: 'pause', by: 'u1' }, AT);
      await store.floors.apply('test:one', { type: 'resume', by: 'u1' }, AT);
    }
    await store.close();
    return open(path);
  }

  test('leaves an intact file when it is killed after any commit, and erases the rest when repeated', async () => {
    using place = folder();
    using killed = folder();
    await (await withPerson(place.file())).close();
    let moments = 0;
    const faults: string[] = [];
    const look = async (): Promise<void> => {
      moments += 1;
      if (moments % 4 !== 1) return;
      for (const name of ['conch.db', 'conch.db-wal']) copyFileSync(place.file(name), killed.file(name));
      const left = openFloorStore(options(killed.file()));
      faults.push(...left.verify());
      await left.erase({ what: 'person', id: 'u1' });
      faults.push(...left.verify());
      if (isLeft(killed.file, 'unique-word') || isLeft(killed.file, '"u1"')) faults.push('not erased');
      await left.close();
    };
    const store = open(place.file(), { disk: { sync: () => look(), close: () => undefined } });
    await store.erase({ what: 'person', id: 'u1' });
    await store.close();
    expect(faults).toEqual([]);
    expect(moments).toBeGreaterThan(8);
  });

  test('can run while commands are written', async () => {
    using place = folder();
    const store = await withPerson(place.file());
    const erased = store.erase({ what: 'person', id: 'u1' });
    for (let n = 0; n < 30; n += 1) {
      await store.floors.apply('test:one', { type: 'pause', by: 'u1' }, AT);
      await store.floors.apply('test:one', { type: 'resume', by: 'u2' }, AT);
    }
    const first = await erased;
    expect(store.verify()).toEqual([]);
    const again = await store.erase({ what: 'person', id: 'u1' });
    expect(again.acts).toBeLessThan(30);
    // Three facts of u1 in each of the 150 rounds, and 30 pauses.
    expect(first.acts + again.acts).toBe(480);
    expect(isLeft(place.file, '"u1"')).toBe(false);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('of a person reaches the checkpoint', async () => {
    using place = folder();
    const first = open(place.file());
    const before = first.host(runMachine);
    const start = { type: 'START', runType: 'background', prompt: 'unique-word', session: '1', by: 'u1' } as const;
    const work = {
      ...start,
      requestedBy: 'u1',
      waitMs: null,
      allowedTools: null,
      task: { id: 't', column: 'in_progress' },
    };
    await before.apply('test:one pm+', work, AT);
    await before.apply('test:one pm+', { type: 'STEP', session: '1', turn: 1, toolCalls: [] }, AT);
    await first.close();
    const store = open(place.file());
    const runs = store.host(runMachine);
    await store.prune(OLD, false);
    expect(isLeft(place.file, '"u1"')).toBe(true);
    await store.erase({ what: 'person', id: 'u1' });
    expect(isLeft(place.file, '"u1"')).toBe(false);
    expect([runs.state('test:one pm+')?.run?.requestedBy, store.verify()]).toEqual(['[erased]', []]);
    await store.close();
  });

  test('fails with a message when another program keeps the log from being emptied', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1', 'my number is 5551234');
    const reader = new Database(place.file(), { readonly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM inbox').get();
    await expect(store.erase({ what: 'message', id: 'm1' })).rejects.toThrow(
      'Wait until that program ends, then erase again',
    );
    reader.close();
    await store.erase({ what: 'message', id: 'm1' });
    expect(isLeft(place.file, '5551234')).toBe(false);
    await store.close();
  });
});
