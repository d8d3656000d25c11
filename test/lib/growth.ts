import assert from 'node:assert/strict';

/** So many short inputs are as long together as the long one; work that grows with the square costs that many times as much for it. */
const SHARES = 16;
/** So many times what the short ones cost the long one may. */
const SLACK = 8;
/**
 * Work that costs less is too cheap to compare, in milliseconds: where memory is slow, making one long text costs more than
 * reading it.
 */
const LEAST_MS = 5;
/** The most rounds that are measured. */
const ROUNDS = 8;
/** A short measurement of one round can be too long; the least of these is taken before the ratio is believed. */
const LEAST_ROUNDS = 2;
/** Work is repeated until it takes this long, in milliseconds: some kernels count a thread's time in ticks of 4 ms. */
const ENOUGH_MS = 20;
const MOST_REPETITIONS = 16;

type Work = () => unknown;

/**
 * Fails unless work on an input of `size` costs about as much as work on sixteen inputs of a sixteenth of it: two measurements
 * of one run, in time of this thread on the processor and each the least of some rounds, so that a busy machine changes
 * nothing. `prepare` makes an input, which does not count, and returns the work.
 */
export async function mustGrowLinearly(prepare: (size: number) => Work, size: number): Promise<void> {
  const small = (): readonly Work[] => Array.from({ length: SHARES }, () => prepare(Math.floor(size / SHARES)));
  const large = (): readonly Work[] => [prepare(size)];
  // The first run of a pattern also compiles it.
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

/** The time of one repetition. */
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
