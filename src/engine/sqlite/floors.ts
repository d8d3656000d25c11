import type { Database } from 'better-sqlite3';
import type { Fact } from '../../turns/floor/fact.ts';
import { floorSchema } from '../../turns/floor/floor.ts';
import type { Floor } from '../../turns/floor/floor.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { canonical } from '../canonical.ts';
import type { Tail } from './journal.ts';
import { sealing } from './seal.ts';

/** A floor, and the end of the journal that it is the fold of. */
export type Head = { readonly floor: Floor; readonly tail: Tail };

/** What led to a floor, and when it next changes by itself. */
export type Change = { readonly facts: readonly Fact[]; readonly deadline: Instant | null };

type Row = { readonly seq: number; readonly hash: Buffer; readonly floor: string };

/** The stored floors. Those in use are kept in memory, the least recently used leave first. */
export class Floors {
  readonly #cache = new Map<ChannelId, Head>();
  readonly #limit: number;
  readonly #read;
  readonly #write;
  readonly #seal;
  readonly #channels;
  readonly #due;
  readonly #next;
  readonly #seat;
  readonly #drop;

  /** `limit` is how many floors stay in memory. */
  constructor(db: Database, limit: number) {
    this.#limit = limit;
    this.#read = db.prepare<[string], Row>('SELECT seq, hash, floor FROM floors WHERE channel = ?');
    this.#write = db.prepare<[string, number, Buffer, number | null, string]>(
      `INSERT INTO floors (channel, seq, hash, deadline, floor) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (channel) DO UPDATE
       SET seq = excluded.seq, hash = excluded.hash, deadline = excluded.deadline, floor = excluded.floor`,
    );
    this.#seal = db.prepare<[string]>(sealing('floors', 'channel = ?'));
    this.#channels = db.prepare<[], string>('SELECT channel FROM floors ORDER BY channel').pluck();
    this.#due = db
      .prepare<[number], string>('SELECT channel FROM floors WHERE deadline <= ? ORDER BY deadline, channel')
      .pluck();
    this.#next = db.prepare<[number], number>('SELECT min(deadline) FROM floors WHERE deadline > ?').pluck();
    this.#seat = db.prepare<[string, string, string]>(
      'INSERT INTO seats VALUES (?, ?, ?) ON CONFLICT (channel, agent) DO UPDATE SET status = excluded.status',
    );
    this.#drop = db.prepare<[string, string]>('DELETE FROM seats WHERE channel = ? AND agent = ?');
  }

  /** The floor of a channel; `null` when nothing has happened there. */
  read(channel: ChannelId): Head | null {
    const known = this.#cache.get(channel);
    if (known !== undefined) return this.#keep(channel, known);
    const row = this.#read.get(channel);
    if (row === undefined) return null;
    const floor = floorSchema.parse(JSON.parse(row.floor));
    return this.#keep(channel, { floor, tail: { seq: row.seq, hash: row.hash } });
  }

  /** Stores a floor and, fact by fact, the states of its seats: the database refuses a second ACTIVE one. */
  write(channel: ChannelId, head: Head, change: Change): void {
    for (const fact of change.facts) {
      if (fact.type === 'seatMoved') this.#seat.run(channel, fact.agent, fact.to);
      if (fact.type === 'seatDropped') this.#drop.run(channel, fact.agent);
    }
    this.#write.run(channel, head.tail.seq, head.tail.hash, change.deadline, canonical(head.floor));
    this.#seal.run(channel);
    this.#keep(channel, head);
  }

  /** The stored snapshot, as canonical JSON. */
  snapshot(channel: ChannelId): string | null {
    return this.#read.get(channel)?.floor ?? null;
  }

  channels(): readonly ChannelId[] {
    return this.#channels.all();
  }

  due(before: Instant): { readonly channels: readonly ChannelId[]; readonly next: Instant | null } {
    return { channels: this.#due.all(before), next: this.#next.get(before) ?? null };
  }

  /** Forgets what is in memory: the transaction that made it was undone. */
  forget(): void {
    this.#cache.clear();
  }

  #keep(channel: ChannelId, head: Head): Head {
    this.#cache.delete(channel);
    this.#cache.set(channel, head);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > this.#limit && oldest !== undefined) this.#cache.delete(oldest);
    return head;
  }
}
