import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { BoundedMap } from '../../lib/keyed.ts';
import { canonical } from '../canonical.ts';

/** How many are kept in memory. */
const KEPT = 1_000;

type Row = { readonly id: string; readonly json: string };

/** Configurations that states and facts name: each is stored once, under a hash of it, and stays for as long as a journal may name it. */
export class Configs {
  readonly #insert;
  readonly #read;
  readonly #ids = new WeakMap<object, string>();
  /** Those that are in the file, as they were written or read. */
  readonly #stored = new BoundedMap<string, unknown>(KEPT);

  constructor(db: Database) {
    this.#insert = db.prepare<[string, string]>('INSERT OR IGNORE INTO configs (id, json) VALUES (?, ?)');
    this.#read = db.prepare<[string], Row>('SELECT id, json FROM configs WHERE id = ?');
  }

  /** The id of a configuration, which is the same for equal ones; stores what is new in the transaction under way. */
  idOf(config: object): string {
    const known = this.#ids.get(config);
    if (known !== undefined && this.#stored.has(known)) return known;
    const json = canonical(config);
    const id = idOf(json);
    this.#insert.run(id, json);
    this.#ids.set(config, id);
    this.#stored.set(id, config);
    return id;
  }

  /** The configuration with an id, the same object for as long as it is in use; throws when it is not there, or not what was stored. */
  find(id: string): unknown {
    const known = this.#stored.get(id);
    if (known !== undefined) return known;
    const row = this.#read.get(id);
    if (row === undefined) throw new Error('a configuration is not there');
    if (idOf(row.json) !== id) throw new Error('a configuration is not what was written');
    const config: unknown = JSON.parse(row.json);
    this.#stored.set(id, config);
    return config;
  }

  /** The transaction was undone. */
  undone(): void {
    this.#stored.clear();
  }
}

/** What is wrong with the configurations in a file, one sentence per problem. */
export function configProblems(db: Database): readonly string[] {
  const rows = db.prepare<[], Row>('SELECT id, json FROM configs').iterate();
  for (const { id, json } of rows) if (idOf(json) !== id) return ['configs: a row is not what was written'];
  return [];
}

function idOf(json: string): string {
  return hash('sha256', json, 'base64url');
}
