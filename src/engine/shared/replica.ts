import type { Database } from 'better-sqlite3';
import { journalRewriter } from '../sqlite/rows.ts';
import type { RowChange, RowCheck, SharedRow } from './shared-log.ts';

type Shape = {
  /** SQL of the row's id in the log. `$` stands for the name of the table, or for `old` or `new` in a trigger. */
  readonly id: string;
  /** The column by which SQLite finds a row quickly. */
  readonly by: string;
  /** True when the last write counts. By default, a write is refused when another process changed the row first. */
  readonly isFree?: boolean;
  /** A column with numbers that each process gives by itself; not sent to the log. */
  readonly own?: string;
  /**
   * Name of a column. A row replaces the stored row only if its value in this column is not lower. The log then accepts
   * every change of a row that this process knows, because an older row cannot replace a newer one.
   */
  readonly rises?: string;
};

/** The shared tables, in the order in which changes are applied. */
const SHAPES: Readonly<Record<string, Shape>> = {
  configs: { id: '$.id', by: 'id', isFree: true },
  inbox: { id: '$.id', by: 'rowid' },
  memory: { id: 'json_array($.owner, $.name)', by: 'rowid', isFree: true },
  machines: { id: 'json_array($.name, $.key)', by: 'rowid', rises: 'row' },
  journal: { id: '$.row', by: 'rowid' },
  ledger: { id: "$.machine || '/' || $.row || '/' || $.n", by: 'rowid', own: 'id' },
  conversation: { id: '$.nonce', by: 'rowid' },
  outbox: { id: '$.n', by: 'rowid' },
  posted: { id: '$.channel', by: 'channel', isFree: true },
};

const TABLES = Object.keys(SHAPES);

/**
 * The rows of the log that change with each row of a key's journal. They make the log refuse the second one of two
 * processes that append to one journal. No table holds them.
 */
const ENDS = 'ends';

/**
 * The rows of the log that are written when the entries of a worker are taken over. They make the log refuse a group
 * that still gives an entry to this worker. No table holds them.
 */
const GONE = 'gone';

const TABLELESS: ReadonlySet<string> = new Set([ENDS, GONE]);

/** SQL of the tables and the index that only a replica has. `line` is the key by which SQLite finds a row. */
const SCHEMA = `
  CREATE TABLE versions (
    place TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, line ANY, PRIMARY KEY (place, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX outbox_open ON outbox (channel) WHERE state IN ('owed', 'uncertain');
  CREATE TEMP TABLE changed (place TEXT NOT NULL, id TEXT NOT NULL, line ANY, PRIMARY KEY (place, id)) STRICT, WITHOUT ROWID;
`;

type Line = number | string;
type Changed = { readonly place: string; readonly id: string; readonly line: Line };
type Version = { readonly position: number; readonly line: Line };

/** A row that the current transaction wrote. `values`: its columns; `null` for a deleted row and a row of no table. */
export type WrittenRow = RowChange & { readonly values: Row | null };

/** A change of the log, as it was applied to the tables of this process. */
export type AppliedRow = {
  readonly table: string;
  readonly line: Line;
  readonly isNew: boolean;
  readonly isGone: boolean;
};

type PlacedRow = SharedRow & { readonly position: number; readonly values?: Row | null };

/** A shared log's copy in a store's tables. Lists rows that a transaction writes. Writes rows of other processes. */
export class Replica {
  /** All changes up to this position are in the tables. */
  position = 0;
  readonly #sql;
  readonly #tables: ReadonlyMap<string, TableStatements>;

  constructor(db: Database) {
    db.exec(SCHEMA);
    for (const [table, shape] of Object.entries(SHAPES)) db.exec(triggersOf(table, shape));
    this.#tables = new Map(Object.entries(SHAPES).map(([table, shape]) => [table, tableStatements(db, table, shape)]));
    this.#sql = {
      changed: db.prepare<[], Changed>('SELECT place, id, line FROM changed'),
      touch: db.prepare<[string, string]>('INSERT OR REPLACE INTO changed VALUES (?, ?, 1)'),
      clear: db.prepare('DELETE FROM changed'),
      version: db.prepare<[string, string], Version>('SELECT position, line FROM versions WHERE place = ? AND id = ?'),
      note: db.prepare<[string, string, number, Line]>('INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?)'),
      rewrite: journalRewriter(db),
    };
  }

  /** The rows that the current transaction wrote or deleted. Leaves out deleted rows that the log never had. */
  changes(): readonly WrittenRow[] {
    return this.#sql.changed.all().flatMap(({ place, id, line }) => {
      const { isFree = false, rises } = SHAPES[place] ?? {};
      const known = this.#sql.version.get(place, id)?.position ?? 0;
      const values = this.#tables.get(place)?.read(line) ?? null;
      const row = TABLELESS.has(place) ? String(line) : values === null ? null : textOf(values);
      if (row === null && known === 0) return [];
      return [{ table: place, id, row, values, known: isFree || (rises !== undefined && known > 0) ? null : known }];
    });
  }

  markGone(worker: string): void {
    this.#sql.touch.run(GONE, worker);
  }

  /**
   * Returns a check that nobody else has appended to the journal of a key. `id`: the number of the key; `null` for a
   * new key.
   */
  keyCheck(machine: string, key: string, id: number | null): RowCheck {
    return id === null
      ? { table: 'machines', id: JSON.stringify([machine, key]), known: 0 }
      : this.#checkOf(ENDS, String(id));
  }

  /** Returns a check that nobody else has taken over the entries of a worker. */
  workerCheck(worker: string): RowCheck {
    return this.#checkOf(GONE, worker);
  }

  #checkOf(table: string, id: string): RowCheck {
    return { table, id, known: this.#sql.version.get(table, id)?.position ?? 0 };
  }

  /** Writes the rows of a group, which the log took at this position, into the tables. Needs an open transaction. */
  taken(changes: readonly WrittenRow[], position: number): void {
    this.apply(changes.map((change) => ({ ...change, position })));
    if (position === this.position + 1) this.position = position;
  }

  /**
   * Writes rows of the log into the tables, in the current transaction. Skips a row that is known at this position or a
   * later one. Returns the other rows, except rows of no table and deletions of rows that it did not have.
   */
  apply(rows: readonly PlacedRow[]): readonly AppliedRow[] {
    const sorted = rows.toSorted(byTableAndNumber);
    const applied = sorted.flatMap((each) => this.#apply(each) ?? []);
    this.#sql.clear.run();
    return applied;
  }

  #apply({ table, id, row, values, position }: PlacedRow): AppliedRow | null {
    const statements = this.#tables.get(table);
    const known = this.#sql.version.get(table, id);
    if (known !== undefined && known.position >= position) return null;
    if (statements === undefined) {
      this.#sql.note.run(table, id, position, row ?? 0);
      return null;
    }
    const former = known?.line ?? null;
    if (former !== null && row === null) this.#sql.rewrite(() => statements.remove(former));
    const line = row === null ? former : statements.write(values ?? valuesOf(row), former);
    this.#sql.note.run(table, id, position, line ?? 0);
    return line === null ? null : { table, line, isNew: known === undefined, isGone: row === null };
  }
}

