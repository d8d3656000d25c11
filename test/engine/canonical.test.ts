import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonical } from '../../src/engine/canonical.ts';

test('equal values give equal bytes, in any order of keys', () => {
  expect(canonical({ b: 1, a: [{ d: null, c: 'x' }] })).toBe(canonical({ a: [{ c: 'x', d: null }], b: 1 }));
  expect(canonical({ b: 1, a: [true, 'x'] })).toBe('{"a":[true,"x"],"b":1}');
});

test('any JSON value is read back unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonical(value);
      expect(canonical(JSON.parse(text))).toBe(text);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('throws for a value that JSON cannot hold', () => {
  expect(() => canonical({ at: Number.NaN })).toThrow('impossible: a number');
  expect(() => canonical([() => 1])).toThrow('impossible: a function');
});

test('absent fields are left out', () => {
  expect(canonical({ a: undefined, b: 1 })).toBe('{"b":1}');
});
