import type { MachineDecision } from '../../engine/machine.ts';
import type { Instant } from '../../lib/time.ts';
import type { ReviewCommandOf, ReviewCommand, ReviewFact, ReviewRefusal } from './review-events.ts';
import { evolveReview } from './review-evolve.ts';
import { answered, isDisputedAgain, ledgerAfter, reversal, unanswered } from './findings.ts';
import { MOST_ITERATIONS, asksPeople, invalidTransition, isMember, isOpen, openFindings, triggerOf } from './review.ts';
import type {
  Finding,
  Heard,
  ReviewOutcome,
  Review,
  ReviewState,
  ReviewStatus,
  ReviewTurn,
  ReviewedWork,
} from './review.ts';
import {
  answersIn,
  findingsIn,
  foreignSignal,
  ownLines,
  signalOfPrimary,
  verdictOfReviewer,
} from '../../turns/text/review-signals.ts';
import { defined } from '../../lib/defined.ts';
import { limitIn } from '../provider-limits.ts';
import { shortDigest } from '../../lib/digest.ts';
import { counted } from '../../turns/commands/clock-words.ts';

/** Decides a command: facts, or a refusal that changes nothing. */
export function decideReview(
  state: ReviewState,
  command: ReviewCommand,
  at: Instant,
): MachineDecision<ReviewFact, ReviewRefusal, ReviewState> {
  const decision = new ReviewDecision(state, at);
  const refusal = carryOut(command.type, command, decision);
  if (refusal !== null) return { ok: false, refusal, facts: [] };
  return { ok: true, facts: decision.facts, state: decision.state };
}

type Deciders = {
  readonly [T in ReviewCommand['type']]: (
    decision: ReviewDecision,
    command: ReviewCommandOf<T>,
  ) => ReviewRefusal | null;
};

const DECIDERS: Deciders = {
  START: start,
  READY: (decision) => ifWaitingFor(decision, 'agents', () => begin(decision)),
  UNABLE: unable,
  LOST: lose,
  BACK: (decision) => ifWaitingFor(decision, 'agent', () => {}),
  GRANTED: granted,
  SAID: said,
  ENDED: ended,
  MEASURED: measured,
  SPENT: spent,
  BUDGET: (decision, { why }) => (decision.open?.waiting === null ? decision.wait('budget', why, null) : 'UNCHANGED'),
  RAISED: (decision) => ifWaitingFor(decision, 'budget', () => {}),
  ACCEPT: (decision, { by }) => decision.end('complete', 'passed', 'a person accepted the work', by),
  UPHOLD: uphold,
  MORE: more,
  CANCEL: (decision, { by, reason }) => decision.end('failed', 'cancelled', reason, by),
  TICK: tick,
};

function carryOut<T extends ReviewCommand['type']>(
  type: T,
  command: ReviewCommandOf<T>,
  decision: ReviewDecision,
): ReviewRefusal | null {
  if (type !== 'START' && decision.open === null) return refusedAtRest(type, decision);
  return DECIDERS[type](decision, command);
}

/** The states to which commands would move a review, for the refusals of an ended review. */
const WANTED: { readonly [T in ReviewCommand['type']]?: ReviewStatus } = {
  ACCEPT: 'complete',
  CANCEL: 'failed',
  UNABLE: 'failed',
  READY: 'working',
  UPHOLD: 'working',
  MORE: 'working',
};

function refusedAtRest(type: ReviewCommand['type'], { state: { review } }: ReviewDecision): ReviewRefusal {
  const to = WANTED[type];
  return review === null || to === undefined ? 'NO_REVIEW' : invalidTransition(review.status, to);
}

class ReviewDecision {
  readonly facts: ReviewFact[] = [];
  readonly at: Instant;
  state: ReviewState;

  constructor(state: ReviewState, at: Instant) {
    this.state = state;
    this.at = at;
  }

  get open(): Review | null {
    return isOpen(this.state.review) ? this.state.review : null;
  }

  get review(): Review {
    const { open } = this;
    if (open === null) throw new Error(`impossible: no review is open in ${this.state.channel}`);
    return open;
  }

  record(fact: ReviewFact): void {
    this.facts.push(fact);
    this.state = evolveReview(this.state, fact, this.at);
  }

  move(to: ReviewStatus): void {
    const from = this.review.status;
    const trigger = triggerOf(from, to);
    if (trigger === null) throw new Error(`impossible: a review moves from ${from} to ${to}`);
    this.record({ type: 'reviewMoved', from, to, trigger });
  }

