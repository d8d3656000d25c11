import { hash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';

/** A token that this process alone uses on this machine, until it lets go of it or ends. */
export type InstanceLock = { release(): void };

/**
 * Claims a token for this process, by a lock that the system lifts when the process ends in any way; `null` when another
 * process on this machine has it. The token itself is not written anywhere.
 */
export function lockInstance(token: string, folder = tmpdir()): InstanceLock | null {
  const name = `conch-${hash('sha256', token).slice(0, 24)}.lock`;
  const db = new Database(join(folder, name), { timeout: 0 });
  try {
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE; COMMIT');
    return { release: () => db.close() };
  } catch (error) {
    db.close();
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')) return null;
    throw error;
  }
}
