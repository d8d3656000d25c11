import { describe, expect, test } from 'vitest';
import { BEAT_MS, DEAD_MS, Heart } from '../../src/engine/shared/heart.ts';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { createTime } from '../agents/time.ts';
import { MemoryLog } from './memory-log.ts';

type Told = { beats: number; isBuried: boolean };

/** A log, and workers whose hearts beat in one time. */
function stage() {
  const time = createTime();
  const memory = new MemoryLog(null, () => time.clock.now());
  const beating = async (log: SharedLog = memory.seenBy()) => {
    const { worker } = await memory.seenBy().join();
    const told: Told = { beats: 0, isBuried: false };
    const heart = new Heart({
      log,
      worker,
      clock: time.clock,
      timers: time.timers,
      onBeat: () => void (told.beats += 1),
      onBuried: () => void (told.isBuried = true),
    });
    return { worker, heart, told };
  };
  const seconds = async (count: number): Promise<void> => {
    await time.advance(count * BEAT_MS);
  };
  return { memory, beating, seconds, living: () => memory.seenBy().living() };
}

/** A log that can be out of reach. */
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
  test('declares dead who was silent for too long, and nobody before that', async () => {
    const { beating, seconds, living } = stage();
    const [one, two] = [await beating(), await beating()];
    await seconds(10);
    two.heart.stop();
    await seconds(DEAD_MS / BEAT_MS - 1);
    expect(await living()).toEqual([one.worker, two.worker]);
    await seconds(3);
    expect(await living()).toEqual([one.worker]);
    one.heart.stop();
  });

  test('may not act any more before another one can declare it dead', async () => {
    const { memory, beating, seconds, living } = stage();
    const link = breakable(memory.seenBy());
    const [one, two] = [await beating(link.log), await beating()];
    await seconds(10);
    expect(one.heart.mayAct).toBe(true);
    link.isBroken = true;
    while (one.heart.mayAct) {
      expect(await living()).toContain(one.worker);
      await seconds(1);
    }
    await seconds(3);
    expect(await living()).toEqual([two.worker]);
    link.isBroken = false;
    await seconds(2);
    expect([one.told.isBuried, one.heart.mayAct]).toEqual([true, false]);
    two.heart.stop();
  });

  test('declares nobody dead when the log was out of reach for all', async () => {
    const { memory, beating, seconds, living } = stage();
    const link = breakable(memory.seenBy());
    const [one, two] = [await beating(link.log), await beating(link.log)];
    await seconds(10);
    link.isBroken = true;
    await seconds(30);
    link.isBroken = false;
    await seconds(10);
    expect(await living()).toEqual([one.worker, two.worker]);
    expect([one.told.isBuried, two.told.isBuried, one.heart.mayAct]).toEqual([false, false, true]);
    for (const { heart } of [one, two]) heart.stop();
  });
});
