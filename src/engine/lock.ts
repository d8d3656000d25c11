import { hash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Timer, Timers } from '../lib/time.ts';
import { StoreError } from './errors.ts';

/** A file that this process has locked, until `release` or the end of the process. */
export type FileLock = { release(): void };

/**
 * Locks a file for this process, and creates it if missing. The system releases the lock when the process ends in any
 * way. Returns `null` when another process, or this one by an earlier call, holds the lock longer than `waitMs`. Throws
 * the file system's error when the file cannot be created or opened.
 */
export function lockFile(path: string, waitMs = 0): FileLock | null {
  const db = openLock(path, waitMs);
  try {
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE; COMMIT');
    return { release: () => void db.close() };
  } catch (error) {
    db.close();
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')) return null;
    throw error;
  }
}

/** The path of a database's lock file. */
export function lockOf(path: string): string {
  return `${path.replace(/\.db$/u, '')}.lock`;
}

/**
 * Opens a lock file by SQLite, and creates the file if missing. An existing file is opened in no other way first:
 * closing another descriptor of a locked file in this process would release the lock.
 */
function openLock(path: string, waitMs: number): Database.Database {
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
  try {
    return new Database(path, { timeout: waitMs });
  } catch (error) {
    // SQLite could not open the file. The file system's error, thrown here, says why.
    closeSync(openSync(path, 'a'));
    throw error;
  }
}

/**
 * Checks the lock file once a second. Calls `lost` once when the path names no file, or another file than at the start.
 * Another process could lock a new file at the path. Cancel the timer to stop.
 */
export function watchLock(
  path: string,
  { timers, lost }: { readonly timers: Timers; readonly lost: () => void },
): Timer {
  const first = fileAt(path);
  const look = (): void => {
    if (first === null || fileAt(path) !== first) lost();
    else timer = timers.after(LOOK_MS, look);
  };
  let timer = timers.after(LOOK_MS, look);
  return { cancel: () => timer.cancel() };
}

const LOOK_MS = 1_000;

function fileAt(path: string): string | null {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}

/**
 * Locks a token, or another text, by a file in `folder`. Returns `null` when another process, or this one by an earlier
 * call, holds the lock. The file's name has a hash of the token, not the token. Throws a `StoreError` when this user
 * may not open the lock file.
 */
export function lockInstance(token: string, folder = tmpdir()): FileLock | null {
  const path = join(folder, `conch-${hash('sha256', token).slice(0, 24)}.lock`);
  try {
    return lockFile(path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EACCES')) throw error;
    throw new StoreError('read-only', `${path} ${OF_ANOTHER_USER}`, error);
  }
}

const OF_ANOTHER_USER =
  'belongs to another user, whose Conch may use the same token. Stop that Conch, then remove the file.';
