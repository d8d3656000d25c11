import { copyFileSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { FloorStore, openFloorStore } from '../../../src/turns/floor-store.ts';
import { restore } from '../../../src/engine/sqlite/backup.ts';
import { openDatabase } from '../../../src/engine/sqlite/open.ts';
import { folder, open, options, seat, turn, write } from './fixture.ts';
import { runChild } from './process.ts';

const SIDES = ['conch.db', 'conch.db-wal'] as const;

/** Copies the present files into another folder, as a killed process leaves them. */
function asKilled(from: (name?: string) => string, to: (name?: string) => string): void {
  for (const name of [...SIDES, 'conch.mark']) copyFileSync(from(name), to(name));
}

describe('a file that lost confirmed commits at its end', () => {
  test('is refused, unchanged, when its log was removed', async () => {
    using place = folder();
    expect(await runChild('apply-and-die', place.file())).toMatchObject({ signal: 'SIGKILL' });
    rmSync(place.file('conch.db-wal'));
    const before = readFileSync(place.file());
    expect(() => open(place.file())).toThrow(
      /gone back to an earlier state \(its journal ends at row .* conch restore/,
    );
    expect(readFileSync(place.file()).equals(before)).toBe(true);
    expect(() => open(place.file())).toThrow(expect.objectContaining({ code: 'gone-back' }));
  });

  test('is refused when its log is an older one', async () => {
    using place = folder();
    using killed = folder();
    const store = open(place.file());
    await seat(store);
    await write(store, 'm1');
    copyFileSync(place.file('conch.db-wal'), killed.file('older-wal'));
    await turn(store, 'one');
    asKilled(place.file, killed.file);
    await open(killed.file()).close();
    asKilled(place.file, killed.file);
    copyFileSync(killed.file('older-wal'), killed.file('conch.db-wal'));
    expect(() => open(killed.file())).toThrow('gone back');
    await store.close();
  });

  test('is refused when an older copy replaced it', async () => {
    using place = folder();
    const first = open(place.file());
    await seat(first);
    await first.close();
    const older = readFileSync(place.file());
    const second = open(place.file());
    await write(second, 'm1');
    await second.close();
    writeFileSync(place.file(), older);
    expect(() => open(place.file())).toThrow('gone back');
  });
});

describe('a file without its mark', () => {
  test('T87 is refused after a kill when its log is gone, too', async () => {
    using place = folder();
    await open(place.file()).close();
    expect(await runChild('apply-and-die', place.file())).toMatchObject({ signal: 'SIGKILL' });
    for (const name of ['conch.db-wal', 'conch.mark']) rmSync(place.file(name));
    const before = readFileSync(place.file());
    for (const _ of ['first', 'second']) {
      expect(() => open(place.file())).toThrow(/gone back .* both its log and its mark are missing.* conch restore/);
      expect(readFileSync(place.file()).equals(before)).toBe(true);
    }
    await restore(place.file(), place.file());
    const store = open(place.file());
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('T87 is opened after a kill with its log, and after a normal end without a log', async () => {
    using place = folder();
    expect(await runChild('apply-and-die', place.file())).toMatchObject({ signal: 'SIGKILL' });
    for (const _ of ['killed', 'closed']) {
      rmSync(place.file('conch.mark'));
      await open(place.file()).close();
    }
  });
});

describe('an intact file', () => {
  test('is opened after a kill, even one right after its creation', async () => {
    using place = folder();
    using killed = folder();
    const store = open(place.file());
    asKilled(place.file, killed.file);
    await open(killed.file()).close();
    await seat(store);
    for (const id of ['m1', 'm2', 'm3']) {
      await write(store, id);
      asKilled(place.file, killed.file);
      const again = open(killed.file());
      expect(again.message(id)).not.toBeNull();
      await again.close();
    }
    await store.close();
    await open(place.file()).close();
  });

  test('is opened after a restore from a backup, beside the mark of the earlier file', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.backupTo(place.file('copy.db'));
    await write(store, 'm1');
    await store.close();
    copyFileSync(place.file('copy.db'), place.file());
    for (let start = 0; start < 2; start += 1) {
      const restored = open(place.file());
      expect(restored.message('m1')).toBeNull();
      await restored.close();
    }
  });

  test('is opened without a valid mark, and gets a mark that only its owner can read', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    await store.close();
    for (const leave of [() => rmSync(place.file('conch.mark')), () => writeFileSync(place.file('conch.mark'), '?')]) {
      leave();
      await open(place.file()).close();
      expect(readFileSync(place.file('conch.mark'), 'utf8')).toMatch(/^\w+ [1-9]\d* *$/u);
    }
    expect(statSync(place.file('conch.mark')).mode & 0o777).toBe(0o600);
  });

  test('has no mark when it is in memory', async () => {
    const store = openFloorStore(options(':memory:'));
    await store.close();
    expect(existsSync(':memory:.mark')).toBe(false);
  });

  test('gets its mark only after the disk has the data', async () => {
    using place = folder();
    const disk = Promise.withResolvers<void>();
    let syncs = 0;
    const slow = { sync: () => ((syncs += 1) === 1 ? disk.promise : null), close: () => undefined };
    const store = new FloorStore(openDatabase(place.file()), options(place.file(), { disk: slow }));
    const marked = (): string => readFileSync(place.file('conch.mark'), 'utf8');
    const before = marked();
    const seating = seat(store);
    await Promise.resolve();
    expect(syncs).toBe(1);
    expect(marked()).toBe(before);
    disk.resolve();
    await seating;
    expect(marked()).not.toBe(before);
    await store.close();
  });
});
