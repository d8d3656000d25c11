import { StoreError, sentence } from '../errors.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy, Verdict } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import type { Sharing } from '../sqlite/commits.ts';
import type { ChangedRows } from './replica.ts';
import type { SharedLog, SharedRow } from './shared-log.ts';

const AGAIN: RetryPolicy = { firstMs: 50, longestMs: 2_000 };

/** Called after requests to the log: `failed` after an attempt that is repeated, `succeeded` after any answer. */
export type RequestHooks = { readonly failed: (error: unknown) => void; readonly succeeded: () => void };

/** Dependencies of a `LogDisk`. `write`: writes rows of the log into the copy. */
type DiskParts = {
  readonly log: Pick<SharedLog, 'commit'>;
  readonly worker: string;
  readonly changes: ChangedRows;
  readonly write: (rows: readonly SharedRow[]) => void;
  readonly timers: Timers;
  readonly hooks?: RequestHooks;
};

/**
 * The disk of a shared store: a transaction of the leader is durable when the log has its rows. Repeats a failed
 * request until it succeeds or `close` is called. Rejects with a `StoreError` when the log refuses the rows.
 */
export class LogDisk implements Sharing {
  readonly #parts: DiskParts;
  #number = 0;
  #isClosed = false;

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  publish(): Promise<() => void> | null {
    const { changes, write } = this.#parts;
    const rows = changes.list();
    if (rows.length === 0) return null;
    return this.#send(rows).then(() => () => {
      write(rows);
      changes.forget();
    });
  }

  close(): void {
    this.#isClosed = true;
  }

  async #send(rows: readonly SharedRow[]): Promise<void> {
    const { log, worker, timers, hooks } = this.#parts;
    this.#number += 1;
    const group = { worker, number: this.#number, rows };
    const judge = (): Verdict => (this.#isClosed ? 'give-up' : 'again');
    const waiting = ({ error }: { readonly error: unknown }): void => hooks?.failed(error);
    const isWritten = await retry(() => log.commit(group), AGAIN, { timers, judge, waiting });
    hooks?.succeeded();
    if (!isWritten)
      throw new StoreError('buried', sentence('buried', '', 'PostgreSQL refused the last write of this Conch. '));
  }
}
