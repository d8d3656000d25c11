import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { StoreError } from '../../../src/engine/errors.ts';
import { AT, everything, folder, open, seat, turn, write, written } from './fixture.ts';

const MESSAGES = ['m1', 'm2', 'm3', 'm4'];

/** Makes and closes a store with a conversation, an unapplied message and pending entries. */
async function record(path: string): Promise<void> {
  const store = open(path, { ids: () => 'issuer' });
  await seat(store);
  await write(store, 'm1', 'please build it');
  for (const text of ['a plan', 'some code', 'a test']) await turn(store, text);
  await write(store, 'm2');
  await seat(store, 'test:two');
  await write(store, 'm3', 'and here?', 'test:two');
  await store.accept(written('m4'));
  await store.keyValues.remember('threads', 'test:thread', '{}');
  await store.close();
}

/** The problems of the store in a file: the error at opening, or the results of a full check. */
async function problems(path: string): Promise<readonly string[]> {
  try {
    const store = open(path);
    try {
      return store.verify();
    } finally {
      await store.close();
    }
  } catch (error) {
    if (error instanceof StoreError) return [error.message];
    throw error;
  }
}

async function tampered(change: string): Promise<readonly string[]> {
  using place = folder();
  await record(place.file());
  const db = new Database(place.file());
  db.exec(`DROP TRIGGER journal_keeps; DROP TRIGGER journal_stays; ${change}`);
  db.close();
  return problems(place.file());
}

describe('the journal', () => {
  test('cannot be changed by accident', async () => {
    using place = folder();
    await record(place.file());
    const db = new Database(place.file());
    for (const change of ["facts = '[]'", 'at = 1', "hash = x''", 'prev = NULL'])
      expect(() => db.exec(`UPDATE journal SET ${change}`)).toThrow('append-only');
    expect(() => db.exec('DELETE FROM journal')).toThrow('append-only');
    db.close();
  });

  test('has no problems when nobody changed it', async () => {
    using place = folder();
    await record(place.file());
    expect(await problems(place.file())).toEqual([]);
  });
});

const EDITS: Readonly<Record<string, string>> = {
  'a changed text': `UPDATE journal SET body = replace(body, 'some code', 'evil code')`,
  'a text put in the place of an erased one': `UPDATE journal SET body = '[["salt","evil code"]]' WHERE body LIKE '%some code%'`,
  'a changed place of a text': `UPDATE journal SET facts = replace(facts, '"hash":"', '"hash":"x')`,
  'a changed configuration': `UPDATE configs SET json = replace(json, '"priority":5', '"priority":1')`,
  'a lost configuration': `DELETE FROM configs WHERE json LIKE '%priority%'`,
  'another configuration in the place of one': `UPDATE journal SET facts = replace(facts, '"config":"', '"config":"x') WHERE row = 1`,
  'a changed time': `UPDATE journal SET at = at + 1 WHERE row = 3`,
  'a removed row': `DELETE FROM journal WHERE row = 4`,
  'a removed end': `DELETE FROM journal WHERE row > 10`,
  'a removed last row': `DELETE FROM journal WHERE row = (SELECT max(row) FROM journal)`,
  'a swapped pair': `UPDATE journal SET row = row + 1000 WHERE row = 2; UPDATE journal SET row = 2 WHERE row = 3; UPDATE journal SET row = 3 WHERE row = 1002`,
  'a row moved to another channel': `UPDATE journal SET machine = 3 WHERE machine = 2`,
  'a row led past': `UPDATE journal SET prev = prev - 1 WHERE row = 6`,
  'a row put in': `INSERT INTO journal SELECT 1000, machine, seq + 1, row, at, deadline, version, facts, cause, hash, body FROM journal WHERE row = 5`,
  'a command said to be known': `UPDATE journal SET cause = 'run 1.0' WHERE row = 5`,
  'a changed state': `UPDATE machines SET state = replace(state, '"epoch":', '"epoch":1')`,
  'a state of an older row': `UPDATE machines SET row = row - 1`,
  'a lost state': `DELETE FROM machines WHERE key = 'test:two'`,
  'a moved deadline': `UPDATE machines SET deadline = 0`,
  'a moved deadline of a row': `UPDATE journal SET deadline = 0 WHERE row = 8`,
  'a changed message': `UPDATE inbox SET text = 'something else' WHERE id = 'm1'`,
  'a changed message that waits': `UPDATE inbox SET text = 'something else' WHERE id = 'm4'`,
  'a changed fate': `UPDATE inbox SET fate = NULL WHERE id = 'm1'`,
  'a changed post that is owed': `UPDATE outbox SET text = 'something else' WHERE lane = 'posts'`,
  'a changed word that a part of the program keeps': `UPDATE memory SET value = '[]'`,
};

