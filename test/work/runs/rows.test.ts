import { describe, expect, test } from 'vitest';
import { RUN_STATUSES, TURN_LIMITS } from '../../../src/work/runs/run.ts';
import { isListed } from '../../../src/work/runs/run-table.ts';
import { ROWS_OF_RUNS } from './table.ts';
import type { RunEventName } from '../../../src/work/runs/run-table.ts';
import {
  RunBench,
  abort,
  call,
  claim,
  complete,
  error,
  pause,
  request,
  resume,
  runIn,
  settle,
  start,
  step,
} from './fixture.ts';
import { standingOf } from '../../../src/work/runs/run-published.ts';
import type { RunCommand } from '../../../src/work/runs/run-events.ts';

const EVENTS: Readonly<Record<RunEventName, RunCommand>> = {
  START: start(),
  STEP: step(2),
  PAUSE: pause(),
  RESUME: resume(),
  ERROR: error(true),
  COMPLETE: complete,
  ABORT: abort,
};
const NAMES = ['START', 'STEP', 'PAUSE', 'RESUME', 'ERROR', 'COMPLETE', 'ABORT'] as const;

/** The specification's matrix of statuses and events. X: the event is accepted in this status. */
const MATRIX = `
idle          |   X   |  -   |   -   |   -    |   -   |    -     |   -   |
starting      |   -   |  X   |   -   |   -    |   X   |    -     |   X   |
running       |   -   |  X   |   X   |   -    |   X   |    X     |   X   |
paused        |   -   |  -   |   -   |   X    |   -   |    -     |   X   |
error         |   -   |  -   |   -   |   X    |   -   |    -     |   X   |
completed     |   X   |  -   |   -   |   -    |   -   |    -     |   -   |
`;

/** The specification's rows: number, from, event, to. */
const ROWS = [
  [1, 'idle', start(), 'starting'],
  [2, 'starting', step(1), 'running'],
  [3, 'starting', error(false), 'error'],
  [4, 'running', step(2), 'running'],
  [5, 'running', step(2), 'paused'],
  [6, 'running', pause('user_input'), 'paused'],
  [7, 'running', complete, 'completed'],
  [8, 'running', error(true), 'error'],
  [9, 'running', error(false), 'idle'],
  [10, 'running', abort, 'idle'],
  [11, 'paused', resume(), 'running'],
  [12, 'paused', abort, 'idle'],
  [13, 'error', resume(), 'running'],
  [14, 'error', abort, 'idle'],
  [15, 'completed', start({ task: { id: 'task-2', column: 'in_progress' } }), 'starting'],
] as const;

describe('the table of transitions', () => {
  test("of test/model has the rows that are tested here, and one more from the specification's matrix", () => {
    expect(ROWS_OF_RUNS).toEqual([
      ...ROWS.map(([row, from, { type }, to]) => [row, from, type, to]),
      [null, 'starting', 'ABORT', 'idle'],
    ]);
  });

  test("has an X where the specification's matrix has one", () => {
    const drawn = RUN_STATUSES.map((status) => NAMES.map((name) => (isListed(status, name) ? 'X' : '-')));
    const owner = MATRIX.trim()
      .split('\n')
      .map((line) =>
        line
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      );
    expect(drawn).toEqual(owner);
  });
});

describe('row', () => {
  test.each(ROWS.filter(([row]) => row !== 5))('%i: %s', (_row, from, command, to) => {
    const bench = runIn(from).do(command);
    expect([bench.refusal, bench.status]).toEqual([null, to]);
  });

  test('5: running, at its limit', () => {
    const bench = new RunBench().do(start({ maxTurns: 2 }), step(1), step(2, [call('a')]));
    expect([bench.refusal, bench.status, bench.state.run?.pause?.reason]).toEqual([null, 'paused', 'turn_limit']);
  });

  test('only in the matrix: starting, aborted', () => {
    expect(runIn('starting').do(abort).status).toBe('idle');
  });
});

