import type { Clock, Instant } from '../../lib/time.ts';

/** Platforms send an event again for about five minutes. */
const REMEMBERED_MS = 15 * 60_000;
const REMEMBERED = 50_000;

/** Does the same thing once, however often it is asked for. */
export type Deduplicator = {
  /**
   * Runs the work of a key, or waits for the run under way; done before, it resolves at once. What rejects counts as not done.
   */
  run(key: string, work: () => Promise<void>): Promise<void>;
  /** Whether a key comes for the first time; from now on it does not. */
  claim(key: string): boolean;
  /** Whether a key came before. */
  has(key: string): boolean;
};

/** Remembers keys for a quarter of an hour, and at most 50,000 of them. */
export function createDeduplicator(clock: Clock): Deduplicator {
  const runs = new Map<string, { readonly done: Promise<void>; readonly until: Instant }>();

  function forget(now: Instant): void {
    for (const [key, { until }] of runs) {
      if (until > now && runs.size <= REMEMBERED) return;
      runs.delete(key);
    }
  }

  function keep(key: string, done: Promise<void>): void {
    const now = clock.now();
    forget(now);
    runs.set(key, { done, until: now + REMEMBERED_MS });
  }

  return {
    async run(key, work) {
      const known = runs.get(key);
      if (known !== undefined) return known.done;
      const done = work();
      keep(key, done);
      try {
        await done;
      } catch (error) {
        runs.delete(key);
        throw error;
      }
    },
    claim(key) {
      if (runs.has(key)) return false;
      keep(key, Promise.resolve());
      return true;
    },
    has: (key) => runs.has(key),
  };
}
