import { describe, expect, test } from 'vitest';
import { viewOf } from '../../../src/turns/view.ts';
import { announcementsIn, effectsOf, factsOf, movesIn, seatOf, stage } from './stage.ts';
import type { Act, Stage } from './stage.ts';

describe('edge case 6: the list of agents changes while turns are in progress', () => {
  const listed = (play: Stage, ...agents: readonly string[]): Act =>
    play.act({ type: 'configure', settings: play.floor.settings, seats: agents.map((agent) => seatOf(agent)) });

  test('T63 an agent added to the list goes to the end of the queue, even if the list has it first', () => {
    const play = stage({ agents: ['pm', 'dev', 'qa'] });
    play.person('m1');
    play.speaks('pm');
    listed(play, 'ops', 'pm', 'dev', 'qa');
    play.joins('ops');
    expect(play.floor.queue).toEqual(['qa', 'pm', 'ops']);
    play.speaks('dev');
    play.speaks('qa');
    expect(play.holder).toBe('ops #4');
  });

  test("T63 several added agents go behind all others in the list's order, even if they start in another order", () => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    listed(play, 'a', 'b', 'pm', 'dev');
    play.joins('b');
    play.joins('a');
    expect(play.floor.queue).toEqual(['dev', 'a', 'b']);
  });

  test("T63 agents that start before the first message are in the list's order", () => {
    const play = stage({ agents: ['pm', 'dev'] });
    listed(play, 'a', 'pm', 'dev');
    play.joins('a');
    expect(play.floor.queue).toEqual(['a', 'pm', 'dev']);
  });
});

