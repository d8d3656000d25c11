import type { Due, Instant } from '../../lib/time.ts';
import { StoreError, sentence } from '../errors.ts';
import { Decided, recordOf, stateText } from '../machine.ts';
import { readRecord, readState } from '../reading.ts';
import type { Chain, CommandFor, CommandResult, DecidedRow, Deciding, Machine } from '../machine.ts';
import type { Cancel, NewEntry, MachineUses } from '../machine-uses.ts';
import type { MachineStore, StateChange, StoredFact } from '../port.ts';
import { replayJournal } from '../replay.ts';
import type { Replayed, ReplayStep } from '../replay.ts';
import type { Configs } from './configs.ts';
import type { Inbox } from './inbox.ts';
import type { Ledger, LedgerPlace } from './ledger.ts';
import type { Outbox } from './outbox.ts';
import type { FoldedState } from './pruning.ts';
import { NO_TAIL, rowHash } from './rows.ts';
import type { JournalRow, Owner, Rows, Tail } from './rows.ts';

/** What all machines of a store share. */
export type Shared = {
  readonly path: string;
  readonly rows: Rows;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly commit: <T>(at: Instant, decide: (chain: Chain) => T) => Promise<T>;
  readonly reading: <T>(read: () => T) => T;
  readonly configs: Configs;
  readonly ledger: Ledger;
  /** Makes a salt: without it, an erased text could be guessed from its hash. */
  readonly newSalt: () => string;
};

/** How many states are tried for eviction at once. A state that is not stored yet stays. */
const EVICTION_TRIES = 4;

/** How many journal rows of a machine stay in memory at most. */
const NEWEST_ROWS = 4_000;

type Row<Fact> = Pick<JournalRow, 'row' | 'seq' | 'at' | 'prev' | 'hash'> & { readonly facts: readonly Fact[] };

type Head<State> = {
  readonly owner: Owner | null;
  readonly state: State;
  readonly tail: Tail;
  readonly at: Instant;
};

/** A state that did not change for this many milliseconds can be evicted from memory by `#sweep`. */
const REST_MS = 10 * 60_000;

/**
 * The least time from one `#sweep` to the next, in milliseconds. `#sweep` evicts states from memory. When `#sweep` has
 * stopped at `LEAVE_AT_ONCE` states, it runs again at the next write.
 */
const SWEEP_MS = 60_000;

/** The most states that one call of `#sweep` evicts. */
const LEAVE_AT_ONCE = 50;

/**
 * One machine in a SQLite store. Keeps the newest states in memory while they are in use, and decides commands on
 * them.
 */
