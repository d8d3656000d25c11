import { Database } from './group-commit.ts';
import { configOf, startProgram, thinking } from './app.ts';
import { AGENTS, openFloors } from './floors.ts';
import { planOf } from '../src/turns/channel-plan.ts';
import type { ChannelPlan } from '../src/turns/channel-plan.ts';
import { systemClock } from '../src/lib/time.ts';
import type { Span } from './steady.ts';

/** The costs of a program at rest. */
export type Standing = {
  /** Milliseconds until people's messages are accepted. They count from loaded modules and a read configuration. */
  readonly readyMs: number;
  /** Milliseconds until all open turns go on, from the same start. */
  readonly backMs: number;
  /** The time to read the configuration, in milliseconds. */
  readonly configMs: number;
  readonly heapBytes: number;
  readonly rssBytes: number;
};

const AT_ONCE = 1_000;

/** Makes a file with `channels` channels. The first `warmUpMs` of them (here a count) hold a turn, the others rest. */
export async function makeFolder(path: string, channels: number, { warmUpMs: midTurn }: Span): Promise<{ ms: number }> {
  const begun = performance.now();
  const store = openFloors(path, { sync: () => null, close: () => {} });
  await store.recover();
  const at = systemClock().now();
  const plans = configOf(channels).channels.map(planOf);
  for (let from = 0; from < channels; from += AT_ONCE) {
    const some = plans.slice(from, from + AT_ONCE);
    const seated = ({ id, settings, seats }: ChannelPlan) => [
      store.floors.apply(id, { type: 'configure', settings, seats }, at),
      ...AGENTS.map((agent) => store.floors.apply(id, { type: 'join', agent }, at)),
    ];
    await Promise.all(some.flatMap(seated));
  }
  await Promise.all(
    plans.slice(0, midTurn).map(({ id }) => store.floors.apply(id, { type: 'start', by: 'bench' }, at)),
  );
  await store.close();
  // Starts and stops the program once, because its first start visits every floor.
  const first = await startProgram({ config: configOf(channels), path, backend: thinking() });
  await first.stop();
  return { ms: performance.now() - begun };
}

/** Starts the whole program on such a file. Returns its time until it is ready, and its memory. */
export async function standing(path: string, channels: number): Promise<Standing> {
  const begun = performance.now();
  const config = configOf(channels);
  const configured = performance.now();
  const program = await startProgram({ config, path, backend: thinking() });
  globalThis.gc?.();
  const { heapUsed: heapBytes, rss: rssBytes } = process.memoryUsage();
  await program.stop();
  const { readyMs, backMs } = program;
  return { readyMs, backMs, configMs: configured - begun, heapBytes, rssBytes };
}

/** The minimum of any start: opens the file and reads the states of the channels in the middle of a turn. */
export async function bareOpen(path: string): Promise<{ readonly ms: number }> {
  const begun = performance.now();
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.prepare('SELECT max(row) FROM journal').get();
  for (const state of db.prepare<[], string>('SELECT state FROM machines WHERE deadline IS NOT NULL').pluck().iterate())
    JSON.parse(state);
  return { ms: performance.now() - begun };
}
