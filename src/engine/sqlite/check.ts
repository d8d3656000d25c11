import type { Database } from 'better-sqlite3';
import { errorMessage } from '../../lib/defined.ts';
import { StoreError, sentence } from '../errors.ts';
import { textHash } from '../machine.ts';
import { bodiesIn, readRecord } from '../reading.ts';
import type { ConfigTable, Reading } from '../machine.ts';
import type { StoredFact } from '../port.ts';
import type { Recording, Replayed } from '../replay.ts';
import { Configs, configProblems } from './configs.ts';
import { Ledger } from './ledger.ts';
import { MIGRATIONS, openToRead } from './open.ts';
import { OPEN, UNCLEAR } from './outbox.ts';
import { JOURNAL_COLUMNS, NO_TAIL, Rows, brokenRows, continues, countBroken } from './rows.ts';
import type { JournalRow, Owner, Tail } from './rows.ts';

/**
 * Checks the rows that the store is about to use: waiting messages and open outbox entries. Throws a `StoreError` that
 * names the damage.
 */
export function checkAtStart(db: Database, path: string): void {
  const damage = (what: string): StoreError => new StoreError('corrupt', sentence('corrupt', path, what));
  if (countBroken(db, 'inbox', 'fate IS NULL') > 0) throw damage('a waiting message does not match its checksum');
  const unclear = Number(db.prepare(`SELECT count(*) FROM outbox WHERE ${UNCLEAR}`).pluck().get());
  if (countBroken(db, 'outbox', OPEN) + unclear > 0) throw damage('an undelivered effect does not match its checksum');
}

/**
 * Checks the file's structure, its checksums, and every hash chain from its first row. Of a file with an earlier
 * schema, checks the structure only. Another process may write meanwhile.
 */
export function fileProblems(db: Database): readonly string[] {
  const structure = unlessUnreadable('the structure', () => structureProblems(db));
  if (isFormer(db)) return structure;
  return [
    ...structure,
    ...TABLES.flatMap((table) => unlessUnreadable(table, () => tableProblems(db, table))),
    ...unlessUnreadable('configs', () => configProblems(db)),
    ...unlessUnreadable('journal', () => chainProblems(db)),
  ];
}

/** True for an older schema, whose rows this version can check only after a start has migrated them. */
function isFormer(db: Database): boolean {
  return Number(db.pragma('user_version', { simple: true })) < MIGRATIONS.length;
}

/** How to fold a machine's journal. */
export type Fold = { readonly name: string; readonly replay: (recording: Recording) => Replayed };

/**
 * Damage in a database file, one sentence per problem. Another process may own the file. When `fileProblems` finds
 * none, folds the journals of the machines in `folds` and compares them with states and ledger. Throws a `StoreError`
 * when the file cannot be opened.
 */
export function databaseProblems(path: string, folds: readonly Fold[]): readonly string[] {
  const db = openToRead(path);
  try {
    const found = fileProblems(db);
    if (found.length > 0 || folds.length === 0) return found;
    const rows = new Rows(db);
    const [configs, ledger] = [new Configs(db), new Ledger(db)];
    const replay = db.transaction((owner: Owner): Replayed | null => {
      const fold = folds.find(({ name }) => name === owner.name);
      const snapshot = rows.snapshot(owner.name, owner.key);
      if (fold === undefined || snapshot === null) return null;
      const chain = [...rows.back(snapshot.row)].toReversed();
      return fold.replay({ key: owner.key, rows: chain, snapshot, configs, ledger });
    });
    return foldProblems(rows, replay);
  } finally {
    db.close();
  }
}

/**
 * The facts of every key of a machine in a database file, oldest first. Another process may own the file. Throws a
 * `StoreError` when the file cannot be opened.
 */
export function readJournals<State, Fact>(
  path: string,
  machine: Reading<State, Fact>,
): ReadonlyMap<string, readonly Omit<StoredFact<Fact>, 'hash'>[]> {
  const db = openToRead(path);
  try {
    const rows = new Rows(db);
    const configs = new Configs(db);
    const read = db.transaction((key: string) => [...factsBack(rows, key, { machine, configs })].toReversed());
    const keys = rows.owners().flatMap(({ name, key }) => (name === machine.name ? [key] : []));
    return new Map(keys.map((key) => [key, read(key)]));
  } finally {
    db.close();
  }
}

