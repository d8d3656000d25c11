import { closeSync, fdatasyncSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import type Sqlite from 'better-sqlite3';

/** The SQLite driver that the product uses. A contestant may bring another version. */
export const Database = createRequire(new URL('../src/main.ts', import.meta.url))('better-sqlite3') as typeof Sqlite;

/** The fastest writer to an SQLite file, to compare Conch with: one transaction writes all waiting rows. */
export type GroupCommit = {
  /** Resolves once the row is on the disk. */
  write(lane: number, text: string): Promise<void>;
  close(): void;
};

/** `keeps`: all rows of a lane, or its last row. `together`: rows that wait share a transaction. */
export type GroupCommitWay = { readonly keeps: 'all' | 'latest'; readonly together: boolean };

/** Opens such a file. Default: it keeps all rows of a lane, and rows that wait share a transaction. */
export function openGroupCommit(
  path: string,
  { keeps, together }: GroupCommitWay = { keeps: 'all', together: true },
): GroupCommit {
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = NORMAL');
  db.pragma('cache_size = -65536');
  const columns =
    keeps === 'all'
      ? 'seq INTEGER, lane INTEGER, text TEXT, UNIQUE (lane, seq)'
      : 'seq INTEGER, lane INTEGER PRIMARY KEY, text TEXT';
  db.exec(`CREATE TABLE rows (${columns})`);
  const insert = db.prepare<[number, number, string]>('INSERT OR REPLACE INTO rows (seq, lane, text) VALUES (?, ?, ?)');
  const log = openSync(`${path}-wal`, 'r+');
  let waiting: { readonly lane: number; readonly text: string; readonly resolve: () => void }[] = [];
  let seq = 0;
  const flush = (): void => {
    const group = together ? waiting : waiting.slice(0, 1);
    waiting = together ? [] : waiting.slice(1);
    db.exec('BEGIN IMMEDIATE');
    for (const { lane, text } of group) insert.run((seq += 1), lane, text);
    db.exec('COMMIT');
    fdatasyncSync(log);
    for (const { resolve } of group) resolve();
    if (waiting.length > 0) queueMicrotask(flush);
  };
  return {
    write(lane, text) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ lane, text, resolve });
      if (waiting.length === 1) queueMicrotask(() => queueMicrotask(flush));
      return promise;
    },
    close() {
      closeSync(log);
      db.close();
    },
  };
}
