import { describe, expect, test } from 'vitest';
import { TICKET_STATES } from '../../../src/turns/crew-view.ts';
import { crewViewOf, dashboardText, buttonMark, commitMark, workersText } from '../../../src/work/crews/crew-shown.ts';
import type { CrewSurroundings } from '../../../src/work/crews/crew-shown.ts';
import { evolveCrew } from '../../../src/work/crews/crew-evolve.ts';
import { emptyCrew, idleWorker } from '../../../src/work/crews/crew.ts';
import type { Crew, CrewSettings, Worker } from '../../../src/work/crews/crew.ts';

const AROUND: CrewSurroundings = {
  store: 's1',
  problem: null,
  ready: [],
  listed: [],
  waiting: 3,
  runSteps: () => null,
  whyHeld: () => null,
  facts: [],
  clean: (text) => text,
  most: 20,
};

const SETTINGS: CrewSettings = {
  channel: 'console:crew',
  maxWorkers: 10,
  maxSteps: 20,
  patience: 3,
  merge: 'ask',
  ticketCostMicros: null,
  main: 'main',
};

function worker(name: string, change: Partial<Worker> = {}): Worker {
  return { ...idleWorker({ name, agent: `web-${name}`, startedAt: 1 }), ...change };
}

function atWork(name: string, change: Partial<Worker> = {}): Worker {
  const ticket = { id: `c-${name}`, title: `Title of ${name}`, text: '', session: 's', worktree: 'w', branch: 'b' };
  const place = { base: '0', slot: 0, thread: `console:web/${name}`, at: 100 };
  const step = { kind: 'step', about: '', epoch: 3 } as const;
  return worker(name, {
    ticket: { ...ticket, ...place },
    status: 'working',
    step,
    stepCount: 2,
    maxSteps: 20,
    ...change,
  });
}

function crewOf(workers: readonly Worker[], change: Partial<Crew> = {}): Crew {
  return { ...emptyCrew('web'), running: true, settings: SETTINGS, workers: [...workers], ...change };
}

const asks = (name: string, since: number): Worker =>
  atWork(name, { status: 'done', step: null, waiting: { for: 'weakened', why: 'it skips a test', since } });

