import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { Database, Statement } from 'better-sqlite3';
import { errorMessage } from '../../lib/defined.ts';
import { StoreError, isEnvironmental, isFatal, sentence, storeError } from '../errors.ts';
import { MEMORY, wasWithoutLog } from './open.ts';

class Job<Result> {
  readonly promise: Promise<Result>;
  readonly fail: (error: unknown) => void;
  readonly #resolve: (result: Result) => void;
  readonly #decide: () => () => Result;
  readonly #onDone: ((result: Result) => void) | undefined;
  #outcome: { readonly result: Result } | { readonly error: unknown } | null = null;

  constructor(decide: () => () => Result, onDone: ((result: Result) => void) | undefined) {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.promise = promise;
    this.fail = reject;
    this.#resolve = resolve;
    this.#decide = decide;
    this.#onDone = onDone;
  }

  /** Decides, then writes. An error of deciding fails this job only. Throws errors of writing and of the database. */
  attempt(): void {
    let write;
    try {
      write = this.#decide();
    } catch (error) {
      if (isEnvironmental(error)) throw error;
      this.#outcome = { error };
      return;
    }
    this.#outcome = { result: write() };
  }

  settle(): void {
    if (this.#outcome === null) throw new Error('impossible: a job is settled that was not attempted');
    if ('error' in this.#outcome) return this.fail(this.#outcome.error);
    const { result } = this.#outcome;
    this.#onDone?.(result);
    this.#resolve(result);
  }
}

type AnyJob = Pick<Job<unknown>, 'attempt' | 'settle' | 'fail'>;

/** Callbacks around each commit. */
export type CommitHooks = {
  /** Called before each commit, to write into the same transaction. */
  readonly beforeCommit: () => void;
  /** Called when the writes are durable, before any job resolves. */
  readonly committed: () => void;
  /** Called after a rollback with its cause, before any job rejects. */
  readonly undone: (error: unknown) => void;
  /** Called once when the database cannot be used any more. Nothing is written from then on. */
  readonly lost: (error: StoreError) => void;
};

/** The log of a shared store, for the process that leads. */
export type Sharing = {
  /**
   * Sends the rows of the open transaction. Resolves when the log has them, with a function that writes them into the
   * copy. Returns `null` when there are none. Rejects when the log refuses them.
   */
  publish(): Promise<() => void> | null;
  close(): void;
};

/** With this many waiting jobs, a transaction begins at the end of the current task, unless one is under way. */
const MOST_TOGETHER = 512;

/**
 * Group commit. Jobs that arrive while the event loop is busy share a transaction, and so do jobs created one right
 * after the other. A job decides before it writes, so a job that throws while deciding does not undo the others.
 */
export class Commits {
  readonly #sync: DiskSync | null;
  readonly #sharing: Sharing | null;
  readonly #db: Database;
  readonly #path: string;
  readonly #hooks: CommitHooks;
  readonly #begin;
  readonly #commit;
  #jobs: AnyJob[] = [];
  #scheduled = false;
  #resting = true;
  #dead: StoreError | null = null;
  #syncing: Promise<void> | null = null;

  /**
   * `durable`: called after each transaction to sync it, or before its end to share it. Without it, a transaction counts
   * as durable after its `COMMIT`.
   */
  constructor(db: Database, path: string, hooks: CommitHooks, durable: DiskSync | Sharing | null = null) {
    this.#sync = durable !== null && 'sync' in durable ? durable : null;
    this.#sharing = durable !== null && 'publish' in durable ? durable : null;
    this.#db = db;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#path = path;
    this.#hooks = hooks;
  }

  /**
   * Decides, then writes. Resolves with the result of writing when it is durable. Rejects with the error of deciding,
   * with the error that undid the transaction, or with a `StoreError`. `onDone` is called with the result before the
   * promise resolves.
   */
  run<T>(decide: () => () => T, onDone?: (result: T) => void): Promise<T> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    const job = new Job(decide, onDone);
    this.#jobs.push(job);
    if (this.#jobs.length === MOST_TOGETHER) queueMicrotask(() => this.#flush());
    else this.#schedule();
    return job.promise;
  }

  /** Commits waiting work, then `last` unless the database was lost, and closes the database. Later work is refused. */
  async close(last: () => void): Promise<void> {
    await this.#drain();
    void this.run(() => last).catch(() => undefined);
    await this.#drain();
    this.#die(new StoreError('unavailable', sentence('unavailable', this.#path, 'the store is closed')));
  }

  async #drain(): Promise<void> {
    for (;;) {
      while (this.#syncing !== null) await this.#syncing;
      if (this.#jobs.length === 0 || this.#dead !== null) return;
      this.#flush();
    }
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
    if (this.#syncing !== null || this.#dead !== null) return;
    const jobs = this.#jobs.splice(0);
    if (jobs.length === 0) return;
    this.#restAfterThisTurn();
    try {
      this.#begin.run();
      for (const job of jobs) job.attempt();
      this.#hooks.beforeCommit();
      const shared = this.#sharing?.publish() ?? null;
      if (shared !== null) {
        // Readers of the copy must not see rows that can still be lost.
        this.#db.exec('ROLLBACK');
        return this.#wait(
          shared.then(
            (write) => this.#write(jobs, write),
            (error: unknown) => this.#lose(jobs, error),
          ),
        );
      }
      this.#commit.run();
    } catch (error) {
      this.#fail(jobs, error);
      return;
    }
    this.#bringToDisk(jobs);
  }

  /** Writes rows that the log has. If that fails, the next start makes the copy anew. */
  #write(jobs: readonly AnyJob[], write: () => void): void {
    try {
      this.#begin.run();
      write();
      this.#commit.run();
    } catch (error) {
      return this.#lose(jobs, error);
    }
    this.#settle(jobs);
  }

  #wait(busy: Promise<void>): void {
    this.#syncing = busy.finally(() => {
      this.#syncing = null;
      if (this.#jobs.length > 0) this.#schedule();
    });
  }

