import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { splitText } from '../../../src/turns/text/split.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const bare = (text: string): string => text.replaceAll(/\s/gu, '');
const letters = (text: string): string[] =>
  [...new Intl.Segmenter('en').segment(text)].map((each) => each.segment).filter((letter) => letter.trim() !== '');
const withoutFences = (parts: readonly string[]): string => bare(parts.join('\n').replaceAll(/[`~]|z/g, ''));

describe('a text that fits', () => {
  test('is unchanged', () => {
    expect(splitText('  a\n\n', 5)).toEqual(['  a\n\n']);
    expect(splitText('x'.repeat(2_000), 2_000)).toHaveLength(1);
  });

  test('has no parts when it is empty or blank', () => {
    expect(splitText('', 100)).toEqual([]);
    expect(splitText(' \n\t\u00A0\n', 2)).toEqual([]);
  });
});

describe('a text that is too long', () => {
  test('is cut at the end of a paragraph before the end of a line', () => {
    expect(splitText('one\ntwo\n\nthree\nfour and more', 20)).toEqual(['one\ntwo', 'three\nfour and more']);
  });

  test('is cut at the end of a line before the end of a sentence', () => {
    expect(splitText('A b. C d\nE f. G h, i', 16)).toEqual(['A b. C d', 'E f. G h, i']);
  });

  test('is cut at the end of a sentence before the end of a word', () => {
    expect(splitText('It works. Then it does not any more.', 24)).toEqual([
      'It works.',
      'Then it does not any',
      'more.',
    ]);
    expect(splitText('Is it "so?" I do not know that', 24)).toEqual(['Is it "so?"', 'I do not know that']);
  });

  test('is cut between words when there is no sentence', () => {
    expect(splitText('alpha beta gamma', 12)).toEqual(['alpha beta', 'gamma']);
  });

  test('keeps the indent of the line after a cut', () => {
    expect(splitText('- one of two\n  - nested', 14)).toEqual(['- one of two', '  - nested']);
  });

  test('is cut inside a word when there is no space', () => {
    expect(splitText('abcdefgh', 3)).toEqual(['abc', 'def', 'gh']);
  });

  test('does not waste a part on a short line before a long one', () => {
    const parts = splitText(`Yes\n${'word '.repeat(30)}`, 100);
    expect(parts).toHaveLength(2);
    expect(parts[0]).toMatch(/^Yes\nword/);
  });

  test('is never cut inside a surrogate pair or a joined emoji', () => {
    expect(splitText('😀😀😀', 3)).toEqual(['😀', '😀', '😀']);
    const family = '👩‍👩‍👧‍👦';
    expect(splitText(family.repeat(3), family.length + 5)).toEqual([family, family, family]);
    expect(splitText('e\u0301e\u0301e\u0301', 3)).toEqual(['e\u0301', 'e\u0301', 'e\u0301']);
  });

  test('is cut between code points in a character longer than a part', () => {
    expect(splitText(`a${'\u0301'.repeat(5)}`, 4)).toEqual(['a\u0301\u0301\u0301', '\u0301\u0301']);
    expect(splitText('👩‍👩‍👧', 3)).toEqual(['👩\u200D', '👩\u200D', '👧']);
  });
});

describe('a code fence', () => {
  const code = Array.from({ length: 6 }, (_, index) => `line ${index};`).join('\n');

  test('moves to the next part when it fits there', () => {
    const text = `Here is what I would do first.\n\`\`\`ts\n${code}\n\`\`\``;
    expect(splitText(text, 70)).toEqual(['Here is what I would do first.', `\`\`\`ts\n${code}\n\`\`\``]);
  });

  test('ends a paragraph', () => {
    expect(splitText('```\na = b\n```\nThat is it.\nOne more line.', 36)).toEqual([
      '```\na = b\n```',
      'That is it.\nOne more line.',
    ]);
  });

  test('is closed, and opened again with its language, when it must be cut', () => {
    expect(splitText(`\`\`\`ts\n${code}\n\`\`\``, 40)).toEqual([
      '```ts\nline 0;\nline 1;\nline 2;\n```',
      '```ts\nline 3;\nline 4;\nline 5;\n```',
    ]);
  });

  test('keeps blank lines and indents of its code at a cut', () => {
    expect(splitText('~~~py\nif a:\n    b()\n\n    c()\nd()\nlonger()\n~~~', 31)).toEqual([
      '~~~py\nif a:\n    b()\n\n~~~',
      '~~~py\n    c()\nd()\nlonger()\n~~~',
    ]);
  });

  test('is cut inside a line that is longer than a part', () => {
    const parts = splitText(`\`\`\`\n${'x'.repeat(100)}\n\`\`\``, 40);
    expect(parts.every((part) => part.length <= 40 && part.startsWith('```\n') && part.endsWith('\n```'))).toBe(true);
    expect(withoutFences(parts)).toBe('x'.repeat(100));
  });

  test('of four marks is not closed by three', () => {
    const parts = splitText(`\`\`\`\`md\n\`\`\`\n${'text\n'.repeat(12)}\`\`\`\n\`\`\`\``, 40);
    expect(parts.every((part) => part.startsWith('````md\n') && part.endsWith('\n````'))).toBe(true);
  });

  test('whose marks would fill a part is cut like text', () => {
    const parts = splitText(`${'`'.repeat(30)}\n${code}`, 20);
    expect(parts.every((part) => part.length <= 20)).toBe(true);
    expect(bare(parts.join(''))).toBe(bare(`${'`'.repeat(30)}\n${code}`));
  });
});

describe('any text', () => {
  const prose = fc
    .array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(' ', '\n', '\n\n', '. ', '\r\n', '👩‍👩‍👧', '  - ')), {
      size: 'max',
      maxLength: 60,
    })
    .map((pieces) => pieces.join('').replaceAll(/[`~]/g, ''));
  const mixed = fc
    .array(
      fc.constantFrom(
        'word',
        ' ',
        '\n',
        '\n\n',
        '```z\n',
        '```\n',
        '~~~\n',
        'x = `y`;\n',
        'A sentence. ',
        'long'.repeat(9),
      ),
      { size: 'max', maxLength: 80 },
    )
    .map((pieces) => pieces.join(''));

  test('loses only white space, and no part is too long or blank', () => {
    fc.assert(
      fc.property(prose, fc.integer({ min: 2, max: 80 }), (text, limit) => {
        const parts = splitText(text, limit);
        assert.equal(bare(parts.join('')), bare(text));
        assert(parts.every((part) => part.length <= limit && part.trim() !== ''));
      }),
    );
  });

  test('keeps its characters complete', () => {
    fc.assert(
      fc.property(prose, fc.integer({ min: 60, max: 120 }), (text, limit) => {
        fc.pre(letters(text).every((letter) => letter.length < 30));
        assert.deepEqual(splitText(text, limit).flatMap(letters), letters(text));
      }),
    );
  });

  test('with code loses only white space and fences', () => {
    fc.assert(
      fc.property(mixed, fc.integer({ min: 24, max: 90 }), (text, limit) => {
        const parts = splitText(text, limit);
        assert.equal(withoutFences(parts), withoutFences([text]));
        assert(parts.every((part) => part.length <= limit));
      }),
    );
  });

  test.each(['word ', 'x', '\n', '😀', 'a.', '```\n', 'line of text\n', ' `'])(
    'is cut in time linear in its length: %j',
    async (piece) => {
      await mustGrowLinearly((size) => {
        const text = `${piece.repeat(size / piece.length)}.`;
        return () => splitText(text, 2_000);
      }, 1_000_000);
    },
  );

  test('is refused for an invalid limit', () => {
    expect(() => splitText('text', 1)).toThrow('Expected `limit` to be a whole number from 2 up, got 1');
    expect(() => splitText('text', 2.5)).toThrow('got 2.5');
  });
});