describe('the workers of a crew', () => {
  test('are listed with those that wait for a person first, the longest wait first', () => {
    const stuck = atWork('D', { status: 'stuck', step: null, errors: 5, errorAt: 150, lastError: 'ENOSPC' });
    const crew = crewOf([worker('A'), atWork('B'), asks('C', 300), stuck, asks('E', 200)]);
    const { workers } = crewViewOf(crew, AROUND);
    expect(workers.map(({ name, asksPeople, since }) => [name, asksPeople, since])).toEqual([
      ['D', true, 150],
      ['E', true, 200],
      ['C', true, 300],
      ['B', false, null],
      ['A', false, null],
    ]);
  });

  test.each([
    ['a question', asks('A', 7), 'The changes make tests weaker. Merge them anyway? it skips a test.', 7],
    ['its tests', atWork('A', { status: 'done', step: null, next: 'test', lastStepAt: 9 }), 'tests run', 9],
    ['a review', atWork('A', { status: 'done', step: null, next: 'review', lastStepAt: 9 }), 'is reviewed', 9],
    ['its merge', atWork('A', { status: 'done', step: null, next: 'merge', lastStepAt: 9 }), 'waits for its merge', 9],
    [
      'another try',
      atWork('A', { step: null, retryAt: 0, errorAt: 8, lastError: 'x' }),
      'tries again at 00:00 UTC: x',
      8,
    ],
    ['its worktree', atWork('A', { status: 'ready', step: null }), 'its worktree is being made', 100],
    [
      'its turn',
      atWork('A', { step: { kind: 'step', about: '', epoch: null, queued: true } }),
      'waits for its turn',
      100,
    ],
    [
      'its end after a merge',
      atWork('A', { leaving: { why: 'merged', words: '0123456789abcdef' } }),
      'is merged as 0123456789, and tidies up',
      100,
    ],
    ['its end', atWork('A', { leaving: { why: 'killed', words: 'reset by Ann' } }), 'leaves: reset by Ann', 100],
    [
      'its meeting',
      atWork('A', {
        meeting: { ticket: 't-5', otherWorker: 'B', about: '', hunks: '', conflict: '', at: 1, turns: 0 },
      }),
      'met a conflict, and discusses it with B, who wrote t-5',
      100,
    ],
    [
      'the end of its conflict',
      atWork('A', { step: { kind: 'conflict', about: '', epoch: 7 } }),
      'resolves a conflict with main',
      100,
    ],
  ])('says that a worker waits for %s, and since when', (_what, one, words, since) => {
    expect(crewViewOf(crewOf([one]), AROUND).workers[0]).toMatchObject({ waits: words, since });
  });

  test('a worker that is stuck after conflicts shows their number', () => {
    const stuck = atWork('A', { status: 'stuck', step: null, conflicts: 4 });
    expect(crewViewOf(crewOf([stuck]), AROUND).workers[0]?.waits).toBe('met 4 conflicts with main');
  });

  test('a merge that waits for another merge names the other worker', () => {
    const waits = atWork('A', { status: 'done', step: null, next: 'merge' });
    const crew = crewOf([waits, worker('B')], { merging: { worker: 'B', tip: '1', main: '2' } });
    expect(crewViewOf(crew, AROUND).workers[0]?.waits).toBe('waits for the merge of B');
  });

  test('a step that its floor holds up waits for people, with the reason of the floor', () => {
    const held = crewViewOf(crewOf([atWork('A')]), {
      ...AROUND,
      whyHeld: () => ({ words: 'A waits for approval.', asks: true }),
    });
    expect(held.workers[0]).toMatchObject({ waits: 'A waits for approval.', asksPeople: true, isQuestion: false });
  });

  test('each state offers only its own commands; each button has the time of its question or ticket', () => {
    const stuck = atWork('D', { status: 'stuck', step: null, lastError: 'x' });
    const usedUp = atWork('F', { stepCount: 20, waiting: { for: 'unfinished', why: 'w', since: 400 } });
    const review = atWork('G', { status: 'done', step: null, next: 'review' });
    const of = (one: Worker) =>
      crewViewOf(crewOf([one]), AROUND).workers[0]?.buttons.map(({ label, line, mark }) => [label, line, mark]);
    expect(of(worker('A'))).toEqual([]);
    expect(of(atWork('B'))).toEqual([['Kill', '/crew kill B', 100]]);
    expect(of(asks('C', 300))).toEqual([
      ['Merge', '/crew answer C merge', 300],
      ['Continue work', '/crew answer C continue', 300],
      ['Keep and reopen', '/crew answer C keep', 300],
    ]);
    expect(of(stuck)).toEqual([
      ['Retry', '/crew retry D', 100],
      ['Kill', '/crew kill D', 100],
    ]);
    expect(of(usedUp)?.[0]).toEqual(['+20 steps', '/crew answer F continue', 400]);
    const merge = ['Merge', '/crew merge G', commitMark()];
    const hold = ['Hold', '/crew hold G', 100];
    expect(of(review)).toEqual([merge, hold]);
    expect(of({ ...review, next: 'merge' })).toEqual([hold]);
    expect(of({ ...review, next: 'test' })).toEqual([hold]);
    expect(of({ ...review, held: 'Ann' })).toEqual([merge]);
    expect(of({ ...review, next: 'merge', landsAt: 500 })).toEqual([merge, hold]);
    expect(of({ ...stuck, leaving: { why: 'killed', words: 'x' } })).toEqual([]);
    const work = { tree: 't', tip: 't', ahead: 1, dirty: false, unmerged: [] };
    const voted = { ...asks('C', 300), work, votes: [{ voter: 'u-1', by: 'Ann', tip: 't' }] };
    const crew = crewOf([voted], { settings: { ...SETTINGS, votes: 2 } });
    const [shown] = crewViewOf(crew, AROUND).workers;
    expect(shown?.buttons.map(({ label }) => label)).toEqual([
      'Merge (1 of 2)',
      'Continue work',
      'Keep and reopen',
      'Hold',
    ]);
    expect(shown?.waits).toContain('1 of 2 want it merged: Ann.');
    expect(buttonMark(voted, 'merge')).not.toBe(buttonMark({ ...voted, work: { ...work, tip: 'u' } }, 'merge'));
    const later = { ...asks('C', 301), work };
    expect(new Set([voted, later, { ...later, waiting: null }].map((each) => buttonMark(each, 'merge'))).size).toBe(3);
    expect([buttonMark(asks('C', 300), 'question'), buttonMark(worker('A'), 'ticket')]).toEqual([300, 0]);
  });
});

