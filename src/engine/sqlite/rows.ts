import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { Deadlines } from '../../lib/time.ts';
import type { Instant } from '../../lib/time.ts';

/**
 * The facts of one command, or of several commands of one instant, as stored. `facts` is a JSON list. In a checkpoint,
 * which replaces all older rows of its key, `facts` is `{"checkpoint": state, "seal": hash}`.
 */
export type JournalRow = {
  readonly row: number;
  readonly machine: number;
  /** The number of the last fact of the row, counted per key. */
  readonly seq: number;
  /** The number of the previous row of the same key; `null` for the first row and for a checkpoint. */
  readonly prev: number | null;
  readonly at: Instant;
  /** The machine's `nextDeadline` for the state after this row; `null` for never. */
  readonly deadline: Instant | null;
  readonly version: number;
  readonly facts: string;
  /** The texts of the facts with their salts (`recordOf`); `null` when none is left, and in checkpoints. */
  readonly body: string | null;
  /** The id of a command that is carried out once (`applyOnce`); `null` for other commands. */
  readonly cause: string | null;
  /** Hexadecimal digits. */
  readonly hash: string;
};

/** The columns of a journal row. */
export const JOURNAL_COLUMNS =
  'row, machine, seq, prev, at, deadline, version, facts, body, cause, lower(hex(hash)) AS hash';

/** A stored state: the fold of the journal up to `row`. */
export type Snapshot = {
  readonly id: number;
  readonly row: number;
  readonly version: number;
  readonly deadline: Instant | null;
  /**
   * The word that the machine's `rest` returned for the state; empty when the machine has no `rest`. `null`: something
   * is in progress or waits.
   */
  readonly rest: string | null;
  readonly state: string;
  readonly intact: boolean;
};

/** The end of a key's hash chain. */
export type Tail = Pick<JournalRow, 'row' | 'seq' | 'hash'>;

/** The machine and key of a row. */
export type Owner = { readonly id: number; readonly name: string; readonly key: string };

/** Stands before the first row of a chain. */
export const NO_TAIL: Tail = { row: 0, seq: 0, hash: '0'.repeat(64) };

/**
 * The hash of a row: SHA-256 of the previous hash and all stored values, except the row's number and the texts. The
 * facts hold the hashes of the texts.
 */
export function rowHash(before: string, row: Omit<JournalRow, 'row' | 'hash' | 'body'>): string {
  const { machine, seq, prev, at, deadline, version, cause, facts } = row;
  const head = JSON.stringify([machine, seq, prev, at, deadline, version, cause]);
  return hash('sha256', `${before}${head}${facts}`);
}

/**
 * A checkpoint in place of a row and all rows before it. The chain continues at the row's hash, which the checkpoint
 * keeps.
 */
export function checkpointOf(
  { hash: chainHash }: Pick<JournalRow, 'hash'>,
  { state }: { readonly state: string },
): string {
  return `{"checkpoint":${state},"seal":"${sealOf(chainHash, state)}"}`;
}

/** True when the row continues the chain, or is an intact checkpoint. */
export function continues(tail: Tail, row: JournalRow): boolean {
  if (row.prev === (tail.row || null) && rowHash(tail.hash, row) === row.hash) return true;
  const found = row.prev === null ? SEALED.exec(row.facts)?.groups : undefined;
  return found !== undefined && found['seal'] === sealOf(row.hash, found['state'] ?? '');
}

const SEALED = /^\{"checkpoint":(?<state>.*),"seal":"(?<seal>[0-9a-f]{64})"\}$/su;

function sealOf(chainHash: string, state: string): string {
  return hash('sha256', `${chainHash}${state}`);
}

/** Registers the SQL functions that the store's statements use. */
export function defineFunctions(db: Database): void {
  db.function('checksum', { varargs: true, deterministic: true }, (...values: unknown[]) =>
    Buffer.from(checksumOf(values), 'hex'),
  );
}

/** The columns of each table that a row's checksum covers. A wrong checksum shows silent damage. */
const CHECKED = {
  inbox:
    'id channel sort position author_id author_name text sent_at addressed attachments ignore_rule fate edited deleted version bot since thread',
  machines: 'id name key row version deadline rest state',
  // The checksum leaves out delivery state: it changes after the row is written.
  outbox: 'n id channel lane type effect part text key repeats',
  memory: 'owner name value',
  ledger:
    'machine row n at agent epoch run requested_by backend model tokens input output cached cost source outcome ms',
  conversation:
    'seq channel kind speaker_id speaker_name avatar text epoch sent_at edited deleted receipts reply_to nonce',
} as const;

