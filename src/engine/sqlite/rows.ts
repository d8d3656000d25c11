import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { Deadlines } from '../../lib/time.ts';
import type { Instant } from '../../lib/time.ts';

/** What one command did, as it is stored: `facts` is a JSON list, or `{"checkpoint": state}` where a chain begins anew. */
export type JournalRow = {
  readonly row: number;
  readonly machine: number;
  /** The number of its last fact among those of its key. */
  readonly seq: number;
  /** The row before of the same key; `null` at the beginning. */
  readonly prev: number | null;
  readonly at: Instant;
  /** When the state after it changes by itself. */
  readonly deadline: Instant | null;
  readonly version: number;
  readonly facts: string;
  /** The texts of the facts, each with its salt; see `recordOf`. */
  readonly body: string | null;
  /** The id of the command, if another machine sent it. */
  readonly cause: string | null;
  /** In hexadecimal digits. */
  readonly hash: string;
};

/** The columns of a row as it is read. */
export const JOURNAL_COLUMNS =
  'row, machine, seq, prev, at, deadline, version, facts, body, cause, lower(hex(hash)) AS hash';

/** A state as it was stored last: the fold of the journal up to `row`. */
export type Snapshot = {
  readonly id: number;
  readonly row: number;
  readonly version: number;
  readonly deadline: Instant | null;
  /** The word with which it is at rest; `null` when it is not. */
  readonly rest: string | null;
  readonly state: string;
  /** Whether it is what was written. */
  readonly intact: boolean;
};

/** The end of a key's chain. */
export type Tail = Pick<JournalRow, 'row' | 'seq' | 'hash'>;

/** Who a row belongs to. */
export type Owner = { readonly id: number; readonly name: string; readonly key: string };

/** Before the first row of a chain. */
export const NO_TAIL: Tail = { row: 0, seq: 0, hash: '0'.repeat(64) };

/** The hash of a row: SHA-256 over the hash before it and everything else that is stored in it, but for the texts, which it has hashes of. */
export function rowHash(before: string, row: Omit<JournalRow, 'row' | 'hash' | 'body'>): string {
  const { machine, seq, prev, at, deadline, version, cause, facts } = row;
  return hashAfter(before, JSON.stringify([machine, seq, prev, at, deadline, version, cause]), facts);
}

/** A checkpoint that stands in the place of a row and of all before it: the chain goes on at the hash of the row, which it keeps. */
export function checkpointOf({ hash: kept }: Pick<JournalRow, 'hash'>, { state }: { readonly state: string }): string {
  return `{"checkpoint":${state},"seal":"${sealOf(kept, state)}"}`;
}

/** Whether a row continues a chain, or begins it anew as a checkpoint that is what was written. */
export function continues(tail: Tail, row: JournalRow): boolean {
  if (row.prev === (tail.row || null) && rowHash(tail.hash, row) === row.hash) return true;
  const found = row.prev === null ? SEALED.exec(row.facts)?.groups : undefined;
  return found !== undefined && found['seal'] === sealOf(row.hash, found['state'] ?? '');
}

const SEALED = /^\{"checkpoint":(?<state>.*),"seal":"(?<seal>[0-9a-f]{64})"\}$/su;

function sealOf(kept: string, state: string): string {
  return hash('sha256', `${kept}${state}`);
}

/** Teaches a connection the functions that statements of the store and of its migrations use. */
export function defineFunctions(db: Database): void {
  db.function('checksum', { varargs: true, deterministic: true }, (...values: unknown[]) =>
    Buffer.from(checksumOf(values), 'hex'),
  );
}

/** Columns of each table that can change; the checksum of a row is a hash over them, so that silent damage shows. */
const CHECKED = {
  inbox:
    'id channel sort position author_id author_name text sent_at addressed attachments ignore_rule fate edited deleted version bot since thread',
  machines: 'id name key row version deadline rest state',
  // What becomes of a row is not part of what is owed.
  outbox: 'n id channel lane type effect part text key repeats',
  memory: 'owner name value',
  ledger:
    'machine row n at agent epoch run requested_by backend model tokens input output cached cost source outcome ms',
  conversation:
    'seq channel kind speaker_id speaker_name avatar text epoch sent_at edited deleted receipts reply_to nonce',
} as const;

