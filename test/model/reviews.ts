import type { CommandFor } from '../../src/engine/machine.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { turnsOf } from '../../src/turns/floor/seats.ts';
import type { floorWithWork } from '../../src/work/floor-with-work.ts';
import type { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import type { ReviewCommand, ReviewFact } from '../../src/work/reviews/review-events.ts';
import { isOpen, triggerOf } from '../../src/work/reviews/review.ts';
import type { ReviewState } from '../../src/work/reviews/review.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';
import { takenBy } from './step.ts';

/** The machines that are searched together. */
export type Reviewed = { readonly floorWithWork: typeof floorWithWork; readonly reviewOnFloor: typeof reviewOnFloor };

/** A command to the floor or to the review. */
export type ReviewMove =
  | { readonly to: 'floor'; readonly command: Command }
  | { readonly to: 'review'; readonly command: ReviewCommand };

/** A broken invariant, and the moves that lead to it. */
export type FoundReviewed = {
  readonly invariant: string;
  readonly what: string;
  readonly trace: readonly ReviewMove[];
};

/** The states, and the onlooker's notes: the tree that was passed, its text, and the worker's turns. */
type World = {
  readonly floor: Floor;
  readonly review: ReviewState;
  readonly at: number;
  readonly worked: number;
  readonly passed: string | null;
  readonly done: string | null;
  readonly trace: readonly ReviewMove[];
};

const HALL = 'console:hall';
const NOON = 43_200_000;
const SETTINGS = { maxIterations: 2, until: 'review', onFail: 'stop', patience: 2, waitMs: 1_000 } as const;
const SIGNALS = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };

class Broken extends Error {}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Broken(what);
}

/** Searches every order of moves of a floor and its review to this depth. Checks each state that it reaches. */
export function searchReviewed(
  core: Reviewed,
  { depth, first, along }: { readonly depth: number; readonly first: boolean; readonly along?: Way },
) {
  const found: FoundReviewed[] = [];
  let [frontier, states, transitions]: [readonly World[], number, number] = [[began(core)], 1, 0];
  const seen = new Set<string>();
  for (let step = 0; step < depth; step += 1) {
    const next: World[] = [];
    for (const world of frontier) {
      for (const move of movesOf(world)) {
        if (!isOnWay(along, world.trace.length, move)) continue;
        transitions += 1;
        const reached = tried(core, world, move, found);
        if (reached === null) {
          if (first && found.length > 0) return { found, states, transitions };
          continue;
        }
        const key = keyOf(reached);
        if (seen.has(key)) continue;
        seen.add(key);
        states += 1;
        next.push(reached);
      }
    }
    frontier = next;
  }
  return { found, states, transitions };
}

/** Two seated agents, and a review whose first turn is granted. */
function began(core: Reviewed): World {
  const seats = ['dev', 'qa'].map((agent) => ({ agent, priority: 10, timeoutMs: 600_000, rejoin: 'auto' as const }));
  const start: World = {
    floor: core.floorWithWork.empty(HALL),
    review: core.reviewOnFloor.empty(HALL),
    at: NOON,
    worked: 0,
    passed: null,
    done: null,
    trace: [],
  };
  const moves: readonly ReviewMove[] = [
    { to: 'floor', command: { type: 'configure', settings: { ...PLAIN_SETTINGS, onRestart: 'resume' }, seats } },
    { to: 'floor', command: { type: 'join', agent: 'dev' } },
    { to: 'floor', command: { type: 'join', agent: 'qa' } },
    {
      to: 'review',
      command: {
        type: 'START',
        id: `${HALL}-1`,
        primary: 'dev',
        reviewer: 'qa',
        task: 'Write it',
        by: 'ann',
        settings: { ...SETTINGS, signals: SIGNALS },
      },
    },
  ];
  return moves.reduce((world, move) => take(core, world, move) ?? world, start);
}

function tried(core: Reviewed, world: World, move: ReviewMove, found: FoundReviewed[]): World | null {
  try {
    const reached = take(core, world, move);
    if (reached !== null) check(world, reached, move);
    return reached;
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    found.push({ invariant: error instanceof Broken ? 'R1' : 'Error', what, trace: [...world.trace, move] });
    return null;
  }
}

