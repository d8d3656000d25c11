import { describe, expect, test } from 'vitest';
import {
  answersIn,
  findingsIn,
  ownLines,
  signalOfPrimary,
  verdictOfReviewer,
} from '../../../src/turns/text/review-signals.ts';

const SIGNALS = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };

describe('the signal of the primary agent', () => {
  test.each([
    ['alone', 'DONE', 'done'],
    ['on the last line', 'It works.\nDONE', 'done'],
    ['before blank lines', 'It works.\n  DONE  \n\n', 'done'],
    ['that gives up', 'I cannot.\nFAIL', 'fail'],
  ])('counts %s', (_where, text, signal) => {
    expect(signalOfPrimary(ownLines(text), SIGNALS)).toEqual({ signal });
  });

  test.each([
    ['in a sentence', 'I am DONE soon'],
    ['as the last word of a line', 'All is DONE'],
    ['in other letters', 'done'],
    ['in a block of code', '```\nDONE\n```'],
    ['in a block of code that stays open', 'See:\n```\nDONE'],
    ['in a quote', 'You said:\n> DONE'],
    ['in inline code', '`DONE`'],
    ['that is the reviewer’s to give', 'PASS'],
    ['that is missing', 'It works.'],
  ])('does not count %s', (_where, text) => {
    expect(signalOfPrimary(ownLines(text), SIGNALS)).toEqual({ signal: null });
  });

  test('followed by more text is an error that the agent is told', () => {
    expect(signalOfPrimary(ownLines('DONE\nBut wait.'), SIGNALS)).toEqual({
      signal: null,
      broken: 'DONE is followed by more text',
    });
  });

  test('uses the words of the settings', () => {
    const signals = { ...SIGNALS, done: 'FERTIG' };
    expect(signalOfPrimary(ownLines('FERTIG'), signals)).toEqual({ signal: 'done' });
    expect(signalOfPrimary(ownLines('DONE'), signals)).toEqual({ signal: null });
  });
});

describe('the verdict of the reviewer', () => {
  test.each([
    ['PASS', 'pass'],
    ['Two things are left.\nREVISE', 'revise'],
    ['It cannot be mended.\nFAIL', 'fail'],
  ])('%j is a verdict', (text, signal) => {
    expect(verdictOfReviewer(ownLines(text), SIGNALS)).toEqual({ signal });
  });

  test.each([
    ['without one', 'Looks good to me.', /^no verdict: /],
    ['that only names one', 'I do not PASS this.', /^no verdict: /],
    ['with two', 'PASS\nFAIL', /^more than one signal: PASS, FAIL$/],
    ['with one in the middle', 'PASS\nThe rest is fine.', /^PASS is followed by more text$/],
    ['with the primary agent’s word', 'DONE', /^no verdict: /],
  ])('an answer %s is invalid', (_how, text, broken) => {
    expect(verdictOfReviewer(ownLines(text), SIGNALS)).toEqual({ signal: null, broken: expect.stringMatching(broken) });
  });
});

describe('a text with findings', () => {
  test.each([
    ['[major] src/a.ts:12 It breaks', { severity: 'major', file: 'src/a.ts', line: 12, title: 'It breaks' }],
    ['- [MINOR] README.md A name', { severity: 'minor', file: 'README.md', title: 'A name' }],
    ['F3 [blocker] It does not start', { id: 'F3', severity: 'blocker', title: 'It does not start' }],
  ])('has the finding in %j', (text, finding) => {
    expect(findingsIn(ownLines(`I looked.\n${text}\nREVISE`))).toEqual([finding]);
  });

  test('has no finding in code, in quotes and without a severity', () => {
    expect(findingsIn(ownLines('```\n[major] a.ts It breaks\n```\n> [major] a.ts x\n[grave] y'))).toEqual([]);
  });

  test('answers findings line by line', () => {
    expect(answersIn(ownLines('F1: fixed\n- f2: disputed: it is meant so\nF3 later'))).toEqual([
      { id: 'F1', answer: 'fixed' },
      { id: 'F2', answer: 'disputed', reason: 'it is meant so' },
    ]);
  });
});
