import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';

/** Columns of each table that can change; the checksum of a row is a hash over them, so that silent damage shows. */
const CHECKED = {
  inbox:
    'id channel sort position author_id author_name text sent_at addressed attachments ignore_rule fate edited deleted version bot since',
  machines: 'id name key row version deadline state',
  outbox: 'n id channel lane type effect part text key repeats state platform_id why',
  agents: 'id state',
  memory: 'owner name value',
} as const;

export type CheckedTable = keyof typeof CHECKED;

/** Teaches the connection the functions that the statements below and the earlier migrations use. */
export function defineChecksum(db: Database): void {
  for (const name of ['checksum', 'seal']) {
    db.function(name, { varargs: true, deterministic: true }, (...values: unknown[]) => checksumOf(values));
  }
}

/** The checksum of a row as SQL, for the statement that writes it; columns in `given` are that statement's parameters of the same name. */
export function checksum(table: CheckedTable, given: readonly string[] | 'all' = []): string {
  const columns = CHECKED[table].split(' ');
  return `checksum(${columns.map((column) => (given === 'all' || given.includes(column) ? `@${column}` : column)).join(', ')})`;
}

/** How many rows of a table match a condition and are not what was written. */
export function countBroken(db: Database, table: CheckedTable, condition = 'TRUE'): number {
  const sql = `SELECT count(*) FROM ${table} WHERE (${condition}) AND checksum IS NOT ${checksum(table)}`;
  return Number(db.prepare(sql).pluck().get());
}

function checksumOf(values: readonly unknown[]): Buffer {
  const plain = values.map((value) => (Buffer.isBuffer(value) ? value.toString('hex') : value));
  return hash('sha256', JSON.stringify(plain), 'buffer').subarray(0, 16);
}
