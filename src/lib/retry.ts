import type { Timers } from './time.ts';

/** How long to wait between attempts: `firstMs`, then twice as long each time, up to `longestMs`. */
export type RetryPolicy = {
  readonly firstMs: number;
  readonly longestMs: number;
  /** The work is given up after so many attempts; without it, never. */
  readonly attempts?: number;
};

/** What waiting needs; the signal ends it. */
export type WaitPorts = { readonly timers: Timers; readonly signal?: AbortSignal };

/** One failure that another attempt may mend. */
type Failure = {
  readonly error: unknown;
  /** So many attempts have failed, this one counted. */
  readonly failures: number;
  /** The wait that the policy asks for before the next attempt. */
  readonly waitMs: number;
};

/** What becomes of a failure: nothing further is tried (`give-up`), or again after the policy's wait or a longer one. */
export type Verdict = 'again' | 'give-up' | { readonly notBeforeMs: number };

/** What a retry needs. */
type RetryPorts = WaitPorts & {
  /** Judges a failure; without it every failure is tried again. What it throws ends the work instead of the failure. */
  readonly judge?: (failure: Failure) => Verdict;
  /** Told before each wait, with how long it will be. */
  readonly waiting?: (failure: Failure) => void;
};

/** How long a policy waits after so many failures in a row, in milliseconds; 0 after none. */
export function backoffMs({ firstMs, longestMs }: RetryPolicy, failures: number): number {
  return failures < 1 ? 0 : Math.min(firstMs * 2 ** (failures - 1), longestMs);
}

/**
 * Does work until it succeeds, is given up, or the signal ends it. Rejects with the last failure, or with the signal's
 * reason. A wait that a verdict asks for is never shorter than the policy's.
 */
export async function retry<T>(work: () => Promise<T>, policy: RetryPolicy, ports: RetryPorts): Promise<T> {
  const { judge = () => 'again', waiting, signal } = ports;
  for (let failures = 1; ; failures += 1) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      const failure = { error, failures, waitMs: backoffMs(policy, failures) };
      const verdict = judge(failure);
      if (verdict === 'give-up' || failures === policy.attempts) throw error;
      const waitMs = verdict === 'again' ? failure.waitMs : Math.max(failure.waitMs, verdict.notBeforeMs);
      waiting?.({ ...failure, waitMs });
      await delay(waitMs, ports);
    }
  }
}

/** Resolves after so many milliseconds; rejects with the signal's reason when that comes first. */
export async function delay(ms: number, { timers, signal }: WaitPorts): Promise<void> {
  signal?.throwIfAborted();
  const over = Promise.withResolvers<void>();
  const ended = (): void => over.reject(signal?.reason);
  signal?.addEventListener('abort', ended, { once: true });
  const timer = timers.after(ms, over.resolve);
  try {
    await over.promise;
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', ended);
  }
}