type CheckedTable = keyof typeof CHECKED;

/** The checksum of a row as SQL. The columns in `given` are parameters of the statement. */
export function checksum(table: CheckedTable, given: readonly string[] | 'all' = []): string {
  const columns = CHECKED[table].split(' ');
  return `checksum(${columns.map((column) => (given === 'all' || given.includes(column) ? `@${column}` : column)).join(', ')})`;
}

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;

type CheckedRow<T extends CheckedTable> = Readonly<Record<Words<(typeof CHECKED)[T]>, string | number | null>>;

/** The checksum of a row as hexadecimal digits. */
export function rowChecksum<T extends CheckedTable>(table: T, row: CheckedRow<T>): string {
  return checksumOf(CHECKED[table].split(' ').map((column): unknown => Reflect.get(row, column)));
}

/** Returns a function that inserts a row with its checksum. `conflict`: the clause for a key that is there already. */
export function inserter<T extends CheckedTable>(db: Database, table: T, conflict = ''): (row: CheckedRow<T>) => void {
  const columns = CHECKED[table].split(' ');
  const insert = db.prepare(
    `INSERT INTO ${table} (${columns.join(', ')}, checksum) VALUES (${columns.map(() => '?').join(', ')}, unhex(?)) ${conflict}`,
  );
  return (row) => {
    const values = columns.map((column): unknown => Reflect.get(row, column));
    insert.run(...values, checksumOf(values));
  };
}

/**
 * Returns a function that runs a write which may change or delete journal rows. Outside of it, triggers refuse to
 * delete journal rows and to change any of their columns except `body`.
 */
export function journalRewriter(db: Database): (write: () => void) => void {
  const begin = db.prepare("INSERT OR REPLACE INTO meta VALUES ('pruning', 'now')");
  const end = db.prepare("DELETE FROM meta WHERE name = 'pruning'");
  return (write) => {
    begin.run();
    write();
    end.run();
  };
}

/** How many rows that match the condition have a wrong checksum. */
export function countBroken(db: Database, table: CheckedTable, condition = 'TRUE'): number {
  const sql = `SELECT count(*) FROM ${table} WHERE (${condition}) AND checksum IS NOT ${checksum(table)}`;
  return Number(db.prepare(sql).pluck().get());
}

/**
 * Returns a function that counts wrong checksums among the next `most` rows after a row number. Its result has the
 * number of the last of these rows; `null` for no more rows.
 */
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

/** A state is stored when more rows than this were written, of any key, since the first row that the state lacks. */
const MOST_LAG = 20_000;

/**
 * One commit stores at most this many overdue states, and one more for each four rows that it adds, so that many
 * overdue states do not delay commits.
 */
const STORED_AT_ONCE = 4;

/**
 * The journal of all machines and their stored states. Memory holds all deadlines, and the numbers of the first and
 * last row after each stored state that is behind its journal.
 */
export class Rows {
  readonly #deadlines = new Map<string, Deadlines>();
  /** By key number: the first and last row after the stored state, longest behind first. */
  readonly #lagging = new Map<number, Lag>();
  last = 0;
  #id = 0;
  #added = 0;
  readonly #sql;

  constructor(db: Database) {
    this.#sql = statements(db);
    this.load();
  }

