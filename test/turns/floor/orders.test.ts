import { describe, expect, test } from 'vitest';
import { effectsOf, factsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';
import type { FloorSettings } from '../../../src/turns/floor/settings.ts';

/** Returns the agents that were granted turns, in order. */
function granted(play: Stage): readonly string[] {
  return play.journal.flatMap(({ fact }) => (fact.type === 'turnGranted' ? [fact.agent] : []));
}

/** Lets each holder speak until the floor rests. */
function playOn(play: Stage): void {
  for (let turn = 0; turn < 40 && play.holder !== null; turn += 1) play.speaks(play.holder.split(' ')[0] ?? '');
}

describe('order round-robin', () => {
  test('follows the seats, in the next exchange again', () => {
    const play = stage();
    play.person('m1');
    playOn(play);
    play.person('m2');
    playOn(play);
    expect(granted(play)).toEqual(['pm', 'dev', 'qa', 'pm', 'dev', 'qa']);
  });

  test('gives each agent as many turns as the channel has rounds', () => {
    const play = stage({ settings: { rounds: 2 } });
    play.person('m1');
    playOn(play);
    expect(granted(play)).toEqual(['pm', 'dev', 'qa', 'pm', 'dev', 'qa']);
    expect(play.floor.condition).toBe('resting');
  });

  test('puts an agent that a person addresses first', () => {
    const play = stage();
    play.person('m1', 'qa');
    playOn(play);
    expect(granted(play)).toEqual(['qa', 'pm', 'dev']);
  });

  test('gives the next turn to an agent that was handed the floor, even if it had its turn', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    play.speaks('dev', 'pm');
    expect(play.holder).toBe('pm #3');
    playOn(play);
    expect(granted(play)).toEqual(['pm', 'dev', 'pm', 'qa']);
  });

  test("puts a person's addressee before the holder's", () => {
    const play = stage({ agents: ['pm', 'dev', 'ops', 'qa'] });
    play.person('m1');
    play.person('m2', 'qa');
    play.reports('pm', 'm2', 'injected');
    play.speaks('pm', 'ops');
    expect(play.holder).toBe('qa #2');
    play.speaks('qa');
    expect(play.holder).toBe('ops #3');
  });

  test('puts the explicit hand-over before a mention', () => {
    const play = stage({ agents: ['pm', 'dev', 'ops', 'qa'] });
    play.person('m1');
    play.says('pm', 'as @dev said', ['dev']);
    play.completes('pm', 'qa');
    expect(play.holder).toBe('qa #2');
  });

  test('ignores a hand-over to the agent itself or to an absent agent', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm', 'pm');
    expect(play.holder).toBe('dev #2');
    play.leaves('pm');
    play.speaks('dev', 'pm');
    expect(play.holder).toBe('qa #3');
  });

  test('counts only mentions in the last message of the turn', () => {
    const play = stage();
    play.person('m1');
    play.says('pm', '@qa look', ['qa']);
    play.says('pm', 'never mind', []);
    play.completes('pm');
    expect(play.holder).toBe('dev #2');
  });

  test('uses a queue that an operator sets', () => {
    const play = stage();
    play.operator({ type: 'order', order: 'round-robin', queue: ['qa', 'dev', 'pm'] });
    play.person('m1');
    playOn(play);
    expect(granted(play)).toEqual(['qa', 'dev', 'pm']);
  });

  test('puts the agents that an operator names first, and keeps the order of the others', () => {
    const play = stage();
    play.operator({ type: 'order', order: 'round-robin', queue: ['qa'] });
    expect(play.floor.queue).toEqual(['qa', 'pm', 'dev']);
  });

  test.each([[['qa', 'dev', 'pm', 'eve']], [['qa', 'qa', 'pm']]])(
    'refuses the queue %j, with an agent that is not queued or is named twice',
    (queue) => {
      expect(stage().refused({ type: 'order', by: 'ada', order: 'round-robin', queue })).toBe('bad-queue');
    },
  );
});

