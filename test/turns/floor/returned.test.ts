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
