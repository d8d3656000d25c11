import { hash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Timer, Timers } from '../../lib/time.ts';

/** A file that this process alone has locked, until it lets go of it or ends. */
export type FileLock = { release(): void };

/**
 * Locks a file, made if missing, for this process, by a lock that the system lifts when the process ends in any way; `null` when
 * another one has it and does not let go of it within `waitMs`. Throws what the file system says when it cannot be made.
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

/** Opened by SQLite alone if it is there: whatever else closed it in this process would lift the lock. */
function openLock(path: string, waitMs: number): Database.Database {
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
  try {
    return new Database(path, { timeout: waitMs });
  } catch (error) {
    // SQLite could not open it: nobody in this process has it, and the file system says why.
    closeSync(openSync(path, 'a'));
    throw error;
  }
}

/**
 * Watches the lock file of this process, once a second: calls `lost`, once, when the path names another file than at first, or none.
 * Another process can lock the new file, so that the lock keeps nobody away any more. Cancel it to end the watch.
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

/** Device and number of the file that a path names; `null`: there is none. */
function fileAt(path: string): string | null {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}

/** Claims a token for this process; `null` when another process on this machine has it. The token itself is not written anywhere. */
export function lockInstance(token: string, folder = tmpdir()): FileLock | null {
  return lockFile(join(folder, `conch-${hash('sha256', token).slice(0, 24)}.lock`));
}
