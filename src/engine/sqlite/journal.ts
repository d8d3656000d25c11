import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import { canonical } from '../canonical.ts';
import type { Hosted, Schema } from '../machine.ts';
import type { StoredFact } from '../port.ts';

/** The end of a channel's hash chain. */
export type Tail = { readonly seq: number; readonly hash: Buffer };

/** A journal row as it is stored: `fact` is canonical JSON. */
export type JournalRow = {
  readonly channel: string;
  readonly seq: number;
  readonly at: number;
  readonly line: number | null;
  readonly fact: string;
  readonly hash: Buffer;
};

/** The end of the chain of a channel in which nothing has happened. */
export const NO_TAIL: Tail = { seq: 0, hash: Buffer.alloc(32) };

/** The hash of an entry: SHA-256 over the hash before it, in hex, and the canonical JSON of channel, seq, at and fact. */
export function entryHash(before: Buffer, row: Pick<JournalRow, 'channel' | 'seq' | 'at' | 'fact'>): Buffer {
  const entry = `{"at":${row.at},"channel":${JSON.stringify(row.channel)},"fact":${row.fact},"seq":${row.seq}}`;
  return hash('sha256', before.toString('hex') + entry, 'buffer');
}

/** The number of the first row of a run of one channel that does not continue the chain; `null` when all do. */
export function firstBreak(before: Tail, rows: Iterable<JournalRow>): number | null {
  let tail = before;
  for (const row of rows) {
    if (row.seq !== tail.seq + 1 || !entryHash(tail.hash, row).equals(row.hash)) return row.seq;
    tail = row;
  }
  return null;
}

/** How facts are read back, and by what they are found. */
export type FactIndex<Fact> = {
  readonly fact: Schema<Fact>;
  readonly index: Hosted<never, never, Fact, never>['index'];
};

/** The facts of every key, append-only and hash-chained. */
export class Journal<Fact> {
  readonly #facts: FactIndex<Fact>;
  readonly #insert;
  readonly #name;
  readonly #newest;
  readonly #naming;
  readonly #lines;
  readonly #all;
  readonly #last;

  constructor(db: Database, facts: FactIndex<Fact>) {
    this.#facts = facts;
    this.#insert = db.prepare<[string, number, number, number | null, string, Buffer]>(
      'INSERT INTO journal (channel, seq, at, line, fact, hash) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#name = db.prepare<[string, string, number]>('INSERT INTO mentions VALUES (?, ?, ?)');
    this.#newest = db.prepare<[string, number, number], JournalRow>(
      'SELECT * FROM journal WHERE channel = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
    );
    this.#naming = db.prepare<[string], JournalRow>(
      'SELECT j.* FROM mentions m JOIN journal j USING (channel, seq) WHERE m.message = ? ORDER BY j.channel, j.seq',
    );
    this.#lines = db.prepare<[string, number, number], JournalRow>(
      'SELECT * FROM journal WHERE channel = ? AND line > ? AND line <= ? ORDER BY line',
    );
    this.#all = db.prepare<[string], JournalRow>('SELECT * FROM journal WHERE channel = ? ORDER BY seq');
    this.#last = db.prepare<[string, number], JournalRow>(
      'SELECT * FROM journal WHERE channel = ? ORDER BY seq DESC LIMIT ?',
    );
  }

  /** Adds facts that happened at one instant; returns the new end of the chain. */
  append(channel: string, at: Instant, facts: readonly Fact[], after: Tail): Tail {
    let tail = after;
    for (const fact of facts) {
      const entry = { channel, seq: tail.seq + 1, at, fact: canonical(fact) };
      tail = { seq: entry.seq, hash: entryHash(tail.hash, entry) };
      this.#insert.run(channel, entry.seq, at, this.#facts.index.line(fact), entry.fact, tail.hash);
      for (const message of this.#facts.index.messages(fact)) this.#name.run(message, channel, entry.seq);
    }
    return tail;
  }

  /** The newest entries before `before`, oldest first. */
  newest(channel: string, limit: number, before = Number.MAX_SAFE_INTEGER): readonly StoredFact<Fact>[] {
    return this.#newest
      .all(channel, before, limit)
      .toReversed()
      .map((row) => this.#entry(row));
  }

  /** The entries that name a message, oldest first. */
  naming(message: string): readonly StoredFact<Fact>[] {
    return this.#naming.all(message).map((row) => this.#entry(row));
  }

  /** The entries that hold the lines after one and up to another. */
  lines(channel: string, after: number, upto: number): readonly StoredFact<Fact>[] {
    return this.#lines.all(channel, after, upto).map((row) => this.#entry(row));
  }

  /** Every row of a channel, oldest first, one at a time. */
  rows(channel: string): Iterable<JournalRow> {
    return this.#all.iterate(channel);
  }

  /** The last rows of a channel, oldest first. */
  last(channel: string, count: number): readonly JournalRow[] {
    return this.#last.all(channel, count).toReversed();
  }

  #entry({ channel, seq, at, fact, hash: own }: JournalRow): StoredFact<Fact> {
    return { key: channel, seq, at, fact: this.#facts.fact.parse(JSON.parse(fact)), hash: own.toString('hex') };
  }
}
