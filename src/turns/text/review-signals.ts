import { z } from 'zod';
import { defined } from '../../lib/defined.ts';
import type { Frozen } from '../../lib/tagged.ts';
import { fenceAfter, isQuote } from './split.ts';
import type { Fence } from './split.ts';

export const REVIEW_VERDICTS = ['pass', 'revise', 'fail'] as const;
/**
 * Purposes of a review's turn. `repair`: the reviewer gave no usable verdict and is asked again. `answers`: the primary
 * agent left findings unanswered and is asked again.
 */
export const TURN_PURPOSES = ['work', 'review', 'repair', 'answers'] as const;
const SEVERITIES = ['blocker', 'major', 'minor', 'note'] as const;
/** The most findings that a reviewer may report in one verdict. */
export const MOST_FINDINGS = 50;

/**
 * The word by which an agent passes its turn while a review or ticket is open. Replaces the configured pass words,
 * because they could be read as a verdict.
 */
export const REVIEW_PASS_WORD = 'SKIP';

const string = z.string();

/** The words of a review's signals, as its agents write them. */
export const signalWordsSchema = z.strictObject({ done: string.min(1), pass: string.min(1), fail: string.min(1) });

/** A finding as a reviewer reports it. `id`: set when the reviewer repeats an earlier finding. */
export const reportedFindingSchema = z.strictObject({
  id: string.max(40).exactOptional(),
  severity: z.enum(SEVERITIES),
  file: string.max(1_000).exactOptional(),
  line: z.int().min(1).exactOptional(),
  title: string.min(1).max(300),
  detail: string.max(4_000).exactOptional(),
});

/** The primary agent's answer to a finding. */
export const answeredFindingSchema = z.strictObject({
  id: string,
  answer: z.enum(['fixed', 'disputed']),
  reason: string.max(4_000).exactOptional(),
});

export type ReportedFinding = Frozen<z.infer<typeof reportedFindingSchema>>;
export type AnsweredFinding = Frozen<z.infer<typeof answeredFindingSchema>>;
export type SignalWords = Frozen<z.infer<typeof signalWordsSchema>>;

type Signal = 'done' | (typeof REVIEW_VERDICTS)[number] | null;

/**
 * The signal at the end of an agent's answer in a review; `null` for none. `broken`: why the text holds no usable
 * signal, for the agent to read.
 */
export type Signalled = { readonly signal: Signal; readonly broken?: string };

/** The word by which a reviewer asks for another iteration. */
export const REVISE = 'REVISE';

type OwnLines = readonly string[];

/**
 * Returns the lines that are not empty, without white space around them. Each line in code or in a block quote becomes
 * one space.
 */
export function ownLines(text: string): OwnLines {
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

/**
 * The signal of the primary agent: `done` or `fail`, alone on the last line that is not empty. In code, in a block
 * quote, within a line or in another case, such a word is text. `lines` must not have the turn signal. `broken`: the
 * signal stands only on an earlier line, or both signals stand in the text.
 */
export function signalOfPrimary(lines: OwnLines, { done, fail }: SignalWords): Signalled {
  return signalIn(lines, { [done]: 'done', [fail]: 'fail' });
}

/** The reviewer's verdict: `pass`, REVISE or `fail`, alone on the last line. Without a verdict, `broken` says why. */
export function verdictOfReviewer(lines: OwnLines, { pass, fail }: SignalWords): Signalled {
  const found = signalIn(lines, { [pass]: 'pass', [fail]: 'fail', [REVISE]: 'revise' });
  if (found.signal !== null || found.broken !== undefined) return found;
  return { signal: null, broken: `no verdict: the last line must be ${pass}, ${REVISE} or ${fail}, and nothing else` };
}

/**
 * The review signal that a text ends with and that its agent must not give; `null` for none. `role`: the agent's part
 * in the turn that the review waits for; `null` for any other turn, in which no signal counts.
 */
export function foreignSignal(
  lines: OwnLines,
  { done, pass, fail }: SignalWords,
  role: 'primary' | 'reviewer' | null,
): string | null {
  const last = lines.at(-1) ?? '';
  if (![done, pass, fail, REVISE].includes(last)) return null;
  const own = { primary: [done, fail], reviewer: [pass, REVISE, fail] };
  return role === null || !own[role].includes(last) ? last : null;
}

function signalIn(lines: OwnLines, words: Readonly<Record<string, Signal>>): Signalled {
  const found = new Set(lines.filter((line) => Object.hasOwn(words, line)));
  const [word] = found;
  if (word === undefined) return { signal: null };
  if (found.size > 1) return { signal: null, broken: `more than one signal: ${[...found].join(', ')}` };
  if (lines.at(-1) === word) return { signal: words[word] ?? null };
  return { signal: null, broken: `${word} is followed by more text` };
}

const FINDING = /^(?:[-*]\s+)?(?:(?<id>F\d+)\s+)?\[(?<severity>blocker|major|minor|note)\]\s+(?<rest>\S.*)$/i;
const PLACE = /^(?<file>[\w@./-]*[./][\w@./-]+?)(?::(?<line>\d+))?:?\s+(?<title>\S.*)$/;
const ANSWER = /^(?:[-*]\s+)?(?<id>F\d+):\s*(?<answer>fixed|disputed)\b[\s:,.-]*(?<reason>.*)$/i;

/** The first 50 findings that an answer reports in lines such as "[major] src/a.ts:12 It breaks". */
export function findingsIn(lines: OwnLines): readonly ReportedFinding[] {
  return groupsIn(lines, FINDING)
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

/** The first 50 answers of the primary agent to findings, in lines such as "F1: disputed: it is meant so". */
export function answersIn(lines: OwnLines): readonly AnsweredFinding[] {
  return groupsIn(lines, ANSWER)
    .slice(0, MOST_FINDINGS)
    .map(({ id = '', answer = '', reason = '' }) => ({
      id: id.toUpperCase(),
      answer: answer.toLowerCase() === 'fixed' ? 'fixed' : 'disputed',
      ...(reason === '' ? {} : { reason: reason.slice(0, 4_000) }),
    }));
}

function groupsIn(lines: OwnLines, pattern: RegExp): readonly Readonly<Record<string, string>>[] {
  return lines.flatMap((line) => {
    const groups = pattern.exec(line)?.groups;
    return groups === undefined ? [] : [groups];
  });
}

/** The place of a finding, as words before its title: "src/a.ts:12 "; empty when the file is not known. */
export function placeWords({ file, line }: Pick<ReportedFinding, 'file' | 'line'>): string {
  return file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`} `;
}

/** A finding as a line of a text: "F1 [major] src/a.ts:12 It breaks". The detail follows the title. */
export function reportLine({ id, severity, title, detail, ...place }: ReportedFinding): string {
  const both = [title, detail ?? ''].filter((each) => each !== '').join(': ');
  return `${id === undefined ? '' : `${id} `}[${severity}] ${placeWords(place)}${both.replaceAll(/\s+/g, ' ')}`;
}

/** An answer to a finding as a line of a text: "F1: disputed: it is meant so". */
export function answerLine({ id, answer, reason }: AnsweredFinding): string {
  return `${id}: ${answer}${reason === undefined ? '' : `: ${reason.replaceAll(/\s+/g, ' ')}`}`;
}
