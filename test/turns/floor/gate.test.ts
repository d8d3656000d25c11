import { describe, expect, test } from 'vitest';
import { gate, obstacles } from '../../../src/turns/floor/gate.ts';
import type { Asker } from '../../../src/turns/floor/gate.ts';
import { stage } from './stage.ts';
import type { Stage } from './stage.ts';

test('T64 the only agent counts as available while it waits', () => {
  for (const waitPolicy of ['hold', 'release'] as const) {
    const play = stage({ agents: ['pm'], settings: { waitPolicy } });
    play.person('m1');
    play.says('pm');
    play.waits('pm');
    expect(whys(play)).not.toContain('nobody-available');
  }
});

const whys = (play: Stage): readonly string[] => obstacles(play.floor, play.at).map(({ why }) => why);
const why = (play: Stage, asker: Asker): string | null => gate(play.floor, play.at, asker)?.why ?? null;

/** Lets each agent speak in its turn until the floor is free. */
function letSpeak(play: Stage): void {
  for (let turn = play.floor.turn; turn !== null; turn = play.floor.turn) play.speaks(turn.agent);
}

const SITUATIONS: readonly (readonly [string, (play: Stage) => void, readonly string[]])[] = [
  ['while it rests', () => {}, ['resting']],
  ['while somebody has it', (play) => void play.person('m1'), ['taken']],
  ['while it is paused', (play) => void play.operator({ type: 'pause' }), ['paused']],
  [
    'while the history is read',
    (play) => {
      play.person('m1');
      play.losesTouch();
    },
    ['catching-up', 'taken'],
  ],
  [
    'after a stop',
    (play) => {
      play.person('m1');
      play.operator({ type: 'stop' });
    },
    ['stopped', 'resting'],
  ],
  [
    'when nobody is in the queue',
    (play) => {
      for (const agent of ['pm', 'dev', 'qa']) play.leaves(agent);
    },
    ['nobody-available', 'resting'],
  ],
];

test('between the turns of a task, the task decides who is next', () => {
  const play = stage();
  const signals = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };
  play.act({ type: 'beginTask', kind: 'ticket', id: 'web/c-1', key: 'web', primary: 'pm', signals });
  expect(obstacles(play.floor, play.at)).toEqual([{ why: 'resting', after: 'ticket' }]);
  expect(play.refused({ type: 'start', by: 'ann' })).toBe('task-open');
  expect(play.refused({ type: 'grant', by: 'ann', agent: 'pm' })).toBe('task-open');
  play.act({ type: 'askTaskTurn', id: 'web/c-1', agent: 'pm', brief: 'Go on.' });
  expect(play.refused({ type: 'grant', by: 'ann', agent: 'dev' })).toBe('task-open');
});

test('a turn of a task that waits without the floor ends with its task', () => {
  const play = stage({ settings: { waitPolicy: 'release' } });
  const signals = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };
  const id = 'web/c-1';
  play.act({ type: 'beginTask', kind: 'ticket', id, key: 'web', primary: 'dev', signals });
  play.act({ type: 'askTaskTurn', id, agent: 'dev', brief: 'Go on.' });
  play.waits('dev');
  play.act({ type: 'endTask', report: { kind: 'ticket', id, about: 'c-1', text: 'c-1 is over' } });
  expect([play.status('dev'), play.floor.parked, play.floor.task]).toEqual(['QUEUED', [], undefined]);
});

test('an order with a facilitator needs one', () => {
  const play = stage();
  expect(play.refused({ type: 'order', by: 'ann', order: 'facilitator' })).toBe('no-facilitator');
});

describe('the floor cannot be granted', () => {
  test.each(SITUATIONS)('%s', (_when, bring, expected) => {
    const play = stage();
    bring(play);
    expect(whys(play)).toEqual(expected);
  });

  test('while the facilitator is asked', () => {
    const play = stage({ settings: { order: 'facilitator', facilitator: 'pm' } });
    play.person('m1');
    expect(obstacles(play.floor, play.at)).toEqual([{ why: 'facilitation', agent: 'pm' }]);
  });

  test('when a limit is reached: "over-budget" during the last turn, "limit" after it', () => {
    const play = stage({ settings: { maxTurns: 1 } });
    play.person('m1');
    expect(whys(play)).toEqual(['taken', 'over-budget']);
    letSpeak(play);
    expect(obstacles(play.floor, play.at)).toEqual([
      { why: 'limit', budget: 'turns' },
      { why: 'resting', after: 'rounds' },
    ]);
  });

  test('while it rests, unless a person asks for it', () => {
    const play = stage({ settings: { order: 'mention' } });
    play.operator({ type: 'start' });
    expect(whys(play)).toEqual(['resting']);
    expect(why(play, 'person')).toBeNull();
  });
});

describe('obstacles depend on who asks', () => {
  test('a person lifts a stop and a limit, a program neither', () => {
    const stopped = stage();
    stopped.person('m1');
    stopped.operator({ type: 'stop' });
    expect([why(stopped, 'person'), why(stopped, 'program'), why(stopped, 'aside')]).toEqual([
      null,
      'stopped',
      'stopped',
    ]);
    const limited = stage({ settings: { maxTurns: 1 } });
    limited.person('m1');
    letSpeak(limited);
    expect([why(limited, 'person'), why(limited, 'program'), why(limited, 'start')]).toEqual([null, 'limit', null]);
  });

  test('a daily budget stops everybody except an operator who names the next speaker', () => {
    const dayBudget = { tokens: 10, costMicros: null, ms: null };
    const play = stage({ settings: { dayBudget } });
    play.person('m1');
    play.spends('pm', 10, 0);
    letSpeak(play);
    const askers = ['person', 'program', 'aside', 'start', 'grant'] as const;
    expect(askers.map((asker) => why(play, asker))).toEqual(['day-limit', 'day-limit', 'day-limit', 'day-limit', null]);
    expect(play.refused({ type: 'start', by: 'ada' })).toBe('day-limit');
  });

  test('a turn that keeps the floor continues in a pause, one without it does not', () => {
    const play = stage();
    play.person('m1');
    play.waits('pm');
    play.operator({ type: 'pause' });
    expect([why(play, 'holder'), why(play, 'parked')]).toEqual([null, 'paused']);
    play.losesTouch();
    expect([why(play, 'holder'), why(play, 'parked')]).toEqual(['catching-up', 'catching-up']);
  });
});

describe('a resting floor', () => {
  /** Returns the last obstacle: why the floor rests. */
  const after = (play: Stage): unknown => obstacles(play.floor, play.at).at(-1);

  test('T17 says that everybody had a turn', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    expect(after(play)).toEqual({ why: 'resting', after: 'nothing' });
    play.person('m1');
    play.speaks('pm');
    play.speaks('dev');
    expect(after(play)).toEqual({ why: 'resting', after: 'rounds' });
  });

  test.each([
    [{ order: 'manual' }, 'manual'],
    [{ order: 'mention' }, 'mention'],
    [{ order: 'mention', defaultAgent: 'pm' }, 'nothing'],
  ] as const)('T17 with %j says what its turns depend on', (settings, way) => {
    expect(after(stage({ settings }))).toEqual({ why: 'resting', after: way });
  });
});
