import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError, sentence, storeError } from '../errors.ts';
import { lockFile } from './lock.ts';
import type { FileLock } from './lock.ts';
import { defineFunctions } from './rows.ts';

const FOLDER = new URL('migrations/', import.meta.url);

/** The numbered steps from an empty file to the schema of this version, in order. */
export const MIGRATIONS: readonly URL[] = readdirSync(FOLDER)
  .sort()
  .map((file) => new URL(file, FOLDER));

/** A path that keeps everything in this process's memory. */
export const MEMORY = ':memory:';

/**
 * Opens the database for this process alone, fixes its settings and brings its schema up to date.
 * Throws a `StoreError`: within a second when another process has it, and before anything is written when its schema is newer.
 * Each of `migrations` is done whole or not at all; `say` is told in a sentence when the file was copied beside before.
 */
export function openDatabase(
  path: string,
  migrations: readonly URL[] = MIGRATIONS,
  say: (line: string) => void = () => {},
): Database.Database {
  let db: Database.Database | null = null;
  try {
    db = path === MEMORY ? new Database(path) : openAlone(path);
    const version = readVersion(db, path, migrations.length);
    fixSettings(db, path);
    defineFunctions(db);
    if (version > 0 && version < migrations.length) keepFormer(db, { path, version, say });
    migrate(db, migrations.slice(version), version);
    return db;
  } catch (error) {
    db?.close();
    throw storeError(error, path);
  }
}

/**
 * Opens a database to look at it; another process may own it and write meanwhile.
 * Throws a `StoreError` when it is not there, is no database of Conch, or was written by a newer one.
 */
