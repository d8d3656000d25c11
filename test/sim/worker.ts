import { parentPort } from 'node:worker_threads';
import { runSeed } from './world.ts';

type Job = { readonly seed: number; readonly events: number };

const port = parentPort;
if (port === null) throw new Error('impossible: this file is the beginning of a thread');

port.on('message', (job: Job) => void work(job));

/** Runs the seeds that it receives, one after the other. An error ends the thread, and so the whole run. */
async function work({ seed, events }: Job): Promise<void> {
  const outcome = await runSeed(seed, events);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  port?.postMessage(outcome);
}
