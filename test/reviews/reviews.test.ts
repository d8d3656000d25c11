import { expect, test } from 'vitest';
import { COURSES } from './courses.ts';
import { disturbedAtEveryFact, killedAtEveryFact, perform, stoppedByPerson, writtenTo } from './perform.ts';

const SHORT = new Set([
  'a finding that would undo the last change',
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

test('a review whose program is killed ends as without the kill, and repeats at most one turn', async () => {
  const course = COURSES.find(({ name }) => name === 'passes in the second iteration');
  if (course === undefined) throw new Error('there is no such course');
  const continued = await killedAtEveryFact(course, 6);
  expect(continued.length).toBeGreaterThan(3);
  expect(continued.filter(({ ended, repeated }) => ended !== course.ends || repeated > 1)).toEqual([]);
});

test.each([
  ['stopped by a person is cancelled, and leaves room for the next one', stoppedByPerson, 'cancelled, then passed'],
  ['met by a message ends as it would have, and an agent gets the message', writtenTo, 'passed'],
])('a review that is %s, at any fact', async (_what, disturb, ends) => {
  const course = COURSES.find(({ name }) => name === 'passes in the second iteration');
  if (course === undefined) throw new Error('there is no such course');
  const disturbed = await disturbedAtEveryFact(course, disturb, 6);
  expect(disturbed.length).toBeGreaterThan(3);
  expect(disturbed.filter(({ ended }) => ended !== ends)).toEqual([]);
});
