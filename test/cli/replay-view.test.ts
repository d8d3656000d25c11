import { describe, expect, test } from 'vitest';
import {
  FLOOR_WORDS,
  SESSION_WORDS,
  floorShort,
  isShown,
  replayAll,
  stepLine,
  verdictLine,
} from '../../src/cli/replay-view.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';
import { sessionJournal } from '../../src/agents/session/session-journal.ts';
import type { ReplayStep } from '../../src/engine/replay.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import { AT, open } from '../engine/sqlite/fixture.ts';

const STEP: ReplayStep<Floor, Fact> = {
  seq: 12,
  at: Date.parse('2026-02-04T21:00:00Z'),
  fact: { type: 'seatMoved', agent: 'pm', from: 'ACTIVE', to: 'QUEUED', trigger: 'TIMEOUT' },
  state: { ...emptyFloor('console:demo'), queue: ['dev', 'qa', 'pm'] },
  hashOk: true,
};

describe('a replayed fact', () => {
  test('is one line: number, time, event, and the floor after it', () => {
    expect(stepLine(STEP, FLOOR_WORDS)).toBe(
      '    12  2026-02-04T21:00:00.000Z  pm ACTIVE → QUEUED (TIMEOUT)  |  resting · queue dev, qa, pm',
    );
  });

  test('is marked when its hash does not match', () => {
    expect(stepLine({ ...STEP, hashOk: false }, FLOOR_WORDS)).toContain('✗ the hash does not match');
  });

  test('stays one line when its text has several lines', () => {
    const fact = { type: 'said', agent: 'pm', epoch: 1, line: 1, text: 'one\ntwo\n\nthree', mentions: [] } as const;
    expect(stepLine({ ...STEP, fact }, FLOOR_WORDS)).toContain('pm #1 said: one two three');
  });
});

describe('a replay with --from', () => {
  test('hides earlier entries, except broken ones', () => {
    const steps = [
      { ...STEP, seq: 1, hashOk: false },
      { ...STEP, seq: 2 },
      { ...STEP, seq: 3 },
      { ...STEP, seq: 4 },
    ];
    expect(steps.filter((step) => isShown(step, 3)).map((step) => step.seq)).toEqual([1, 3, 4]);
  });
});

describe("a session's journal", () => {
  test('is replayed move by move, and is found by the end of its key', async () => {
    const store = open();
    const sessions = store.host(sessionJournal);
    const fact = { type: 'sessionMoved', from: 'Running', trigger: 'SessionExited(Error)', sessionSeq: 3 } as const;
    const to = { name: 'CoolingDown', delayMs: 2_000, endsAt: AT + 2_000 } as const;
    const counted = { consecutiveErrors: 1, totalErrors: 4, cause: 'exited with code 1' };
    await sessions.apply('console:demo dev', { ...fact, to, ...counted }, AT);
    const lines: string[] = [];
    expect(replayAll(sessions, SESSION_WORDS, { key: 'demo dev', from: 1 }, (line) => lines.push(line))).toBe(true);
    expect(lines).toEqual([
      '     1  2023-11-14T22:13:20.000Z  Running → CoolingDown: SessionExited(Error) (exited with code 1)  |  session 3 · 1 errors in a row · 4 in all',
      '✓ console:demo dev: 1 entry replayed; the result equals the stored state, and the hash chain is intact.',
    ]);
    expect(replayAll(sessions, SESSION_WORDS, { key: 'qa', from: 1 }, () => {})).toBeNull();
    await store.close();
  });
});

describe('the summary of a floor', () => {
  test('at rest shows its queue', () => {
    expect(floorShort(emptyFloor('console:demo'))).toBe('resting · queue nobody');
  });

  test('with a holder shows holder, turn, queue and held messages', () => {
    const floor = { ...emptyFloor('console:demo'), queue: ['qa', 'pm'], turn: TURN, held: [HELD] };
    expect(floorShort(floor)).toBe('🎤 dev #2 · queue qa, pm · held 1');
  });

  test('with a waiting holder shows the reason of the wait', () => {
    const wait = { reason: 'answer', deadlineAt: 0, ready: false, answers: [] } as const;
    const waiting = { ...ANY_TURN, status: 'waiting', leftMs: 0, wait } as const;
    const floor = { ...emptyFloor('console:demo'), turn: waiting, parked: [{ ...waiting, agent: 'pm' }] };
    expect(floorShort(floor)).toBe('✋ dev #2 waits for an answer · queue nobody · waiting pm');
  });
});

describe('the verdict of a replay', () => {
  const good = { steps: 240, brokenAt: null, stoppedBy: null, equal: true, booked: true };

  test.each([
    [good, '✓ demo: 240 entries replayed; the result equals the stored state, and the hash chain is intact.'],
    [{ ...good, equal: false }, '✗ demo: 240 entries replayed; the result differs from the stored state.'],
    [{ ...good, booked: false }, '✗ demo: 240 entries replayed; the ledger does not match the journal.'],
    [{ ...good, steps: 1, brokenAt: 1 }, '✗ demo: 1 entry replayed; the hash chain is broken at entry 1.'],
    [
      { ...good, brokenAt: 7, stoppedBy: 'entry 7 is not a fact', equal: false },
      '✗ demo: 240 entries replayed; the hash chain is broken at entry 7; the replay stopped: entry 7 is not a fact; the result differs from the stored state.',
    ],
  ])('for %j is one line', (found, line) => {
    expect(verdictLine('demo', found)).toBe(line);
  });
});

const ANY_TURN = {
  agent: 'dev',
  epoch: 2,
  startedAt: 0,
  said: false,
  mentions: [],
  injecting: [],
  unseen: [],
  given: [],
  answered: [],
  reprompts: 0,
  place: null,
} as const;

const TURN = {
  ...ANY_TURN,
  status: 'active',
  deadlineAt: null,
  hardEndAt: 0,
  silenceAt: null,
  openWork: 0,
} as const;

const HELD = { id: 'm1', addressed: [], order: '1', until: 'turn', line: null } as const;
