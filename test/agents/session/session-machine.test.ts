import { describe, expect, test } from 'vitest';
import type { TurnPrompt } from '../../../src/agents/backends/backend.ts';
import {
  DEFAULT_THRESHOLDS,
  NEW_SESSION,
  SESSION_BACKOFF,
  SESSION_TRANSITIONS,
  createSessionMachine,
} from '../../../src/agents/session/session-machine.ts';
import type { Phase, SessionEvent, SessionFact, SessionState } from '../../../src/agents/session/session-machine.ts';
import { backoffMs } from '../../../src/lib/retry.ts';

const AT = 1_000_000;
const machine = createSessionMachine();

const PROMPT: TurnPrompt = {
  channel: 'console:demo',
  epoch: 7,
  reason: 'grant',
  lines: [],
  messages: [],
  open: [],
  saidSoFar: [],
  roster: [],
  system: '',
  parts: [],
  longest: 16_000,
  text: 'Build a clock',
};

const error: SessionEvent = { type: 'SessionExited', exit: { how: 'Error', message: 'exited with code 1' } };
const timeout: SessionEvent = { type: 'SessionExited', exit: { how: 'Timeout' } };
const success: SessionEvent = { type: 'SessionExited', exit: { how: 'Success' } };
const promptReady: SessionEvent = { type: 'PromptReady', prompt: PROMPT };
const started: SessionEvent = { type: 'SessionStarted', seq: 3 };
const urgent: SessionEvent = { type: 'UrgentMessage', graceMs: 5_000 };

const EVENTS: Record<string, SessionEvent> = {
  WorktreeReady: { type: 'WorktreeReady' },
  PromptReady: promptReady,
  SessionStarted: started,
  'SessionExited(Success)': success,
  'SessionExited(Error)': error,
  'SessionExited(Timeout)': timeout,
  UrgentMessage: urgent,
  GraceExceeded: { type: 'GraceExceeded' },
  BackoffElapsed: { type: 'BackoffElapsed' },
  OperatorStop: { type: 'OperatorStop' },
  FatalError: { type: 'FatalError', message: 'no such binary' },
  SessionOpening: { type: 'SessionOpening' },
  SessionOpened: { type: 'SessionOpened' },
  SessionAbsent: { type: 'SessionAbsent' },
  OperatorRestart: { type: 'OperatorRestart' },
};

const SPAWNING: Phase = { name: 'Spawning', opensBy: null };
const RUNNING: Phase = { name: 'Running', sessionSeq: 3 };
const INTERRUPTING: Phase = { name: 'Interrupting', sessionSeq: 3, graceEndsAt: AT + 3_000 };

const PHASES: Record<string, Phase> = {
  Initializing: { name: 'Initializing' },
  BuildingPrompt: { name: 'BuildingPrompt' },
  'Spawning, still opening,': { name: 'Spawning', opensBy: AT + 60_000 },
  Spawning: SPAWNING,
  Running: RUNNING,
  Interrupting: INTERRUPTING,
  SessionComplete: { name: 'SessionComplete' },
  CoolingDown: { name: 'CoolingDown', delayMs: 2_000, endsAt: AT },
  Stopped: { name: 'Stopped', why: 'asked to' },
};

/** The specification's table: "state event" → "state effect". */
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

/** The rows that depart from the specification. */
const DEPARTURES: Record<string, string> = {
  'BuildingPrompt SessionOpening': 'Spawning OpenSession',
  'Spawning, still opening, SessionOpened': 'BuildingPrompt None',
  'Spawning, still opening, SessionAbsent': 'Initializing None',
  'Spawning SessionAbsent': 'Initializing None',
  'Running SessionAbsent': 'Initializing None',
  'Spawning, still opening, SessionExited(Error)': 'CoolingDown None',
  'Spawning, still opening, SessionExited(Timeout)': 'CoolingDown None',
  'Spawning UrgentMessage': 'Interrupting CancelSession',
  'Interrupting UrgentMessage': 'Interrupting CancelSession',
  'BuildingPrompt SessionExited(Error)': 'BuildingPrompt None',
  'BuildingPrompt SessionExited(Timeout)': 'BuildingPrompt None',
};

/** Returns the expected "state effect" of an event that every state handles. */
function globalRow(phase: Phase, event: string): string | undefined {
  const live = phase.name === 'Running' || phase.name === 'Interrupting' ? 'CancelSession' : 'None';
  if (event === 'OperatorStop') return `Stopped ${live}`;
  if (event === 'OperatorRestart') return `Initializing ${live}`;
  return event === 'FatalError' ? 'Stopped LogFatal' : undefined;
}

function at(phase: Phase, counters: Partial<SessionState> = {}): SessionState {
  return { ...NEW_SESSION, sessionSeq: 3, ...counters, phase };
}

function factOf(state: SessionState, event: SessionEvent): SessionFact {
  const decision = machine.decide(state, event, AT);
  const [fact] = decision.facts;
  if (!decision.ok || fact === undefined) throw new Error(decision.ok ? 'nothing happened' : decision.refusal);
  return fact;
}

