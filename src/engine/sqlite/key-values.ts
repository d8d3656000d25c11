import type { Database } from 'better-sqlite3';
import { checksum } from './rows.ts';
import type { Commits } from './commits.ts';

/** Texts by name, for parts of the program that must remember something over a restart. */
export class KeyValues {
  readonly #commits: Commits;
  readonly #reading: <T>(read: () => T) => T;
  readonly #sql;

  constructor(db: Database, ports: { readonly commits: Commits; readonly reading: <T>(read: () => T) => T }) {
    this.#commits = ports.commits;
    this.#reading = ports.reading;
    this.#sql = statements(db);
  }

  remember(owner: string, name: string, value: string): Promise<void> {
    return this.#commits.run(() => () => void this.#sql.remember.run({ owner, name, value }));
  }

  forget(owner: string, name: string): Promise<void> {
    return this.#commits.run(() => () => void this.#sql.forget.run(owner, name));
  }

  /** The text under a name; `null` when there is none. */
  recall(owner: string, name: string): string | null {
    return this.#reading(() => this.#sql.recall.get(owner, name) ?? null);
  }

  remembered(owner: string): ReadonlyMap<string, string> {
    const found = this.#reading(() => this.#sql.remembered.all(owner));
    return new Map(found.map(({ name, value }) => [name, value]));
  }
}

function statements(db: Database) {
  return {
    remember: db.prepare<{ owner: string; name: string; value: string }>(
      `INSERT OR REPLACE INTO memory (owner, name, value, checksum)
       VALUES (@owner, @name, @value, ${checksum('memory', 'all')})`,
    ),
    forget: db.prepare<[string, string]>('DELETE FROM memory WHERE owner = ? AND name = ?'),
    recall: db.prepare<[string, string], string>('SELECT value FROM memory WHERE owner = ? AND name = ?').pluck(),
    remembered: db.prepare<[string], { name: string; value: string }>(
      'SELECT name, value FROM memory WHERE owner = ? ORDER BY name',
    ),
  };
}