  /**
   * Asks for an agent's turn. `fault`: why the reviewer's turn before this one gave no usable verdict, or why its
   * verdict is void.
   */
  ask(agent: string, purpose: ReviewTurn['purpose'], fault?: string): void {
    this.record({ type: 'turnAsked', agent, purpose, retried: false, ...defined({ fault }) });
  }

  /** Asks for the same turn again. `retried`: the turn was not completed. */
  askAgain({ agent, purpose, fault }: ReviewTurn, retried: boolean): void {
    this.record({ type: 'turnAsked', agent, purpose, retried, ...defined({ fault }) });
  }

  wait(reason: NonNullable<Review['waiting']>['for'], why: string, until: Instant | null, away?: string): null {
    this.record({ type: 'waited', for: reason, why, until, ...defined({ away }) });
    return null;
  }

  /** Ends the review. Returns a refusal when the specification does not list the transition. */
  end(to: 'complete' | 'failed', kind: ReviewOutcome, why: string, by: string | null): ReviewRefusal | null {
    const { status } = this.review;
    if (triggerOf(status, to) === null) return invalidTransition(status, to);
    this.move(to);
    this.record({ type: 'reviewEnded', kind, why, by });
    return null;
  }
}

function start(decision: ReviewDecision, command: ReviewCommandOf<'START'>): ReviewRefusal | null {
  if (decision.open !== null) return 'REVIEW_OPEN';
  if (command.primary === command.reviewer) return 'SAME_AGENT';
  const { type: _type, ...fields } = command;
  decision.record({ type: 'reviewStarted', ...fields });
  return decision.wait('agents', 'both agents must be online', decision.at + command.settings.waitMs);
}

function ifWaitingFor(
  decision: ReviewDecision,
  reason: NonNullable<Review['waiting']>['for'],
  then: () => void,
): ReviewRefusal | null {
  if (decision.review.waiting?.for !== reason) return 'NOT_WAITING';
  decision.record({ type: 'waitOver', by: null });
  then();
  return null;
}

function begin(decision: ReviewDecision): void {
  const { work, reviewer } = decision.review;
  if (work === null) return beginIteration(decision);
  decision.move('working');
  decision.record({ type: 'iterationBegun', iteration: 1 });
  decision.move('reviewing');
  decision.ask(reviewer, 'review');
}

function beginIteration(decision: ReviewDecision): void {
  if (decision.review.status !== 'working') decision.move('working');
  const { iteration, settings, primary } = decision.review;
  if (iteration >= settings.maxIterations) {
    decision.end('failed', 'limit', `${iteration} of ${settings.maxIterations} iterations were used`, null);
    return;
  }
  decision.record({ type: 'iterationBegun', iteration: iteration + 1 });
  decision.ask(primary, 'work');
}

function unable(decision: ReviewDecision, { agent, why }: ReviewCommandOf<'UNABLE'>): ReviewRefusal | null {
  if (!isMember(decision.review, agent)) return 'UNCHANGED';
  return decision.end('failed', 'failed', `${agent}: ${why}`, null);
}

function lose(decision: ReviewDecision, { agent, why }: ReviewCommandOf<'LOST'>): ReviewRefusal | null {
  const { waiting, settings, turn, reviewer } = decision.review;
  if (!isMember(decision.review, agent)) return 'UNCHANGED';
  const until = limitIn(why, { at: decision.at, limits: 0 });
  if (until !== null && agent === reviewer && replaceReviewer(decision, why)) return null;
  if (waiting?.for === 'agents' && waiting.until !== null) {
    const named = `${agent}: ${why}`;
    return named === waiting.why ? 'UNCHANGED' : decision.wait('agents', named, waiting.until, agent);
  }
  // The floor may first report that an agent is away, and later that its provider is the reason. While one agent waits
  // for its provider, the agent whose turn is awaited may leave, too.
  const isOthers = waiting?.for === 'provider' && waiting.away !== undefined && waiting.away !== agent;
  if (waiting !== null && !isOthers && (until === null || waiting.for !== 'agent')) return 'UNCHANGED';
  if (isOthers && turn?.agent !== agent) return 'UNCHANGED';
  if (until !== null && turn?.agent === agent) return decision.wait('provider', `${agent}: ${why}`, until, agent);
  return decision.wait('agent', `${agent}: ${why}`, decision.at + settings.waitMs);
}

