import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** By how much each sync is made slower, as a disk in a network would be, in milliseconds. */
const SLOWER_MS = 4;

/** From here on each sync of this process takes longer, in this thread as in the pool. Load it before the store. */
const cell = new Int32Array(new SharedArrayBuffer(4));
const { fdatasyncSync, fdatasync } = fs;
fs.fdatasyncSync = (file) => {
  fdatasyncSync(file);
  Atomics.wait(cell, 0, 0, SLOWER_MS);
};
fs.fdatasync = Object.assign(
  (file: number, done: (error: NodeJS.ErrnoException | null) => void) =>
    fdatasync(file, (error) => setTimeout(() => done(error), SLOWER_MS)),
  { __promisify__: fdatasync.__promisify__ },
);
syncBuiltinESMExports();
