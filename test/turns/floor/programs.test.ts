import { describe, expect, test } from 'vitest';
import { announcementsIn, effectsOf, stage } from './stage.ts';
import type { Act, Stage } from './stage.ts';

const NONE = { tokens: null, costMicros: null, ms: null };
const MANY = 60;

/** Lets each agent speak in its turn until the floor is free. */
function letSpeak(play: Stage): void {
  for (let turn = play.floor.turn; turn !== null; turn = play.floor.turn) play.speaks(turn.agent);
}

/** Returns the types of the facts in which an act opens an exchange or resets usage, in order. */
function beginnings({ facts }: Act): readonly string[] {
  return facts.map(({ type }) => type).filter((type) => type === 'usageReset' || type === 'exchangeOpened');
}

/** Lets a program answer every post. Returns how many agent turns followed. */
function chatter(play: Stage, pauseMs: number): number {
  const before = play.floor.epoch;
  for (let answer = 0; answer < MANY; answer += 1) {
    play.program(`b${answer}`);
    letSpeak(play);
    play.later(pauseMs);
  }
  return play.floor.epoch - before;
}

describe('two bots that answer each other without end', () => {
  test('incident 12, row 59: stop at the limit of agent turns without a person, and people are told once', () => {
    const play = stage({ agents: ['pm'] });
    expect(chatter(play, 0)).toBe(12);
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 12, max: 12 }]);
    expect(play.floor.condition).toBe('resting');
  });

  test('incident 13, row 60: stop at the same limit when they take hours, because turns count, not speed', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    expect(chatter(play, 600_000)).toBe(12);
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 12, max: 12 }]);
  });

  test('stop at the same limit when the agent asks and the program answers', () => {
    const play = stage({ agents: ['pm'], settings: { waitPolicy: 'release', maxTurns: 5 } });
    for (let answer = 0; answer < MANY; answer += 1) {
      play.program(`b${answer}`);
      if (play.status('pm') === 'ACTIVE') play.waits('pm');
    }
    expect(play.floor.epoch).toBe(5);
    play.later(600_000);
    expect(play.announced.filter(({ kind }) => kind === 'limit')).toEqual([
      { kind: 'limit', budget: 'turns', used: 5, max: 5 },
    ]);
  });

  test('stop at the same limit when the program interrupts the holder', () => {
    const play = stage({ agents: ['pm'], settings: { mode: 'interrupt', maxTurns: 5 } });
    for (let answer = 0; answer < MANY; answer += 1) {
      play.program(`b${answer}`);
      if (play.status('pm') === 'WAITING') play.stopsGenerating('pm');
    }
    expect(play.floor.epoch).toBe(5);
    letSpeak(play);
    expect(play.holder).toBeNull();
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 5, max: 5 }]);
  });

  test('stop at the same limit when the agent takes no messages mid-turn', () => {
    const play = stage({ agents: ['pm'], settings: { maxTurns: 3 } });
    for (let answer = 0; answer < MANY; answer += 1) {
      const { effects } = play.program(`b${answer}`);
      if (effects.some(({ type }) => type === 'inject')) play.reports('pm', `b${answer}`, 'refused');
      if (play.floor.turn !== null) play.speaks('pm');
    }
    expect(play.floor.epoch).toBe(3);
  });
});

