import { describe, expect, test } from 'vitest';
import {
  DEFAULT_THRESHOLDS,
  NEW_SESSION,
  SESSION_TRANSITIONS,
  backoffMs,
  decide,
  evolve,
} from '../../../src/agents/session/session-machine.ts';
import type { Phase, SessionEvent, SessionState } from '../../../src/agents/session/session-machine.ts';

const error: SessionEvent = { type: 'SessionExited', exit: { how: 'Error', message: 'exited with code 1' } };
const timeout: SessionEvent = { type: 'SessionExited', exit: { how: 'Timeout' } };
const success: SessionEvent = { type: 'SessionExited', exit: { how: 'Success' } };

const EVENTS: Record<string, SessionEvent> = {
  WorktreeReady: { type: 'WorktreeReady' },
  PromptReady: { type: 'PromptReady' },
  SessionStarted: { type: 'SessionStarted' },
  'SessionExited(Success)': success,
  'SessionExited(Error)': error,
  'SessionExited(Timeout)': timeout,
  UrgentMessage: { type: 'UrgentMessage' },
  GraceExceeded: { type: 'GraceExceeded' },
  BackoffElapsed: { type: 'BackoffElapsed' },
  OperatorStop: { type: 'OperatorStop' },
  FatalError: { type: 'FatalError', message: 'no such binary' },
};

const PHASES: readonly Phase[] = [
  { name: 'Initializing' },
  { name: 'BuildingPrompt' },
  { name: 'Spawning' },
  { name: 'Running', sessionSeq: 3 },
  { name: 'Interrupting', sessionSeq: 3 },
  { name: 'SessionComplete' },
  { name: 'CoolingDown', delayMs: 2000 },
  { name: 'Stopped', why: 'asked to' },
];

/** The owner's table in the words of agent-session.md: "state event" → "state effect". */
const TABLE: Record<string, string> = {
  'Initializing WorktreeReady': 'BuildingPrompt None',
  'BuildingPrompt PromptReady': 'Spawning StorePrompt',
  'Spawning SessionStarted': 'Running None',
  'Spawning SessionExited(Error)': 'CoolingDown None',
  'Spawning SessionExited(Timeout)': 'CoolingDown None',
  'Running SessionExited(Success)': 'SessionComplete None',
  'Running SessionExited(Error)': 'CoolingDown None',
  'Running SessionExited(Timeout)': 'CoolingDown None',
  'Running UrgentMessage': 'Interrupting CancelSession',
  'Interrupting SessionExited(Success)': 'BuildingPrompt None',
  'Interrupting SessionExited(Error)': 'BuildingPrompt None',
  'Interrupting SessionExited(Timeout)': 'BuildingPrompt None',
  'Interrupting GraceExceeded': 'BuildingPrompt ForceStopSession',
  'SessionComplete WorktreeReady': 'BuildingPrompt IncrementSession',
  'CoolingDown BackoffElapsed': 'BuildingPrompt None',
};
for (const { name } of PHASES) {
  TABLE[`${name} OperatorStop`] = `Stopped ${name === 'Running' || name === 'Interrupting' ? 'CancelSession' : 'None'}`;
  TABLE[`${name} FatalError`] = 'Stopped LogFatal';
}

function at(phase: Phase, counters: Partial<SessionState> = {}): SessionState {
  return { ...NEW_SESSION, sessionSeq: 3, ...counters, phase };
}

function run(state: SessionState, ...events: readonly SessionEvent[]): SessionState {
  return events.reduce((current, event) => {
    const decision = decide(current, event, DEFAULT_THRESHOLDS);
    if (!decision.ok) throw new Error(decision.refusal);
    return evolve(current, decision.fact);
  }, state);
}

