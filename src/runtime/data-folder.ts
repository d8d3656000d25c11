import type { Config } from '../config/config.ts';
import { StoreError, sentence, storeError } from '../engine/errors.ts';
import { newStoreId } from '../engine/sqlite/sqlite.ts';
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder } from '../lib/private-file.ts';
import { systemTimers } from '../lib/time.ts';
import { FloorStore, openFloorStore } from '../turns/floor-store.ts';
import { floorWithWork } from '../work/floor-with-work.ts';
import type { FloorStoreOptions } from '../turns/floor-store.ts';
import type { LeadParts, Led } from '../engine/shared/lead.ts';
import type { SharedLog } from '../engine/shared/shared-log.ts';
import type { Log } from './log.ts';
import { MACHINES_BESIDE_FLOORS } from './machines.ts';

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

const LEAD_WORDS = {
  waits: 'another Conch leads on this store; this one stands by and takes over when that one ends',
  leads: 'this Conch leads on the store in PostgreSQL',
} as const;

type SharedPlace = NonNullable<Config['store']>;

/**
 * The store of this process. `isRefused`: true while its database refuses a request, which is tried again. `drainMs`:
 * the longest delivery at the end, in milliseconds; set where another process can deliver the rest.
 */
export type OpenedStore = Led<FloorStore> & { readonly isRefused: () => boolean; readonly drainMs?: number };

/** Input for a store that processes share. `log` gets a line about who leads. Calls `waits` when another leads. */
type SharedFolderOptions = DataFolderOptions &
  Omit<LeadParts, 'onState' | 'unreached'> & { readonly log: Pick<Log, 'info' | 'warn'>; readonly waits: () => void };

/**
 * Opens this process's copy of the store in PostgreSQL, and resolves when the process leads; with `null` when it stops
 * before. Throws a `StoreError` that says what to do.
 */
export async function openSharedFolder(
  { postgres: url, schema }: SharedPlace,
  { dataDir, log, waits, ...options }: SharedFolderOptions,
): Promise<OpenedStore | null> {
  const [{ openPostgresLog }, { firstFault, lead }] = await Promise.all([
    import('../engine/postgres/postgres-log.ts'),
    import('../engine/shared/lead.ts'),
  ]);
  makeDataFolder(dataDir, options.say);
  const shared = await openPostgresLog({ url, schema });
  await refuseUnmoved(databaseIn({ dataDir }), shared).catch(async (error: unknown) => {
    await shared.close();
    throw error;
  });
  const path = databaseIn({ dataDir, store: { postgres: url, schema } });
  const all = { machine: floorWithWork, ...options, path };
  const refused = firstFault((error) => log.warn({ err: error }, 'PostgreSQL refuses a request; trying again'));
  const requests = { failed: refused.add, succeeded: refused.over };
  const ledStore = await lead(all, shared, (db, every) => new FloorStore(db, every), {
    ...options,
    requests,
    onState: (state) => {
      log.info({}, LEAD_WORDS[state]);
      if (state === 'waits') waits();
    },
    unreached: (error) => log.warn({ err: error }, 'the store in PostgreSQL cannot be read; trying again each second'),
  });
  return ledStore === null ? null : { ...ledStore, isRefused: refused.isOn, drainMs: 1_000 };
}

async function refuseUnmoved(file: string, shared: SharedLog): Promise<void> {
  if (!existsSync(file) || (await shared.pull(0)).rows.length > 0) return;
  throw new StoreError(
    'unavailable',
    `The store in PostgreSQL is empty, and ${file} holds one. Move it there: conch move. To begin with an empty store, put the file away.`,
  );
}

/**
 * Moves the store of a data folder to PostgreSQL: all of it, or nothing. Resolves with the number of rows; with `null`
 * when it was moved already. Rejects with a `StoreError` that says what to do.
 */