describe('the tickets of a crew', () => {
  test('are counted by state, and at most the newest `most` of each state are listed', () => {
    const finished = Array.from({ length: 2_000 }, (_, at) => ({ id: `m-${at}`, commit: `${at}`, worker: 'A', at }));
    const crew = crewOf([atWork('A')], {
      finished: [...finished, { id: 'u-1', commit: null, worker: 'B', at: 1 }],
      refused: [{ id: 'r-1', why: 'Ann kept it' }],
      proposals: [{ id: 'p-1', worker: 'A', from: 'c-A', title: 'More', text: '', deps: [], touches: [], at: 4 }],
    });
    const ready = [
      { id: 'c-A', title: 'in work since', text: '' },
      { id: 'o-1', title: 'Open one', text: '' },
    ];
    const { groups } = crewViewOf(crew, { ...AROUND, ready, listed: [{ id: 'x-1', why: 'a cycle' }], most: 2 });
    expect(groups.map(({ state, count }) => [state, count])).toEqual(
      TICKET_STATES.map((state) => [state, state === 'merged' ? 2_000 : state === 'waiting for others' ? 3 : 1]),
    );
    expect(groups.find(({ state }) => state === 'merged')?.tickets.map(({ id }) => id)).toEqual(['m-1999', 'm-1998']);
    expect(groups.find(({ state }) => state === 'ready')?.tickets).toEqual([
      { id: 'o-1', words: 'Open one', at: null },
    ]);
  });
});

describe('tests and merges', () => {
  test('are counted by their facts, and a conflict counts as one dropped merge only', () => {
    let crew = crewOf([atWork('A')]);
    const facts = [
      { type: 'tested', worker: 'A', tip: '1', verdict: 'flaky', output: '' },
      { type: 'tested', worker: 'A', tip: '1', verdict: 'red', output: '' },
      { type: 'mergeDropped', worker: 'A', why: 'conflict' },
      { type: 'conflicted', worker: 'A', round: 1, files: ['a'] },
      { type: 'mergeDropped', worker: 'A', why: 'red' },
    ] as const;
    for (const fact of facts) crew = evolveCrew(crew, fact, 5);
    const view = crewViewOf(crew, AROUND);
    expect(view.tests).toEqual({ green: 0, flaky: 1, red: 1, none: 0 });
    expect(view.merges).toEqual({ merged: 0, conflicts: 1, dropped: 2 });
  });
});

describe('the texts about a crew', () => {
  test('show a question with the commands that answer it, and redact secrets everywhere', () => {
    const clean = (text: string): string => text.replaceAll('it skips', '…');
    const facts = [{ key: 'web', seq: 1, hash: '', at: 5, fact: { type: 'noted', text: 'it skips b' } as const }];
    const view = crewViewOf(crewOf([asks('A', 300)]), { ...AROUND, clean, facts, problem: 'it skips c' });
    expect(JSON.stringify(view)).not.toContain('it skips');
    expect(view.log).toEqual([{ at: 5, worker: '', text: '… b' }]);
    expect(workersText(view)).toContain(
      '✋ The changes make tests weaker. Merge them anyway? … a test. /crew answer A merge to merge it · ',
    );
    expect(workersText(view)).toContain('⚠ No ticket can start: … c');
  });

  test('the dashboard says how often tests were flaky, and which tickets cannot start', () => {
    const counts = { green: 3, flaky: 1, red: 2, none: 0, conflicts: 1, dropped: 2 };
    const listed = [
      { id: 'x-1', why: 'a cycle' },
      { id: 'x-2', why: 'a cycle' },
    ];
    const text = dashboardText(crewViewOf(crewOf([atWork('A')], { counts }), { ...AROUND, listed, most: 1 }));
    for (const line of [
      '● A working · c-A Title of A · step 2 of 20 · 0 tokens',
      'Tests of work: 3 green, 2 red, 1 flaky. Merges begun and not made: 2. Conflicts: 1',
      'Tickets: 0 ready, 3 waiting for others, 1 in work, 2 cannot start, 0 merged, 0 closed without a change',
      'Cannot start:\n  x-1: a cycle\n  and 1 more',
    ])
      expect(text).toContain(line);
  });
});