describe('agents that come online', () => {
  const agents = ['zz', 'yy', 'xx'];

  /** A channel whose agents come online in this order. */
  function arriving(order: readonly string[]): Stage {
    const play = stage({ agents });
    for (const agent of agents) play.leaves(agent);
    for (const agent of agents) play.operator({ type: 'add', agent });
    for (const agent of order) play.joins(agent);
    return play;
  }

  test.each([[['xx', 'yy', 'zz']], [['yy', 'zz', 'xx']], [['zz', 'xx', 'yy']]])(
    'T13 in the order %j take turns in the order of the channel',
    (order) => {
      const play = arriving(order);
      expect(play.floor.queue).toEqual(agents);
      play.person('m1');
      playOn(play);
      play.person('m2');
      playOn(play);
      expect(granted(play)).toEqual([...agents, ...agents]);
    },
  );

  test('T13 late in the first round are placed where the channel lists them', () => {
    const play = arriving(['xx', 'zz']);
    play.person('m1');
    expect(play.holder).toBe('zz #1');
    play.joins('yy');
    playOn(play);
    play.person('m2');
    playOn(play);
    expect(granted(play)).toEqual([...agents, ...agents]);
  });

  test('T13 later in the round are placed before the agents that had their turn', () => {
    const play = arriving(['xx', 'yy']);
    play.person('m1');
    play.speaks('yy');
    play.joins('zz');
    playOn(play);
    expect(granted(play)).toEqual(['yy', 'xx', 'zz']);
  });
});

describe('order priority', () => {
  const agents = [
    { agent: 'low', priority: 10 },
    { agent: 'high', priority: 1 },
    { agent: 'alike', priority: 10 },
    { agent: 'middle', priority: 5 },
  ];

  test('goes from 1 to 10, ties by seat', () => {
    const play = stage({ agents, settings: { order: 'priority' } });
    play.person('m1');
    playOn(play);
    expect(granted(play)).toEqual(['high', 'middle', 'low', 'alike']);
  });

  test('follows the seats again in the next exchange', () => {
    const play = stage({ agents, settings: { order: 'priority' } });
    play.person('m1', 'low');
    playOn(play);
    play.person('m2');
    playOn(play);
    expect(granted(play)).toEqual(['low', 'high', 'middle', 'alike', 'high', 'middle', 'low', 'alike']);
  });

  test('puts an addressed agent first', () => {
    const play = stage({ agents, settings: { order: 'priority' } });
    play.person('m1', 'alike');
    expect(play.holder).toBe('alike #1');
  });
});

describe('order manual', () => {
  const settings = { order: 'manual' } as const;

  test('grants nothing by itself, and keeps the message for the agent that the operator grants', () => {
    const play = stage({ settings });
    play.person('m1');
    expect(play.holder).toBeNull();
    expect(play.fate('m1')).toMatchObject({ state: 'held' });
    const grant = play.operator({ type: 'grant', agent: 'dev' });
    expect(play.holder).toBe('dev #1');
    expect(effectsOf('prompt', grant)).toMatchObject([{ agent: 'dev', messages: ['m1'] }]);
  });

  test('does not continue with another agent when the turn ends', () => {
    const play = stage({ settings });
    play.operator({ type: 'grant', agent: 'dev' });
    play.speaks('dev', 'qa');
    expect(play.holder).toBeNull();
    play.operator({ type: 'grant', agent: 'qa' });
    expect(play.holder).toBe('qa #2');
  });

  test('ignores whom a person addresses', () => {
    const play = stage({ settings });
    play.person('m1', 'qa');
    expect(play.holder).toBeNull();
  });
});

