import assert from 'node:assert/strict';

/** The long input is split into this many short ones. Quadratic work costs this many times more without the split. */
const SHARES = 16;
/** The long input may cost at most this many times as much as all short inputs together. */
const SLACK = 8;
/**
 * In milliseconds. Faster work on the long input passes without a comparison: on slow memory, making one long text
 * costs more than reading it.
 */
const LEAST_MS = 5;
/** Rounds before the work fails. */
const ROUNDS = 8;
/** Rounds before the work passes. In a single round, a delay of the short inputs could hide slow work. */
const LEAST_ROUNDS = 2;
/** Work is repeated until it takes this long, in milliseconds: some kernels count a thread's time in ticks of 4 ms. */
const ENOUGH_MS = 20;
const MOST_REPETITIONS = 16;

type Work = () => unknown;

/**
 * Fails when work on an input of `size` costs much more than work on sixteen inputs of `size / 16`. Measures the CPU
 * time of this thread and takes the lowest of several rounds, so that a busy machine changes nothing. `prepare` makes
 * an input and returns the work. The time of `prepare` does not count.
 */
export async function mustGrowLinearly(prepare: (size: number) => Work, size: number): Promise<void> {
  const small = (): readonly Work[] => Array.from({ length: SHARES }, () => prepare(Math.floor(size / SHARES)));
  const large = (): readonly Work[] => [prepare(size)];
  // The first run of a regular expression also compiles it.
  await spent(small().slice(0, 1));
  if ((await spent(large())) <= LEAST_MS) return;
  let short = Infinity;
  let long = Infinity;
  for (let round = 1; round <= ROUNDS; round += 1) {
    short = Math.min(short, await cost(small));
    long = Math.min(long, await cost(large));
    if (long <= LEAST_MS || (round >= LEAST_ROUNDS && long <= short * SLACK)) return;
  }
  assert.fail(`one input costs ${(long / short).toFixed(1)} times as much as ${SHARES} that are as long together`);
}

/** Returns the CPU time of one repetition, in milliseconds. */
async function cost(prepare: () => readonly Work[]): Promise<number> {
  for (let times = 1; ; times *= 4) {
    const all = await spent(Array.from({ length: times }, prepare).flat());
    if (all >= ENOUGH_MS || times >= MOST_REPETITIONS) return all / times;
  }
}

async function spent(works: readonly Work[]): Promise<number> {
  const before = process.threadCpuUsage();
  for (const work of works) await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
