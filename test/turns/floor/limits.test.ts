import { describe, expect, test } from 'vitest';
import { announcementsIn, effectsOf, factsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';

const DAY = 86_400_000;
const none = { tokens: null, costMicros: null, ms: null };

function running(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  return play;
}

describe('an exchange budget', () => {
  test('of tokens ends the exchange when it is used up, with its numbers, and is announced once', () => {
    const play = running({ exchangeBudget: { ...none, tokens: 100 } });
    play.spends('pm', 99);
    play.speaks('pm');
    expect(play.holder).toBe('dev #2');
    play.spends('dev', 1);
    if (play.holder !== null) play.speaks('dev');
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'tokens', used: 100, max: 100 }]);
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
  });

  test('of money ends the exchange', () => {
    const play = running({ exchangeBudget: { ...none, costMicros: 5_000 } });
    play.spends('pm', 0, 6_000);
    if (play.holder !== null) play.speaks('pm');
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'cost', used: 6_000, max: 5_000 }]);
  });

  test('of minutes ends the exchange', () => {
    const play = running({ exchangeBudget: { ...none, ms: 120_000 } });
    play.later(50_000);
    play.says('pm');
    play.later(50_000);
    play.says('pm');
    play.later(20_000);
    if (play.holder !== null) play.speaks('pm');
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toMatchObject([{ kind: 'limit', budget: 'minutes', used: 2, max: 2 }]);
  });

  test('starts again with the next message', () => {
    const play = running({ exchangeBudget: { ...none, tokens: 100 } });
    play.spends('pm', 100);
    if (play.holder !== null) play.speaks('pm');
    play.person('m2');
    expect(play.floor.condition).toBe('open');
    expect(play.holder).not.toBeNull();
  });

  test('can be used up silently: the notice can be turned off', () => {
    const play = running({ exchangeBudget: { ...none, tokens: 100 }, announceLimits: false });
    play.spends('pm', 100);
    if (play.holder !== null) play.speaks('pm');
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toEqual([]);
  });

  test('counts the whole channel, not one agent', () => {
    const play = running({ exchangeBudget: { ...none, tokens: 60 } });
    for (const agent of ['pm', 'dev']) {
      play.spends(agent, 30);
      play.speaks(agent);
    }
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toMatchObject([{ kind: 'limit', budget: 'tokens', used: 60 }]);
  });
});

describe('a day budget', () => {
  test('ends the exchange, and is reset automatically at the end of the day', () => {
    const play = running({ dayBudget: { ...none, tokens: 100 } });
    play.spends('pm', 100);
    if (play.holder !== null) play.speaks('pm');
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toMatchObject([{ kind: 'limit', budget: 'tokens a day', used: 100, max: 100 }]);
    play.person('m2');
    expect(play.holder).toBeNull();
    expect(play.fate('m2')).not.toBeNull();
    play.later(DAY - (play.at % DAY) - 1);
    expect(play.holder).toBeNull();
    const morning = play.later(1);
    expect(play.holder).not.toBeNull();
    expect(effectsOf('prompt', morning)).toMatchObject([{ messages: ['m2'] }]);
  });

  test('is not reset by more messages, and not announced for each of them', () => {
    const play = running({ dayBudget: { ...none, costMicros: 10 } });
    play.spends('pm', 0, 10);
    if (play.holder !== null) play.speaks('pm');
    play.person('m2');
    play.person('m3');
    expect(play.holder).toBeNull();
    expect(new Set(play.effects.flatMap((one) => (one.type === 'announce' ? [one.key] : []))).size).toBe(1);
  });

  test('adds up over several exchanges', () => {
    const play = running({ dayBudget: { ...none, tokens: 100 } });
    play.spends('pm', 60);
    for (const agent of ['pm', 'dev', 'qa']) play.speaks(agent);
    expect(play.announced).toEqual([]);
    play.person('m2');
    play.spends('pm', 60);
    if (play.holder !== null) play.speaks('pm');
    expect(play.announced).toMatchObject([{ budget: 'tokens a day', used: 120 }]);
  });
});