/** The texts that a holder says: signals, the signal words in prose, and a finding. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  dev: ['One.', 'It works.\nDONE', 'F1: fixed', 'PASS'],
  qa: ['PASS', 'Do not PASS this.', '[major] It breaks\nREVISE', '> PASS', 'FAIL', 'DONE'],
};

function movesOf({ floor, review: { review }, at }: World): readonly ReviewMove[] {
  const moves: ReviewMove[] = [];
  const onFloor = (command: Command) => moves.push({ to: 'floor', command });
  const onReview = (command: ReviewCommand) => moves.push({ to: 'review', command });
  const { turn } = floor;
  if (turn?.status === 'active') {
    const { agent, epoch } = turn;
    if (!turn.said) for (const text of TEXTS[agent] ?? []) onFloor({ type: 'say', agent, epoch, text, mentions: [] });
    onFloor({
      type: 'end',
      agent,
      epoch,
      outcome: 'completed',
      signalled: true,
      handTo: agent === 'dev' ? 'qa' : 'dev',
    });
    onFloor({ type: 'leave', agent, cause: 'gone' });
  }
  for (const { agent, present } of floor.seats) if (!present) onFloor({ type: 'join', agent });
  if (floor.catchingUp) onFloor({ type: 'catchUp' });
  else onFloor({ type: 'restart' });
  onFloor({ type: 'stop', by: 'ann' });
  onFloor({ type: 'receive', id: `m${at}`, order: `${at}`.padStart(12, '0'), addressed: [] });
  if (!isOpen(review)) return moves;
  if (review.turn?.ended === true && review.turn.epoch !== null)
    for (const tree of ['a', 'b'])
      onReview({ type: 'MEASURED', epoch: review.turn.epoch, work: { tree, commit: null } });
  onReview({ type: 'SAID', agent: 'qa', epoch: (review.turn?.epoch ?? 1) - 1, text: 'PASS' });
  onReview({ type: 'CANCEL', by: 'ann', reason: 'no' });
  if (review.waiting !== null) {
    onReview({ type: 'UPHOLD', by: 'ann' });
    onReview({ type: 'MORE', by: 'ann', iterations: 1 });
    onReview({ type: 'TICK' });
  }
  return moves;
}

/** Makes a move with all its consequences. `null` when it is refused. */
function take(core: Reviewed, world: World, move: ReviewMove): World | null {
  const deadline = core.reviewOnFloor.nextDeadline(world.review);
  const isTick = move.to === 'review' && move.command.type === 'TICK';
  const at = isTick ? (deadline ?? world.at) : world.at + 1;
  let reached: World = { ...world, at, trace: [...world.trace, move] };
  const open: CommandFor[] = [
    {
      machine: move.to === 'floor' ? core.floorWithWork.name : core.reviewOnFloor.name,
      key: HALL,
      command: move.command,
    },
  ];
  for (let count = 0; open.length > 0; count += 1) {
    must(count < 50, 'a chain of commands does not end');
    const { machine, command } = open.shift() ?? { machine: '', command: null };
    const [next, caused, isTaken] =
      machine === core.reviewOnFloor.name ? byReview(core, reached, command, at) : byFloor(core, reached, command, at);
    if (count === 0 && !isTaken) return null;
    reached = next;
    open.push(...caused);
  }
  return reached;
}

type Taken = readonly [world: World, caused: readonly CommandFor[], isTaken: boolean];

function byFloor({ floorWithWork: machine }: Reviewed, world: World, command: unknown, at: number): Taken {
  const decision = machine.decide(world.floor, takenBy(machine, command), at);
  if (!decision.ok) return [world, [], false];
  const floor = decision.facts.reduce((each, fact) => machine.evolve(each, machine.fact.parse(fact), at), world.floor);
  return [{ ...world, floor }, decision.facts.flatMap((fact) => machine.causes(fact, floor)), true];
}

function byReview({ reviewOnFloor: machine }: Reviewed, world: World, command: unknown, at: number): Taken {
  const decision = machine.decide(world.review, takenBy(machine, command), at);
  if (!decision.ok) return [world, [], false];
  let reached = world;
  for (const fact of decision.facts) {
    checkFact(reached.review, fact);
    reached = noted({ ...reached, review: machine.evolve(reached.review, machine.fact.parse(fact), at) }, fact);
  }
  return [reached, decision.facts.flatMap((fact) => machine.causes(fact, reached.review)), true];
}

/** Adds the onlooker's notes of a fact. It reads the text in another way than the machine. */
function noted(world: World, fact: ReviewFact): World {
  const work = world.review.review?.work?.tree ?? null;
  if (fact.type === 'iterationBegun') return { ...world, worked: world.worked + 1, done: null };
  if (fact.type === 'verdictVoided') return { ...world, passed: null };
  if (fact.type !== 'turnOver') return world;
  const text = lastText(world);
  const heard = world.review.review?.turn?.heard?.signal ?? null;
  const isSignal = fact.agent === 'qa' && (text === 'PASS' || text === 'FAIL');
  if (isSignal) must(heard === text.toLowerCase(), `${text} of the reviewer is not heard`);
  if (fact.agent === 'qa') return { ...world, passed: text === 'PASS' ? work : null };
  return { ...world, passed: null, done: text.endsWith('\nDONE') ? work : null };
}

