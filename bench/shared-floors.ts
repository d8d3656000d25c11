import { openPostgresLog } from '../src/engine/postgres/postgres-log.ts';
import { lead } from '../src/engine/shared/lead.ts';
import { systemClock, systemTimers } from '../src/lib/time.ts';
import { FloorStore } from '../src/turns/floor-store.ts';
import { floorWithWork } from '../src/work/floor-with-work.ts';

/** Opens the store in PostgreSQL (`CONCH_BENCH_PG`, schema `CONCH_BENCH_SCHEMA`) and leads its processes. */
export async function openShared(path: string): Promise<FloorStore> {
  const { CONCH_BENCH_PG: url = '', CONCH_BENCH_SCHEMA: schema = '' } = process.env;
  const clock = systemClock();
  const log = await openPostgresLog({ url, schema });
  const wording = { textLimit: () => 16_000, words: () => 'text' };
  const options = { path, clock, machine: floorWithWork, statesInMemory: 2_000, ...wording };
  const lost = (error: unknown): never => {
    throw error;
  };
  const stopping = new AbortController().signal;
  const parts = { clock, timers: systemTimers, onState: () => undefined, stopping, lost, unreached: lost };
  const led = await lead(options, log, (db, all) => new FloorStore(db, all), parts);
  if (led === null) throw new Error('impossible: this process was stopped before it led');
  return led.store;
}

/** Waits to lead until the process is ended. Throws when it comes to lead. */
export async function standBy(path: string): Promise<never> {
  await openShared(path);
  throw new Error('this process was to stand by, and leads');
}
