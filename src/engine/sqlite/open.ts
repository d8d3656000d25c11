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
import { lockFile, lockOf } from '../lock.ts';
import type { FileLock } from '../lock.ts';
import { defineFunctions } from './rows.ts';

const FOLDER = new URL('migrations/', import.meta.url);

/** The schema files in order; each one changes the schema of the one before. */
export const MIGRATIONS: readonly URL[] = readdirSync(FOLDER)
  .sort()
  .map((file) => new URL(file, FOLDER));

/** The path of a database in memory. */
export const MEMORY = ':memory:';

/**
 * Opens the database for this process alone, sets its settings and migrates its schema. Creates the file if missing.
 * Throws a `StoreError` within a second when another process owns the file. Throws one, and writes nothing, when the
 * file has a newer schema than this version. Each migration is applied whole or not at all. `say` is called when the
 * file was copied before a migration.
 * `isNew`: first deletes the database file at `path`, with its `-wal` and `-shm` files.
 */
export function openDatabase(
  path: string,
  migrations: readonly URL[] = MIGRATIONS,
  say: (line: string) => void = () => {},
  isNew = false,
): Database.Database {
  let db: Database.Database | null = null;
  try {
    db = path === MEMORY ? new Database(path) : openAlone(path, isNew);
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
 * Opens a database to read it while another process may own and write it. Throws a `StoreError` when the file is
 * missing, is no database of Conch, or has another schema than this version.
 */
export function openToRead(path: string, migrations: readonly URL[] = MIGRATIONS): Database.Database {
  const db = openToCopy(path, migrations);
  if (Number(db.pragma('user_version', { simple: true })) === migrations.length) return db;
  db.close();
  throw new StoreError(
    'unavailable',
    `${path} has the schema of an earlier version. Start Conch once, then try again. A backup has to be restored first: conch restore ${path}`,
  );
}

/**
 * Opens a database to copy it, while another process may own and write it. Accepts an earlier schema, because a start
 * migrates the copy. Throws a `StoreError` when the file is missing, is no database of Conch, or has a newer schema.
 */
export function openToCopy(path: string, migrations: readonly URL[] = MIGRATIONS): Database.Database {
  let db: Database.Database | null = null;
  try {
    if (!existsSync(path)) throw new StoreError('unavailable', `There is no file ${path}.`);
    db = new Database(path, { readonly: true, timeout: BUSY_TIMEOUT_MS });
    const version = readVersion(db, path, migrations.length);
    if (version === 0) throw new StoreError('corrupt', sentence('corrupt', path, 'it is empty'));
    defineFunctions(db);
    return db;
  } catch (error) {
    db?.close();
    throw storeError(error, path);
  }
}

/** Endings of files beside a database: its former states, and a copy of a backup while it is restored. */
export const FORMER = { restored: '.before-restore', restoring: '.restoring', migrated: '.schema-' } as const;

/** The files of former states of a database, and of an interrupted restore, beside it. */
export function formerFiles(path: string): readonly string[] {
  const folder = dirname(path);
  const beside = existsSync(folder) ? readdirSync(folder).toSorted() : [];
  const begins = Object.values(FORMER).map((end) => `${path}${end}`);
  return beside.map((name) => `${folder}/${name}`).filter((file) => begins.some((each) => file.startsWith(each)));
}

/** The path of the copy that was made before schema `version` was changed. */
export function formerFile(path: string, version: number): string {
  return `${path}${FORMER.migrated}${version}`;
}

const BUSY_TIMEOUT_MS = 800;

const SETTINGS = [
  // The store makes each commit durable itself; SQLite syncs around checkpoints.
  ['synchronous', 'NORMAL', 1],
  ['foreign_keys', 'ON', 1],
  // Overwrites deleted data. Must be on from the first write: a page that splits leaves old data behind.
  ['secure_delete', 'ON', 1],
  ['wal_autocheckpoint', '4000', 4_000],
  ['journal_size_limit', '67108864', 67_108_864],
  ['busy_timeout', String(BUSY_TIMEOUT_MS), BUSY_TIMEOUT_MS],
] as const;

/** A database that releases its lock when it is closed. Other processes may read it meanwhile. */
class OwnDatabase extends Database {
  readonly #lock: FileLock;
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

/** True when the write-ahead log was missing when the owner opened the database. Always false for readers. */
export function wasWithoutLog(db: Database.Database): boolean {
  return db instanceof OwnDatabase && !db.hadLog;
}

function openAlone(path: string, isNew: boolean): Database.Database {
  mkdirSync(dirname(path), { recursive: true });
  const lock = lockFile(lockOf(path), BUSY_TIMEOUT_MS);
  if (lock === null) throw new StoreError('locked', sentence('locked', path, 'its lock is taken'));
  try {
    for (const end of isNew ? ['', '-wal', '-shm'] : []) rmSync(`${path}${end}`, { force: true });
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    return new OwnDatabase(path, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
}

const APPLICATION_ID = 0x43_6f_6e_63;

function readVersion(db: Database.Database, path: string, known: number): number {
  const version = Number(db.pragma('user_version', { simple: true }));
  if (version > 0 && db.pragma('application_id', { simple: true }) !== APPLICATION_ID)
    throw new StoreError('older-schema', sentence('older-schema', path, `schema ${version}`));
  if (version > known || version < 0) {
    const formerCopy = formerFile(path, known);
    const way = existsSync(formerCopy) ? ` To go back to the copy of schema ${known}: conch restore ${formerCopy}` : '';
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
  // SQLite applies this setting to an empty file at once, to other files with the next `VACUUM`.
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

const INCREMENTAL = 2;

/** Copies the file once before its schema changes, to keep what the migration drops. */
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
  say(`${path} was migrated to a new schema. Its former version, with the whole journal, is kept in ${copy}.`);
}

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
