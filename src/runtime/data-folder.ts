import { statSync } from 'node:fs';
import { storeError } from '../engine/errors.ts';
import { makePrivateFolder } from '../lib/private-file.ts';
import { openFloorStore } from '../turns/floor-store.ts';
import { floorWithRuns } from '../work/runs/floor-binding.ts';
import type { FloorStore, FloorStoreOptions } from '../turns/floor-store.ts';

/** What the store of a data folder is opened with. */
export type DataFolderOptions = Omit<FloorStoreOptions, 'path'> & {
  readonly dataDir: string;
  /** Told in a sentence what operators should know of the folder. */
  readonly say: (line: string) => void;
};

/** Where the database of a data folder is. */
export function databaseIn(dataDir: string): string {
  return `${dataDir}/conch.db`;
}

/**
 * Makes the folder if need be, opens its database for this process alone.
 * Throws a `StoreError` that says what to do.
 */
export function openDataFolder({ dataDir, ...options }: DataFolderOptions): FloorStore {
  const path = databaseIn(dataDir);
  makeFolder(dataDir, path);
  if (isOpenToOthers(dataDir)) {
    options.say(`Other users of this machine can look into ${dataDir}. Close it to them: chmod 700 "${dataDir}"`);
  }
  return openFloorStore({ machine: floorWithRuns, ...options, path });
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
