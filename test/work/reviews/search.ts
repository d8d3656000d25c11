import { isDeepStrictEqual } from 'node:util';
import type { reviewMachine } from '../../../src/work/reviews/review-binding.ts';
import type { ReviewCommand, ReviewFact } from '../../../src/work/reviews/review-events.ts';
import { isOpen, triggerOf } from '../../../src/work/reviews/review.ts';
import type { Heard, Review, ReviewSettings, ReviewState } from '../../../src/work/reviews/review.ts';
import { answerLine, reportLine } from '../../../src/turns/text/review-signals.ts';
import type { ReportedFinding } from '../../../src/turns/text/review-signals.ts';

type ReviewMachine = typeof reviewMachine;

/** The parts of the text that an agent says in a turn. */
export type Said = {
  readonly signal?: Heard['signal'];
  /** True when the text has two signals instead of one. */
  readonly broken?: true;
  readonly reason?: string;
  readonly findings?: readonly ReportedFinding[];
  readonly answers?: Heard['answers'];
};

/** Returns the text of an agent with these parts. */
export function textOf({ signal = null, broken, reason = '', findings = [], answers = [] }: Said): string {
  const lines = [
    reason,
    ...findings.map(reportLine),
    ...answers.map(answerLine),
    broken === true ? 'PASS\nREVISE' : (signal ?? '').toUpperCase(),
  ];
  return lines.filter((line) => line !== '').join('\n');
}

/** A broken invariant, and the commands that lead to it. */
export type FoundReview = { readonly what: string; readonly trace: readonly Move[] };

/** Commands that are given one after the other, also when an earlier command was refused. */
type Move = readonly ReviewCommand[];

const NOON = 43_200_000;
const WAIT_MS = 1_000;

export const PLAIN: ReviewSettings = {
  maxIterations: 2,
  until: 'signal',
  onFail: 'stop',
  signals: { done: 'DONE', pass: 'PASS', fail: 'FAIL' },
  patience: 2,
  waitMs: WAIT_MS,
};

export const START: Extract<ReviewCommand, { type: 'START' }> = {
  type: 'START',
  id: 'r1',
  primary: 'dev',
  reviewer: 'qa',
  task: 'Build it',
  by: 'ann',
  settings: PLAIN,
};

/** A state of the search. `worked`: turns of the primary agent. The trees are those that got PASS and DONE. */
type Place = {
  readonly state: ReviewState;
  readonly at: number;
  readonly epoch: number;
  readonly worked: number;
  readonly passedTree: string | null;
  readonly doneTree: string | null;
  readonly trace: readonly Move[];
};

const MAJOR = { severity: 'major', title: 'It breaks' } as const;
const MINOR = { severity: 'minor', title: 'A name' } as const;

/** Searches all orders of commands to this depth and checks each new state. Stops at a broken invariant. */
export function searchReviews(core: ReviewMachine, settings: Partial<ReviewSettings>, depth: number) {
  const start: Place = {
    state: core.empty('c'),
    at: NOON,
    epoch: 0,
    worked: 0,
    passedTree: null,
    doneTree: null,
    trace: [],
  };
  const found: FoundReview[] = [];
  const seen = new Set<string>();
  let [frontier, transitions]: [readonly Place[], number] = [[start], 0];
  for (let at = 0; at < depth && frontier.length > 0 && found.length === 0; at += 1) {
    const next: Place[] = [];
    for (const place of frontier) {
      for (const move of movesOf(place, settings)) {
        transitions += 1;
        const reached = take(core, place, move, found);
        if (reached === null) continue;
        const key = keyOf(reached);
        if (seen.has(key)) continue;
        seen.add(key);
        next.push(reached);
      }
    }
    frontier = next;
  }
  return { found, transitions, states: seen.size };
}

