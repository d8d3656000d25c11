import { expect, test } from 'vitest';
import { mustGrowLinearly } from './growth.ts';

const spaces = (size: number): string => `${' '.repeat(size)}.`;

test('work that grows as its input does is let pass', async () => {
  await mustGrowLinearly((size) => () => spaces(size).trimEnd().length, 400_000);
});

test('work that grows with the square of its input is told', async () => {
  const backtracks = mustGrowLinearly((size) => () => /\s+$/.test(spaces(size)), 16_000);
  await expect(backtracks).rejects.toThrow(/^one input costs \d+\.\d times as much as 16 that are as long together$/);
});
