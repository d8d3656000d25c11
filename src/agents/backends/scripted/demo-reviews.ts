import type { TurnPrompt } from '../backend.ts';
import { sayAndEnd } from './demo-words.ts';
import type { Step } from './demo-words.ts';

/** Tasks with which the demo's agents show one course of a review each. Any other task takes the course `pass`. */
export const DEMO_REVIEWS = [
  {
    task: 'pass',
    example: '/review start dev qa pass',
    shows: 'passes in the second iteration: the reviewer has one finding, and it is fixed',
  },
  { task: 'fail', example: '/review start dev qa fail', shows: 'fails in the first iteration: the reviewer says FAIL' },
  {
    task: 'stall',
    example: '/review start dev qa stall',
    shows: 'stalls: the work stays the same, and the review asks you',
  },
  {
    task: 'dispute',
    example: '/review start dev qa dispute',
    shows: 'asks you after two disputes of one finding: accept the work, or tell the reviewer that it is right',
  },
] as const;

type ReviewScene = { readonly course: Course; readonly findings: readonly (readonly [id: string, status: string])[] };
type Course = (typeof DEMO_REVIEWS)[number]['task'];

const FINDING = '[major] An empty input is accepted';
const FINDING_LINE = /^(?<id>F\d+) \[\w+\] .*\((?<status>new|persisting|reappeared|fixed|disputed)(?:: .*)?\)$/gm;

/**
 * Returns the steps of a turn of the primary agent or the reviewer. `null` without an open task, for other agents, and
 * for a prompt without a line "Task: ".
 */
export function reviewSteps({ task, text }: Pick<TurnPrompt, 'task' | 'text'>): readonly Step[] | null {
  const brief = text.slice(Math.max(0, text.lastIndexOf('\nTask: ') + 1));
  if (task === undefined || !brief.startsWith('Task: ')) return null;
  const asked = /^Task: (.*)/.exec(brief)?.[1]?.trim().toLowerCase();
  const course = DEMO_REVIEWS.find((each) => each.task === asked)?.task ?? 'pass';
  const findings = [...brief.matchAll(FINDING_LINE)].map(
    ({ groups: { id = '', status = '' } = {} }) => [id, status] as const,
  );
  if (task.role === 'primary') return sayAndEnd(workOn({ course, findings }));
  return task.role === 'reviewer' ? sayAndEnd(reviewOf({ course, findings }, task.signals)) : null;
}

function workOn({ course, findings }: ReviewScene): string {
  const [first] = findings;
  if (first === undefined) return 'The work is done, as far as I can see.';
  const [id, status] = first;
  // A disputed finding has the status "persisting" when a person decided for the reviewer.
  if (course === 'dispute' && status !== 'persisting')
    return `I leave it as it is.\n${id}: disputed: nobody sends that`;
  return `I have checked the input.\n${id}: fixed`;
}

function reviewOf({ course, findings }: ReviewScene, { pass, fail }: NonNullable<TurnPrompt['task']>['signals']) {
  const open = findings.find(([, status]) => status !== 'fixed');
  if (course === 'fail') return `The task contradicts itself.\n${fail}`;
  if (course === 'stall') return `I see nothing that I could test yet.\nREVISE`;
  if (findings.length > 0 && open === undefined) return `It works now.\n${pass}`;
  return `${open === undefined ? '' : `${open[0]} `}${FINDING}\nREVISE`;
}
