import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { Fact } from '../../turns/floor/fact.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { canonical } from '../canonical.ts';
import type { JournalEntry } from '../port.ts';

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

/** The facts of every channel, append-only and hash-chained. */
export class Journal {
  readonly #insert;
  readonly #name;
  readonly #newest;
  readonly #naming;
  readonly #lines;
  readonly #all;
  readonly #last;

  constructor(db: Database) {
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
  append(channel: ChannelId, at: Instant, facts: readonly Fact[], after: Tail): Tail {
    let tail = after;
    for (const fact of facts) {
      const entry = { channel, seq: tail.seq + 1, at, fact: canonical(fact) };
      tail = { seq: entry.seq, hash: entryHash(tail.hash, entry) };
      this.#insert.run(channel, entry.seq, at, lineOf(fact), entry.fact, tail.hash);
      for (const message of messagesOf(fact)) this.#name.run(message, channel, entry.seq);
    }
    return tail;
  }

  /** The newest entries before `before`, oldest first. */
  newest(channel: ChannelId, limit: number, before = Number.MAX_SAFE_INTEGER): readonly JournalEntry[] {
    return this.#newest.all(channel, before, limit).toReversed().map(entryOf);
  }

  /** The entries that name a message, oldest first. */
  naming(message: MessageId): readonly JournalEntry[] {
    return this.#naming.all(message).map(entryOf);
  }

  /** The entries that hold the lines after one and up to another. */
  lines(channel: ChannelId, after: number, upto: number): readonly JournalEntry[] {
    return this.#lines.all(channel, after, upto).map(entryOf);
  }

  /** Every row of a channel, oldest first, one at a time. */
  rows(channel: ChannelId): Iterable<JournalRow> {
    return this.#all.iterate(channel);
  }

  /** The last rows of a channel, oldest first. */
  last(channel: ChannelId, count: number): readonly JournalRow[] {
    return this.#last.all(channel, count).toReversed();
  }
}

/** A stored row, read back. */
export function entryOf(row: JournalRow): JournalEntry {
  return {
    channel: row.channel,
    seq: row.seq,
    at: row.at,
    fact: JSON.parse(row.fact) as Fact,
    hash: row.hash.toString('hex'),
  };
}

/** The line of the conversation that a fact added; `null` when it added none. */
export function lineOf(fact: Fact): number | null {
  return fact.type === 'said' || fact.type === 'messageRouted' || fact.type === 'messageAmended' ? fact.line : null;
}

/** The human messages that a fact names, each once. */
export function messagesOf(fact: Fact): readonly MessageId[] {
  const named = [
    ...('id' in fact ? [fact.id] : []),
    ...('messages' in fact ? fact.messages : []),
    ...('answered' in fact ? fact.answered : []),
  ];
  return [...new Set(named.map((message) => (typeof message === 'string' ? message : message.id)))];
}
