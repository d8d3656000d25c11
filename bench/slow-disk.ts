import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** The delay added to each sync, in milliseconds. It imitates a disk in a network. */
const SLOWER_MS = 4;

/** Delays each sync of this process, synchronous or asynchronous. Import this module before the store. */
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
