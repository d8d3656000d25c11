import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { BoundedMap } from '../../lib/keyed.ts';
import { canonical } from '../canonical.ts';

const KEPT = 1_000;

/** How many rows pruning and erasing look at before other work may run. */
export const LOOKED_AT = 2_000;

type Row = { readonly id: string; readonly json: string };
type Naming = { readonly n: number; readonly machine: number; readonly text: string | null };

type Leaving = {
  readonly isGone: (machine: number, row: number) => boolean;
  readonly named: ReadonlySet<string>;
};

/** Configurations that states and facts name. Each is stored once under its hash. `prune` deletes unused ones. */
export class Configs {
  readonly #sql;
  /** Sets that collect each configuration id that `idOf` returns while they are open. */
  readonly #watching = new Set<Set<string>>();
  readonly #ids = new WeakMap<object, string>();
  readonly #stored = new BoundedMap<string, unknown>(KEPT);

  constructor(db: Database) {
    this.#sql = {
      insert: db.prepare<[string, string]>('INSERT OR IGNORE INTO configs (id, json) VALUES (?, ?)'),
      read: db.prepare<[string], Row>('SELECT id, json FROM configs WHERE id = ?'),
      all: db.prepare<[], string>('SELECT id FROM configs').pluck(),
      delete: db.prepare<[string]>('DELETE FROM configs WHERE id = ?'),
      journal: namingRows(db, 'journal', 'row', 'facts'),
      machines: namingRows(db, 'machines', 'id', 'state'),
    };
  }

  /** The id of a configuration; equal ones have the same id. Stores a new one in the current transaction. */
  idOf(config: object): string {
    const known = this.#ids.get(config);
    if (known !== undefined && this.#stored.has(known)) return this.#noteUse(known);
    const json = canonical(config);
    const id = idOf(json);
    this.#sql.insert.run(id, json);
    this.#ids.set(config, id);
    this.#stored.set(id, config);
    return this.#noteUse(id);
  }

  /**
   * The configuration with an id. Returns the same object while it is in memory. Throws when it is missing or damaged.
   */
  find(id: string): unknown {
    const known = this.#stored.get(id);
    if (known !== undefined) return known;
    const row = this.#sql.read.get(id);
    if (row === undefined) throw new Error('a configuration is not there');
    if (idOf(row.json) !== id) throw new Error('a configuration does not match its checksum');
    const config: unknown = JSON.parse(row.json);
    this.#stored.set(id, config);
    return config;
  }

  /**
   * Deletes configurations that no state and no fact names. Resolves with their number. Keeps configurations that get
   * used meanwhile.
   */
  async prune(write: Writing): Promise<number> {
    const named = new Set<string>();
    this.#watching.add(named);
    try {
      await this.#find(write, { isGone: () => false, named });
      return await write(() => {
        const unused = this.#sql.all.all().filter((id) => !named.has(id));
        for (const id of unused) this.#forget(id);
        return unused.length;
      });
    } finally {
      this.#watching.delete(named);
    }
  }

  /** How many configurations would be unused after a pruning. */
  async count(write: Writing, { isGone, named }: Leaving): Promise<number> {
    const found = new Set(named);
    await this.#find(write, { isGone, named: found });
    return write(() => this.#sql.all.all().filter((id) => !found.has(id)).length);
  }

  async #find(write: Writing, { isGone, named }: Leaving & { readonly named: Set<string> }): Promise<void> {
    for (const table of ['journal', 'machines'] as const) {
      const rows = this.#sql[table];
      for (let found = await write(() => rows.all(0)); found.length > 0;) {
        for (const { n, machine, text } of found)
          if (table !== 'journal' || !isGone(machine, n)) for (const id of configsIn(text ?? '')) named.add(id);
        const after = found.at(-1)?.n ?? 0;
        found = await write(() => rows.all(after));
      }
    }
  }

  #noteUse(id: string): string {
    for (const named of this.#watching) named.add(id);
    return id;
  }

  #forget(id: string): void {
    this.#sql.delete.run(id);
    this.#stored.delete(id);
  }

  /** Called after a rollback: empties the cache, which may have configurations that are not in the database. */
  undone(): void {
    this.#stored.clear();
  }
}

/** Returns one sentence if a stored configuration is damaged, else an empty list. */
export function configProblems(db: Database): readonly string[] {
  const rows = db.prepare<[], Row>('SELECT id, json FROM configs').iterate();
  for (const { id, json } of rows) if (idOf(json) !== id) return ['configs: a row does not match its checksum'];
  return [];
}

/** The ids of the configurations that a stored state or stored facts name. */
export function configsIn(text: string): readonly string[] {
  return [...text.matchAll(NAMED)].map(([, id = '']) => id);
}

type Writing = <T>(write: () => T) => Promise<T>;

/**
 * Matches an id as `recordOf` and `stateText` write it. Inside a text the quotes are escaped, so a text never matches.
 */
const NAMED = /"config":"([\w-]{43})"/gu;

function namingRows(db: Database, table: 'journal' | 'machines', number: string, column: string) {
  return db.prepare<[number], Naming>(
    `SELECT ${number} AS n, ${table === 'journal' ? 'machine' : 'id'} AS machine, iif(instr(${column}, '"config":"') > 0, ${column}, NULL) AS text FROM ${table}
     WHERE ${number} > ? ORDER BY ${number} LIMIT ${LOOKED_AT}`,
  );
}

function idOf(json: string): string {
  return hash('sha256', json, 'base64url');
}
