import type { Database } from 'better-sqlite3';
import { StoreError, isEnvironmental, isFatal, sentence, storeError } from '../errors.ts';
import { MEMORY } from './open.ts';

type Job = {
  /** Decides, writing nothing; what it returns writes, and that what is called once all is durable. */
  readonly decide: () => () => () => void;
  readonly fail: (error: unknown) => void;
};

/** What happens around each commit. */
export type CommitHooks = {
  /** Writes what is to go with it. */
  readonly beforeCommit: () => void;
  /** What was written is durable; called before anybody is told. */
  readonly committed: () => void;
  /** Work was rolled back; called before anybody is told. */
  readonly undone: () => void;
};

/**
 * Group commit. A job that comes alone is committed at the end of the current task; jobs that come while the event loop is
 * busy share one transaction, and jobs of the same task always do. A job decides before it writes: one that throws then takes nobody
 * else's work with it.
 */
export class Commits {
  readonly #db: Database;
  readonly #path: string;
  readonly #hooks: CommitHooks;
  #jobs: Job[] = [];
  #scheduled = false;
  #resting = true;
  #dead: StoreError | null = null;

  constructor(db: Database, path: string, hooks: CommitHooks) {
    this.#db = db;
    this.#path = path;
    this.#hooks = hooks;
  }

  /**
   * Decides on work, then writes it. Resolves with what the writing returned once that is durable; rejects with the error
   * of either, or a `StoreError`, when nothing of it is. `told` is called before whoever waits.
   */
  run<T>(decide: () => () => T, told: (result: T) => void = () => {}): Promise<T> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const attempt = (): (() => () => void) => {
      const write = decide();
      return () => {
        const result = write();
        return () => {
          told(result);
          resolve(result);
        };
      };
    };
    this.#jobs.push({ decide: attempt, fail: reject });
    this.#schedule();
    return promise;
  }

  /** Commits what waits and what is to be written last, as far as there is room, then closes the database. Later work is refused. */
  close(last: () => void): void {
    this.#flush();
    void this.run(() => last).catch(() => undefined);
    this.#flush();
    this.#die(new StoreError('unavailable', sentence('unavailable', this.#path, 'the store is closed')));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const flush = (): void => {
      this.#scheduled = false;
      this.#flush();
    };
    if (this.#resting) queueMicrotask(flush);
    else setImmediate(flush);
  }

  #flush(): void {
    const jobs = this.#jobs.splice(0);
    if (jobs.length === 0 || this.#dead !== null) return;
    this.#restAfterThisTurn();
    const settlements: (() => void)[] = [];
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      for (const job of jobs) settlements.push(this.#attempt(job));
      this.#hooks.beforeCommit();
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#fail(jobs, error);
      return;
    }
    this.#hooks.committed();
    for (const settle of settlements) settle();
  }

  #attempt(job: Job): () => void {
    let write;
    try {
      write = job.decide();
    } catch (error) {
      if (isEnvironmental(error)) throw error;
      return () => job.fail(error);
    }
    return write();
  }

  #fail(jobs: readonly Job[], error: unknown): void {
    const isLost = !this.#db.open || isFatal(error) || !this.#rollBack();
    const reported = isLost || isEnvironmental(error) ? storeError(error, this.#path) : error;
    if (isLost) this.#die(storeError(error, this.#path));
    else this.#hooks.undone();
    for (const job of jobs) job.fail(reported);
  }

  #rollBack(): boolean {
    try {
      if (this.#db.inTransaction) this.#db.exec('ROLLBACK');
      return true;
    } catch {
      return false;
    }
  }

  #die(error: StoreError): void {
    if (this.#dead !== null) return;
    this.#dead = error;
    for (const job of this.#jobs.splice(0)) job.fail(error);
    this.#db.close();
  }

  #restAfterThisTurn(): void {
    if (!this.#resting || this.#path === MEMORY) return;
    this.#resting = false;
    setImmediate(() => {
      this.#resting = true;
    }).unref();
  }
}
