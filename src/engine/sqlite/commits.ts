import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { Database, Statement } from 'better-sqlite3';
import { StoreError, isEnvironmental, isFatal, sentence, storeError } from '../errors.ts';
import { MEMORY, wasWithoutLog } from './open.ts';

/** Work of one transaction, whatever comes of it. */
class Job<Result> {
  readonly #decide: () => () => Result;
  readonly #told: (result: Result) => void;
  readonly #waiting = Promise.withResolvers<Result>();
  #outcome: { readonly result: Result } | { readonly error: unknown } | null = null;

  constructor(decide: () => () => Result, told: (result: Result) => void) {
    this.#decide = decide;
    this.#told = told;
  }

  get done(): Promise<Result> {
    return this.#waiting.promise;
  }

  /** Decides, then writes; an error of deciding is its own alone. */
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

  /** What it wrote is durable. */
  settle(): void {
    const outcome = this.#outcome;
    if (outcome === null) throw new Error('impossible: a job is settled that was not attempted');
    if ('error' in outcome) return this.fail(outcome.error);
    this.#told(outcome.result);
    this.#waiting.resolve(outcome.result);
  }

  fail(error: unknown): void {
    this.#waiting.reject(error);
  }
}

type Waiting = Pick<Job<unknown>, 'attempt' | 'settle' | 'fail'>;

/** What happens around each commit. */
export type CommitHooks = {
  /** Writes what is to go with it. */
  readonly beforeCommit: () => void;
  /** What was written is durable; called before anybody is told. */
  readonly committed: () => void;
  /** Work was rolled back, for this; called before anybody is told. */
  readonly undone: (error: unknown) => void;
  /** Called once when the database cannot be used any more; nothing is written from then on. */
  readonly lost: (error: StoreError) => void;
};

/** A larger group saves no more of a commit, while all that it decides on has to be kept in memory, and timers and sockets wait for it. */
const MOST_TOGETHER = 512;

/**
 * Group commit. A job that comes alone is committed at the end of the current task; jobs that come while the event loop is
 * busy share one transaction, up to a number, and jobs that are made one right after the other always do. A job decides before it
 * writes: one that throws then takes nobody else's work with it.
 */
export class Commits {
  readonly #sync: DiskSync | null;
  readonly #db: Database;
  readonly #path: string;
  readonly #hooks: CommitHooks;
  readonly #begin;
  readonly #commit;
  #jobs: Waiting[] = [];
  #scheduled = false;
  #resting = true;
  #dead: StoreError | null = null;
  /** The last transaction is on its way to the disk; the next group gathers meanwhile. */
  #syncing: Promise<void> | null = null;

  /** `sync` is asked after each transaction; without it, a transaction is durable when SQLite says so. */
  constructor(db: Database, path: string, hooks: CommitHooks, sync: DiskSync | null = null) {
    this.#sync = sync;
    this.#db = db;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#path = path;
    this.#hooks = hooks;
  }

  /**
   * Decides on work, then writes it. Resolves with what the writing returned once that is durable; rejects with the error
   * of either, or a `StoreError`, when nothing of it is. `told` is called before whoever waits.
   */
  run<T>(decide: () => () => T, told: (result: T) => void = () => {}): Promise<T> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    const job = new Job(decide, told);
    this.#jobs.push(job);
    if (this.#jobs.length === MOST_TOGETHER) queueMicrotask(() => this.#flush());
    else this.#schedule();
    return job.done;
  }

  /** Commits what waits and what is to be written last, as far as there is room, then closes the database. Later work is refused. */
  async close(last: () => void): Promise<void> {
    await this.#syncing;
    this.#flush();
    await this.#syncing;
    void this.run(() => last).catch(() => undefined);
    this.#flush();
    await this.#syncing;
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
    if (this.#syncing !== null || this.#dead !== null) return;
    const jobs = this.#jobs.splice(0);
    if (jobs.length === 0) return;
    this.#restAfterThisTurn();
    try {
      this.#begin.run();
      for (const job of jobs) job.attempt();
      this.#hooks.beforeCommit();
      this.#commit.run();
    } catch (error) {
      this.#fail(jobs, error);
      return;
    }
    this.#bringToDisk(jobs);
  }

  /** Nobody is told before what they hear is on the disk. A sync that failed once is never tried again: what it lost is unknown. */
  #bringToDisk(jobs: readonly Waiting[]): void {
    try {
      const syncing = this.#sync?.sync() ?? null;
      if (syncing === null) return this.#settle(jobs);
      this.#syncing = syncing
        .then(
          () => this.#settle(jobs),
          (error: unknown) => this.#lose(jobs, this.#notOnDisk(error)),
        )
        .finally(() => {
          this.#syncing = null;
          if (this.#jobs.length > 0) this.#schedule();
        });
    } catch (error) {
      this.#lose(jobs, this.#notOnDisk(error));
    }
  }

  /** Whatever kept the disk from taking it: what the file holds now is unknown, so there is nothing to try again. */
  #notOnDisk(error: unknown): StoreError {
    const why = error instanceof Error ? error.message : String(error);
    return new StoreError('unavailable', sentence('unavailable', this.#path, why), error);
  }

  #settle(jobs: readonly Waiting[]): void {
    this.#hooks.committed();
    for (const job of jobs) job.settle();
  }

  #lose(jobs: readonly Waiting[], error: unknown): void {
    const reported = storeError(error, this.#path);
    this.#die(reported);
    for (const job of jobs) job.fail(reported);
    this.#hooks.lost(reported);
  }

  #fail(jobs: readonly Waiting[], error: unknown): void {
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

/** Brings what was committed to the disk. `null`: it is there; else the promise resolves when it is. Throws or rejects when it may never be. */
export type DiskSync = { sync(): Promise<void> | null; close(): void };

/** A disk slower than this on average is waited for beside the event loop, in milliseconds: a thread of the pool costs about as much as it saves below. */
const SLOW_MS = 3;

/** How much one sync counts in the average, and the most that it counts as, so that one hitch is not taken for a slow disk. */
const WEIGHT = 0.1;
const MOST_MS = 10;

/**
 * Syncs the write-ahead log of a database, in place of SQLite: a fast disk in this thread, a slow one in a thread of the pool,
 * so that timers and sockets do not stand still meanwhile.
 */
export class WalSync implements DiskSync {
  readonly #path: string;
  #file: number | null = null;
  #averageMs = 0;

  /** `path` is the database's. */
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

/** The log was made by SQLite, which syncs neither it nor its name in the folder. */
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
 * How far a database was, kept outside of it and of its log: a log that was removed, or an older file put in its place, shows.
 * Noted after the disk has what it counts, so it is never ahead of what a crash leaves.
 */
export class Mark {
  readonly #file: number;
  readonly #storeId: string;
  #row = 0;

  /** Throws what the file system says when it cannot be written. */
  constructor(database: string, storeId: string) {
    this.#file = openSync(markOf(database), 'a+', 0o600);
    closeSync(this.#file);
    this.#file = openSync(markOf(database), 'r+');
    this.#storeId = storeId;
  }

  /** Notes the last row of the journal. That it could not be noted is no reason to stop: less is noticed then. */
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

/** The file beside a database that says how far it was. */
export function markOf(database: string): string {
  return `${database.replace(/\.db$/u, '')}.mark`;
}

/**
 * Throws a `StoreError` when the database ends before what was noted of it. One that was restored from a backup, or has no mark,
 * or another's, is taken as it is.
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
 * Without a mark only a log that is gone can show: a start writes to it, and only a good end takes it away, with a note in the file. A
 * start brings to the file itself that the note of the end before counts no more.
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
