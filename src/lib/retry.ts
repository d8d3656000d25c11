import type { Timers } from './time.ts';

/** Exponential backoff: the first wait is `firstMs`, each next one twice as long, up to `longestMs`. */
export type RetryPolicy = {
  readonly firstMs: number;
  readonly longestMs: number;
  /** The most attempts; without it there is no limit. */
  readonly attempts?: number;
};

/** Timers, and a signal that ends the wait. */
export type WaitPorts = { readonly timers: Timers; readonly signal?: AbortSignal };

type Failure = {
  readonly error: unknown;
  /** Failed attempts so far, including this one. */
  readonly failures: number;
  /** The wait before the next attempt, in milliseconds. For `judge`: the policy's wait. */
  readonly waitMs: number;
};

/**
 * What to do after a failure: `again` after the policy's wait, or `give-up`. `notBeforeMs`: again after at least this
 * many milliseconds, but never before the end of the policy's wait.
 */
export type Verdict = 'again' | 'give-up' | { readonly notBeforeMs: number };

type RetryPorts = WaitPorts & {
  /** Judges a failure. Default: `again`. An error thrown here replaces the failure and ends the work. */
  readonly judge?: (failure: Failure) => Verdict;
  /** Called before each wait, with its length. */
  readonly waiting?: (failure: Failure) => void;
};

/** The policy's wait after this many failures in a row, in milliseconds; 0 after none. */
export function backoffMs({ firstMs, longestMs }: RetryPolicy, failures: number): number {
  return failures < 1 ? 0 : Math.min(firstMs * 2 ** (failures - 1), longestMs);
}

/**
 * Repeats work until it succeeds, `judge` gives up, the attempts are used up, or the signal aborts. Rejects with the
 * last failure, the signal's reason, or an error of `judge` or `waiting`.
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

/** Resolves after this many milliseconds. Rejects with the signal's reason if it aborts first. */
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

/** What `withinMs` resolves with when the time is over. */
export const LATE: unique symbol = Symbol('late');

/**
 * Resolves with the result of the work, or with `LATE` after this many milliseconds. Rejects when the work fails
 * earlier. The work is not stopped.
 */
export async function withinMs<T>(ms: number, work: Promise<T>, timers: Timers): Promise<T | typeof LATE> {
  const late = Promise.withResolvers<typeof LATE>();
  const timer = timers.after(ms, () => late.resolve(LATE));
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    timer.cancel();
  }
}

/**
 * Returns the wait that a text asks for, such as "try again in 523ms" or "retry after 6m0s", in milliseconds; `null`
 * for none. Other times in the text do not count.
 */
export function waitIn(text: string): number | null {
  const [, wait] = WAIT.exec(text) ?? [];
  if (wait === undefined) return null;
  const parts = [...wait.matchAll(/([\d.]+) ?([a-z]+)/gi)].map(([, amount, name = '']) => {
    const unit = /^m(?:s|illi)/i.test(name) ? 'ms' : name.slice(0, 1).toLowerCase();
    return Number(amount) * (UNITS[unit] ?? SECOND_MS);
  });
  return Math.ceil(parts.reduce((total, ms) => total + ms, 0));
}

const SECOND_MS = 1_000;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND_MS, m: 60 * SECOND_MS, h: 3_600 * SECOND_MS };
const UNIT = '(?:ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?)(?![a-z])';
const WAIT = new RegExp(
  `(?:try again|retry|resets?|wait|available)[^\\d\\n]{0,20}((?:\\d{1,6}(?:\\.\\d{1,12})? ?${UNIT} ?)+)`,
  'i',
);
