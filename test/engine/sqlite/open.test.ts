import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { StoreError } from '../../../src/engine/errors.ts';
import { MIGRATIONS, openDatabase } from '../../../src/engine/sqlite/open.ts';
import { FloorStore } from '../../../src/turns/floor-store.ts';
import { AT, folder, open, options, seat, turn, write, written } from './fixture.ts';
import { runChild } from './process.ts';

function refusal(path: string): StoreError {
  try {
    openDatabase(path).close();
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
  throw new Error(`${path} was opened`);
}

describe('a database in use', () => {
  test('is refused to a second process', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    const ended = await runChild('open', place.file());
    expect(ended).toMatchObject({ code: 4, signal: null });
    expect(ended.output).toContain('locked: ');
    expect(ended.output).toContain('Stop the other Conch first');
    await write(store, 'm1');
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('can be read by other programs, and writing goes on however long they read', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1');
    const reader = new Database(place.file(), { readonly: true, fileMustExist: true });
    reader.exec('BEGIN');
    const count = reader.prepare('SELECT count(*) FROM inbox').pluck();
    expect(count.get()).toBe(1);
    for (const text of ['one', 'two', 'three']) await turn(store, text);
    await write(store, 'm2');
    expect(count.get()).toBe(1);
    reader.exec('COMMIT');
    expect(count.get()).toBe(2);
    await store.close();
    expect(reader.prepare('PRAGMA quick_check').pluck().get()).toBe('ok');
    reader.close();
    const again = open(place.file());
    expect(again.verify()).toEqual([]);
    await again.close();
  });

  test('refuses commands while another program writes, loses nothing, and recovers', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    const writer = new Database(place.file());
    writer.exec('BEGIN IMMEDIATE');
    await expect(store.accept(written('m1'))).rejects.toMatchObject({ code: 'locked' });
    writer.exec('ROLLBACK');
    writer.close();
    await write(store, 'm2');
    expect(store.message('m1')).toBeNull();
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('has a separate lock file that only its owner can read', async () => {
    using place = folder();
    const store = open(place.file());
    expect(statSync(place.file('conch.lock')).mode & 0o777).toBe(0o600);
    expect(() => open(place.file())).toThrow('Stop the other Conch first');
    await store.close();
    await open(place.file()).close();
  });

  test('is free after its owner was killed, with everything that was confirmed', async () => {
    using place = folder();
    const ended = await runChild('apply-and-die', place.file());
    expect(ended.signal).toBe('SIGKILL');
    const acknowledged = ended.output.trim().split('\n');
    expect(acknowledged).toHaveLength(49);
    const store = open(place.file());
    const unapplied = await store.recover();
    expect(unapplied.map((message) => message.id).slice(0, 49)).toEqual(acknowledged);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('still has a message for its floor after a kill between accept and apply', async () => {
    using place = folder();
    expect(await runChild('accept-and-die', place.file())).toMatchObject({ signal: 'SIGKILL' });
    const store = open(place.file());
    const unapplied = await store.recover();
    expect(unapplied.map((message) => message.id)).toEqual(['m2']);
    const applied = await store.floors.apply('test:one', { type: 'receive', id: 'm2', addressed: [] }, AT);
    expect(applied.ok).toBe(true);
    expect(await store.recover()).toEqual([]);
    await store.close();
  });
});

describe('opening', () => {
  test('makes the folder and a file only for its owner', () => {
    using place = folder();
    openDatabase(place.file('a/b/conch.db')).close();
    expect(statSync(place.file('a/b/conch.db')).mode & 0o777).toBe(0o600);
  });

  test('sets the options that durability depends on', () => {
    using place = folder();
    const db = openDatabase(place.file());
    const names = ['journal_mode', 'synchronous', 'foreign_keys', 'locking_mode', 'secure_delete', 'auto_vacuum'];
    expect(names.map((name) => db.pragma(name, { simple: true }))).toEqual(['wal', 1, 1, 'normal', 1, 2]);
    db.close();
  });

  test('refuses a newer schema and writes nothing', () => {
    using place = folder();
    const db = openDatabase(place.file());
    db.pragma(`user_version = ${MIGRATIONS.length + 1}`);
    db.close();
    const before = readFileSync(place.file());
    expect(refusal(place.file())).toMatchObject({
      code: 'newer-schema',
      message: expect.stringContaining('Update Conch'),
    });
    expect(readFileSync(place.file()).equals(before)).toBe(true);
    expect(existsSync(place.file('conch.db-wal'))).toBe(false);
  });

  test('refuses a file from before the first release and writes nothing', () => {
    using place = folder();
    new Database(place.file()).exec('CREATE TABLE floors (a); PRAGMA user_version = 12').close();
    const before = readFileSync(place.file());
    expect(refusal(place.file())).toMatchObject({
      code: 'older-schema',
      message: expect.stringContaining('set CONCH_DATA_DIR to another folder'),
    });
    expect(readFileSync(place.file()).equals(before)).toBe(true);
  });

  test('applies a migration completely or not at all', () => {
    using place = folder();
    const [step, broken] = ['004-step.sql', '005-broken.sql'].map((file) => pathToFileURL(place.file(file)));
    if (step === undefined || broken === undefined) throw new Error('no steps');
    writeFileSync(step, 'CREATE TABLE step (a);');
    writeFileSync(broken, 'CREATE TABLE half (a); CREATE TABEL other (a);');
    openDatabase(place.file()).close();
    expect(() => openDatabase(place.file(), [...MIGRATIONS, step, broken])).toThrow('syntax error');
    const db = openDatabase(place.file(), [...MIGRATIONS, step]);
    expect(db.pragma('user_version', { simple: true })).toBe(MIGRATIONS.length + 1);
    const made = db.prepare("SELECT name FROM sqlite_schema WHERE name IN ('step', 'half')").pluck().all();
    expect(made).toEqual(['step']);
    db.close();
  });

  test("refuses another program's database", () => {
    using place = folder();
    new Database(place.file()).exec('CREATE TABLE theirs (a)').close();
    expect(refusal(place.file()).message).toContain('not a database of Conch');
  });

  test('refuses a file that is not a database', () => {
    using place = folder();
    writeFileSync(place.file(), 'once upon a time '.repeat(500));
    expect(refusal(place.file())).toMatchObject({
      code: 'corrupt',
      message: expect.stringContaining('restore the last backup'),
    });
  });

  test('refuses a truncated file', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.close();
    const bytes = readFileSync(place.file());
    writeFileSync(place.file(), bytes.subarray(0, bytes.length - 4096));
    expect(() => open(place.file())).toThrow('is damaged');
  });

  test('refuses a folder in place of the file', () => {
    using place = folder();
    mkdirSync(place.file());
    expect(refusal(place.file())).toMatchObject({ code: 'unavailable' });
  });

  test('refuses a folder without write access with a clear message', () => {
    using place = folder();
    mkdirSync(place.file('closed'));
    chmodSync(place.path, 0o755);
    chmodSync(place.file('closed'), 0o555);
    asNobody(() => {
      expect(refusal(place.file('closed/conch.db'))).toMatchObject({
        code: 'read-only',
        message: expect.stringContaining('write access'),
      });
    });
  });

  test('refuses a file without write access with a clear message', () => {
    using place = folder();
    openDatabase(place.file()).close();
    chmodSync(place.path, 0o755);
    chmodSync(place.file(), 0o444);
    asNobody(() => expect(refusal(place.file())).toMatchObject({ code: 'read-only' }));
    chmodSync(place.file('conch.lock'), 0o666);
    asNobody(() => expect(refusal(place.file())).toMatchObject({ code: 'read-only' }));
  });
});

describe('a full disk', () => {
  test('refuses commands without space for them, loses nothing, and recovers', async () => {
    using place = folder();
    const db = openDatabase(place.file());
    const store = new FloorStore(db, options(place.file()));
    await seat(store);
    await write(store, 'm1');
    db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true })) + 8}`);
    const kept: string[] = [];
    const refused: unknown[] = [];
    for (let n = 2; n < 40; n += 1) {
      const accepted = store.accept(written(`m${n}`, 'x'.repeat(3000)));
      await accepted.then(
        () => kept.push(`m${n}`),
        (error: unknown) => refused.push(error),
      );
    }
    expect(kept.length).toBeGreaterThan(0);
    expect(refused[0]).toMatchObject({
      name: 'StoreError',
      code: 'full',
      message: expect.stringContaining('free some space'),
    });
    expect(store.floors.state('test:one')?.turn?.agent).toBe('pm');
    expect(store.verify()).toEqual([]);
    db.pragma('max_page_count = 1000000');
    await turn(store, 'still here');
    expect(await store.accept(written('m99'))).toBe('new');
    const unapplied = await store.recover();
    expect(unapplied.map((message) => message.id)).toEqual([...kept, 'm99']);
    expect(store.verify()).toEqual([]);
    await store.close();
  });
});

/** Runs as user nobody: the superuser may write everywhere. */
function asNobody(run: () => void): void {
  if (process.geteuid?.() !== 0) return run();
  process.seteuid?.('nobody');
  try {
    run();
  } finally {
    process.seteuid?.(0);
  }
}
