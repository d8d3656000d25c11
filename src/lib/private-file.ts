import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Makes a folder and the folders above it, if they are missing. Only this user can enter new folders. If the folder is
 * new, it gets a `.gitignore` for all its files, because it may lie in a repository and hold secrets. An existing
 * folder is not changed. Throws the file system's error.
 */
export function makePrivateFolder(path: string): void {
  if (makeFolders(path)) writeFileSync(join(path, '.gitignore'), '*\n');
}

/**
 * Returns true when the folder itself is new. Node's recursive `mkdirSync` never ends in a folder such as `/proc`, in
 * which nobody can make one.
 */
function makeFolders(path: string): boolean {
  if (isFolder(path)) return false;
  if (!existsSync(dirname(path))) makeFolders(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (isFolder(path)) return false;
    throw error;
  }
}

/** True for a folder, also by a link; false when nothing is there. Throws when the path cannot be looked up. */
export function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/**
 * Writes a file that only this user can read, atomically: to a temporary file, then renamed. Makes its folder if
 * needed. Throws the file system's error.
 */
export function writePrivately(path: string, text: string): void {
  const beside = `${path}.${process.pid}.new`;
  makePrivateFolder(dirname(path));
  const file = openSync(beside, 'w', 0o600);
  writeFileSync(file, text);
  fsyncSync(file);
  closeSync(file);
  renameSync(beside, path);
}

/** Returns a path that no file has: `name`, or `name` with `-2`, `-3` and so on appended. */
export function unusedName(name: string, count = 1): string {
  const tried = count === 1 ? name : `${name}-${count}`;
  return existsSync(tried) ? unusedName(name, count + 1) : tried;
}
