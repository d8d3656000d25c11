import { randomBytes } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import { backUp, storeId } from './backup.ts';
import { checkAtStart, verifyAll } from './check.ts';
import type { Checked } from './check.ts';
import { Commits } from './commits.ts';
import { isEnvironmental, storeError } from '../errors.ts';
import { Inbox } from './inbox.ts';
import { Journal, NO_TAIL } from './journal.ts';
import { openDatabase } from './open.ts';
import { Outbox, recoverOutbox } from './outbox.ts';
import type { Hosted } from '../machine.ts';
import type { CommandResult, Due, HumanMessage, Lease, MachineReader, MachineStore, MessageChange } from '../port.ts';
import type { OwedEffect, Recovery, Settlement, StoredFact, StoredMessage } from '../port.ts';
import { replayJournal } from '../replay.ts';
import type { Replayed, ReplayStep } from '../replay.ts';
import { sealing } from './seal.ts';
import { States } from './states.ts';
import type { Head } from './states.ts';

/** What a store is built from. */
export type StoreOptions<State, Command, Fact, Effect, Refusal extends string> = {
  /** The database file, made if missing, with its folder; `':memory:'` keeps everything in this process. */
  readonly path: string;
  readonly hosted: Hosted<State, Command, Fact, Effect, Refusal>;
  readonly clock: { now(): Instant };
  /** How many states stay in memory; 1,000 unless told. */
  readonly statesInMemory?: number;
  /** A word of at most 12 letters and digits that no other store was ever given; random unless told. */
  readonly ids?: () => string;
};

/**
 * Opens the store in a file and takes it for this process alone.
 * Throws a `StoreError` that says what to do: within a second when another process has it, and before anything is
 * written when it is damaged or of a newer schema.
 */
export function openSqliteStore<Store>(path: string, make: (db: Database) => Store): Store {
  const db = openDatabase(path);
  try {
    return make(db);
  } catch (error) {
    db.close();
    throw storeError(error, path);
  }
}