/** Replaces the reviewer with `settings.fallback`. Returns false when that is not set, or an agent of the review. */
function replaceReviewer(decision: ReviewDecision, why: string): boolean {
  const { settings, primary, reviewer, turn, waiting } = decision.review;
  const by = settings.fallback;
  if (by === undefined || by === primary || by === reviewer) return false;
  decision.record({ type: 'reviewerReplaced', reviewer: by, why });
  if (waiting?.for === 'agent') decision.record({ type: 'waitOver', by: null });
  // Asks for a review also in place of a repair: the fallback has given no review that it could repair.
  if (turn?.agent === reviewer) decision.ask(by, 'review');
  return true;
}

function granted(decision: ReviewDecision, { agent, epoch }: ReviewCommandOf<'GRANTED'>): ReviewRefusal | null {
  const { turn, waiting } = decision.review;
  if (turn?.agent !== agent || turn.ended !== undefined) return 'NOT_ITS_TURN';
  if (turn.epoch === epoch) return 'UNCHANGED';
  if (waiting?.for === 'provider' && waiting.away === agent) decision.record({ type: 'waitOver', by: null });
  decision.record({ type: 'turnGranted', agent, epoch });
  return null;
}

function ended(decision: ReviewDecision, command: ReviewCommandOf<'ENDED'>): ReviewRefusal | null {
  const { agent, epoch, completed } = command;
  const turn = awaited(decision, command);
  if (turn === null) return 'NOT_ITS_TURN';
  if (completed) {
    decision.record({ type: 'turnOver', agent, epoch });
    return decision.review.textOnly === true ? measured(decision, { type: 'MEASURED', epoch, work: null }) : null;
  }
  if (turn.retried) return decision.end('failed', 'failed', `the turn of ${agent} failed twice`, null);
  decision.askAgain(turn, true);
  return null;
}

function awaited(
  { review: { turn } }: ReviewDecision,
  { agent, epoch }: { readonly agent: string; readonly epoch: number },
): ReviewTurn | null {
  return turn?.agent === agent && turn.epoch === epoch && turn.ended === undefined ? turn : null;
}

function said(decision: ReviewDecision, command: ReviewCommandOf<'SAID'>): ReviewRefusal | null {
  const turn = awaited(decision, command);
  const { agent, epoch, text } = command;
  const { settings, primary, reviewer } = decision.review;
  const isLate = turn === null && decision.review.turn?.agent === agent;
  const lines = ownLines(text);
  const role = turn === null ? null : agent === primary ? 'primary' : 'reviewer';
  const foreign = isLate ? null : foreignSignal(lines, settings.signals, role);
  if (foreign !== null) decision.record({ type: 'signalIgnored', agent, epoch, signal: foreign });
  if (turn === null) return foreign === null ? 'NOT_ITS_TURN' : null;
  const { heard } = turn;
  const read =
    agent === reviewer ? verdictOfReviewer(lines, settings.signals) : signalOfPrimary(lines, settings.signals);
  const isTwice = heard?.signal != null && read.signal !== null && read.signal !== heard.signal;
  const signal = isTwice ? { signal: null, broken: `more than one signal: ${heard.signal}, ${read.signal}` } : read;
  const { signal: heardSignal, broken } = signal;
  const reason = heardSignal === null ? undefined : reasonIn(text);
  const digest = agent === primary ? shortDigest(heard?.digest ?? '', text) : '';
  const answers = agent === primary ? answersIn(lines) : undefined;
  const findings = agent === primary ? undefined : findingsIn(lines);
  const details = defined({ broken, reason, answers, findings });
  decision.record({ type: 'turnHeard', agent, epoch, signal: heardSignal, digest, ...details });
  return null;
}

/** The longest reason that is kept of a text, in UTF-16 units. */
const LONGEST_REASON = 2_000;

/** Returns the text before its last line, which is the signal. */
function reasonIn(text: string): string {
  const before = text.trimEnd().split('\n').slice(0, -1).join('\n').trim();
  return before.length <= LONGEST_REASON ? before : `${before.slice(0, LONGEST_REASON).toWellFormed()}…`;
}

function measured(decision: ReviewDecision, command: ReviewCommandOf<'MEASURED'>): ReviewRefusal | null {
  const { turn, primary, work } = decision.review;
  if (turn?.ended === undefined || turn.epoch !== command.epoch) return 'NOT_ITS_TURN';
  const heard = turn.heard ?? SILENT;
  if (turn.agent === primary)
    judgeWork(decision, { ...turn, heard }, command.work ?? { tree: `text:${heard.digest}`, commit: null });
  else judgeReview(decision, { ...turn, heard }, command.work ?? work ?? NO_WORK);
  return null;
}

