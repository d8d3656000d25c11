import { defined } from '../../lib/defined.ts';
import type { Instant } from '../../lib/time.ts';
import type { ReviewFactOf, ReviewFact } from './review-events.ts';
import { asksPeople, isOpen, triggerOf } from './review.ts';
import { MOST_FINDINGS } from '../../turns/text/review-signals.ts';
import type { Review, ReviewState, ReviewTurn } from './review.ts';

/** The state after a fact. Throws "impossible: …" when the fact does not fit the state. */
export function evolveReview(state: ReviewState, fact: ReviewFact, at: Instant): ReviewState {
  if (fact.type === 'reviewStarted') return started(state, fact, at);
  const { review } = state;
  if (!isOpen(review) && fact.type !== 'reviewEnded' && fact.type !== 'spent')
    throw new Error(`impossible: ${fact.type} in ${state.channel}, where no review is open`);
  if (review === null) throw new Error(`impossible: ${fact.type} in ${state.channel}, which had no review`);
  return { ...state, review: changed(review, fact, at) };
}

function started(state: ReviewState, fact: ReviewFactOf<'reviewStarted'>, at: Instant): ReviewState {
  if (isOpen(state.review)) throw new Error(`impossible: a second review in ${state.channel}`);
  const { type: _type, ...fields } = fact;
  const review: Review = {
    ...fields,
    status: 'init',
    startedAt: at,
    iteration: 0,
    iterations: [],
    turn: null,
    waiting: null,
    work: fields.work ?? null,
    reviewed: null,
    verdict: null,
    done: null,
    findings: [],
    unchanged: 0,
    usage: { turns: 0, tokens: 0, costMicros: 0 },
    outcome: null,
  };
  return { ...state, count: state.count + 1, review };
}

function changed(review: Review, fact: Exclude<ReviewFact, ReviewFactOf<'reviewStarted'>>, at: Instant): Review {
  switch (fact.type) {
    case 'reviewMoved':
      return moved(review, fact, at);
    case 'reviewerReplaced':
      return { ...review, reviewer: fact.reviewer };
    case 'iterationBegun':
      return begun(review, fact, at);
    case 'turnAsked':
      return withTurn(review, fact);
    case 'turnGranted':
      return granted(review, fact);
    case 'turnHeard':
      return heard(review, fact);
    case 'signalIgnored':
      return review;
    case 'turnOver':
      return over(review, fact);
    case 'workMeasured':
      return measured(review, fact);
    case 'verdictVoided':
      return { ...review, verdict: null, iterations: fact.last ? oneMoreVoid(review) : review.iterations };
    case 'verdictGiven':
      return judged(review, fact);
    case 'doneSignalled':
      return { ...review, done: fact.tree };
    case 'findingsKept':
      return withFindings(review, fact);
    case 'unchangedCounted':
      return { ...review, unchanged: fact.unchanged };
    case 'waited':
      return waited(review, fact);
    case 'waitOver':
      return { ...review, waiting: null };
    case 'iterationsAdded':
      return { ...review, settings: { ...review.settings, maxIterations: fact.iterations } };
    case 'spent':
      return { ...review, usage: spent(review.usage, fact) };
    case 'reviewEnded':
      return { ...review, turn: null, waiting: null, outcome: { kind: fact.kind, why: fact.why, at } };
  }
}

function moved(review: Review, { from, to }: ReviewFactOf<'reviewMoved'>, at: Instant): Review {
  if (review.status !== from || triggerOf(from, to) === null)
    throw new Error(`impossible: review ${review.id} moves from ${from} to ${to} while ${review.status}`);
  const isLeft = to === 'complete' || to === 'failed' || (from === 'reviewing' && to === 'working');
  return { ...review, status: to, iterations: isLeft ? closed(review, at) : review.iterations };
}

/** When another review is asked for with a fault, after a finished turn, the verdict of that turn counts as void. */
function withTurn(review: Review, { agent, purpose, retried, fault }: ReviewFactOf<'turnAsked'>): Review {
  const isVoided = purpose === 'review' && fault !== undefined && review.turn?.ended === true;
  const turn = { agent, purpose, retried, epoch: null };
  return {
    ...review,
    iterations: isVoided ? oneMoreVoid(review) : review.iterations,
    turn: fault === undefined ? turn : { ...turn, fault },
  };
}

function oneMoreVoid({ iterations }: Review): Review['iterations'] {
  return withLast(iterations, { voided: (iterations.at(-1)?.voided ?? 0) + 1 });
}

/** While people decide, no turn is awaited. */
function waited(review: Review, { type: _type, ...waiting }: ReviewFactOf<'waited'>): Review {
  return { ...review, turn: asksPeople(waiting) ? null : review.turn, waiting };
}

