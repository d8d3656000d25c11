import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SignalScanner } from '../../../src/turns/text/recognition.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const SIGNAL = 'TURN_COMPLETE';
/** Scans a complete output. */
const scanWhole = (text: string, signal: string) => {
  const scanner = new SignalScanner(signal);
  const shown = scanner.push(text);
  const end = scanner.end();
  return { ...end, text: shown + end.text };
};
const whole = (text: string) => scanWhole(text, SIGNAL);
const ended = (text: string, argument: string | null = null) => ({ text, signalled: true, argument });
const plain = (text: string) => ({ text, signalled: false, argument: null });

describe('an output that ends with the signal', () => {
  test('is shown without it', () => {
    expect(whole('All done.\nTURN_COMPLETE')).toEqual(ended('All done.'));
  });

  test('may have white space around the signal', () => {
    expect(whole('All done. \n\n  TURN_COMPLETE \r\n\n')).toEqual(ended('All done.'));
  });

  test('may have the signal as the last word of its last line', () => {
    expect(whole('I am done. TURN_COMPLETE')).toEqual(ended('I am done.'));
  });

  test('may consist of the signal alone', () => {
    expect(whole('TURN_COMPLETE')).toEqual(ended(''));
    expect(whole('\n TURN_COMPLETE\n')).toEqual(ended(''));
  });

  test('hands over to the agent named after the signal', () => {
    expect(whole('Please check.\nTURN_COMPLETE @qa')).toEqual(ended('Please check.', 'qa'));
    expect(whole('Please check.\nTURN_COMPLETE qa-2\n')).toEqual(ended('Please check.', 'qa-2'));
    expect(whole('Please check. TURN_COMPLETE @qa')).toEqual(ended('Please check.', 'qa'));
  });

  test('may repeat the signal', () => {
    expect(whole('Done.\nTURN_COMPLETE\n\nTURN_COMPLETE')).toEqual(ended('Done.'));
    expect(whole('Done. TURN_COMPLETE @qa TURN_COMPLETE')).toEqual(ended('Done.', 'qa'));
    expect(whole('TURN_COMPLETE TURN_COMPLETE')).toEqual(ended(''));
  });

  test('may have the signal after code, a quote and inline code', () => {
    expect(whole('```ts\na\n```\nTURN_COMPLETE')).toEqual(ended('```ts\na\n```'));
    expect(whole('See ```a``` and `b` TURN_COMPLETE')).toEqual(ended('See ```a``` and `b`'));
    expect(whole('> Say TURN_COMPLETE\nTURN_COMPLETE')).toEqual(ended('> Say TURN_COMPLETE'));
  });

  test('may mention the signal earlier', () => {
    expect(whole('I say TURN_COMPLETE at the end.\nTURN_COMPLETE')).toEqual(ended('I say TURN_COMPLETE at the end.'));
  });

  test('may have another configured signal', () => {
    expect(scanWhole('Done.\n[END]', '[END]')).toEqual(ended('Done.'));
    expect(scanWhole('Done. >>>', '>>>')).toEqual(ended('Done.'));
    expect(whole('Done.\n[END]')).toEqual(plain('Done.\n[END]'));
  });
});

describe('an output in which the signal is only text', () => {
  test.each([
    'TURN_COMPLETE is what I say at the end.',
    'TURN_COMPLETE\nOne more thing.',
    'We print TURN_COMPLETE later',
  ])('has it in the middle: %j', (text) => {
    expect(whole(text)).toEqual(plain(text));
  });

  test.each(['done.TURN_COMPLETE', 'TURN_COMPLETE.', 'TURN_COMPLETED', 'turn_complete', 'TURN_'])(
    'has it inside a word, or in another case: %j',
    (text) => {
      expect(whole(text)).toEqual(plain(text));
    },
  );

  test.each([
    'Code:\n```\nprint\nTURN_COMPLETE\n```',
    'Code:\n```\nprint\nTURN_COMPLETE',
    '~~~~\n```\n~~~\nTURN_COMPLETE\n',
    '````md\n```\nTURN_COMPLETE',
    '```\n    ```\nTURN_COMPLETE',
    '- step\n  ```sh\n  run\nTURN_COMPLETE',
    'Here: ```\nTURN_COMPLETE',
    '``` TURN_COMPLETE',
  ])('has it in a code fence, closed or not (scenario Q): %j', (text) => {
    expect(whole(text)).toEqual(plain(text));
  });

  test.each(['End with `TURN_COMPLETE`', '> TURN_COMPLETE', 'He wrote:\n  > I am done. TURN_COMPLETE\n'])(
    'has it in inline code or in a quote: %j',
    (text) => {
      expect(whole(text)).toEqual(plain(text));
    },
  );
});

