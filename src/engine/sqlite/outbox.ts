import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import type { Cancel, Debt } from '../machine.ts';
import type { Lease, OwedEffect, Settlement } from '../port.ts';
import { checksumming } from './checksum.ts';

type Row = {
  readonly n: number;
  readonly id: string;
  readonly channel: string;
  readonly lane: string;
  readonly effect: string;
  readonly part: number;
  readonly text: string | null;
  readonly key: string | null;
  readonly repeats: number;
  readonly state: string;
  readonly attempts: number;
  readonly not_before: number;
  readonly cancelled: number;
};

/** The condition of rows that are not done. */
export const OPEN = "state IN ('owed', 'inflight', 'uncertain')";
const HEADS = `
  WITH RECURSIVE queues (queue) AS (
    SELECT min(queue) FROM outbox WHERE ${OPEN}
    UNION ALL
    SELECT (SELECT min(o.queue) FROM outbox o WHERE ${OPEN} AND o.queue > queues.queue) FROM queues WHERE queue IS NOT NULL
  )
  SELECT o.* FROM queues
  JOIN outbox o ON o.n = (SELECT min(n) FROM outbox WHERE ${OPEN} AND queue = queues.queue)
  WHERE queues.queue IS NOT NULL AND o.state <> 'inflight'
  ORDER BY o.n`;

/** Rows that the world is owed, in lanes. */
export class Outbox {
  readonly #storeId: string;
  #n: number;
  readonly #insert;
  readonly #checksum;
  readonly #cancelOwed;
  readonly #cancelInflight;
  readonly #heads;
  readonly #lease;
  readonly #read;
  readonly #settle;
  readonly #remove;
  readonly #lastPosted;
  readonly #lastAnnounced;

