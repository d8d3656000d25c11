import { statSync } from 'node:fs';
import { takeOverMessages } from '../adapters/console/platform.ts';
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
 * Makes the folder if need be, opens its database for this process alone, and takes over what earlier versions kept beside it.
 * Rejects with a `StoreError` that says what to do.
 */
export async function openDataFolder({ dataDir, ...options }: DataFolderOptions): Promise<FloorStore> {
  const path = databaseIn(dataDir);
  makeFolder(dataDir, path);
  if (isOpenToOthers(dataDir)) {
    options.say(`Other users of this machine can look into ${dataDir}. Close it to them: chmod 700 "${dataDir}"`);
  }
  const store = openFloorStore({ machine: floorWithRuns, ...options, path });
  try {
    await takeOverMessages(store.tables, dataDir, options.say);
    return store;
  } catch (error) {
    await store.close();
    throw storeError(error, path);
  }
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
