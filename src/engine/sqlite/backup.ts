import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import type { Core } from '../core.ts';
import { StoreError } from '../errors.ts';
import type { Floors } from './floors.ts';
import type { Journal } from './journal.ts';
import { doubtOutbox } from './outbox.ts';

/** By how much a restore raises every epoch: more turns than any floor can have granted since the copy was made. */
export const RESTORE_JUMP = 1_000_000;

/**
 * Copies a database in use into one new file, consistent and complete, and marks the copy as a backup.
 * Whoever opens the copy as a store gets new epochs and new outbox ids. Never overwrites a file.
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

/** What a restore changes. */
export type Restored = {
  readonly db: Database.Database;
  readonly journal: Journal;
  readonly floors: Floors;
  readonly core: Core;
};

/**
 * Called once with every start. If the file is a backup, acts and posts since the copy was made are unknown to it:
 * every epoch is raised, posts still owed become uncertain, and outbox ids get a new beginning. Returns that beginning.
 */
export function issuerOf(restored: Restored, at: Instant, newIssuer: () => string): string {
  const { db } = restored;
  const read = db.prepare<[string], string>('SELECT value FROM meta WHERE name = ?').pluck();
  const write = db.prepare<[string, string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  return db
    .transaction((): string => {
      const isCopy = read.get('backup') !== undefined;
      const known = read.get('issuer');
      if (known !== undefined && !isCopy) return known;
      const issuer = newIssuer();
      write.run('issuer', issuer);
      if (isCopy) restore(restored, at);
      return issuer;
    })
    .immediate();
}

function restore({ db, journal, floors, core }: Restored, at: Instant): void {
  const fact = { type: 'epochRaised', by: RESTORE_JUMP } as const;
  for (const channel of floors.channels()) {
    const head = floors.read(channel);
    if (head === null) continue;
    const floor = core.evolve(head.floor, fact, at);
    const tail = journal.append(channel, at, [fact], head.tail);
    floors.write(channel, { floor, tail }, { deadline: core.nextDeadline(floor), facts: [fact] });
  }
  doubtOutbox(db);
  db.exec("DELETE FROM meta WHERE name = 'backup'");
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