describe('edge case 1: an agent crashes mid-turn', () => {
  test('it goes OFFLINE, its cause is kept, the turn advances and the channel is told', () => {
    const play = stage();
    play.person('m1');
    const crash = play.leaves('pm', 'exited with code 137');
    expect(play.seats).toBe('pm OFFLINE, dev ACTIVE, qa QUEUED');
    expect(factsOf('seatMoved', crash)).toMatchObject([
      { agent: 'pm', from: 'ACTIVE', to: 'OFFLINE', trigger: 'CRASHED', cause: 'exited with code 137' },
      { agent: 'dev', from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' },
    ]);
    expect(factsOf('turnEnded', crash)).toMatchObject([{ agent: 'pm', epoch: 1, outcome: 'forfeited' }]);
    expect(announcementsIn(crash.effects)).toEqual([
      { kind: 'disconnect', agent: 'pm', cause: 'exited with code 137' },
    ]);
  });

  test('the notice can be turned off; the crash is still recorded', () => {
    const play = stage({ settings: { announceDisconnects: false } });
    play.person('m1');
    const crash = play.leaves('pm');
    expect(announcementsIn(crash.effects)).toEqual([]);
    expect(movesIn(crash.facts)[0]).toBe('pm ACTIVE>OFFLINE CRASHED');
  });

  test('a restarted agent returns to IDLE and is not queued automatically', () => {
    const play = stage();
    play.person('m1');
    play.leaves('pm');
    expect(movesIn(play.joins('pm').facts)).toEqual(['pm OFFLINE>IDLE AGENT_STARTED']);
    expect(play.floor.queue).toEqual(['qa']);
  });

  test('a queued agent that disconnects leaves the queue without a notice', () => {
    const play = stage();
    play.person('m1');
    const left = play.leaves('dev');
    expect(movesIn(left.facts)).toEqual(['dev QUEUED>OFFLINE DISCONNECTED']);
    expect(announcementsIn(left.effects)).toEqual([]);
    expect(play.holder).toBe('pm #1');
  });
});

describe('edge case 2: a timeout during ACTIVE', () => {
  test('the next agent gets the floor, the channel is told, and the timed-out agent stays in the queue', () => {
    const play = stage();
    play.person('m1');
    const over = play.later(60_000);
    expect(movesIn(over.facts)).toEqual(['pm ACTIVE>QUEUED TIMEOUT', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(play.floor.queue).toContain('pm');
  });

  test('a timed-out agent gets its next turn at its old place in the queue', () => {
    const play = stage();
    play.person('m1');
    play.later(60_000);
    play.joins('pm');
    play.speaks('dev');
    play.speaks('qa');
    expect(play.floor.condition).toBe('resting');
    play.person('m2');
    expect(play.holder).toBe('pm #4');
  });

  test('T59 a hung agent keeps its place and gets no turn until its session is back', () => {
    const play = stage({ settings: { rounds: 0 } });
    play.person('m1');
    const over = play.later(60_000);
    expect(factsOf('turnEnded', over)).toMatchObject([{ agent: 'pm', outcome: 'expired', hung: true }]);
    expect(effectsOf('interrupt', over)).toMatchObject([{ agent: 'pm', epoch: 1, hung: true }]);
    play.speaks('dev');
    play.speaks('qa');
    expect(play.holder).toBe('dev #4');
    play.joins('pm');
    play.speaks('dev');
    expect(play.holder).toBe('pm #5');
  });

  test('T59 the only agent gets the messages that waited while it hung, once it is back', () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    play.later(60_000);
    play.person('m2');
    expect(play.announced).toEqual([{ kind: 'timeout', agent: 'pm' }]);
    expect(effectsOf('prompt', play.joins('pm'))).toMatchObject([{ messages: ['m1', 'm2'] }]);
  });

  test('T59 an agent at work, waiting, skipped or not back after a restart does not count as hung', () => {
    const endings: readonly ((play: Stage) => Act)[] = [
      (play) => (play.works('pm', 1), play.later(900_000)),
      (play) => (play.waits('pm'), play.later(600_000)),
      (play) => play.operator({ type: 'skip' }),
      (play) => (play.act({ type: 'restart' }), play.catchesUp(), play.later(60_000)),
    ];
    for (const ending of endings) {
      const play = stage({ settings: { autoDetectTurnEnd: false } });
      play.person('m1');
      const [ended] = factsOf('turnEnded', ending(play));
      expect(ended).toMatchObject({ agent: 'pm' });
      expect(ended).not.toHaveProperty('hung');
    }
  });

  test('T59 an agent whose work has a limit does not count as hung at the hard end of its turn', () => {
    const play = stage({ settings: { maxTurnMs: 40_000 } });
    play.person('m1');
    play.act({ type: 'work', agent: 'pm', epoch: 1, open: 1, limitMs: 50_000 });
    const [ended] = factsOf('turnEnded', play.later(40_000));
    expect(ended).toMatchObject({ agent: 'pm', outcome: 'expired' });
    expect(ended).not.toHaveProperty('hung');
  });

  test('each agent has its own limit', () => {
    const play = stage({ agents: [{ agent: 'pm', timeoutMs: 5_000 }, 'dev', 'qa'] });
    play.person('m1');
    play.later(4_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
    play.later(59_999);
    expect(play.holder).toBe('dev #2');
  });

  test('the notice can be turned off', () => {
    const play = stage({ settings: { announceTimeouts: false } });
    play.person('m1');
    expect(announcementsIn(play.later(60_000).effects)).toEqual([]);
    expect(play.holder).toBe('dev #2');
  });
});

describe('edge case 3: a human interrupts mid-turn', () => {
  test('by default the active agent sees the message at once', () => {
    const play = stage();
    play.person('m1');
    expect(effectsOf('inject', play.person('m2'))).toMatchObject([
      { agent: 'pm', epoch: 1, message: 'm2', observed: false },
    ]);
    expect(play.holder).toBe('pm #1');
  });

  test('queue delivers it after the turn ends', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    const second = play.person('m2');
    expect(effectsOf('inject', second)).toEqual([]);
    expect(play.fate('m2')).toMatchObject({ state: 'held' });
    expect(effectsOf('prompt', play.completes('pm'))).toMatchObject([{ agent: 'dev', messages: ['m2'] }]);
  });

  test('interrupt pauses the turn and gives the human priority', () => {
    const play = stage({ settings: { mode: 'interrupt' } });
    play.person('m1');
    const second = play.person('m2');
    expect(play.status('pm')).toBe('WAITING');
    expect(effectsOf('interrupt', second)).toMatchObject([{ agent: 'pm', epoch: 1 }]);
    expect(effectsOf('prompt', play.stopsGenerating('pm'))).toMatchObject([
      { agent: 'pm', reason: 'resume', messages: ['m1', 'm2'], open: ['m1'] },
    ]);
  });

  test('parallel passes it to everyone and leaves the turn alone', () => {
    const play = stage({ settings: { mode: 'parallel' } });
    play.person('m1');
    const turn = play.floor.turn;
    play.person('m2');
    expect(play.floor.turn).toEqual(turn);
    expect(play.receipts('m2')).toEqual(['observed']);
    play.reports('pm', 'm2', 'injected');
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['pm'], via: 'observe' });
  });
});

