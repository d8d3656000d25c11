import type { ReplayStep } from '../engine/replay.ts';
import { openSqliteStore, SqliteStore } from '../engine/sqlite/sqlite.ts';
import type { StoreOptions } from '../engine/sqlite/sqlite.ts';
import type { openDatabase } from '../engine/sqlite/open.ts';
import type { Command, Refusal } from './floor/command.ts';
import type { Effect } from './floor/effect.ts';
import type { Fact } from './floor/fact.ts';
import type { Floor } from './floor/floor.ts';
import type { ChannelId, MessageId } from './floor/settings.ts';
import { floorMachine } from './floor-machine.ts';
import type { FloorMachine } from './floor-machine.ts';
import { hostedFloor } from './hosted-floor.ts';
import type { TextRendering } from './hosted-floor.ts';
import { linesOf } from './records.ts';
import type { FloorReader, InboxRow, Line } from './records.ts';

/** One step of a floor's replay. */
export type FloorStep = ReplayStep<Floor, Fact>;

/** What a store of floors is built from; `machine` is the floor as shipped unless told. */
export type FloorStoreOptions = Omit<StoreOptions<Floor, Command, Fact, Effect, Refusal>, 'hosted'> &
  TextRendering & { readonly machine?: FloorMachine };

/**
 * Opens the store in a file and takes it for this process alone.
 * Throws a `StoreError` that says what to do: within a second when another process has it, and before anything is
 * written when it is damaged or of a newer schema.
 */
export function openFloorStore(options: FloorStoreOptions): FloorStore {
  return openSqliteStore(options.path, (db) => new FloorStore(db, options));
}

/** The engine's store with floors in it: the channel is the key. */
export class FloorStore extends SqliteStore<Floor, Command, Fact, Effect, Refusal> implements FloorReader {
  /** `db` comes from `openDatabase` and belongs to the store from now on. */
  constructor(db: ReturnType<typeof openDatabase>, { machine = floorMachine, ...options }: FloorStoreOptions) {
    super(db, { ...options, hosted: hostedFloor(machine, options) });
  }

  floor(channel: ChannelId): Floor | null {
    return this.state(channel);
  }

  channels(): readonly ChannelId[] {
    return this.keys();
  }

  lines(channel: ChannelId, after: number, upto: number): readonly Line[] {
    return linesOf(this.lined(channel, after, upto), (id) => this.message(id));
  }

  override message(id: MessageId): InboxRow | null {
    return super.message(id) as InboxRow | null;
  }
}
