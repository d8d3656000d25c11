import type { Database } from 'better-sqlite3';
import { StoreError, sentence } from '../errors.ts';
import type { Replayed } from '../replay.ts';
import { countBroken } from './rows.ts';
import { OPEN } from './outbox.ts';
import type { Rows } from './rows.ts';

/** What a check looks at; `replay` folds the journal of a key and is `null` for a machine that nobody hosts. */
export type Checked = {
  readonly db: Database;
  readonly path: string;
  readonly rows: Rows;
  readonly replay: (name: string, key: string) => Replayed | null;
};

/**
 * Checks what is about to be worked on: waiting messages and owed effects. States and the ends of their journals are checked
 * when they are loaded. Its cost does not grow with history. Throws a `StoreError` that says what is damaged.
 */
export function checkAtStart(db: Database, path: string): void {
  const damage = (what: string): StoreError => new StoreError('corrupt', sentence('corrupt', path, what));
  if (countBroken(db, 'inbox', 'fate IS NULL') > 0) throw damage('a waiting message is not what was written');
  if (countBroken(db, 'outbox', OPEN) > 0) throw damage('an owed effect is not what was written');
}

/** Checks everything: structure, checksums, every chain from its first row, and that every journal folds to its state. */
export function verifyAll(checked: Checked): readonly string[] {
  const { db, rows } = checked;
  return [
    ...integrityProblems(db),
    ...TABLES.filter((table) => countBroken(db, table) > 0).map((table) => `${table}: a row is not what was written`),
    ...rows.owners().flatMap(({ name, key }) => keyProblems(key, checked.replay(name, key))),
    ...strayRows(checked),
  ];
}

const TABLES = ['inbox', 'machines', 'outbox', 'memory', 'conversation'] as const;

function integrityProblems(db: Database): readonly string[] {
  const found = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  return found.filter((line) => line !== 'ok');
}

function keyProblems(key: string, replayed: Replayed | null): readonly string[] {
  if (replayed === null) return [];
  const { brokenAt, stoppedBy, equal } = replayed;
  const problems: string[] = [];
  if (brokenAt !== null) problems.push(`the journal of ${key} was changed at entry ${brokenAt}`);
  if (stoppedBy !== null) problems.push(`the journal of ${key} cannot be folded: ${stoppedBy}`);
  if (!equal) problems.push(`the state of ${key} is not the fold of its journal`);
  return problems;
}

/** Rows that no chain leads to: something was put in, or an end was cut off. */
function strayRows({ rows }: Checked): readonly string[] {
  let chained = 0;
  for (const { name, key } of rows.owners()) {
    const snapshot = rows.snapshot(name, key);
    if (snapshot !== null) for (const _ of rows.back(rows.end(snapshot))) chained += 1;
  }
  return chained === rows.count() ? [] : [`the journal has ${rows.count()} rows, of which ${chained} are in a chain`];
}