function run(state: SessionState, ...events: readonly SessionEvent[]): SessionState {
  return events.reduce((current, event) => machine.evolve(current, factOf(current, event), AT), state);
}

/** Returns the phase that an event leads to, and the effects. */
function moved(phase: Phase, event: SessionEvent) {
  const fact = factOf(at(phase), event);
  const effects = fact.effect === null ? [] : [fact.effect];
  return { to: machine.evolve(at(phase), fact, AT).phase, effects };
}

describe('the session table', () => {
  for (const [label, phase] of Object.entries(PHASES)) {
    for (const [name, event] of Object.entries(EVENTS)) {
      const key = `${label} ${name}`;
      const expected = globalRow(phase, name) ?? TABLE[key] ?? DEPARTURES[key] ?? 'refused';
      test(`${label} on ${name} is ${expected}`, () => {
        const decision = machine.decide(at(phase), event, AT);
        const [fact] = decision.facts;
        expect(fact === undefined ? 'refused' : `${fact.to.name} ${fact.effect?.type ?? 'None'}`).toBe(expected);
        expect(decision.ok).toBe(fact !== undefined);
      });
    }
  }

  test("has exactly the specification's rows, with SessionExited(*) written out, and a reason for each departure", () => {
    const own = SESSION_TRANSITIONS.filter((row) => !('departs' in row)).map((row) => [
      `${row.from} ${row.trigger}`,
      `${row.to} ${row.effect}`,
    ]);
    expect(own).toEqual([
      ...Object.entries(TABLE),
      ['any OperatorStop', 'Stopped CancelSession'],
      ['any FatalError', 'Stopped LogFatal'],
    ]);
    const others = SESSION_TRANSITIONS.flatMap((row) => ('departs' in row ? [row.departs] : []));
    expect(others.every((why) => why.length > 20)).toBe(true);
    expect(others).toHaveLength(SESSION_TRANSITIONS.length - own.length);
  });

  test('refuses to fold a fact that starts in another state', () => {
    const fact = factOf(at({ name: 'Initializing' }), { type: 'WorktreeReady' });
    expect(() => machine.evolve(at(SPAWNING), fact, AT)).toThrow(/impossible/);
  });

  test('has states, events and facts that survive a round trip through JSON', () => {
    for (const phase of Object.values(PHASES)) {
      for (const event of Object.values(EVENTS)) {
        const { facts } = machine.decide(at(phase), event, AT);
        expect(JSON.parse(JSON.stringify([at(phase), event, facts]))).toEqual([at(phase), event, facts]);
      }
    }
  });
});

describe('a row of the session table', () => {
  test('for PromptReady(prompt) stores the prompt', () => {
    expect(moved({ name: 'BuildingPrompt' }, promptReady).effects).toEqual([{ type: 'StorePrompt', prompt: PROMPT }]);
  });

  test('for SessionStarted(seq) runs under that number, and refuses another number', () => {
    expect(moved(SPAWNING, started).to).toEqual({ name: 'Running', sessionSeq: 3 });
    const other = machine.decide(at(SPAWNING), { type: 'SessionStarted', seq: 2 }, AT);
    expect(other).toEqual({ ok: false, refusal: 'session 2 cannot start: it is session 3', facts: [] });
  });

  test("for UrgentMessage interrupts under the session's number, and passes the grace on", () => {
    const { to, effects } = moved(RUNNING, urgent);
    expect(to).toEqual({ name: 'Interrupting', sessionSeq: 3, graceEndsAt: AT + 6_000 });
    expect(effects).toEqual([{ type: 'CancelSession', graceMs: 5_000 }]);
  });

  test('for a second UrgentMessage shortens the grace, and never extends it', () => {
    const ends = [0, 60_000].map((graceMs) => moved(INTERRUPTING, { type: 'UrgentMessage', graceMs }).to);
    expect(ends).toEqual([
      { name: 'Interrupting', sessionSeq: 3, graceEndsAt: AT + 1_000 },
      { name: 'Interrupting', sessionSeq: 3, graceEndsAt: AT + 3_000 },
    ]);
  });

  test('for FatalError(msg) stops with that message, and logs it', () => {
    const { to, effects } = moved(RUNNING, { type: 'FatalError', message: 'no such binary' });
    expect(to).toEqual({ name: 'Stopped', why: 'no such binary' });
    expect(effects).toEqual([{ type: 'LogFatal', message: 'no such binary' }]);
  });

  test('that reaches a threshold logs the counter', () => {
    const worn = at(RUNNING, { consecutiveErrors: 4 });
    expect(factOf(worn, error).effect).toEqual({ type: 'LogFatal', message: '5 errors in a row' });
  });

  test('for OperatorStop gives a live session no grace', () => {
    expect(moved(INTERRUPTING, { type: 'OperatorStop' }).effects).toEqual([{ type: 'CancelSession', graceMs: null }]);
  });

  test('for OperatorRestart starts with the number and the counters of a new session', () => {
    const worn = at(RUNNING, { consecutiveErrors: 4, totalErrors: 19 });
    expect(run(worn, { type: 'OperatorRestart' })).toEqual(NEW_SESSION);
  });
});