  /** Syncs a commit to the disk. Never retries a failed sync, because the lost writes are unknown. */
  #bringToDisk(jobs: readonly AnyJob[]): void {
    let syncing: Promise<void> | null;
    try {
      syncing = this.#sync?.sync() ?? null;
    } catch (error) {
      return this.#lose(jobs, this.#notOnDisk(error));
    }
    if (syncing === null) return this.#settle(jobs);
    this.#wait(
      syncing.then(
        () => this.#settle(jobs),
        (error: unknown) => this.#lose(jobs, this.#notOnDisk(error)),
      ),
    );
  }

  #notOnDisk(error: unknown): StoreError {
    return new StoreError('unavailable', sentence('unavailable', this.#path, errorMessage(error)), error);
  }

  /** Settles the jobs of a durable commit, also when a listener of the commit throws. */
  #settle(jobs: readonly AnyJob[]): void {
    try {
      this.#hooks.committed();
    } finally {
      for (const job of jobs) job.settle();
    }
  }

  #lose(jobs: readonly AnyJob[], error: unknown): void {
    const reported = storeError(error, this.#path);
    this.#die(reported);
    for (const job of jobs) job.fail(reported);
    this.#hooks.lost(reported);
  }

  #fail(jobs: readonly AnyJob[], error: unknown): void {
    const isLost = !this.#db.open || isFatal(error) || !this.#rollBack();
    const reported = isEnvironmental(error) ? storeError(error, this.#path) : error;
    if (isLost) return this.#lose(jobs, error);
    this.#hooks.undone(reported);
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
    this.#sync?.close();
    this.#sharing?.close();
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

/**
 * Makes committed data durable. Returns `null` when that is done, else a promise. Throws or rejects when the data may
 * be lost.
 */
export type DiskSync = { sync(): Promise<void> | null; close(): void };

/** Average sync time in milliseconds from which a sync runs in the thread pool. */
const SLOW_MS = 3;

/**
 * The weight of one sync in the average, and the most milliseconds that it counts, so that one slow sync does not
 * decide.
 */
const WEIGHT = 0.1;
const MOST_MS = 10;

/**
 * Syncs the write-ahead log in place of SQLite: on a fast disk in this thread, on a slow one in the thread pool, so
 * that timers and sockets continue.
 */
export class WalSync implements DiskSync {
  readonly #path: string;
  #file: number | null = null;
  #averageMs = 0;

  constructor(path: string) {
    this.#path = path;
  }

  sync(): Promise<void> | null {
    const file = (this.#file ??= openLog(this.#path));
    const started = performance.now();
    if (this.#averageMs >= SLOW_MS) return inPool(file).then(() => this.#took(started));
    fdatasyncSync(file);
    this.#took(started);
    return null;
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #took(started: number): void {
    this.#averageMs += (Math.min(performance.now() - started, MOST_MS) - this.#averageMs) * WEIGHT;
  }
}

const inPool = promisify(fdatasync);

/** Opens the write-ahead log that SQLite created. Syncs the folder with the log's name, too. */
function openLog(path: string): number {
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
  return openSync(`${path}-wal`, 'r+');
}

/**
 * Records, in a file beside the database, the last journal row that was on disk. By this mark a start notices that the
 * log was removed, or that an older file took its place.
 */
export class Mark {
  readonly #file: number;
  readonly #storeId: string;
  #row = 0;

  /** Throws the file system's error when the mark cannot be opened. */
  constructor(database: string, storeId: string) {
    this.#file = openSync(markOf(database), 'a+', 0o600);
    closeSync(this.#file);
    this.#file = openSync(markOf(database), 'r+');
    this.#storeId = storeId;
  }

  /** Records the last journal row. A failed write is ignored: then a later loss may go unnoticed. */
  note(row: number): void {
    if (row === this.#row) return;
    this.#row = row;
    try {
      writeSync(this.#file, `${this.#storeId} ${row}`.padEnd(WIDTH), 0);
    } catch {
      this.#row = 0;
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The path of a database's mark. */
export function markOf(database: string): string {
  return `${database.replace(/\.db$/u, '')}.mark`;
}

/**
 * Throws a `StoreError` when the journal ends before the row in the database's mark file. Accepts a restored backup and
 * another database's mark. Without a mark, only a missing write-ahead log is an error (`checkLog`).
 */
export function checkMark(db: Database, database: string): void {
  const noted = /^(?<storeId>\S+) (?<row>\d+) *$/u.exec(readMark(database))?.groups;
  const known = db.prepare<[string], string>('SELECT value FROM meta WHERE name = ?').pluck();
  if (noted === undefined) return checkLog(db, known, database);
  if (known.get('issuer') !== noted['storeId'] || known.get('backup') !== undefined) return;
  const last = db.prepare<[], number | null>('SELECT max(row) FROM journal').pluck().get() ?? 0;
  if (last >= Number(noted['row'])) return;
  const detail = `its journal ends at row ${last}, and row ${noted['row']} was on the disk`;
  throw new StoreError('gone-back', sentence('gone-back', database, detail));
}

/**
 * Throws when the write-ahead log is missing, although the database was not closed cleanly. Accepts a backup and a new
 * file. Called without a mark: then nothing else shows a loss.
 */
function checkLog(db: Database, known: Statement<[string], string>, database: string): void {
  const isCopy = known.get('backup') !== undefined || known.get('owner') === undefined;
  if (isCopy || known.get('ended') !== undefined || !wasWithoutLog(db)) return;
  const detail = 'it was not closed in good order, and both its log and its mark are missing';
  throw new StoreError('gone-back', sentence('gone-back', database, detail));
}

const WIDTH = 40;

function readMark(database: string): string {
  try {
    return readFileSync(markOf(database), 'utf8');
  } catch {
    return '';
  }
}