describe('edge case 4: an agent never signals done', () => {
  test('the timeout ends the turn, counted from its last text', () => {
    const play = stage();
    play.person('m1');
    play.later(30_000);
    play.says('pm');
    play.later(59_999);
    expect(play.holder).toBe('pm #1');
    play.later(1);
    expect(play.holder).toBe('dev #2');
  });

  test('a turn that ends without its signal says so in its record', () => {
    const play = stage();
    play.person('m1');
    play.says('pm');
    const end = play.act({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: false });
    expect(factsOf('turnEnded', end)).toMatchObject([{ agent: 'pm', outcome: 'completed', signalled: false }]);
    expect(play.holder).toBe('dev #2');
  });

  test('silence ends the turn, if the channel is set so', () => {
    const play = stage({ settings: { autoDetectTurnEnd: true } });
    play.person('m1');
    play.says('pm');
    play.later(9_999);
    expect(play.holder).toBe('pm #1');
    const silence = play.later(1);
    expect(movesIn(silence.facts)[0]).toBe('pm ACTIVE>QUEUED SILENCE');
    expect(factsOf('turnEnded', silence)).toMatchObject([{ agent: 'pm', outcome: 'lapsed', signalled: false }]);
    expect(announcementsIn(silence.effects)).toEqual([]);
    expect(play.holder).toBe('dev #2');
  });
});

describe('edge case 5: all agents go offline', () => {
  test('messages are recorded but not routed, with one notice', () => {
    const play = stage();
    for (const agent of ['pm', 'dev', 'qa']) play.leaves(agent);
    expect(play.floor.queue).toEqual([]);
    play.person('m1');
    play.person('m2');
    expect(play.fate('m1')).toMatchObject({ state: 'unrouted' });
    expect(play.fate('m2')).toMatchObject({ state: 'unrouted' });
    expect(play.announced).toEqual([{ kind: 'nobody' }]);
  });

  test('the first assigned agent that is back becomes ACTIVE immediately', () => {
    const play = stage();
    for (const agent of ['pm', 'dev', 'qa']) play.leaves(agent);
    play.person('m1');
    play.joins('qa');
    expect(play.status('qa')).toBe('IDLE');
    play.operator({ type: 'add', agent: 'qa' });
    expect(play.holder).toBe('qa #1');
  });

  test('the notice can be turned off', () => {
    const play = stage({ agents: ['pm'], settings: { announceNobody: false } });
    play.leaves('pm');
    play.person('m1');
    expect(play.announced).toEqual([]);
    expect(play.fate('m1')).toMatchObject({ state: 'unrouted' });
  });

  test('an agent that returns to a channel without open messages just waits', () => {
    const play = stage({ agents: [{ agent: 'pm', rejoin: 'auto' }] });
    play.leaves('pm');
    play.joins('pm');
    expect(play.seats).toBe('pm QUEUED');
    expect(play.floor.condition).toBe('resting');
  });
});

