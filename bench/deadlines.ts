import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock, systemTimers } from '../src/lib/time.ts';
import type { Command } from '../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../src/turns/floor/floor.ts';
import { openFloorStore } from '../src/turns/floor-store.ts';
import { TurnManager } from '../src/turns/manager.ts';
import { AGENTS, SAID, channelsNamed } from './floors.ts';

/** How late turns expired, in milliseconds. `early`: turns ended before their deadline. `lost`: turns not ended. */
export type Met = {
  readonly early: number;
  readonly p99LateMs: number;
  readonly maxLateMs: number;
  readonly lost: number;
};

/** `LIMIT_MS`: the time limit of a turn. `SPREAD_MS`: the time over which the turns start. */
const LIMIT_MS = 2_000;
const SPREAD_MS = 4_000;
const AT_ONCE = 250;

/** Starts one turn in each channel, spread over a few seconds. Nobody ends a turn, so each reaches its time limit. */
export async function deadlines(path: string, channels: number): Promise<Met> {
  const clock = systemClock();
  const store = openFloorStore({ path, clock, textLimit: () => 16_000, words: () => null, statesInMemory: channels });
  const lateMs: number[] = [];
  const dueAt = new Map<string, number>();
  const manager = new TurnManager({
    store,
    clock,
    timers: systemTimers,
    addressed: () => [],
    takeDraft: () => null,
    changed: ({ channel, facts, at }) => {
      for (const fact of facts) {
        if (fact.type === 'turnGranted') dueAt.set(channel, at + LIMIT_MS);
        if (fact.type === 'turnEnded' && fact.outcome === 'expired')
          lateMs.push(clock.now() - (dueAt.get(channel) ?? 0));
      }
    },
    failed: (error) => {
      throw error;
    },
  });
  const seats = AGENTS.map((agent) => ({ agent, priority: 10, timeoutMs: LIMIT_MS, rejoin: 'auto' as const }));
  const settings = { ...PLAIN_SETTINGS, rounds: 1, maxTurns: 1 };
  const prepared: readonly Command[] = [
    { type: 'configure', settings, seats },
    ...AGENTS.map((agent): Command => ({ type: 'join', agent })),
  ];
  const ids = channelsNamed(channels);
  await store.recover();
  for (let from = 0; from < channels; from += AT_ONCE) {
    const some = ids.slice(from, from + AT_ONCE);
    await Promise.all(some.flatMap((id) => prepared.map((command) => store.floors.apply(id, command, clock.now()))));
  }
  for (let from = 0; from < channels; from += AT_ONCE) {
    await Promise.all(ids.slice(from, from + AT_ONCE).map((id) => manager.apply(id, { type: 'start', by: 'bench' })));
    await pause((SPREAD_MS * AT_ONCE) / channels);
  }
  await pause(LIMIT_MS + 1_000);
  manager.stop();
  await store.close();
  const sorted = lateMs.toSorted((one, other) => one - other);
  return {
    early: sorted.filter((late) => late < 0).length,
    p99LateMs: sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN,
    maxLateMs: sorted.at(-1) ?? Number.NaN,
    lost: channels - sorted.length,
  };
}

const HELD_UP_MS = 2_000;

/** The 99th percentile of the event loop's delay, in milliseconds, while `channels` channels hand over. */
export async function loopDelay(path: string, channels: number): Promise<{ readonly p99Ms: number }> {
  const clock = systemClock();
  const store = openFloorStore({ path, clock, textLimit: () => 16_000, words: () => null });
  const seats = AGENTS.map((agent) => ({ agent, priority: 10, timeoutMs: 1e9, rejoin: 'auto' as const }));
  const settings = { ...PLAIN_SETTINGS, rounds: 0, maxTurns: 1e9 };
  await store.recover();
  const ids = channelsNamed(channels);
  const until = performance.now() + HELD_UP_MS * 1.5;
  const speak = async (id: string): Promise<void> => {
    const apply = (command: Command) => store.floors.apply(id, command, clock.now());
    await Promise.all([
      apply({ type: 'configure', settings, seats }),
      ...AGENTS.map((agent) => apply({ type: 'join', agent })),
      apply({ type: 'start', by: 'bench' }),
    ]);
    while (performance.now() < until) {
      const { agent = '', epoch = 0 } = store.floors.state(id)?.turn ?? {};
      await Promise.all([
        apply({ type: 'say', agent, epoch, text: SAID, mentions: [] }),
        apply({ type: 'end', agent, epoch, outcome: 'completed', signalled: true }),
      ]);
    }
  };
  const all = Promise.all(ids.map(speak));
  await pause(HELD_UP_MS / 2);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await all;
  delay.disable();
  await store.close();
  return { p99Ms: delay.percentile(99) / 1e6 };
}
