import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import { StoreError } from '../errors.ts';
import type { Journal } from './journal.ts';
import type { Hosted, Machine } from '../machine.ts';
import { markUncertain } from './outbox.ts';
import type { States } from './states.ts';

/**
 * Copies a database in use into one new file, consistent and complete, and marks the copy as a backup.
 * Whoever opens the copy as a store is told to every state, and gets new outbox ids. Never overwrites a file.
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
export type Restored<State, Command, Fact> = {
  readonly db: Database.Database;
  readonly journal: Journal<Fact>;
  readonly states: States<State, Fact>;
  readonly machine: Pick<Machine<State, Command, Fact, unknown>, 'decide' | 'evolve'>;
  readonly hosted: Pick<Hosted<State, Command, Fact, unknown>, 'restored'>;
  /** The lanes in which nothing may be done twice. */
  readonly once: readonly string[];
};

/**
 * Called once with every start. If the file is a backup, acts and posts since the copy was made are unknown to it:
 * every state is told, posts still owed become uncertain, and outbox ids get a new beginning. Returns that beginning.
 */
export function storeId<State, Command, Fact>(
  restored: Restored<State, Command, Fact>,
  at: Instant,
  newId: () => string,
): string {
  const { db } = restored;
  const read = db.prepare<[string], string>('SELECT value FROM meta WHERE name = ?').pluck();
  const write = db.prepare<[string, string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  return db
    .transaction((): string => {
      const isCopy = read.get('backup') !== undefined;
      const known = read.get('issuer');
      if (known !== undefined && !isCopy) return known;
      const id = newId();
      write.run('issuer', id);
      if (isCopy) restore(restored, at);
      return id;
    })
    .immediate();
}

function restore<State, Command, Fact>(restored: Restored<State, Command, Fact>, at: Instant): void {
  const { db, journal, states, machine, hosted, once } = restored;
  for (const key of states.keys()) {
    const head = states.read(key);
    if (head === null) continue;
    const { facts } = machine.decide(head.state, hosted.restored, at);
    const state = facts.reduce((before, fact) => machine.evolve(before, fact, at), head.state);
    states.write(key, { state, tail: journal.append(key, at, facts, head.tail) }, facts);
  }
  markUncertain(db, once);
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
