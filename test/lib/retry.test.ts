import { describe, expect, test } from 'vitest';
import { backoffMs, delay, retry } from '../../src/lib/retry.ts';
import type { Verdict } from '../../src/lib/retry.ts';
import type { Timers } from '../../src/lib/time.ts';

const POLICY = { firstMs: 250, longestMs: 5_000 };

/** Timers that fire at once and record their durations. */
function hurried(): { readonly timers: Timers; readonly waits: number[] } {
  const waits: number[] = [];
  const timers: Timers = {
    after(ms, run) {
      waits.push(ms);
      queueMicrotask(run);
      return { cancel: () => undefined };
    },
  };
  return { timers, waits };
}

/** Timers that never fire. `set` returns how many timers are active. */
function frozen(): { readonly timers: Timers; readonly set: () => number } {
  let set = 0;
  const after = (): { cancel(): void } => {
    set += 1;
    return { cancel: () => void (set -= 1) };
  };
  return { timers: { after }, set: () => set };
}

/** Work that fails this many times and then succeeds. */
function failing(times: number): () => Promise<string> {
  let calls = 0;
  return async () => {
    calls += 1;
    if (calls <= times) throw new Error(`failure ${calls}`);
    return `done at attempt ${calls}`;
  };
}

describe('work that fails', () => {
  test('is retried after waits that double up to the longest', async () => {
    const { timers, waits } = hurried();
    await expect(retry(failing(7), POLICY, { timers })).resolves.toBe('done at attempt 8');
    expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
  });

  test('rejects with its last failure when the attempts are used up', async () => {
    const { timers, waits } = hurried();
    await expect(retry(failing(9), { ...POLICY, attempts: 3 }, { timers })).rejects.toThrow('failure 3');
    expect(waits).toEqual([250, 500]);
  });

  test('is given up at once when the judge says so', async () => {
    const { timers, waits } = hurried();
    const judge = ({ failures }: { readonly failures: number }): Verdict => (failures === 2 ? 'give-up' : 'again');
    await expect(retry(failing(9), POLICY, { timers, judge })).rejects.toThrow('failure 2');
    expect(waits).toEqual([250]);
  });

  test('is retried after the wait that the judge asks for, but never earlier than by the policy', async () => {
    const { timers, waits } = hurried();
    const judge = ({ failures }: { readonly failures: number }): Verdict => ({
      notBeforeMs: failures === 1 ? 9_000 : 1,
    });
    await retry(failing(2), POLICY, { timers, judge });
    expect(waits).toEqual([9_000, 500]);
  });

  test('reports each wait before it begins', async () => {
    const told: unknown[] = [];
    await retry(failing(2), POLICY, {
      ...hurried(),
      waiting: ({ error, failures, waitMs }) => told.push([String(error), failures, waitMs]),
    });
    expect(told).toEqual([
      ['Error: failure 1', 1, 250],
      ['Error: failure 2', 2, 500],
    ]);
  });

  test('rejects with the reason of a signal that aborts during a wait, and leaves no timer', async () => {
    const { timers, set } = frozen();
    const ending = new AbortController();
    const done = retry(failing(1), POLICY, {
      timers,
      signal: ending.signal,
      waiting: () => queueMicrotask(() => ending.abort(new Error('stopped'))),
    });
    await expect(done).rejects.toThrow('stopped');
    expect(set()).toBe(0);
  });

  test('does not start when the signal has aborted before', async () => {
    let calls = 0;
    const work = async (): Promise<void> => void (calls += 1);
    await expect(retry(work, POLICY, { ...hurried(), signal: AbortSignal.abort() })).rejects.toThrow('aborted');
    expect(calls).toBe(0);
  });
});

describe('a backoff', () => {
  test('is 0 before the first failure, and then doubles up to the longest wait', () => {
    expect([0, 1, 2, 5, 6, 2_000].map((failures) => backoffMs(POLICY, failures))).toEqual([
      0, 250, 500, 4_000, 5_000, 5_000,
    ]);
  });
});

describe('a delay', () => {
  test('leaves no timer when its signal aborts', async () => {
    const { timers, set } = frozen();
    const ending = new AbortController();
    const over = delay(60_000, { timers, signal: ending.signal });
    expect(set()).toBe(1);
    ending.abort(new Error('enough'));
    await expect(over).rejects.toThrow('enough');
    expect(set()).toBe(0);
  });
});