  /** `storeId` begins every id and is never used by another file. */
  constructor(db: Database, storeId: string) {
    this.#storeId = storeId;
    this.#n = Number(db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'").pluck().get() ?? 0);
    this.#insert = db.prepare(
      `INSERT INTO outbox (n, id, channel, lane, queue, effect, part, text, type, epoch, key, repeats)
       VALUES (@n, @id, @channel, @lane, @queue, @effect, @part, @text, @type, @epoch, @key, @repeats)`,
    );
    this.#checksum = db.prepare<[number]>(checksumming('outbox', 'n = ?'));
    const stale = `queue = ? AND ${OPEN} AND type = ? AND epoch <= ?`;
    this.#cancelOwed = db.prepare<[string, string, number]>(`DELETE FROM outbox WHERE ${stale} AND state = 'owed'`);
    this.#cancelInflight = db
      .prepare<[string, string, number], number>(`UPDATE outbox SET cancelled = 1 WHERE ${stale} RETURNING n`)
      .pluck();
    this.#heads = db.prepare<[], Row>(HEADS);
    this.#lease = db.prepare<[number]>("UPDATE outbox SET state = 'inflight', attempts = attempts + 1 WHERE n = ?");
    this.#read = db.prepare<[number, string], Row>('SELECT * FROM outbox WHERE n = ? AND id = ?');
    this.#settle = db.prepare<[string, number, string | null, string | null, number]>(
      'UPDATE outbox SET state = ?, not_before = ?, platform_id = ?, why = ? WHERE n = ?',
    );
    this.#remove = db.prepare<[number]>('DELETE FROM outbox WHERE n = ?');
    this.#lastPosted = db
      .prepare<[string, number], string>(
        `SELECT platform_id FROM outbox WHERE channel = ? AND n < ? AND platform_id IS NOT NULL ORDER BY n DESC LIMIT 1`,
      )
      .pluck();
    this.#lastAnnounced = db
      .prepare<[string, string, number], string>(
        `SELECT platform_id FROM outbox WHERE channel = ? AND key = ? AND n < ? AND platform_id IS NOT NULL
         ORDER BY n DESC LIMIT 1`,
      )
      .pluck();
  }

  /** Writes down what is owed, and takes back what is not sent yet. */
  owe(all: readonly (Debt | Cancel)[]): void {
    for (const owed of all) {
      if (owed.type === 'cancel') this.#cancel(owed);
      else this.#add(owed);
    }
  }

  /** Leases the first row of every lane that may go now, oldest first; `next` is when a lane that must wait may go on. */
  lease(limit: number, at: Instant): Lease<unknown> {
    const heads = this.#heads.all();
    const rows = heads.filter((row) => row.not_before <= at).slice(0, limit);
    const waiting = heads.filter((row) => row.not_before > at).map((row) => row.not_before);
    for (const row of rows) {
      this.#lease.run(row.n);
      this.#checksum.run(row.n);
    }
    const next = waiting.length === 0 ? null : waiting.reduce((a, b) => Math.min(a, b));
    return { rows: rows.map((row) => this.#outboxRow(row)), next };
  }

  /** Ends a lease. A row that is not leased, or not known, is left as it is. */
  settle(row: OwedEffect<unknown>, settlement: Settlement): void {
    const stored = this.#read.get(Number(row.id.slice(row.id.lastIndexOf('-') + 1)), row.id);
    if (stored === undefined || stored.state !== 'inflight') return;
    switch (settlement.state) {
      case 'confirmed':
        return this.#confirm(stored, settlement.platformId ?? row.editsId);
      case 'retry':
        return this.#again(stored, row.uncertain ? 'uncertain' : 'owed', settlement.notBefore);
      case 'uncertain':
        return this.#again(stored, 'uncertain', settlement.notBefore);
      case 'failed':
        return this.#close(stored.n, ['failed', 0, null, settlement.why]);
    }
  }

  #add(debt: Debt): void {
    const { channel, lane, effect, kind, epoch, key, repeats } = debt;
    for (const [part, text] of debt.texts.entries()) {
      const n = (this.#n += 1);
      this.#insert.run({
        n,
        id: `${this.#storeId}-${n}`,
        channel,
        lane,
        queue: queueOf(channel, lane),
        effect: JSON.stringify(effect),
        part,
        text,
        type: kind,
        epoch,
        key: part === 0 ? key : null,
        repeats,
      });
      this.#checksum.run(n);
    }
  }

  #cancel({ channel, lane, kinds, upto }: Cancel): void {
    const queue = queueOf(channel, lane);
    for (const kind of kinds) {
      this.#cancelOwed.run(queue, kind, upto);
      for (const n of this.#cancelInflight.all(queue, kind, upto)) this.#checksum.run(n);
    }
  }

  #confirm(row: Row, platformId: string | null): void {
    if (row.text !== null) this.#close(row.n, ['confirmed', 0, platformId, null]);
    else this.#remove.run(row.n);
  }

  #again(row: Row, state: 'owed' | 'uncertain', notBefore: Instant): void {
    if (row.cancelled === 1) this.#remove.run(row.n);
    else this.#close(row.n, [state, notBefore, null, null]);
  }

  #close(n: number, outcome: readonly [string, number, string | null, string | null]): void {
    this.#settle.run(...outcome, n);
    this.#checksum.run(n);
  }

  #outboxRow(row: Row): OwedEffect<unknown> {
    return {
      id: row.id,
      channel: row.channel,
      lane: row.lane,
      effect: JSON.parse(row.effect),
      part: row.part,
      text: row.text,
      attempts: row.attempts,
      uncertain: row.state === 'uncertain',
      afterId: this.#lastPosted.get(row.channel, row.n) ?? null,
      editsId:
        row.key === null || row.repeats < 2 ? null : (this.#lastAnnounced.get(row.channel, row.key, row.n) ?? null),
    };
  }
}

/**
 * After a crash: nobody knows what became of rows in flight. Those in lanes that people see may have been; others are
 * done again.
 */
export function recoverOutbox(db: Database, seen: readonly string[]): void {
  db.exec(`
    DELETE FROM outbox WHERE state = 'inflight' AND cancelled = 1;
    UPDATE outbox SET not_before = 0 WHERE ${OPEN};`);
  const uncertain = db.prepare("UPDATE outbox SET state = 'uncertain' WHERE state = 'inflight' AND lane = ?");
  for (const lane of seen) uncertain.run(lane);
  db.exec(`
    UPDATE outbox SET state = 'owed' WHERE state = 'inflight';
    ${checksumming('outbox', OPEN)};`);
}

/** After a restore: what the copy still owed in these lanes may have been done since it was made. */
export function markUncertain(db: Database, lanes: readonly string[]): void {
  const uncertain = db.prepare("UPDATE outbox SET state = 'uncertain' WHERE state = 'owed' AND lane = ?");
  for (const lane of lanes) uncertain.run(lane);
  db.exec(`${checksumming('outbox', OPEN)};`);
}

function queueOf(channel: string, lane: string): string {
  return `${channel} ${lane}`;
}
