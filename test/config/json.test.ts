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
  const spoilt = (pieces: readonly string[]) =>
    fc
      .tuple(fc.jsonValue({ maxDepth: 3 }), fc.nat(), fc.nat({ max: 2 }), fc.constantFrom(...pieces))
      .map(([value, at, cut, piece]) => {
        const text = JSON.stringify(value, null, 1);
        const place = at % (text.length + 1);
        return text.slice(0, place) + piece + text.slice(place + cut);
      });
  test('is accepted exactly when JSON.parse accepts it, apart from comments and trailing commas', () => {
    const pieces = '{ } [ ] , : " - 0 1.5e-3 . 5e 01 +1 null tru NaN \\ \\x \\u12aF \\u12'.split(' ');
    const others = ['', ' ', '\n', '\r', '\t', '\v', '\0', '\u{1}', '\u{7F}', '\u{A0}', '\u{2028}', '\u{FEFF}', 'é😀'];
    fc.assert(
      fc.property(spoilt([...pieces, ...others]), (text) => {
        fc.pre(!/,\s*[}\]]/.test(text) && !/^\u{FEFF}|\//u.test(text));
        assert.equal(readJson(text).ok, parses(text), JSON.stringify(text));
      }),
      { numRuns: 5_000 },
    );
  });
  test('may have comments, and a comma after its last key or element', () => {
    const reading = readJson('// why\n{\n "a": [1, /* one */ 2,], // two\n "b": "//c,}",\n}\n/* end */');
    assert.ok(reading.ok);
    expect(reading.value).toEqual({ a: [1, 2], b: '//c,}' });
    expect([['a', 1], ['b']].map(reading.lineOf)).toEqual([3, 4]);
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
  test('has a line for every path; an unknown path has the line of its nearest known parent', () => {
    const reading = readJson('\n{\n "a": [\n  1,\n  { "b":\n 2 }\n ]\n}');
    assert.ok(reading.ok);
    const lines = [[], ['a'], ['a', 0], ['a', 1], ['a', 1, 'b'], ['a', 1, 'c'], ['z']].map(reading.lineOf);
    expect(lines).toEqual([2, 3, 4, 5, 5, 5, 2]);
  });
  test('may hold a text of a million characters', () => {
    expect(readJson(JSON.stringify(['\\"é'.repeat(300_000)])).ok).toBe(true);
  });
});
