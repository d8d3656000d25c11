import type { Database } from 'better-sqlite3';
import { StoreError, isEnvironmental, isFatal, sentence, storeError } from '../errors.ts';
import { MEMORY } from './open.ts';

type Job = {
  /** Does the work inside the transaction; what it returns is called once that is durable. */
  readonly attempt: () => () => void;
  readonly fail: (error: unknown) => void;
};

/**
 * Group commit. A job that comes alone is committed at the end of the current task; jobs that come while the event loop is
 * busy share one transaction, and jobs of the same task always do. Each has a savepoint of its own: one that throws takes nobody else's work with it.
 */
export class Commits {
  readonly #db: Database;
  readonly #path: string;
  readonly #onUndone: () => void;
  #jobs: Job[] = [];
  #scheduled = false;
  #resting = true;
  #dead: StoreError | null = null;

  /** `onUndone` is called whenever work was rolled back, before anybody is told. */
  constructor(db: Database, path: string, onUndone: () => void) {
    this.#db = db;
    this.#path = path;
    this.#onUndone = onUndone;
  }

  /** Resolves with the result of `work` once it is durable; rejects with its error, or a `StoreError`, when nothing of it is. */
  run<T>(work: () => T): Promise<T> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const attempt = (): (() => void) => {
      const result = work();
      return () => resolve(result);
    };
    this.#jobs.push({ attempt, fail: reject });
    this.#schedule();
    return promise;
  }

  /** Commits what waits, then closes the database. Later work is refused. */
  close(): void {
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
      this.#db.exec('COMMIT');
    } catch (error) {
      this.#fail(jobs, error);
      return;
    }
    for (const settle of settlements) settle();
  }

  #attempt(job: Job): () => void {
    this.#db.exec('SAVEPOINT job');
    try {
      const settle = job.attempt();
      this.#db.exec('RELEASE job');
      return settle;
    } catch (error) {
      if (isEnvironmental(error)) throw error;
      this.#db.exec('ROLLBACK TO job; RELEASE job');
      this.#onUndone();
      return () => job.fail(error);
    }
  }

  #fail(jobs: readonly Job[], error: unknown): void {
    const reported = storeError(error, this.#path);
    if (isFatal(error) || !this.#rollBack()) this.#die(reported);
    this.#onUndone();
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
