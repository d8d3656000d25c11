import { randomBytes } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { Command, Refusal } from '../../turns/floor/command.ts';
import type { Floor } from '../../turns/floor/floor.ts';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { backUp, issuerOf } from './backup.ts';
import { checkAtStart, verifyAll } from './check.ts';
import type { Checked } from './check.ts';
import { Commits } from './commits.ts';
import type { Core } from '../core.ts';
import { isEnvironmental, storeError } from '../errors.ts';
import { Floors } from './floors.ts';
import type { Head } from './floors.ts';
import { Inbox } from './inbox.ts';
import { Journal, NO_TAIL } from './journal.ts';
import { linesOf } from './lines.ts';
import { openDatabase } from './open.ts';
import { Outbox, recoverOutbox } from './outbox.ts';
import type { Wording } from './outbox.ts';
import type { Applied, FloorReader, FloorStore, HumanMessage, InboxRow, JournalEntry } from '../port.ts';
import type { Line, MessageChange, OutboxRow, Recovery, Settlement } from '../port.ts';
import { replayChannel } from '../replay.ts';
import type { Replayed, ReplayStep } from '../replay.ts';
import { sealing } from './seal.ts';

/** What a store is built from. */
export type StoreOptions = Wording & {
  /** The database file, made if missing, with its folder; `':memory:'` keeps everything in this process. */
  readonly path: string;
  readonly core: Core;
  readonly clock: { now(): Instant };
  /** How many floors stay in memory; 1,000 unless told. */
  readonly floorsInMemory?: number;
  /** A word of at most 12 letters and digits that no other store was ever given; random unless told. */
  readonly ids?: () => string;
};

/**
 * Opens the store in a file and takes it for this process alone.
 * Throws a `StoreError` that says what to do: within a second when another process has it, and before anything is
 * written when it is damaged or of a newer schema.
 */
export function openSqliteStore(options: StoreOptions): SqliteStore {
  const db = openDatabase(options.path);
  try {
    return new SqliteStore(db, options);
  } catch (error) {
    db.close();
    throw storeError(error, options.path);
  }
}

/** Floors, messages, journal and outbox in one SQLite file that one process owns. */
export class SqliteStore implements FloorStore, FloorReader {
  readonly #db: Database;
  readonly #path: string;
  readonly #core: Core;
  readonly #inbox: Inbox;
  readonly #journal: Journal;
  readonly #floors: Floors;
  readonly #outbox: Outbox;
  readonly #commits: Commits;

