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

describe('a lost platform connection', () => {
  test('does not change the running turn: its agent continues under the same epoch', () => {
    const play = stage();
    play.person('m1');
    const before = play.floor;
    expect(play.losesTouch()).toEqual({ facts: [{ type: 'disconnected', restart: false }], effects: [] });
    expect(play.floor).toEqual({ ...before, catchingUp: true });
    expect(play.says('pm').effects).toMatchObject([{ type: 'post', agent: 'pm', epoch: 1 }]);
    play.works('pm', 1);
    expect(play.holder).toBe('pm #1');
  });

  test('is reported once: a second loss, and one during catch-up, are refused', () => {
    const play = cutOff();
    expect(play.refused({ type: 'disconnect' })).toBe('already');
    play.catchesUp();
    play.act({ type: 'restart' });
    expect(play.refused({ type: 'disconnect' })).toBe('already');
  });

  test('grants nothing when the turn ends; after the catch-up the floor continues at once', () => {
    const play = cutOff();
    play.speaks('pm');
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(play.floor.condition).toBe('open');
    const read = play.catchesUp();
    expect(play.holder).toBe('dev #2');
    expect(effectsOf('prompt', read)).toHaveLength(1);
  });

  test('reports a gap before anything is granted', () => {
    const play = cutOff();
    play.speaks('pm');
    const read = play.act({ type: 'catchUp', gap: 'too much was written' });
    expect(read.effects.map(({ type }) => type)).toEqual(['announce', 'prompt']);
    expect(announcementsIn(read.effects)).toEqual([{ kind: 'gap', why: 'too much was written' }]);
  });

  test('holds messages until the catch-up has ended, and then injects them into the running turn', () => {
    const play = cutOff();
    play.person('m2');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'start' });
    const read = play.catchesUp();
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['pm'], via: 'inject' });
    expect(effectsOf('inject', read)).toMatchObject([{ agent: 'pm', epoch: 1, message: 'm2' }]);
  });

  test('refuses grant and start, and applies a resume after the catch-up', () => {
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

  test('lets a resume after a stop release held messages after the catch-up', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.person('m2');
    play.operator({ type: 'stop' });
    play.losesTouch();
    play.operator({ type: 'resume' });
    expect(effectsOf('prompt', play.catchesUp())).toMatchObject([{ messages: ['m2', 'm1'] }]);
  });

  test('lets operators end the turn; the next is granted afterwards', () => {
    const play = cutOff();
    play.operator({ type: 'skip' });
    expect(play.holder).toBeNull();
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('announces an agent that crashes; the next is granted after the catch-up', () => {
    const play = cutOff();
    play.leaves('pm');
    expect(play.announced).toMatchObject([{ kind: 'disconnect', agent: 'pm' }]);
    expect(play.holder).toBeNull();
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('prompts again with a message that the agent refused: that is the same turn', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.reports('pm', 'm2', 'next-prompt');
    play.losesTouch();
    expect(effectsOf('prompt', play.completes('pm'))).toMatchObject([{ reason: 'again', epoch: 1, messages: ['m2'] }]);
  });
});

describe('time during a lost connection', () => {
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

  test('does not end a wait: an answer written meanwhile is in time', () => {
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

  test('ends a wait without an answer as soon as the catch-up has ended', () => {
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

  test('stops an agent by force, which continues only after the catch-up', () => {
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

describe('an interrupted turn during a lost connection', () => {
  test('gets no responder before the catch-up has ended', () => {
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

describe('a waiting turn during a lost connection', () => {
  test('continues with missed messages only after the catch-up', () => {
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

  test('lends the floor to nobody before the catch-up has ended', () => {
    const play = cutOff({ settings: { waitPolicy: 'release' } });
    play.waits('pm');
    expect(play.seats).toBe('pm WAITING, dev QUEUED, qa QUEUED');
    play.catchesUp();
    expect(play.holder).toBe('dev #2');
  });

  test('for approval continues under the same epoch when somebody allows it', () => {
    const play = cutOff();
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: REQUEST });
    play.act({ type: 'shown', question: 1 });
    play.operator({ type: 'decide', choice: 'allow', question: 1 });
    expect(play.holder).toBe('pm #1');
  });
});

describe('a facilitator during a lost connection', () => {
  function asked(): Stage {
    const play = stage({ settings: { order: 'facilitator', facilitator: 'pm' } });
    play.person('m1');
    play.act({ type: 'choose', agent: 'pm', ask: 1, next: 'dev' });
    play.speaks('dev');
    play.losesTouch();
    return play;
  }

  test('may answer late: its answer after the catch-up counts', () => {
    const play = asked();
    expect(play.floor.facilitation).not.toBeNull();
    expect(effectsOf('ask', play.catchesUp())).toEqual([]);
    play.act({ type: 'choose', agent: 'pm', ask: 2, next: 'qa' });
    expect(play.holder).toBe('qa #2');
  });

  test('grants nothing by its answer, and is asked again after the catch-up', () => {
    const play = asked();
    const answer = play.act({ type: 'choose', agent: 'pm', ask: 2, next: 'qa' });
    expect(answer).toEqual({ facts: [{ type: 'facilitatorAnswered', next: null, why: 'overtaken' }], effects: [] });
    expect(effectsOf('ask', play.catchesUp())).toMatchObject([{ agent: 'pm', ask: 3 }]);
  });

  test('that does not answer in time, or leaves, delays nobody afterwards', () => {
    const late = asked();
    late.later(60_000);
    expect(late.floor.facilitation).toBeNull();
    expect(effectsOf('ask', late.catchesUp())).toHaveLength(1);
    late.later(60_000);
    expect(late.holder).toBe('pm #2');
    const gone = asked();
    gone.leaves('pm');
    expect(gone.holder).toBeNull();
    gone.catchesUp();
    expect(gone.holder).toBe('qa #2');
  });
});

describe('a restart during a lost connection', () => {
  test('suspends the turn, which continues with a new epoch when its agent is back', () => {
    const play = cutOff();
    const { facts } = play.act({ type: 'restart' });
    expect(facts).toEqual([{ type: 'disconnected', restart: true }]);
    expect(play.floor.turn?.status).toBe('suspended');
    play.catchesUp();
    play.joins('pm');
    expect(play.holder).toBe('pm #2');
  });

  test('row 65: refuses approval of a request from before the restart, and the turn continues when its agent is back', () => {
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

  test('is announced once per outage, even if other posts follow, and again for a later outage', () => {
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

  test('has one notice, and the continued turn has another, even if Conch is killed several times', () => {
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

  test('replaces no other notice', () => {
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
