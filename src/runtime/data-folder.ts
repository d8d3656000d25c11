import { crewOnFloor } from '../work/crews/crew-binding.ts';
import { reviewOnFloor } from '../work/reviews/review-binding.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';
import { floorMachine } from '../turns/floor-store.ts';
import type { Recording, Replayed } from '../engine/replay.ts';
import { replayJournal } from '../engine/replay.ts';
import type { Machine } from '../engine/machine.ts';
import { sessionJournal } from '../agents/session/session-journal.ts';
import { statSync } from 'node:fs';
import { storeError } from '../engine/errors.ts';
import { makePrivateFolder } from '../lib/private-file.ts';
import { openFloorStore } from '../turns/floor-store.ts';
import { floorWithWork } from '../work/floor-with-work.ts';
import type { FloorStore, FloorStoreOptions } from '../turns/floor-store.ts';

/** Options for the store of a data folder. */
type DataFolderOptions = Omit<FloorStoreOptions, 'path'> & {
  readonly dataDir: string;
  /** Called with a sentence that operators should read about the folder. */
  readonly say: (line: string) => void;
};

/** Path of the database in a data folder. */
export function databaseIn(dataDir: string): string {
  return `${dataDir}/conch.db`;
}

/**
 * Makes the folder if it is missing, and opens its database for this process alone. Throws a `StoreError` that says
 * what to do.
 */
export function openDataFolder({ dataDir, ...options }: DataFolderOptions): FloorStore {
  const path = databaseIn(dataDir);
  makeFolder(dataDir, path);
  if (isOpenToOthers(dataDir)) {
    options.say(`Other users of this machine can look into ${dataDir}. Close it to them: chmod 700 "${dataDir}"`);
  }
  return openFloorStore({ machine: floorWithWork, ...options, path });
}

function makeFolder(dataDir: string, path: string): void {
  try {
    makePrivateFolder(dataDir);
  } catch (error) {
    throw storeError(error, path);
  }
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
