import { describe, expect, test } from 'vitest';
import { outcome, perform, quantile } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';

/** What holds; the others are told by `npm run runs`. */
const HELD = new Set([1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

describe('a run of the whole program, with real servers of tools', () => {
  const held = SCENARIOS.filter(({ id }) => HELD.has(id)).map(
    (scenario) => [scenario.id, scenario.name, scenario] as const,
  );
  test.for(held)('is accepted by row %i: %s', { timeout: 300_000 }, async ([, , scenario]) => {
    const { measured, wanted, ok } = await perform(scenario, 'short');
    expect(measured).toMatchObject(ok ? {} : wanted);
  });
});

describe('a program that is killed between a request and its result', () => {
  test(
    'does nothing twice, loses nothing, asks nothing again, and says of what nobody knows the outcome',
    { timeout: 300_000 },
    async () => {
      const killed = SCENARIOS.find(({ id }) => id === 7)!;
      const { measured } = await perform(killed, 'short');
      expect(measured).toMatchObject({ lost: 0, doubled: 0, unknownUnmarked: 0, askedAgain: 0, momentsMissed: 0 });
    },
  );
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
  ])('of %j is in order: %s', (measured, ok) => {
    expect(outcome(measured, wanted).ok).toBe(ok);
  });

  test('that breaks off is not in order, and a short one is not held to times', async () => {
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

  test('has the middle of its numbers, and the one that few exceed', () => {
    expect([quantile([3, 1, 2]), quantile([...Array(100).keys()], 0.95), quantile([])]).toEqual([2, 95, NaN]);
  });
});
