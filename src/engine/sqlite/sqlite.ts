import { randomBytes } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { KeyedQueue } from '../../lib/keyed.ts';
import type { Instant } from '../../lib/time.ts';
import { StoreError, isEnvironmental, storeError } from '../errors.ts';
import { decideChain } from '../machine.ts';
import type { Chain, Machine, Reading } from '../machine.ts';
import type { MachineUses } from '../machine-uses.ts';
import type {
  AlsoErased,
  Erased,
  Erasure,
  HumanMessage,
  Lease,
  MessageChange,
  OutboxEntry,
  Pruned,
  Settlement,
  Store,
  StoredFact,
  StoredMessage,
} from '../port.ts';
import type { Replayed } from '../replay.ts';
import { backUp, checkMoved, noteEndedWell, noteTold, readMarks } from './backup.ts';
import { checkAtStart, factsBack, fileProblems, foldProblems } from './check.ts';
import { Configs } from './configs.ts';
import { Commits, Mark, WalSync, checkMark } from './commits.ts';
import type { CommitHooks, DiskSync, Sharing } from './commits.ts';
import { Inbox } from './inbox.ts';
import { Keeper } from './keeper.ts';
import type { Shared } from './keeper.ts';
import { KeyValues } from './key-values.ts';
import { Ledger } from './ledger.ts';
import { MIGRATIONS, openDatabase } from './open.ts';
import { Outbox } from './outbox.ts';
import { erase } from './erasing.ts';
import type { ErasingPorts } from './erasing.ts';
import { giveBack, prune, writeAnew } from './pruning.ts';
import { Rows } from './rows.ts';
import type { Owner } from './rows.ts';

/** Options of a store. */
export type StoreOptions = {
  /** The database file; created with its folder if missing. `':memory:'` keeps everything in memory. */
  readonly path: string;
  readonly clock: { now(): Instant };
  /** About how many states of each machine stay in memory, 5,000 by default; more while states are not stored yet. */
  readonly statesInMemory?: number;
  /** Makes a store id of at most 12 letters and digits, unique among all stores; random by default. */
  readonly ids?: () => string;
  /** Makes the salts of texts; random by default. */
  readonly salts?: () => string;
  /** How commits to an unshared file are synced; by default the store syncs its write-ahead log itself. */
  readonly disk?: DiskSync;
  readonly say?: (line: string) => void;
  /** Called with the error when a transaction failed and was rolled back. */
  readonly failed?: (error: unknown) => void;
  /** Called once when the database cannot be used any more. Conch must end. */
  readonly lost?: (error: StoreError) => void;
  /** Set when the file is a copy of a log that several processes share, and this process leads. */
  readonly shared?: SharedPlace;
};

/** The log of a shared store, for the process that leads. `leave`: called when the store is closed. */
type SharedPlace = {
  readonly worker: string;
  readonly logId: string;
  readonly disk: Sharing;
  readonly leave: () => Promise<void>;
};

/** Gives a part of Conch its own tables in the file. Its writes share the commits. */
export type Tables = {
  readonly db: Database;
  /**
   * Resolves with the result when it is durable. A `write` that throws is rolled back, with everything in its commit.
   */
  readonly write: <T>(write: () => T) => Promise<T>;
  readonly read: <T>(read: () => T) => T;
};

type KeyFacts<Fact> = readonly [key: string, newest: Iterable<Omit<StoredFact<Fact>, 'hash'>>];

type Hosted = Pick<
  Keeper<unknown, unknown, unknown, unknown, string>,
  | 'machine'
  | 'ownsChannels'
  | 'take'
  | 'drop'
  | 'keep'
  | 'write'
  | 'forget'
  | 'store'
  | 'replay'
  | 'tellRestored'
  | 'foldOn'
  | 'state'
>;

/**
 * Opens the database of a store for this process alone, and makes the store by `make`. Throws a `StoreError` when one
 * of both fails; within a second when another process owns the file.
 */
export function openSqliteStore<Made>(
  { path, say }: Pick<StoreOptions, 'path' | 'say'>,
  make: (db: Database) => Made,
): Made {
  const db = openDatabase(path, MIGRATIONS, say);
  try {
    return make(db);
  } catch (error) {
    db.close();
    throw storeError(error, path);
  }
}

