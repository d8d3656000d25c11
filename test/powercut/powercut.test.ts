import { describe, expect, test } from 'vitest';
import { powerCuts } from './cuts.ts';
import { canRecord } from './recording.ts';

const PLAN = { rounds: 30, seed: 7 };

describe.skipIf(!canRecord())('a power cut at any place of a recorded life', () => {
  test('loses nothing that was answered, and leaves an intact file', { timeout: 120_000 }, async () => {
    const { cuts, syncs, told, faults } = await powerCuts({ ...PLAN, cuts: 30, how: 'shipped' });
    expect([cuts, syncs > 100, told > 100]).toEqual([30, true, true]);
    expect(faults).toEqual([]);
  });

  test('loses answers of a store that answers before its sync: the check finds it', { timeout: 120_000 }, async () => {
    const { faults } = await powerCuts({ ...PLAN, cuts: 10, how: 'hasty' });
    expect(faults.length).toBeGreaterThan(5);
  });
});
