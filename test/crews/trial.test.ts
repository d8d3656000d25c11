import { expect, test } from 'vitest';
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
};

test('four workers merge twelve tickets, each once, and change nothing else', { timeout: 300_000 }, async () => {
  const { measured } = await performTrial({ workers: 4 });
  expect(measured).toMatchObject(IN_ORDER);
});

test('a program that is killed twice in the middle merges each ticket once', { timeout: 300_000 }, async () => {
  const { measured } = await performTrial({ workers: 2, kills: [61, 90] });
  expect(measured).toMatchObject(IN_ORDER);
});
