import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { fateWords } from '../../src/turns/commands/fact-words.ts';
import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import type { FloorSettings } from '../../src/turns/floor/settings.ts';
import { deliveryPreviewOf, threadOf } from '../../src/turns/view.ts';
import { stage } from './floor/stage.ts';
import type { Stage } from './floor/stage.ts';

const APPROVAL = { title: 'run the tests', detail: 'npm test' };

/** Grants pm the floor, whatever the order of the channel. */
const takes = (play: Stage): void => void play.operator({ type: 'grant', agent: 'pm' });

/** Situations in which a person can write a message, and the commands that lead there. */
const SITUATIONS: readonly (readonly [string, (play: Stage) => void])[] = [
  ['the floor rests', () => {}],
  ['pm has the floor', takes],
  [
    'pm has the floor and a message came during its turn',
    (play) => {
      takes(play);
      play.person('m2');
    },
  ],
  [
    'pm waits for an answer',
    (play) => {
      takes(play);
      play.waits('pm');
    },
  ],
  [
    'pm waits for an approval',
    (play) => {
      takes(play);
      play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
    },
  ],
  ['the floor is paused', (play) => void play.operator({ type: 'pause' })],
  [
    'a stop kept a message that names an agent',
    (play) => {
      takes(play);
      play.act({ type: 'receive', id: 'm2', addressed: ['qa'], order: '22' });
      play.operator({ type: 'stop' });
    },
  ],
  [
    'a turn goes on and the floor is paused after it',
    (play) => {
      takes(play);
      play.operator({ type: 'pause' });
    },
  ],
  [
    'somebody stopped it',
    (play) => {
      takes(play);
      play.operator({ type: 'stop' });
    },
  ],
  ['nobody is online', (play) => ['pm', 'dev', 'qa'].forEach((agent) => void play.leaves(agent))],
  ['the history is read', (play) => void play.losesTouch()],
  [
    'the limit is reached',
    (play) => {
      takes(play);
      for (let turn = play.floor.turn; turn !== null; turn = play.floor.turn) play.speaks(turn.agent);
    },
  ],
];

const SETTINGS: readonly Partial<FloorSettings>[] = [
  ...INTERRUPT_MODES.map((mode) => ({ mode })),
  { order: 'manual' },
  { order: 'mention' },
  { order: 'mention', defaultAgent: 'qa' },
  { order: 'facilitator', facilitator: 'qa' },
  { waitPolicy: 'release' },
  { maxTurns: 1 },
  { maxHeld: 1 },
];

describe('the delivery preview', () => {
  test.each(SITUATIONS)('T44 matches the fate of the next message, when %s', (_when, bring) => {
    for (const settings of SETTINGS) {
      for (const addressed of [null, 'pm', 'dev', 'qa']) {
        const play = stage({ settings });
        bring(play);
        const { unaddressed, addressed: named } = deliveryPreviewOf(play.floor, play.at);
        const foreseen = addressed === null ? unaddressed : named[addressed];
        play.act({ type: 'receive', id: '9', addressed: addressed === null ? [] : [addressed], order: '99' });
        expect({ settings, addressed, fate: foreseen }).toEqual({ settings, addressed, fate: play.fate('9') });
      }
    }
  });

  test('T44 says that a message during an approval is held, in the modes inject and interrupt', () => {
    for (const mode of ['inject', 'interrupt'] as const) {
      const play = stage({ settings: { mode } });
      play.person('m1');
      play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
      expect(fateWords(deliveryPreviewOf(play.floor, play.at).unaddressed)).toBe('held until an agent is prompted');
    }
  });

  test('T44 says that a message reaches nobody in the order mention, unless it names an agent', () => {
    const play = stage({ settings: { order: 'mention' } });
    const { unaddressed, addressed } = deliveryPreviewOf(play.floor, play.at);
    expect(fateWords(unaddressed)).toBe('reached no agent: nobody addressed');
    expect(addressed['dev']).toEqual({ state: 'delivered', to: ['dev'], via: 'prompt' });
  });
});

describe('the controls of the delivery preview', () => {
  const SEAT_TYPES = ['grant', 'skip', 'remove', 'add', 'enable', 'disable'] as const;

  test.each(SITUATIONS)('are the commands that would change the floor, when %s', (_when, bring) => {
    const play = stage({});
    bring(play);
    const { controls } = deliveryPreviewOf(play.floor, play.at);
    for (const agent of ['pm', 'dev', 'qa'])
      for (const type of SEAT_TYPES) {
        const other = stage({});
        bring(other);
        const before = other.floor;
        other.attempt({ type, agent, by: 'ada' });
        const isOffered = controls[agent]?.some(([line]) => line.endsWith(` ${type} ${agent}`));
        expect({ agent, type, isOffered }).toEqual({ agent, type, isOffered: !isDeepStrictEqual(other.floor, before) });
      }
  });

  test('are the commands of an operator for a resting floor and for a running turn', () => {
    const play = stage({});
    const about = (id: string) => deliveryPreviewOf(play.floor, play.at).controls[id]?.map(([line]) => line);
    expect(about('')).toEqual(['/floor start']);
    expect(about('pm')).toEqual(['/floor grant pm', '/floor remove pm', '/agent disable pm']);
    takes(play);
    expect(about('')).toEqual(['/floor extend 60']);
    expect(about('pm')).toEqual(['/floor skip pm', '/floor remove pm', '/agent disable pm']);
    play.operator({ type: 'disable', agent: 'pm' });
    expect(about('pm')).toEqual(['/floor remove pm', '/agent enable pm']);
  });
});

describe('T37 the thread in which an agent speaks when threads share the floor', () => {
  /** Messages whose id begins with "t" are in a thread. */
  const threadIn = ({ journal }: Stage, line: number | null = null): string | null =>
    threadOf(journal.toReversed(), line, {
      message: (id: string) => (id.startsWith('t') ? { thread: 'test:one/thread' } : {}),
    });

  test('is the thread of the newest message that an agent got', () => {
    const play = stage();
    play.person('t1');
    expect(threadIn(play)).toBe('test:one/thread');
    play.person('m2');
    expect(threadIn(play)).toBeNull();
  });

  test('stays the same for agents that get the floor after it', () => {
    const play = stage();
    play.person('t1');
    play.speaks('pm');
    expect(play.floor.turn?.agent).toBe('dev');
    expect(threadIn(play)).toBe('test:one/thread');
  });

  test('is not the thread of a held message until the turn ends', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.person('m1');
    play.person('t2');
    expect(threadIn(play)).toBeNull();
    play.speaks('pm');
    expect(threadIn(play)).toBe('test:one/thread');
  });

  test('is known for every line, even after later messages', () => {
    const play = stage({ agents: ['pm'] });
    play.person('t1');
    play.speaks('pm');
    play.person('m2');
    play.speaks('pm');
    const lines = play.journal.flatMap(({ fact }) => (fact.type === 'said' ? [fact.line] : []));
    expect(lines.map((line) => threadIn(play, line))).toEqual(['test:one/thread', null]);
  });

  test('is none in a new exchange without a message, and stays the same after a limit', () => {
    const ended = stage({ agents: ['pm'] });
    ended.person('t1');
    ended.speaks('pm');
    ended.operator({ type: 'grant', agent: 'pm' });
    expect(threadIn(ended)).toBeNull();
    const limited = stage({ settings: { maxTurns: 1 } });
    limited.person('t1');
    limited.speaks('pm');
    limited.operator({ type: 'resume' });
    expect(limited.floor.turn?.agent).toBe('dev');
    expect(threadIn(limited)).toBe('test:one/thread');
  });
});
