import { defined } from '../../lib/defined.ts';
import type { Finding, Review, ReviewedWork } from './review.ts';
import type { ReportedFinding } from '../../turns/text/review-signals.ts';

/** How often the primary agent may dispute a finding before a person decides. */
const MOST_DISPUTES = 2;

type Answer = { readonly id: string; readonly answer: 'fixed' | 'disputed'; readonly reason?: string };

/** The ledger after the primary agent's answers. An answer to an unknown finding changes nothing. */
export function answered(findings: readonly Finding[], answers: readonly Answer[]): readonly Finding[] {
  return findings.map((finding) => {
    const given = answers.find(({ id }) => id === finding.id);
    if (given === undefined || finding.status === 'fixed') return finding;
    if (given.answer === 'fixed') return { ...finding, status: 'fixed', blocks: false };
    const { reason } = given;
    return { ...finding, status: 'disputed', disputes: finding.disputes + 1, ...defined({ reason }) };
  });
}

/** Blocking findings that are open and that these answers leave out. */
export function unanswered({ findings }: Review, answers: readonly Answer[]): readonly Finding[] {
  const known = new Set(answers.map(({ id }) => id));
  return findings.filter(({ id, blocks, status }) => blocks && status !== 'fixed' && !known.has(id));
}

/** Whether a finding has reached the limit of disputes and is still not fixed. */
export function isDisputedAgain({ disputes, status }: Finding): boolean {
  return disputes >= MOST_DISPUTES && status !== 'fixed';
}

/**
 * The ledger after a verdict. A finding that the reviewer repeats persists, or has reappeared after it was fixed. A
 * finding that it leaves out is fixed.
 */
export function ledgerAfter(review: Review, given: readonly ReportedFinding[], work: ReviewedWork): readonly Finding[] {
  const matches = new Map(given.map((each) => [each, matchOf(review.findings, each)]));
  const repeated = new Map(
    [...matches].flatMap(([each, match]) => (match === null ? [] : [[match.id, each] as const])),
  );
  const known = review.findings.map((finding): Finding => {
    const again = repeated.get(finding.id);
    if (again === undefined) return { ...finding, status: 'fixed', blocks: false };
    const { severity, title } = again;
    const status =
      finding.status === 'fixed' ? 'reappeared' : finding.status === 'disputed' ? 'disputed' : 'persisting';
    return { ...finding, severity, title, ...defined({ detail: again.detail }), status, blocks: severity !== 'note' };
  });
  let next = review.findings.length;
  const fresh = given.flatMap((each): readonly Finding[] => {
    if (matches.get(each) !== null) return [];
    next += 1;
    const found = { ...each, id: `F${next}`, status: 'new' as const, opened: review.iteration, disputes: 0 };
    return [{ ...found, blocks: isBlocking(each, review.iteration, work) }];
  });
  return [...known, ...fresh];
}

/** The finding of the ledger that a report repeats: by its id, else by file and title. */
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

/** In the first iteration all findings but notes block; later only grave ones, and those in lines that were changed. */
function isBlocking({ severity, file, line }: ReportedFinding, iteration: number, { changed }: ReviewedWork): boolean {
  if (severity === 'note') return false;
  if (iteration <= 1 || severity === 'blocker' || severity === 'major') return true;
  const place = changed?.find((each) => each.file === file);
  if (place === undefined) return false;
  return place.lines === undefined || line === undefined || place.lines.includes(line);
}

/** How many lines around a finding count as its place. */
const NEAR_LINES = 3;

/**
 * A new finding in lines that the primary agent has just changed for another finding: mending the one would undo the
 * other. `undefined` when there is none.
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