describe('a day budget that is used up while an agent waits', () => {
  test('stays, announced once, when a person answers the agent and it goes on', () => {
    const play = running({ dayBudget: { ...none, tokens: 100 }, waitPolicy: 'release' });
    play.spends('pm', 100);
    play.waits('pm');
    expect(play.floor.limit?.budget).toBe('tokens a day');
    play.person('m2');
    expect(play.holder).toBe('pm #2');
    expect(play.floor.limit?.budget).toBe('tokens a day');
    play.speaks('pm', 'qa');
    expect(play.holder).toBeNull();
    expect(play.announced).toHaveLength(1);
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('qa #3');
  });
});

describe('the limit of turns', () => {
  test('of three lets three agents speak', () => {
    const play = stage({ agents: ['a', 'b', 'c', 'd'], settings: { maxTurns: 3 } });
    play.person('m1');
    for (const agent of ['a', 'b', 'c']) play.speaks(agent);
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 3, max: 3 }]);
  });

  test('that is reached at the end of the last round is not announced', () => {
    const play = stage({ settings: { maxTurns: 3 } });
    play.person('m1');
    for (const agent of ['pm', 'dev', 'qa']) play.speaks(agent);
    expect(play.floor.condition).toBe('resting');
    expect(play.announced).toEqual([]);
  });

  test('counts timed-out turns too', () => {
    const play = running({ rounds: 0, maxTurns: 2 });
    for (let turn = play.floor.turn; turn !== null; turn = play.floor.turn) {
      play.later(60_000);
      play.joins(turn.agent);
    }
    expect(play.announced).toContainEqual({ kind: 'limit', budget: 'turns', used: 2, max: 2 });
  });

  test("is lifted by a person's answer to a waiting agent: the floor continues after the answer", () => {
    const play = running({ waitPolicy: 'release', maxTurns: 1 });
    play.waits('pm');
    expect(play.floor.condition).toBe('resting');
    play.person('m2');
    expect(play.holder?.startsWith('pm')).toBe(true);
    expect(play.floor.condition).toBe('open');
    play.speaks('pm', 'qa');
    expect(play.holder?.startsWith('qa')).toBe(true);
  });

  test("T17 a resume starts another round on a floor that rests after everybody's turn", () => {
    const play = running();
    for (const agent of ['pm', 'dev', 'qa']) play.speaks(agent);
    expect(play.floor.condition).toBe('resting');
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('pm #4');
    expect(play.floor.usageSincePerson.turns).toBe(1);
  });

  test.each(['mention', 'manual'] as const)(
    'T17 a resume is refused on a resting floor in the order %s, which waits for a mention or a grant',
    (order) => {
      expect(stage({ settings: { order } }).refused({ type: 'resume', by: 'ada' })).toBe('nothing-to-resume');
    },
  );

  test('T17 a resume is refused when no agent is online', () => {
    const play = stage({ agents: ['pm'] });
    play.leaves('pm');
    expect(play.refused({ type: 'resume', by: 'ada' })).toBe('nothing-to-resume');
  });
});

describe('unlimited rounds', () => {
  test('stop after a whole round in which nobody said anything', () => {
    const play = running({ rounds: 0, maxTurns: 100 });
    for (const agent of ['pm', 'dev', 'qa', 'pm', 'dev']) play.speaks(agent);
    for (const agent of ['qa', 'pm']) play.passes(agent);
    expect(play.floor.condition).toBe('open');
    const last = play.passes('dev');
    expect(play.floor.condition).toBe('resting');
    expect(factsOf('exchangeClosed', last)).toMatchObject([{ reason: 'silent' }]);
    expect(play.announced).toEqual([]);
  });

  test('continue when one agent of the round speaks', () => {
    const play = running({ rounds: 0, maxTurns: 100 });
    play.passes('pm');
    play.passes('dev');
    play.speaks('qa');
    play.passes('pm');
    play.passes('dev');
    expect(play.floor.condition).toBe('open');
    play.passes('qa');
    expect(play.floor.condition).toBe('resting');
  });
});

