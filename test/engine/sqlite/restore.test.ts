import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { restore } from '../../../src/engine/sqlite/backup.ts';
import { MIGRATIONS, openDatabase, openToRead } from '../../../src/engine/sqlite/open.ts';
import { folder, open, seat, turn, write } from './fixture.ts';
import { runChild } from './process.ts';

/** Makes a database and beside it an earlier backup. */
async function withBackup(file: (name?: string) => string): Promise<void> {
  const store = open(file());
  await seat(store);
  await write(store, 'm1');
  await store.backupTo(file('copy.db'));
  await turn(store, 'one');
  await store.close();
}

describe('a restore', () => {
  test('replaces the database by the backup, and keeps the old files', async () => {
    using place = folder();
    await withBackup(place.file);
    const was = readFileSync(place.file());
    expect(await restore(place.file('copy.db'), place.file())).toBe(place.file('conch.db.before-restore'));
    expect(readFileSync(place.file('conch.db.before-restore')).equals(was)).toBe(true);
    expect(statSync(place.file()).mode & 0o777).toBe(0o600);
    const store = open(place.file());
    expect(store.floors.state('test:one')?.turn?.agent).toBe('pm');
    await store.recover();
    expect(store.floors.state('test:one')?.epoch).toBeGreaterThan(1_000_000);
    expect(store.verify()).toEqual([]);
    await store.close();
    expect(existsSync(place.file('copy.db-wal'))).toBe(false);
  });

  test('continues from a database that has gone back', async () => {
    using place = folder();
    expect(await runChild('apply-and-die', place.file())).toMatchObject({ signal: 'SIGKILL' });
    rmSync(place.file('conch.db-wal'));
    expect(() => open(place.file())).toThrow('gone back');
    await restore(place.file(), place.file());
    const store = open(place.file());
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('keeps no old files for an empty folder', async () => {
    using place = folder();
    using other = folder();
    await withBackup(place.file);
    expect(await restore(place.file('copy.db'), other.file())).toBeNull();
    await open(other.file()).close();
  });

  test('accepts a backup of an earlier version, which the next start migrates', async () => {
    using place = folder();
    const backup = place.file('earlier.db');
    openDatabase(backup, MIGRATIONS.slice(0, 1)).close();
    expect(() => openToRead(backup)).toThrow(`conch restore ${backup}`);
    await restore(backup, place.file());
    const store = open(place.file());
    await seat(store);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('is refused, without a change, while the database is in use, and for a missing or damaged file', async () => {
    using place = folder();
    await withBackup(place.file);
    const was = readFileSync(place.file());
    const bytes = readFileSync(place.file('copy.db'));
    writeFileSync(place.file('cut.db'), bytes.subarray(0, bytes.length - 8192));
    writeFileSync(place.file('text.db'), 'no database'.repeat(500));
    await expect(restore(place.file('none.db'), place.file())).rejects.toThrow(
      `There is no file ${place.file('none.db')}`,
    );
    await expect(restore(place.file('cut.db'), place.file())).rejects.toMatchObject({ code: 'corrupt' });
    await expect(restore(place.file('text.db'), place.file())).rejects.toMatchObject({ code: 'corrupt' });
    expect(readFileSync(place.file()).equals(was)).toBe(true);
    const store = open(place.file());
    await expect(restore(place.file('copy.db'), place.file())).rejects.toMatchObject({ code: 'locked' });
    await store.close();
  });

  test('leaves no second copy of the backup when it fails', async () => {
    using place = folder();
    await withBackup(place.file);
    mkdirSync(place.file('taken.db'));
    await expect(restore(place.file('copy.db'), place.file('taken.db'))).rejects.toMatchObject({ name: 'StoreError' });
    expect(existsSync(place.file('taken.db.restoring'))).toBe(false);
  });

  test('can be repeated when it was interrupted, and the next start refuses the half-restored file', async () => {
    for (const moment of ['log aside', 'both'] as const) {
      using place = folder();
      await withBackup(place.file);
      const live = open(place.file());
      await write(live, 'm2');
      for (const name of ['conch.db', 'conch.db-wal', 'conch.mark'])
        writeFileSync(place.file(`killed-${name}`), readFileSync(place.file(name)));
      await live.close();
      for (const name of ['conch.db', 'conch.db-wal', 'conch.mark'])
        renameSync(place.file(`killed-${name}`), place.file(name));
      renameSync(place.file('conch.db-wal'), place.file('conch.db.before-restore-wal'));
      if (moment === 'both') writeFileSync(place.file('conch.db.before-restore'), readFileSync(place.file()));
      expect(() => open(place.file())).toThrow('gone back');
      await restore(place.file('copy.db'), place.file());
      const store = open(place.file());
      expect(store.message('m2')).toBeNull();
      expect(store.verify()).toEqual([]);
      await store.close();
    }
  });
});
