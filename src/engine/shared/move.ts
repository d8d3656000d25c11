import { StoreError, sentence, storeError } from '../errors.ts';
import { movedTo, noteMoved } from '../sqlite/backup.ts';
import { openDatabase, openToRead } from '../sqlite/open.ts';
import { sharedRows } from './replica.ts';
import type { SharedRow } from './shared-log.ts';

/** All rows of a store that is moved to a shared log. `id`: the name of the store; it becomes the name of the log. */
export type MovedRows = {
  readonly id: string;
  readonly rows: Iterable<SharedRow>;
  /** Called when all rows are written and checked, just before they become durable. */
  readonly ready: () => void;
};

/**
 * Writes all rows into an empty log, or none. Resolves with the number of rows; with `null` when the log already has
 * the name of this store.
 */
export type FillLog = (rows: MovedRows) => Promise<number | null>;

/**
 * Moves a store from its file to a shared log, and marks the file as moved to `target`. The file must have been closed
 * in good order. Resolves with the number of rows; with `null` when the log already has the store. Moving again is
 * safe: the log takes the rows of a store once. Rejects with a `StoreError`, and moves nothing, when a process uses the
 * file, or when the file was moved elsewhere or never used. Rejects also when `fill` rejects.
 */
export async function moveRows(path: string, target: string, fill: FillLog): Promise<number | null> {
  const db = openDatabase(path);
  try {
    const id = db.prepare<[], string>("SELECT value FROM meta WHERE name = 'issuer'").pluck().get();
    const known = movedTo(db) ?? target;
    if (known !== target) throw new StoreError('unavailable', `${path} was moved to ${known} already.`);
    if (id === undefined) throw new StoreError('unavailable', sentence('unavailable', path, 'it was never used'));
    const ready = (): void => {
      try {
        noteMoved(db, target);
      } catch (error) {
        throw storeError(error, path);
      }
    };
    const moved = await fill({ id, rows: sharedRows(db), ready });
    ready();
    return moved;
  } finally {
    db.close();
  }
}

/** True when the store of a file was moved, or when a move was cut off before its end was known. */
export function wasMoved(path: string): boolean {
  const db = openToRead(path);
  try {
    return movedTo(db) !== null;
  } finally {
    db.close();
  }
}
