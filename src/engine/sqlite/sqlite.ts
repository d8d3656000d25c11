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
  OwedEffect,
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
import type { CommitHooks, DiskSync } from './commits.ts';
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
import type { Member, SharedLog } from '../shared/shared-log.ts';
import { Publisher } from '../shared/publisher.ts';
import type { RequestsTold } from '../shared/publisher.ts';
import { Replica } from '../shared/replica.ts';
import type { AppliedRow } from '../shared/replica.ts';

/** Options of a store. */
export type StoreOptions = {
  /** The database file; created with its folder if missing. `':memory:'` keeps everything in memory. */
  readonly path: string;
  readonly clock: { now(): Instant };
  /** About how many states of each machine stay in memory at most; 5,000 by default. */
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
  /** Called once when the database cannot be used any more. The program must end. */
  readonly lost?: (error: StoreError) => void;
  /** The log that several processes share. The file is a copy of it. */
  readonly shared?: { readonly log: SharedLog; readonly member: Member; readonly told?: RequestsTold };
};

/** Gives a part of the program its own tables in the file. Its writes share the commits. */
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
  | 'refused'
  | 'adopt'
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
  /** The store's id. Each id of an outbox entry begins with it. A restored backup gets a new store id. */
  readonly id: string;
  readonly #db: Database;
  readonly #options: StoreOptions;
  readonly #inbox: Inbox;
  readonly #rows: Rows;
  readonly #outbox: Outbox;
  readonly #commits: Commits;
  readonly #shared: Shared;
  readonly #copy: Copy | null;
  readonly #hosted = new Map<string, Hosted>();
  readonly #taking = new KeyedQueue<'rows'>();
  readonly #onErased: (() => void)[] = [];
  #mark: Mark | null;
  /** True once the file holds what the shared log held at the start. */
  #isCopied = false;
  #isRestored: boolean;
  #endedWell: boolean;
  /** The previous owner, until its entries are taken over. */
  #former: string | null;
  #told: (() => void)[] = [];

  /** `db` comes from `openDatabase` and belongs to the store. */
  constructor(db: Database, options: StoreOptions) {
    const { path } = options;
    this.#db = db;
    this.#options = options;
    checkMoved(db, path);
    checkMark(db, path);
    checkAtStart(db, path);
    const { member = null } = options.shared ?? {};
    const newId = member === null ? (options.ids ?? newStoreId) : () => member.logId;
    const { storeId, isNew, isRestored, endedWell, owner, former } = readMarks(db, newId);
    [this.id, this.owner, this.#former] = [storeId, member?.worker ?? owner, former];
    // Moves the marks from the write-ahead log into the file. Without the log, the file still shows who uses it.
    db.pragma('wal_checkpoint(TRUNCATE)');
    this.#isRestored = isRestored;
    this.#endedWell = endedWell;
    this.endedWell = endedWell || (isNew && !isRestored);
    this.#inbox = new Inbox(db);
    this.#rows = new Rows(db, member?.slot);
    this.#outbox = new Outbox(db, storeId, member);
    this.#mark = db.memory || member !== null ? null : new Mark(path, storeId);
    this.#mark?.note(this.#rows.last);
    this.#copy = copyOf(db, options.shared);
    const sharing = this.#copy === null ? null : { publish: () => this.#publish(), catchUp: () => this.#takeIn() };
    this.#commits = new Commits(
      db,
      path,
      this.#hooks(),
      sharing ?? (db.memory ? null : (options.disk ?? new WalSync(path))),
    );
    const reading = this.#reading;
    this.keyValues = new KeyValues(db, { commits: this.#commits, reading });
    this.tables = { db, write: (write) => this.#commits.run(() => () => this.#afterDecided(write)), read: reading };
    this.#shared = {
      path,
      reading,
      isShared: member !== null,
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
        this.#rows.committed();
        this.#outbox.committed();
        for (const tell of this.#told.splice(0)) tell();
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

  /** A call directly before or after `apply`, without a wait between them, is committed in the same transaction. */
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
   * Hands out entries, as `OutboxStore.owed` says. When `mustSettle` says so, first commits the waiting settlements.
   * Rejects when that commit fails.
   */
  async owed(limit: number, at: Instant): Promise<Lease<unknown>> {
    while (this.#outbox.mustSettle(at)) await this.#commits.run(() => () => {});
    if (this.#former !== null) return { rows: [], next: null };
    return this.#reading(() => this.#outbox.lease(limit, at));
  }

  settle(row: OwedEffect<unknown>, settlement: Settlement): Promise<void> {
    return this.#outbox.settle(row, settlement, (write, durable) => this.#commits.run(() => write, durable));
  }

  /** Applies the changes of other processes. Does nothing when this process owns the store alone. */
  catchUp(): Promise<void> {
    return this.#commits.catchUp();
  }

  /** Where one process owns the file, all entries in flight belonged to the previous owner. */
  async recover(dead?: string): Promise<readonly HumanMessage[]> {
    if (this.#copy !== null) return this.#takeOver(this.#copy.publisher, dead);
    if (dead !== undefined && dead !== this.#former) return this.#reading(() => this.#inbox.unapplied());
    const told = this.#isRestored ? this.#tellRestored() : DONE;
    const recovered = this.tables.write(() => {
      this.#outbox.recover(this.#isRestored ? 'all' : this.#endedWell ? 'noted' : 'first');
      noteTold(this.#db);
      this.#isRestored = false;
      this.#endedWell = false;
      this.#former = null;
      return this.#inbox.unapplied();
    });
    return told.then(() => recovered);
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
   * Erases texts from rows, file and log. Backups keep them. In a shared store, the file of a copy can keep them until
   * it is made anew. Rejects with a `StoreError` when another program reads the file: the rows are erased then, and the
   * log still holds the texts; erase again later.
   */
  async erase(erasure: Erasure, also: AlsoErased = { stretches: [], isTheirs: () => false }): Promise<Erased> {
    const erased = await this.#taking.run('rows', () => erase(this.#retention(), erasure, also));
    if (await this.#forgetTexts(this.#copy === null ? writeAnew : giveBack)) return erased;
    const why =
      'the log of the file still has them, because another program reads the database, such as a backup or the check of Conch itself';
    throw new StoreError(
      'locked',
      `The texts were erased, but ${why}. Wait until that program ends, then erase again.`,
    );
  }

  /**
   * Calls the listener when texts were erased or pruned, by another process only when they were texts of a journal. The
   * listener must drop kept texts.
   */
  onErased(listener: () => void): void {
    this.#onErased.push(listener);
  }

  #undone(error: unknown): void {
    this.#told = [];
    for (const part of [this.#inbox, this.#outbox, this.#shared.configs, this.#rows]) part.undone();
    for (const keeper of this.#hosted.values()) keeper.forget();
    if (error !== null) this.#options.failed?.(error);
  }

  async #takeOver(publisher: Publisher, dead?: string): Promise<readonly HumanMessage[]> {
    if (dead !== undefined) await publisher.bury(dead);
    await this.catchUp();
    const others = this.#outbox
      .workers()
      .filter((worker) => (dead === undefined ? worker !== this.owner : worker === dead));
    const gone = others.length === 0 ? [] : await publisher.goneOf(others);
    if (gone.length > 0)
      await this.tables.write(() => {
        for (const worker of gone) this.#copy?.replica.markGone(worker);
        this.#outbox.takeOver(gone);
      });
    return this.tables.write(() => this.#inbox.unapplied());
  }

  #publish(): Promise<(() => void) | null> | null {
    if (this.#copy === null) return null;
    const { replica, publisher } = this.#copy;
    const keys = [...this.#hosted].flatMap(([name, keeper]) =>
      keeper.refused().map(({ key, owner }) => replica.keyCheck(name, key, owner?.id ?? null)),
    );
    const workers = this.#outbox.reliedOn().map((worker) => replica.workerCheck(worker));
    return publisher.publish([...keys, ...workers]);
  }

  /** Folds nothing until the replica was filled once. */
  async #takeIn(): Promise<void> {
    const { replica, publisher } = this.#copy ?? {};
    const isFirst = !this.#isCopied;
    for await (const { rows, position } of publisher?.changes() ?? []) {
      const tell = this.#db.transaction(() => {
        const applied = replica?.apply(rows) ?? [];
        return isFirst ? [] : applied.flatMap((each) => this.#adopt(each) ?? []);
      })();
      if (replica !== undefined) replica.position = position;
      this.#rows.committed();
      for (const each of tell) each();
    }
    if (!isFirst) return;
    this.#rows.load();
    this.#outbox.load();
    this.#isCopied = true;
  }

  #adopt({ table, line, isNew, isGone }: AppliedRow): (() => void) | null {
    const n = Number(line);
    if (table === 'outbox' && !isGone) this.#outbox.adopt(n, isNew);
    const row = table === 'journal' && !isGone ? this.#rows.read(n) : null;
    const owner = row === null ? null : this.#rows.owner(row.machine);
    if (row === null || owner === null) return null;
    const keeper = this.#hosted.get(owner.name);
    if (isNew && keeper !== undefined) return keeper.adopt(owner, row);
    // Notes the row as the end of its journal, for a machine that this process hosts later.
    if (isNew) return this.#rows.adopt(owner, row) ?? null;
    this.#refold(owner);
    return null;
  }

  /**
   * Called when another process erased texts of a journal, or pruned the journal. Folds the journal anew, because the
   * state may still hold erased texts.
   */
  #refold(owner: Owner): void {
    const keeper = this.#hosted.get(owner.name);
    const snapshot = this.#rows.snapshot(owner.name, owner.key);
    const [last, ...before] = snapshot === null ? [] : this.#rows.back(this.#rows.end(snapshot));
    if (keeper === undefined || last === undefined) return;
    const folded = keeper.foldOn(owner, null, [last, ...before].toReversed());
    this.#rows.store(owner, { tail: last, ...folded });
    keeper.forget();
    for (const listener of this.#onErased) listener();
  }

  /**
   * Deletes rows older than each channel's instant (`null`: none) by `prune` of pruning.ts. A dry run only counts.
   * Journals of machines that are not hosted stay.
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
    await this.#copy?.publisher.leave();
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
    for (const keeper of this.#hosted.values()) this.#told.push(keeper.write());
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

type Copy = { readonly replica: Replica; readonly publisher: Publisher };

function copyOf(db: Database, shared: StoreOptions['shared']): Copy | null {
  if (shared === undefined) return null;
  const replica = new Replica(db);
  return { replica, publisher: new Publisher(shared.log, shared.member.worker, replica, shared.told) };
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
