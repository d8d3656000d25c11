import { Database } from './group-commit.ts';
import { configOf, startProgram, thinking } from './app.ts';
import { AGENTS, openFloors } from './floors.ts';
import { planOf } from '../src/turns/channel-plan.ts';
import type { ChannelPlan } from '../src/turns/channel-plan.ts';
import { systemClock } from '../src/lib/time.ts';
import type { Span } from './steady.ts';

/** What a program at rest costs. */
export type Standing = {
  /** From its modules' being loaded and its configuration read until people's messages are taken in, in milliseconds. */
  readonly readyMs: number;
  /** The same until every turn that was under way goes on. */
  readonly backMs: number;
  /** What reading the configuration took, in milliseconds. */
  readonly configMs: number;
  readonly heapBytes: number;
  readonly rssBytes: number;
};

const AT_ONCE = 1_000;

/** Makes a file with so many channels at rest; as many as `warmUpMs` says hold a turn. */
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
  // A first life looks at every floor once.
  const first = await startProgram({ config: configOf(channels), path, backend: thinking() });
  await first.stop();
  return { ms: performance.now() - begun };
}

/** Starts the whole program on such a file and says what it costs until it is ready, and at rest. */
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

/** What a start cannot do without: opens the file, and reads the states of the channels that are in the middle of a turn. */
export async function bareOpen(path: string): Promise<{ readonly ms: number }> {
  const begun = performance.now();
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.prepare('SELECT max(row) FROM journal').get();
  for (const state of db.prepare<[], string>('SELECT state FROM machines WHERE deadline IS NOT NULL').pluck().iterate())
    JSON.parse(state);
  return { ms: performance.now() - begun };
}
