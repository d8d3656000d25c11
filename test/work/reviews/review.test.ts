import { describe, expect, test } from 'vitest';
import { reviewMachine } from '../../../src/work/reviews/review-binding.ts';
import type { ReviewCommand } from '../../../src/work/reviews/review-events.ts';
import {
  REVIEW_STATUSES,
  REVIEW_TRANSITIONS,
  RUN_STATES,
  statusOfRunState,
  triggerOf,
} from '../../../src/work/reviews/review.ts';
import type { Review, ReviewSettings } from '../../../src/work/reviews/review.ts';
import { PLAIN, START, searchReviews, textOf } from './search.ts';
import type { Said } from './search.ts';

type Turn = Said & { readonly tree?: string; readonly completed?: boolean };

const MAJOR = { severity: 'major', title: 'It breaks' } as const;
const MINOR = { severity: 'minor', title: 'A name' } as const;

/** A review that is played command by command. */
class Course {
  state = reviewMachine.empty('c');
  at = 1_000;
  #epoch = 0;
  #tree = 'a';

  constructor(settings: Partial<ReviewSettings> = {}) {
    this.give({ ...START, settings: { ...PLAIN, maxIterations: 10, ...settings } });
    this.give({ type: 'READY' });
  }

  get review(): Review {
    const { review } = this.state;
    if (review === null) throw new Error('there is no review');
    return review;
  }

  /** Gives a command. Returns the refusal, or `null`. */
  give(command: ReviewCommand): string | null {
    const decision = reviewMachine.decide(this.state, command, this.at);
    if (!decision.ok) return decision.refusal;
    this.state = decision.facts.reduce((state, fact) => reviewMachine.evolve(state, fact, this.at), this.state);
    return null;
  }

