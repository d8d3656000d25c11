import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Makes a folder that only this user can enter, if it is missing. A folder made here gets a `.gitignore` that ignores all files in it:
 * it may lie in a repository, and it holds tokens. A folder that existed stays as it is. Throws the file system's own error.
 */
export function makePrivateFolder(path: string): void {
  const made = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (made !== undefined) writeFileSync(join(path, '.gitignore'), '*\n');
}

/**
 * Writes a file that only this user can read, whole or not at all: into one beside it first. Makes its folder if need be.
 * Throws the file system's own error.
 */
export function writePrivately(path: string, text: string): void {
  const beside = `${path}.${process.pid}.new`;
  makePrivateFolder(dirname(path));
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
