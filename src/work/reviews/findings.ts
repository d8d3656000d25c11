import { defined } from '../../lib/defined.ts';
import type { Finding, Review, ReviewedWork } from './review.ts';
import type { AnsweredFinding, ReportedFinding } from '../../turns/text/review-signals.ts';

/** A person decides about a finding when the primary agent has disputed it this often. */
const MOST_DISPUTES = 2;

/** Returns the findings after the primary agent's answers. An answer to an unknown or fixed finding changes nothing. */
export function answered(findings: readonly Finding[], answers: readonly AnsweredFinding[]): readonly Finding[] {
  return findings.map((finding) => {
    const answer = answers.find(({ id }) => id === finding.id);
    if (answer === undefined || finding.status === 'fixed') return finding;
    if (answer.answer === 'fixed') return { ...finding, status: 'fixed', blocks: false };
    const { reason } = answer;
    return { ...finding, status: 'disputed', disputes: finding.disputes + 1, ...defined({ reason }) };
  });
}

/** Blocking findings that are open and that these answers leave out. */
export function unanswered({ findings }: Review, answers: readonly AnsweredFinding[]): readonly Finding[] {
  const answeredIds = new Set(answers.map(({ id }) => id));
  return findings.filter(({ id, blocks, status }) => blocks && status !== 'fixed' && !answeredIds.has(id));
}

/** Whether a finding has reached the limit of disputes and is still not fixed. */
export function isDisputedAgain({ disputes, status }: Finding): boolean {
  return disputes >= MOST_DISPUTES && status !== 'fixed';
}

/**
 * Returns the findings after a report. A reported finding of an earlier iteration persists, stays disputed, or, if it
 * was fixed, has reappeared. A finding that one report has twice is added once. `unnamed`: whether findings that the
 * report leaves out become fixed or stay as they are.
 */
export function ledgerAfter(
  { findings: before, iteration }: Pick<Review, 'findings' | 'iteration'>,
  reported: readonly ReportedFinding[],
  work: ReviewedWork,
  unnamed: 'fixed' | 'kept',
): readonly Finding[] {
  const ledger = new Map(before.map((finding) => [finding.id, finding]));
  const named = new Set<string>();
  for (const each of reported) {
    const id = matchOf([...ledger.values()], each)?.id ?? `F${ledger.size + 1}`;
    named.add(id);
    const earlier = before.find((finding) => finding.id === id && finding.opened < iteration);
    const fresh = { ...each, id, status: 'new' as const, opened: iteration, disputes: 0 };
    ledger.set(id, earlier ? repeated(earlier, each) : { ...fresh, blocks: isBlocking(each, iteration, work) });
  }
  return [...ledger.values()].map((finding) =>
    unnamed === 'kept' || named.has(finding.id) ? finding : { ...finding, status: 'fixed', blocks: false },
  );
}

function repeated(finding: Finding, { severity, title, detail }: ReportedFinding): Finding {
  const status = finding.status === 'fixed' ? 'reappeared' : finding.status === 'disputed' ? 'disputed' : 'persisting';
  return { ...finding, severity, title, ...defined({ detail }), status, blocks: severity !== 'note' };
}

function matchOf(findings: readonly Finding[], { id, file, title }: ReportedFinding): Finding | null {
  const named = findings.find((finding) => finding.id === id);
  const words = wordsOf(title);
  return named ?? findings.find((finding) => finding.file === file && wordsOf(finding.title) === words) ?? null;
}

function wordsOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim();
}

/**
 * Whether a new finding blocks. In later iterations, a minor one blocks only in changed lines, or in a changed file
 * when its line or the changed lines are not known.
 */
function isBlocking({ severity, file, line }: ReportedFinding, iteration: number, { changed }: ReviewedWork): boolean {
  if (severity === 'note') return false;
  if (iteration <= 1 || severity === 'blocker' || severity === 'major') return true;
  const place = changed?.find((each) => each.file === file);
  if (place === undefined) return false;
  return place.lines === undefined || line === undefined || place.lines.includes(line);
}

/** Two findings in a file are near each other when their line numbers differ by at most this many. */
const NEAR_LINES = 3;

/**
 * Returns a new blocking finding in a changed line near a fixed finding: work on the new one could undo the fix.
 * `undefined` for none.
 */
export function reversal({ findings, work }: Review): Finding | undefined {
  const fixed = findings.filter(
    ({ status, file, line }) => status === 'fixed' && file !== undefined && line !== undefined,
  );
  return findings.find(({ status, blocks, file, line }) => {
    if (status !== 'new' || !blocks || line === undefined) return false;
    const isChanged = work?.changed?.some((each) => each.file === file && each.lines?.includes(line)) === true;
    return isChanged && fixed.some((other) => other.file === file && Math.abs((other.line ?? 0) - line) <= NEAR_LINES);
  });
}
