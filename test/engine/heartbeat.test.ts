import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/engine/errors.ts';
import { lead } from '../../src/engine/shared/lead.ts';
import { BEAT_MS, DEAD_MS, WorkerHeartbeat, SILENT_MS } from '../../src/engine/shared/heartbeat.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { createTime } from '../agents/time.ts';
import { MemoryLog } from './memory-log.ts';

type Told = { beats: number; missed: number; isBuried: boolean; isSilent: boolean };

/** A log, and workers whose hearts beat in one simulated time. */
function stage() {
  const time = createTime();
  const memory = new MemoryLog(null, () => time.clock.now());
  const beating = async (log: SharedLog = memory.seenBy()) => {
    const { worker } = await memory.seenBy().join();
    const told: Told = { beats: 0, missed: 0, isBuried: false, isSilent: false };
    const heartbeat = new WorkerHeartbeat({
      log,
      worker,
      clock: time.clock,
      timers: time.timers,
      onBeat: () => void (told.beats += 1),
      onBuried: () => void (told.isBuried = true),
      onMissed: () => void (told.missed += 1),
      onSilent: () => void (told.isSilent = true),
    });
    return { worker, heartbeat, told };
  };
  const seconds = async (count: number): Promise<void> => {
    await time.advance(count * BEAT_MS);
  };
  return { time, memory, beating, seconds, living: async () => memory.living };
}

/** A log that is unreachable while `isBroken`. */
function breakable(log: SharedLog): { readonly log: SharedLog; isBroken: boolean } {
  const state = { isBroken: false };
  const unless = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (state.isBroken) throw new Error('the database cannot be reached');
    return ask();
  };
  const broken: SharedLog = {
    ...log,
    beat: (worker) => unless(() => log.beat(worker)),
    burySilent: (worker, limits) => unless(() => log.burySilent(worker, limits)),
  };
  return Object.assign(state, { log: broken });
}

describe('a worker that beats', () => {
  test('declares a worker dead after too long a silence, and never earlier', async () => {
    const { beating, seconds, living } = stage();
    const [one, two] = [await beating(), await beating()];
    await seconds(10);
    two.heartbeat.stop();
    await seconds(DEAD_MS / BEAT_MS - 1);
    expect(await living()).toEqual([one.worker, two.worker]);
    await seconds(3);
    expect(await living()).toEqual([one.worker]);
    one.heartbeat.stop();
  });

  test('may no longer act before another worker can declare it dead', async () => {
    const { memory, beating, seconds, living } = stage();
    const link = breakable(memory.seenBy());
    const [one, two] = [await beating(link.log), await beating()];
    await seconds(10);
    expect(one.heartbeat.mayAct).toBe(true);
    link.isBroken = true;
    while (one.heartbeat.mayAct) {
      expect(await living()).toContain(one.worker);
      await seconds(1);
    }
    await seconds(3);
    expect(await living()).toEqual([two.worker]);
    link.isBroken = false;
    await seconds(2);
    expect([one.told.isBuried, one.heartbeat.mayAct]).toEqual([true, false]);
    two.heartbeat.stop();
  });

  test('is told when another worker may have declared it dead, and not when another one really did', async () => {
    const { memory, beating, seconds } = stage();
    const link = breakable(memory.seenBy());
    const one = await beating(link.log);
    await seconds(3);
    link.isBroken = true;
    await seconds(SILENT_MS / BEAT_MS - 2);
    link.isBroken = false;
    await seconds(3);
    link.isBroken = true;
    await seconds(SILENT_MS / BEAT_MS - 2);
    expect(one.told.isSilent).toBe(false);
    await seconds(3);
    expect(one.told).toMatchObject({ isSilent: true, isBuried: false });
    const two = await beating();
    await memory.seenBy().leave(two.worker);
    await seconds(2 * (SILENT_MS / BEAT_MS));
    expect(two.told).toMatchObject({ isSilent: false, isBuried: true });
    one.heartbeat.stop();
  });

  test('declares no worker dead when none could reach the log', async () => {
    const { memory, beating, seconds, living } = stage();
    const link = breakable(memory.seenBy());
    const [one, two] = [await beating(link.log), await beating(link.log)];
    await seconds(10);
    link.isBroken = true;
    await seconds(30);
    link.isBroken = false;
    await seconds(10);
    expect(await living()).toEqual([one.worker, two.worker]);
    expect([one.told.isBuried, two.told.isBuried, one.heartbeat.mayAct]).toEqual([false, false, true]);
    expect(one.told.missed).toBe(30);
    for (const { heartbeat } of [one, two]) heartbeat.stop();
  });
});