/** Machines, messages and outbox in one SQLite file that one process owns. */
export class SqliteStore implements Store {
  readonly keyValues: KeyValues;
  readonly tables: Tables;
  /** True when the previous owner closed the file cleanly, or there was none. */
  readonly endedWell: boolean;
  readonly owner: string;
  /** The store's id, with which the id of each new outbox entry begins. A restored backup gets a new store id. */
  readonly id: string;
  readonly #db: Database;
  readonly #options: StoreOptions;
  readonly #inbox: Inbox;
  readonly #rows: Rows;
  readonly #outbox: Outbox;
  readonly #commits: Commits;
  readonly #shared: Shared;
  readonly #hosted = new Map<string, Hosted>();
  readonly #taking = new KeyedQueue<'rows'>();
  readonly #onErased: (() => void)[] = [];
  #mark: Mark | null;
  #isRestored: boolean;
  #endedWell: boolean;
  /** True until `recover` is called, if a previous owner may have left entries in flight. */
  #mustRecover: boolean;
  #afterCommit: (() => void)[] = [];

  /** `db` comes from `openDatabase` and belongs to the store. */
  constructor(db: Database, options: StoreOptions) {
    const { path } = options;
    this.#db = db;
    this.#options = options;
    checkMoved(db, path);
    checkMark(db, path);
    checkAtStart(db, path);
    const { shared } = options;
    const newId = shared === undefined ? (options.ids ?? newStoreId) : () => shared.logId;
    const { storeId, isNew, isRestored, endedWell, owner, former } = readMarks(db, newId);
    [this.id, this.owner] = [storeId, shared?.worker ?? owner];
    // Moves the marks from the write-ahead log into the file. Without the log, the file still shows who uses it.
    db.pragma('wal_checkpoint(TRUNCATE)');
    this.#isRestored = isRestored;
    this.#endedWell = endedWell;
    this.endedWell = endedWell || (isNew && !isRestored);
    this.#inbox = new Inbox(db);
    this.#rows = new Rows(db);
    this.#outbox = new Outbox(db, storeId);
    this.#mustRecover = shared === undefined ? former !== null : this.#rows.last > 0;
    this.#mark = db.memory || shared !== undefined ? null : new Mark(path, storeId);
    this.#mark?.note(this.#rows.last);
    const disk = shared?.disk ?? (db.memory ? null : (options.disk ?? new WalSync(path)));
    this.#commits = new Commits(db, path, this.#hooks(), disk);
    const reading = this.#reading;
    this.keyValues = new KeyValues(db, { commits: this.#commits, reading });
    this.tables = { db, write: (write) => this.#commits.run(() => () => this.#afterDecided(write)), read: reading };
    this.#shared = {
      path,
      reading,
      newSalt: options.salts ?? saltsOf(randomBytes),
      configs: new Configs(db),
      ledger: new Ledger(db),
      rows: this.#rows,
      inbox: this.#inbox,
      outbox: this.#outbox,
      commit: this.#commit,
    };
  }

  #hooks(): CommitHooks {
    return {
      beforeCommit: () => {
        this.#writeDecided();
        this.#inbox.writeAccepted();
        this.#outbox.writeSettled();
        this.#storeOverdue();
      },
      committed: () => {
        this.#mark?.note(this.#rows.last);
        this.#outbox.committed();
        for (const tell of this.#afterCommit.splice(0)) tell();
      },
      undone: (error: unknown) => this.#undone(error),
      lost: (error: StoreError) => this.#options.lost?.(error),
    };
  }

  host<State, Command, Fact, Effect, Refusal extends string>(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses: MachineUses<Command, Fact, Effect, Refusal> = {},
  ): Keeper<State, Command, Fact, Effect, Refusal> {
    const { name } = machine;
    if (this.#hosted.has(name)) throw new Error(`impossible: ${name} is hosted twice`);
    const keeper = new Keeper(machine, uses, this.#shared, this.#options.statesInMemory ?? 5_000);
    this.#hosted.set(name, keeper);
    return keeper;
  }

  accept(message: HumanMessage): Promise<'new' | 'duplicate'> {
    return this.#commits.run(() => () => this.#inbox.accept(message, this.#rows.last));
  }

  /**
   * When called directly before or after `apply`, without a wait between them, both are committed in one transaction.
   */
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'> {
    return this.#commits.run(() => () => this.#inbox.amend(change));
  }

  announcementAt(channel: string, platformId: string, prefix: string): string | null {
    return this.#outbox.announcementAt(channel, platformId, prefix);
  }

  message(id: string): StoredMessage | null {
    return this.#reading(() => this.#inbox.read(id));
  }

  lastSeen(channel: string): HumanMessage | null {
    return this.#reading(() => this.#inbox.lastSeen(channel));
  }

  /**
   * Hands out outbox entries to deliver now, at most one for each lane of a channel. First commits the settlements that
   * may not wait longer. Rejects when that commit fails.
   */
  async lease(limit: number, at: Instant): Promise<Lease<unknown>> {
    while (this.#outbox.mustSettle(at)) await this.#commits.run(() => () => {});
    if (this.#mustRecover) return { rows: [], next: null };
    return this.#reading(() => this.#outbox.lease(limit, at));
  }

  settle(row: OutboxEntry<unknown>, settlement: Settlement): Promise<void> {
    return this.#outbox.settle(row, settlement, (write, durable) => this.#commits.run(() => write, durable));
  }

  recover(): Promise<readonly HumanMessage[]> {
    const restored = this.#isRestored ? this.#tellRestored() : DONE;
    const recovered = this.tables.write(() => {
      this.#outbox.recover(this.#isRestored ? 'all' : this.#endedWell ? 'noted' : 'first');
      noteTold(this.#db);
      this.#isRestored = false;
      this.#endedWell = false;
      this.#mustRecover = false;
      return this.#inbox.unapplied();
    });
    return restored.then(() => recovered);
  }

  /**
   * Tells all hosted machines that the store may have lost its last commits, as after a restore, and makes all open
   * entries of the outbox uncertain. Nothing else may use the store meanwhile.
   */
  async doubt(): Promise<void> {
    await this.#tellRestored();
    await this.tables.write(() => this.#outbox.doubt());
  }

  #tellRestored(): Promise<void> {
    return this.#commit(this.#options.clock.now(), (chain) => {
      for (const keeper of this.#hosted.values()) keeper.tellRestored(chain);
    });
  }

  /** Damage of the file and of the journals of hosted machines, one sentence per problem. Slow for long journals. */
  verify(): readonly string[] {
    const replay = ({ name, key }: Owner): Replayed | null => this.#hosted.get(name)?.replay(key) ?? null;
    return this.#reading(() => [...fileProblems(this.#db), ...foldProblems(this.#rows, replay)]);
  }

  /** The journals of a machine, hosted or not: each key with its facts, newest first. */
  *journals<State, Fact>(machine: Reading<State, Fact>): Generator<KeyFacts<Fact>> {
    const { configs } = this.#shared;
    for (const key of this.#rows.keys(machine.name)) yield [key, factsBack(this.#rows, key, { machine, configs })];
  }

  *states<State, Fact>({ name, state }: Reading<State, Fact>): Generator<State> {
    for (const key of this.#rows.keys(name)) yield state.parse(this.#hosted.get(name)?.state(key));
  }

  /** Writes a consistent copy of all committed data into a new file while the store works. */
  async backupTo(path: string): Promise<void> {
    await this.#commits.run(() => () => {});
    await backUp(this.#db, path);
  }

  /**
   * Erases texts from rows, the database file and its write-ahead log. Backups keep them. In a shared store, the copies
   * of processes that stand by can keep them until they are made anew. Rejects with a `StoreError` when another program
   * reads the file. Then the rows are erased, and the write-ahead log still holds the texts: erase again later.
   */
  async erase(erasure: Erasure, also: AlsoErased = { stretches: [], isTheirs: () => false }): Promise<Erased> {
    const erased = await this.#taking.run('rows', () => erase(this.#retention(), erasure, also));
    if (await this.#forgetTexts(writeAnew)) return erased;
    const why =
      'the log of the file still has them, because another program reads the database, such as a backup or the check of Conch itself';
    throw new StoreError(
      'locked',
      `The texts were erased, but ${why}. Wait until that program ends, then erase again.`,
    );
  }

  /** Calls the listener when texts were erased or pruned. The listener must drop texts that it keeps in memory. */
  onErased(listener: () => void): void {
    this.#onErased.push(listener);
  }

  #undone(error: unknown): void {
    this.#afterCommit = [];
    for (const part of [this.#inbox, this.#outbox, this.#shared.configs]) part.undone();
    this.#rows.load();
    for (const keeper of this.#hosted.values()) keeper.forget();
    this.#options.failed?.(error);
  }

  /**
   * Deletes old journal rows, ledger rows, messages and posts. `before`: the instant before which rows of a channel are
   * old; `null`: none is. A dry run only counts. Journals of machines that are not hosted stay.
   */
  async prune(before: (channel: string) => Instant | null, isDryRun: boolean): Promise<Pruned> {
    const hosted = ({ name, key }: Owner): Instant | null => {
      const keeper = this.#hosted.get(name);
      return keeper === undefined ? null : before(keeper.machine.channelOf(key, () => keeper.state(key)));
    };
    const pruned = await this.#taking.run('rows', () => prune(this.#retention(), hosted, isDryRun));
    const sum = pruned.entries + pruned.messages + pruned.posts;
    if (!isDryRun && sum > 0) await this.#forgetTexts(giveBack);
    return pruned;
  }

  async close(): Promise<void> {
    await this.#commits.close(() => this.#afterDecided(() => this.#storeAll()));
    await this.#options.shared?.leave();
    this.#mark?.close();
    this.#mark = null;
  }

  readonly #commit = <T>(at: Instant, decide: (chain: Chain) => T): Promise<T> =>
    this.#commits.run(() => {
      const { result, touched } = decideChain(at, decide, (name) => this.#hosted.get(name) ?? null);
      return () => {
        for (const keeper of this.#hosted.values()) if (touched.includes(keeper)) keeper.keep();
        return result;
      };
    });

  #writeDecided(): void {
    for (const keeper of this.#hosted.values()) this.#afterCommit.push(keeper.write());
  }

  #afterDecided<T>(write: () => T): T {
    this.#writeDecided();
    this.#inbox.writeAccepted();
    return write();
  }

  #retention(): ErasingPorts {
    return {
      db: this.#db,
      rows: this.#rows,
      configs: this.#shared.configs,
      outbox: this.#outbox,
      write: this.tables.write,
      isHosted: ({ name }) => this.#hosted.has(name),
      keeperOf: ({ name }) => {
        const keeper = this.#hosted.get(name);
        if (keeper === undefined) throw new Error(`impossible: nobody hosts ${name}`);
        return keeper;
      },
      forget: () => this.#forgetStates(),
    };
  }

  /**
   * Drops states from memory, then calls `emptied`. Resolves with `true` when the write-ahead log holds no erased text
   * any more.
   */
  async #forgetTexts(emptied: typeof giveBack): Promise<boolean> {
    await this.tables.write(() => this.#forgetStates());
    return emptied(this.#retention());
  }

  #forgetStates(): void {
    for (const keeper of this.#hosted.values()) keeper.forget();
    for (const listener of this.#onErased) listener();
  }

  #storeOverdue(): void {
    const overdue = this.#rows.overdue();
    for (const { name, key } of overdue) this.#hosted.get(name)?.store(key);
    if (overdue.length > 0) this.#rows.noteLow();
  }

  #storeAll(): void {
    for (const { name, key } of this.#rows.lagging()) this.#hosted.get(name)?.store(key);
    this.#rows.noteLow();
    this.#outbox.note();
    noteEndedWell(this.#db);
  }

  readonly #reading = <T>(read: () => T): T => {
    try {
      return read();
    } catch (error) {
      if (this.#db.open && !isEnvironmental(error)) throw error;
      throw storeError(error, this.#options.path);
    }
  };
}

const DONE = Promise.resolve();

/** Returns a random id for a store: 10 hexadecimal digits. */
export function newStoreId(): string {
  return randomBytes(5).toString('hex');
}

function saltsOf(bytes: (size: number) => Buffer): () => string {
  let pool = bytes(0);
  let used = 0;
  return () => {
    if (used === pool.length) {
      pool = bytes(SALT_BYTES * SALTS_AT_ONCE);
      used = 0;
    }
    used += SALT_BYTES;
    return pool.toString('base64url', used - SALT_BYTES, used);
  };
}

const SALT_BYTES = 12;
const SALTS_AT_ONCE = 256;
