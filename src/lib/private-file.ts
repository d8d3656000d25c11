import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Writes a file that only this user can read, whole or not at all: into one beside it first. Makes its folder if need be.
 * Throws the file system's own error.
 */
export function writePrivately(path: string, text: string): void {
  const beside = `${path}.${process.pid}.new`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = openSync(beside, 'w', 0o600);
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  renameSync(beside, path);
}

/** A name that no file has: this one, or with a number after it. */
export function unusedName(name: string, count = 1): string {
  const tried = count === 1 ? name : `${name}-${count}`;
  return existsSync(tried) ? unusedName(name, count + 1) : tried;
}
