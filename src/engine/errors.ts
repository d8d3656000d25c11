import Database from 'better-sqlite3';
import { errorMessage } from '../lib/defined.ts';

/** Why the store could not work. */
export type StoreFault =
  | 'locked'
  | 'newer-schema'
  | 'older-schema'
  | 'corrupt'
  | 'gone-back'
  | 'read-only'
  | 'full'
  | 'shared'
  | 'buried'
  | 'unavailable'
  | 'unreached';

/** Thrown when the store cannot be used or refuses work. `code` is the fault; the message is for people. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreFault;

  constructor(code: StoreFault, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

/** True when the database, the disk or another process caused the error, not the command. */
export function isEnvironmental(error: unknown): boolean {
  return (
    error instanceof StoreError ||
    isLostRace(error) ||
    (error instanceof Database.SqliteError && faultOf(error.code) !== null)
  );
}

/** True for a `StoreError` about a full disk or a database in use by another process: a later attempt may succeed. */
export function willPass(error: unknown): error is StoreError & { readonly code: 'full' | 'locked' } {
  return error instanceof StoreError && (error.code === 'full' || error.code === 'locked');
}

/**
 * True for an error after which this database connection must not be used again. Its view of the file may be wrong, or
 * this process was declared dead.
 */
export function isFatal(error: unknown): boolean {
  return (
    isLostRace(error) ||
    (error instanceof StoreError && error.code === 'buried') ||
    (error instanceof Database.SqliteError &&
      /^SQLITE_(IOERR(?!_SHMSIZE)|CORRUPT|NOTADB|NOMEM|PROTOCOL)/u.test(error.code))
  );
}

/** True when another process wrote a journal row with the same number or command id. */
function isLostRace(error: unknown): boolean {
  return (
    error instanceof Database.SqliteError &&
    /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY|ROWID)/u.test(error.code) &&
    /: journal\./u.test(error.message)
  );
}

/** Turns any error about the file at `path` into a `StoreError` for people. */
export function storeError(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const code = isLostRace(error) ? 'shared' : (faultOf(errorCodeOf(error)) ?? 'unavailable');
  return new StoreError(code, sentence(code, path, errorMessage(error)), error);
}

/** What is wrong with the store, and what to do, for people. `path`: its file. `detail`: for example the cause. */
export function sentence(code: StoreFault, path: string, detail: string): string {
  switch (code) {
    case 'locked':
      return `${path} is in use by another process. Stop the other Conch first, or whatever else writes to it, or set CONCH_DATA_DIR to another folder. Do not delete its .lock file: that lets two processes write to one database.`;
    case 'newer-schema':
      return `${path} was written by a newer Conch (${detail}). Update Conch, or restore a backup made by this version.`;
    case 'older-schema':
      return `${path} was written by a version of Conch before the first release (${detail}), which this one does not read. Move the file away, or set CONCH_DATA_DIR to another folder.`;
    case 'corrupt':
      return `${path} is damaged (${detail}). Put it aside with its -wal file and restore the last backup in its place.`;
    case 'gone-back':
      return `${path} has gone back to an earlier state (${detail}): its -wal file was removed, or an older copy took its place. Put back what is missing, or go on from what is there, with turns numbered anew: conch restore ${path}`;
    case 'read-only':
      return `${path} cannot be written (${detail}). Give this user write access to the file and its folder, or set CONCH_DATA_DIR.`;
    case 'full':
      return `The disk that holds ${path} is full (${detail}). Nothing was lost; free some space and try again.`;
    case 'shared':
      return `${path} was written by another process as well (${detail}). Stop the other Conch, check the database with conch verify, then start again.`;
    case 'buried':
      return `Another Conch declared this one dead, because it did not answer in time, and took over its work. This Conch writes nothing more. ${detail}Start this Conch again.`;
    case 'unreached':
      return `PostgreSQL did not answer for ${detail}, and another Conch may have taken over. This Conch ends, so that two never act at once. Start this Conch again when PostgreSQL answers.`;
    case 'unavailable':
      return `${path} cannot be used (${detail}). Check the folder and the disk, then start again.`;
  }
}

/** The cause in words for a channel, without file paths; `null` when the error is no `StoreError`. */
export function storeWords(error: unknown): string | null {
  return error instanceof StoreError ? STORE_WORDS[error.code] : null;
}

const STORE_WORDS: Readonly<Record<StoreFault, string>> = {
  full: "The disk with Conch's data is full. Free some space, then try again.",
  locked: "Conch's data is in use by another program. Try again in a moment.",
  'read-only': "Conch's data cannot be written. The log says why.",
  shared: "Another program writes to Conch's data. The log says what to do.",
  'newer-schema': "Conch's data cannot be used. The log says why.",
  'older-schema': "Conch's data cannot be used. The log says why.",
  corrupt: "Conch's data is damaged. The log says what to do.",
  buried: 'This Conch was replaced by another one. Try again in a moment.',
  'gone-back': "Conch's data is damaged. The log says what to do.",
  unavailable: "Conch's data cannot be used. The log says why.",
  unreached: "Conch's database cannot be reached. The log says why.",
};

/** The `code` of an error if it is a text, as in errors of Node, SQLite and PostgreSQL; else empty. */
export function errorCodeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function faultOf(code: string): StoreFault | null {
  return FAULTS.find(([pattern]) => pattern.test(code))?.[1] ?? null;
}

const FAULTS: readonly (readonly [RegExp, StoreFault])[] = [
  [/^SQLITE_(BUSY|LOCKED)/u, 'locked'],
  [/^SQLITE_(CORRUPT|NOTADB)/u, 'corrupt'],
  [/^(SQLITE_READONLY|SQLITE_PERM|EACCES$|EPERM$|EROFS$)/u, 'read-only'],
  // SQLITE_IOERR_SHMSIZE: a full disk keeps SQLite from growing the index of the log (`-shm`).
  [/^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|ENOSPC$|EDQUOT$)/u, 'full'],
  [/^SQLITE_(IOERR|CANTOPEN|NOMEM|PROTOCOL|NOLFS)/u, 'unavailable'],
];