const NO_WORK: ReviewedWork = { tree: 'text:', commit: null };
const SILENT: Heard = { signal: null, findings: [], answers: [], digest: '' };

type EndedTurn = ReviewTurn & { readonly heard: Heard };

function judgeWork(
  decision: ReviewDecision,
  { purpose, heard: { signal, reason, answers } }: EndedTurn,
  work: ReviewedWork,
) {
  decision.record({ type: 'workMeasured', work });
  if (signal === 'fail')
    return void decision.end('failed', 'failed', reason ?? `${decision.review.primary} gave up`, null);
  if (answers.length > 0)
    decision.record({ type: 'findingsKept', findings: answered(decision.review.findings, answers) });
  const { review } = decision;
  if (signal === 'done') {
    if (purpose === 'work' && unanswered(review, answers).length > 0) return decision.ask(review.primary, 'answers');
    if (review.settings.until === 'signal') return pass(decision, reason ?? `${review.primary} signalled DONE`);
    decision.record({ type: 'doneSignalled', tree: work.tree });
  }
  const isUnchanged = wasReviewed(review, work.tree);
  if (isUnchanged) decision.record({ type: 'unchangedCounted', unchanged: review.unchanged + 1 });
  else if (review.unchanged > 0) decision.record({ type: 'unchangedCounted', unchanged: 0 });
  decision.move('reviewing');
  // The review passes when the reviewer passed this tree and the primary agent now signals DONE for it.
  const { verdict, done } = decision.review;
  if (verdict?.verdict === 'pass' && done === work.tree) return pass(decision, verdict.reason);
  // A tree that was reviewed is not reviewed again, unless there are new answers to findings.
  if (isUnchanged && answers.length === 0) return goOnUnlessStalled(decision);
  decision.ask(review.reviewer, 'review');
}

function judgeReview(decision: ReviewDecision, { purpose, heard: turn }: EndedTurn, work: ReviewedWork): void {
  const { review } = decision;
  const tree = review.work?.tree ?? '';
  if (work.tree !== tree) {
    const { voided = 0 } = review.iterations.at(-1) ?? {};
    const isLast = voided >= MOST_REPEATED;
    decision.record({ type: 'verdictVoided', tree, ...(isLast ? { last: true } : {}) });
    decision.record({ type: 'workMeasured', work });
    if (!isLast) return decision.ask(review.reviewer, 'review', 'the work changed while you reviewed it');
    return void decision.wait('arbiter', VOIDED_AGAIN, decision.at + review.settings.waitMs);
  }
  const { signal, findings: reported, reason = '' } = turn;
  const fault = faultOf(turn, review);
  if (fault !== null && purpose === 'review') {
    // The reviewer may answer the request for a repair with its verdict alone, so its findings are stored now.
    if (reported.length > 0) keepFindings(decision, ledgerAfter(review, reported, work, 'fixed'));
    return decision.ask(review.reviewer, 'repair', fault);
  }
  const verdict = fault !== null || signal === null || signal === 'done' ? 'revise' : signal;
  decision.record({ type: 'verdictGiven', verdict, tree });
  const findings = ledgerAfter(review, reported, work, purpose === 'review' || verdict === 'pass' ? 'fixed' : 'kept');
  keepFindings(decision, findings);
  if (verdict === 'fail' && review.settings.onFail === 'stop') return failed(decision, reason);
  // From the second iteration on, a REVISE with findings counts as a pass when no finding blocks.
  const isNotesOnly =
    fault === null && review.iteration > 1 && reported.length > 0 && findings.every(({ blocks }) => !blocks);
  const isAgreed = review.settings.until !== 'consensus' || decision.review.done === tree;
  if (isAgreed && (verdict === 'pass' || (verdict === 'revise' && isNotesOnly))) return pass(decision, reason);
  goOnUnlessStalled(decision);
}

function keepFindings(decision: ReviewDecision, findings: readonly Finding[]): void {
  if (findings.length > 0) decision.record({ type: 'findingsKept', findings });
}

/** How many reviews of one iteration are repeated because their verdicts are void. Then a person decides. */
const MOST_REPEATED = 2;
const VOIDED_AGAIN = 'the work changed during each of 3 reviews. Something besides the agents may be changing files';

function wasReviewed({ reviewed, iterations }: Review, tree: string): boolean {
  return reviewed?.tree === tree || iterations.some((each) => each.verdict !== null && each.tree === tree);
}