describe('a stream', () => {
  test('never shows a part of the signal', () => {
    const scanner = new SignalScanner(SIGNAL);
    expect([scanner.push('Done.\nTURN_'), scanner.push('COMPLETE'), scanner.push('\n')]).toEqual(['Done.', '', '']);
    expect(scanner.end()).toEqual(ended(''));
  });

  test('holds back only white space and a possible start of the signal', () => {
    const scanner = new SignalScanner(SIGNAL);
    const shown = ['He', 'llo ', 'T', 'om', ', TU', 'RN left', '\n', 'on'].map((chunk) => scanner.push(chunk));
    expect(shown).toEqual(['He', 'llo', '', ' Tom', ',', ' TURN left', '', '\non']);
    expect(scanner.end()).toEqual(plain(''));
  });

  test('reads the agent to hand over to from the same line only', () => {
    const scanner = new SignalScanner(SIGNAL);
    expect(scanner.push('TURN_COMPLETE\n')).toBe('');
    expect(scanner.push('@d')).toBe('TURN_COMPLETE\n@d');
    expect(scanner.end()).toEqual(plain(''));
  });

  test('shows the text held back when the output ends without a signal', () => {
    const scanner = new SignalScanner(SIGNAL);
    expect(scanner.push('```\nTURN_COMPLETE')).toBe('```');
    expect(scanner.end()).toEqual(plain('\nTURN_COMPLETE'));
  });

  test('refuses a signal that is not one word', () => {
    expect(() => new SignalScanner('TURN COMPLETE')).toThrow('Expected `signal` to be one word');
  });
});

describe('any output', () => {
  const text = fc
    .array(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.constantFrom(SIGNAL, 'TURN_', ' ', '\n', '\r\n', '```', '~~~\n', '`', '> ', '@dev', 'dev', 'word. ', '\t'),
      ),
      { size: 'max', maxLength: 40 },
    )
    .map((pieces) => pieces.join(''));

  const stream = (output: string, cuts: readonly number[]) => {
    const scanner = new SignalScanner(SIGNAL);
    const places = [...cuts.map((cut) => cut % (output.length + 1)), output.length].sort((a, b) => a - b);
    const shown = places.map((place, index) => scanner.push(output.slice(places[index - 1] ?? 0, place)));
    return { shown, end: scanner.end() };
  };

  test('gives the same result for every split into pieces', () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(), { size: 'max', maxLength: 60 }), (output, cuts) => {
        const { shown, end } = stream(output, cuts);
        assert.deepEqual({ ...end, text: shown.join('') + end.text }, whole(output));
      }),
      { numRuns: 500 },
    );
  });

  test('shows a start of the output: all of it except the final signal', () => {
    fc.assert(
      fc.property(text, (output) => {
        const { text: shown, signalled } = whole(output);
        assert(output.startsWith(shown));
        if (!signalled) assert.equal(shown, output);
      }),
      { numRuns: 500 },
    );
  });

  test('never shows the final signal or a part of it', () => {
    const calm = text.filter((output) => !/[`~>]/.test(output) && !output.includes('TURN_'));
    fc.assert(
      fc.property(calm, fc.constantFrom('', ' @dev', '\n', ' \n\n'), fc.array(fc.nat()), (output, tail, cuts) => {
        const { shown, end } = stream(`${output}\n${SIGNAL}${tail}`, cuts);
        assert.equal(end.signalled, true);
        assert.equal(shown.join('') + end.text, output.trimEnd());
        assert(shown.every((_, index) => output.startsWith(shown.slice(0, index + 1).join(''))));
      }),
    );
  });

  test.each([`${SIGNAL} `, 'TURN_', ' ', 'x', '\n', '```\n', '` '])(
    'is read in time linear in its length, in one piece or in many: %j',
    async (piece) => {
      await mustGrowLinearly((size) => {
        const output = piece.repeat(size / piece.length);
        const cuts = Array.from({ length: size / 10 }, (_, index) => index * 10);
        return () => [whole(output), stream(output, cuts)];
      }, 300_000);
    },
  );
});