describe('the deadline of a session', () => {
  test.each([
    ['the end of the backoff', PHASES['CoolingDown'], AT],
    ['the end of the grace', INTERRUPTING, AT + 3_000],
    ['the time for opening', PHASES['Spawning, still opening,'], AT + 60_000],
    ['none for a session that has its prompt', SPAWNING, null],
    ['none while it runs', RUNNING, null],
  ])('is %s', (_what, phase, deadline) => {
    expect(phase && machine.nextDeadline(at(phase))).toBe(deadline);
  });

  test('grows with the backoff of the errors in a row', () => {
    const ends = [0, 1, 2, 3].map((consecutiveErrors) => {
      const state = run(at(RUNNING, { consecutiveErrors }), timeout);
      return (machine.nextDeadline(state) ?? 0) - AT;
    });
    expect(ends).toEqual([2_000, 4_000, 8_000, 16_000]);
  });
});

describe('the backoff', () => {
  test('doubles from two seconds to a minute', () => {
    expect([1, 2, 3, 4, 5, 6, 7, 20].map((errors) => backoffMs(SESSION_BACKOFF, errors))).toEqual([
      2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000,
    ]);
  });

  test('of a session that never opens is 2, 4, 8 and 16 s; then the session stops', () => {
    let state = run(NEW_SESSION, { type: 'WorktreeReady' });
    const delays: (number | string)[] = [];
    for (let attempt = 0; attempt < 5; attempt++) {
      state = run(state, { type: 'SessionOpening' }, error);
      delays.push(state.phase.name === 'CoolingDown' ? state.phase.delayMs : state.phase.name);
      if (state.phase.name === 'CoolingDown') state = run(state, { type: 'BackoffElapsed' });
    }
    expect(delays).toEqual([2000, 4000, 8000, 16000, 'Stopped']);
    expect(state.phase).toEqual({ name: 'Stopped', why: '5 errors in a row' });
  });
});

describe('the error counters', () => {
  test('a started session resets the errors in a row and keeps the total', () => {
    const state = run(at(SPAWNING, { consecutiveErrors: 4, totalErrors: 7 }), started);
    expect([state.consecutiveErrors, state.totalErrors]).toEqual([0, 7]);
  });

  test('a session that is only opened resets nothing, because it has not begun', () => {
    const state = run(
      at({ name: 'BuildingPrompt' }, { consecutiveErrors: 4 }),
      { type: 'SessionOpening' },
      { type: 'SessionOpened' },
    );
    expect(state.consecutiveErrors).toBe(4);
  });

  test.each([RUNNING, INTERRUPTING])('a success resets the errors in a row and keeps the total: $name', (phase) => {
    const state = run(at(phase, { consecutiveErrors: 2, totalErrors: 7 }), success);
    expect([state.consecutiveErrors, state.totalErrors]).toEqual([0, 7]);
  });

  test('an interrupted session counts no error, however it fails', () => {
    const interrupting = at(INTERRUPTING, { consecutiveErrors: 1, totalErrors: 2 });
    for (const event of [error, timeout, { type: 'GraceExceeded' } as const]) {
      const state = run(interrupting, event);
      expect([state.consecutiveErrors, state.totalErrors]).toEqual([1, 2]);
    }
  });

  test('4 errors in a row cool down, the 5th stops', () => {
    expect(run(at(SPAWNING, { consecutiveErrors: 3 }), error).phase.name).toBe('CoolingDown');
    expect(run(at(SPAWNING, { consecutiveErrors: 4 }), error).phase.name).toBe('Stopped');
  });

  test('19 errors in total cool down, the 20th stops', () => {
    expect(run(at(RUNNING, { totalErrors: 18 }), timeout).phase.name).toBe('CoolingDown');
    expect(run(at(RUNNING, { totalErrors: 19 }), timeout).phase).toEqual({ name: 'Stopped', why: '20 errors in all' });
  });

  test('the caller sets the thresholds; the defaults are 5 and 20', () => {
    expect(DEFAULT_THRESHOLDS).toEqual({ maxConsecutiveErrors: 5, maxTotalErrors: 20 });
    const strict = createSessionMachine({ maxConsecutiveErrors: 1, maxTotalErrors: 9 });
    expect(strict.decide(at(SPAWNING), error, AT).facts[0]?.to.name).toBe('Stopped');
  });

  test('each generation raises the session number by one', () => {
    const ready = { type: 'WorktreeReady' } as const;
    const done = run(NEW_SESSION, ready, promptReady, { type: 'SessionStarted', seq: 1 }, success);
    const second = run(done, ready, promptReady, { type: 'SessionStarted', seq: 2 });
    expect(second.phase).toEqual({ name: 'Running', sessionSeq: 2 });
  });
});