describe('a command that the matrix does not list', () => {
  const cells = RUN_STATUSES.flatMap((status) =>
    NAMES.filter((name) => !isListed(status, name)).map((name) => [status, name] as const),
  );
  test.each(cells)('is refused without a change: %s, %s', (status, name) => {
    const bench = runIn(status);
    const before = bench.state;
    bench.do(EVENTS[name]);
    expect(bench.refusal).not.toBeNull();
    expect([bench.state, bench.facts]).toEqual([before, []]);
  });

  test("is refused with the specification's codes", () => {
    const refusal = (status: (typeof RUN_STATUSES)[number], command: RunCommand) => runIn(status).do(command).refusal;
    expect([
      refusal('running', start()),
      refusal('paused', start()),
      refusal('error', start()),
      refusal('idle', complete),
      refusal('idle', resume()),
      refusal('running', resume()),
      refusal('paused', step(2)),
    ]).toEqual([
      'AGENT_ALREADY_RUNNING',
      'AGENT_ALREADY_RUNNING',
      'AGENT_ALREADY_RUNNING',
      'AGENT_NO_AVAILABLE_TASK',
      'AGENT_NOT_RUNNING',
      'AGENT_NOT_RUNNING',
      'AGENT_NOT_RUNNING',
    ]);
  });
});

describe('guard', () => {
  test.each([
    ['backlog', null],
    ['in_progress', null],
    ['done', 'TASK_NOT_FOUND'],
  ])('hasValidTask: a task in %s: %j', (column, refusal) => {
    expect(new RunBench().do(start({ task: { id: 't', column } })).refusal).toBe(refusal);
  });

  test('hasValidTask: no task', () => {
    expect(new RunBench().do(start({ task: null })).refusal).toBe('TASK_NOT_FOUND');
  });

  test('withinTurnLimit, notAtTurnLimit: the step before the limit continues', () => {
    const bench = new RunBench().do(start({ maxTurns: 3 }), step(1), step(2));
    expect([bench.status, bench.state.run?.turn]).toEqual(['running', 2]);
    expect([bench.do(step(3)).status, bench.state.run?.turn]).toEqual(['paused', 3]);
  });

  test('atTurnLimit: a first step that is also the last one pauses the run', () => {
    const bench = new RunBench().do(start({ maxTurns: 1 }), step(1));
    expect([bench.status, bench.state.run?.pause?.reason]).toEqual(['paused', 'turn_limit']);
  });

  test('isRecoverable: an error at the start that is not recoverable cannot be resumed', () => {
    const bench = runIn('starting').do(error(false));
    expect([bench.status, bench.do(resume()).refusal, bench.do(abort).status]).toEqual([
      'error',
      'AGENT_EXECUTION_ERROR',
      'idle',
    ]);
  });

  test('hasValidSession: commands of an earlier session are refused', () => {
    const bench = runIn('running').do({ type: 'ATTACH', session: 's2' });
    for (const command of [step(2), complete, error(true)]) expect(bench.do(command).refusal).toBe('AGENT_NOT_RUNNING');
    expect(bench.do(step(2, [], 's2')).refusal).toBeNull();
  });

  test('canPause, canResume: a run that is starting cannot be paused or resumed', () => {
    expect([runIn('starting').do(pause()).refusal, runIn('starting').do(resume()).refusal]).toEqual([
      'AGENT_NOT_RUNNING',
      'AGENT_NOT_RUNNING',
    ]);
  });
});

describe('the step limit', () => {
  test('is 50, 100 or 200 by the type of the run, unless the start sets another', () => {
    const limits = (['task', 'conversational', 'background'] as const).map(
      (runType) => new RunBench().do(start({ runType })).state.run?.maxTurns,
    );
    expect([limits, Object.values(TURN_LIMITS)]).toEqual([
      [50, 100, 200],
      [50, 100, 200],
    ]);
    expect(new RunBench().do(start({ maxTurns: 7 })).state.run?.maxTurns).toBe(7);
  });

  test('leaves the calls of its last step pending, and they run after "continue"', () => {
    const bench = new RunBench().do(start({ maxTurns: 2 }), step(1), step(2, [call('a')]));
    expect([bench.open, bench.todo]).toEqual([['a pending'], []]);
    bench.do(resume());
    expect([bench.status, bench.state.run?.maxTurns, bench.todo]).toEqual(['running', 4, ['dispatch a']]);
  });

  test('is raised by the number of steps that a person names, at most 200', () => {
    const atLimit = () => new RunBench().do(start({ maxTurns: 1 }), step(1));
    expect(atLimit().do(resume({ more: 20 })).state.run?.maxTurns).toBe(21);
    expect([999_999, 0, -1, 201].map((more) => atLimit().do(resume({ more })).refusal)).toEqual(
      Array.from({ length: 4 }, () => 'AGENT_TURN_LIMIT_EXCEEDED'),
    );
  });

  test('is not raised by resuming another kind of pause', () => {
    expect(runIn('paused').do(resume({ more: 20 })).state.run?.maxTurns).toBe(50);
  });

  test('aborts the run when nobody decides, exactly at the deadline', () => {
    const bench = new RunBench().do(start({ maxTurns: 1 }), step(1));
    bench.at += 599_999;
    expect(bench.do({ type: 'TICK' }).refusal).toBe('NOT_DUE');
    bench.at += 1;
    expect([bench.do({ type: 'TICK' }).status, bench.refusal]).toEqual(['idle', null]);
  });
});