describe("a program's message", () => {
  test("is routed like a person's, in every mode", () => {
    const fates = (['inject', 'queue', 'interrupt', 'parallel'] as const).map((mode) => {
      const play = stage({ settings: { mode } });
      play.person('m1');
      play.program('b1');
      return play.fate('b1');
    });
    expect(fates).toEqual([
      { state: 'delivered', to: ['pm'], via: 'inject' },
      { state: 'held', until: 'turn' },
      { state: 'delivered', to: ['pm'], via: 'interrupt' },
      { state: 'held', until: 'exchange' },
    ]);
  });

  test('opens an exchange on a resting floor, starting with the agent that it addresses', () => {
    const play = stage();
    const act = play.program('b1', 'qa');
    expect(beginnings(act)).toEqual(['exchangeOpened']);
    expect(play.holder).toBe('qa #1');
  });

  test('resets no count mid-turn, in any mode', () => {
    for (const mode of ['inject', 'interrupt', 'parallel'] as const) {
      const play = stage({ settings: { mode, rounds: 0 } });
      play.person('m1');
      play.speaks('pm');
      play.program('b1');
      expect(play.floor.usageSincePerson.turns).toBe(2);
      play.person('m2');
      expect(play.floor.usageSincePerson.turns).toBe(0);
    }
  });

  test('resets the rounds but not the count, when it was held', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.program('b1');
    const act = play.speaks('pm');
    expect(beginnings(act)).toEqual(['exchangeOpened']);
    expect(play.floor.usageSincePerson.turns).toBe(2);
    letSpeak(play);
    expect(play.floor.epoch).toBe(4);
  });

  test('continues the count of the exchange before it', () => {
    const play = stage();
    play.person('m1');
    letSpeak(play);
    expect(play.floor.usageSincePerson).toMatchObject({ turns: 3 });
    play.program('b1');
    expect(play.floor.usageSincePerson.turns).toBe(4);
  });

  test('together with a person’s message resets the count', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.program('b1');
    play.person('m2');
    const act = play.speaks('pm');
    expect(play.floor.usageSincePerson.turns).toBe(1);
    expect(effectsOf('prompt', act)).toMatchObject([{ messages: ['b1', 'm2'] }]);
  });

  test('stays a program’s message after it was held for the history or an agent, or returned by an agent', () => {
    const play = stage({ agents: [{ agent: 'pm', rejoin: 'auto' }] });
    play.losesTouch();
    play.program('b1');
    play.leaves('pm');
    play.catchesUp();
    expect(play.fate('b1')).toMatchObject({ state: 'unrouted' });
    play.joins('pm');
    expect(play.floor.usageSincePerson.turns).toBe(1);
    play.program('b2');
    play.reports('pm', 'b2', 'next-prompt');
    play.later(60_000);
    const back = play.joins('pm');
    expect(effectsOf('prompt', back)).toMatchObject([{ messages: ['b1', 'b2'] }]);
    expect(play.floor.usageSincePerson.turns).toBe(2);
  });

  test('keeps the count when it answers an agent while another program’s message was returned', () => {
    const play = stage({ settings: { mode: 'queue', waitPolicy: 'release' } });
    play.person('m1');
    play.program('b1');
    play.waits('pm');
    play.later(200_000);
    expect(play.holder).toBeNull();
    const { turns } = play.floor.usageSincePerson;
    expect(turns).toBeGreaterThan(1);
    expect(play.floor.held.map(({ id }) => id)).toEqual(['b1']);
    const act = play.program('b2', 'pm');
    expect(beginnings(act)).toEqual(['exchangeOpened']);
    expect(play.floor.usageSincePerson.turns).toBe(turns + 1);
  });
});

test('a turn that was answered before its agent was back keeps the count of turns, even after the exchange ended', () => {
  const play = stage({ agents: ['pm', 'dev'], settings: { waitPolicy: 'release', rounds: 3 } });
  play.person('m1');
  play.waits('pm');
  play.act({ type: 'restart' });
  play.person('m2', 'pm');
  play.person('m3');
  play.catchesUp();
  play.joins('dev');
  letSpeak(play);
  expect(play.floor.exchange).toBeNull();
  const { turns } = play.floor.usageSincePerson;
  expect(turns).toBeGreaterThan(0);
  const act = play.joins('pm');
  expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'pm', messages: expect.arrayContaining(['m2']) }]);
  expect(beginnings(act)).toEqual(['exchangeOpened']);
  expect(play.floor.usageSincePerson).toMatchObject({ turns });
});

describe('a message that no agent answers', () => {
  test.each([
    ["a program's", { type: 'receive', id: 'm1', addressed: [], fromProgram: true }, ['exchangeOpened']],
    ["a person's", { type: 'receive', id: 'm1', addressed: [] }, ['usageReset', 'exchangeOpened']],
  ] as const)('resets no count of turns, and is prompted again until the limit: %s', (_whose, message, expected) => {
    const play = stage({ agents: [{ agent: 'pm', rejoin: 'auto' }], settings: { maxTurns: 3 } });
    expect(beginnings(play.act(message))).toEqual(expected);
    play.leaves('pm');
    expect(beginnings(play.joins('pm'))).toEqual(['exchangeOpened']);
    for (let crash = 0; crash < MANY; crash += 1) {
      play.leaves('pm');
      play.joins('pm');
    }
    expect(play.floor.epoch).toBe(2 * 3);
    expect(play.announced.filter(({ kind }) => kind === 'limit')).toHaveLength(1);
    expect(effectsOf('prompt', play.person('m2'))).toMatchObject([{ agent: 'pm', messages: ['m1', 'm2'] }]);
  });
});