export function openToRead(path: string, migrations: readonly URL[] = MIGRATIONS): Database.Database {
  let db: Database.Database | null = null;
  try {
    if (!existsSync(path)) throw new StoreError('unavailable', `There is no file ${path}.`);
    db = new Database(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    const version = readVersion(db, path, migrations.length);
    if (version === 0) throw new StoreError('corrupt', sentence('corrupt', path, 'it is empty'));
    if (version < migrations.length)
      throw new StoreError(
        'unavailable',
        `${path} has the schema of an earlier version. Start Conch once, then try again.`,
      );
    defineFunctions(db);
    return db;
  } catch (error) {
    db?.close();
    throw storeError(error, path);
  }
}

/** As `openToRead`, and refuses a file whose schema is of an earlier version: its tables are not those that the caller reads. */
export function openUpToDate(path: string, migrations: readonly URL[] = MIGRATIONS): Database.Database {
  const db = openToRead(path, migrations);
  if (Number(db.pragma('user_version', { simple: true })) === migrations.length) return db;
  db.close();
  throw new StoreError(
    'unavailable',
    `${path} has the schema of an earlier version. Start Conch once, then try again.`,
  );
}

/** The file whose lock says that a process owns the database. */
export function lockOf(path: string): string {
  return `${path.replace(/\.db$/u, '')}.lock`;
}

/** Where the copy of a file lies that was made before its schema, the one with this number, was changed. */
export function formerFile(path: string, version: number): string {
  return `${path}.schema-${version}`;
}

const BUSY_TIMEOUT_MS = 800;

const SETTINGS = [
  // The store brings each commit to the disk itself; SQLite syncs around checkpoints.
  ['synchronous', 'NORMAL', 1],
  ['foreign_keys', 'ON', 1],
  // What is taken out is overwritten: from the first write on, or it would stay in pages that were split since.
  ['secure_delete', 'ON', 1],
  ['wal_autocheckpoint', '4000', 4_000],
  ['journal_size_limit', '67108864', 67_108_864],
  ['busy_timeout', String(BUSY_TIMEOUT_MS), BUSY_TIMEOUT_MS],
] as const;

/** Closed together with the lock that keeps other processes from owning it; whoever only reads may do so meanwhile. */
class OwnDatabase extends Database {
  readonly #lock: FileLock;
  /** Whether its log lay beside it before it was opened. */
  readonly hadLog: boolean;

  constructor(path: string, lock: FileLock) {
    const hadLog = existsSync(`${path}-wal`);
    super(path, { timeout: BUSY_TIMEOUT_MS });
    this.hadLog = hadLog;
    this.#lock = lock;
  }

  override close(): this {
    super.close();
    this.#lock.release();
    return this;
  }
}

/** Whether the log of a database was missing when its owner opened it; whoever only reads cannot tell. */
export function wasWithoutLog(db: Database.Database): boolean {
  return db instanceof OwnDatabase && !db.hadLog;
}

function openAlone(path: string): Database.Database {
  mkdirSync(dirname(path), { recursive: true });
  const lock = lockFile(lockOf(path), BUSY_TIMEOUT_MS);
  if (lock === null) throw new StoreError('locked', sentence('locked', path, 'its lock is taken'));
  try {
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    return new OwnDatabase(path, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** The mark of a database of Conch; the first migration writes it. */
const APPLICATION_ID = 0x43_6f_6e_63;

function readVersion(db: Database.Database, path: string, known: number): number {
  const version = Number(db.pragma('user_version', { simple: true }));
  if (version > 0 && db.pragma('application_id', { simple: true }) !== APPLICATION_ID)
    throw new StoreError('older-schema', sentence('older-schema', path, `schema ${version}`));
  if (version > known || version < 0) {
    const kept = formerFile(path, known);
    const way = existsSync(kept) ? ` What it was before is in ${kept}: conch restore ${kept}` : '';
    const detail = `schema ${version}, this one knows ${known}`;
    throw new StoreError('newer-schema', sentence('newer-schema', path, detail) + way);
  }
  const tables = Number(db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get());
  if (version === 0 && tables > 0) {
    throw new StoreError('corrupt', sentence('corrupt', path, 'it is not a database of Conch'));
  }
  return version;
}

function fixSettings(db: Database.Database, path: string): void {
  // Takes effect in a file that is still empty, before anything else is written.
  if (db.pragma('auto_vacuum', { simple: true }) !== INCREMENTAL) db.pragma('auto_vacuum = INCREMENTAL');
  const journal = db.pragma('journal_mode = WAL', { simple: true });
  if (path !== MEMORY) expect('journal_mode', journal, 'wal');
  if (path !== MEMORY) expect('locking_mode', db.pragma('locking_mode', { simple: true }), 'normal');
  for (const [name, value, wanted] of SETTINGS) {
    db.pragma(`${name} = ${value}`);
    expect(name, db.pragma(name, { simple: true }), wanted);
  }
}

function expect(setting: string, found: unknown, wanted: unknown): void {
  if (found !== wanted) throw new Error(`SQLite's ${setting} is ${String(found)}, expected ${String(wanted)}`);
}

/** What the setting `auto_vacuum` says of a file that can give pages back. */
const INCREMENTAL = 2;

/** Before its schema changes, a file is copied beside itself, once; what the steps leave out stays there. */
function keepFormer(
  db: Database.Database,
  { path, version, say }: { path: string; version: number; say: (line: string) => void },
): void {
  const copy = formerFile(path, version);
  if (path === MEMORY || existsSync(copy)) return;
  const partial = `${copy}.part`;
  rmSync(partial, { force: true });
  db.prepare('VACUUM INTO ?').run(partial);
  chmodSync(partial, 0o600);
  proveCopy(partial);
  renameSync(partial, copy);
  say(`${path} was brought to a new schema. What it was, with its whole journal, is kept in ${copy}.`);
}

/** Nothing is changed before its copy is known to be sound; marked as a backup, it is restored as one. */
function proveCopy(path: string): void {
  const copy = new Database(path);
  try {
    const found = String(copy.pragma('integrity_check(1)', { simple: true }));
    if (found !== 'ok') throw new StoreError('corrupt', sentence('corrupt', path, found));
    copy.exec("INSERT OR REPLACE INTO meta VALUES ('backup', 'yes')");
  } finally {
    copy.close();
  }
}

function migrate(db: Database.Database, steps: readonly URL[], from: number): void {
  for (const [index, step] of steps.entries()) {
    db.transaction(() => {
      db.exec(readFileSync(step, 'utf8'));
      db.pragma(`user_version = ${from + index + 1}`);
    }).exclusive();
  }
}
