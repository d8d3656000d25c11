import assert from 'node:assert/strict';

/** So many short inputs are as long together as the long one; work that grows with the square costs that many times as much for it. */
const SHARES = 16;
/** So many times what the short ones cost the long one may. */
const SLACK = 8;
/**
 * What costs less is too little to compare, in milliseconds: where memory is slow, making one long text costs more than
 * reading it.
 */
const LEAST_MS = 5;
const ROUNDS = 8;
/** A short measurement of one round can be too long; the least of these is taken before the ratio is believed. */
const LEAST_ROUNDS = 3;

/**
 * Fails unless work on an input of `size` costs about as much as work on sixteen inputs of a sixteenth of it: two measurements
 * of one run, in time of this thread on the processor and each the least of some rounds, so that a busy machine changes
 * nothing. `prepare` makes an input, which does not count, and returns the work.
 */
export async function mustGrowLinearly(prepare: (size: number) => () => unknown, size: number): Promise<void> {
  // The first run of a pattern also compiles it.
  await prepare(Math.floor(size / SHARES))();
  let short = Infinity;
  let long = Infinity;
  for (let round = 0; round < ROUNDS; round += 1) {
    short = Math.min(short, await cost(Array.from({ length: SHARES }, () => prepare(Math.floor(size / SHARES)))));
    long = Math.min(long, await cost([prepare(size)]));
    if (long <= LEAST_MS || (round >= LEAST_ROUNDS - 1 && long <= short * SLACK)) return;
  }
  assert.fail(`one input costs ${(long / short).toFixed(1)} times as much as ${SHARES} that are as long together`);
}

async function cost(works: readonly (() => unknown)[]): Promise<number> {
  const before = process.threadCpuUsage();
  for (const work of works) await work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
