import { describe, expect, test } from 'vitest';
import type { AgentCommand } from '../../../src/turns/floor/command.ts';
import { announcementsIn, effectsOf, factsOf, movesIn, seatOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';

/** dev is ACTIVE #2 after pm's turn; qa is next, then pm. */
function second(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  play.speaks('pm');
  return play;
}

const ACTS: Readonly<Record<string, (agent: string, epoch: number) => AgentCommand>> = {
  say: (agent, epoch) => ({ type: 'say', agent, epoch, text: 'me', mentions: [] }),
  work: (agent, epoch) => ({ type: 'work', agent, epoch, open: 1 }),
  end: (agent, epoch) => ({ type: 'end', agent, epoch, outcome: 'completed', signalled: true }),
  wait: (agent, epoch) => ({ type: 'wait', agent, epoch, reason: 'answer' }),
  injected: (agent, epoch) => ({ type: 'injected', agent, epoch, id: 'm2', outcome: 'injected' }),
  interrupted: (agent, epoch) => ({ type: 'interrupted', agent, epoch }),
};

describe.each(Object.entries(ACTS))('the act %s', (name, act) => {
  test('with an older epoch is refused and recorded', () => {
    const play = second();
    play.person('m2', 'pm');
    play.reports('dev', 'm2', 'injected');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
    const { refusal, facts, effects } = play.attempt(act('pm', 1));
    expect(refusal).toBe('stale-epoch');
    expect(facts).toMatchObject([{ type: 'actRefused', act: name, agent: 'pm', epoch: 1, refusal: 'stale-epoch' }]);
    expect(effects).toEqual([]);
  });

  test('with an epoch that was never granted is refused', () => {
    const play = second();
    for (const epoch of [3, 0, -1]) expect(play.refused(act('dev', epoch))).toBe('stale-epoch');
  });

  test('of an agent without the floor is refused and recorded', () => {
    const play = second();
    const { refusal, facts } = play.attempt(act('qa', 2));
    expect(refusal).toBe('not-holder');
    expect(facts).toMatchObject([{ type: 'actRefused', act: name, agent: 'qa', refusal: 'not-holder' }]);
  });

  test('on a resting floor is refused', () => {
    const play = stage();
    expect(play.refused(act('pm', 0))).toBe('not-holder');
  });

  test('of an agent without a seat is refused', () => {
    expect(second().refused(act('eve', 2))).toBe('not-holder');
  });

  test('after its agent disconnected is refused', () => {
    const play = second();
    play.leaves('dev');
    expect(play.refused(act('dev', 2))).toBe('not-holder');
  });
});

describe('a repeated act', () => {
  test('that ends a turn ends it once', () => {
    const play = second();
    const end = play.ending('dev');
    play.act(end);
    play.refused(end);
    expect(play.holder).toBe('qa #3');
  });

  test('that waits waits once, with its first deadline', () => {
    const play = second();
    play.waits('dev');
    const { floor } = play;
    play.at += 1_000;
    play.refused({ type: 'wait', agent: 'dev', epoch: 2, reason: 'answer' });
    expect(play.floor).toEqual(floor);
  });

  test('that reports a stop resumes once', () => {
    const play = second({ mode: 'interrupt' });
    play.person('m2');
    const stopped = { type: 'interrupted', agent: 'dev', epoch: 2 } as const;
    play.act(stopped);
    play.refused(stopped);
    expect(play.holder).toBe('dev #3');
  });

  test('that reports an injection counts once', () => {
    const play = second();
    play.person('m2');
    const report = { type: 'injected', agent: 'dev', epoch: 2, id: 'm2', outcome: 'next-prompt' } as const;
    play.act(report);
    play.attempt(report);
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ messages: ['m2'] }]);
  });

  test('that joins changes nothing the second time', () => {
    const play = second();
    const { floor } = play;
    expect(play.attempt({ type: 'join', agent: 'qa' }).effects).toEqual([]);
    expect(play.floor).toEqual(floor);
  });

  test('that leaves is announced once', () => {
    const play = second();
    play.leaves('dev');
    const again = play.attempt({ type: 'leave', agent: 'dev', cause: 'again' });
    expect(movesIn(again.facts)).toEqual([]);
    expect(play.announced).toHaveLength(1);
  });
});

describe('the usage of a turn', () => {
  test("counts for the channel even if it is reported after the turn's end", () => {
    const play = second();
    play.act({ type: 'spend', agent: 'pm', epoch: 1, tokens: 7, costMicros: 3 });
    expect(play.floor.usageSincePerson).toMatchObject({ tokens: 7, costMicros: 3 });
    expect(play.floor.day).toMatchObject({ tokens: 7, costMicros: 3 });
  });
});

