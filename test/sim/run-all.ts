import { Worker } from 'node:worker_threads';
import { runSeed } from './world.ts';
import type { Outcome } from './world.ts';

/** The seeds to run. `done`: called after each seed. */
export type Plan = {
  readonly seeds: readonly number[];
  readonly events: number;
  readonly workers: number;
  readonly done: (outcome: Outcome) => void;
};

/** Runs all seeds, in this thread or in several. Resolves with their outcomes. */
export async function runAll({ seeds, events, workers, done }: Plan): Promise<readonly Outcome[]> {
  const left = [...seeds];
  const outcomes: Outcome[] = [];
  const finish = (outcome: Outcome): void => {
    outcomes.push(outcome);
    done(outcome);
  };
  if (workers < 2) {
    for (const seed of left) finish(await runSeed(seed, events));
    return outcomes;
  }
  await Promise.all(Array.from({ length: workers }, () => work({ left, events, finish })));
  return outcomes;
}

function work(job: { left: number[]; events: number; finish: (outcome: Outcome) => void }): Promise<void> {
  const { left, events, finish } = job;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const worker = new Worker(new URL('worker.ts', import.meta.url));
  const next = (): void => {
    const seed = left.shift();
    if (seed === undefined) worker.terminate().then(() => resolve(), reject);
    else send(worker, { seed, events });
  };
  worker.on('message', (outcome: Outcome) => {
    finish(outcome);
    next();
  });
  worker.on('error', reject);
  next();
  return promise;
}

/** A worker thread has no origin, unlike a window. */
function send(worker: Worker, job: { readonly seed: number; readonly events: number }): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  worker.postMessage(job);
}
