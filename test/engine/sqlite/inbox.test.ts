import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { sortKey } from '../../../src/engine/sqlite/inbox.ts';

test('numbers sort by value, at any length', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 80n }), fc.bigInt({ min: 0n, max: 2n ** 80n }), (a, b) => {
      expect(sortKey(String(a)) < sortKey(String(b))).toBe(a < b);
    }),
  );
});

test('leading zeros change nothing', () => {
  expect(sortKey('0012')).toBe(sortKey('12'));
  expect(sortKey('0')).toBe(sortKey('000'));
});

test('timestamps with a fraction sort by time', () => {
  const stamps = ['999.000200', '1712.000100', '1712.000200', '1712.100000'];
  expect(stamps.toReversed().toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))).toEqual(stamps);
});

test('any other key sorts as text, after the numbers', () => {
  const orders = ['12', '1.2.3', 'abc', 'b'];
  expect(orders.toReversed().toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))).toEqual(orders);
});