describe('a step', () => {
  test('that is repeated or too early changes nothing', () => {
    expect([runIn('running').do(step(1)).refusal, runIn('running').do(step(3)).refusal]).toEqual([
      'STEP_OUT_OF_ORDER',
      'STEP_OUT_OF_ORDER',
    ]);
  });

  test('is refused while a call of the last step has no result', () => {
    expect(runIn('starting').do(step(1, [call('a')]), step(2)).refusal).toBe('CALL_OPEN');
  });

  test('cannot have two calls with one id', () => {
    expect(runIn('starting').do(step(1, [call('a'), call('a')])).refusal).toBe('CALL_REPEATED');
  });
});

describe('a command caused by a fact of another machine', () => {
  test('is executed once', () => {
    const bench = new RunBench().do(start({ cause: 'floor 7' }), step(1), abort);
    expect([bench.do(start({ cause: 'floor 7' })).refusal, bench.status]).toEqual(['REPEATED', 'idle']);
    expect(bench.do(start({ cause: 'floor 8' })).refusal).toBeNull();
  });
});

describe('the runs of one seat', () => {
  test('have their own ids and are counted', () => {
    const bench = runIn('completed').do(start({ session: 's1' }), step(1), abort);
    expect(bench.state.run?.id).toBe('console:demo dev#2');
    expect(bench.state.totals).toEqual({ runs: 2, completed: 1, steps: 2, tools: 0 });
  });
});

describe('T62 the published state', () => {
  const told = (...commands: readonly RunCommand[]) => {
    const { state } = new RunBench().do(...commands);
    return standingOf(state).payload;
  };

  test("has the run's progress, the running tool and the last failure", () => {
    expect(told(start(), step(1))).toMatchObject({ progress: 1 / 50, currentTool: null });
    const bench = runIn('running').do(request(call('a')), claim('a'));
    expect(standingOf(bench.state).payload).toMatchObject({ currentTool: call('a').tool });
    bench.do(settle('a'));
    expect(standingOf(bench.state).payload).toMatchObject({ currentTool: null });
    expect(told(start(), step(1), error(true))).toMatchObject({ status: 'error', lastError: 'it fell over' });
  });

  test('ends with agent:cleanup after an error that is not recoverable', () => {
    expect(new RunBench().do(start(), step(1), error(false)).published).toEqual([
      'agent:error',
      'state:update',
      'agent:cleanup',
    ]);
  });
});

describe('the published events', () => {
  test('have the types that the specification lists for each change', () => {
    const seen = (...commands: readonly RunCommand[]) => new RunBench().do(...commands).published;
    expect([
      seen(start()),
      seen(start(), step(1)),
      seen(start(), step(1), pause()),
      seen(start(), step(1), pause(), resume()),
      seen(start(), step(1), error(true)),
      seen(start(), step(1), complete),
      seen(start(), abort),
    ]).toEqual([
      ['agent:starting', 'state:update'],
      ['agent:step', 'state:update'],
      ['agent:paused', 'state:update'],
      ['state:update'],
      ['agent:error', 'state:update'],
      ['agent:completed', 'state:update', 'agent:cleanup'],
      ['state:update', 'agent:cleanup'],
    ]);
  });
});
