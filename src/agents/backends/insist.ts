import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import type { BackendError, Report } from './backend.ts';

/** What prompting again needs. */
type InsistPorts = {
  readonly report: Pick<Report, 'leftMs'>;
  readonly timers: Timers;
  /** Somebody stopped the generation. */
  readonly signal: AbortSignal;
  readonly failureOf: (error: unknown) => BackendError;
  /** It failed and is tried again after a wait. */
  readonly failed: () => void;
};

/**
 * Does work that asks a service; what failed for a while (`retryAfterMs`) is tried again within the turn, after the wait
 * that the service asks for, as long as the turn lasts longer than the wait. Rejects with the last failure, or with the
 * signal's reason.
 */
export async function insist<T>(work: () => Promise<T>, ports: InsistPorts): Promise<T> {
  const { report, failureOf, failed } = ports;
  return await retry(work, POLICY, {
    ...ports,
    judge({ error, waitMs }) {
      const { retryAfterMs } = failureOf(error);
      if (retryAfterMs === null || Math.max(waitMs, retryAfterMs) >= report.leftMs()) return 'give-up';
      failed();
      return { notBeforeMs: retryAfterMs };
    },
  });
}

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 15_000, attempts: 10 };