describe('order mention', () => {
  const mention = (settings: Partial<FloorSettings> = {}) => stage({ settings: { order: 'mention', ...settings } });

  test('gives the floor only to the agent that a person addresses', () => {
    const play = mention();
    play.person('m1', 'qa');
    expect(play.holder).toBe('qa #1');
    play.speaks('qa');
    expect(play.holder).toBeNull();
    expect(play.floor.condition).toBe('resting');
  });

  test('T38 explains why nobody answers, and only once until an agent has had a turn', () => {
    const play = mention();
    play.person('m1');
    play.person('m2');
    expect(play.receipts('m2')).toEqual(['unrouted']);
    expect(play.announced).toEqual([{ kind: 'unaddressed', named: [], example: 'pm' }]);
    play.person('m3', 'dev');
    play.speaks('dev');
    play.leaves('qa');
    play.person('m4', 'qa');
    expect(play.announced.at(-1)).toEqual({ kind: 'unaddressed', named: ['qa'], example: 'pm' });
    expect(play.announced).toHaveLength(2);
  });

  test('gives the floor to the agent that the holder mentions or hands over to', () => {
    const play = mention();
    play.person('m1', 'qa');
    play.says('qa', 'ask @dev', ['dev']);
    play.completes('qa');
    expect(play.holder).toBe('dev #2');
    play.speaks('dev', 'pm');
    expect(play.holder).toBe('pm #3');
  });

  test.each(['hold', 'release'] as const)(
    'gives a turn to the other agent that an answer names (waitPolicy %s)',
    (waitPolicy) => {
      const play = stage({ settings: { order: 'mention', waitPolicy } });
      play.person('m1', 'dev');
      play.waits('dev');
      play.person('m2', 'dev', 'qa');
      expect(play.holder).toBe('dev #2');
      expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
    },
  );

  test.each(['before the history is read', 'before the agent is back'])(
    'gives a turn to the agent that a message names after a restart, %s',
    (when) => {
      const play = stage({ settings: { order: 'mention' } });
      play.person('m1', 'dev');
      play.act({ type: 'restart' });
      if (when === 'before the agent is back') play.catchesUp();
      play.person('m2', 'qa');
      play.joins('dev');
      if (play.floor.catchingUp) play.catchesUp();
      play.joins('qa');
      expect(play.holder).toBe('dev #2');
      expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
    },
  );

  test('gives a turn to the agent that a kept message names, after an operator grants another agent a turn', () => {
    const play = stage({ settings: { order: 'mention', mode: 'queue' } });
    play.person('m1', 'dev');
    play.person('m2', 'qa');
    play.operator({ type: 'stop' });
    play.operator({ type: 'grant', agent: 'pm' });
    expect(effectsOf('prompt', play.speaks('pm'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
  });

  test('gives messages without addressee to the default agent', () => {
    const play = mention({ defaultAgent: 'dev' });
    play.person('m1');
    playOn(play);
    expect(granted(play)).toEqual(['dev']);
    play.person('m2', 'qa');
    playOn(play);
    expect(granted(play)).toEqual(['dev', 'qa']);
  });

  test('grants no turn for a message without addressee and default agent, and says so', () => {
    const play = mention();
    play.person('m1');
    expect(play.holder).toBeNull();
    expect(play.fate('m1')).not.toBeNull();
    expect(play.fate('m1')).not.toMatchObject({ state: 'delivered' });
    expect(play.floor.condition).toBe('resting');
  });

  test('holds a message for the default agent while it is offline', () => {
    const play = mention({ defaultAgent: 'dev' });
    play.leaves('dev');
    play.person('m1');
    expect(play.holder).toBeNull();
    expect(play.fate('m1')).not.toMatchObject({ state: 'delivered' });
  });
});

describe('order facilitator', () => {
  const agents = ['lead', 'pm', 'dev', 'qa'];
  const settings = { order: 'facilitator', facilitator: 'lead' } as const;

  /** Returns the number of the question to the facilitator. */
  function ask(play: Stage): number {
    expect(play.floor.facilitation?.facilitator).toBe('lead');
    return play.floor.facilitation?.ask ?? -1;
  }

  test('asks the facilitator who is next, and grants its choice', () => {
    const play = stage({ agents, settings });
    const act = play.person('m1');
    expect(effectsOf('ask', act)).toMatchObject([{ agent: 'lead', ask: ask(play) }]);
    expect(effectsOf('ask', act)[0]?.candidates).toEqual(expect.arrayContaining(['pm', 'dev', 'qa']));
    expect(play.holder).toBeNull();
    play.act({ type: 'choose', agent: 'lead', ask: ask(play), next: 'qa' });
    expect(play.holder).toBe('qa #1');
    expect(play.fate('m1')).toEqual({ state: 'delivered', to: ['qa'], via: 'prompt' });
  });

  test('asks again at the end of each turn, about the remaining agents', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    play.act({ type: 'choose', agent: 'lead', ask: ask(play), next: 'qa' });
    const first = play.floor.epoch;
    const end = play.speaks('qa');
    expect(effectsOf('ask', end)).toHaveLength(1);
    expect(effectsOf('ask', end)[0]?.candidates).not.toContain('qa');
    play.act({ type: 'choose', agent: 'lead', ask: ask(play), next: 'dev' });
    expect(play.holder).toBe(`dev #${first + 1}`);
  });

  test.each([
    ['names nobody', null],
    ['names an agent that is not here', 'eve'],
    ['names an agent that is not queued', 'ops'],
  ])('goes round-robin when the answer %s', (_, next) => {
    const play = stage({ agents: [...agents, 'ops'], settings });
    play.operator({ type: 'remove', agent: 'ops' });
    play.person('m1');
    const head = play.floor.queue[0];
    play.act({ type: 'choose', agent: 'lead', ask: ask(play), next });
    expect(factsOf('facilitatorAnswered', play.last)).toMatchObject([{ next: null }]);
    expect(play.holder).toBe(`${head} #1`);
  });

  test('falls back to round-robin without an answer in time', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    const waits = (play.floor.facilitation?.deadlineAt ?? 0) - play.at;
    const head = play.floor.queue[0];
    play.later(waits - 1);
    expect(play.holder).toBeNull();
    const over = play.later(1);
    expect(factsOf('facilitatorAnswered', over)).toMatchObject([{ why: 'no answer' }]);
    expect(play.holder).toBe(`${head} #1`);
  });

  test('falls back to round-robin when the facilitator leaves', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    play.leaves('lead');
    expect(factsOf('facilitatorAnswered', play.last)).toMatchObject([{ why: 'left' }]);
    expect(play.holder).toBe('pm #1');
    play.speaks('pm');
    expect(play.holder).toBe('dev #2');
  });

  test('refuses an answer to an old question, or of another agent', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    const old = ask(play);
    expect(play.refused({ type: 'choose', agent: 'dev', ask: old, next: 'dev' })).toBe('not-asked');
    play.act({ type: 'choose', agent: 'lead', ask: old, next: 'qa' });
    expect(play.refused({ type: 'choose', agent: 'lead', ask: old, next: 'dev' })).toBe('not-asked');
    play.speaks('qa');
    expect(play.refused({ type: 'choose', agent: 'lead', ask: old, next: 'dev' })).toBe('not-asked');
  });

  test('does not ask when a person addressed an agent', () => {
    const play = stage({ agents, settings });
    expect(effectsOf('ask', play.person('m1', 'dev'))).toEqual([]);
    expect(play.holder).toBe('dev #1');
  });

  test('does not ask when only one agent can be next', () => {
    const play = stage({ agents: ['lead', 'dev'], settings });
    play.person('m1', 'lead');
    expect(effectsOf('ask', play.speaks('lead'))).toEqual([]);
    expect(play.holder).toBe('dev #2');
  });

  test('asks again after a restart, once the history is read', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    const old = ask(play);
    play.act({ type: 'restart' });
    for (const agent of agents) play.joins(agent);
    expect(play.floor.facilitation).toBeNull();
    expect(play.holder).toBeNull();
    play.act({ type: 'catchUp' });
    expect(ask(play)).not.toBe(old);
    play.act({ type: 'choose', agent: 'lead', ask: ask(play), next: 'dev' });
    expect(play.holder).toBe('dev #1');
  });

  test('asks no more after a stop', () => {
    const play = stage({ agents, settings });
    play.person('m1');
    const question = ask(play);
    play.operator({ type: 'stop' });
    expect(play.floor.facilitation).toBeNull();
    expect(play.refused({ type: 'choose', agent: 'lead', ask: question, next: 'dev' })).toBe('not-asked');
    expect(play.holder).toBeNull();
  });

  test("is overridden by an operator's grant", () => {
    const play = stage({ agents, settings });
    play.person('m1');
    play.operator({ type: 'grant', agent: 'dev' });
    expect(play.holder).toBe('dev #1');
    expect(play.floor.facilitation).toBeNull();
  });
});

describe('a change of the order', () => {
  test('does not change the running turn', () => {
    const play = stage();
    play.person('m1');
    play.operator({ type: 'order', order: 'manual' });
    expect(play.holder).toBe('pm #1');
    play.speaks('pm');
    expect(play.holder).toBeNull();
  });

  test('from manual to round-robin grants at once when an exchange is open', () => {
    const play = stage({ settings: { order: 'manual' } });
    play.person('m1');
    play.operator({ type: 'order', order: 'round-robin' });
    expect(play.holder).toBe('pm #1');
    expect(play.fate('m1')).toMatchObject({ state: 'delivered', to: ['pm'] });
  });
});