/** A log that answers, but whose rows cannot be read while `isBroken`. */
function unreadable(log: SharedLog): { readonly log: SharedLog; isBroken: boolean } {
  const state = { isBroken: false };
  const pull: SharedLog['pull'] = async (...asked) => {
    if (state.isBroken) throw new StoreError('corrupt', 'a row of the database cannot be read');
    return log.pull(...asked);
  };
  return Object.assign(state, { log: { ...log, pull } });
}

describe('a process that stands by', () => {
  test('is not declared dead while it fills its copy', async () => {
    const { time, memory, beating, seconds, living } = stage();
    const { clock, timers } = time;
    const leader = await beating();
    await memory.seenBy().lead(leader.worker);
    const log = memory.seenBy();
    const filled = Promise.withResolvers<void>();
    const slow: SharedLog = { ...log, pull: (after) => filled.promise.then(() => log.pull(after)) };
    const told: unknown[] = [];
    const tell = (what: unknown): void => void told.push(what);
    lead({ path: ':memory:', clock }, slow, (db, all) => new SqliteStore(db, all), {
      clock,
      timers,
      onState: tell,
      unreached: tell,
      lost: tell,
      stopping: new AbortController().signal,
    }).catch(tell);
    await seconds((3 * DEAD_MS) / BEAT_MS);
    expect(await living()).toEqual([leader.worker, 'w2']);
    filled.resolve();
    await seconds(2);
    expect(told).toEqual(['waits']);
    leader.heartbeat.stop();
  });

  test('does not lead when it is stopped before it has joined, and leaves the log', async () => {
    const { time, memory } = stage();
    const { clock, timers } = time;
    const parts = { clock, timers, onState: () => undefined, unreached: () => undefined, lost: () => undefined };
    const make = (...given: ConstructorParameters<typeof SqliteStore>) => new SqliteStore(...given);
    const stopping = AbortSignal.abort();
    expect(await lead({ path: ':memory:', clock }, memory.seenBy(), make, { ...parts, stopping })).toBeNull();
    expect(memory.living).toEqual([]);
  });

  test.each([
    { what: 'reached', broken: breakable },
    { what: 'read', broken: unreadable },
  ])('says once when the log can no longer be $what, and again after a recovery', async ({ broken }) => {
    const { time, memory, beating, seconds } = stage();
    const { clock, timers } = time;
    const leader = await beating();
    await memory.seenBy().lead(leader.worker);
    const link = broken(memory.seenBy());
    const told: string[] = [];
    const parts = {
      clock,
      timers,
      onState: (state: string) => void told.push(state),
      stopping: new AbortController().signal,
    };
    const unreached = (error: unknown): void => void told.push((error as Error).message);
    const make = (...given: ConstructorParameters<typeof SqliteStore>) => new SqliteStore(...given);
    lead({ path: ':memory:', clock }, link.log, make, { ...parts, unreached, lost: unreached }).catch(unreached);
    await seconds(3);
    for (const isBroken of [true, false, true]) {
      link.isBroken = isBroken;
      await seconds(3);
    }
    expect(told).toEqual(['waits', expect.stringMatching('cannot be'), expect.stringMatching('cannot be')]);
    leader.heartbeat.stop();
  });
});