  load(): void {
    this.#lagging.clear();
    for (const deadlines of this.#deadlines.values()) deadlines.clear();
    this.last = this.#sql.lastRow.get() ?? 0;
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

  /** Keys of one machine whose stored states are not at rest, or behind their journal. */
  awake(name: string): readonly string[] {
    const lagging = this.lagging().filter((owner) => owner.name === name);
    return [...new Set([...this.#sql.awake.all(name), ...lagging.map(({ key }) => key)])];
  }

  /**
   * The keys of one machine whose stored states are at rest and not behind their journal, with the word that the
   * machine's `rest` returned.
   */
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

  end({ id, row }: Pick<Snapshot, 'id' | 'row'>): number {
    return this.#lagging.get(id)?.last ?? row;
  }

  read(row: number): JournalRow | null {
    return this.#sql.read.get(row) ?? null;
  }

  /** The previous row of the same key. Returns `null` for a link that points forward, which only damage causes. */
  before({ row, prev }: Pick<JournalRow, 'row' | 'prev'>): JournalRow | null {
    return prev === null || prev >= row ? null : this.read(prev);
  }

  /** Returns the row `from`, then the earlier rows of its key, newest first. */
  *back(from: number): Iterable<JournalRow> {
    for (let row = this.read(from); row !== null; row = this.before(row)) yield row;
  }

  /** True when the command with the id `cause` was carried out for the key with the number `id`. */
  isKnown(id: number, cause: string): boolean {
    return this.#sql.cause.get(id, cause) !== undefined;
  }

  newId(): number {
    this.#id += 1;
    return this.#id;
  }

  append(
    owner: Owner,
    row: Pick<JournalRow, 'at' | 'deadline' | 'version' | 'facts' | 'body' | 'cause'>,
    after: JournalEnd,
  ): Tail {
    const { tail, count } = after;
    const { at, deadline, version, facts, body, cause } = row;
    const [machine, seq, prev] = [owner.id, tail.seq + count, tail.row || null];
    const own = rowHash(tail.hash, { machine, seq, prev, at, deadline, version, cause, facts });
    this.last += 1;
    this.#sql.append.run(this.last, machine, seq, prev, at, deadline, version, facts, body, cause, own);
    this.#added += 1;
    this.#lag(owner, this.last);
    this.deadlinesOf(owner.name).set(owner.key, deadline);
    return { row: this.last, seq, hash: own };
  }

  /** Stores a state that is folded up to the end of its chain. */
  store(
    owner: Owner,
    { tail, ...stored }: Pick<Snapshot, 'version' | 'deadline' | 'rest' | 'state'> & { tail: Tail },
  ): void {
    this.#sql.store({ ...owner, row: tail.row, ...stored });
    this.#lagging.delete(owner.id);
  }

  /** Keys whose states must be stored with this commit, longest behind first. Call it once for each commit. */
  overdue(): readonly Owner[] {
    const most = STORED_AT_ONCE + Math.floor(this.#added / 4);
    this.#added = 0;
    const owners: Owner[] = [];
    for (const { owner, first } of this.#lagging.values()) {
      if (this.last - first <= MOST_LAG || owners.length === most) break;
      owners.push(owner);
    }
    return owners;
  }

  /** True when the stored state of a key is behind its journal. */
  isLagging(id: number): boolean {
    return this.#lagging.has(id);
  }

  lagging(): readonly Owner[] {
    return [...this.#lagging.values()].map(({ owner }) => owner);
  }

  /** Records the row after which a start must read the journal. */
  noteLow(): void {
    const [oldest] = this.#lagging.values();
    this.#sql.noteLow.run(String(oldest === undefined ? this.last : oldest.first - 1));
  }

  #lag(owner: Owner, row: number): void {
    const known = this.#lagging.get(owner.id);
    if (known === undefined) this.#lagging.set(owner.id, { owner, first: row, last: row });
    else known.last = row;
  }
}

type Lag = { readonly owner: Owner; readonly first: number; last: number };

type JournalEnd = { readonly tail: Tail; readonly count: number };

type StoredSnapshot = Omit<Snapshot, 'intact'> & { readonly intact: number };
type Deadline = { readonly name: string; readonly key: string; readonly deadline: Instant | null };

/** The checksum of these values as hexadecimal digits, equal to that of the SQL function. */
export function checksumOf(values: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(values.map(storedForm))).slice(0, CHECKSUM_DIGITS);
}

const CHECKSUM_DIGITS = 32;

/** A value as SQLite gives it back, for a checksum: SQLite replaces ill-formed text. Bytes as hexadecimal digits. */
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
    append: db.prepare(
      `INSERT INTO journal (row, machine, seq, prev, at, deadline, version, facts, body, cause, hash)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, unhex(?))`,
    ),
    store: inserter(
      db,
      'machines',
      `ON CONFLICT (id) DO UPDATE SET row = excluded.row, version = excluded.version, deadline = excluded.deadline,
         rest = excluded.rest, state = excluded.state, checksum = excluded.checksum`,
    ),
  };
}
