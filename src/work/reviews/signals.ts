import { fenceAfter, isQuote } from '../../turns/text/split.ts';
import type { Fence } from '../../turns/text/split.ts';
import { defined } from '../../lib/defined.ts';
import { MOST_FINDINGS, SEVERITIES } from './review.ts';
import type { ReportedFinding, ReviewSettings, ReviewTurn } from './review.ts';

type Signals = ReviewSettings['signals'];
type Signal = NonNullable<ReviewTurn['ended']>['signal'];

/** What the end of an answer signals. `broken`: why its text holds no usable signal, for the agent to read. */
export type Signalled = { readonly signal: Signal; readonly broken?: string };

/** The word by which a reviewer asks for another iteration. */
export const REVISE = 'REVISE';

/**
 * The signal of the primary agent: DONE or FAIL, alone on the last line that is not empty. In code, in a quote and
 * anywhere else, and in other letters, such a word is text. The turn signal is no part of the text here.
 */
export function signalOfPrimary(text: string, { done, fail }: Signals): Signalled {
  return signalIn(text, { [done]: 'done', [fail]: 'fail' });
}

/** The verdict of the reviewer: PASS, REVISE or FAIL, read as the primary agent's signal is. */
export function verdictOfReviewer(text: string, { pass, fail }: Signals): Signalled {
  const found = signalIn(text, { [pass]: 'pass', [fail]: 'fail', [REVISE]: 'revise' });
  if (found.signal !== null || found.broken !== undefined) return found;
  return { signal: null, broken: `no verdict: the last line must be ${pass}, ${REVISE} or ${fail}, and nothing else` };
}

function signalIn(text: string, words: Readonly<Record<string, Signal>>): Signalled {
  const lines = ownLines(text);
  const named = [...new Set(lines.filter((line) => Object.hasOwn(words, line)))];
  const last = lines.at(-1) ?? '';
  if (named.length > 1) return { signal: null, broken: `more than one signal: ${named.join(', ')}` };
  if (Object.hasOwn(words, last)) return { signal: words[last] ?? null };
  const [early] = named;
  return early === undefined ? { signal: null } : { signal: null, broken: `${early} is followed by more text` };
}

/** The lines that are not empty, without white space around them. A line in code or in a quote stands as a blank. */
function ownLines(text: string): readonly string[] {
  let fence: Fence | null = null;
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    const isInside = fence !== null;
    const isQuoted = !isInside && isQuote(line);
    fence = fenceAfter(fence, line);
    if (line.trim() !== '') lines.push(isInside || fence !== null || isQuoted ? ' ' : line.trim());
  }
  return lines;
}

const FINDING = /^(?:[-*]\s+)?(?:(?<id>F\d+)\s+)?\[(?<severity>blocker|major|minor|note)\]\s+(?<rest>\S.*)$/i;
const PLACE = /^(?<file>[\w@./-]*[./][\w@./-]+?)(?::(?<line>\d+))?:?\s+(?<title>\S.*)$/;
const ANSWER = /^(?:[-*]\s+)?(?<id>F\d+):\s*(?<answer>fixed|disputed)\b[\s:,.-]*(?<reason>.*)$/i;

/** The findings that an answer reports in lines such as "[major] src/a.ts:12 It breaks", outside code and quotes. */
export function findingsIn(text: string): readonly ReportedFinding[] {
  return groupsIn(text, FINDING)
    .slice(0, MOST_FINDINGS)
    .map(({ id, severity = '', rest = '' }): ReportedFinding => {
      const { file, line, title = rest } = PLACE.exec(rest)?.groups ?? {};
      return {
        severity: SEVERITIES.find((each) => each === severity.toLowerCase()) ?? 'note',
        title: title.slice(0, 300),
        ...defined({ id: id?.toUpperCase(), file, line: line === undefined ? undefined : Number(line) }),
      };
    });
}

/** The primary agent's answers to findings, in lines such as "F1: disputed: it is meant so". */
export function answersIn(text: string): NonNullable<NonNullable<ReviewTurn['ended']>['answers']> {
  return groupsIn(text, ANSWER)
    .slice(0, MOST_FINDINGS)
    .map(({ id = '', answer = '', reason = '' }) => ({
      id: id.toUpperCase(),
      answer: answer.toLowerCase() === 'fixed' ? 'fixed' : 'disputed',
      ...(reason === '' ? {} : { reason: reason.slice(0, 4_000) }),
    }));
}

function groupsIn(text: string, pattern: RegExp): readonly Readonly<Record<string, string>>[] {
  return ownLines(text).flatMap((line) => {
    const groups = pattern.exec(line)?.groups;
    return groups === undefined ? [] : [groups];
  });
}
