import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { ConfigError } from './error.ts';
import type { Env } from './references.ts';

/** A file's text, and whether everybody on the machine may read it. */
export type FileReading = { readonly text: string; readonly public: boolean };

/** The part of the world that the configuration comes from. */
export type World = {
  readonly env: Env;
  /** Absolute; where `turnConfig.json`, `.env` and `.conch` are looked for. */
  readonly cwd: string;
  /** `null` when there is no such file; throws when there is one that cannot be read as UTF-8. */
  readonly readFile: (path: string) => FileReading | null;
  /** The programs and folders that agents are run with; absent: none is looked for. Paths are absolute. */
  readonly machine?: {
    readonly isFolder: (path: string) => boolean;
    readonly isProgram: (path: string) => boolean;
  };
};

/** The world of this process. */
export const thisWorld = (): World => ({
  env: process.env,
  cwd: process.cwd(),
  readFile: readTextFile,
  machine: { isFolder, isProgram },
});

/** A file of this world; one that cannot be read is a `ConfigError`. */
export const readIn = (world: World, path: string): FileReading | null => {
  try {
    return world.readFile(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `It cannot be read: ${reason}`;
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
