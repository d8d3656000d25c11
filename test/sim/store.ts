import Database from 'better-sqlite3';
import type { Command } from '../../src/turns/floor/command.ts';
import type { Instant } from '../../src/lib/time.ts';
import { MEMORY, openDatabase } from '../../src/engine/sqlite/open.ts';
import { defineFunctions } from '../../src/engine/sqlite/rows.ts';
import type { HumanMessage, MessageChange, Settlement } from '../../src/engine/port.ts';
import type { Applied, FloorStoreOptions, OutboxRow } from '../../src/turns/floor-store.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import type { Life } from './timeline.ts';

/** Called by a watched store. */
export type StoreWatch = {
  readonly life: Life;
  /** Called for each accepted or refused command, in the order of commits. */
  applied(channel: string, command: Command, at: Instant, applied: Applied): void;
  accepted(message: HumanMessage, outcome: 'new' | 'duplicate'): void;
  /** Called when the store threw at a command. */
  broke(what: string, error: unknown): void;
  /** Called before the store answers that something is durable. May end the life to cause a crash here. */
  answering(): void;
  closing(image: Buffer): void;
};

const NEVER = new Promise<never>(() => {});

/** Opens a database with the committed bytes of the former one, or an empty one. */
export function openImage(image: Buffer | null): Database.Database {
  if (image === null) return openDatabase(MEMORY);
  const db = new Database(image);
  db.pragma('foreign_keys = ON');
  defineFunctions(db);
  return db;
}

/** The product's store, watched. It does nothing and never answers when its program is dead. */
export class WatchedStore extends FloorStore {
  readonly #watch: StoreWatch;
  readonly #db: Database.Database;
  #pending = 0;

  constructor(db: Database.Database, options: FloorStoreOptions, watch: StoreWatch) {
    super(db, options);
    this.#db = db;
    this.#watch = watch;
    const { floors } = this;
    const apply = floors.apply.bind(floors);
    floors.apply = (channel, command, at) =>
      this.#answer(
        JSON.stringify(command),
        () => apply(channel, command, at),
        (applied) => watch.applied(channel, command, at, applied),
      );
  }

  /** Calls without an answer so far. */
  get pending(): number {
    return this.#pending;
  }

  override accept(message: HumanMessage): Promise<'new' | 'duplicate'> {
    return this.#answer(
      'accept',
      () => super.accept(message),
      (outcome) => this.#watch.accepted(message, outcome),
    );
  }

  override amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'> {
    return this.#answer('amend', () => super.amend(change));
  }

  override lease(
    limit: number,
    at: Instant,
  ): Promise<{ readonly rows: readonly OutboxRow[]; readonly next: Instant | null }> {
    return this.#answer('lease', () => super.lease(limit, at));
  }

  override settle(row: OutboxRow, settlement: Settlement): Promise<void> {
    return this.#answer('settle', () => super.settle(row, settlement));
  }

  override recover(): Promise<readonly HumanMessage[]> {
    return this.#answer('recover', () => super.recover());
  }

  override async close(): Promise<void> {
    if (!this.#watch.life.alive) return NEVER;
    do await this.#answer('close', () => this.keyValues.remember('simulation', 'end', 'closed'));
    while (this.#pending > 0);
    this.#watch.closing(this.#db.serialize());
    await super.close();
  }

  async #answer<T>(what: string, ask: () => Promise<T>, told: (value: T) => void = () => {}): Promise<T> {
    const { life } = this.#watch;
    if (!life.alive) return NEVER;
    this.#pending += 1;
    try {
      const value = await ask();
      if (!life.alive) return await NEVER;
      told(value);
      this.#watch.answering();
      return life.alive ? value : await NEVER;
    } catch (error) {
      if (!life.alive) return await NEVER;
      this.#watch.broke(what, error);
      throw error;
    } finally {
      this.#pending -= 1;
    }
  }
}
