import { parentPort } from 'node:worker_threads';
import { runSeed } from './world.ts';

type Job = { readonly seed: number; readonly events: number };

const port = parentPort;
if (port === null) throw new Error('impossible: this file is the beginning of a thread');

port.on('message', (job: Job) => void work(job));

/** Runs one seed after the other, as they are sent. An error ends the thread and so the whole run. */
async function work({ seed, events }: Job): Promise<void> {
  const outcome = await runSeed(seed, events);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  port?.postMessage(outcome);
}