describe('an agent without a seat', () => {
  test('cannot join, leave, or be granted the floor, added, removed, enabled or disabled', () => {
    const play = second();
    expect(play.refused({ type: 'join', agent: 'eve' })).toBe('not-seated');
    expect(play.refused({ type: 'leave', agent: 'eve', cause: 'x' })).toBe('not-seated');
    for (const type of ['grant', 'add', 'remove', 'enable', 'disable'] as const) {
      expect(play.refused({ type, by: 'ada', agent: 'eve' })).toBe('not-seated');
    }
  });
});

describe("a person's change of a message", () => {
  test('reaches the holder at once and the others with their next prompt', () => {
    const play = second();
    const edit = play.act({ type: 'edit', id: 'm1' });
    expect(effectsOf('inject', edit)).toMatchObject([{ agent: 'dev', epoch: 2, message: 'm1', change: 'edited' }]);
    expect(play.floor.lines).toBe(3);
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ agent: 'qa', afterLine: 0, uptoLine: 3 }]);
  });

  test('reaches nobody while the message is held; it is released with its latest text', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    expect(play.act({ type: 'edit', id: 'm2' }).effects).toEqual([]);
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
  });

  test('grants no turn on a resting floor', () => {
    const play = stage();
    play.person('m1');
    for (const agent of ['pm', 'dev', 'qa']) play.speaks(agent);
    expect(play.act({ type: 'delete', id: 'm1' }).effects).toEqual([]);
    expect(play.floor.condition).toBe('resting');
  });
});