function faultOf({ signal, broken, findings }: Heard, { settings }: Review): string | null {
  if (broken !== undefined) return broken;
  if (signal === null || signal === 'done') return 'no verdict: you wrote nothing';
  const grave = findings.find(({ severity }) => severity === 'blocker' || severity === 'major');
  if (signal !== 'pass' || grave === undefined) return null;
  return `${settings.signals.pass} stands beside a finding of severity ${grave.severity}: ${grave.title}`;
}

function pass(decision: ReviewDecision, why: string): void {
  const hasNotes = openFindings(decision.review).length > 0;
  decision.end('complete', hasNotes ? 'passed with notes' : 'passed', why, null);
}

/** A FAIL with open findings in the first iteration waits for a person: the reviewer may have meant "not yet". */
function failed(decision: ReviewDecision, reason: string): void {
  const { iteration, settings, reviewer } = decision.review;
  const why = reason === '' ? `${reviewer} gave the verdict FAIL` : reason;
  if (iteration === 1 && openFindings(decision.review).length > 0)
    decision.wait('fail', why, decision.at + settings.waitMs);
  else decision.end('failed', 'failed', why, null);
}

function goOnUnlessStalled(decision: ReviewDecision): void {
  const why = stallOf(decision.review);
  if (why === null) beginIteration(decision);
  else decision.wait('arbiter', why, decision.at + decision.review.settings.waitMs);
}

function stallOf(review: Review): string | null {
  const { unchanged, settings, findings } = review;
  if (unchanged >= settings.patience) return `the work did not change in ${counted(unchanged, 'iteration')}`;
  const disputed = findings.find(isDisputedAgain);
  if (disputed !== undefined) return `a finding was disputed twice: ${disputed.title}`;
  const undoing = reversal(review);
  return undoing === undefined ? null : `a finding would undo the last change: ${undoing.title}`;
}

function spent(decision: ReviewDecision, { type: _type, ...used }: ReviewCommandOf<'SPENT'>): null {
  decision.record({ type: 'spent', ...used });
  return null;
}

function uphold(decision: ReviewDecision, { by }: ReviewCommandOf<'UPHOLD'>): ReviewRefusal | null {
  return asksPeople(decision.review.waiting) ? goOnFor(decision, by) : 'NOT_WAITING';
}

function goOnFor(decision: ReviewDecision, by: string): null {
  const { findings, unchanged } = decision.review;
  decision.record({ type: 'waitOver', by });
  if (unchanged > 0) decision.record({ type: 'unchangedCounted', unchanged: 0 });
  const decided = findings.map((finding) =>
    isDisputedAgain(finding) ? { ...finding, status: 'persisting' as const, disputes: 0 } : finding,
  );
  if (findings.some(isDisputedAgain)) decision.record({ type: 'findingsKept', findings: decided });
  beginIteration(decision);
  return null;
}

function more(decision: ReviewDecision, { by, iterations }: ReviewCommandOf<'MORE'>): ReviewRefusal | null {
  const { settings, waiting } = decision.review;
  const wanted = settings.maxIterations + iterations;
  if (wanted > MOST_ITERATIONS) return 'TOO_MANY_ITERATIONS';
  decision.record({ type: 'iterationsAdded', by, iterations: wanted });
  if (waiting?.for === 'budget') decision.record({ type: 'waitOver', by });
  return asksPeople(waiting) ? goOnFor(decision, by) : null;
}

/**
 * Called at the deadline of a wait for a provider. Asks again for the turn that the provider refused; this counts as no
 * failure. A turn that is over is not asked for again.
 */
function askAgain(decision: ReviewDecision): null {
  const { turn, waiting } = decision.review;
  decision.record({ type: 'waitOver', by: null });
  if (turn !== null && turn.ended === undefined && (waiting?.away ?? turn.agent) === turn.agent)
    decision.askAgain(turn, false);
  return null;
}

function tick(decision: ReviewDecision): ReviewRefusal | null {
  const { waiting, reviewer, settings } = decision.review;
  if (waiting === null || waiting.until === null || decision.at < waiting.until) return 'NOT_DUE';
  if (waiting.for === 'provider') return askAgain(decision);
  // The fallback replaces only the reviewer, and only once.
  if (waiting.away === reviewer && replaceReviewer(decision, waiting.why))
    return decision.wait('agents', waiting.why, decision.at + settings.waitMs);
  const kind = waiting.for === 'arbiter' ? 'stalled' : 'failed';
  return decision.end('failed', kind, waiting.why, null);
}