describe('the session table', () => {
  for (const phase of PHASES) {
    for (const [name, event] of Object.entries(EVENTS)) {
      const expected = TABLE[`${phase.name} ${name}`] ?? 'refused';
      test(`${phase.name} on ${name} is ${expected}`, () => {
        const decision = decide(at(phase), event, DEFAULT_THRESHOLDS);
        expect(decision.ok ? `${decision.fact.to.name} ${decision.fact.effect}` : 'refused').toBe(expected);
      });
    }
  }

  test('has exactly the rows of the owner, with SessionExited(*) written out', () => {
    const rows = SESSION_TRANSITIONS.map((row) => [`${row.from} ${row.trigger}`, `${row.to} ${row.effect}`]);
    const owners = Object.entries(TABLE).filter(([key]) => !/OperatorStop|FatalError/.test(key));
    expect(rows).toEqual(owners);
  });

  test('refuses to fold a fact that starts elsewhere', () => {
    const decision = decide(at({ name: 'Initializing' }), { type: 'WorktreeReady' }, DEFAULT_THRESHOLDS);
    expect(decision.ok && (() => evolve(at({ name: 'Spawning' }), decision.fact))).toThrow(/impossible/);
  });

  test('survives a round trip through JSON', () => {
    for (const phase of PHASES) expect(JSON.parse(JSON.stringify(at(phase)))).toEqual(at(phase));
  });
});

describe('the backoff', () => {
  test('doubles from two seconds to a minute', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 20].map(backoffMs)).toEqual([2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
  });

  test('of a session that never starts is 2, 4, 8 and 16 seconds, then it stops', () => {
    let state = run(NEW_SESSION, { type: 'WorktreeReady' });
    const delays: (number | string)[] = [];
    for (let attempt = 0; attempt < 5; attempt++) {
      state = run(state, { type: 'PromptReady' }, error);
      delays.push(state.phase.name === 'CoolingDown' ? state.phase.delayMs : state.phase.name);
      if (state.phase.name === 'CoolingDown') state = run(state, { type: 'BackoffElapsed' });
    }
    expect(delays).toEqual([2000, 4000, 8000, 16000, 'Stopped']);
    expect(state.phase).toEqual({ name: 'Stopped', why: '5 errors in a row' });
  });
});

describe('the error counters', () => {
  test('a started session resets the errors in a row and keeps the total', () => {
    const state = run(at({ name: 'Spawning' }, { consecutiveErrors: 4, totalErrors: 7 }), { type: 'SessionStarted' });
    expect([state.consecutiveErrors, state.totalErrors]).toEqual([0, 7]);
  });

  test('a success resets the errors in a row and keeps the total', () => {
    const state = run(at({ name: 'Running', sessionSeq: 3 }, { consecutiveErrors: 2, totalErrors: 7 }), success);
    expect([state.consecutiveErrors, state.totalErrors]).toEqual([0, 7]);
  });

  test('an interrupted session counts no error, however it ends', () => {
    const interrupting = at({ name: 'Interrupting', sessionSeq: 3 }, { consecutiveErrors: 1, totalErrors: 2 });
    for (const event of [error, timeout, { type: 'GraceExceeded' } as const]) {
      const state = run(interrupting, event);
      expect([state.consecutiveErrors, state.totalErrors]).toEqual([1, 2]);
    }
  });

  test('19 errors in all cool down, the 20th stops', () => {
    const running: Phase = { name: 'Running', sessionSeq: 3 };
    expect(run(at(running, { totalErrors: 18 }), timeout).phase.name).toBe('CoolingDown');
    expect(run(at(running, { totalErrors: 19 }), timeout).phase).toEqual({ name: 'Stopped', why: '20 errors in all' });
  });

  test("the thresholds are the caller's", () => {
    const decision = decide(at({ name: 'Spawning' }), error, { maxConsecutiveErrors: 1, maxTotalErrors: 9 });
    expect(decision.ok && decision.fact.to.name).toBe('Stopped');
  });

  test('each generation has the next number', () => {
    const done = run(
      NEW_SESSION,
      { type: 'WorktreeReady' },
      { type: 'PromptReady' },
      { type: 'SessionStarted' },
      success,
    );
    const second = run(done, { type: 'WorktreeReady' }, { type: 'PromptReady' }, { type: 'SessionStarted' });
    expect(second.phase).toEqual({ name: 'Running', sessionSeq: 2 });
  });
});
