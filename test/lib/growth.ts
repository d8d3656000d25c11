import assert from 'node:assert/strict';

/** So many short inputs are as long together as the long one; work that grows with the square costs that many times as much for it. */
const SHARES = 16;
/** So many times what the short ones cost the long one may. */
const SLACK = 8;
/**
 * A long input that costs less, on average of the rounds, is too cheap to compare, in milliseconds: where memory is slow, making
 * one long text costs more than reading it.
 */
const LEAST_MS = 5;
/** At most so many rounds are measured. */
const ROUNDS = 16;
/** At least so many rounds are measured before the ratio is believed. */
const LEAST_ROUNDS = 4;

/**
 * Fails unless work on an input of `size` costs about as much as work on sixteen inputs of a sixteenth of it. Both are measured
 * in one run, in time of this thread on the processor, so that a busy machine changes nothing. Some kernels count that time in
 * ticks of 4 ms, and a single short measurement can read 0: the sums of all rounds are compared. `prepare` makes an input, which
 * does not count, and returns the work.
 */
export async function mustGrowLinearly(prepare: (size: number) => () => unknown, size: number): Promise<void> {
  // The first run of a pattern also compiles it.
  await prepare(Math.floor(size / SHARES))();
  let short = 0;
  let long = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    short += await cost(Array.from({ length: SHARES }, () => prepare(Math.floor(size / SHARES))));
    long += await cost([prepare(size)]);
    if (long <= LEAST_MS * round || (round >= LEAST_ROUNDS && long <= short * SLACK)) return;
  }
  assert.fail(`one input costs ${(long / short).toFixed(1)} times as much as ${SHARES} that are as long together`);
}

async function cost(works: readonly (() => unknown)[]): Promise<number> {
  const before = process.threadCpuUsage();
  for (const work of works) await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