  /** `db` comes from `openDatabase` and belongs to the store from now on. */
  constructor(db: Database, options: StoreOptions) {
    const { core, path, clock } = options;
    this.#db = db;
    this.#path = path;
    this.#core = core;
    this.#inbox = new Inbox(db);
    this.#journal = new Journal(db);
    this.#floors = new Floors(db, options.floorsInMemory ?? 1000);
    checkAtStart(this.#checked());
    const newIssuer = options.ids ?? ((): string => randomBytes(5).toString('hex'));
    const issuer = issuerOf({ db, journal: this.#journal, floors: this.#floors, core }, clock.now(), newIssuer);
    this.#outbox = new Outbox(db, issuer, options);
    this.#commits = new Commits(db, path, () => this.#floors.forget());
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

  /** A message can be received once: a second time is refused as `duplicate`, one never accepted as `unknown-message`. */
  apply(channel: ChannelId, command: Command, at: Instant): Promise<Applied> {
    return this.#commits.run(() => this.#apply(channel, command, at));
  }

  async due(before: Instant): Promise<{ readonly channels: readonly ChannelId[]; readonly next: Instant | null }> {
    return this.#reading(() => this.#floors.due(before));
  }

  owed(limit: number, at: Instant): Promise<{ readonly rows: readonly OutboxRow[]; readonly next: Instant | null }> {
    return this.#commits.run(() => this.#outbox.lease(limit, at));
  }

  settle(row: OutboxRow, settlement: Settlement): Promise<void> {
    return this.#commits.run(() => this.#outbox.settle(row, settlement));
  }

  recover(): Promise<Recovery> {
    return this.#commits.run(() => {
      recoverOutbox(this.#db);
      const unapplied = this.#inbox.unapplied();
      const channels = [...new Set([...this.#floors.channels(), ...unapplied.map((message) => message.channel)])];
      return { channels, unapplied };
    });
  }

  floor(channel: ChannelId): Floor | null {
    return this.#reading(() => this.#floors.read(channel)?.floor ?? null);
  }

  channels(): readonly ChannelId[] {
    return this.#reading(() => this.#floors.channels());
  }

  lines(channel: ChannelId, after: number, upto: number): readonly Line[] {
    return this.#reading(() => linesOf(this.#journal.lines(channel, after, upto), this.#inbox));
  }

  message(id: MessageId): InboxRow | null {
    return this.#reading(() => this.#inbox.read(id));
  }

  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[] {
    return this.#reading(() => this.#journal.newest(channel, limit, before));
  }

  why(message: MessageId): readonly JournalEntry[] {
    return this.#reading(() => this.#journal.naming(message));
  }

  /** The newest message of a channel, in the platform's order. */
  lastSeen(channel: ChannelId): HumanMessage | null {
    return this.#reading(() => this.#inbox.lastSeen(channel));
  }

  /** Keeps where an agent's supervisor stands, as plain JSON. */
  saveAgent(id: AgentId, state: unknown): Promise<void> {
    return this.#commits.run(() => {
      this.#db.prepare('INSERT OR REPLACE INTO agents (id, state) VALUES (?, ?)').run(id, JSON.stringify(state));
      this.#db.prepare(sealing('agents', 'id = ?')).run(id);
    });
  }

  /** What was kept of an agent; `null` when nothing was. To be parsed by whoever wrote it. */
  agent(id: AgentId): unknown {
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

  /** Folds a channel's journal step by step and compares the result with the stored floor. */
  replay(channel: ChannelId, onStep?: (step: ReplayStep) => void): Replayed {
    const recording = { channel, rows: this.#journal.rows(channel), stored: this.#floors.snapshot(channel) };
    return this.#reading(() => replayChannel(recording, this.#core, onStep));
  }

  /** Checks every byte that can be checked; one sentence per problem, none when all is well. Takes time with long journals. */
  verify(): readonly string[] {
    return this.#reading(() => verifyAll(this.#checked(), this.#core));
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

  #apply(channel: ChannelId, command: Command, at: Instant): Applied {
    const before: Head = this.#floors.read(channel) ?? { floor: this.#core.emptyFloor(channel), tail: NO_TAIL };
    const refusal = this.#refusal(channel, command);
    if (refusal !== null) return { ok: false, floor: before.floor, refusal };
    const decision = this.#core.decide(before.floor, command, at);
    const { facts } = decision;
    const floor = decision.ok ? decision.floor : before.floor;
    if (facts.length > 0) {
      const tail = this.#journal.append(channel, at, facts, before.tail);
      this.#floors.write(channel, { floor, tail }, { deadline: this.#core.nextDeadline(floor), facts });
    }
    if (!decision.ok) return { ok: false, floor, refusal: decision.refusal };
    for (const fact of facts) {
      if (fact.type === 'messageRouted') this.#inbox.decideFate(fact.id, fact.fate);
    }
    const effects = facts.flatMap((fact) => this.#core.react(fact, floor));
    this.#outbox.owe(channel, effects);
    return { ok: true, floor, facts, effects };
  }

  #refusal(channel: ChannelId, command: Command): Refusal | null {
    if (command.type !== 'receive' && command.type !== 'edit' && command.type !== 'delete') return null;
    const message = this.#inbox.read(command.id);
    if (message === null || message.channel !== channel) return 'unknown-message';
    return command.type === 'receive' && message.fate !== null ? 'duplicate' : null;
  }

  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (this.#db.open && !isEnvironmental(error)) throw error;
      throw storeError(error, this.#path);
    }
  }

  #checked(): Checked {
    return { db: this.#db, path: this.#path, journal: this.#journal, floors: this.#floors };
  }
}
