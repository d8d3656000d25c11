import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readJson } from '../../src/config/json.ts';

const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

describe('a JSON text', () => {
  test('is accepted exactly when JSON.parse accepts it', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '"\\u12aF"',
      '"\\x"',
      '-',
      '0',
      '1.5e-3',
      '.',
      'null',
      'true',
      ' ',
      '\n',
      '\u{7F}',
      '"\u{1}"',
      '"é😀"',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8, size: 'max' }), (pieces) => {
        const text = pieces.join('');
        assert.equal(readJson(text).ok, parses(text), JSON.stringify(text));
      }),
      { numRuns: 5_000 },
    );
  });
  test('gives the value that JSON.parse gives', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const reading = readJson(JSON.stringify(value, null, 1));
        assert.ok(reading.ok);
        assert.equal(JSON.stringify(reading.value), JSON.stringify(value));
      }),
    );
  });
  test('knows the line of every path, and of the nearest one there is', () => {
    const reading = readJson('\n{\n "a": [\n  1,\n  { "b":\n 2 }\n ]\n}');
    assert.ok(reading.ok);
    const lines = [[], ['a'], ['a', 0], ['a', 1], ['a', 1, 'b'], ['a', 1, 'c'], ['z']].map(reading.lineOf);
    expect(lines).toEqual([2, 3, 4, 5, 5, 5, 2]);
  });
  test('may hold a text of a million characters', () => {
    expect(readJson(JSON.stringify(['\\"é'.repeat(300_000)])).ok).toBe(true);
  });
});