describe('a budget that is used up without a person', () => {
  /** Both allowed turns are used. */
  function usedUp(settings = {}): Stage {
    const play = stage({ agents: ['pm', 'dev'], settings: { maxTurns: 2, ...settings } });
    play.person('m1');
    letSpeak(play);
    return play;
  }

  test('holds programs’ messages, and is announced with the first of them', () => {
    const play = usedUp();
    expect(play.announced).toEqual([]);
    play.program('b1', 'dev');
    play.program('b2');
    play.program('b3');
    expect(play.holder).toBeNull();
    expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 2, max: 2 }]);
    expect(['b1', 'b2', 'b3'].map((id) => play.fate(id))).toEqual(
      ['b1', 'b2', 'b3'].map(() => ({ state: 'held', until: 'prompt' })),
    );
    expect(play.receipts('b3')).toEqual(['held']);
  });

  test('is reset by a person, whose message also delivers earlier messages of programs', () => {
    const play = usedUp();
    play.program('b1', 'dev');
    const act = play.person('m2');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'dev', messages: ['b1', 'm2'] }]);
    expect(play.floor.usageSincePerson.turns).toBe(1);
    expect(play.floor.limit).toBeNull();
  });

  test.each([
    ['resumes', { type: 'resume' }],
    ['starts', { type: 'start' }],
    ['grants', { type: 'grant', agent: 'pm' }],
  ] as const)('is renewed by an operator who %s', (_how, command) => {
    const play = usedUp();
    play.program('b1');
    const act = play.operator(command);
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'pm', messages: ['b1'] }]);
    expect(play.floor.usageSincePerson.turns).toBe(1);
  });

  test('holds programs’ messages in the last turn, in every mode', () => {
    for (const mode of ['inject', 'queue', 'interrupt', 'parallel'] as const) {
      const play = stage({ agents: ['pm', 'dev'], settings: { maxTurns: 1, mode } });
      play.person('m1');
      expect(play.program('b1').effects).toEqual([{ type: 'receipt', message: 'b1', receipt: 'held' }]);
      expect(play.holder).toBe('pm #1');
      letSpeak(play);
      expect(play.floor.epoch).toBe(1);
      expect(play.announced).toEqual([{ kind: 'limit', budget: 'turns', used: 1, max: 1 }]);
    }
  });

  test('keeps a question open that only a program answers; a person’s answer counts', () => {
    const play = stage({ settings: { maxTurns: 1 } });
    play.person('m1');
    play.waits('pm');
    play.program('b1');
    expect(play.status('pm')).toBe('WAITING');
    const act = play.person('m2');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'pm', messages: ['m1', 'm2', 'b1'], open: ['m1'] }]);
  });

  test('can be of tokens, money or minutes, counted beyond the end of an exchange', () => {
    const budgets = [
      [{ ...NONE, tokens: 100 }, 'tokens', 110],
      [{ ...NONE, costMicros: 100 }, 'cost', 110],
      [{ ...NONE, ms: 120_000 }, 'minutes', 2],
    ] as const;
    for (const [exchangeBudget, budget, used] of budgets) {
      const play = stage({ agents: ['pm'], settings: { exchangeBudget } });
      for (const id of ['b1', 'b2', 'b3']) {
        play.program(id);
        play.later(40_000);
        play.spends('pm', 50, 50);
        letSpeak(play);
        if (id === 'b1') play.act({ type: 'spend', agent: 'pm', epoch: 1, tokens: 10, costMicros: 10 });
      }
      play.program('b4');
      expect(play.holder).toBeNull();
      const [limit] = play.announced;
      expect(limit).toMatchObject({ kind: 'limit', budget });
      expect(limit?.kind === 'limit' && limit.used).toBeGreaterThanOrEqual(used);
      expect(play.announced).toHaveLength(1);
    }
  });

  test('of minutes does not count the time in which the floor rested', () => {
    const play = stage({ agents: ['pm'], settings: { exchangeBudget: { ...NONE, ms: 120_000 } } });
    play.program('b1');
    play.later(40_000);
    letSpeak(play);
    play.later(36_000_000);
    play.program('b2');
    expect(play.holder).toBe('pm #2');
  });

  test('holds at most maxHeld messages of programs, and announces that limit separately', () => {
    const play = usedUp({ maxHeld: 2 });
    for (const id of ['b1', 'b2', 'b3']) play.program(id);
    expect(play.floor.held.map(({ id }) => id)).toEqual(['b1', 'b2']);
    expect(play.fate('b3')).toEqual({ state: 'unrouted', why: 'too many held messages' });
    expect(play.announced.map((each) => each.kind === 'limit' && each.budget)).toEqual(['turns', 'held messages']);
  });
});

describe('a floor stopped by a person', () => {
  function stopped(): Stage {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.person('m2');
    play.operator({ type: 'stop' });
    return play;
  }

  test('stays stopped when a program writes, and releases no held message', () => {
    const play = stopped();
    play.program('b1');
    expect(play.holder).toBeNull();
    expect(play.floor.stopped).toBe(true);
    expect(play.floor.held.map(({ id }) => id)).toEqual(['m2', 'm1', 'b1']);
    expect(announcementsIn(play.last.effects)).toEqual([]);
  });

  test.each([
    ['a person writes', (play: Stage): Act => play.person('m3'), ['m2', 'm1', 'b1', 'm3']],
    ['an operator resumes', (play: Stage): Act => play.operator({ type: 'resume' }), ['m2', 'm1', 'b1']],
  ] as const)('continues with all held messages when %s', (_when, go, messages) => {
    const play = stopped();
    play.program('b1');
    expect(effectsOf('prompt', go(play))).toMatchObject([{ messages }]);
  });
});
