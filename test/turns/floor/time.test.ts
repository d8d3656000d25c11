import { describe, expect, test } from 'vitest';
import { nextDeadline } from '../../../src/turns/floor/seats.ts';
import { viewOf } from '../../../src/turns/view.ts';
import { announcementsIn, factsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';
import { flatOrNull } from './flat-turn.ts';

/** pm is ACTIVE #1 since now. */
function taken(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  return play;
}

describe('a turn without a sign of work', () => {
  test('is untouched at 59,999 ms and expires at 60,000', () => {
    const play = taken();
    play.at += 59_999;
    expect(play.refused({ type: 'tick' })).toBe('nothing-due');
    play.at += 1;
    expect(factsOf('turnEnded', play.tick())).toMatchObject([{ agent: 'pm', outcome: 'expired' }]);
  });

  test('expires once, even if the alarm fires late', () => {
    const play = taken();
    play.at += 3_600_000;
    play.tick();
    expect(announcementsIn(play.last.effects)).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(play.holder).toBe('dev #2');
    expect(flatOrNull(play.floor.turn)?.deadlineAt).toBe(play.at + 60_000);
  });

  test('is extended by each sign of work', () => {
    const play = taken();
    play.later(59_999);
    play.works('pm', 0);
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });

  test('is not extended by a person’s message', () => {
    const play = taken();
    play.later(59_999);
    play.person('m2');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });
});

describe('a turn with a tool call open', () => {
  test('does not expire before the hard limit', () => {
    const play = taken();
    play.works('pm', 1);
    play.later(899_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('expires 60 s after the tool call was closed', () => {
    const play = taken();
    play.works('pm', 1);
    play.later(300_000);
    play.works('pm', 0);
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });
});

describe('work with its own time limit', () => {
  test('T18 ends the turn at that limit, even if text is posted meanwhile', () => {
    const play = taken();
    play.act({ type: 'work', agent: 'pm', epoch: 1, open: 1, limitMs: 200_000 });
    play.later(100_000);
    play.says('pm');
    play.works('pm', 1);
    expect(viewOf(play.floor, play.at, 'x').holder).toMatchObject({ deadlineAt: play.at + 100_000, working: true });
    play.later(99_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('T18 ends it no later than the hard limit', () => {
    const play = taken();
    play.act({ type: 'work', agent: 'pm', epoch: 1, open: 1, limitMs: 2_000_000 });
    expect(viewOf(play.floor, play.at, 'x').holder?.deadlineAt).toBe(play.at + 900_000);
  });
});

describe('an open tool call on the floor of a ticket', () => {
  /** pm is ACTIVE in a step of a ticket. */
  function stepping(): Stage {
    const play = stage({ settings: { maxTurnMs: 3_600_000 } });
    const id = 'web/c-1';
    const signals = { done: 'DONE', pass: 'PASS', fail: 'FAIL' };
    play.act({ type: 'beginTask', kind: 'ticket', id, key: 'web', primary: 'pm', signals });
    play.act({ type: 'askTaskTurn', id, agent: 'pm', brief: 'Go on.' });
    return play;
  }
  const deadline = (play: Stage) => viewOf(play.floor, play.at, 'x').holder?.deadlineAt;

  test('ends the step after 1,800 s, and not by silence before that', () => {
    const play = stepping();
    play.works('pm', 1);
    expect(deadline(play)).toBe(play.at + 1_800_000);
    play.later(1_799_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('has its limit from its start, and again from the end of another call; its own limit comes first', () => {
    const play = stepping();
    play.works('pm', 2);
    play.later(1_000_000);
    play.works('pm', 2);
    expect(deadline(play)).toBe(play.at + 800_000);
    play.works('pm', 1);
    expect(deadline(play)).toBe(play.at + 1_800_000);
    play.works('pm', 0);
    expect(deadline(play)).toBe(play.at + 60_000);
    for (const limitMs of [200_000, 2_000_000]) {
      play.act({ type: 'work', agent: 'pm', epoch: 1, open: 1, limitMs });
      expect(deadline(play)).toBe(play.at + limitMs);
    }
  });
});

describe('text that Conch posts for the holder', () => {
  const leftStanding = (play: Stage, workedAt: number) =>
    play.act({ type: 'say', agent: 'pm', epoch: 1, text: 'half a', mentions: [], workedAt });

  test.each([0, 30_000])('T18 keeps the deadline of the last sign of work, after %i ms', (afterMs) => {
    const play = taken();
    const workedAt = play.at + afterMs;
    play.later(59_999);
    leftStanding(play, workedAt);
    expect(viewOf(play.floor, play.at, 'x').holder?.deadlineAt).toBe(workedAt + 60_000);
    play.later(afterMs);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('T18 keeps the extension of an operator', () => {
    const play = taken();
    const workedAt = play.at;
    play.operator({ type: 'extend', ms: 30_000 });
    play.later(5_000);
    leftStanding(play, workedAt);
    play.later(84_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });

  test('T18 counts silence from the last sign of work', () => {
    const play = taken({ autoDetectTurnEnd: true });
    const workedAt = play.at;
    play.later(5_000);
    leftStanding(play, workedAt);
    play.later(4_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED SILENCE');
  });
});

describe('the hard limit', () => {
  test('is at 900 s, even if the holder keeps working', () => {
    const play = taken();
    for (let minute = 0; minute < 29; minute += 1) {
      play.later(30_000);
      play.says('pm');
    }
    play.later(29_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test.each([
    ['a sign of work', (play: Stage) => play.works('pm', 0)],
    ['a text', (play: Stage) => play.says('pm')],
    ['a tool that has ended', (play: Stage) => (play.works('pm', 1), play.works('pm', 0))],
    [
      'a wait that is over',
      (play: Stage) => (play.waits('pm'), play.act({ type: 'receive', id: 'm2', addressed: ['pm'] })),
    ],
  ] as const)('moved by an operator stays there after %s', (_what, act) => {
    const play = taken();
    play.operator({ type: 'extend', ms: 300_000 });
    play.later(10_000);
    act(play);
    play.later(349_999);
    expect(play.floor.turn?.agent).toBe('pm');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('is moved by an operator who extends the turn', () => {
    const play = taken();
    play.operator({ type: 'extend', ms: 30_000 });
    play.later(89_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });

  test('does not count while the turn waits', () => {
    const play = taken();
    play.later(50_000);
    play.waits('pm');
    play.later(599_999);
    play.person('m2');
    play.works('pm', 1);
    play.later(849_999);
    expect(play.holder?.startsWith('pm')).toBe(true);
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });
});

describe('a turn over restarts and standstills', () => {
  test('has at most maxTurnMs left after each restart in the middle of a tool call', () => {
    const play = taken();
    const left: number[] = [];
    for (let restarts = 0; restarts < 3; restarts += 1) {
      play.works('pm', 1);
      play.at += 400_000;
      play.act({ type: 'restart' });
      play.joins('pm');
      play.catchesUp();
      left.push((flatOrNull(play.floor.turn)?.hardEndAt ?? 0) - play.at);
    }
    expect(left).toEqual([900_000, 900_000, 900_000]);
  });

  test("keeps an operator's extension over a restart in the middle of a tool call", () => {
    const play = taken();
    play.operator({ type: 'extend', ms: 1_200_000 });
    play.works('pm', 1);
    play.at += 400_000;
    play.act({ type: 'restart' });
    play.joins('pm');
    play.catchesUp();
    expect(flatOrNull(play.floor.turn)?.hardEndAt).toBe(play.at + 1_700_000);
  });

  test("has an operator's extension moved by a standstill", () => {
    const play = taken();
    play.operator({ type: 'extend', ms: 600_000 });
    const end = flatOrNull(play.floor.turn)?.deadlineAt ?? 0;
    play.at += 600_000;
    play.act({ type: 'standstill', ms: 600_000 });
    play.works('pm', 1);
    play.works('pm', 0);
    expect(flatOrNull(play.floor.turn)?.deadlineAt).toBe(end + 600_000);
  });
});

describe('a wait', () => {
  test('continues at 599,999 ms and ends at 600,000', () => {
    const play = taken();
    play.waits('pm');
    play.at += 599_999;
    expect(play.refused({ type: 'tick' })).toBe('nothing-due');
    play.at += 1;
    const over = play.tick();
    expect(play.moves('pm').at(-1)).toBe('pm WAITING>QUEUED WAIT_TIMEOUT');
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'waitTimeout', agent: 'pm' }]);
    expect(play.holder).toBe('dev #2');
  });

  test('is extended by an operator', () => {
    const play = taken();
    play.waits('pm');
    play.operator({ type: 'extend', ms: 60_000 });
    play.later(659_999);
    expect(play.status('pm')).toBe('WAITING');
    play.later(1);
    expect(play.status('pm')).toBe('QUEUED');
  });

  test('gives the turn its full time again when it is resolved', () => {
    const play = taken();
    play.later(50_000);
    play.waits('pm');
    play.later(100_000);
    play.person('m2');
    play.later(59_999);
    expect(play.holder?.startsWith('pm')).toBe(true);
    play.later(1);
    expect(play.holder?.startsWith('dev')).toBe(true);
  });
});

describe('the end by silence', () => {
  test.each([
    ['after a text', (play: Stage) => (play.says('pm'), play.operator({ type: 'extend', ms: 120_000 }))],
    ['before a text', (play: Stage) => (play.operator({ type: 'extend', ms: 120_000 }), play.says('pm'))],
    [
      'before more text',
      (play: Stage) => (play.says('pm'), play.operator({ type: 'extend', ms: 120_000 }), play.says('pm')),
    ],
  ])('is moved by an operator who extends the turn %s', (_when, act) => {
    const play = taken({ autoDetectTurnEnd: true });
    act(play);
    play.later(129_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED SILENCE');
  });

  const settings = { autoDetectTurnEnd: true };

  test('is off by default', () => {
    const play = taken();
    play.says('pm');
    play.later(10_000);
    expect(play.holder).toBe('pm #1');
  });

  test('never happens before any text', () => {
    const play = taken(settings);
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED TIMEOUT');
  });

  test('never happens before any text, even after work', () => {
    const play = taken(settings);
    play.works('pm', 1);
    play.works('pm', 0);
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
  });

  test('happens 10 s after the last text, not after the first', () => {
    const play = taken(settings);
    play.says('pm');
    play.later(9_999);
    play.says('pm');
    play.later(9_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.moves('pm').at(-1)).toBe('pm ACTIVE>QUEUED SILENCE');
  });

  test('does not happen while a tool call is open, but 10 s after its end', () => {
    const play = taken(settings);
    play.says('pm');
    play.works('pm', 1);
    play.later(40_000);
    expect(play.holder).toBe('pm #1');
    play.works('pm', 0);
    play.later(9_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });
});

describe('the alarm', () => {
  test('is not set on a resting floor', () => {
    expect(nextDeadline(stage().floor)).toBeNull();
  });

  test('is set to the earliest deadline of the turn', () => {
    const play = taken({ autoDetectTurnEnd: true });
    expect(nextDeadline(play.floor)).toBe(play.at + 60_000);
    play.says('pm');
    expect(nextDeadline(play.floor)).toBe(play.at + 10_000);
    play.works('pm', 2);
    expect(nextDeadline(play.floor)).toBe(play.at + 900_000);
  });

  test('fires a second time without effect', () => {
    const play = taken();
    play.at += 60_000;
    play.tick();
    const { floor } = play;
    expect(play.refused({ type: 'tick' })).toBe('nothing-due');
    expect(play.floor).toEqual(floor);
  });

  test('fires for every turn of a silent channel and then rests', () => {
    const play = taken();
    play.later(3_600_000);
    expect(play.moves()).toHaveLength(12);
    expect(play.floor.condition).toBe('resting');
    expect(nextDeadline(play.floor)).toBeNull();
  });

  test('is not set while nobody holds the floor and it is paused', () => {
    const play = stage();
    play.operator({ type: 'pause' });
    play.person('m1');
    expect(nextDeadline(play.floor)).toBeNull();
  });
});
