import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';

/** Columns of each table that can change; the seal of a row is a hash over them, so that silent damage shows. */
const SEALED = {
  inbox:
    'id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited, deleted, version, bot',
  floors: 'channel, seq, hash, deadline, floor',
  outbox:
    'n, id, channel, lane, queue, effect, part, text, type, epoch, key, repeats, state, cancelled, attempts, not_before, platform_id, why',
  agents: 'id, state',
  memory: 'owner, name, value',
} as const;

export type SealedTable = keyof typeof SEALED;

/** Teaches the connection the `seal` function that the statements below use. */
export function defineSeal(db: Database): void {
  db.function('seal', { varargs: true, deterministic: true }, (...values: unknown[]) => sealOf(values));
}

/** The statement that seals the rows of a table that match a condition. */
export function sealing(table: SealedTable, condition: string): string {
  return `UPDATE ${table} SET seal = seal(${SEALED[table]}) WHERE ${condition}`;
}

/** How many rows of a table match a condition and are not what was written. */
export function countBroken(db: Database, table: SealedTable, condition = 'TRUE'): number {
  const sql = `SELECT count(*) FROM ${table} WHERE (${condition}) AND seal IS NOT seal(${SEALED[table]})`;
  return Number(db.prepare(sql).pluck().get());
}

function sealOf(values: readonly unknown[]): Buffer {
  const plain = values.map((value) => (Buffer.isBuffer(value) ? value.toString('hex') : value));
  return hash('sha256', JSON.stringify(plain), 'buffer').subarray(0, 16);
}
