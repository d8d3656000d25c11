import { StoreError, sentence } from '../errors.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy, Verdict } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import type { DiskSync } from '../sqlite/commits.ts';
import type { SharedLog, SharedRow } from './shared-log.ts';

const AGAIN: RetryPolicy = { firstMs: 50, longestMs: 2_000 };

/** Called after requests to the log: `failed` after an attempt that is repeated, `succeeded` after any answer. */
export type RequestsTold = { readonly failed: (error: unknown) => void; readonly succeeded: () => void };

/** Dependencies of a `LogDisk`. `changes` lists the rows that were written or deleted since its last call. */
type DiskParts = {
  readonly log: Pick<SharedLog, 'commit'>;
  readonly worker: string;
  readonly changes: () => readonly SharedRow[];
  readonly timers: Timers;
  readonly told?: RequestsTold;
};

/**
 * The disk of a shared store: a transaction of the leader is durable when the log has its rows. Repeats a failed
 * request until it succeeds or `close` is called. Rejects with a `StoreError` when the log refuses the rows.
 */
export class LogDisk implements DiskSync {
  readonly #parts: DiskParts;
  #number = 0;
  #isClosed = false;

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  sync(): Promise<void> | null {
    const rows = this.#parts.changes();
    return rows.length === 0 ? null : this.#send(rows);
  }

  close(): void {
    this.#isClosed = true;
  }

  async #send(rows: readonly SharedRow[]): Promise<void> {
    const { log, worker, timers, told } = this.#parts;
    this.#number += 1;
    const group = { worker, number: this.#number, rows };
    const judge = (): Verdict => (this.#isClosed ? 'give-up' : 'again');
    const waiting = ({ error }: { readonly error: unknown }): void => told?.failed(error);
    const isWritten = await retry(() => log.commit(group), AGAIN, { timers, judge, waiting });
    told?.succeeded();
    if (!isWritten)
      throw new StoreError('buried', sentence('buried', '', 'PostgreSQL refused the last write of this Conch. '));
  }
}
