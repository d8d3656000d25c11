import { describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import { STATE_WORDS } from '../../../src/agents/session/session-roster.ts';
import { SESSION_TRANSITIONS } from '../../../src/agents/session/session-machine.ts';
import { sessionJournal } from '../../../src/agents/session/session-journal.ts';
import type { StoredSession, RecordedMove, SessionJournal } from '../../../src/agents/session/session-journal.ts';
import { folder, open } from '../../engine/sqlite/fixture.ts';
import { bench, holding } from '../bench.ts';

const FRESH: StoredSession = {
  phase: { name: 'Initializing' },
  sessionSeq: 1,
  consecutiveErrors: 0,
  totalErrors: 0,
  lastCause: null,
  trigger: null,
};

/** A journal that tests can read. The next `broken` moves fail to be written. */
function fakeJournal(kept: StoredSession | null = null, broken = 0) {
  const moves: RecordedMove[] = [];
  const state = { kept, broken };
  const journal: SessionJournal = {
    state: () => state.kept,
    async apply(_key, move) {
      if (state.broken > 0) {
        state.broken -= 1;
        throw new Error('disk is on fire');
      }
      moves.push(move);
      const stored = sessionJournal.fact.parse(JSON.parse(JSON.stringify(move)));
      state.kept = sessionJournal.evolve(state.kept ?? sessionJournal.empty(), stored);
    },
  };
  /** Returns each recorded move as "from trigger to errors-in-a-row errors-in-all". */
  const recorded = () =>
    moves.map(({ from, trigger, to, consecutiveErrors: row, totalErrors: all }) =>
      [from, trigger, to.name, row, all].join(' '),
    );
  return { journal, moves, recorded, state };
}

function refusals(times: number): Error[] {
  return Array.from({ length: times }, () => new BackendError('connection refused'));
}

describe('a running session', () => {
  test('records nothing for its start, turns and liveness checks', async () => {
    const { journal, moves } = fakeJournal();
    const { prompt, session, time } = await bench({ journal });
    for (const epoch of [1, 2]) {
      await prompt(epoch);
      session().report?.text('words');
      session().ends({ how: 'completed' });
      await time.settle();
    }
    await time.advance(600_000);
    expect(moves).toEqual([]);
  });

  test('records each failure with its cause and the end of its pause, and the turn that ends the failures', async () => {
    const { journal, moves, recorded } = fakeJournal();
    const { time, prompt, session } = await bench({ journal, failures: refusals(2) });
    const began = time.clock.now();
    await time.advance(6_000);
    await prompt(1);
    session().report?.text('words');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(recorded()).toEqual([
      'Spawning SessionExited(Error) CoolingDown 1 1',
      'Spawning SessionExited(Error) CoolingDown 2 2',
      'Spawning SessionStarted Running 0 2',
    ]);
    expect(moves.map(({ to, cause }) => [to, cause])).toEqual([
      [{ name: 'CoolingDown', delayMs: 2_000, endsAt: began + 2_000 }, 'connection refused'],
      [{ name: 'CoolingDown', delayMs: 4_000, endsAt: began + 6_000 }, 'connection refused'],
      [{ name: 'Running', sessionSeq: 1 }, 'connection refused'],
    ]);
  });

  test('records nothing when it is lost while idle, because such a loss counts no error', async () => {
    const { journal, moves } = fakeJournal();
    const { session, time } = await bench({ journal });
    session().pings = new Error('socket closed');
    await time.advance(15_000);
    expect(moves).toEqual([]);
  });

  test('records no stop when the program ends', async () => {
    const { journal, moves } = fakeJournal();
    const { supervisor } = await bench({ journal });
    await supervisor.stop();
    expect(moves).toEqual([]);
  });

  test('whose failure cannot be recorded continues, warns, and records it with the next move', async () => {
    const { journal, recorded } = fakeJournal(null, 1);
    const { sessions, time, logged } = await bench({ journal, failures: refusals(1) });
    await time.advance(2_000);
    expect(sessions).toHaveLength(1);
    expect(recorded()).toEqual(['CoolingDown BackoffElapsed BuildingPrompt 1 1']);
    expect(logged).toContain('warn: a state change of the session could not be stored');
  });

  test("whose journal does not answer delays the program's end by at most 5 s", async () => {
    const journal: SessionJournal = { state: () => null, apply: () => new Promise(() => {}) };
    const { supervisor, time } = await bench({ journal, failures: refusals(1) });
    let stopped = false;
    void supervisor.stop().then(() => (stopped = true));
    await time.advance(4_999);
    expect(stopped).toBe(false);
    await time.advance(1);
    expect([stopped, time.pending()]).toEqual([true, 0]);
  });
});

describe('a session that was stopped before the program started', () => {
  const kept: StoredSession = {
    ...FRESH,
    phase: { name: 'Stopped', why: '5 errors in a row' },
    sessionSeq: 7,
    consecutiveErrors: 5,
    totalErrors: 9,
    lastCause: 'connection refused',
    trigger: 'SessionExited(Error)',
  };

  test('does not join, and its status shows why', async () => {
    const { supervisor, sessions, floors, time, prompt } = await bench({ journal: fakeJournal(kept).journal });
    await time.advance(600_000);
    expect([sessions, floors.told]).toEqual([[], []]);
    expect(supervisor.list()[0]?.state).toBe('Stopped (until /agent restart)');
    expect(supervisor.status('dev')?.[1]).toBe(
      'console:demo: Stopped (until /agent restart): 5 errors in a row, session 7, 5 errors in a row, 9 in all; last: connection refused',
    );
    expect(await prompt(1)).toMatchObject({ state: 'failed' });
  });

  test('leaves the floor where it still has a seat', async () => {
    const { floors, logged } = await bench({ journal: fakeJournal(kept).journal, view: holding('dev', 3) });
    expect(floors.told).toMatchObject([{ type: 'leave', agent: 'dev', cause: 'connection refused' }]);
    expect(logged).toEqual(['error: agent stopped connection refused']);
  });

  test('is started by a restart, with its counters at zero', async () => {
    const { journal, state } = fakeJournal(kept);
    const { supervisor, floors, time } = await bench({ journal });
    expect(await supervisor.restart('dev')).toEqual({ ok: true, text: 'dev is restarted.' });
    await time.settle();
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(state.kept).toMatchObject({ ...FRESH, lastCause: 'connection refused', trigger: 'OperatorRestart' });
  });

  test('starts again when the configuration removes the agent and adds it again', async () => {
    const { supervisor, floors, dev } = await bench({ journal: fakeJournal(kept).journal });
    await supervisor.configure([]);
    await supervisor.configure([dev]);
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
  });

  test('and that a fatal error had stopped gets one more attempt, with its counters', async () => {
    const phase = { name: 'Stopped', why: 'no such binary' } as const;
    const { journal, recorded } = fakeJournal({ ...kept, phase, trigger: 'FatalError' });
    const failures = [new BackendError('no such binary', { terminal: true }), ...refusals(9)];
    const { supervisor, time } = await bench({ journal, failures });
    await time.advance(600_000);
    expect(failures).toHaveLength(9);
    expect(recorded()).toEqual(['Spawning FatalError Stopped 5 9']);
    expect(supervisor.status('dev')?.[1]).toContain('no such binary');
  });
});

describe('a session that was cooling down when the program ended', () => {
  /** Returns the clock and journal of a program whose session failed to open. `ms` of its pause of 2 s are over. */
  async function after(ms: number) {
    const { journal, recorded } = fakeJournal();
    const { time, supervisor } = await bench({ journal, failures: refusals(1) });
    await supervisor.stop();
    await time.advance(ms);
    return { journal, recorded, time };
  }

  test('is opened when the rest of its pause is over, and keeps its counters', async () => {
    const { journal, recorded, time } = await after(500);
    const { sessions, floors, failures } = await bench({
      journal,
      time,
      failures: refusals(1),
      view: holding('dev', 1),
    });
    expect(floors.told).toMatchObject([{ type: 'leave', agent: 'dev', cause: 'connection refused' }]);
    await time.advance(1_499);
    expect(failures).toHaveLength(1);
    await time.advance(1);
    expect(failures).toHaveLength(0);
    expect(recorded().at(-1)).toBe('Spawning SessionExited(Error) CoolingDown 2 2');
    await time.advance(4_000);
    expect(sessions).toHaveLength(1);
  });

  test('is opened at once when its pause is over', async () => {
    const { journal, time } = await after(2_000);
    const { sessions, supervisor } = await bench({ journal, time });
    expect(sessions).toHaveLength(1);
    expect(supervisor.status('dev')?.[1]).toContain('BuildingPrompt (ready), session 1, 1 errors in a row, 1 in all');
  });

  test('waits at most its whole pause when the clock was set back', async () => {
    const phase = { name: 'CoolingDown', delayMs: 2_000, endsAt: 9_999_999_999 } as const;
    const { journal } = fakeJournal({ ...FRESH, phase, consecutiveErrors: 1, totalErrors: 1 });
    const { sessions, time } = await bench({ journal });
    await time.advance(1_999);
    expect(sessions).toHaveLength(0);
    await time.advance(1);
    expect(sessions).toHaveLength(1);
  });
});

describe('a session that was in its turn when the program was killed', () => {
  test('is opened again, with its number and counters', async () => {
    const { journal } = fakeJournal({ ...FRESH, sessionSeq: 4, totalErrors: 2 });
    const first = await bench({ journal });
    await first.prompt(1);
    first.session().report?.text('half');
    const { supervisor, floors } = await bench({ journal });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(supervisor.status('dev')?.[1]).toContain('session 4, 0 errors in a row, 2 in all');
  });
});

test('a journal that cannot be read is ignored with a warning', async () => {
  const state = () => {
    throw new Error('unexpected end of JSON');
  };
  const { floors, logged } = await bench({ journal: { ...fakeJournal().journal, state } });
  expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
  expect(logged).toEqual([
    'warn: the stored session state cannot be read; the session starts with its counters at zero',
  ]);
});

describe('a recorded move', () => {
  const move: RecordedMove = {
    type: 'sessionMoved',
    from: 'Running',
    trigger: 'SessionExited(Error)',
    to: { name: 'CoolingDown', delayMs: 2_000, endsAt: 5_000 },
    sessionSeq: 3,
    consecutiveErrors: 1,
    totalErrors: 1,
    cause: 'exited with code 1',
  };

  test('folds to the session that it led to', () => {
    expect(sessionJournal.evolve(sessionJournal.empty(), move)).toEqual({
      phase: move.to,
      sessionSeq: 3,
      consecutiveErrors: 1,
      totalErrors: 1,
      lastCause: 'exited with code 1',
      trigger: 'SessionExited(Error)',
    });
  });

  test('that is not in the session table is rejected as impossible', () => {
    const fold = (changed: Partial<RecordedMove>) => () =>
      sessionJournal.evolve(sessionJournal.empty(), { ...move, ...changed });
    expect(fold({ from: 'CoolingDown' })).toThrow('impossible: SessionExited(Error) led a session from CoolingDown');
    expect(fold({ to: { name: 'Initializing' } })).toThrow('impossible:');
    expect(fold({ to: { name: 'Stopped', why: '5 errors in a row' } })).not.toThrow();
  });

  test.each([
    ['a counter below zero', { ...move, totalErrors: -1 }],
    ['an unknown phase', { ...move, to: { name: 'Sleeping' } }],
    ['an unknown trigger', { ...move, trigger: 'Snored' }],
    ['a text', 'Stopped'],
  ])('that is stored with invalid data is rejected: %s', (_what, stored) => {
    expect(() => sessionJournal.fact.parse(stored)).toThrow(/invalid|too_small/u);
  });
});

describe('recorded sessions in a file', () => {
  test('stay stopped after five crashes and a restart of the program, until an operator restarts them', async () => {
    using place = folder();
    const first = open(place.file());
    const crashing = await bench({ journal: first.host(sessionJournal), failures: refusals(9) });
    await crashing.time.advance(600_000);
    await crashing.supervisor.stop();
    await first.close();

    const second = open(place.file());
    const journal = second.host(sessionJournal);
    const { supervisor, floors, sessions } = await bench({ journal });
    expect([sessions, floors.told]).toEqual([[], []]);
    expect(supervisor.status('dev')?.[1]).toContain(
      'Stopped (until /agent restart): 5 errors in a row, session 1, 5 errors in a row, 5 in all; last: connection refused',
    );
    expect(await supervisor.restart('dev')).toMatchObject({ ok: true });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    await supervisor.stop();
    expect(journal.state('console:demo dev')).toMatchObject({ phase: { name: 'Initializing' }, totalErrors: 0 });
    expect(journal.journal('console:demo dev', 99).map(({ fact }) => fact.trigger)).toEqual([
      ...Array<string>(5).fill('SessionExited(Error)'),
      'OperatorRestart',
    ]);
    expect(second.verify()).toEqual([]);
    await second.close();
  });
});

describe('the words for the states of a session', () => {
  test('exist for every state of the session table, and differ', () => {
    const names = SESSION_TRANSITIONS.flatMap(({ from, to }) => (from === 'any' ? [to] : [from, to]));
    expect(Object.keys(STATE_WORDS).toSorted()).toEqual([...new Set<string>(names)].toSorted());
    expect(new Set(Object.values(STATE_WORDS)).size).toBe(8);
    expect(STATE_WORDS.BuildingPrompt).toBe('ready');
  });
});
