import { describe, expect, test } from 'vitest';
import { nextDeadline } from '../../../src/turns/floor/seats.ts';
import { announcementsIn, effectsOf, factsOf, stage } from './stage.ts';
import type { Casting, Stage } from './stage.ts';

const REQUEST = { title: 'run the tests', detail: 'npm test' } as const;

/** pm was granted the floor for m1. Then the platform's connection was lost. */
function cutOff(casting: Casting = {}): Stage {
  const play = stage(casting);
  play.person('m1');
  play.losesTouch();
  return play;
}

describe('a platform that cannot be heard', () => {
  test('leaves the turn under way alone: its agent goes on under the same epoch', () => {
    const play = stage();
    play.person('m1');
    const before = play.floor;
    expect(play.losesTouch()).toEqual({ facts: [{ type: 'disconnected', restart: false }], effects: [] });
    expect(play.floor).toEqual({ ...before, catchingUp: true });
    expect(play.says('pm').effects).toMatchObject([{ type: 'post', agent: 'pm', epoch: 1 }]);
    play.works('pm', 1);
    expect(play.holder).toBe('pm #1');
  });

  test('is lost once: a second loss, and one while the history is read, is refused', () => {
    const play = cutOff();
    expect(play.refused({ type: 'disconnect' })).toBe('already');
    play.catchesUp();
    play.act({ type: 'restart' });
    expect(play.refused({ type: 'disconnect' })).toBe('already');
  });

  test('grants nothing when the turn ends; the history that was read lets the floor go on at once', () => {
    const play = cutOff();
    play.speaks('pm');
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(play.floor.condition).toBe('open');
    const read = play.catchesUp();
    expect(play.holder).toBe('dev #2');
    expect(effectsOf('prompt', read)).toHaveLength(1);
  });

  test('is told of a gap before anything is granted', () => {
    const play = cutOff();
    play.speaks('pm');
    const read = play.act({ type: 'catchUp', gap: 'too much was written' });
    expect(read.effects.map(({ type }) => type)).toEqual(['announce', 'prompt']);
    expect(announcementsIn(read.effects)).toEqual([{ kind: 'gap', why: 'too much was written' }]);
  });

  test('holds what was heard late until the history is read, and then gives it to whoever speaks', () => {
    const play = cutOff();
    play.person('m2');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'start' });
    const read = play.catchesUp();
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['pm'], via: 'inject' });
    expect(effectsOf('inject', read)).toMatchObject([{ agent: 'pm', epoch: 1, message: 'm2' }]);
  });

  test('answers those who may not wait for it: grant and start are refused, resume is remembered', () => {
    const play = cutOff();
    expect(play.refused({ type: 'grant', by: 'ada', agent: 'dev' })).toBe('catching-up');
    play.operator({ type: 'stop' });
    expect(play.refused({ type: 'start', by: 'ada' })).toBe('catching-up');
    play.person('m2');
    play.operator({ type: 'resume' });
    expect(play.holder).toBeNull();
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('lets a resume after a stop serve what the stop had kept, once the history is read', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.person('m2');
    play.operator({ type: 'stop' });
    play.losesTouch();
    play.operator({ type: 'resume' });
    expect(effectsOf('prompt', play.catchesUp())).toMatchObject([{ messages: ['m2', 'm1'] }]);
  });

  test('lets operators end the turn meanwhile; the next is granted afterwards', () => {
    const play = cutOff();
    play.operator({ type: 'skip' });
    expect(play.holder).toBeNull();
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('still loses an agent that crashes, and is told so; the next is granted afterwards', () => {
    const play = cutOff();
    play.leaves('pm');
    expect(play.announced).toMatchObject([{ kind: 'disconnect', agent: 'pm' }]);
    expect(play.holder).toBeNull();
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('is prompted again by a message that its agent could not take: that is the same turn', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.reports('pm', 'm2', 'next-prompt');
    play.losesTouch();
    expect(effectsOf('prompt', play.completes('pm'))).toMatchObject([{ reason: 'again', epoch: 1, messages: ['m2'] }]);
  });
});

describe('time, while the platform cannot be heard', () => {
  test('ends a turn without a sign of work, announces it and grants nothing', () => {
    const play = cutOff();
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
    const over = play.later(1);
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(effectsOf('interrupt', over)).toMatchObject([{ agent: 'pm', epoch: 1 }]);
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('does not end a wait: an answer that was written meanwhile comes in time', () => {
    const play = stage();
    play.person('m1');
    play.waits('pm');
    play.losesTouch();
    expect(nextDeadline(play.floor)).toBeNull();
    play.later(3_600_000);
    play.person('m2');
    play.catchesUp();
    expect(play.holder).toBe('pm #2');
  });

  test('ends a wait that nobody answered as soon as the history is read', () => {
    const play = stage();
    play.person('m1');
    play.waits('pm');
    play.losesTouch();
    play.later(3_600_000);
    play.catchesUp();
    expect(play.status('pm')).toBe('WAITING');
    play.later(0);
    expect(play.status('pm')).toBe('QUEUED');
    expect(play.holder).toBe('dev #2');
  });

  test('uses force against an agent that does not stop, which goes on only when the history is read', () => {
    const play = stage({ settings: { mode: 'interrupt' } });
    play.person('m1');
    play.person('m2');
    play.losesTouch();
    const forced = play.later(5_000);
    expect(effectsOf('interrupt', forced)).toMatchObject([{ agent: 'pm', graceMs: 0 }]);
    expect(play.status('pm')).toBe('WAITING');
    play.later(3_600_000);
    const read = play.catchesUp();
    expect(effectsOf('prompt', read)).toMatchObject([
      { agent: 'pm', epoch: 2, reason: 'resume', messages: ['m1', 'm2'] },
    ]);
  });
});

describe('an interrupted turn, while the platform cannot be heard', () => {
  test('is not answered for by another before the history is read', () => {
    const play = stage({ settings: { mode: 'interrupt', interruptResponder: 'qa' } });
    play.person('m1');
    play.person('m2');
    play.losesTouch();
    play.stopsGenerating('pm');
    expect(play.seats).toBe('pm WAITING, dev QUEUED, qa QUEUED');
    play.person('m3');
    const read = play.catchesUp();
    expect(play.holder).toBe('qa #2');
    expect(effectsOf('prompt', read)).toMatchObject([{ agent: 'qa', messages: ['m2', 'm3'] }]);
  });
});

describe('a turn that waits, while the platform cannot be heard', () => {
  test('goes on with what it had missed only when the history is read', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.reports('pm', 'm2', 'next-prompt');
    play.losesTouch();
    play.waits('pm');
    expect(play.status('pm')).toBe('WAITING');
    const read = play.catchesUp();
    expect(effectsOf('prompt', read)).toMatchObject([{ agent: 'pm', epoch: 2, messages: ['m1', 'm2'] }]);
  });

  test('lends nobody the floor before the history is read', () => {
    const play = cutOff({ settings: { waitPolicy: 'release' } });
    play.waits('pm');
    expect(play.seats).toBe('pm WAITING, dev QUEUED, qa QUEUED');
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('for a yes goes on under the same epoch when somebody gives it', () => {
    const play = cutOff();
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: REQUEST });
    play.act({ type: 'shown', question: 1 });
    play.operator({ type: 'decide', choice: 'allow', question: 1 });
    expect(play.holder).toBe('pm #1');
  });
});

describe('a facilitator, while the platform cannot be heard', () => {
  function asked(): Stage {
    const play = stage({ settings: { order: 'facilitator', facilitator: 'pm' } });
    play.person('m1');
    play.act({ type: 'choose', agent: 'pm', ask: 1, next: 'dev' });
    play.speaks('dev');
    play.losesTouch();
    return play;
  }

  test('may take its time: its answer after the history was read counts', () => {
    const play = asked();
    expect(play.floor.facilitation).not.toBeNull();
    expect(effectsOf('ask', play.catchesUp())).toEqual([]);
    play.act({ type: 'choose', agent: 'pm', ask: 2, next: 'qa' });
    expect(play.holder).toBe('qa #2');
  });

  test('grants nothing by its answer, and is asked again when the history is read', () => {
    const play = asked();
    const answer = play.act({ type: 'choose', agent: 'pm', ask: 2, next: 'qa' });
    expect(answer).toEqual({ facts: [{ type: 'facilitatorAnswered', next: null, why: 'overtaken' }], effects: [] });
    expect(effectsOf('ask', play.catchesUp())).toMatchObject([{ agent: 'pm', ask: 3 }]);
  });

  test('that does not answer in time, or leaves, keeps nobody waiting afterwards', () => {
    const late = asked();
    late.later(60_000);
    expect(late.floor.facilitation).toBeNull();
    expect(effectsOf('ask', late.catchesUp())).toHaveLength(1);
    const gone = asked();
    gone.leaves('pm');
    expect(gone.holder).toBeNull();
    gone.catchesUp();
    expect(gone.holder).toBe('qa #2');
  });
});

describe('a program that restarts while the platform cannot be heard', () => {
  test('suspends the turn and ends the question, as any restart does', () => {
    const play = cutOff();
    const { facts } = play.act({ type: 'restart' });
    expect(facts).toEqual([{ type: 'disconnected', restart: true }]);
    expect(play.floor.turn?.status).toBe('suspended');
    play.catchesUp();
    play.joins('pm');
    expect(play.holder).toBe('pm #2');
  });

  test('row 65: a yes to a request of before the restart is refused, and the turn goes on when its agent is back', () => {
    const play = stage();
    play.person('m1');
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: REQUEST });
    play.act({ type: 'restart' });
    expect(play.refused({ type: 'decide', by: 'ada', choice: 'allow', question: 1 })).toBe('stale-question');
    play.catchesUp();
    expect(factsOf('turnResumed', play.joins('pm'))).toMatchObject([{ agent: 'pm', epoch: 2 }]);
  });
});

describe('T10 a history that cannot be read', () => {
  const gaps = (play: Stage) =>
    play.effects.flatMap((effect) =>
      effect.type === 'announce' && effect.announcement.kind === 'gap' ? [effect.repeat] : [],
    );
  const loses = (play: Stage): void => {
    play.losesTouch();
    play.act({ type: 'catchUp', gap: 'not readable' });
  };

  test('is told once an outage, whatever is said and announced between, and again when it comes later', () => {
    const play = stage();
    play.person('m1');
    loses(play);
    play.says('pm');
    play.at += 599_999;
    loses(play);
    play.operator({ type: 'skip' });
    loses(play);
    expect(gaps(play)).toEqual([1, 2, 3]);
    play.at += 600_000;
    loses(play);
    expect(gaps(play)).toEqual([1, 2, 3, 1]);
  });

  test('is one notice beside the one that a turn goes on, however often Conch is killed in it', () => {
    const play = stage();
    play.person('m1');
    play.says('pm');
    for (let kill = 0; kill < 4; kill += 1) {
      play.act({ type: 'restart' });
      play.act({ type: 'catchUp', gap: 'not readable' });
      for (const agent of ['pm', 'dev', 'qa']) play.attempt({ type: 'join', agent });
      play.says('pm', `part ${kill}`);
    }
    const told = play.effects.flatMap((effect) =>
      effect.type === 'announce' ? [`${effect.announcement.kind} ${effect.repeat}`] : [],
    );
    expect(told).toEqual([1, 2, 3, 4].flatMap((count) => [`gap ${count}`, `recovered ${count}`]));
  });

  test('takes no other notice from its place', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    loses(play);
    play.person('m1');
    play.leaves('pm', 'gone');
    loses(play);
    play.leaves('dev', 'gone');
    const told = play.effects.flatMap((effect) =>
      effect.type === 'announce' ? [`${effect.key} ${effect.repeat}`] : [],
    );
    expect(told).toEqual(['history 1', 'outage 1', 'history 2', 'outage 2', 'outage 3']);
  });
});