/** A machine's states, messages, journal and outbox in one SQLite file that one process owns. */
export class SqliteStore<State, Command, Fact, Effect, Refusal extends string>
  implements MachineStore<State, Command, Fact, Effect, Refusal>, MachineReader<State, Fact>
{
  readonly #db: Database;
  readonly #path: string;
  readonly #hosted: Hosted<State, Command, Fact, Effect, Refusal>;
  readonly #inbox: Inbox;
  readonly #journal: Journal<Fact>;
  readonly #states: States<State, Fact>;
  readonly #outbox: Outbox<Effect>;
  readonly #commits: Commits;

  /** `db` comes from `openDatabase` and belongs to the store from now on. */
  constructor(db: Database, options: StoreOptions<State, Command, Fact, Effect, Refusal>) {
    const { hosted, path, clock } = options;
    const { machine, index, outbox } = hosted;
    this.#db = db;
    this.#path = path;
    this.#hosted = hosted;
    this.#inbox = new Inbox(db);
    this.#journal = new Journal(db, { fact: machine.fact, index });
    this.#states = new States(db, { machine, index }, options.statesInMemory ?? 1000);
    checkAtStart(this.#checked());
    const newId = options.ids ?? ((): string => randomBytes(5).toString('hex'));
    const restored = { db, journal: this.#journal, states: this.#states, machine, hosted, once: outbox.once };
    const id = storeId(restored, clock.now(), newId);
    this.#outbox = new Outbox(db, id, outbox);
    this.#commits = new Commits(db, path, () => this.#states.forget());
  }

  accept(message: HumanMessage): Promise<'new' | 'duplicate'> {
    return this.#commits.run(() => this.#inbox.accept(message));
  }

  /**
   * Changes the wording of an accepted message. Called in the same task as the `apply` of the matching command,
   * both are durable together.
   */
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'> {
    return this.#commits.run(() => this.#inbox.amend(change));
  }

  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>> {
    return this.#commits.run(() => this.#apply(key, command, at));
  }

  async due(before: Instant): Promise<Due> {
    return this.#reading(() => this.#states.due(before));
  }

  owed(limit: number, at: Instant): Promise<Lease<Effect>> {
    return this.#commits.run(() => this.#outbox.lease(limit, at));
  }

  settle(row: OwedEffect<Effect>, settlement: Settlement): Promise<void> {
    return this.#commits.run(() => this.#outbox.settle(row, settlement));
  }

  recover(): Promise<Recovery> {
    return this.#commits.run(() => {
      recoverOutbox(this.#db, this.#hosted.outbox.seen);
      const unapplied = this.#inbox.unapplied();
      const keys = [...new Set([...this.#states.keys(), ...unapplied.map((message) => message.channel)])];
      return { keys, unapplied };
    });
  }

  state(key: string): State | null {
    return this.#reading(() => this.#states.read(key)?.state ?? null);
  }

  keys(): readonly string[] {
    return this.#reading(() => this.#states.keys());
  }

  lined(key: string, after: number, upto: number): readonly StoredFact<Fact>[] {
    return this.#reading(() => this.#journal.lines(key, after, upto));
  }

  message(id: string): StoredMessage | null {
    return this.#reading(() => this.#inbox.read(id));
  }

  journal(key: string, limit: number, before?: number): readonly StoredFact<Fact>[] {
    return this.#reading(() => this.#journal.newest(key, limit, before));
  }

  why(message: string): readonly StoredFact<Fact>[] {
    return this.#reading(() => this.#journal.naming(message));
  }

  /** The newest message of a channel, in the platform's order. */
  lastSeen(channel: string): HumanMessage | null {
    return this.#reading(() => this.#inbox.lastSeen(channel));
  }

  /** Keeps where an agent's supervisor stands, as plain JSON. */
  saveAgent(id: string, state: unknown): Promise<void> {
    return this.#commits.run(() => {
      this.#db.prepare('INSERT OR REPLACE INTO agents (id, state) VALUES (?, ?)').run(id, JSON.stringify(state));
      this.#db.prepare(sealing('agents', 'id = ?')).run(id);
    });
  }

  /** What was kept of an agent; `null` when nothing was. To be parsed by whoever wrote it. */
  agent(id: string): unknown {
    const read = this.#db.prepare<[string], string>('SELECT state FROM agents WHERE id = ?').pluck();
    const state = this.#reading(() => read.get(id));
    return state === undefined ? null : JSON.parse(state);
  }

  /** Keeps a text under a name for one part of the program. */
  remember(owner: string, name: string, value: string): Promise<void> {
    return this.#commits.run(() => {
      this.#db.prepare('INSERT OR REPLACE INTO memory (owner, name, value) VALUES (?, ?, ?)').run(owner, name, value);
      this.#db.prepare(sealing('memory', 'owner = ? AND name = ?')).run(owner, name);
    });
  }

  /** Lets go of what was kept under a name. */
  forget(owner: string, name: string): Promise<void> {
    return this.#commits.run(() => {
      this.#db.prepare('DELETE FROM memory WHERE owner = ? AND name = ?').run(owner, name);
    });
  }

  /** What was kept under a name; `null` when nothing was. */
  recall(owner: string, name: string): string | null {
    const read = this.#db
      .prepare<[string, string], string>('SELECT value FROM memory WHERE owner = ? AND name = ?')
      .pluck();
    return this.#reading(() => read.get(owner, name) ?? null);
  }

  /** Everything that one part of the program keeps, by name. */
  remembered(owner: string): ReadonlyMap<string, string> {
    const read = this.#db.prepare<[string], { name: string; value: string }>(
      'SELECT name, value FROM memory WHERE owner = ? ORDER BY name',
    );
    return this.#reading(() => new Map(read.all(owner).map(({ name, value }) => [name, value])));
  }

  /** Folds a journal step by step and compares the result with the stored state. */
  replay(key: string, onStep?: (step: ReplayStep<State, Fact>) => void): Replayed {
    const recording = { key, rows: this.#journal.rows(key), stored: this.#states.snapshot(key) };
    return this.#reading(() => replayJournal(recording, this.#hosted.machine, onStep));
  }

  /** Checks every byte that can be checked; one sentence per problem, none when all is well. Takes time with long journals. */
  verify(): readonly string[] {
    return this.#reading(() => verifyAll(this.#checked(), this.#hosted));
  }

  /** Writes a consistent copy of everything committed into a new file, while the store goes on working. */
  async backupTo(path: string): Promise<void> {
    await this.#commits.run(() => {});
    await backUp(this.#db, path);
  }

  /** Commits what waits and lets go of the file. Whatever is asked later is rejected. */
  async close(): Promise<void> {
    this.#commits.close();
  }

  #apply(key: string, command: Command, at: Instant): CommandResult<State, Fact, Effect, Refusal> {
    const { machine, inbox } = this.#hosted;
    const before: Head<State> = this.#states.read(key) ?? { state: machine.empty(key), tail: NO_TAIL };
    const refusal = inbox.refusal(key, command, (id) => this.#inbox.read(id));
    if (refusal !== null) return { ok: false, state: before.state, refusal };
    const decision = machine.decide(before.state, command, at);
    const { facts } = decision;
    const state = facts.reduce((each, fact) => machine.evolve(each, fact, at), before.state);
    if (facts.length > 0)
      this.#states.write(key, { state, tail: this.#journal.append(key, at, facts, before.tail) }, facts);
    if (!decision.ok) return { ok: false, state, refusal: decision.refusal };
    for (const fact of facts) {
      const decided = inbox.fate(fact);
      if (decided !== null) this.#inbox.decideFate(decided.message, decided.fate);
    }
    const effects = facts.flatMap((fact) => machine.react(fact, state));
    this.#outbox.owe(key, effects);
    return { ok: true, state, facts, effects };
  }

  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (this.#db.open && !isEnvironmental(error)) throw error;
      throw storeError(error, this.#path);
    }
  }

  #checked(): Checked<State, Fact> {
    return { db: this.#db, path: this.#path, journal: this.#journal, states: this.#states };
  }
}
