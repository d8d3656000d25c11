import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { makePrivateFolder, unusedName } from '../../lib/private-file.ts';
import { StoreError, sentence, storeError } from '../errors.ts';
import { fileProblems } from './check.ts';
import { lockFile } from './lock.ts';
import { lockOf, openToRead } from './open.ts';

/**
 * Copies a database in use into one new file, consistent and complete, and marks the copy as a backup.
 * Whoever opens the copy as a store gets new outbox ids and is told so. Never overwrites a file.
 */
export async function backUp(db: Database.Database, path: string): Promise<void> {
  if (existsSync(path))
    throw new StoreError('unavailable', `${path} exists already. Choose another name for the backup.`);
  const partial = `${path}.part`;
  try {
    closeSync(openSync(partial, 'w', 0o600));
    await db.backup(partial);
    markBackup(partial);
    renameSync(partial, path);
  } finally {
    rmSync(partial, { force: true });
  }
}

/**
 * Puts a backup, or any file of a store, in the place of a database that nobody has open; what was there is put aside. Makes the folder if it
 * is missing.
 * Returns the name of that, `null` if there was nothing. Every moment of it may be the last: done again, it comes to the same.
 * Rejects with a `StoreError`, changing nothing, when the file is missing, damaged or newer, or the database is in use.
 */
export async function restore(file: string, path: string): Promise<string | null> {
  if (!existsSync(file)) throw new StoreError('unavailable', `There is no file ${file}. Name the backup to restore.`);
  makeFolderOf(path);
  const lock = lockFile(lockOf(path));
  if (lock === null) throw new StoreError('locked', sentence('locked', path, 'its lock is taken'));
  try {
    const fresh = `${path}.restoring`;
    await copySound(file, fresh);
    const aside = putAside(path);
    renameSync(fresh, path);
    return aside;
  } catch (error) {
    throw storeError(error, file);
  } finally {
    lock.release();
  }
}

function makeFolderOf(path: string): void {
  try {
    makePrivateFolder(dirname(path));
  } catch (error) {
    throw storeError(error, path);
  }
}

async function copySound(file: string, fresh: string): Promise<void> {
  const db = openToRead(file);
  try {
    const [found] = fileProblems(db);
    if (found !== undefined) throw new StoreError('corrupt', sentence('corrupt', file, found));
    rmSync(fresh, { force: true });
    closeSync(openSync(fresh, 'w', 0o600));
    await db.backup(fresh);
  } finally {
    db.close();
  }
  markBackup(fresh);
}

/** The log goes first: a database without it is refused, one beside another's log would be damaged. */
function putAside(path: string): string | null {
  if (!existsSync(path)) return null;
  const aside = unusedName(`${path}.before-restore`);
  if (existsSync(`${path}-wal`)) renameSync(`${path}-wal`, `${aside}-wal`);
  rmSync(`${path}-shm`, { force: true });
  linkSync(path, aside);
  return aside;
}

/** What a file says of itself. */
export type FileMarks = {
  /** Begins every id of the outbox, and is never used by another file. */
  readonly storeId: string;
  /** That id was made just now. */
  readonly isNew: boolean;
  /** It is a restored backup, and its machines were not told so yet. */
  readonly isRestored: boolean;
  /** Its last owner closed it in good order, and noted what it was in the middle of. */
  readonly endedWell: boolean;
  /** Whoever opened it just now, and who did before; every start has a name of its own. */
  readonly owner: string;
  readonly former: string | null;
};

/** Called once with every start: a file that was restored gets a new id, and stays marked until `noteTold`. */
export function readMarks(db: Database.Database, newId: () => string): FileMarks {
  const read = db.prepare<[string], string>('SELECT value FROM meta WHERE name = ?').pluck();
  const write = db.prepare<[string, string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  return db
    .transaction((): FileMarks => {
      const isCopy = read.get('backup') !== undefined;
      const known = read.get('issuer');
      const endedWell = read.get('ended') !== undefined;
      if (endedWell) db.exec("DELETE FROM meta WHERE name = 'ended'");
      const isNew = known === undefined || isCopy;
      const storeId = isNew ? newId() : known;
      const former = read.get('owner') ?? null;
      const owner = `${storeId}.${Number(former?.split('.')[1] ?? 0) + 1}`;
      write.run('owner', owner);
      if (isNew) write.run('issuer', storeId);
      if (isCopy) write.run('restored', 'yes');
      if (isCopy) db.exec("DELETE FROM meta WHERE name = 'backup'");
      return { storeId, isNew, isRestored: read.get('restored') !== undefined, endedWell, owner, former };
    })
    .immediate();
}

/** Whoever opens the file next finds nothing that was cut short. */
export function noteEndedWell(db: Database.Database): void {
  db.exec("INSERT OR REPLACE INTO meta VALUES ('ended', 'well')");
}

/** The machines know that the file was restored. */
export function noteTold(db: Database.Database): void {
  db.exec("DELETE FROM meta WHERE name = 'restored'");
}

function markBackup(path: string): void {
  const copy = new Database(path);
  try {
    copy.pragma('journal_mode = DELETE');
    copy.exec("INSERT OR REPLACE INTO meta VALUES ('backup', 'yes')");
  } finally {
    copy.close();
  }
}

/** What is said when a backup is done. */
export function copied(file: string): string {
  return `The database was copied to ${file}.`;
}