export type CheckedTable = keyof typeof CHECKED;

/** The checksum of a row as SQL, for the statement that writes it; columns in `given` are that statement's parameters of the same name. */
export function checksum(table: CheckedTable, given: readonly string[] | 'all' = []): string {
  const columns = CHECKED[table].split(' ');
  return `checksum(${columns.map((column) => (given === 'all' || given.includes(column) ? `@${column}` : column)).join(', ')})`;
}

/** How many rows of a table match a condition and are not what was written. */
export function countBroken(db: Database, table: CheckedTable, condition = 'TRUE'): number {
  const sql = `SELECT count(*) FROM ${table} WHERE (${condition}) AND checksum IS NOT ${checksum(table)}`;
  return Number(db.prepare(sql).pluck().get());
}

/** Counts the rows of a table that are not what was written, so many at a time: those after a row, and the last it looked at. */
export function brokenRows(
  db: Database,
  table: CheckedTable,
  most: number,
): (after: number) => { readonly last: number | null; readonly broken: number } {
  const read = db.prepare<[number], { last: number | null; broken: number | null }>(
    `SELECT max(n) AS last, sum(broken) AS broken FROM (
       SELECT rowid AS n, checksum IS NOT ${checksum(table)} AS broken FROM ${table}
       WHERE rowid > ? ORDER BY rowid LIMIT ${most})`,
  );
  return (after) => {
    const { last = null, broken = 0 } = read.get(after) ?? {};
    return { last, broken: broken ?? 0 };
  };
}

/** How many rows a state may lag behind its journal before it is stored; a start reads about as many. */
const MOST_LAG = 20_000;

/** How many states are stored with one commit, besides a quarter of its rows, so that many that fall due at once hold nobody up. */
const STORED_AT_ONCE = 4;

/**
 * The journal of all machines and their last stored states, as rows. What a start must know is kept in memory: the last
 * row of every key whose state lags behind, and all deadlines.
 */
export class Rows {
  readonly #deadlines = new Map<string, Deadlines>();
  /** By key's number: the first and last row after its stored state; those that lag longest come first. */
  readonly #lagging = new Map<number, { readonly owner: Owner; readonly first: number; last: number }>();
  #row = 0;
  #id = 0;
  #added = 0;
  readonly #sql;

  constructor(db: Database) {
    this.#sql = statements(db);
    this.load();
  }

  /** The last row of all. */
  get last(): number {
    return this.#row;
  }

