import type { Database } from 'better-sqlite3';
import { journalRewriter } from '../sqlite/rows.ts';
import type { SharedRow } from './shared-log.ts';

/** The shared tables, in the order in which rows are written, with the columns that name a row. */
const KEYS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  configs: ['id'],
  inbox: ['id'],
  memory: ['owner', 'name'],
  machines: ['name', 'key'],
  journal: ['row'],
  ledger: ['machine', 'row', 'n'],
  conversation: ['nonce'],
  outbox: ['n'],
  posted: ['channel'],
};

const TABLES = Object.keys(KEYS);

/** Columns that are not sent, because SQLite numbers the rows of each file by itself. */
const OWN: Readonly<Record<string, string>> = { ledger: 'id' };

type Row = Readonly<Record<string, unknown>>;

/**
 * Returns a function that writes rows of the log into the tables of a database, within a transaction of the caller. The
 * database must have the tables of a store.
 */
export function writerOf(db: Database): (rows: readonly SharedRow[]) => void {
  const tables = new Map(TABLES.map((table) => [table, writing(db, table)]));
  const rewrite = journalRewriter(db);
  return (rows) => {
    for (const { table, id, row } of rows.toSorted(byTableAndNumber)) {
      const { remove, insert } = tables.get(table) ?? {};
      if (row === null || table in OWN) rewrite(() => remove?.run(...named(table, id)));
      if (row !== null) insert?.(valuesOf(row));
    }
  };
}

/** `list`: the rows that were written or deleted since the last `forget`, in their newest form. */
export type ChangedRows = { readonly list: () => readonly SharedRow[]; readonly forget: () => void };

/** Watches the shared tables of a database. A rollback takes back what was noted in its transaction. */
export function changesOf(db: Database): ChangedRows {
  db.exec('CREATE TEMP TABLE changed (place TEXT, id TEXT, PRIMARY KEY (place, id)) WITHOUT ROWID');
  for (const table of TABLES) db.exec(triggersOf(table));
  const changed = db.prepare<[], { readonly table: string; readonly id: string }>(
    'SELECT place AS "table", id FROM changed',
  );
  const clear = db.prepare('DELETE FROM changed');
  const reads = new Map(
    TABLES.map((table) => {
      const read = db.prepare<string[], string>(`SELECT ${jsonOf(db, table)} FROM ${table} WHERE ${isNamed(table)}`);
      return [table, read.pluck()];
    }),
  );
  return {
    list: () =>
      changed.all().map(({ table, id }) => ({ table, id, row: reads.get(table)?.get(...named(table, id)) ?? null })),
    forget: () => void clear.run(),
  };
}

/** All shared rows of a store's tables, as the log keeps them. */
export function* sharedRows(db: Database): Generator<SharedRow> {
  for (const [table, keys] of Object.entries(KEYS)) {
    const sql = `SELECT ${idOf(table, table)} AS id, ${jsonOf(db, table)} AS row FROM ${table} ORDER BY ${keys.join(', ')}`;
    for (const { id, row } of db.prepare<[], { readonly id: unknown; readonly row: string }>(sql).iterate())
      yield { table, id: String(id), row };
  }
}

/** SQL of a row's id in the log. `source`: the name of the table, or `old` or `new` in a trigger. */
function idOf(table: string, source: string): string {
  const columns = (KEYS[table] ?? []).map((key) => `${source}.${key}`);
  return columns.length === 1 ? columns.join() : `json_array(${columns.join(', ')})`;
}

/** SQL condition that a row has a given id of the log. `named` returns its parameters. */
function isNamed(table: string): string {
  const [key, ...others] = KEYS[table] ?? [];
  return others.length === 0
    ? `${key} = ?`
    : [key, ...others].map((name, place) => `${name} = ? ->> ${place}`).join(' AND ');
}

function named(table: string, id: string): string[] {
  return (KEYS[table] ?? []).map(() => id);
}

/** SQL of a row as JSON. Bytes are an object with hexadecimal digits. */
function jsonOf(db: Database, table: string): string {
  const columns = db.prepare<[string], Column>('SELECT name, type FROM pragma_table_info(?)').all(table);
  const shared = columns.filter(({ name }) => name !== OWN[table]);
  const value = ({ name, type }: Column): string =>
    type === 'BLOB' ? `CASE WHEN ${name} IS NULL THEN NULL ELSE json_object('hex', hex(${name})) END` : name;
  return `json_object(${shared.map((column) => `'${column.name}', ${value(column)}`).join(', ')})`;
}

type Column = { readonly name: string; readonly type: string };

function triggersOf(table: string): string {
  const note = (row: 'old' | 'new'): string =>
    `BEGIN INSERT OR IGNORE INTO changed VALUES ('${table}', ${idOf(table, row)}); END;`;
  return `
    CREATE TEMP TRIGGER shares_new_${table} AFTER INSERT ON ${table} ${note('new')}
    CREATE TEMP TRIGGER shares_changed_${table} AFTER UPDATE ON ${table} ${note('new')}
    CREATE TEMP TRIGGER shares_gone_${table} AFTER DELETE ON ${table} ${note('old')}`;
}

function writing(db: Database, table: string) {
  const columns = columnsOf(db, table);
  const sql = `INSERT OR REPLACE INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`;
  const insert = db.prepare(sql);
  return {
    remove: db.prepare<string[]>(`DELETE FROM ${table} WHERE ${isNamed(table)}`),
    // A row of an earlier Conch can lack columns.
    insert: (row: Row): void => void insert.run(columns.map((name) => row[name] ?? null)),
  };
}

/** Sorts rows by table, journal and outbox also by number: later rows of a key or a lane have higher numbers. */
function byTableAndNumber(one: SharedRow, other: SharedRow): number {
  const tables = TABLES.indexOf(one.table) - TABLES.indexOf(other.table);
  return tables !== 0 || !NUMBERED.has(one.table) ? tables : Number(one.id) - Number(other.id);
}

const NUMBERED: ReadonlySet<string> = new Set(['journal', 'outbox']);

function columnsOf(db: Database, table: string): readonly string[] {
  const columns = db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table);
  return columns.filter((name) => name !== OWN[table]);
}

function valuesOf(text: string): Row {
  const row = JSON.parse(text) as Row;
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, unpacked(value)]));
}

function unpacked(value: unknown): unknown {
  return value instanceof Object && 'hex' in value ? Buffer.from(String(value.hex), 'hex') : value;
}