function movesOf({ state, epoch }: Place, settings: Partial<ReviewSettings>): readonly Move[] {
  const { review } = state;
  if (!isOpen(review)) return [[{ ...START, settings: { ...PLAIN, ...settings } }]];
  const { turn } = review;
  const agents = [review.primary, review.reviewer];
  const people: readonly ReviewCommand[] = [
    { type: 'ACCEPT', by: 'ann' },
    { type: 'UPHOLD', by: 'ann' },
    { type: 'MORE', by: 'ann', iterations: 1 },
    { type: 'CANCEL', by: 'ann', reason: 'no longer needed' },
    { type: 'TICK' },
    { type: 'READY' },
    { type: 'BUDGET', why: 'tokens' },
    { type: 'RAISED' },
    { type: 'BACK' },
  ];
  const sessions = agents.flatMap((agent): readonly ReviewCommand[] => [
    { type: 'LOST', agent, why: 'gone' },
    { type: 'UNABLE', agent, why: 'stopped' },
    { type: 'GRANTED', agent, epoch: epoch + 1 },
  ]);
  const epochs = [...new Set([epoch, epoch - 1])].filter((each) => each > 0);
  const ends = agents.flatMap((agent) => epochs.flatMap((each) => endsOf(agent, each, turn?.agent === review.primary)));
  const trees = ['a', 'b'].flatMap((tree): readonly ReviewCommand[] =>
    epochs.map((each) => ({ type: 'MEASURED', epoch: each, work: { tree, commit: null } })),
  );
  return [...[...people, ...sessions, ...trees].map((command) => [command]), ...ends];
}

function endsOf(agent: string, epoch: number, isWorking: boolean): readonly Move[] {
  const end = { type: 'ENDED', agent, epoch, completed: true } as const;
  const saying = (said: Said): Move => [{ type: 'SAID', agent, epoch, text: textOf(said) }, end];
  const bare: readonly Move[] = [[{ ...end, completed: false }], [end]];
  if (isWorking)
    return [
      ...bare,
      saying({ signal: 'done' }),
      saying({ signal: 'fail' }),
      saying({ answers: [{ id: 'F1', answer: 'fixed' }] }),
      saying({ signal: 'done', answers: [{ id: 'F1', answer: 'disputed', reason: 'no' }] }),
    ];
  return [
    ...bare,
    saying({ signal: 'pass' }),
    saying({ signal: 'pass', findings: [MAJOR] }),
    saying({ signal: 'revise', findings: [MAJOR] }),
    saying({ signal: 'revise', findings: [MINOR] }),
    saying({ signal: 'fail', findings: [MAJOR] }),
    saying({ signal: 'fail' }),
  ];
}

