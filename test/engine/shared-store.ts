import type { Database } from 'better-sqlite3';
import { lead } from '../../src/engine/shared/lead.ts';
import type { LeadParts } from '../../src/engine/shared/lead.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import type { StoreOptions } from '../../src/engine/sqlite/sqlite.ts';
import { systemTimers } from '../../src/lib/time.ts';
import { AT } from './sqlite/fixture.ts';

const OPTIONS = { path: ':memory:', clock: { now: () => AT }, salts: () => 'salt' };

/** Joins a log and resolves with the store when this process leads. `parts`: dependencies that a test replaces. */
export async function leadIn<Options extends StoreOptions, Store>(
  log: SharedLog,
  options: Options,
  make: (db: Database, options: Options) => Store,
  parts: Partial<LeadParts> = {},
): Promise<Store> {
  const led = await lead(options, log, make, {
    clock: options.clock,
    timers: systemTimers,
    onState: () => undefined,
    lost: () => undefined,
    unreached: () => undefined,
    stopping: new AbortController().signal,
    ...parts,
  });
  if (led === null) throw new Error('this process stopped before it led');
  return led.store;
}

/** Joins a log and resolves with the store when this process leads. */
export function openShared(log: SharedLog): Promise<SqliteStore> {
  return leadIn(log, OPTIONS, (db, options) => new SqliteStore(db, options));
}
