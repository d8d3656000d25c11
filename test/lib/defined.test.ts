import { expect, test } from 'vitest';
import { defined } from '../../src/lib/defined.ts';

test('drops undefined fields and keeps the order of the others', () => {
  const fields = { b: 1, a: undefined as string | undefined, c: null, d: '' };
  expect(JSON.stringify(defined(fields))).toBe('{"b":1,"c":null,"d":""}');
  expect(Object.keys(defined(fields))).toEqual(['b', 'c', 'd']);
});