/**
 * All shared rows of a store's tables, as the log keeps them. All entries of the outbox get a worker that does not
 * live, so that the first process of the log takes over the open entries.
 */
export function* sharedRows(db: Database): Generator<SharedRow> {
  for (const [table, { id, by, own }] of Object.entries(SHAPES)) {
    const { list } = columnsOf(db, table, own);
    const all = db.prepare<[], Row>(
      `SELECT ${id.replaceAll('$', table)} AS shared_id, ${list} FROM ${table} ORDER BY ${by}`,
    );
    for (const { shared_id: name, ...row } of all.iterate())
      yield { table, id: String(name), row: textOf('worker' in row ? { ...row, worker: NOBODY } : row) };
  }
}

const NOBODY = 'moved';

/** Sorts rows by table, journal and outbox also by number: later rows of a key or a lane have higher numbers. */
function byTableAndNumber(one: SharedRow, other: SharedRow): number {
  const tables = TABLES.indexOf(one.table) - TABLES.indexOf(other.table);
  return tables !== 0 || !NUMBERED.has(one.table) ? tables : Number(one.id) - Number(other.id);
}

const NUMBERED: ReadonlySet<string> = new Set(['journal', 'outbox']);

function triggersOf(table: string, { id, by }: Shape): string {
  const end = table === 'journal' ? `INSERT OR REPLACE INTO changed VALUES ('${ENDS}', new.machine, new.row);` : '';
  const note = (row: 'old' | 'new'): string =>
    `INSERT OR REPLACE INTO changed VALUES ('${table}', ${id.replaceAll('$', row)}, ${row}.${by});`;
  return `
    CREATE TEMP TRIGGER shares_new_${table} AFTER INSERT ON ${table} BEGIN ${note('new')} ${end} END;
    CREATE TEMP TRIGGER shares_changed_${table} AFTER UPDATE ON ${table} BEGIN ${note('new')} END;
    CREATE TEMP TRIGGER shares_gone_${table} AFTER DELETE ON ${table} BEGIN ${note('old')} END;`;
}

type TableStatements = ReturnType<typeof tableStatements>;

function tableStatements(db: Database, table: string, { by, own, rises }: Shape) {
  const { shared, list } = columnsOf(db, table, own);
  const read = db.prepare<[Line], Row>(`SELECT ${list} FROM ${table} WHERE ${by} = ?`);
  const values = shared.map((name) => `@${name}`).join(', ');
  const write = db.prepare<[Row], Line>(`INSERT OR REPLACE INTO ${table} (${list}) VALUES (${values}) RETURNING ${by}`);
  const remove = db.prepare<[Line]>(`DELETE FROM ${table} WHERE ${by} = ?`);
  return {
    read: (line: Line): Row | null => read.get(line) ?? null,
    write: (row: Row, former: Line | null): Line => {
      if (former !== null && rises !== undefined && Number(read.get(former)?.[rises]) > Number(row[rises]))
        return former;
      if (former !== null && own !== undefined) remove.run(former);
      return write.pluck().get(row) ?? 0;
    },
    remove: (line: Line): void => void remove.run(line),
  };
}

type Row = Readonly<Record<string, unknown>>;

function columnsOf(db: Database, table: string, own: string | undefined) {
  const columns = db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table);
  const shared = columns.filter((name) => name !== own);
  return { shared, list: shared.join(', ') };
}

function textOf(row: Row): string {
  return JSON.stringify(mapped(row, packed));
}

function valuesOf(text: string): Row {
  return mapped(JSON.parse(text) as Row, unpacked);
}

function mapped(row: Row, map: (value: unknown) => unknown): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, map(value)]));
}

function packed(value: unknown): unknown {
  return Buffer.isBuffer(value) ? { hex: value.toString('hex') } : value;
}

function unpacked(value: unknown): unknown {
  return value instanceof Object && 'hex' in value ? Buffer.from(String(value.hex), 'hex') : value;
}
