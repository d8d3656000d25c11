import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { errorMessage } from '../lib/defined.ts';
import { isInstalled } from '../lib/installation.ts';
import { ConfigError } from './error.ts';

/** The values of environment variables, by name. */
export type Env = Readonly<Record<string, string | undefined>>;

/**
 * Why a configuration is loaded. `start`: keys, tokens and packages must exist; missing programs and folders are
 * warnings. `check`: programs and folders must exist, too. `look`: none of these is checked.
 */
export type Purpose = 'start' | 'check' | 'look';

/** A file's text, and whether every user of the machine can read it (false on Windows). */
export type FileReading = { readonly text: string; readonly public: boolean };

/** The environment, files and programs that the configuration is read from and checked against. */
export type World = {
  readonly env: Env;
  /** The absolute path of the working folder, where relative paths begin. */
  readonly cwd: string;
  /** Returns `null` for a missing file. Throws when the file cannot be read as UTF-8. */
  readonly readFile: (path: string) => FileReading | null;
  /** Looks for programs and folders by absolute path, and for packages by name. Absent: they are not checked. */
  readonly machine?: {
    readonly isFolder: (path: string) => boolean;
    readonly isProgram: (path: string) => boolean;
    readonly isInstalled?: (name: string) => boolean;
  };
};

/** Returns the environment variables, working folder and file access of this process. */
export const thisWorld = (): World => ({
  env: process.env,
  cwd: process.cwd(),
  readFile: readTextFile,
  machine: { isFolder, isProgram, isInstalled },
});

/** Reads a file; returns `null` for a missing file. Throws a `ConfigError` when it exists and cannot be read. */
export const readIn = (world: World, path: string): FileReading | null => {
  try {
    return world.readFile(path);
  } catch (cause) {
    const message = `This file cannot be read: ${errorMessage(cause)}`;
    throw new ConfigError(path, [{ path: '', line: null, message }], { cause });
  }
};

const readTextFile = (path: string): FileReading | null => {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode === undefined) return null;
  const isPublic = process.platform !== 'win32' && (mode & 0o004) !== 0;
  return { text: new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path)), public: isPublic };
};

const isFolder = (path: string): boolean => holds(() => statSync(path).isDirectory());

const isProgram = (path: string): boolean =>
  holds(() => {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  });

const holds = (look: () => boolean): boolean => {
  try {
    return look();
  } catch {
    return false;
  }
};