/** The facts of one key of a machine, newest first. */
export function* factsBack<State, Fact>(
  rows: Rows,
  key: string,
  { machine, configs }: { readonly machine: Reading<State, Fact>; readonly configs: ConfigTable },
): Generator<Omit<StoredFact<Fact>, 'hash'>> {
  const snapshot = rows.snapshot(machine.name, key);
  for (const row of snapshot === null ? [] : rows.back(rows.end(snapshot))) {
    const record = readRecord(machine, row, configs);
    const facts = 'facts' in record ? record.facts : [];
    for (const [index, fact] of facts.toReversed().entries()) yield { key, seq: row.seq - index, at: row.at, fact };
  }
}

/**
 * Checks that every journal has an unbroken chain, folds to its stored state, and agrees with the ledger. `replay`
 * folds one key; it returns `null` for an unknown machine.
 */
export function foldProblems(rows: Rows, replay: (owner: Owner) => Replayed | null): readonly string[] {
  const problemsOf = ({ key }: Owner, replayed: Replayed | null): readonly string[] => {
    if (replayed === null) return [];
    const { brokenAt, stoppedBy, equal, booked } = replayed;
    return [
      ...(brokenAt === null ? [] : [`the journal of ${key} was changed at entry ${brokenAt}`]),
      ...(stoppedBy === null ? [] : [`the journal of ${key} cannot be replayed: ${stoppedBy}`]),
      ...(equal ? [] : [`the stored state of ${key} differs from its journal`]),
      ...(booked || stoppedBy !== null ? [] : [`the ledger differs from the journal of ${key}`]),
    ];
  };
  return unlessUnreadable('machines', () =>
    rows.owners().flatMap((owner) => unlessUnreadable(owner.key, () => problemsOf(owner, replay(owner)))),
  );
}

function unlessUnreadable(what: string, look: () => readonly string[]): readonly string[] {
  try {
    return look();
  } catch (error) {
    return [`${what} cannot be read: ${errorMessage(error)}`];
  }
}

const TABLES = ['inbox', 'machines', 'outbox', 'memory', 'conversation', 'ledger'] as const;

const SLICE = 1_000;

function structureProblems(db: Database): readonly string[] {
  const tables = db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all();
  const found = tables.flatMap((table) => db.prepare<[], string>(`PRAGMA integrity_check("${table}")`).pluck().all());
  return found.filter((line) => line !== 'ok');
}

function tableProblems(db: Database, table: (typeof TABLES)[number]): readonly string[] {
  const read = brokenRows(db, table, SLICE);
  for (let after: number | null = -Infinity; after !== null;) {
    const { last, broken }: ReturnType<typeof read> = read(after);
    if (broken > 0) return [`${table}: a row does not match its checksum`];
    if (last !== null && last <= after) return [`${table}: its rows are not in order`];
    after = last;
  }
  return [];
}

function chainProblems(db: Database): readonly string[] {
  const slice = db.prepare<[number, number], JournalRow>(
    `SELECT ${JOURNAL_COLUMNS} FROM journal WHERE row > ? ORDER BY row LIMIT ?`,
  );
  const tails = new Map<number, Tail>();
  const broken = new Map<number, number>();
  let last = 0;
  for (let rows = slice.all(last, SLICE); rows.length > 0; rows = slice.all(last, SLICE)) {
    for (const row of rows) {
      if (row.row <= last) return ['journal: its rows are not in order'];
      last = row.row;
      const isNext = continues(tails.get(row.machine) ?? NO_TAIL, row);
      if (!isNext && !broken.has(row.machine)) broken.set(row.machine, row.row);
      tails.set(row.machine, row);
      if (!hasItsTexts(row)) broken.set(row.machine, row.row);
    }
  }
  const owners = new Map(
    db
      .prepare<[], Owner>('SELECT id, name, key FROM machines')
      .all()
      .map((one) => [one.id, one]),
  );
  return [
    ...[...broken].map(([id, row]) => `the journal of ${owners.get(id)?.key ?? `key ${id}`} was changed at row ${row}`),
    ...[...tails.keys()]
      .filter((id) => !owners.has(id))
      .map((id) => `the journal has rows of key ${id}, which does not exist`),
    ...db
      .prepare<[], string>(
        'SELECT key FROM machines m WHERE NOT EXISTS (SELECT 1 FROM journal j WHERE j.row = m.row AND j.machine = m.id)',
      )
      .pluck()
      .all()
      .map((key) => `the journal of ${key} does not have the row of its state`),
  ];
}

function hasItsTexts({ facts, body }: JournalRow): boolean {
  return bodiesIn(body).every((each) => each === null || facts.includes(textHash(...each)));
}
