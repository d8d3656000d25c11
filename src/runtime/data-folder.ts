import { crewOnFloor } from '../work/crews/crew-binding.ts';
import { reviewOnFloor } from '../work/reviews/review-binding.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';
import { floorMachine } from '../turns/floor-store.ts';
import type { Recording, Replayed } from '../engine/replay.ts';
import { replayJournal } from '../engine/replay.ts';
import type { Machine } from '../engine/machine.ts';
import { sessionJournal } from '../agents/session/session-journal.ts';
import type { Config } from '../config/config.ts';
import { statSync } from 'node:fs';
import { storeError } from '../engine/errors.ts';
import { makePrivateFolder } from '../lib/private-file.ts';
import { FloorStore, openFloorStore } from '../turns/floor-store.ts';
import { floorWithWork } from '../work/floor-with-work.ts';
import type { FloorStoreOptions } from '../turns/floor-store.ts';
import type { LeadParts, Led } from '../engine/shared/open-shared.ts';
import type { Log } from './log.ts';

/** Options for the store of a data folder. */
type DataFolderOptions = Omit<FloorStoreOptions, 'path'> & {
  readonly dataDir: string;
  /** Called with a sentence that operators should read about the folder. */
  readonly say: (line: string) => void;
};

/** Path of the database in a data folder: of the copy, where the store is in PostgreSQL. */
export function databaseIn(place: Pick<Config, 'dataDir' | 'store'>): string {
  return `${place.dataDir}/${place.store === undefined ? 'conch' : 'shared'}.db`;
}

/**
 * Makes the folder if it is missing, and opens its database for this process alone. Throws a `StoreError` that says
 * what to do.
 */
export function openDataFolder({ dataDir, ...options }: DataFolderOptions): FloorStore {
  const path = databaseIn({ dataDir });
  makeDataFolder(dataDir, options.say);
  return openFloorStore({ machine: floorWithWork, ...options, path });
}

const LED = {
  waits: 'another Conch leads on this store; this one stands by and takes over when that one ends',
  leads: 'this Conch leads on the store in PostgreSQL',
} as const;

/** What a store needs that processes share. `log` is told who leads. */
type SharedFolderOptions = DataFolderOptions & Omit<LeadParts, 'told'> & { readonly log: Pick<Log, 'info'> };

/**
 * Opens this process's copy of the store in PostgreSQL, and resolves when the process leads. Throws a `StoreError`
 * that says what to do.
 */
export async function openSharedFolder(
  { postgres: url, schema }: NonNullable<Config['store']>,
  { dataDir, log, ...options }: SharedFolderOptions,
): Promise<Led<FloorStore>> {
  const [{ openPostgresLog }, { lead, openSharedStore }] = await Promise.all([
    import('../engine/postgres/postgres-log.ts'),
    import('../engine/shared/open-shared.ts'),
  ]);
  makeDataFolder(dataDir, options.say);
  const shared = await openPostgresLog({ url, schema });
  const path = databaseIn({ dataDir, store: { postgres: url, schema } });
  const all = { machine: floorWithWork, ...options, path };
  const store = await openSharedStore(all, shared, (db, every) => new FloorStore(db, every));
  return lead(store, shared, { ...options, told: (state) => log.info({}, LED[state]) });
}

/** Makes the folder if it is missing. Throws a `StoreError`. `say` gets a sentence when others can look into it. */
function makeDataFolder(dataDir: string, say: (line: string) => void): void {
  try {
    makePrivateFolder(dataDir);
  } catch (error) {
    throw storeError(error, databaseIn({ dataDir }));
  }
  if (isOpenToOthers(dataDir))
    say(`Other users of this machine can look into ${dataDir}. Close it to them: chmod 700 "${dataDir}"`);
}

function isOpenToOthers(dataDir: string): boolean {
  return process.platform !== 'win32' && (statSync(dataDir).mode & 0o077) !== 0;
}

/** What commands on a whole database need of each machine. */
export type MachineEntry = {
  readonly name: string;
  readonly replay: (recording: Recording) => Replayed;
  /** Adds the machine to a store. Journals of machines that a store does not have are neither pruned nor replayed. */
  readonly hostIn: (store: FloorStore) => void;
};

/** The machines besides the floor. A new machine is one line here. */
export const MACHINES_BESIDE_FLOORS: readonly MachineEntry[] = [
  entryOf(runOnFloor),
  entryOf(reviewOnFloor),
  entryOf(crewOnFloor),
  entryOf(sessionJournal),
];

export const MACHINES: readonly MachineEntry[] = [entryOf(floorMachine), ...MACHINES_BESIDE_FLOORS];

function entryOf<State, Command, Fact, Effect, Refusal extends string>(
  machine: Machine<State, Command, Fact, Effect, Refusal>,
): MachineEntry {
  return {
    name: machine.name,
    replay: (recording) => replayJournal(recording, machine),
    hostIn: (store) => void store.host(machine),
  };
}
