import { describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import { STATE_WORDS } from '../../../src/agents/session/session-roster.ts';
import { SESSION_TRANSITIONS } from '../../../src/agents/session/session-machine.ts';
import type { KeptSession, SessionMemory } from '../../../src/agents/session/session-memory.ts';
import { folder, open } from '../../engine/sqlite/fixture.ts';
import { bench, holding } from '../bench.ts';

const FRESH: KeptSession = {
  phase: { name: 'Initializing' },
  sessionSeq: 1,
  consecutiveErrors: 0,
  totalErrors: 0,
  lastCause: null,
};

/** A memory that can be looked into; `broken` saves fail first. */
function fakeMemory(kept: unknown = null, broken = 0) {
  const saved: KeptSession[] = [];
  const state = { kept, broken };
  const memory: SessionMemory = {
    load: () => state.kept,
    async save(_channel, _agent, session) {
      if (state.broken > 0) {
        state.broken -= 1;
        throw new Error('disk is on fire');
      }
      saved.push(session);
      state.kept = JSON.parse(JSON.stringify(session));
    },
  };
  return { memory, saved, state };
}

function refusals(times: number): Error[] {
  return Array.from({ length: times }, () => new BackendError('connection refused'));
}

describe('a session that runs', () => {
  test('saves nothing at its start, and once for each turn that it completes', async () => {
    const { memory, saved } = fakeMemory();
    const { prompt, session, time } = await bench({ memory });
    expect(saved).toEqual([]);
    for (const epoch of [1, 2]) {
      await prompt(epoch);
      session().report?.text('words');
      session().ends({ how: 'completed' });
      await time.settle();
    }
    expect(saved).toEqual([
      { ...FRESH, sessionSeq: 2 },
      { ...FRESH, sessionSeq: 3 },
    ]);
  });

  test('saves nothing for heartbeats', async () => {
    const { memory, saved } = fakeMemory();
    const { time } = await bench({ memory });
    await time.advance(600_000);
    expect(saved).toEqual([]);
  });

  test('saves each failure with its cause and the end of the pause', async () => {
    const { memory, saved } = fakeMemory();
    const { time } = await bench({ memory, failures: refusals(2) });
    const began = time.clock.now();
    await time.advance(2_000);
    const failed = { ...FRESH, lastCause: 'connection refused' };
    const cooling = (delayMs: number, endsAt: number) => ({ name: 'CoolingDown', delayMs, endsAt });
    expect(saved).toEqual([
      { ...failed, phase: cooling(2_000, began + 2_000), consecutiveErrors: 1, totalErrors: 1 },
      { ...failed, consecutiveErrors: 1, totalErrors: 1 },
      { ...failed, phase: cooling(4_000, began + 6_000), consecutiveErrors: 2, totalErrors: 2 },
    ]);
  });

  test('saves why it was lost while it did nothing', async () => {
    const { memory, saved } = fakeMemory();
    const { session, time } = await bench({ memory });
    session().pings = new Error('socket closed');
    await time.advance(15_000);
    expect(saved).toEqual([{ ...FRESH, lastCause: 'socket closed' }]);
  });

  test('is not stopped by the end of the program', async () => {
    const { memory, saved } = fakeMemory();
    const { supervisor } = await bench({ memory });
    await supervisor.stop();
    expect(saved).toEqual([]);
  });

  test('that cannot be saved goes on, says so, and is saved with the next step', async () => {
    const { memory, saved } = fakeMemory(null, 1);
    const { prompt, session, sessions, time, logged } = await bench({ memory });
    for (const epoch of [1, 2]) {
      await prompt(epoch);
      session().ends({ how: 'completed' });
      await time.settle();
    }
    expect(sessions).toHaveLength(1);
    expect(saved.map(({ sessionSeq }) => sessionSeq)).toEqual([2, 3]);
    expect(logged).toEqual(['warn: the state of the session could not be saved']);
  });

  test('whose memory does not answer delays the end of the program by five seconds at most', async () => {
    const memory: SessionMemory = { load: () => null, save: () => new Promise(() => {}) };
    const { prompt, session, supervisor, time } = await bench({ memory });
    await prompt(1);
    session().ends({ how: 'completed' });
    await time.settle();
    let stopped = false;
    void supervisor.stop().then(() => (stopped = true));
    await time.advance(4_999);
    expect(stopped).toBe(false);
    await time.advance(1);
    expect([stopped, time.pending()]).toEqual([true, 0]);
  });
});

describe('a session that was stopped before the program started', () => {
  const kept: KeptSession = {
    ...FRESH,
    phase: { name: 'Stopped', why: '5 errors in a row' },
    sessionSeq: 7,
    consecutiveErrors: 5,
    totalErrors: 9,
    lastCause: 'connection refused',
  };

  test('does not join, and its status says why', async () => {
    const { supervisor, sessions, floors, time, prompt } = await bench({ memory: fakeMemory(kept).memory });
    await time.advance(600_000);
    expect([sessions, floors.told]).toEqual([[], []]);
    expect(supervisor.list()[0]?.state).toBe('Stopped (until /agent restart)');
    expect(supervisor.status('dev')?.[1]).toBe(
      'console:demo: Stopped (until /agent restart): 5 errors in a row, session 7, 5 errors in a row, 9 in all; last: connection refused',
    );
    expect(await prompt(1)).toMatchObject({ state: 'failed' });
  });

  test('leaves the floor that still has it', async () => {
    const { floors, logged } = await bench({ memory: fakeMemory(kept).memory, view: holding('dev', 3) });
    expect(floors.told).toEqual([{ type: 'leave', agent: 'dev', cause: 'connection refused' }]);
    expect(logged).toEqual(['error: agent stopped connection refused']);
  });

  test('is started by a restart, with its counters at zero', async () => {
    const { memory, state } = fakeMemory(kept);
    const { supervisor, floors, time } = await bench({ memory });
    expect(await supervisor.restart('dev')).toEqual({ ok: true, text: 'dev is restarted.' });
    await time.settle();
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(state.kept).toMatchObject({ ...FRESH, lastCause: 'connection refused' });
  });

  test('starts anew when the configuration takes the agent out and brings it back', async () => {
    const { supervisor, floors, dev } = await bench({ memory: fakeMemory(kept).memory });
    await supervisor.configure([]);
    await supervisor.configure([dev]);
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
  });
});

describe('a session that was cooling down when the program ended', () => {
  /** Where a program that failed at its start leaves the time and the memory after `ms` of its pause of 2 s. */
  async function after(ms: number) {
    const { memory, saved } = fakeMemory();
    const { time, supervisor } = await bench({ memory, failures: refusals(1) });
    await supervisor.stop();
    await time.advance(ms);
    return { memory, saved, time };
  }

  test('is opened when the rest of its pause is over, and counts on', async () => {
    const { memory, saved, time } = await after(500);
    const { sessions, floors, failures } = await bench({
      memory,
      time,
      failures: refusals(1),
      view: holding('dev', 1),
    });
    expect(floors.told).toEqual([{ type: 'leave', agent: 'dev', cause: 'connection refused' }]);
    await time.advance(1_499);
    expect(failures).toHaveLength(1);
    await time.advance(1);
    expect(failures).toHaveLength(0);
    expect(saved.at(-1)).toMatchObject({ phase: { name: 'CoolingDown', delayMs: 4_000 }, totalErrors: 2 });
    await time.advance(4_000);
    expect(sessions).toHaveLength(1);
  });

  test('is opened at once when its pause is over', async () => {
    const { memory, time } = await after(2_000);
    const { sessions, supervisor } = await bench({ memory, time });
    expect(sessions).toHaveLength(1);
    expect(supervisor.status('dev')?.[1]).toContain('BuildingPrompt (ready), session 1, 1 errors in a row, 1 in all');
  });

  test('waits no longer than its whole pause when the clock was set back', async () => {
    const phase = { name: 'CoolingDown', delayMs: 2_000, endsAt: 9_999_999_999 } as const;
    const { memory } = fakeMemory({ ...FRESH, phase, consecutiveErrors: 1, totalErrors: 1 });
    const { sessions, time } = await bench({ memory });
    await time.advance(1_999);
    expect(sessions).toHaveLength(0);
    await time.advance(1);
    expect(sessions).toHaveLength(1);
  });
});

describe('a session that was in its turn when the program was killed', () => {
  test('is opened again, with the number and the counters that it had', async () => {
    const { memory } = fakeMemory({ ...FRESH, sessionSeq: 4, totalErrors: 2 });
    const first = await bench({ memory });
    await first.prompt(1);
    first.session().report?.text('half');
    const { supervisor, floors } = await bench({ memory });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(supervisor.status('dev')?.[1]).toContain('session 4, 0 errors in a row, 2 in all');
  });
});

describe('a memory that cannot be read', () => {
  test.each([
    ['an object of another shape', { phase: 'Stopped' }],
    ['a session with a counter below zero', { ...FRESH, totalErrors: -1 }],
    ['a text', 'Stopped'],
  ])('is ignored with a warning when it is %s', async (_what, kept) => {
    const { floors, logged } = await bench({ memory: fakeMemory(kept).memory });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(logged).toEqual(['warn: what is remembered of the session cannot be read: it starts anew']);
  });

  test('is ignored with a warning when reading fails', async () => {
    const load = () => {
      throw new Error('unexpected end of JSON');
    };
    const { floors, logged } = await bench({ memory: { ...fakeMemory().memory, load } });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(logged).toHaveLength(1);
  });
});

describe('sessions that are remembered in a file', () => {
  function memoryIn(file: string) {
    const store = open(file);
    const memory: SessionMemory = {
      load: (channel, agent) => store.agent(`${channel} ${agent}`),
      save: (channel, agent, session) => store.saveAgent(`${channel} ${agent}`, session),
    };
    return { store, memory };
  }

  test('stay stopped after five crashes and a restart of the program, until an operator restarts them', async () => {
    using place = folder();
    const first = memoryIn(place.file());
    const crashing = await bench({ memory: first.memory, failures: refusals(9) });
    await crashing.time.advance(600_000);
    await crashing.supervisor.stop();
    await first.store.close();

    const second = memoryIn(place.file());
    const { supervisor, floors, sessions } = await bench({ memory: second.memory });
    expect([sessions, floors.told]).toEqual([[], []]);
    expect(supervisor.status('dev')?.[1]).toContain(
      'Stopped (until /agent restart): 5 errors in a row, session 1, 5 errors in a row, 5 in all; last: connection refused',
    );
    expect(await supervisor.restart('dev')).toMatchObject({ ok: true });
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    await supervisor.stop();
    expect(second.store.agent('console:demo dev')).toMatchObject({ phase: { name: 'Initializing' }, totalErrors: 0 });
    expect(second.store.verify()).toEqual([]);
    await second.store.close();
  });
});

describe('the words for the states of a session', () => {
  test('are there for every state of the table, each one of its own', () => {
    const names = SESSION_TRANSITIONS.flatMap(({ from, to }) => (from === 'any' ? [to] : [from, to]));
    expect(Object.keys(STATE_WORDS).toSorted()).toEqual([...new Set<string>(names)].toSorted());
    expect(new Set(Object.values(STATE_WORDS)).size).toBe(8);
    expect(STATE_WORDS.BuildingPrompt).toBe('ready');
  });
});
