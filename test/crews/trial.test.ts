import { expect, test } from 'vitest';
import { COURSES, MISBEHAVIOUR, MISBEHAVIOUR_OF_PEERS, wrongCourses } from './courses.ts';
import { performTrial } from './trial.ts';

const IN_ORDER = {
  onMainOnce: 12,
  redCommitsOnMain: 0,
  closedWithoutCommit: 0,
  mergedButOpen: 0,
  givenTwice: 0,
  controlsStarted: 0,
  startedBeforeDependency: 0,
  copyChanged: [],
  canaryFound: 0,
  leftOver: [],
  redAlone: 0,
};

test(
  'four workers merge twelve tickets, each once, and change nothing else, even when Conch is killed twice',
  { timeout: 300_000 },
  async () => {
    const { measured } = await performTrial({ workers: 4, kills: [61, 90] });
    expect(measured).toMatchObject(IN_ORDER);
  },
);

test('every course but "works" is in a script for programs or for agents over ACP', () => {
  const tried = new Set<string>([...Object.values(MISBEHAVIOUR), ...Object.values(MISBEHAVIOUR_OF_PEERS)]);
  expect(Object.keys(COURSES).filter((name) => !tried.has(name))).toEqual(['works']);
});

test('names the tickets that differ from their courses', () => {
  const facts = new Map([['t-01', [{ type: 'stepAsked', kind: 'init' }, { type: 'merged' }]]]);
  expect(wrongCourses({ 't-01': 'prose' }, facts)).toEqual(['t-01 prose: stepAsked step 0 times instead of 1']);
  expect(wrongCourses({ 't-01': 'works' }, facts)).toEqual([]);
});
