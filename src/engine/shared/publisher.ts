import { StoreError, sentence } from '../errors.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy, Verdict } from '../../lib/retry.ts';
import { systemTimers } from '../../lib/time.ts';
import type { Changes, RowCheck, SharedLog } from './shared-log.ts';
import type { Replica, WrittenRow } from './replica.ts';

type Written = { readonly changes: readonly WrittenRow[]; readonly checks: readonly RowCheck[] };

const AGAIN: RetryPolicy = { firstMs: 50, longestMs: 2_000 };

/**
 * Called after a publisher's requests: `failed` after a failed attempt that is repeated, `succeeded` after a success.
 */
export type RequestsTold = { readonly failed: (error: unknown) => void; readonly succeeded: () => void };

/**
 * Sends the transactions of one worker to the shared log, and reads the changes. Repeats a request that fails, but not
 * one that fails with a `StoreError`, and none after `leave`.
 */
export class Publisher {
  readonly #log: SharedLog;
  readonly #worker: string;
  readonly #replica: Replica;
  readonly #told: RequestsTold | undefined;
  #number = 0;
  #isClosed = false;

  constructor(log: SharedLog, worker: string, replica: Replica, told?: RequestsTold) {
    this.#log = log;
    this.#worker = worker;
    this.#replica = replica;
    this.#told = told;
  }

  /**
   * Sends the rows of the open transaction to the log. When the log has written them, resolves with a function that
   * writes them into the copy; with `null` when another process changed one of the rows or `checks` first. Returns
   * `null` when there is nothing to write or to check. Rejects when this worker was declared dead or has left.
   */
  publish(checks: readonly RowCheck[]): Promise<(() => void) | null> | null {
    const changes = this.#replica.changes();
    return changes.length + checks.length === 0 ? null : this.#write({ changes, checks });
  }

  async #write(rows: Written): Promise<(() => void) | null> {
    this.#number += 1;
    const group = { worker: this.#worker, number: this.#number, ...rows };
    const verdict = await this.#untilReached(() => this.#log.commit(group));
    if (verdict.state === 'buried')
      throw new StoreError('buried', sentence('buried', '', 'The last change of this Conch was refused. '));
    if (verdict.state === 'overtaken') return null;
    // A group without changes gets no new position.
    return () => (rows.changes.length > 0 ? this.#replica.taken(rows.changes, verdict.position) : undefined);
  }

  async *changes(): AsyncGenerator<Changes> {
    for (let isAll = false; !isAll;) {
      const changes = await this.#untilReached(() => this.#log.pull(this.#replica.position));
      yield changes;
      ({ isAll } = changes);
    }
  }

  bury(worker: string): Promise<void> {
    return this.#untilReached(() => this.#log.bury(worker));
  }

  async goneOf(workers: readonly string[]): Promise<readonly string[]> {
    const living = new Set(await this.#untilReached(() => this.#log.living()));
    return workers.filter((worker) => !living.has(worker));
  }

  async leave(): Promise<void> {
    this.#isClosed = true;
    await this.#log.leave(this.#worker).catch(() => undefined);
    await this.#log.close();
  }

  async #untilReached<T>(ask: () => Promise<T>): Promise<T> {
    const judge = ({ error }: { readonly error: unknown }): Verdict =>
      this.#isClosed || error instanceof StoreError ? 'give-up' : 'again';
    const waiting = ({ error }: { readonly error: unknown }): void => this.#told?.failed(error);
    const answer = await retry(ask, AGAIN, { timers: systemTimers, judge, waiting });
    this.#told?.succeeded();
    return answer;
  }
}
