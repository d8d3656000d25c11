import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import type { LedgerEntry, LedgerRow } from '../machine-uses.ts';
import { openToRead } from './open.ts';
import { checksum, inserter, rowChecksum } from './rows.ts';

/** The fact that reports a call: the `n`-th of a journal row, counted from 0. */
export type LedgerPlace = { readonly machine: number; readonly row: number; readonly n: number; readonly at: Instant };

/** Reports of usage, one row each: exactly those of the journal's facts. */
export class Ledger {
  readonly #add;
  readonly #of;

  constructor(db: Database) {
    this.#add = inserter(db, 'ledger');
    this.#of = db
      .prepare<[number, number], string>(
        `SELECT lower(hex(${checksum('ledger')})) FROM ledger WHERE machine = ? AND row <= ? ORDER BY row, n`,
      )
      .pluck();
  }

  add(place: LedgerPlace, entry: LedgerEntry): void {
    this.#add(rowOf(place, entry));
  }

  /** True when the ledger's rows of a key up to journal row `upto` are exactly `entries`, in this order. */
  holds(machine: number, upto: number, entries: readonly (readonly [LedgerPlace, LedgerEntry])[]): boolean {
    const found = this.#of.all(machine, upto);
    return (
      found.length === entries.length &&
      entries.every((each, index) => rowChecksum('ledger', rowOf(...each)) === found[index])
    );
  }
}

/**
 * Ledger rows since an instant in a database file, in the journal's order. Throws a `StoreError` when the file cannot
 * be opened.
 */
export function readLedger(path: string, since: Instant): readonly LedgerRow[] {
  const db = openToRead(path);
  try {
    return db
      .prepare<[Instant], LedgerRow>(
        `SELECT m.key, l.at, l.agent, l.epoch, l.run, l.requested_by AS requestedBy, l.backend, l.model, l.tokens, l.input, l.output,
           l.cached, l.cost AS costMicros, l.source, l.outcome, l.ms
         FROM ledger l JOIN machines m ON m.id = l.machine WHERE l.at >= ? ORDER BY l.row, l.n`,
      )
      .all(since);
  } finally {
    db.close();
  }
}

function rowOf(place: LedgerPlace, { requestedBy, costMicros, ...entry }: LedgerEntry) {
  return { ...place, ...entry, requested_by: requestedBy, cost: costMicros };
}