function take(core: ReviewMachine, place: Place, move: Move, found: FoundReview[]): Place | null {
  const trace = [...place.trace, move];
  let reached: Place | null = null;
  try {
    for (const command of move) reached = reach(core, reached ?? { ...place, trace }, command) ?? reached;
    return reached;
  } catch (error) {
    found.push({ what: error instanceof Error ? error.message : String(error), trace });
    return null;
  }
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

function reach(core: ReviewMachine, place: Place, command: ReviewCommand): Place | null {
  const deadline = core.nextDeadline(place.state);
  const at = command.type === 'TICK' ? (deadline ?? place.at) : place.at;
  const decision = core.decide(place.state, command, at);
  if (!decision.ok) {
    must(decision.facts.length === 0, `a refused ${command.type} changes something`);
    return null;
  }
  let { state, worked, passedTree, doneTree } = place;
  for (const given of decision.facts) {
    const fact: ReviewFact = core.fact.parse(JSON.parse(JSON.stringify(given)));
    checkFact(state, fact, command);
    state = core.evolve(state, fact, at);
    if (fact.type === 'reviewStarted') [worked, passedTree, doneTree] = [0, null, null];
    if (fact.type === 'turnAsked' && fact.purpose === 'work' && !fact.retried) worked += 1;
    if (fact.type === 'turnOver' && state.review?.turn?.heard?.signal === 'pass')
      passedTree = state.review?.work?.tree ?? null;
    if (fact.type === 'workMeasured' && state.review?.turn?.heard?.signal === 'done') doneTree = fact.work.tree;
  }
  must(isDeepStrictEqual(core.state.parse(JSON.parse(JSON.stringify(state))), state), 'a state is not read back');
  const epoch = command.type === 'GRANTED' ? command.epoch : place.epoch;
  const reached = { ...place, state, at, epoch, worked, passedTree, doneTree };
  checkPlace(place, reached, command);
  return reached;
}

/** Throws unless each status change is a listed transition, and each signal and end is of the open turn. */
function checkFact({ review }: ReviewState, fact: ReviewFact, command: ReviewCommand): void {
  if (fact.type === 'reviewMoved') must(triggerOf(fact.from, fact.to) === fact.trigger, `${fact.from} to ${fact.to}`);
  if (fact.type !== 'turnOver' && fact.type !== 'turnHeard') return;
  must('epoch' in command && command.epoch === review?.turn?.epoch, 'a late signal counts');
}

function checkPlace(before: Place, { state, worked, passedTree, doneTree }: Place, command: ReviewCommand): void {
  const { review } = state;
  if (review === null) throw new Error('a review is lost');
  const was = before.state.review;
  must(review.iteration === worked, `iteration ${review.iteration} after ${worked} turns of the primary agent`);
  must(review.iteration <= review.settings.maxIterations, 'more iterations than allowed');
  if (command.type !== 'START') must(was === null || review.iteration >= was.iteration, 'the count restarts');
  if (isOpen(review)) {
    must(review.turn !== null || review.waiting !== null, 'an open review waits for nobody');
    must(review.outcome === null, 'an open review has an outcome');
    must(
      review.waiting === null || review.waiting.for === 'budget' || review.waiting.until !== null,
      'it waits for ever',
    );
    if (review.turn !== null) checkTurn(review);
    return;
  }
  must(review.outcome !== null && review.turn === null && review.waiting === null, 'an ended review has no outcome');
  if (review.status === 'complete') checkPass(review, { passedTree, doneTree }, command);
}

function checkTurn({ status, turn, primary, reviewer, waiting }: Review): void {
  if (waiting?.for === 'arbiter' || waiting?.for === 'fail') return;
  const wanted = status === 'working' ? primary : reviewer;
  must(turn?.agent === wanted, `${turn?.agent} is asked while ${status}`);
}

/** Throws unless the review passed by ACCEPT, by PASS for its tree, by DONE as the settings allow, or with notes. */
function checkPass(
  { settings, work, findings, iteration, outcome }: Review,
  { passedTree, doneTree }: Pick<Place, 'passedTree' | 'doneTree'>,
  command: ReviewCommand,
): void {
  if (command.type === 'ACCEPT') return;
  const tree = work?.tree ?? null;
  const isDone = doneTree === tree && tree !== null;
  const isNotes = iteration > 1 && findings.length > 0 && findings.every(({ blocks }) => !blocks);
  const isPassed = (passedTree === tree && tree !== null) || isNotes;
  must(outcome?.kind === 'passed' || outcome?.kind === 'passed with notes', 'a completed review has not passed');
  if (settings.until === 'signal') must(isDone || isPassed, 'a review passes and nobody said so');
  if (settings.until === 'review') must(isPassed, 'a review passes without its reviewer');
  if (settings.until === 'consensus') must(isPassed && isDone, 'a review passes by one agent alone');
}

/** Returns the key of a state. Epochs count relative to the latest; past iterations, usage and start do not count. */
function keyOf({ state, epoch, passedTree, doneTree }: Place): string {
  const { review } = state;
  const turn = review?.turn ?? null;
  const relative = turn === null ? null : { ...turn, epoch: turn.epoch === null ? null : epoch - turn.epoch };
  const known = review === null ? null : { ...review, turn: relative, iterations: [], usage: null, startedAt: 0 };
  return JSON.stringify([known, passedTree, doneTree, epoch > 0, epoch > 1]);
}
