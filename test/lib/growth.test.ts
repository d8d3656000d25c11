import { expect, test } from 'vitest';
import { mustGrowLinearly } from './growth.ts';

const spaces = (size: number): string => `${' '.repeat(size)}.`;

test('mustGrowLinearly passes work whose time grows linearly with its input', async () => {
  await mustGrowLinearly((size) => () => spaces(size).trimEnd().length, 400_000);
});

test('mustGrowLinearly fails work whose time grows with the square of its input', async () => {
  const backtracks = mustGrowLinearly((size) => () => /\s+$/.test(spaces(size)), 16_000);
  await expect(backtracks).rejects.toThrow(/^one input costs \d+\.\d times as much as 16 that are as long together$/);
});