describe('an operator', () => {
  test('grants a queued agent the floor when it is free', () => {
    const play = stage();
    play.operator({ type: 'grant', agent: 'qa' });
    expect(play.holder).toBe('qa #1');
    expect(play.floor.condition).toBe('open');
  });

  test('grants a queued agent the next turn while another is ACTIVE', () => {
    const play = second();
    play.operator({ type: 'grant', agent: 'pm' });
    expect(play.holder).toBe('dev #2');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
  });

  test('cannot grant the floor to an agent that is offline, idle or disabled', () => {
    const play = stage();
    play.leaves('pm');
    expect(play.refused({ type: 'grant', by: 'ada', agent: 'pm' })).toBe('offline');
    play.operator({ type: 'remove', agent: 'dev' });
    expect(play.refused({ type: 'grant', by: 'ada', agent: 'dev' })).toBe('not-queued');
    play.operator({ type: 'disable', agent: 'qa' });
    expect(play.refused({ type: 'grant', by: 'ada', agent: 'qa' })).toBe('disabled');
  });

  test('starts an exchange without a message', () => {
    const play = stage();
    play.operator({ type: 'start' });
    expect(play.holder).toBe('pm #1');
    expect(play.refused({ type: 'start', by: 'ada' })).toBe('already');
  });

  test('cannot start an exchange when no agent is available', () => {
    const play = stage({ agents: ['pm'] });
    play.leaves('pm');
    expect(play.refused({ type: 'start', by: 'ada' })).toBe('nobody-available');
  });

  test('skips the holder: its session is stopped and the next is granted', () => {
    const play = second();
    const skip = play.operator({ type: 'skip' });
    expect(movesIn(skip.facts)).toEqual(['dev ACTIVE>QUEUED SKIPPED', 'qa QUEUED>ACTIVE TURN_GRANTED']);
    expect(effectsOf('interrupt', skip)).toMatchObject([{ agent: 'dev', epoch: 2 }]);
    expect(factsOf('turnEnded', skip)).toMatchObject([{ agent: 'dev', outcome: 'revoked' }]);
    expect(announcementsIn(skip.effects)).toEqual([{ kind: 'skipped', agent: 'dev' }]);
  });

  test('cannot skip on a resting floor', () => {
    expect(stage().refused({ type: 'skip', by: 'ada' })).toBe('nothing-to-stop');
  });

  test('pauses the floor: the holder finishes its turn, and no turn is granted until the resume', () => {
    const play = second();
    play.operator({ type: 'pause' });
    expect(play.holder).toBe('dev #2');
    play.speaks('dev');
    expect(play.holder).toBeNull();
    expect(play.floor.condition).toBe('paused');
    expect(play.refused({ type: 'pause', by: 'ada' })).toBe('already');
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('qa #3');
  });

  test('cannot resume a floor that is neither paused nor at a limit', () => {
    expect(second().refused({ type: 'resume', by: 'ada' })).toBe('nothing-to-resume');
  });

  test('adds a removed agent at the end, and is refused when it has a seat already', () => {
    const play = second();
    expect(play.refused({ type: 'add', by: 'ada', agent: 'qa' })).toBe('already');
    play.operator({ type: 'remove', agent: 'qa' });
    expect(play.refused({ type: 'remove', by: 'ada', agent: 'qa' })).toBe('already');
    play.operator({ type: 'add', agent: 'qa' });
    expect(play.floor.queue).toEqual(['pm', 'qa']);
  });

  test("adds an agent that the channel's configuration does not list", () => {
    const play = second();
    play.act({ type: 'add', by: 'ada', agent: 'ops', seat: seatOf('ops') });
    expect(play.status('ops')).toBe('OFFLINE');
    play.joins('ops');
    expect(play.floor.queue).toEqual(['qa', 'pm', 'ops']);
  });

  test('adds an agent that is offline; it is queued when it connects', () => {
    const play = second();
    play.leaves('qa');
    play.operator({ type: 'add', agent: 'qa' });
    expect(movesIn(play.joins('qa').facts)).toEqual(['qa OFFLINE>IDLE AGENT_STARTED', 'qa IDLE>QUEUED ASSIGNED']);
  });

  test('disables the holder: its turn is revoked, and it stays out when it reconnects', () => {
    const play = second();
    const act = play.operator({ type: 'disable', agent: 'dev' });
    expect(movesIn(act.facts)).toEqual(['dev ACTIVE>OFFLINE DISABLED', 'qa QUEUED>ACTIVE TURN_GRANTED']);
    expect(factsOf('turnEnded', act)).toMatchObject([{ agent: 'dev', outcome: 'revoked' }]);
    expect(effectsOf('interrupt', act)).toMatchObject([{ agent: 'dev', epoch: 2 }]);
    play.attempt({ type: 'leave', agent: 'dev', cause: 'closed' });
    play.attempt({ type: 'join', agent: 'dev' });
    expect(play.status('dev')).toBe('OFFLINE');
    expect(play.refused({ type: 'disable', by: 'ada', agent: 'dev' })).toBe('already');
  });

  test('enables an agent, which is IDLE again if it is connected', () => {
    const play = second();
    play.operator({ type: 'disable', agent: 'qa' });
    const act = play.operator({ type: 'enable', agent: 'qa' });
    expect(movesIn(act.facts)).toEqual(['qa OFFLINE>IDLE ENABLED', 'qa IDLE>QUEUED ASSIGNED']);
    expect(play.floor.queue).toEqual(['pm', 'qa']);
    expect(play.refused({ type: 'enable', by: 'ada', agent: 'qa' })).toBe('already');
  });

  test('extends nothing when no turn runs', () => {
    expect(stage().refused({ type: 'extend', by: 'ada', ms: 60_000 })).toBe('nothing-to-stop');
  });

  test("who skips just after a turn's end is told that the turn is over", () => {
    const play = second();
    play.completes('dev');
    expect(play.refused({ type: 'skip', by: 'ada', epoch: 2 })).toBe('stale-epoch');
    expect(play.holder).toBe('qa #3');
  });

  test("who skips just before the turn's completion has the completion refused", () => {
    const play = second();
    const end = play.ending('dev');
    play.operator({ type: 'skip', epoch: 2 });
    expect(play.refused(end)).toBe('not-holder');
    expect(play.holder).toBe('qa #3');
  });

  test('restores a backup without using an epoch twice', () => {
    const play = second();
    play.act({ type: 'raiseEpoch', by: 1_000_000 });
    play.attempt({ type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: true });
    if (play.floor.turn?.agent === 'dev') play.operator({ type: 'skip' });
    expect(play.floor.turn?.epoch).toBe(1_000_003);
  });
});

describe('a repeated announcement', () => {
  test('is one post that is edited while it is the last one', () => {
    const play = stage({ agents: ['pm'] });
    play.operator({ type: 'start' });
    play.later(60_000);
    play.joins('pm');
    play.operator({ type: 'start' });
    play.later(60_000);
    const notices = play.effects.filter((effect) => effect.type === 'announce');
    expect(notices.map((notice) => notice.repeat)).toEqual([1, 2]);
    expect(new Set(notices.map((notice) => notice.key)).size).toBe(1);
  });

  test('is a new post once something else was posted after it', () => {
    const play = stage({ settings: { rounds: 0 } });
    play.person('m1');
    play.later(60_000);
    play.speaks('dev');
    play.speaks('qa');
    play.later(60_000);
    const notices = play.effects.filter((effect) => effect.type === 'announce');
    expect(notices.map((notice) => notice.repeat)).toEqual([1, 1]);
  });
});