function lastText({ trace }: World): string {
  for (const { to, command } of trace.toReversed())
    if (to === 'floor' && command.type === 'say') return command.text;
    else if (
      to === 'floor' &&
      (command.type === 'end' || command.type === 'restart') &&
      command !== trace.at(-1)?.command
    )
      return '';
  return '';
}

function checkFact({ review }: ReviewState, fact: ReviewFact): void {
  if (fact.type === 'reviewMoved') must(triggerOf(fact.from, fact.to) !== null, `${fact.from} to ${fact.to}`);
  if (fact.type === 'turnHeard' || fact.type === 'turnOver')
    must(fact.epoch === review?.turn?.epoch, 'a signal of another epoch counts');
}

/** The invariants of a review and its floor, checked after each move. */
function check(before: World, { floor, review: { review }, worked, passed }: World, move: ReviewMove): void {
  if (review === null) throw new Broken('the review is lost');
  must(review.iteration === worked, `iteration ${review.iteration} after ${worked} turns of work`);
  must(review.iteration >= (before.review.review?.iteration ?? 0), 'the count restarts');
  must(isOpen(review) === (floor.task !== undefined), 'floor and review disagree whether a review is open');
  must(floor.usageSincePerson.turns === 0 || !isOpen(review), 'a turn of the review counts as a turn of the exchange');
  const measured = move.to === 'review' && move.command.type === 'MEASURED' ? move.command.work?.tree : undefined;
  if (review.status === 'complete' && measured !== undefined)
    must(measured === review.work?.tree, 'a verdict for another tree counts');
  if (!isOpen(review)) {
    must(
      turnsOf(floor).every(({ brief }) => brief === undefined),
      'the turn of a review outlives it',
    );
    if (review.status === 'complete')
      must(passed !== null && passed === review.work?.tree, 'passed, and nobody said so');
    return;
  }
  checkTurn(floor, review);
  must(review.iteration <= review.settings.maxIterations, 'more iterations than allowed');
  if (move.to === 'floor' && move.command.type === 'end')
    must(floor.turn === null || floor.turn.brief !== undefined, 'a hand-over calls an agent in a review');
}

/** An open review waits for a turn, people or a deadline. Its turns go to the agent that it asks. */
function checkTurn(
  floor: Floor,
  { turn, waiting, status, primary, reviewer }: NonNullable<ReviewState['review']>,
): void {
  must(turn !== null || waiting !== null, 'an open review waits for nobody');
  must(waiting === null || waiting.for === 'budget' || waiting.until !== null, 'it waits for ever');
  const granted = floor.turn?.brief === undefined ? null : floor.turn;
  if (granted !== null) {
    must(turn?.agent === granted.agent, `${granted.agent} has the turn of ${turn?.agent ?? 'nobody'}`);
    must(
      turn?.epoch === granted.epoch || granted.status === 'suspended',
      'the review knows another epoch than the floor',
    );
  }
  if (turn !== null && waiting?.for !== 'arbiter' && waiting?.for !== 'fail')
    must(turn.agent === (status === 'working' ? primary : reviewer), `${turn.agent} is asked while ${status}`);
  const isAwaited = turn !== null && turn.ended === undefined && granted === null;
  if (isAwaited && floor.turn === null && waiting === null && !floor.catchingUp)
    must(floor.task?.next?.agent === turn.agent, 'the floor does not know which turn the review asks for');
  const isStuck =
    isAwaited && floor.task?.next !== null && floor.turn === null && !floor.catchingUp && waiting === null;
  const isThere = floor.seats.every(({ present, status: seat }) => present && seat === 'QUEUED');
  must(!isStuck || !isThere, 'both agents are there, and nobody is granted the turn');
}

/** The key of a state. States with equal keys are searched once, so it has all that later checks read. */
function keyOf(world: World): string {
  const { floor, passed, done } = world;
  const { review } = world.review;
  const offset = floor.epoch;
  const known =
    review === null ? null : { ...review, startedAt: 0, iterations: [], usage: 0, outcome: review.outcome?.kind };
  const turn = review?.turn == null ? null : { ...review.turn, epoch: (review.turn.epoch ?? 0) - offset };
  const { seats, queue, catchingUp, condition, stopped } = floor;
  const holder =
    floor.turn === null ? null : [floor.turn.agent, floor.turn.status, floor.turn.said, floor.turn.brief !== undefined];
  const waiting = review?.waiting == null ? null : review.waiting.for;
  return JSON.stringify([
    { ...known, turn, waiting },
    seats.map(({ status, present }) => [status, present]),
    [queue, catchingUp, condition, stopped, floor.exchange === null, floor.held.length > 0],
    [holder, floor.task?.next, floor.task?.held, passed, done, floor.turn?.said === true && lastText(world)],
  ]);
}
