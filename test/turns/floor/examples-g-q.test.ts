import { describe, expect, test } from 'vitest';
import { announcementsIn, effectsOf, factsOf, movesIn, seatOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';
import { PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import { flatOrNull } from './flat-turn.ts';

/** dev is ACTIVE #2 after pm's turn; qa is next, then pm. */
function second(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  play.speaks('pm');
  return play;
}

const auto = (agent: string) => ({ agent, rejoin: 'auto' as const });

describe('example G: timeout', () => {
  test('nothing at 59,999 ms; at 60,000 pm is QUEUED, told to stop, and dev has the floor', () => {
    const play = stage();
    play.person('m1');
    expect(play.later(59_999).facts).toEqual([]);
    const over = play.later(1);
    expect(movesIn(over.facts)).toEqual(['pm ACTIVE>QUEUED TIMEOUT', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(effectsOf('interrupt', over)).toMatchObject([{ agent: 'pm', epoch: 1 }]);
    expect(play.holder).toBe('dev #2');
  });

  test('a text of pm 20 s ago puts the deadline 60 s after it', () => {
    const play = stage();
    play.person('m1');
    play.later(40_000);
    play.says('pm');
    play.later(20_000);
    expect(flatOrNull(play.floor.turn)?.deadlineAt).toBe(play.at + 40_000);
  });

  test('at 900 s the turn ends in any case', () => {
    const play = stage();
    play.person('m1');
    play.works('pm', 1);
    play.later(900_000);
    expect(play.holder).toBe('dev #2');
  });
});

describe('example H: crash', () => {
  test('pm is OFFLINE with its cause, the channel is told once, and dev has the floor', () => {
    const play = stage();
    play.person('m1');
    const crash = play.leaves('pm', 'exited with code 137');
    expect(movesIn(crash.facts)).toEqual(['pm ACTIVE>OFFLINE CRASHED', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(announcementsIn(crash.effects)).toEqual([
      { kind: 'disconnect', agent: 'pm', cause: 'exited with code 137' },
    ]);
  });

  test('pm returns to IDLE and is QUEUED at the end when an operator adds it', () => {
    const play = stage();
    play.person('m1');
    play.leaves('pm');
    play.joins('pm');
    expect(play.status('pm')).toBe('IDLE');
    play.operator({ type: 'add', agent: 'pm' });
    expect(play.moves('pm').at(-1)).toBe('pm IDLE>QUEUED ASSIGNED');
    expect(play.floor.queue).toEqual(['qa', 'pm']);
  });

  test('an agent that rejoins by itself is IDLE, then QUEUED, in one go', () => {
    const play = stage({ agents: [auto('pm'), 'dev', 'qa'] });
    play.person('m1');
    play.leaves('pm');
    expect(movesIn(play.joins('pm').facts)).toEqual(['pm OFFLINE>IDLE AGENT_STARTED', 'pm IDLE>QUEUED ASSIGNED']);
    expect(play.floor.queue).toEqual(['pm', 'qa']);
  });

  test('a crash while WAITING is announced too, and the floor continues', () => {
    const play = stage();
    play.person('m1');
    play.waits('pm');
    const crash = play.leaves('pm', 'no heartbeat for 45 s');
    expect(movesIn(crash.facts)).toEqual(['pm WAITING>OFFLINE DISCONNECTED', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(announcementsIn(crash.effects)).toEqual([
      { kind: 'disconnect', agent: 'pm', cause: 'no heartbeat for 45 s' },
    ]);
  });
});

describe('example I: nobody', () => {
  function empty(agents: Parameters<typeof stage>[0] = {}): Stage {
    const play = stage(agents);
    for (const agent of ['pm', 'dev', 'qa']) play.leaves(agent);
    return play;
  }

  test('m1 and m2 are unrouted, with their receipts and one notice', () => {
    const play = empty();
    play.person('m1');
    play.person('m2');
    expect(play.fate('m1')).toMatchObject({ state: 'unrouted' });
    expect(play.fate('m2')).toMatchObject({ state: 'unrouted' });
    expect([...play.receipts('m1'), ...play.receipts('m2')]).toEqual(['unrouted', 'unrouted']);
    expect(play.announced).toEqual([{ kind: 'nobody' }]);
  });

  test('pm starts and is assigned, and is ACTIVE at once with both', () => {
    const play = empty({ agents: [auto('pm'), 'dev', 'qa'] });
    play.person('m1');
    play.person('m2');
    const back = play.joins('pm');
    expect(movesIn(back.facts)).toEqual([
      'pm OFFLINE>IDLE AGENT_STARTED',
      'pm IDLE>QUEUED ASSIGNED',
      'pm QUEUED>ACTIVE TURN_GRANTED',
    ]);
    expect(effectsOf('prompt', back)).toMatchObject([{ agent: 'pm', messages: ['m1', 'm2'] }]);
    expect(play.fate('m1')).toEqual({ state: 'delivered', to: ['pm'], via: 'prompt' });
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['pm'], via: 'prompt' });
  });

  test('the next outage is announced again', () => {
    const play = empty({ agents: [auto('pm'), 'dev', 'qa'] });
    play.person('m1');
    play.joins('pm');
    play.speaks('pm');
    play.leaves('pm');
    play.person('m2');
    expect(play.announced).toEqual([{ kind: 'nobody' }, { kind: 'nobody' }]);
  });

  test('the last agent crashes in its turn: the message was delivered, and no held message is left', () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    play.leaves('pm');
    expect(play.seats).toBe('pm OFFLINE');
    expect(play.holder).toBeNull();
    play.person('m2');
    expect(play.fate('m2')).toMatchObject({ state: 'unrouted' });
  });
});

describe('example J: stop', () => {
  function stopped(): Stage {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.operator({ type: 'stop' });
    return play;
  }

  test('dev is QUEUED, its session interrupted, the exchange closed, and people are told how many messages are held', () => {
    const play = stopped();
    expect(movesIn(play.last.facts)).toEqual(['dev ACTIVE>QUEUED STOPPED']);
    expect(effectsOf('interrupt', play.last)).toMatchObject([{ agent: 'dev', epoch: 2 }]);
    expect(announcementsIn(play.last.effects)).toEqual([{ kind: 'stopped', agent: 'dev', kept: 1 }]);
    expect(factsOf('exchangeClosed', play.last)).toMatchObject([{ reason: 'stopped' }]);
    expect(play.floor.condition).toBe('resting');
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
  });

  test('a grant that is still pending is cancelled', () => {
    expect(effectsOf('cancel', stopped().last)).toEqual([{ type: 'cancel', agent: 'dev', epoch: 2 }]);
  });

  test('the next message opens a new exchange, with m2 first', () => {
    const play = stopped();
    const act = play.person('m3');
    expect(play.floor.condition).toBe('open');
    expect(effectsOf('prompt', act)).toMatchObject([{ epoch: 3, messages: ['m2', 'm3'] }]);
  });

  test('no agent can lift the stop', () => {
    const play = stopped();
    play.refused({ type: 'say', agent: 'dev', epoch: 2, text: 'but', mentions: [] });
    play.refused({ type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: true, handTo: 'qa' });
    play.refused({ type: 'wait', agent: 'dev', epoch: 2, reason: 'answer' });
    play.leaves('qa');
    play.joins('qa');
    play.operator({ type: 'add', agent: 'qa' });
    play.later(3_600_000);
    expect(play.floor.condition).toBe('resting');
    expect(play.holder).toBeNull();
    expect(play.floor.held.map((held) => held.id)).toEqual(['m2']);
  });

  test('an operator lifts the stop with a start, and held messages come first', () => {
    const play = stopped();
    expect(effectsOf('prompt', play.operator({ type: 'start' }))).toMatchObject([{ epoch: 3, messages: ['m2'] }]);
  });

  test('of a waiting agent ends its turn as well', () => {
    const play = second();
    play.waits('dev');
    expect(movesIn(play.operator({ type: 'stop' }).facts)).toEqual(['dev WAITING>QUEUED STOPPED']);
    expect(play.floor.condition).toBe('resting');
  });

  test('ends turns that wait without the floor as well', () => {
    const play = second({ waitPolicy: 'release' });
    play.waits('dev');
    play.operator({ type: 'stop' });
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(play.floor.parked).toEqual([]);
  });

  test('of an idle floor is refused', () => {
    expect(stage().refused({ type: 'stop', by: 'ada' })).toBe('nothing-to-stop');
  });
});

describe('example K: restart', () => {
  const agents = [auto('pm'), auto('dev'), auto('qa')];
  /** Conch was killed while dev was ACTIVE #2, and has restarted. */
  function restarted(settings = {}): Stage {
    const play = stage({ agents, settings });
    play.person('m1');
    play.speaks('pm');
    play.says('dev', 'part one');
    play.act({ type: 'restart' });
    return play;
  }

  test('nothing is granted or resumed before the history has been read', () => {
    const play = restarted();
    const mark = play.effects.length;
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    play.person('m4');
    expect(play.fate('m4')).toEqual({ state: 'held', until: 'start' });
    expect(play.effects.slice(mark).filter((effect) => effect.type === 'prompt')).toEqual([]);
    expect(play.floor.epoch).toBe(2);
  });

  test.each([
    ['after it joined', ['join', 'catchUp']],
    ['before it joined', ['catchUp', 'join']],
  ])('dev resumes with a new epoch and with m4 when the history was read %s', (_, order) => {
    const play = restarted();
    play.person('m4');
    for (const step of order) {
      if (step === 'join') for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
      else play.act({ type: 'catchUp' });
    }
    expect(play.holder).toBe('dev #3');
    const resumed = play.effects.filter((effect) => effect.type === 'prompt' && effect.epoch === 3);
    expect(resumed).toMatchObject([{ agent: 'dev', reason: 'resume' }]);
    expect(play.fate('m4')).toMatchObject({ state: 'delivered', to: ['dev'] });
    expect(play.announced).toContainEqual({ kind: 'recovered', agent: 'dev' });
    play.speaks('dev');
    expect(play.holder).toBe('qa #4');
  });

  test('T10 announces once that dev continues, even if Conch is killed again in the same turn', () => {
    const play = restarted();
    const again = () => {
      play.act({ type: 'catchUp', gap: 'not readable' });
      for (const agent of ['pm', 'dev', 'qa']) play.attempt({ type: 'join', agent });
    };
    again();
    play.says('dev', 'part two');
    play.act({ type: 'restart' });
    again();
    const told = play.effects.flatMap((effect) =>
      effect.type === 'announce' && effect.announcement.kind === 'recovered' ? [effect.repeat] : [],
    );
    expect(told).toEqual([1, 2]);
    play.speaks('dev');
    play.act({ type: 'restart' });
    again();
    expect(play.effects.findLast((effect) => effect.type === 'announce')).toMatchObject({ repeat: 1 });
  });

  test('in queue mode m4 is released after the resumed turn', () => {
    const play = restarted({ mode: 'queue' });
    play.person('m4');
    play.act({ type: 'catchUp' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    expect(play.holder).toBe('dev #3');
    expect(play.fate('m4')).toMatchObject({ state: 'held' });
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', messages: ['m4'] }]);
  });

  test('pending effects for dev under #2 are cancelled: dev would speak before the history is read', () => {
    const play = restarted();
    const taken = play.effects.findLast((effect) => effect.type === 'cancel');
    expect(taken).toEqual({ type: 'cancel', agent: 'dev', epoch: 2 });
  });

  test('a click with #2 is answered that the turn is over', () => {
    const play = restarted();
    play.act({ type: 'catchUp' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    expect(play.refused({ type: 'skip', by: 'ada', epoch: 2 })).toBe('stale-epoch');
  });

  test('output of #2 that arrives after the restart is refused', () => {
    const play = restarted();
    play.act({ type: 'catchUp' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    expect(play.refused({ type: 'say', agent: 'dev', epoch: 2, text: 'late', mentions: [] })).toBe('stale-epoch');
  });

  test('a holder that does not come back counts as crashed, and the next is granted', () => {
    const play = restarted();
    play.act({ type: 'catchUp' });
    play.joins('pm');
    play.joins('qa');
    expect(play.holder).not.toBe('qa #3');
    const gone = play.leaves('dev', 'did not come back');
    expect(announcementsIn(gone.effects)).toEqual([{ kind: 'disconnect', agent: 'dev', cause: 'did not come back' }]);
    expect(play.status('dev')).toBe('OFFLINE');
    expect(play.holder).toBe('qa #3');
  });

  test('with onRestart forfeit the turn is forfeited and the next is granted', () => {
    const play = restarted({ onRestart: 'forfeit' });
    play.act({ type: 'catchUp' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    expect(play.holder).toBe('qa #3');
    expect(play.journal.flatMap(({ fact }) => (fact.type === 'turnEnded' ? [fact] : [])).at(-1)).toMatchObject({
      agent: 'dev',
      epoch: 2,
      outcome: 'forfeited',
    });
  });

  test('a history that could not be read is announced as a gap, and the floor continues', () => {
    const play = restarted();
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    play.act({ type: 'catchUp', gap: 'no permission to read the history' });
    expect(play.announced).toContainEqual({ kind: 'gap', why: 'no permission to read the history' });
    expect(play.holder).toBe('dev #3');
  });

  test('a message found on a resting floor opens an exchange once the history is read', () => {
    const play = stage({ agents });
    play.act({ type: 'restart' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    play.person('m1');
    expect(play.holder).toBeNull();
    expect(effectsOf('prompt', play.act({ type: 'catchUp' }))).toMatchObject([{ agent: 'pm', messages: ['m1'] }]);
    expect(play.holder).toBe('pm #1');
    expect(play.fate('m1')).toMatchObject({ state: 'delivered', to: ['pm'] });
  });
});

describe('example L: solo', () => {
  test('pm completes to IDLE and is recalled and granted by the next message in one step', () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    expect(movesIn(play.speaks('pm').facts)).toEqual(['pm ACTIVE>IDLE TURN_COMPLETE']);
    expect(play.floor.condition).toBe('resting');
    expect(movesIn(play.person('m2').facts)).toEqual(['pm IDLE>QUEUED RECALLED', 'pm QUEUED>ACTIVE TURN_GRANTED']);
    expect(effectsOf('prompt', play.last)).toMatchObject([{ agent: 'pm', epoch: 2, messages: ['m2'] }]);
  });
});

describe('example M: stale and doubled', () => {
  test('a second TURN_COMPLETE is refused, because pm no longer holds the floor', () => {
    const play = stage();
    play.person('m1');
    const end = play.ending('pm');
    play.act(end);
    expect(play.refused(end)).toBe('not-holder');
    expect(play.holder).toBe('dev #2');
  });

  test("qa's text while dev holds the floor is refused, recorded and not posted", () => {
    const play = second();
    const { refusal, facts, effects } = play.attempt({
      type: 'say',
      agent: 'qa',
      epoch: 2,
      text: 'me too',
      mentions: [],
    });
    expect(refusal).toBe('not-holder');
    expect(facts).toMatchObject([{ type: 'actRefused', act: 'say', agent: 'qa', epoch: 2, refusal: 'not-holder' }]);
    expect(effects).toEqual([]);
  });

  test('a message that is already held is not held twice', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    expect(play.refused({ type: 'receive', id: 'm2', addressed: [] })).toBe('duplicate');
  });

  test('a second tick does nothing', () => {
    const play = stage();
    play.person('m1');
    play.at += 60_000;
    play.tick();
    expect(play.refused({ type: 'tick' })).toBe('nothing-due');
  });
});

describe('example N: budget', () => {
  /** pm and dev hand over to each other for twelve turns. */
  function spent(): Stage {
    const play = stage();
    play.person('m1');
    for (let turn = 0; turn < 6; turn += 1) {
      play.speaks('pm', 'dev');
      play.speaks('dev', 'pm');
    }
    return play;
  }

  test('after twelve turns since the last message the floor rests and people are told once', () => {
    const play = spent();
    expect(play.floor.condition).toBe('resting');
    expect(play.floor.epoch).toBe(12);
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 12, max: 12 }]);
  });

  test('the eleventh turn is no limit yet', () => {
    const play = stage();
    play.person('m1');
    for (let turn = 0; turn < 5; turn += 1) {
      play.speaks('pm', 'dev');
      play.speaks('dev', 'pm');
    }
    play.speaks('pm', 'dev');
    expect(play.holder).toBe('dev #12');
    expect(play.announced).toEqual([]);
  });

  test('a resume gives twelve more turns', () => {
    const play = spent();
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('pm #13');
    for (let turn = 0; turn < 12; turn += 1) {
      const agent = play.holder?.split(' ')[0];
      expect(play.holder).toBe(`${agent} #${13 + turn}`);
      play.speaks(agent ?? '', agent === 'pm' ? 'dev' : 'pm');
    }
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toHaveLength(2);
  });

  test('a message starts the count again', () => {
    const play = spent();
    play.person('m2');
    expect(play.floor.condition).toBe('open');
    expect(play.floor.epoch).toBe(13);
  });
});

describe('example O: changes mid-cycle', () => {
  test('ops, added while dev is ACTIVE, is QUEUED and speaks after the current cycle', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    play.configure(PLAIN_SETTINGS, ['pm', 'dev', 'qa', 'ops'].map(seatOf));
    play.joins('ops');
    expect(play.status('ops')).toBe('QUEUED');
    play.speaks('dev');
    expect(play.holder).toBe('qa #3');
  });

  test('removing dev revokes its turn and qa has the floor', () => {
    const play = second();
    const act = play.operator({ type: 'remove', agent: 'dev' });
    expect(movesIn(act.facts)).toEqual(['dev ACTIVE>IDLE REMOVED', 'qa QUEUED>ACTIVE TURN_GRANTED']);
    expect(factsOf('turnEnded', act)).toMatchObject([{ agent: 'dev', outcome: 'revoked' }]);
  });

  test('removing a queued seat closes the gap', () => {
    const play = second();
    expect(play.floor.queue).toEqual(['qa', 'pm']);
    play.operator({ type: 'remove', agent: 'qa' });
    expect(play.floor.queue).toEqual(['pm']);
  });

  test('two operators skip #2 at once: one skip, and the other is told that the turn is over', () => {
    const play = second();
    expect(movesIn(play.operator({ type: 'skip', epoch: 2 }).facts)).toEqual([
      'dev ACTIVE>QUEUED SKIPPED',
      'qa QUEUED>ACTIVE TURN_GRANTED',
    ]);
    expect(play.refused({ type: 'skip', by: 'bob', epoch: 2 })).toBe('stale-epoch');
    expect(play.holder).toBe('qa #3');
  });
});

describe('example P: addressing', () => {
  test('a held message for qa has it granted before pm at the end of dev’s turn', () => {
    const play = stage({ agents: ['pm', 'dev', 'ops', 'qa'], settings: { mode: 'queue' } });
    play.person('m1');
    play.speaks('pm');
    play.person('m2', 'qa');
    expect(play.fate('m2')).toMatchObject({ state: 'held' });
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', epoch: 3, messages: ['m2'] }]);
  });

  test('a message for the holder is a message, not a command', () => {
    const play = second();
    expect(effectsOf('inject', play.person('m2', 'dev'))).toMatchObject([{ agent: 'dev', message: 'm2' }]);
    expect(play.holder).toBe('dev #2');
  });

  test('several addressed agents go in the order in which they were named', () => {
    const play = stage();
    play.person('m1', 'qa', 'dev');
    expect(play.holder).toBe('qa #1');
    play.speaks('qa');
    expect(play.holder).toBe('dev #2');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
  });
});

describe('example Q: fence', () => {
  test('a turn that ended without its signal is recorded so', () => {
    const play = stage();
    play.person('m1');
    play.says('pm', '```\nTURN_COMPLETE\n```');
    expect(play.holder).toBe('pm #1');
    const end = play.act({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: false });
    expect(factsOf('turnEnded', end)).toMatchObject([{ agent: 'pm', signalled: false }]);
  });
});
