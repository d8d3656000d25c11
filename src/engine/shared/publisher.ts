import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../errors.ts';
import { backoffMs } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Changes, RowCheck, SharedLog } from './shared-log.ts';
import type { Replica } from './replica.ts';

const AGAIN: RetryPolicy = { firstMs: 50, longestMs: 2_000 };

/** Writes the transactions of one worker to the shared log, and reads those of others. Waits while it is unreachable. */
export class Publisher {
  readonly #log: SharedLog;
  readonly #worker: string;
  readonly #replica: Replica;
  #number = 0;
  #isClosed = false;

  constructor(log: SharedLog, worker: string, replica: Replica) {
    this.#log = log;
    this.#worker = worker;
    this.#replica = replica;
  }

  /**
   * Writes the rows of the open transaction for all processes. Resolves with `false` when another process was first.
   * `null`: there is nothing to write. Rejects when this worker was declared dead.
   */
  publish(checks: readonly RowCheck[]): Promise<boolean> | null {
    const changes = this.#replica.changes();
    return changes.length + checks.length === 0 ? null : this.#write({ changes, checks });
  }

  async #write(rows: Pick<Parameters<SharedLog['commit']>[0], 'changes' | 'checks'>): Promise<boolean> {
    this.#number += 1;
    const group = { worker: this.#worker, number: this.#number, ...rows };
    const verdict = await this.#untilReached(() => this.#log.commit(group));
    if (verdict.state === 'buried') throw new StoreError('buried', BURIED);
    // A group that only checks has no position of its own.
    if (verdict.state === 'taken' && rows.changes.length > 0) this.#replica.taken(verdict.position);
    return verdict.state === 'taken';
  }

  /** Everything that changed since the copy was last brought up to date, in portions. */
  async *changes(): AsyncGenerator<Changes> {
    for (let isAll = false; !isAll;) {
      const changes = await this.#untilReached(() => this.#log.pull(this.#replica.position));
      yield changes;
      ({ isAll } = changes);
    }
  }

  /** Declares a worker dead. */
  bury(worker: string): Promise<void> {
    return this.#untilReached(() => this.#log.bury(worker));
  }

  /** The workers among these that are not living. */
  async goneOf(workers: readonly string[]): Promise<readonly string[]> {
    const living = new Set(await this.#untilReached(() => this.#log.living()));
    return workers.filter((worker) => !living.has(worker));
  }

  /** Leaves the log in good order. When it cannot be reached, another process will declare this worker dead. */
  async leave(): Promise<void> {
    this.#isClosed = true;
    await this.#log.leave(this.#worker).catch(() => undefined);
    await this.#log.close();
  }

  async #untilReached<T>(ask: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await ask();
      } catch (error) {
        if (this.#isClosed || error instanceof StoreError) throw error;
        await sleep(backoffMs(AGAIN, attempt));
      }
    }
  }
}

const BURIED =
  'Another process declared this one dead because it did not answer in time, and goes on with its work. Nothing of this process is written any more. Start it again.';