describe('edge case 6: the queue changes mid-sprint', () => {
  test('an added agent is inserted at the end and speaks after the current cycle', () => {
    const play = stage({ agents: ['pm', 'dev', 'qa', 'ops'] });
    play.operator({ type: 'remove', agent: 'ops' });
    play.person('m1');
    play.operator({ type: 'add', agent: 'ops' });
    expect(play.floor.queue).toEqual(['dev', 'qa', 'ops']);
    play.speaks('pm');
    play.speaks('dev');
    play.speaks('qa');
    expect(play.holder).toBe('ops #4');
  });

  test('a removed agent that is QUEUED simply leaves, and the others move up', () => {
    const play = stage();
    play.person('m1');
    expect(movesIn(play.operator({ type: 'remove', agent: 'dev' }).facts)).toEqual(['dev QUEUED>IDLE REMOVED']);
    expect(play.floor.queue).toEqual(['qa']);
    play.speaks('pm');
    expect(play.holder).toBe('qa #2');
  });

  test('a removed agent that is ACTIVE has its turn ended, and the next one is granted', () => {
    const play = stage();
    play.person('m1');
    const removal = play.operator({ type: 'remove', agent: 'pm' });
    expect(movesIn(removal.facts)).toEqual(['pm ACTIVE>IDLE REMOVED', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(factsOf('turnEnded', removal)).toMatchObject([{ agent: 'pm', outcome: 'revoked' }]);
    expect(effectsOf('interrupt', removal)).toMatchObject([{ agent: 'pm', epoch: 1 }]);
  });
});

describe('an outage', () => {
  const agents = [
    { agent: 'pm', rejoin: 'auto' },
    { agent: 'dev', rejoin: 'auto' },
  ] as const;
  const unreachable = 'cannot reach http://localhost:11434';
  const noticesOf = (play: Stage) =>
    play.effects.flatMap((effect) => (effect.type === 'announce' ? [{ key: effect.key, repeat: effect.repeat }] : []));

  test('T23 is one announcement that is edited when more agents fail', () => {
    const play = stage({ agents, settings: { maxTurns: 12 } });
    play.person('m1');
    for (let round = 1; round <= 6; round += 1) {
      play.leaves('pm', unreachable);
      play.leaves('dev', unreachable);
      expect(play.holder).toBeNull();
      play.joins('pm');
      expect(play.holder?.startsWith('pm')).toBe(true);
      play.joins('dev');
    }
    expect(noticesOf(play)).toEqual(
      Array.from({ length: 18 }, (_unset, index) => ({ key: 'outage', repeat: index + 1 })),
    );
    expect(play.announced.slice(-3)).toEqual([
      { kind: 'disconnect', agent: 'pm', cause: unreachable, also: ['dev'] },
      { kind: 'disconnect', agent: 'dev', cause: unreachable, also: ['pm'] },
      { kind: 'nobody', lost: { agents: ['pm', 'dev'], cause: unreachable } },
    ]);
  });

  test('T23 uses no turn of the exchange, and the first agent that is back answers the message', () => {
    const play = stage({ agents, settings: { maxTurns: 6 } });
    play.person('m1');
    for (let failure = 1; failure <= 6; failure += 1) {
      const holder = play.floor.turn?.agent ?? 'nobody';
      play.leaves(holder, unreachable);
      play.joins(holder);
    }
    expect(viewOf(play.floor, play.at, 'x').turns).toEqual({ used: 1, allowed: 6 });
    const first = play.floor.turn?.agent ?? 'nobody';
    play.speaks(first);
    expect(play.receipts('m1').at(-1)).toBe('done');
    expect(play.announced.some(({ kind }) => kind === 'limit')).toBe(false);
  });

  test('T23 does not cost the agent its turn in the round: it speaks when it is back', () => {
    const play = stage({ agents: [...agents, 'qa'] });
    play.person('m1');
    play.leaves('pm', unreachable);
    expect(play.holder).toBe('dev #2');
    play.joins('pm');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
    play.speaks('pm');
    expect(play.holder).toBe('qa #4');
    play.speaks('qa');
    expect(play.floor.condition).toBe('resting');
  });

  test('T23 after a text of the agent counts as a turn', () => {
    const play = stage({ agents });
    play.person('m1');
    play.says('pm');
    play.leaves('pm', unreachable);
    expect(viewOf(play.floor, play.at, 'x').turns).toEqual({ used: 2, allowed: 12 });
  });

  test('T23 is a new announcement once an agent has posted', () => {
    const play = stage({ agents });
    play.person('m1');
    play.leaves('pm', unreachable);
    play.speaks('dev');
    play.person('m2');
    play.leaves('dev', unreachable);
    expect(noticesOf(play).filter(({ repeat }) => repeat === 1)).toHaveLength(2);
  });
});

describe('an MCP server that is unavailable', () => {
  const gone = (server: string) => ({ type: 'tellTools', agent: 'dev', server, why: 'exited with code 3' }) as const;

  test('is announced once, apart from another unavailable server', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    for (const server of ['github', 'notes']) play.act(gone(server));
    play.act({ type: 'tellTools', agent: 'dev', server: 'github', why: null });
    expect(play.effects).toMatchObject([
      { announcement: { kind: 'toolsGone', server: 'github', why: 'exited with code 3' }, repeat: 1 },
      { announcement: { kind: 'toolsGone', server: 'notes' }, repeat: 1 },
      { announcement: { kind: 'toolsBack', agent: 'dev', server: 'github' }, repeat: 1 },
    ]);
    expect(play.floor.turn).toBeNull();
  });
});
