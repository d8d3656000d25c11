import type { Database } from 'better-sqlite3';
import { openDatabase } from '../sqlite/open.ts';
import type { SqliteStore, StoreOptions } from '../sqlite/sqlite.ts';
import type { SharedLog } from './shared-log.ts';

/**
 * Opens a store that several processes share. The log decides: `path`, the file of this process's copy, must be new.
 * Resolves when the copy holds everything that is in the log.
 */
export async function openSharedStore<Options extends StoreOptions, Store extends SqliteStore>(
  options: Options,
  log: SharedLog,
  make: (db: Database, options: Options) => Store,
): Promise<Store> {
  const member = await log.join();
  const store = make(openDatabase(options.path), { ...options, shared: { log, member } });
  log.onHint(() => void store.catchUp().catch((error: unknown) => options.failed?.(error)));
  await store.catchUp();
  return store;
}