export async function moveDataFolder(
  { dataDir, ...options }: DataFolderOptions,
  place: SharedPlace,
): Promise<number | null> {
  const { postgres: url, schema } = place;
  const path = databaseIn({ dataDir });
  if (!existsSync(path)) throw new StoreError('unavailable', `There is no store in a file to move (${path}).`);
  const [{ moveRows, wasMoved }, { fillPostgres, nameOfLog }] = await Promise.all([
    import('../engine/shared/move.ts'),
    import('../engine/postgres/offline.ts'),
  ]);
  if (!wasMoved(path)) {
    const store = openDataFolder({ ...options, dataDir });
    try {
      for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(store);
      const [problem] = store.verify();
      if (problem !== undefined) throw new StoreError('corrupt', sentence('corrupt', path, problem));
      // Settles what an earlier end left open: a restore, and posts in flight.
      await store.recover();
    } finally {
      await store.close();
    }
  }
  return moveRows(path, nameOfLog({ url, schema }), fillPostgres({ url, schema }));
}

/**
 * Prepares a store in PostgreSQL that may have lost its last commits: turn numbers jump ahead, posts get new ids, and
 * pending posts are searched for before they are sent. Rejects with a `StoreError` when a process uses the store.
 */
export async function doubtSharedFolder({ dataDir, ...options }: DataFolderOptions, place: SharedPlace): Promise<void> {
  const { postgres: url, schema } = place;
  const [{ openPostgresLog }, { lead }, { nameOfLog, renamePostgres }] = await Promise.all([
    import('../engine/postgres/postgres-log.ts'),
    import('../engine/shared/lead.ts'),
    import('../engine/postgres/offline.ts'),
  ]);
  makeDataFolder(dataDir, options.say);
  await renamePostgres({ url, schema }, newStoreId());
  const all = { machine: floorWithWork, ...options, path: databaseIn({ dataDir, store: place }) };
  const log = await openPostgresLog({ url, schema });
  const stopping = new AbortController();
  const ledStore = await lead(all, log, (db, every) => new FloorStore(db, every), {
    clock: options.clock,
    timers: systemTimers,
    onState: (state) => void (state === 'waits' && stopping.abort()),
    lost: () => undefined,
    unreached: () => undefined,
    stopping: stopping.signal,
  });
  if (ledStore === null)
    throw new StoreError('locked', `A Conch uses the store in ${nameOfLog({ url, schema })}. Stop it first.`);
  try {
    for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(ledStore.store);
    await ledStore.store.doubt();
  } finally {
    await ledStore.store.close();
  }
}

function makeDataFolder(dataDir: string, say: (line: string) => void): void {
  try {
    makePrivateFolder(dataDir);
  } catch (error) {
    throw storeError(error, databaseIn({ dataDir }));
  }
  refuseForeignFolder(dataDir);
  if (isOpenToOthers(dataDir))
    say(`Other users of this machine can look into ${dataDir}. Close it to them: chmod 700 "${dataDir}"`);
}

/**
 * Throws a `StoreError` with the `chown` command when another user owns the folder or a file in it, and this user may
 * not read and write it. For example, root made the volume, or another user started Conch before.
 */
function refuseForeignFolder(dataDir: string): void {
  const [uid, gid] = [process.getuid?.(), process.getgid?.()];
  if (uid === undefined || gid === undefined) return;
  const foreign = [dataDir, ...filesIn(dataDir)].find((path) => isRefused(path) && statSync(path).uid !== uid);
  if (foreign === undefined) return;
  const owner = statSync(foreign).uid;
  throw new StoreError(
    'read-only',
    `${foreign} belongs to user ${owner}, and Conch runs as user ${uid}, who cannot write to it. Run as root: chown -R ${uid}:${gid} "${dataDir}"`,
  );
}

function filesIn(dataDir: string): readonly string[] {
  return isRefused(dataDir) ? [] : readdirSync(dataDir).map((name) => join(dataDir, name));
}

/** Whether permissions forbid this process to read or to write. False on a read-only file system. */
function isRefused(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EACCES';
  }
}

function isOpenToOthers(dataDir: string): boolean {
  return process.platform !== 'win32' && (statSync(dataDir).mode & 0o077) !== 0;
}