function closed({ iterations, work, findings }: Review, at: Instant): Review['iterations'] {
  const last = iterations.at(-1);
  if (last === undefined || last.endedAt !== null) return iterations;
  const blocking = findings.filter(({ blocks, status }) => blocks && status !== 'fixed').length;
  const { tree = null, commit = null } = work ?? {};
  return [...iterations.slice(0, -1), { ...last, endedAt: at, tree, commit, blocking }];
}

function begun(review: Review, { iteration }: ReviewFactOf<'iterationBegun'>, at: Instant): Review {
  if (review.status !== 'working' || iteration !== review.iteration + 1)
    throw new Error(`impossible: iteration ${iteration} after ${review.iteration} of review ${review.id}`);
  const fresh = {
    endedAt: null,
    tree: null,
    commit: null,
    blocking: 0,
    verdict: null,
    opened: 0,
    fixed: 0,
    disputed: 0,
    reappeared: 0,
  };
  // A DONE counts only in the iteration in which it was given.
  return { ...review, iteration, done: null, iterations: [...review.iterations, { startedAt: at, ...fresh }] };
}

function granted(review: Review, { agent, epoch }: ReviewFactOf<'turnGranted'>): Review {
  if (review.turn?.agent !== agent) throw new Error(`impossible: review ${review.id} does not wait for ${agent}`);
  if (review.turn.heard === undefined) return { ...review, turn: { ...review.turn, epoch } };
  const { heard: _earlier, ...turn } = review.turn;
  return { ...review, turn: { ...turn, epoch } };
}

/** Only the signal of the last text counts. */
function heard(review: Review, fact: ReviewFactOf<'turnHeard'>): Review {
  const { agent, epoch, signal, digest, broken, reason, findings = [], answers = [] } = fact;
  const turn = turnOf(review, agent, epoch);
  const before = turn.heard;
  const all = {
    signal,
    digest,
    findings: [...(before?.findings ?? []), ...findings].slice(-MOST_FINDINGS),
    answers: [...(before?.answers ?? []), ...answers].slice(-MOST_FINDINGS),
    ...defined({ broken, reason }),
  };
  return { ...review, turn: { ...turn, heard: all } };
}

function over(review: Review, { agent, epoch }: ReviewFactOf<'turnOver'>): Review {
  const usage = { ...review.usage, turns: review.usage.turns + 1 };
  const turn = turnOf(review, agent, epoch);
  const fault = agent === review.primary ? turn.heard?.broken : undefined;
  const iterations = fault === undefined ? review.iterations : withLast(review.iterations, { fault });
  return { ...review, turn: { ...turn, ended: true }, usage, iterations };
}

function turnOf({ id, turn }: Review, agent: string, epoch: number): ReviewTurn {
  if (turn?.agent !== agent || turn.epoch !== epoch)
    throw new Error(`impossible: review ${id} does not wait for turn ${epoch} of ${agent}`);
  return turn;
}

function measured(review: Review, { work }: ReviewFactOf<'workMeasured'>): Review {
  const isChanged = review.work?.tree !== work.tree;
  // A verdict and a DONE count for the tree that they were given for.
  return { ...review, work, ...(isChanged ? { verdict: null, done: null } : {}) };
}

function judged(review: Review, { verdict, tree, reason }: ReviewFactOf<'verdictGiven'>): Review {
  return {
    ...review,
    verdict: { verdict, tree, reason: reason ?? review.turn?.heard?.reason ?? '' },
    reviewed: withoutDiff(review.work),
    turn: null,
    iterations: withLast(review.iterations, { verdict }),
  };
}

function withoutDiff(work: Review['work']): Review['work'] {
  if (work === null) return null;
  const { diff: _diff, ...seen } = work;
  return seen;
}

function withFindings(review: Review, { findings }: ReviewFactOf<'findingsKept'>): Review {
  const before = new Map(review.findings.map((finding) => [finding.id, finding]));
  const count = (status: string): number =>
    findings.filter((each) => each.status === status && before.get(each.id)?.status !== status).length;
  const disputes = findings.filter((each) => each.disputes > (before.get(each.id)?.disputes ?? 0)).length;
  const { opened = 0, fixed = 0, disputed = 0, reappeared = 0 } = review.iterations.at(-1) ?? {};
  const counts = {
    opened: opened + findings.filter(({ id }) => !before.has(id)).length,
    fixed: fixed + count('fixed'),
    disputed: disputed + disputes,
    reappeared: reappeared + count('reappeared'),
  };
  return { ...review, findings, iterations: withLast(review.iterations, counts) };
}

function withLast(
  iterations: Review['iterations'],
  change: Partial<Review['iterations'][number]>,
): Review['iterations'] {
  const last = iterations.at(-1);
  return last === undefined ? iterations : [...iterations.slice(0, -1), { ...last, ...change }];
}

function spent(usage: Review['usage'], { tokens, costMicros }: ReviewFactOf<'spent'>): Review['usage'] {
  return { ...usage, tokens: usage.tokens + tokens, costMicros: usage.costMicros + costMicros };
}
