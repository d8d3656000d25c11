import { StoreError } from '../engine/errors.ts';
import { retry } from '../lib/retry.ts';
import type { Timers } from '../lib/time.ts';
import type { Log } from './log.ts';

const POLICY = { firstMs: 250, longestMs: 5_000 };

/**
 * Does work that nobody waits for, again and again while the disk is full: nothing of it was written, and all is well
 * once there is room. Any other error rejects.
 */
export function retryOnFullDisk<Result>(
  work: () => Promise<Result>,
  { timers, log }: { readonly timers: Timers; readonly log: Pick<Log, 'error'> },
): Promise<Result> {
  return retry(work, POLICY, {
    timers,
    judge: ({ error }) => (isDiskFull(error) ? 'again' : 'give-up'),
    waiting: ({ error, failures }) => {
      if (isDiskFull(error)) log.error({ attempt: failures }, error.message);
    },
  });
}

/** Whether the disk had no room for what was to be written. */
export function isDiskFull(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'full';
}
