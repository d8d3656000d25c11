import type { Database } from 'better-sqlite3';
import { StoreError, sentence, storeError } from '../errors.ts';
import { MIGRATIONS, openDatabase } from '../sqlite/open.ts';
import type { StoreOptions } from '../sqlite/sqlite.ts';
import { defined } from '../../lib/defined.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { WorkerHeartbeat, SILENT_MS } from './heartbeat.ts';
import { LogDisk } from './log-disk.ts';
import type { RequestHooks } from './log-disk.ts';
import { changesOf, writerOf } from './replica.ts';
import type { SharedLog } from './shared-log.ts';

const SILENT = `${SILENT_MS / 1_000} seconds`;

/** A shared store, in the process that leads. Closing the store ends the beats and leaves the log. */
export type Led<Store> = {
  readonly store: Store;
  /** True while nobody can have declared this process dead. Only then may the process post and prompt. */
  readonly mayAct: () => boolean;
};

/** Dependencies of `lead`, besides the log. */
export type LeadParts = {
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called when another process leads and this one waits, and when this one leads. */
  readonly onState: (state: 'waits' | 'leads') => void;
  /**
   * Called once when another process declared this one dead, or when this process leads and the log does not answer its
   * beats for `SILENT_MS`.
   */
  readonly lost: (error: StoreError) => void;
  /** Called for the first failure of a series: of a beat, of following the log, or of an attempt to lead. */
  readonly unreached: (error: unknown) => void;
  /** Called after requests that write rows to the log. */
  readonly requests?: RequestHooks;
  /** Aborted when this process stops. Neither `lost` nor `unreached` is called after that. */
  readonly stopping: AbortSignal;
};

/**
 * Joins a log and waits to lead. The log holds the data: the file at `path`, this process's copy, is made anew and
 * follows the log. When this process leads, `make` makes the store of the copy, and only this process writes.
 *
 * One process of a log leads at a time. When the leader ends, another process leads within about a second; when the
 * leader dies, within about seven. Resolves with `null` when this process stops before it leads. Rejects when
 * joining the log, opening the copy, filling it for the first time, or `make` fails, and when this process is declared
 * dead before it leads. Closes the log before it rejects.
 */
export async function lead<Options extends StoreOptions, Store>(
  options: Options,
  log: SharedLog,
  make: (db: Database, options: Options) => Store,
  parts: LeadParts,
): Promise<Led<Store> | null> {
  let end = (): Promise<void> => log.close();
  try {
    const { worker, logId } = await log.join();
    end = async () => {
      await log.leave(worker).catch(() => undefined);
      await log.close();
    };
    const db = openDatabase(options.path, MIGRATIONS, undefined, true);
    try {
      const heartbeat = parts.stopping.aborted ? null : await untilLeads({ log, worker, db }, parts);
      if (heartbeat !== null) {
        const left = end;
        end = () => (heartbeat.stop(), left());
        const { timers, requests } = parts;
        const copy = { changes: changesOf(db), write: writerOf(db) };
        const disk = new LogDisk({ log, worker, timers, ...copy, ...defined({ hooks: requests }) });
        const store = make(db, { ...options, shared: { worker, logId, disk, leave: end } });
        return { store, mayAct: () => heartbeat.mayAct };
      }
    } catch (error) {
      db.close();
      throw error;
    }
    db.close();
    await end();
    return null;
  } catch (error) {
    await end();
    throw error;
  }
}

type Follower = { readonly log: SharedLog; readonly worker: string; readonly db: Database };

/**
 * Beats, and writes the changes of the log into `db`, until this worker leads. Resolves with the running heartbeat; with
 * `null` when this process stops first.
 */
async function untilLeads(
  { log, worker, db }: Follower,
  { clock, timers, onState, lost, unreached, stopping }: LeadParts,
): Promise<WorkerHeartbeat | null> {
  const leads = Promise.withResolvers<boolean>();
  let state: 'new' | 'waits' | 'leads' = 'new';
  let looking: Promise<void> | null = null;
  const faults = firstFault((error) => !stopping.aborted && unreached(error));
  const follow = followerOf(log, db, worker);
  const tryToLead = async (): Promise<void> => {
    await follow();
    const isLeader = await log.lead(worker);
    if (isLeader) await follow();
    else if (state === 'waits') return;
    state = isLeader ? 'leads' : 'waits';
    onState(state);
    if (isLeader) leads.resolve(true);
  };
  const look = async (): Promise<void> => {
    await (state === 'leads' ? log.forgetDeleted(worker) : tryToLead());
    faults.over();
  };
  const failed = (error: unknown): void =>
    state === 'new' && error instanceof StoreError ? refuse(error) : faults.add(error);
  const refuse = (error: StoreError): void => {
    heartbeat.stop();
    leads.reject(error);
  };
  const over = (error: StoreError): void => {
    refuse(error);
    if (!stopping.aborted) lost(error);
  };
  const heartbeat: WorkerHeartbeat = new WorkerHeartbeat({
    log,
    worker,
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
  stopping.addEventListener('abort', () => leads.resolve(false), { once: true });
  if (await leads.promise) return heartbeat;
  heartbeat.stop();
  return null;
}

/**
 * Returns a function that writes the changes of the log since its last call, at first all rows, into `db`. `worker`:
 * the worker whose copy `db` is. Absent for a copy of no worker, which the log does not wait for.
 */
export function followerOf(log: SharedLog, db: Database, worker?: string): () => Promise<void> {
  const write = db.transaction(writerOf(db));
  let position = 0;
  return async () => {
    for (let isAll = false; !isAll;) {
      const changes = await log.pull(position, worker);
      try {
        write(changes.rows);
      } catch (error) {
        throw storeError(error, db.name);
      }
      ({ position, isAll } = changes);
    }
  };
}

/**
 * Passes only the first fault of each series to `report`. `add` takes a fault, `over` ends the series, `isOn` says
 * whether a series goes on.
 */
export function firstFault(report: (fault: unknown) => void) {
  let isOver = true;
  return {
    add: (fault: unknown): void => {
      if (isOver) report(fault);
      isOver = false;
    },
    over: () => void (isOver = true),
    isOn: () => !isOver,
  };
}
