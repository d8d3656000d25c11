import { describe, expect, test } from 'vitest';
import { reviewMachine } from '../../../src/work/reviews/review-machine.ts';
import { searchReviews } from './search.ts';

describe('every order of commands', () => {
  test.each([
    ['until a signal', {}],
    ['until the review', { until: 'review', onFail: 'revise' }],
    ['until both agree', { until: 'consensus', patience: 1 }],
  ] as const)('breaks no promise: %s', (_name, settings) => {
    const { found, transitions } = searchReviews(reviewMachine, settings, 15);
    expect(found).toEqual([]);
    expect(transitions).toBeGreaterThan(10_000);
  });
});