  /** Reads anew what is kept in memory: at the start, and after a transaction was undone. */
  load(): void {
    this.#lagging.clear();
    for (const deadlines of this.#deadlines.values()) deadlines.clear();
    this.#row = this.#sql.lastRow.get() ?? 0;
    this.#id = this.#sql.lastId.get() ?? 0;
    this.#added = 0;
    for (const { name, key, deadline } of this.#sql.deadlines.iterate()) this.deadlinesOf(name).set(key, deadline);
    const low = Number(this.#sql.low.get() ?? 0);
    const ends = new Map<Owner, Instant | null>();
    for (const { row, id, name, key, deadline } of this.#sql.tails.iterate(low)) {
      const owner = this.#lagging.get(id)?.owner ?? { id, name, key };
      this.#lag(owner, row);
      ends.set(owner, deadline);
    }
    for (const [owner, deadline] of ends) this.deadlinesOf(owner.name).set(owner.key, deadline);
  }

  /** The deadlines of one machine's keys. */
  deadlinesOf(name: string): Deadlines {
    const known = this.#deadlines.get(name);
    if (known !== undefined) return known;
    const deadlines = new Deadlines();
    this.#deadlines.set(name, deadlines);
    return deadlines;
  }

  keys(name: string): readonly string[] {
    return this.#sql.keys.all(name);
  }

  /** The keys of one machine whose stored states are not at rest, or lag behind. */
  awake(name: string): readonly string[] {
    const lagging = this.lagging().filter((owner) => owner.name === name);
    return [...new Set([...this.#sql.awake.all(name), ...lagging.map(({ key }) => key)])];
  }

  /** The words with which the others are at rest. */
  resting(name: string): ReadonlyMap<string, string> {
    const found = new Map<string, string>();
    for (const { id, key, rest } of this.#sql.resting.iterate(name)) if (!this.isLagging(id)) found.set(key, rest);
    return found;
  }

  owners(): readonly Owner[] {
    return this.#sql.owners.all();
  }

  snapshot(name: string, key: string): Snapshot | null {
    const found = this.#sql.snapshot.get(name, key);
    return found === undefined ? null : { ...found, intact: found.intact === 1 };
  }

  /** The last row of a key. */
  end({ id, row }: Pick<Snapshot, 'id' | 'row'>): number {
    return this.#lagging.get(id)?.last ?? row;
  }

  read(row: number): JournalRow | null {
    return this.#sql.read.get(row) ?? null;
  }

  /** The row before of the same key; `null` also when it leads forward, which only damage does. */
  before({ row, prev }: Pick<JournalRow, 'row' | 'prev'>): JournalRow | null {
    return prev === null || prev >= row ? null : this.read(prev);
  }

  /** The rows of one key from one on back to its first, the newest first. */
  *back(from: number): Iterable<JournalRow> {
    for (let row = this.read(from); row !== null; row = this.before(row)) yield row;
  }

  /** Whether a command with this id was carried out. */
  isKnown(id: number, cause: string): boolean {
    return this.#sql.cause.get(id, cause) !== undefined;
  }

  /** How many rows there are. */
  count(): number {
    return Number(this.#sql.count.get());
  }

  /** A number for a key that has none. */
  newId(): number {
    return (this.#id += 1);
  }

  /** Adds a row after the end of its chain. */
  append(
    owner: Owner,
    row: Pick<JournalRow, 'at' | 'deadline' | 'version' | 'facts' | 'body' | 'cause'>,
    after: JournalEnd,
  ): Tail {
    const { tail, count } = after;
    const { at, deadline, version, facts, body, cause } = row;
    const [machine, seq, prev] = [owner.id, tail.seq + count, tail.row || null];
    const own = rowHash(tail.hash, { machine, seq, prev, at, deadline, version, cause, facts });
    this.#row += 1;
    this.#sql.append.run(this.#row, machine, seq, prev, at, deadline, version, facts, body, cause, own);
    this.#added += 1;
    this.#lag(owner, this.#row);
    this.deadlinesOf(owner.name).set(owner.key, deadline);
    return { row: this.#row, seq, hash: own };
  }

  /** Stores a state, the fold up to the end of its chain. */
  store(
    owner: Owner,
    { tail, ...stored }: Pick<Snapshot, 'version' | 'deadline' | 'rest' | 'state'> & { tail: Tail },
  ): void {
    const { version, deadline, rest, state } = stored;
    const columns = [owner.id, owner.name, owner.key, tail.row, version, deadline, rest, state];
    this.#sql.store.run(...columns, checksumOf(columns));
    this.#lagging.delete(owner.id);
  }

  /** The keys whose states are to be stored with this commit, and notes the row from which on a start must read. */
  overdue(): readonly Owner[] {
    const most = STORED_AT_ONCE + Math.floor(this.#added / 4);
    this.#added = 0;
    const owners: Owner[] = [];
    for (const { owner, first } of this.#lagging.values()) {
      if (this.#row - first <= MOST_LAG || owners.length === most) break;
      owners.push(owner);
    }
    return owners;
  }

  /** Whether the state of a key lags behind its journal. */
  isLagging(id: number): boolean {
    return this.#lagging.has(id);
  }

  /** Every key whose state lags behind its journal. */
  lagging(): readonly Owner[] {
    return [...this.#lagging.values()].map(({ owner }) => owner);
  }

  /** Notes the row from which on a start must read. */
  noteLow(): void {
    const [oldest] = this.#lagging.values();
    this.#sql.noteLow.run(String(oldest === undefined ? this.#row : oldest.first - 1));
  }

  #lag(owner: Owner, row: number): void {
    const known = this.#lagging.get(owner.id);
    if (known === undefined) this.#lagging.set(owner.id, { owner, first: row, last: row });
    else known.last = row;
  }
}

/** Where a row is added, and how many facts it holds. */
export type JournalEnd = { readonly tail: Tail; readonly count: number };

function hashAfter(before: string, head: string, facts: string): string {
  return hash('sha256', `${before}${head}${facts}`);
}

type StoredSnapshot = Omit<Snapshot, 'intact'> & { readonly intact: number };
type Deadline = { readonly name: string; readonly key: string; readonly deadline: Instant | null };

/** The checksum of these values of a row's columns, in their order and in hexadecimal digits, as SQL's function computes it of what is stored. */
export function checksumOf(values: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(values.map(storedForm))).slice(0, CHECKSUM_DIGITS);
}

const CHECKSUM_DIGITS = 32;

/** SQLite keeps texts well-formed. */
function storedForm(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  return Buffer.isBuffer(value) ? value.toString('hex') : value;
}

function statements(db: Database) {
  return {
    lastRow: db.prepare<[], number | null>('SELECT max(row) FROM journal').pluck(),
    lastId: db.prepare<[], number | null>('SELECT max(id) FROM machines').pluck(),
    low: db.prepare<[], string>("SELECT value FROM meta WHERE name = 'low'").pluck(),
    noteLow: db.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('low', ?)"),
    deadlines: db.prepare<[], Deadline>('SELECT name, key, deadline FROM machines WHERE deadline IS NOT NULL'),
    tails: db.prepare<[number], Pick<JournalRow, 'row' | 'deadline'> & Owner>(
      `SELECT j.row, m.id, m.name, m.key, j.deadline FROM journal j JOIN machines m ON m.id = j.machine
       WHERE j.row > ? AND j.row > m.row ORDER BY j.row`,
    ),
    keys: db.prepare<[string], string>('SELECT key FROM machines WHERE name = ? ORDER BY key').pluck(),
    awake: db.prepare<[string], string>('SELECT key FROM machines WHERE name = ? AND rest IS NULL').pluck(),
    resting: db.prepare<[string], { id: number; key: string; rest: string }>(
      'SELECT id, key, rest FROM machines WHERE name = ? AND rest IS NOT NULL',
    ),
    owners: db.prepare<[], Owner>('SELECT id, name, key FROM machines ORDER BY id'),
    snapshot: db.prepare<[string, string], StoredSnapshot>(
      `SELECT id, row, version, deadline, rest, state, checksum IS ${checksum('machines')} AS intact
       FROM machines WHERE name = ? AND key = ?`,
    ),
    read: db.prepare<[number], JournalRow>(`SELECT ${JOURNAL_COLUMNS} FROM journal WHERE row = ?`),
    cause: db.prepare<[number, string], number>('SELECT row FROM journal WHERE machine = ? AND cause = ?').pluck(),
    count: db.prepare<[], number>('SELECT count(*) FROM journal').pluck(),
    append: db.prepare(
      `INSERT INTO journal (row, machine, seq, prev, at, deadline, version, facts, body, cause, hash)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, unhex(?))`,
    ),
    store: db.prepare(
      `INSERT INTO machines (id, name, key, row, version, deadline, rest, state, checksum)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, unhex(?))
       ON CONFLICT (id) DO UPDATE SET row = excluded.row, version = excluded.version, deadline = excluded.deadline,
         rest = excluded.rest, state = excluded.state, checksum = excluded.checksum`,
    ),
  };
}
