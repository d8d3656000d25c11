import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';

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
