import { openSharedStore } from '../../src/engine/shared/open-shared.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { AT } from './sqlite/fixture.ts';

const OPTIONS = { path: ':memory:', clock: { now: () => AT }, salts: () => 'salt' };

/** Opens one process's store on a shared log. */
export function openShared(log: SharedLog): Promise<SqliteStore> {
  return openSharedStore(OPTIONS, log, (db, options) => new SqliteStore(db, options));
}
