import { describe, expect, test } from 'vitest';
import { effectsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';

/** pm was prompted with m1 and has said nothing. */
function silent(): Stage {
  const play = stage({ agents: ['pm', 'dev'] });
  play.person('m1');
  return play;
}

describe('a turn that ends before any text', () => {
  test.each([
    ['skipped', { type: 'skip', by: 'ada' }],
    ['removed', { type: 'remove', by: 'ada', agent: 'pm' }],
    ['disabled', { type: 'disable', by: 'ada', agent: 'pm' }],
    ['crashed', { type: 'leave', agent: 'pm', cause: 'exited with code 137' }],
  ] as const)('leaves its message to the next when its agent is %s', (_how, command) => {
    const { effects } = silent().act(command);
    expect(effects).toContainEqual(expect.objectContaining({ type: 'prompt', agent: 'dev', messages: ['m1'] }));
    expect(effects).not.toContainEqual({ type: 'receipt', message: 'm1', receipt: 'done' });
  });

  test('answers its message in the order mention when its agent crashed and comes back', () => {
    const play = stage({ agents: [{ agent: 'pm', rejoin: 'auto' }], settings: { order: 'mention' } });
    play.person('m1', 'pm');
    play.leaves('pm', 'exited with code 137');
    expect(effectsOf('prompt', play.joins('pm'))).toMatchObject([{ agent: 'pm', messages: ['m1'] }]);
  });

  test('keeps its message held when it is stopped, and reports that', () => {
    const play = silent();
    const { effects } = play.act({ type: 'stop', by: 'ada' });
    expect(play.announced).toEqual([{ kind: 'stopped', agent: 'pm', kept: 1 }]);
    expect(effects).toContainEqual({ type: 'receipt', message: 'm1', receipt: 'held' });
    expect(effectsOf('prompt', { facts: [], effects })).toEqual([]);
    const next = play.person('m2');
    expect(effectsOf('prompt', next)).toMatchObject([{ messages: ['m1', 'm2'] }]);
  });

  test('has answered its message when the agent passes', () => {
    const play = silent();
    play.passes('pm');
    expect(play.floor.held).toEqual([]);
    expect(play.receipts('m1')).toEqual(['held', 'done']);
  });
});

describe('a turn with text', () => {
  test('that is skipped neither passes its message on nor counts it as answered', () => {
    const play = silent();
    play.says('pm');
    const { effects } = play.act({ type: 'skip', by: 'ada' });
    expect(effects).not.toContainEqual({ type: 'receipt', message: 'm1', receipt: 'done' });
    expect(effects).toContainEqual(expect.objectContaining({ type: 'prompt', agent: 'dev', messages: [] }));
  });
});

describe('a message without room in the prompt', () => {
  test('still names its agent in the order mention when its turn is skipped', () => {
    const play = stage({ agents: ['pm', 'dev'], settings: { order: 'mention' } });
    play.person('m1', 'dev');
    play.reports('dev', 'm1', 'no-room');
    const { effects } = play.act({ type: 'skip', by: 'ada' });
    expect(effects).toContainEqual(expect.objectContaining({ type: 'prompt', agent: 'dev', messages: ['m1'] }));
    expect(play.receipts('m1')).not.toContain('unrouted');
  });

  test.each([
    [
      'granted by an operator',
      (play) => {
        play.person('m0', 'pm');
        play.person('m1', 'dev');
        play.act({ type: 'stop', by: 'ada' });
        play.operator({ type: 'grant', agent: 'dev' });
      },
    ],
    [
      'called after the holder',
      (play) => {
        play.person('m0', 'pm');
        play.person('m1', 'dev', 'pm');
        play.completes('pm');
        play.completes('pm');
      },
    ],
    [
      'prompted again',
      (play) => {
        play.person('m0', 'dev');
        play.person('m1', 'dev');
        play.completes('dev');
      },
    ],
    [
      'resumed after a restart',
      (play) => {
        play.person('m0', 'dev');
        play.person('m1', 'dev');
        play.reports('dev', 'm1', 'injected');
        play.act({ type: 'restart' });
        play.catchesUp();
        play.joins('dev');
      },
    ],
    [
      'resumed after a wait',
      (play) => {
        play.person('m0', 'dev');
        play.waits('dev');
        play.person('m1', 'dev');
      },
    ],
  ] as const satisfies readonly (readonly [string, (play: Stage) => void])[])(
    'still names its agent when the turn was %s',
    (_how, begin) => {
      const play = stage({ agents: ['pm', 'dev'], settings: { order: 'mention' } });
      begin(play);
      play.reports('dev', 'm1', 'no-room');
      expect(play.floor.turn?.unseen).toMatchObject([{ id: 'm1', addressed: expect.arrayContaining(['dev']) }]);
    },
  );

  test('is held once when another stopped turn lacks it too', () => {
    const play = stage({ settings: { waitPolicy: 'release' } });
    play.person('m1');
    play.person('m2', 'dev');
    play.waits('pm');
    play.reports('dev', 'm2', 'no-room');
    play.act({ type: 'stop', by: 'ada' });
    expect(play.floor.held.filter(({ id }) => id === 'm2')).toHaveLength(1);
  });

  test('still comes from its program', () => {
    const play = stage();
    play.program('m1');
    play.reports('pm', 'm1', 'no-room');
    expect(play.floor.turn?.unseen).toMatchObject([{ id: 'm1', fromProgram: true }]);
  });
});
