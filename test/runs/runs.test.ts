import { describe, expect, test } from 'vitest';
import { outcome, perform, quantile } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';

/** Rows that must pass here. Row 7 has its own test below. `npm run runs` runs all rows. */
const HELD = new Set([1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

describe('the whole program with real tool servers', () => {
  const held = SCENARIOS.filter(({ id }) => HELD.has(id)).map(
    (scenario) => [scenario.id, scenario.name, scenario] as const,
  );
  test.for(held)('passes row %i of the acceptance: %s', { timeout: 300_000 }, async ([, , scenario]) => {
    const { measured, wanted, ok } = await perform(scenario, 'short');
    expect(measured).toMatchObject(ok ? {} : wanted);
  });
});

describe('a program that is killed between a request and its result', () => {
  test('does and asks nothing twice, loses nothing, and marks each unknown outcome', { timeout: 300_000 }, async () => {
    const killed = SCENARIOS.find(({ id }) => id === 7)!;
    const { measured } = await perform(killed, 'short');
    expect(measured).toMatchObject({ lost: 0, doubled: 0, unknownUnmarked: 0, askedAgain: 0, momentsMissed: 0 });
  });
});

describe('an outcome', () => {
  const wanted = { written: 1, cards: { atMost: 2 }, tookMs: { below: 15 } };
  test.each([
    [{ written: 1, cards: 2, tookMs: 14.9 }, true],
    [{ written: 2, cards: 2, tookMs: 1 }, false],
    [{ written: 1, cards: 3, tookMs: 1 }, false],
    [{ written: 1, cards: 2, tookMs: 15 }, false],
    [{ written: 1, cards: 2 }, false],
    [{ written: 1, cards: 2, tookMs: NaN }, false],
  ])('of %j is ok: %s', (measured, ok) => {
    expect(outcome(measured, wanted).ok).toBe(ok);
  });

  test('is not ok when a scenario throws, and ignores times in a short run', async () => {
    const scenario = { id: 0, name: 'nothing' };
    const breaks = async () => Promise.reject(new Error('no such file'));
    expect(await perform({ ...scenario, run: breaks }, 'full')).toMatchObject({
      measured: { brokeOff: 'no such file' },
      ok: false,
    });
    const slow = async () => outcome({ written: 1, cards: 0, tookMs: 99 }, wanted);
    expect((await perform({ ...scenario, run: slow }, 'full')).ok).toBe(false);
    expect((await perform({ ...scenario, run: slow }, 'short')).ok).toBe(true);
  });

  test('takes the median and a quantile of numbers', () => {
    expect([quantile([3, 1, 2]), quantile([...Array(100).keys()], 0.95), quantile([])]).toEqual([2, 95, NaN]);
  });
});
