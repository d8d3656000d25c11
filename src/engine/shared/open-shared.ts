import type { Database } from 'better-sqlite3';
import { StoreError, sentence } from '../errors.ts';
import { MIGRATIONS, openDatabase } from '../sqlite/open.ts';
import type { SqliteStore, StoreOptions } from '../sqlite/sqlite.ts';
import { defined } from '../../lib/defined.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { Heart, SILENT_MS } from './heart.ts';
import type { RequestsTold } from './publisher.ts';
import type { Member, SharedLog } from './shared-log.ts';

type Make<Options, Store> = (db: Database, options: Options) => Store;

/**
 * Opens a store that several processes share. The log holds the data: the file at `path`, this process's copy, is made
 * anew. Resolves when the copy holds everything that is in the log.
 */
export async function openSharedStore<Options extends StoreOptions, Store extends SqliteStore>(
  options: Options,
  log: SharedLog,
  make: Make<Options, Store>,
): Promise<Store> {
  const store = await joinSharedStore(options, log, make);
  try {
    await store.catchUp();
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Opens a shared store like `openSharedStore`, but leaves the copy empty: `lead` fills the copy, and beats meanwhile.
 * `told` is called after requests of the `Publisher`. When the copy cannot be opened, leaves the log and closes it.
 */
export async function joinSharedStore<Options extends StoreOptions, Store extends SqliteStore>(
  options: Options,
  log: SharedLog,
  make: Make<Options, Store>,
  told?: RequestsTold,
): Promise<Store> {
  let [member, db]: [Member | null, Database | null] = [null, null];
  try {
    member = await log.join();
    const shared = { log, member, ...defined({ told }) };
    db = openDatabase(options.path, MIGRATIONS, undefined, true);
    return make(db, { ...options, shared });
  } catch (error) {
    db?.close();
    if (member !== null) await log.leave(member.worker).catch(() => undefined);
    await log.close();
    throw error;
  }
}

const SILENT = `${SILENT_MS / 1_000} seconds`;

/** A shared store, in the process that leads. */
export type Led<Store> = {
  readonly store: Store;
  /** True while nobody can have declared this process dead. Only then may the process post and prompt. */
  readonly mayAct: () => boolean;
  /** Ends the beats. Call it when the store is closed. */
  readonly stop: () => void;
};

/** Dependencies of `lead`, besides the store and its log. */
export type LeadParts = {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called when another process leads and this one waits, and when this one leads. */
  readonly told: (state: 'waits' | 'leads') => void;
  /**
   * Called once when another process declared this one dead, or when this process leads and the log does not answer its
   * beats for `SILENT_MS`.
   */
  readonly lost: (error: StoreError) => void;
  /** Called when a request to the log, or applying its changes, fails: once, until the copy has caught up again. */
  readonly unreached: (error: unknown) => void;
  /** Aborted when this process stops. Neither `lost` nor `unreached` is called after that. */
  readonly stopping: AbortSignal;
};

/**
 * Beats for the process that has this store, fills its copy, and resolves when the process leads. One process of a
 * store leads at a time. When it ends, another one leads within about a second; when it dies, within about seven.
 * Resolves with `null` when this process stops before it leads. Rejects with a `StoreError` when filling the copy
 * throws one, and when this process is declared dead before it leads.
 */
export async function lead<Store extends SqliteStore>(
  store: Store,
  log: SharedLog,
  { clock, timers, told, lost, unreached, stopping }: LeadParts,
): Promise<Led<Store> | null> {
  const leads = Promise.withResolvers<boolean>();
  let state: 'new' | 'waits' | 'leads' = 'new';
  let looking: Promise<void> | null = null;
  const faults = firstFault((error) => !stopping.aborted && unreached(error));
  const look = async (): Promise<void> => {
    await store.catchUp();
    faults.over();
    if (state === 'leads') return;
    const isLeader = await log.lead(store.owner);
    if (isLeader) await store.catchUp();
    else if (state === 'waits') return;
    state = isLeader ? 'leads' : 'waits';
    told(state);
    if (isLeader) leads.resolve(true);
  };
  const failed = (error: unknown): void =>
    state === 'new' && error instanceof StoreError ? refuse(error) : faults.add(error);
  const refuse = (error: StoreError): void => {
    heart.stop();
    leads.reject(error);
  };
  const over = (error: StoreError): void => {
    refuse(error);
    if (!stopping.aborted) lost(error);
  };
  const heart: Heart = new Heart({
    log,
    worker: store.owner,
    clock,
    timers,
    onMissed: faults.add,
    onBeat: () =>
      void (looking ??= look()
        .catch(failed)
        .finally(() => (looking = null))),
    onBuried: () => over(new StoreError('buried', sentence('buried', '', ''))),
    // A process that stands by does not act, and can wait for the log.
    onSilent: () => state === 'leads' && over(new StoreError('unreached', sentence('unreached', '', SILENT))),
  });
  const stop = (): void => heart.stop();
  stopping.addEventListener('abort', () => leads.resolve(false), { once: true });
  if (!(await leads.promise)) return (stop(), null);
  return { store, mayAct: () => heart.mayAct, stop };
}

/** Reports one fault of a series: `add` reports the first one, `over` ends the series, `isOn` says if one goes on. */
export function firstFault(told: (fault: unknown) => void) {
  let isOver = true;
  return {
    add: (fault: unknown): void => {
      if (isOver) told(fault);
      isOver = false;
    },
    over: () => void (isOver = true),
    isOn: () => !isOver,
  };
}
