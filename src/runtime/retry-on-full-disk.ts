import type { Log } from './log.ts';
import { StoreError } from '../engine/errors.ts';
import type { Timers } from '../lib/time.ts';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Does work that nobody waits for, again and again while the disk is full: nothing of it was written, and all is well
 * once there is room. Any other error rejects.
 */
export async function untilRoom<Result>(
  work: () => Promise<Result>,
  ports: { readonly timers: Timers; readonly log: Pick<Log, 'error'> },
): Promise<Result> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isFull(error)) throw error;
      ports.log.error({ attempt }, error.message);
    }
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
    await new Promise<void>((resolve) => void ports.timers.after(pauseMs, resolve));
  }
}

/** Whether the disk had no room for what was to be written. */
export function isFull(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'full';
}
