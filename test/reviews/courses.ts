import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BackendError } from '../../src/agents/backends/backend.ts';
import type { Answers } from '../work/reviews/stage.ts';
import type { openStage } from '../work/reviews/stage.ts';

type Stage = Awaited<ReturnType<typeof openStage>>;

/** A scripted pair of agents, and the expected end of their review. */
export type Course = {
  readonly name: string;
  /**
   * The texts of the working agent and of the reviewer, one per turn. The last text is repeated. A text after "!" is
   * the reason why the agent's session ends without an answer.
   */
  readonly dev: readonly string[];
  readonly qa: readonly string[];
  /** The texts of a third agent. Without them it has no seat. */
  readonly ops?: readonly string[];
  /** The work of dev in each turn. Default: a new text in `work.txt`. `same`: no change. */
  readonly work?: 'same';
  readonly settings?: object;
  readonly iterations?: number;
  /** Called when the review waits for people. */
  readonly decide?: (stage: Stage) => Promise<unknown>;
  /** Called in the reviewer's first turn. */
  readonly during?: (folder: string) => void;
  readonly ends: string;
};

const FINDING = '[major] It breaks';

/** All courses. `ends`: the outcome or what the review waits for, and the number of iterations. */
export const COURSES: readonly Course[] = [
  { name: 'passes at once', dev: ['Done.'], qa: ['PASS'], ends: 'passed 1' },
  {
    name: 'passes in the second iteration',
    dev: ['One.', 'F1: fixed'],
    qa: [`${FINDING}\nREVISE`, 'PASS'],
    ends: 'passed 2',
  },
  { name: 'DONE ends it under "signal"', dev: ['It works.\nDONE'], qa: ['REVISE'], ends: 'passed 1' },
  {
    name: 'DONE is not enough under "review"',
    dev: ['It works.\nDONE'],
    qa: ['REVISE'],
    settings: { until: 'review' },
    iterations: 2,
    ends: 'limit 2',
  },
  {
    name: 'consensus needs both for the same work',
    dev: ['One.', 'Two.\nDONE'],
    qa: ['PASS', 'PASS'],
    settings: { until: 'consensus' },
    ends: 'passed 2',
  },
  { name: 'FAIL of the agent that works', dev: ['It cannot be done.\nFAIL'], qa: ['PASS'], ends: 'failed 1' },
  { name: 'FAIL without findings', dev: ['One.'], qa: ['Hopeless.\nFAIL'], ends: 'failed 1' },
  { name: 'FAIL with findings asks people first', dev: ['One.'], qa: [`${FINDING}\nFAIL`], ends: 'waits for fail 1' },
  {
    name: 'FAIL counts as REVISE where it is set so',
    dev: ['One.'],
    qa: ['FAIL', 'PASS'],
    settings: { onFail: 'revise' },
    ends: 'passed 2',
  },
  {
    name: 'prose with the word PASS',
    dev: ['One.'],
    qa: ['Do not PASS this.', 'I would PASS it soon.', 'PASS'],
    ends: 'passed 2',
  },
  {
    name: 'PASS in a code block',
    dev: ['One.'],
    qa: ['```\nPASS\n```', '```\nPASS\n```', 'REVISE'],
    iterations: 2,
    ends: 'limit 2',
  },
  { name: 'PASS in a quote', dev: ['One.'], qa: ['> PASS', '> PASS', 'REVISE'], iterations: 2, ends: 'limit 2' },
  { name: 'pass in other letters', dev: ['One.'], qa: ['pass', 'Pass', 'REVISE'], iterations: 2, ends: 'limit 2' },
  {
    name: 'PASS before more text',
    dev: ['One.'],
    qa: ['PASS\nor not', 'PASS\nor not', 'REVISE'],
    iterations: 2,
    ends: 'limit 2',
  },
  { name: 'no verdict, twice', dev: ['One.'], qa: ['Looks good.', 'It does.', 'PASS'], ends: 'passed 2' },
  { name: 'two verdicts, twice', dev: ['One.'], qa: ['PASS\nREVISE', 'REVISE\nPASS', 'PASS'], ends: 'passed 2' },
  {
    name: 'PASS beside a blocker',
    dev: ['One.'],
    qa: ['[blocker] No\nPASS', '[blocker] No\nPASS', 'PASS'],
    ends: 'passed 2',
  },
  {
    name: 'the work changes while it is reviewed',
    dev: ['One.'],
    qa: ['PASS', 'PASS'],
    during: (folder) => writeFileSync(join(folder, 'late.txt'), 'late'),
    ends: 'passed 1',
  },
  { name: 'no change twice', dev: ['One.'], qa: ['REVISE'], work: 'same', ends: 'waits for arbiter 3' },
  {
    name: 'no change twice, and a person accepts the work',
    dev: ['One.'],
    qa: ['REVISE'],
    work: 'same',
    decide: (stage) => stage.command('/review accept'),
    ends: 'passed 3',
  },
  {
    name: 'no change twice, and a person cancels',
    dev: ['One.'],
    qa: ['REVISE'],
    work: 'same',
    decide: (stage) => stage.command('/review cancel'),
    ends: 'cancelled 3',
  },
  {
    name: 'a dispute twice',
    dev: ['One.', 'F1: disputed: it is meant so', 'F1: disputed: still'],
    qa: [`${FINDING}\nREVISE`],
    ends: 'waits for arbiter 3',
  },
  {
    name: 'a finding that would undo the last change',
    dev: ['One.', 'F1: fixed'],
    qa: ['[major] work.txt:1 It is too short\nREVISE', '[major] work.txt:1 It is too long\nREVISE'],
    ends: 'waits for arbiter 2',
  },
  {
    name: 'a new finding far from the last change',
    dev: ['One.', 'F1: fixed'],
    qa: ['[major] work.txt:1 It is too short\nREVISE', '[major] work.txt:90 It is too long\nREVISE', 'PASS'],
    ends: 'passed 3',
  },
  {
    name: 'minor findings for ever',
    dev: ['One.', 'F1: fixed', 'F2: fixed'],
    qa: ['[minor] A name\nREVISE', '[minor] Another name\nREVISE'],
    ends: 'passed with notes 2',
  },
  {
    name: 'DONE with an unanswered finding is sent back once',
    dev: ['One.', 'Two.\nDONE', 'F1: fixed\nDONE'],
    qa: [`${FINDING}\nREVISE`],
    ends: 'passed 2',
  },
  { name: 'a limit', dev: ['One.'], qa: ['REVISE'], iterations: 3, ends: 'limit 3' },
  {
    name: 'other words as signals',
    dev: ['One.'],
    qa: ['PASS', 'LGTM'],
    settings: { passSignal: 'LGTM' },
    ends: 'passed 1',
  },
  {
    name: 'the fallback reviews for a reviewer at its limit',
    dev: ['One.', 'F1: fixed'],
    qa: [`${FINDING}\nREVISE`, '!usage limit reached, try again in 20 m'],
    ops: ['PASS'],
    settings: { fallback: 'ops' },
    ends: 'passed 2',
  },
  {
    name: 'a reviewer at its limit without a fallback is waited for',
    dev: ['One.'],
    qa: ['!usage limit reached, try again in 20 m'],
    ends: 'waits for provider 1',
  },
  {
    name: 'the reviewer keeps its session',
    dev: ['One.', 'F1: fixed'],
    qa: [`${FINDING}\nREVISE`, 'PASS'],
    settings: { session: 'resume' },
    ends: 'passed 2',
  },
];

