import { closeSync, existsSync, linkSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { makePrivateFolder, unusedName } from '../../lib/private-file.ts';
import { StoreError, sentence, storeError } from '../errors.ts';
import { fileProblems } from './check.ts';
import { lockFile, lockOf } from '../lock.ts';
import { FORMER, openToCopy } from './open.ts';

/**
 * Copies a database in use into a new file, consistent and complete, and marks the copy as a backup. A store that
 * opens the copy gets new outbox ids. Rejects with a `StoreError` when the file exists.
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
 * Replaces a database that nobody has open with a backup or another store file, and keeps the replaced file under
 * another name. Creates the folder if it is missing. Resolves with the name of the kept file; with `null` when there
 * was none. An interrupted restore can be run again. Rejects with a `StoreError`, and leaves the database as it is,
 * when the file is missing or no sound database of Conch, or when a process uses the database.
 */
export async function restore(file: string, path: string): Promise<string | null> {
  if (!existsSync(file)) throw new StoreError('unavailable', `There is no file ${file}. Name the backup to restore.`);
  makeFolderOf(path);
  const lock = lockFile(lockOf(path));
  if (lock === null) throw new StoreError('locked', sentence('locked', path, 'its lock is taken'));
  const fresh = `${path}${FORMER.restoring}`;
  try {
    await copySound(file, fresh);
    const former = putAside(path);
    renameSync(fresh, path);
    return former;
  } catch (error) {
    throw storeError(error, file);
  } finally {
    rmSync(fresh, { force: true });
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
  const db = openToCopy(file);
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

/**
 * Keeps a database under another name. Moves its write-ahead log first: after a crash in between, a start notices that
 * the log is missing. The old log beside the new file could damage that file.
 */
function putAside(path: string): string | null {
  if (!existsSync(path)) return null;
  const former = unusedName(`${path}${FORMER.restored}`);
  if (existsSync(`${path}-wal`)) renameSync(`${path}-wal`, `${former}-wal`);
  rmSync(`${path}-shm`, { force: true });
  linkSync(path, former);
  return former;
}

type FileMarks = {
  /** Prefix of the id of each new outbox entry. Processes that share a store have the same prefix. */
  readonly storeId: string;
  readonly isNew: boolean;
  /** True when the file is a restored backup and the `restored` command was not yet given to its states. */
  readonly isRestored: boolean;
  /** True when the last owner closed the file cleanly and recorded the entries in flight. */
  readonly endedWell: boolean;
  /** The name of this start; each start has its own. `former`: the name of the start before; `null` for none. */
  readonly owner: string;
  readonly former: string | null;
};

/**
 * Reads the marks of a file and gives this start its name. Called once at each start. A restored file gets a new id,
 * and stays marked as restored until `noteTold`.
 */
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

/** Records that the owner closed the file cleanly. */
export function noteEndedWell(db: Database.Database): void {
  db.exec("INSERT OR REPLACE INTO meta VALUES ('ended', 'well')");
}

/** Removes the mark of a restored file. */
export function noteTold(db: Database.Database): void {
  db.exec("DELETE FROM meta WHERE name = 'restored'");
}

/** Records that the store is moved to `target`. A move calls it before and after the move is durable. */
export function noteMoved(db: Database.Database, target: string): void {
  db.prepare("INSERT OR REPLACE INTO meta VALUES ('moved', ?)").run(target);
}

/** Where the store of this file was moved to, also by a move that was cut off; `null` without a move. */
export function movedTo(db: Database.Database): string | null {
  return db.prepare<[], string>("SELECT value FROM meta WHERE name = 'moved'").pluck().get() ?? null;
}

/** Throws a `StoreError` when the store of this file was moved, or when a move was cut off. */
export function checkMoved(db: Database.Database, path: string): void {
  const target = movedTo(db);
  if (target !== null) throw new StoreError('unavailable', `${path} was moved to ${target}. ${GO_ON}`);
}

const GO_ON = 'Set "store" in the configuration to that database. When the move was cut off, finish it: conch move';

function markBackup(path: string): void {
  const copy = new Database(path);
  try {
    copy.pragma('journal_mode = DELETE');
    copy.exec("INSERT OR REPLACE INTO meta VALUES ('backup', 'yes')");
  } finally {
    copy.close();
  }
}

/** The line for people after a backup. */
export function copied(file: string): string {
  return `The database was copied to ${file}.`;
}