export class Keeper<State, Command, Fact, Effect, Refusal extends string>
  implements MachineStore<State, Command, Fact, Effect, Refusal>, Deciding
{
  readonly machine: Machine<State, Command, Fact, Effect, Refusal>;
  /** True when the machine decides the fates of messages or makes posts: then its keys are channels. */
  readonly ownsChannels: boolean;
  readonly #uses: MachineUses<Command, Fact, Effect, Refusal>;
  readonly #shared: Shared;
  readonly #limit: number;
  readonly #heads = new Map<string, Head<State>>();
  /**
   * By key: the durable state, while the transaction that replaces it is not durable yet. Reads return the durable
   * state.
   */
  readonly #replaced = new Map<string, Head<State>>();
  #newest: (Row<Fact> | undefined)[] = [];
  readonly #drafts: Decided<State, Command, Fact, Effect, Refusal>;
  readonly #listeners: ((change: StateChange<State, Fact, Effect>) => void)[] = [];
  #sweepAt: Instant = 0;

  /** `limit`: about how many states stay in memory; more while states are not stored yet. */
  constructor(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses: MachineUses<Command, Fact, Effect, Refusal>,
    shared: Shared,
    limit: number,
  ) {
    this.machine = machine;
    this.ownsChannels = uses.inbox !== undefined || uses.outbox !== undefined;
    this.#uses = uses;
    this.#shared = shared;
    this.#limit = limit;
    this.#drafts = new Decided(machine, uses, {
      state: (key) => {
        const { state, tail } = this.#head(key);
        return { state, seq: tail.seq };
      },
      isDone: (key, id) => {
        const { owner } = this.#head(key);
        return owner !== null && shared.rows.isKnown(owner.id, id);
      },
      inbox: shared.inbox,
    });
  }

  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>> {
    return this.#shared.commit(at, (chain) => this.#decide(key, command, chain));
  }

  applyAll(
    key: string,
    commands: readonly Command[],
    at: Instant,
  ): Promise<readonly CommandResult<State, Fact, Effect, Refusal>[]> {
    return this.#shared.commit(at, (chain) => commands.map((command) => this.#decide(key, command, chain)));
  }

  applyOnce(id: string, key: string, command: Command, at: Instant): Promise<boolean> {
    return this.#shared.commit(at, (chain) => this.#drafts.decideOnce(id, key, command, { chain, owner: this }));
  }

  async due(before: Instant): Promise<Due> {
    return this.#shared.reading(() => this.#shared.rows.deadlinesOf(this.machine.name).due(before));
  }

  onChange(listener: (change: StateChange<State, Fact, Effect>) => void): void {
    this.#listeners.push(listener);
  }

  state(key: string): State | null {
    const known = this.#heads.get(key);
    if (known !== undefined && this.#heads.size < this.#limit && this.#replaced.size === 0) return known.state;
    const head = this.#stored(key);
    return head.owner === null ? null : head.state;
  }

  keys(): readonly string[] {
    return this.#shared.reading(() => this.#shared.rows.keys(this.machine.name));
  }

  awake(): readonly string[] {
    return this.#shared.reading(() => this.#shared.rows.awake(this.machine.name));
  }

  resting(): ReadonlyMap<string, string> {
    return this.#shared.reading(() => this.#shared.rows.resting(this.machine.name));
  }

  *newest(key: string, since = 0): Generator<StoredFact<Fact>> {
    const { tail } = this.#stored(key);
    for (let number: number | null = tail.row; number !== null && number > since;) {
      const row: Row<Fact> | null = this.#row(number);
      if (row === null) return;
      const { at, hash, facts } = row;
      let { seq } = row;
      for (const fact of facts.toReversed()) {
        yield { key, seq, at, fact, hash };
        seq -= 1;
      }
      number = row.prev !== null && row.prev < number ? row.prev : null;
    }
  }

  journal(key: string, limit: number, before = Infinity): readonly StoredFact<Fact>[] {
    const found: StoredFact<Fact>[] = [];
    for (const entry of this.newest(key)) {
      if (found.length >= limit) break;
      if (entry.seq < before) found.push(entry);
    }
    return found.toReversed();
  }

  replay(key: string, onStep?: (step: ReplayStep<State, Fact>) => void): Replayed {
    const { rows, reading } = this.#shared;
    return reading(() => {
      const snapshot = rows.snapshot(this.machine.name, key);
      const chain = snapshot === null ? [] : [...rows.back(rows.end(snapshot))].toReversed();
      const { configs, ledger } = this.#shared;
      return replayJournal({ key, rows: chain, snapshot, configs, ledger }, this.machine, onStep);
    });
  }

  foldOn({ key }: Owner, from: FoldedState | null, rows: readonly JournalRow[]): FoldedState {
    const { machine } = this;
    const { configs } = this.#shared;
    let state = from === null ? machine.empty(key) : readState(machine, from, configs);
    for (const row of rows) {
      const record = readRecord(machine, row, configs);
      if ('checkpoint' in record) state = record.checkpoint;
      else for (const fact of record.facts) state = machine.evolve(state, fact, row.at);
    }
    const text = stateText(machine, state, configs);
    return { state: text, version: machine.version, deadline: machine.nextDeadline(state), rest: this.#rest(state) };
  }

  take(next: CommandFor, chain: Chain): void {
    this.#drafts.take(next, { chain, owner: this });
  }

  keep(): void {
    for (const fact of this.#drafts.keep()) {
      const decided = this.#uses.inbox?.fate(fact) ?? null;
      if (decided !== null) this.#shared.inbox.decideFate(decided.message, decided.fate);
    }
  }

  /** Writes all decisions. Call the returned function when they are durable. */
  write(): () => void {
    const changes: StateChange<State, Fact, Effect>[] = [];
    for (const { row } of this.#drafts.takeAll()) changes.push(this.#writeOne(row));
    const at = changes.at(-1)?.at ?? 0;
    if (at >= this.#sweepAt) this.#sweep(at);
    return () => {
      this.#replaced.clear();
      for (const change of changes) for (const listener of this.#listeners) listener(change);
    };
  }

  drop(): void {
    this.#drafts.drop();
  }

  /** Drops states, rows and unwritten decisions from memory: after a rollback, and when texts were erased or pruned. */
  forget(): void {
    this.drop();
    this.#drafts.takeAll();
    this.#heads.clear();
    this.#replaced.clear();
    this.#newest = [];
  }

  store(key: string): void {
    const { owner, state, tail } = this.#head(key);
    if (owner !== null) this.#store(owner, { state, tail });
  }

  /** Decides the `restored` command for every key, if the machine has this command. */
  tellRestored(chain: Chain): void {
    const { restored } = this.machine;
    if (restored !== undefined)
      for (const key of this.keys()) this.#drafts.decide(key, restored, { chain, owner: this });
  }

  #decide(key: string, command: Command, chain: Chain): CommandResult<State, Fact, Effect, Refusal> {
    return this.#drafts.decide(key, command, { chain, owner: this });
  }

  #writeOne(draft: DecidedRow<State, Fact, Effect>): StateChange<State, Fact, Effect> {
    const { rows, outbox } = this.#shared;
    const { machine } = this;
    const { key, at, state, facts, effects, cause } = draft;
    const head = this.#head(key);
    const owner = head.owner ?? { id: rows.newId(), name: machine.name, key };
    const deadline = machine.nextDeadline(state);
    const row = { at, deadline, version: machine.version, ...recordOf(machine, facts, this.#shared), cause };
    const tail = rows.append(owner, row, { tail: head.tail, count: facts.length });
    if (!this.#replaced.has(key)) this.#replaced.set(key, head);
    if (head.owner === null) this.#store(owner, { state, tail });
    if (machine.ledger !== undefined) this.#book({ machine: owner.id, row: tail.row, at }, facts);
    this.#keep(key, { owner, state, tail, at });
    this.#newest[tail.row % NEWEST_ROWS] = { ...tail, at, prev: head.tail.row || null, facts };
    const changes: (NewEntry | Cancel)[] = [];
    for (const effect of effects) changes.push(...(this.#uses.outbox?.entries(key, effect) ?? []));
    outbox.add(tail.row, changes);
    return { key, at, facts, state, effects, deadline };
  }

  #book(place: Omit<LedgerPlace, 'n'>, facts: readonly Fact[]): void {
    for (const [n, fact] of facts.entries()) {
      const entry = this.machine.ledger?.(fact) ?? null;
      if (entry !== null) this.#shared.ledger.add({ ...place, n }, entry);
    }
  }

  #store(owner: Owner, { state, tail }: { readonly state: State; readonly tail: Tail }): void {
    const { machine } = this;
    const { version } = machine;
    const deadline = machine.nextDeadline(state);
    const { rows, configs } = this.#shared;
    rows.store(owner, { tail, version, deadline, rest: this.#rest(state), state: stateText(machine, state, configs) });
  }

  #rest(state: State): string | null {
    const { machine } = this;
    return machine.rest === undefined ? '' : machine.rest(state);
  }

  #head(key: string): Head<State> {
    const known = this.#heads.get(key);
    if (known !== undefined) return this.#heads.size < this.#limit ? known : this.#keep(key, known);
    const head = this.#load(key);
    return head.owner === null ? head : this.#keep(key, head);
  }

  #load(key: string): Head<State> {
    const { rows, configs } = this.#shared;
    const { machine } = this;
    const { name } = machine;
    const snapshot = rows.snapshot(name, key);
    if (snapshot === null) return { owner: null, state: machine.empty(key), tail: NO_TAIL, at: 0 };
    if (!snapshot.intact) throw this.#damage('a stored state does not match its checksum');
    let tail = rows.read(snapshot.row);
    if (tail === null) throw this.#damage(`the journal of ${key} does not have the row of its state`);
    let state = readState(machine, snapshot, configs);
    for (const row of this.#after(snapshot.row, rows.end(snapshot))) {
      if (rowHash(tail.hash, row) !== row.hash) throw this.#damage(`the journal of ${key} was changed`);
      for (const fact of this.#factsOf(row)) state = machine.evolve(state, fact, row.at);
      tail = row;
    }
    return { owner: { id: snapshot.id, name, key }, state, tail, at: tail.at };
  }

  #after(first: number, last: number): readonly JournalRow[] {
    const found: JournalRow[] = [];
    for (const row of this.#shared.rows.back(last)) {
      if (row.row <= first) break;
      found.push(row);
    }
    return found.toReversed();
  }

  #row(number: number): Row<Fact> | null {
    const known = this.#newest[number % NEWEST_ROWS];
    if (known?.row === number) return known;
    const row = this.#shared.reading(() => this.#shared.rows.read(number));
    return row === null ? null : { ...row, facts: this.#factsOf(row) };
  }

  #factsOf(row: JournalRow): readonly Fact[] {
    const record = readRecord(this.machine, row, this.#shared.configs);
    return 'facts' in record ? record.facts : [];
  }

  #stored(key: string): Head<State> {
    return this.#replaced.get(key) ?? this.#shared.reading(() => this.#head(key));
  }

  /**
   * Keeps a state in memory and returns it. Above `#limit`, tries to evict another state. A state that is not stored
   * yet stays.
   */
  #keep(key: string, head: Head<State>): Head<State> {
    if (this.#heads.size >= this.#limit) this.#heads.delete(key);
    this.#heads.set(key, head);
    if (this.#heads.size <= this.#limit) return head;
    for (let attempt = 0; attempt < EVICTION_TRIES; attempt += 1) {
      const [first] = this.#heads;
      if (first === undefined || first[0] === key) break;
      const [oldest, candidate] = first;
      this.#heads.delete(oldest);
      if (candidate.owner === null || !this.#shared.rows.isLagging(candidate.owner.id)) break;
      this.#heads.set(oldest, candidate);
    }
    return head;
  }

  #sweep(at: Instant): void {
    let left = LEAVE_AT_ONCE;
    for (const [key, head] of this.#heads) {
      if (at - head.at < REST_MS) continue;
      if (left === 0) return;
      left -= 1;
      if (head.owner !== null && this.#shared.rows.isLagging(head.owner.id)) this.#store(head.owner, head);
      this.#heads.delete(key);
    }
    this.#sweepAt = at + SWEEP_MS;
  }

  #damage(what: string): StoreError {
    return new StoreError('corrupt', sentence('corrupt', this.#shared.path, what));
  }
}