describe('too many held messages', () => {
  test('still let an answer reach the agent that waits for it', () => {
    const play = running({ mode: 'queue', maxHeld: 1 });
    play.person('m2');
    play.waits('pm');
    play.person('m3', 'pm');
    expect(play.fate('m3')).toMatchObject({ state: 'delivered', to: ['pm'] });
    expect(play.status('pm')).toBe('ACTIVE');
  });

  test('still let a message reach the holder when the mode has changed meanwhile', () => {
    const play = running({ mode: 'queue', maxHeld: 1 });
    play.person('m2');
    play.operator({ type: 'mode', mode: 'inject' });
    play.person('m3');
    expect(play.fate('m3')).toEqual({ state: 'delivered', to: ['pm'], via: 'inject' });
  });

  test('still let the next message open an exchange after a stop', () => {
    const play = running({ mode: 'queue', maxHeld: 1 });
    play.person('m2');
    play.operator({ type: 'stop' });
    const act = play.person('m3');
    expect(play.floor.condition).toBe('open');
    expect(effectsOf('prompt', act)).toMatchObject([{ messages: ['m2', 'm1', 'm3'] }]);
  });

  test('are recorded with the reason and announced once; earlier ones are kept in order', () => {
    const play = running({ mode: 'queue', maxHeld: 2 });
    play.person('m2');
    play.person('m3');
    expect(play.announced).toEqual([]);
    const over = play.person('m4');
    expect(play.fate('m4')).toMatchObject({ state: 'unrouted' });
    expect(announcementsIn(over.effects)).toMatchObject([{ kind: 'limit', budget: 'held messages', max: 2 }]);
    expect(play.receipts('m4')).toEqual(['unrouted']);
    play.person('m5');
    const keys = play.effects.flatMap((one) => (one.type === 'announce' ? [one.key] : []));
    expect(new Set(keys).size).toBe(1);
    expect(effectsOf('prompt', play.speaks('pm'))).toMatchObject([{ agent: 'dev', messages: ['m2', 'm3'] }]);
  });

  test.each([
    ['inject', ['m5', 'm6']],
    ['interrupt', ['m1', 'm2', 'm3', 'm4', 'm5', 'm6']],
  ] as const)('begin with those that a turn gets (mode %s)', (mode, messages) => {
    const play = running({ mode, maxHeld: 2 });
    for (const id of ['m2', 'm3', 'm4']) play.person(id);
    expect(play.fate('m4')).toMatchObject({ state: 'delivered', to: ['pm'] });
    for (const id of ['m5', 'm6', 'm7']) play.person(id);
    expect(['m5', 'm6'].map((id) => play.fate(id))).toMatchObject([{ until: 'prompt' }, { until: 'prompt' }]);
    expect(play.fate('m7')).toMatchObject({ state: 'unrouted', why: 'too many held messages' });
    if (mode === 'inject') for (const id of ['m2', 'm3', 'm4']) play.reports('pm', id, 'injected');
    const next = mode === 'inject' ? play.completes('pm') : play.stopsGenerating('pm');
    expect(effectsOf('prompt', next)).toMatchObject([{ messages }]);
  });

  test('begin with the answers that a waiting agent gets before it can go on', () => {
    const play = running({ maxHeld: 1 });
    play.waits('pm');
    play.act({ type: 'restart' });
    play.catchesUp();
    for (const id of ['m2', 'm3', 'm4']) play.person(id, 'pm');
    expect(play.fate('m2')).toMatchObject({ state: 'delivered', to: ['pm'] });
    expect(play.fate('m3')).toMatchObject({ state: 'held' });
    expect(play.fate('m4')).toMatchObject({ state: 'unrouted' });
  });

  test('are limited while no agent is available, too: the first ones are kept', () => {
    const play = stage({ agents: [{ agent: 'pm', rejoin: 'auto' }], settings: { maxHeld: 2 } });
    play.leaves('pm');
    for (const id of ['m1', 'm2', 'm3', 'm4']) play.person(id);
    expect(play.floor.held.map((held) => held.id)).toEqual(['m1', 'm2']);
    expect(play.fate('m4')).toMatchObject({ state: 'unrouted' });
    expect(effectsOf('prompt', play.joins('pm'))).toMatchObject([{ agent: 'pm', messages: ['m1', 'm2'] }]);
  });
});