describe('an edit of the file with the triggers dropped', () => {
  for (const [what, change] of Object.entries(EDITS)) {
    test(`is found: ${what}`, async () => {
      expect(await tampered(change)).not.toEqual([]);
    });
  }
});

describe('a journal whose stored state lags behind', () => {
  test.each([
    ['a changed time', 'at = at + 1'],
    ['a changed count of facts', 'seq = seq + 1'],
    ['another fact', `facts = replace(facts, '"outcome":"completed"', '"outcome":"expired"')`],
    ['another hash', "hash = x'00'"],
  ])('T80 is not folded with %s in a row', async (_what, change) => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1', 'please build it');
    await turn(store, 'a plan');
    // A copy of the files at this moment is what a crash leaves.
    using crashed = folder();
    for (const name of readdirSync(place.path)) copyFileSync(place.file(name), crashed.file(name));
    await store.close();
    // Stays open, so that SQLite keeps the log.
    const db = new Database(crashed.file());
    const lagging =
      'row > (SELECT row FROM machines WHERE key = $key) AND machine = (SELECT id FROM machines WHERE key = $key)';
    const rows = db.prepare(`SELECT count(*) FROM journal WHERE ${lagging}`).pluck().get({ key: 'test:one' });
    expect(rows).toBeGreaterThan(0);
    db.exec('DROP TRIGGER journal_keeps');
    const changed = db.prepare(`UPDATE journal SET ${change} WHERE ${lagging}`).run({ key: 'test:one' });
    expect(changed.changes).toBeGreaterThan(0);
    const again = open(crashed.file());
    expect(() => again.floors.state('test:one')).toThrow(/was changed|does not match its checksum/);
    db.close();
    await again.close().catch(() => undefined);
  });
});

describe('a damaged file', () => {
  test('300 flipped bytes are each found out or change nothing', async () => {
    using place = folder();
    await record(place.file('intact.db'));
    const bytes = readFileSync(place.file('intact.db'));
    writeFileSync(place.file('copy.db'), bytes);
    const intact = await reread(place.file('copy.db'));
    const unnoticed: string[] = [];
    let found = 0;
    let random = 12_345;
    for (let flip = 0; flip < 300; flip += 1) {
      random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
      const at = random % bytes.length;
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (flip % 8));
      writeFileSync(place.file('flipped.db'), damaged);
      const isFound = (await problems(place.file('flipped.db'))).length > 0;
      found += isFound ? 1 : 0;
      if (!isFound && (await reread(place.file('flipped.db'))) !== intact)
        unnoticed.push(`bit ${flip % 8} of byte ${at}`);
    }
    expect(unnoticed).toEqual([]);
    expect(found).toBeGreaterThan(30);
  });

  test("another store's write-ahead log is found", async () => {
    using place = folder();
    await record(place.file('one.db'));
    const earlier = open(place.file('two.db'));
    for (const channel of ['x', 'y', 'z']) await seat(earlier, channel);
    await earlier.close();
    const other = open(place.file('two.db'));
    await write(other, 'm1', 'something else', 'x');
    writeFileSync(place.file('one.db-wal'), readFileSync(place.file('two.db-wal')));
    expect(await problems(place.file('one.db'))).not.toEqual([]);
    await other.close();
  });
});

async function reread(path: string): Promise<string> {
  const store = open(path);
  const state = everything(store, MESSAGES) + JSON.stringify(store.keyValues.recall('threads', 'test:thread'));
  const unapplied = await store.recover();
  const owed = await store.lease(100, AT);
  await store.close();
  const left = [unapplied.map((message) => message.id), owed.rows.map((row) => [row.id, row.text, row.effect])];
  return state + JSON.stringify(left);
}
