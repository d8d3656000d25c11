import { expect, test } from 'vitest';
import { COURSES } from './courses.ts';
import { killedAtEveryFact, perform } from './perform.ts';

const SHORT = new Set([
  'passes in the second iteration',
  'prose with the word PASS',
  'the work changes while it is reviewed',
  'a dispute twice',
  'a limit',
]);

test.concurrent.each(COURSES.filter(({ name }) => SHORT.has(name)))(
  'a review ends as expected: $name',
  async (course) => {
    const { ended, isAsExpected } = await perform(course);
    expect([ended, isAsExpected]).toEqual([course.ends, true]);
  },
);

test('a review that is killed on its way ends as it would have, and repeats at most one turn', async () => {
  const course = COURSES.find(({ name }) => name === 'passes in the second iteration');
  if (course === undefined) throw new Error('there is no such course');
  const continued = await killedAtEveryFact(course, 6);
  expect(continued.length).toBeGreaterThan(3);
  expect(continued.filter(({ ended, repeated }) => ended !== course.ends || repeated > 1)).toEqual([]);
});