/** The folder, agents and settings of a course, and the prompts of its agents. */
export function played(course: Course, folder: string) {
  const turns = { dev: 0, qa: 0, ops: 0 };
  const prompts: string[] = [];
  const next = (agent: 'dev' | 'qa' | 'ops'): string => {
    const texts = course[agent] ?? [];
    const text = texts[Math.min(turns[agent]++, texts.length - 1)] ?? '';
    if (text.startsWith('!')) throw new BackendError(text.slice(1));
    return text;
  };
  const agents: Readonly<Record<string, Answers>> = {
    dev: ({ text }) => {
      prompts.push(text);
      if (course.work !== 'same') writeFileSync(join(folder, 'work.txt'), `work ${turns.dev}`);
      return next('dev');
    },
    qa: ({ text }) => {
      prompts.push(text);
      if (turns.qa === 0) course.during?.(folder);
      return next('qa');
    },
    ...(course.ops === undefined ? {} : { ops: () => next('ops') }),
  };
  return { agents, folder, turns, prompts, channel: { review: course.settings ?? {} } };
}

/** The review's outcome or what it waits for, and the number of iterations. */
export function endOf({ review }: Stage): string {
  const { outcome, waiting, iteration } = review;
  return `${outcome?.kind ?? `waits for ${waiting?.for ?? 'nothing'}`} ${iteration}`;
}
