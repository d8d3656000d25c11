import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import { canonical } from '../canonical.ts';
import type { Hosted, Machine } from '../machine.ts';
import type { Due } from '../port.ts';
import type { Tail } from './journal.ts';
import { sealing } from './seal.ts';

/** A state, and the end of the journal that it is the fold of. */
export type Head<State> = { readonly state: State; readonly tail: Tail };

/** What the store of states needs of a machine. */
export type Stateful<State, Fact> = {
  readonly machine: Pick<Machine<State, never, Fact, never>, 'state' | 'nextDeadline'>;
  readonly index: Pick<Hosted<State, never, Fact, never>['index'], 'seat'>;
};

type Row = { readonly seq: number; readonly hash: Buffer; readonly floor: string };

/** The stored states. Those in use are kept in memory, the least recently used leave first. */
export class States<State, Fact> {
  readonly #cache = new Map<string, Head<State>>();
  readonly #hosted: Stateful<State, Fact>;
  readonly #limit: number;
  readonly #read;
  readonly #write;
  readonly #seal;
  readonly #keys;
  readonly #due;
  readonly #next;
  readonly #seat;
  readonly #drop;

  /** `limit` is how many states stay in memory. */
  constructor(db: Database, hosted: Stateful<State, Fact>, limit: number) {
    this.#hosted = hosted;
    this.#limit = limit;
    this.#read = db.prepare<[string], Row>('SELECT seq, hash, floor FROM floors WHERE channel = ?');
    this.#write = db.prepare<[string, number, Buffer, number | null, string]>(
      `INSERT INTO floors (channel, seq, hash, deadline, floor) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (channel) DO UPDATE
       SET seq = excluded.seq, hash = excluded.hash, deadline = excluded.deadline, floor = excluded.floor`,
    );
    this.#seal = db.prepare<[string]>(sealing('floors', 'channel = ?'));
    this.#keys = db.prepare<[], string>('SELECT channel FROM floors ORDER BY channel').pluck();
    this.#due = db
      .prepare<[number], string>('SELECT channel FROM floors WHERE deadline <= ? ORDER BY deadline, channel')
      .pluck();
    this.#next = db.prepare<[number], number>('SELECT min(deadline) FROM floors WHERE deadline > ?').pluck();
    this.#seat = db.prepare<[string, string, string]>(
      'INSERT INTO seats VALUES (?, ?, ?) ON CONFLICT (channel, agent) DO UPDATE SET status = excluded.status',
    );
    this.#drop = db.prepare<[string, string]>('DELETE FROM seats WHERE channel = ? AND agent = ?');
  }

  /** The state under a key; `null` when nothing has happened there. */
  read(key: string): Head<State> | null {
    const known = this.#cache.get(key);
    if (known !== undefined) return this.#keep(key, known);
    const row = this.#read.get(key);
    if (row === undefined) return null;
    const state = this.#hosted.machine.state.parse(JSON.parse(row.floor));
    return this.#keep(key, { state, tail: { seq: row.seq, hash: row.hash } });
  }

  /** Stores a state and, fact by fact, what its seats became: the database refuses a second ACTIVE one. */
  write(key: string, head: Head<State>, facts: readonly Fact[]): void {
    for (const fact of facts) {
      const seat = this.#hosted.index.seat(fact);
      if (seat !== null && seat.status !== null) this.#seat.run(key, seat.agent, seat.status);
      if (seat?.status === null) this.#drop.run(key, seat.agent);
    }
    const deadline = this.#hosted.machine.nextDeadline(head.state);
    this.#write.run(key, head.tail.seq, head.tail.hash, deadline, canonical(head.state));
    this.#seal.run(key);
    this.#keep(key, head);
  }

  /** The stored snapshot, as canonical JSON. */
  snapshot(key: string): string | null {
    return this.#read.get(key)?.floor ?? null;
  }

  keys(): readonly string[] {
    return this.#keys.all();
  }

  due(before: Instant): Due {
    return { keys: this.#due.all(before), next: this.#next.get(before) ?? null };
  }

  /** Forgets what is in memory: the transaction that made it was undone. */
  forget(): void {
    this.#cache.clear();
  }

  #keep(key: string, head: Head<State>): Head<State> {
    this.#cache.delete(key);
    this.#cache.set(key, head);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > this.#limit && oldest !== undefined) this.#cache.delete(oldest);
    return head;
  }
}
