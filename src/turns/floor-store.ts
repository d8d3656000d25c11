import type { Replayed, ReplayStep } from '../engine/replay.ts';
import type { HumanMessage, Lease, MessageChange, Recovery, Settlement } from '../engine/port.ts';
import type { Keeper } from '../engine/sqlite/keeper.ts';
import type { openDatabase } from '../engine/sqlite/open.ts';
import { openSqliteStore, SqliteStore } from '../engine/sqlite/sqlite.ts';
import type { StoreOptions } from '../engine/sqlite/sqlite.ts';
import type { Due, Instant } from '../lib/time.ts';
import type { Command, Refusal } from './floor/command.ts';
import type { Effect } from './floor/react.ts';
import type { Fact } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import type { ChannelId, MessageId } from './floor/settings.ts';
import { effectOf, floorMachine, floorUses, messagesOf } from './floor-machine.ts';
import type { Applied, FloorMachine, InboxRow, JournalEntry, OutboxRow, TextRendering } from './floor-machine.ts';
import { linesOf } from './view.ts';
import type { FloorReader, Line } from './view.ts';

/** One step of a floor's replay. */
export type FloorStep = ReplayStep<Floor, Fact>;

/** What a store of floors is built from; `machine` is the floor as shipped unless told. */
export type FloorStoreOptions = StoreOptions & TextRendering & { readonly machine?: FloorMachine };

/**
 * Opens the store in a file and takes it for this process alone.
 * Throws a `StoreError` that says what to do: within a second when another process has it, and before anything is
 * written when it is damaged or of a newer schema.
 */
export function openFloorStore(options: FloorStoreOptions): FloorStore {
  return openSqliteStore(options, (db) => new FloorStore(db, options));
}

/** The engine's store with floors in it: a floor's key is its channel. */
export class FloorStore implements FloorReader {
  readonly #store: SqliteStore;
  readonly #floors: Keeper<Floor, Command, Fact, Effect, Refusal>;

  /** `db` comes from `openDatabase` and belongs to the store from now on. */
  constructor(db: ReturnType<typeof openDatabase>, { machine = floorMachine, ...options }: FloorStoreOptions) {
    this.#store = new SqliteStore(db, options);
    this.#floors = this.#store.host(machine, floorUses(options));
  }

  accept(message: HumanMessage): Promise<'new' | 'duplicate'> {
    return this.#store.accept(message);
  }

  /** Called in the same task as the `apply` of the matching command, both are durable together. */
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'> {
    return this.#store.amend(change);
  }

  /** A message can be received once: a second time is refused as `duplicate`, one never accepted as `unknown-message`. */
  apply(channel: ChannelId, command: Command, at: Instant): Promise<Applied> {
    return this.#floors.apply(channel, command, at);
  }

  due(before: Instant): Promise<Due> {
    return this.#floors.due(before);
  }

  async owed(limit: number, at: Instant): Promise<Lease<Effect>> {
    const { rows, next } = await this.#store.owed(limit, at);
    return { rows: rows.map((row) => ({ ...row, effect: effectOf(row.effect, row.text) })), next };
  }

  settle(row: OutboxRow, settlement: Settlement): Promise<void> {
    return this.#store.settle(row, settlement);
  }

  recover(): Promise<Recovery> {
    return this.#store.recover();
  }

  floor(channel: ChannelId): Floor | null {
    return this.#floors.state(channel);
  }

  channels(): readonly ChannelId[] {
    return this.#floors.keys();
  }

  lines(channel: ChannelId, after: number, upto: number): readonly Line[] {
    return linesOf(this.#floors.newest(channel), { after, upto }, (id) => this.message(id));
  }

  message(id: MessageId): InboxRow | null {
    return this.#store.message(id) as InboxRow | null;
  }

  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[] {
    return this.#floors.journal(channel, limit, before);
  }

  /** The entries that name this message, oldest first. */
  why(id: MessageId): readonly JournalEntry[] {
    const message = this.message(id);
    if (message === null) return [];
    const found: JournalEntry[] = [];
    for (const entry of this.#floors.newest(message.channel, message.since)) {
      if (messagesOf(entry.fact).includes(id)) found.push(entry);
    }
    return found.toReversed();
  }

  /** The newest message of a channel, in the platform's order. */
  lastSeen(channel: ChannelId): HumanMessage | null {
    return this.#store.lastSeen(channel);
  }

  /** Keeps where an agent's supervisor stands, as plain JSON. */
  saveAgent(id: string, state: unknown): Promise<void> {
    return this.#store.keyValues.saveAgent(id, state);
  }

  /** What was kept of an agent; `null` when nothing was. To be parsed by whoever wrote it. */
  agent(id: string): unknown {
    return this.#store.keyValues.agent(id);
  }

  /** Keeps a text under a name for one part of the program. */
  remember(owner: string, name: string, value: string): Promise<void> {
    return this.#store.keyValues.remember(owner, name, value);
  }

  /** Lets go of what was kept under a name. */
  forget(owner: string, name: string): Promise<void> {
    return this.#store.keyValues.forget(owner, name);
  }

  /** What was kept under a name; `null` when nothing was. */
  recall(owner: string, name: string): string | null {
    return this.#store.keyValues.recall(owner, name);
  }

  /** Everything that one part of the program keeps, by name. */
  remembered(owner: string): ReadonlyMap<string, string> {
    return this.#store.keyValues.remembered(owner);
  }

  /** Folds a channel's journal step by step and compares the result with the stored floor. */
  replay(channel: ChannelId, onStep?: (step: FloorStep) => void): Replayed {
    return this.#floors.replay(channel, onStep);
  }

  /** Checks every byte that can be checked; one sentence per problem, none when all is well. Takes time with long journals. */
  verify(): readonly string[] {
    return this.#store.verify();
  }

  /** Writes a consistent copy of everything committed into a new file, while the store goes on working. */
  backupTo(path: string): Promise<void> {
    return this.#store.backupTo(path);
  }

  /** Commits what waits and lets go of the file. Whatever is asked later is rejected. */
  close(): Promise<void> {
    return this.#store.close();
  }
}