  /** Plays the whole turn of the agent that is asked. */
  turn(agent: string, { tree = this.#tree, completed = true, ...said }: Turn = {}): this {
    this.#epoch += 1;
    this.#tree = tree;
    const refusals = [
      this.give({ type: 'GRANTED', agent, epoch: this.#epoch }),
      this.give({ type: 'SAID', agent, epoch: this.#epoch, text: textOf(said) }),
      this.give({ type: 'ENDED', agent, epoch: this.#epoch, completed }),
      completed ? this.give({ type: 'MEASURED', epoch: this.#epoch, work: { tree, commit: null } }) : null,
    ];
    if (refusals.some((refusal) => refusal !== null)) throw new Error(`refused: ${refusals.join()}`);
    return this;
  }

  works(said: Turn = {}): this {
    return this.turn('dev', said);
  }

  reviews(said: Turn = {}): this {
    return this.turn('qa', said);
  }

  get end(): string {
    const { status, outcome, iteration } = this.review;
    return `${status} ${outcome?.kind ?? this.review.waiting?.for ?? this.review.turn?.agent} after ${iteration}`;
  }
}

describe('the tables of the specification', () => {
  const wanted: Readonly<Record<string, () => Course>> = {
    'init to working': () => new Course(),
    'init to failed': () => {
      const course = new Course();
      course.state = reviewMachine.empty('c');
      course.give(START);
      course.give({ type: 'UNABLE', agent: 'qa', why: 'no such program' });
      return course;
    },
    'working to reviewing': () => new Course().works(),
    'working to complete': () => new Course().works({ signal: 'done' }),
    'working to failed': () => new Course().works({ completed: false }).works({ completed: false }),
    'reviewing to working': () => new Course().works().reviews({ signal: 'revise' }),
    'reviewing to complete': () => new Course().works().reviews({ signal: 'pass' }),
    'reviewing to failed': () => new Course().works().reviews({ signal: 'fail' }),
  };

  test.each(REVIEW_TRANSITIONS.map((row) => [`${row.from} to ${row.to}`, row] as const))('%s', (name, { to }) => {
    expect(wanted[name]?.().review.status).toBe(to);
  });

  test('list eight transitions, and none from an end state', () => {
    expect(REVIEW_TRANSITIONS).toHaveLength(8);
    for (const to of REVIEW_STATUSES)
      expect([triggerOf('complete', to), triggerOf('failed', to)]).toEqual([null, null]);
  });

  test.each(REVIEW_STATUSES.map((status) => [status]))('map %s to a run state and back', (status) => {
    expect(statusOfRunState(RUN_STATES[status])).toBe(status);
  });

  test.each([['paused'], ['']])('load the unknown run state %j as failed', (word) => {
    expect(statusOfRunState(word)).toBe('failed');
  });

  test('count an iteration before its turn, and alternate the agents', () => {
    const course = new Course();
    expect([course.review.iteration, course.review.turn?.agent]).toEqual([1, 'dev']);
    course.works({ tree: 'b' });
    expect([course.review.iteration, course.review.turn?.agent]).toEqual([1, 'qa']);
    course.reviews({ signal: 'revise', findings: [MAJOR] });
    expect([course.review.iteration, course.review.turn?.agent]).toEqual([2, 'dev']);
  });
});

describe('a review ends', () => {
  test.each<readonly [string, Partial<ReviewSettings>, (course: Course) => Course, string]>([
    ['by DONE of the primary agent', {}, (c) => c.works({ signal: 'done' }), 'complete passed after 1'],
    ['by PASS', {}, (c) => c.works().reviews({ signal: 'pass' }), 'complete passed after 1'],
    ['by FAIL of the primary agent', {}, (c) => c.works({ signal: 'fail' }), 'failed failed after 1'],
    [
      'at its limit, within the reviewer’s last turn',
      { maxIterations: 1 },
      (c) => c.works().reviews({ signal: 'revise' }),
      'failed limit after 1',
    ],
    [
      'not by DONE where a review is wanted',
      { until: 'review' },
      (c) => c.works({ signal: 'done' }),
      'reviewing qa after 1',
    ],
    [
      'by both in one iteration',
      { until: 'consensus' },
      (c) => c.works({ signal: 'done' }).reviews({ signal: 'pass' }),
      'complete passed after 1',
    ],
    [
      'not by PASS alone where both must agree',
      { until: 'consensus' },
      (c) => c.works().reviews({ signal: 'pass' }),
      'working dev after 2',
    ],
    [
      'not by FAIL that only means "not yet"',
      { onFail: 'revise' },
      (c) => c.works().reviews({ signal: 'fail' }),
      'working dev after 2',
    ],
    [
      'not at once by a first FAIL with findings: a person decides',
      {},
      (c) => c.works().reviews({ signal: 'fail', findings: [MAJOR] }),
      'reviewing fail after 1',
    ],
    [
      'with notes, once only minor findings are left',
      {},
      (c) =>
        c
          .works()
          .reviews({ signal: 'revise', findings: [MAJOR] })
          .works({ tree: 'b', answers: [{ id: 'F1', answer: 'fixed' }] })
          .reviews({ signal: 'revise', findings: [MINOR] }),
      'complete passed with notes after 2',
    ],
  ])('%s', (_how, settings, play, end) => {
    expect(play(new Course(settings)).end).toBe(end);
  });
});

describe('a verdict', () => {
  test('is ignored when the work changed meanwhile, and the reviewer is asked again', () => {
    const course = new Course().works({ tree: 'a' }).reviews({ signal: 'pass', tree: 'b' });
    expect([course.end, course.review.verdict]).toEqual(['reviewing qa after 1', null]);
    expect(course.reviews({ signal: 'pass' }).end).toBe('complete passed after 1');
  });

  test.each<readonly [string, Said]>([
    ['that is missing', {}],
    ['that is doubled', { broken: true }],
    ['that says two things', { signal: 'pass', findings: [MAJOR] }],
    ['in the primary agent’s word', { signal: 'done' }],
  ])('%s is requested once more, and then counts as revise', (_how, said) => {
    const course = new Course().works().reviews(said);
    expect(course.review.turn?.purpose).toBe('repair');
    expect(course.reviews(said).end).toBe('working dev after 2');
  });

  test('of an older turn changes nothing', () => {
    const course = new Course().works();
    course.give({ type: 'GRANTED', agent: 'qa', epoch: 7 });
    course.give({ type: 'GRANTED', agent: 'qa', epoch: 8 });
    const late: ReviewCommand = { type: 'SAID', agent: 'qa', epoch: 7, text: 'PASS' };
    expect(course.give(late)).toBe('NOT_ITS_TURN');
    expect(course.give({ ...late, agent: 'dev', epoch: 8 })).toBe('NOT_ITS_TURN');
  });
});

describe('a finding', () => {
  const first = (settings: Partial<ReviewSettings> = {}) =>
    new Course(settings).works({ tree: 'a' }).reviews({ signal: 'revise', findings: [MAJOR] });
  const statuses = ({ review }: Course) => review.findings.map(({ id, status }) => `${id} ${status}`);

  test('keeps its identity over the iterations, by its title', () => {
    const course = first()
      .works({ tree: 'b' })
      .reviews({ signal: 'revise', findings: [{ ...MAJOR, title: 'it breaks!' }] });
    expect(statuses(course)).toEqual(['F1 persisting']);
  });

  test('reappears when it is reported again after a fix', () => {
    const course = first().works({ tree: 'b', answers: [{ id: 'F1', answer: 'fixed' }] });
    expect(statuses(course)).toEqual(['F1 fixed']);
    expect(statuses(course.reviews({ signal: 'revise', findings: [MAJOR] }))).toEqual(['F1 reappeared']);
    expect(course.review.iterations.map(({ opened, fixed, reappeared }) => [opened, fixed, reappeared])).toEqual([
      [1, 0, 0],
      [0, 1, 1],
      [0, 0, 0],
    ]);
  });

  test('that is open sends DONE back once', () => {
    const course = first().works({ tree: 'b', signal: 'done' });
    expect(course.review.turn).toMatchObject({ agent: 'dev', purpose: 'answers' });
    expect(course.works({ signal: 'done', answers: [{ id: 'F1', answer: 'fixed' }] }).end).toBe(
      'complete passed after 2',
    );
  });

  test("that is disputed twice needs a person's decision", () => {
    const dispute = [{ id: 'F1', answer: 'disputed', reason: 'it is meant so' }] as const;
    const course = first()
      .works({ tree: 'b', answers: dispute })
      .reviews({ signal: 'revise', findings: [MAJOR] })
      .works({ tree: 'c', answers: dispute })
      .reviews({ signal: 'revise', findings: [MAJOR] });
    expect(course.end).toBe('reviewing arbiter after 3');
    expect(course.give({ type: 'UPHOLD', by: 'ann' })).toBeNull();
    expect([course.end, course.review.findings[0]?.disputes]).toEqual(['working dev after 4', 0]);
  });
});

describe('a stall', () => {
  const stalled = () =>
    new Course()
      .works({ tree: 'a' })
      .reviews({ signal: 'revise', findings: [MAJOR] })
      .works()
      .works();

  test('is two iterations without a change: people decide, and equal work is not reviewed again', () => {
    const course = stalled();
    expect([course.end, course.review.usage.turns]).toEqual(['reviewing arbiter after 3', 4]);
  });

  test.each<readonly [ReviewCommand, string]>([
    [{ type: 'ACCEPT', by: 'ann' }, 'complete passed after 3'],
    [{ type: 'UPHOLD', by: 'ann' }, 'working dev after 4'],
    [{ type: 'MORE', by: 'ann', iterations: 3 }, 'working dev after 4'],
    [{ type: 'CANCEL', by: 'ann', reason: 'enough' }, 'failed cancelled after 3'],
  ])('ends with %j', (command, end) => {
    const course = stalled();
    expect(course.give(command)).toBeNull();
    expect(course.end).toBe(end);
  });

  test('fails the review when nobody decides in time', () => {
    const course = stalled();
    expect(course.give({ type: 'TICK' })).toBe('NOT_DUE');
    course.at = reviewMachine.nextDeadline(course.state) ?? 0;
    expect(course.give({ type: 'TICK' })).toBeNull();
    expect(course.end).toBe('failed stalled after 3');
  });
});

describe('a refused command', () => {
  test.each<readonly [string, ReviewCommand, string]>([
    ['while a review is open', START, 'REVIEW_OPEN'],
    ['for too many iterations', { type: 'MORE', by: 'ann', iterations: 100 }, 'TOO_MANY_ITERATIONS'],
    ['when nothing waits for it', { type: 'UPHOLD', by: 'ann' }, 'NOT_WAITING'],
  ])('%s', (_why, command, refusal) => {
    expect(new Course().give(command)).toBe(refusal);
  });

  test('for one agent in both roles, and without an open review', () => {
    const course = new Course();
    course.state = reviewMachine.empty('c');
    expect(course.give({ ...START, reviewer: 'dev' })).toBe('SAME_AGENT');
    expect(course.give({ type: 'CANCEL', by: 'ann', reason: '' })).toBe('NO_REVIEW');
    course.give(START);
    expect(course.give({ type: 'ACCEPT', by: 'ann' })).toBe('INVALID_TRANSITION');
  });
});

describe('any order of commands', () => {
  test.each([
    ['until a signal', {}],
    ['until the review', { until: 'review', onFail: 'revise' }],
    ['until both agree', { until: 'consensus', patience: 1 }],
  ] as const)('keeps every invariant: %s', (_name, settings) => {
    const { found, transitions } = searchReviews(reviewMachine, settings, 12);
    expect(found).toEqual([]);
    expect(transitions).toBeGreaterThan(50_000);
  });
});
