import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { MIGRATIONS, formerFile, openDatabase, openToRead } from '../../../src/engine/sqlite/open.ts';
import { folder, open, seat, write } from './fixture.ts';

/** Makes a file of this version with a message. Returns the migrations of a next version. */
async function former(place: ReturnType<typeof folder>): Promise<readonly URL[]> {
  const store = open(place.file());
  await seat(store);
  await write(store, 'm1');
  await store.close();
  const step = place.file('999-next.sql');
  writeFileSync(step, 'CREATE TABLE next (a);');
  return [...MIGRATIONS, pathToFileURL(step)];
}

describe('a file whose schema is migrated', () => {
  test('is first copied beside itself, only for its owner, as a backup with the whole journal', async () => {
    using place = folder();
    const next = await former(place);
    const said: string[] = [];
    const db = openDatabase(place.file(), next, (line) => said.push(line));
    expect(db.pragma('user_version', { simple: true })).toBe(next.length);
    const copy = formerFile(place.file(), MIGRATIONS.length);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    const kept = new Database(copy, { readonly: true });
    const rows = 'SELECT count(*) FROM journal';
    expect(kept.prepare(rows).pluck().get()).toBe(db.prepare(rows).pluck().get());
    expect(kept.prepare("SELECT value FROM meta WHERE name = 'backup'").pluck().get()).toBe('yes');
    expect(existsSync(`${copy}.part`)).toBe(false);
    expect(said).toEqual([expect.stringContaining(`is kept in ${copy}.`)]);
    kept.close();
    db.close();
  });

  test('is refused by the earlier version, which names the copy', async () => {
    using place = folder();
    openDatabase(place.file(), await former(place)).close();
    const copy = formerFile(place.file(), MIGRATIONS.length);
    expect(() => openDatabase(place.file())).toThrow(`conch restore ${copy}`);
  });

  test('is not read before a start has migrated it', async () => {
    using place = folder();
    const next = await former(place);
    expect(() => openToRead(place.file(), next)).toThrow('Start Conch once, then try again');
    openDatabase(place.file(), next).close();
    openToRead(place.file(), next).close();
  });

  test('is not changed when it cannot be copied', async () => {
    using place = folder();
    const next = await former(place);
    const part = `${formerFile(place.file(), MIGRATIONS.length)}.part`;
    mkdirSync(`${part}/in the way`, { recursive: true });
    expect(() => openDatabase(place.file(), next)).toThrow('cannot be used');
    rmSync(part, { recursive: true });
    const store = open(place.file());
    expect(store.message('m1')).not.toBeNull();
    expect(store.verify()).toEqual([]);
    await store.close();
  });
});
