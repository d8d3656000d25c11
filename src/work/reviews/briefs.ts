import { REVISE, placeWords } from '../../turns/text/review-signals.ts';
import { oneLine } from '../../lib/visible.ts';
import { openFindings } from './review.ts';
import type { Finding, Review } from './review.ts';

/** Returns an agent's instructions for its turn in the review. Throws when the review asks for no turn. */
export function briefOf(review: Review): string {
  const { turn, primary } = review;
  if (turn === null) throw new Error(`impossible: review ${review.id} asks for no turn`);
  const lines = turn.agent === primary ? primaryBrief(review) : reviewerBrief(review);
  return lines.filter((line) => line !== null).join('\n');
}

type Lines = readonly (string | null)[];

function primaryBrief({ turn, task, verdict, reviewer, settings, findings, iterations }: Review): Lines {
  const { signals } = settings;
  const fault = iterations.at(-2)?.fault;
  const open = openFindings({ findings });
  if (turn?.purpose === 'answers')
    return [
      `You signalled ${signals.done}, and these findings of ${reviewer} have no answer:`,
      ...open.map(findingLine),
      HOW_TO_ANSWER,
      `Then end with ${signals.done} alone on the last line.`,
    ];
  return [
    `You are the primary agent. ${reviewer} reviews your work after your turn.`,
    `Task: ${task}`,
    fault === undefined ? null : `Your last turn held no signal: ${fault}.`,
    verdict === null || verdict.reason === ''
      ? null
      : `${reviewer}'s last verdict was ${verdict.verdict}: ${verdict.reason}`,
    ...(open.length === 0 ? [] : [`Open findings:`, ...open.map(findingLine), HOW_TO_ANSWER]),
    settings.until === 'signal'
      ? `When the task is done, write ${signals.done} alone on the last line. That ends the review.`
      : `When you want it reviewed as finished, write ${signals.done} alone on the last line.`,
    `If the task cannot be done, say why and write ${signals.fail} alone on the last line. That ends the review.`,
    'Without either, your turn is one step, and the work is reviewed as it is.',
    settings.onFail === 'stop'
      ? `${signals.fail} of ${reviewer} ends the review; for "not yet" it writes ${REVISE}.`
      : `${signals.fail} of ${reviewer} counts as ${REVISE}.`,
  ];
}

const HOW_TO_ANSWER =
  'Answer each finding on a line of its own: "F1: fixed", or "F1: disputed: <your reason>". The reviewer reads the answers.';

function reviewerBrief(review: Review): Lines {
  const { turn, task, primary, settings, findings, iteration } = review;
  const { signals, onFail } = settings;
  const verdicts = [
    `${signals.pass}: the work meets the task.`,
    `${REVISE}: something must be changed first. This is the verdict for "not yet".`,
    onFail === 'stop'
      ? `${signals.fail}: the work cannot be mended. This ends the review.`
      : `${signals.fail}: counts as ${REVISE} here.`,
  ];
  if (turn?.purpose === 'repair')
    return [
      `Your review has no usable verdict: ${turn.fault ?? 'none was found'}.`,
      'Write your verdict alone on the last line:',
      ...verdicts,
      HOW_TO_REPORT,
      'Findings that you reported before are kept.',
    ];
  return [
    `You are the reviewer. Review ${primary}'s work. Do not change it.`,
    `Task: ${task}`,
    turn?.fault === undefined ? null : `Your last verdict does not count: ${turn.fault}. Review it again.`,
    ...placeOfWork(review),
    ...(findings.length === 0 ? [] : ['Your earlier findings, with their answers:', ...findings.map(findingLine)]),
    HOW_TO_REPORT,
    'A finding that you do not repeat counts as fixed. Repeat one by its number.',
    iteration > 1 ? 'What the task does not ask for is no reason to refuse the work: report it as [note].' : null,
    'Write your verdict alone on the last line:',
    ...verdicts,
  ];
}

function placeOfWork({ primary, work, reviewed }: Review): Lines {
  if (work === null || work.commit === null) return [`The work is what ${primary} wrote in the conversation.`];
  const { commit, folder, diff } = work;
  const place = folder === undefined ? '' : ` Its files are in ${folder}. Read them there.`;
  const since = reviewed?.commit ?? null;
  if (since === null || diff === undefined) return [`The work is commit ${commit}.${place}`];
  return [
    `The work is commit ${commit}.${place}`,
    `You saw commit ${since} last. The changes since then, as git shows them:`,
    // Indents each line of the diff, at line ends of every kind: no text of a file then looks like a line of Conch.
    ...(diff === '' ? ['(none)'] : diff.split(LINE_ENDS).map((line) => `    ${line}`)),
  ];
}

const LINE_ENDS = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/u;
const HOW_TO_REPORT =
  'Report each finding on a line of its own: "[major] src/file.ts:12 title", with blocker, major, minor or note in brackets.';

/** Returns a finding as one line: "F1 [major] src/a.ts:12 It breaks (disputed: it is meant so)". */
export function findingLine({ id, severity, title, status, reason, ...place }: Finding): string {
  const answer = reason === undefined || status !== 'disputed' ? status : `${status}: ${reason}`;
  return oneLine(`${id} [${severity}] ${placeWords(place)}${title} (${answer})`);
}
