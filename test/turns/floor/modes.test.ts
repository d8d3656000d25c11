import { describe, expect, test } from 'vitest';
import { effectsOf, factsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';

/** pm has spoken, dev is ACTIVE #2, qa is next, then pm. */
function second(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  play.speaks('pm');
  return play;
}

describe('mode inject', () => {
  test('delivers a message to the holder at once, with its receipt', () => {
    const play = second();
    const act = play.person('m2');
    expect(effectsOf('inject', act)).toEqual([
      { type: 'inject', agent: 'dev', epoch: 2, message: 'm2', observed: false },
    ]);
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['dev'], via: 'inject' });
    expect(play.receipts('m2')).toEqual(['injected']);
    expect(play.holder).toBe('dev #2');
    play.reports('dev', 'm2', 'injected');
    expect(play.receipts('m2')).toEqual(['injected']);
    play.speaks('dev');
    expect(play.receipts('m2')).toEqual(['injected', 'done']);
    expect(play.holder).toBe('qa #3');
  });

  test('prompts the holder again when its backend could not inject the message', () => {
    const play = second();
    play.person('m2');
    play.reports('dev', 'm2', 'next-prompt');
    const end = play.speaks('dev');
    expect(play.holder).toBe('dev #2');
    expect(effectsOf('prompt', end)).toMatchObject([{ agent: 'dev', epoch: 2, reason: 'again', messages: ['m2'] }]);
    expect(play.receipts('m2')).toEqual(['injected']);
    play.speaks('dev');
    expect(play.holder).toBe('qa #3');
    expect(play.receipts('m2')).toEqual(['injected', 'done']);
  });

  test('treats a refused message like one that could not be injected', () => {
    const play = second();
    play.person('m2');
    play.reports('dev', 'm2', 'refused');
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([
      { agent: 'dev', reason: 'again', messages: ['m2'] },
    ]);
  });

  test('releases unseen messages to the next holder after three repeated prompts', () => {
    const play = second();
    for (const id of ['a', 'b', 'c']) {
      play.person(id);
      play.reports('dev', id, 'next-prompt');
      expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ reason: 'again', messages: [id] }]);
    }
    play.person('d');
    play.reports('dev', 'd', 'next-prompt');
    const end = play.completes('dev');
    expect(play.holder).toBe('qa #3');
    expect(effectsOf('prompt', end)).toMatchObject([{ agent: 'qa', reason: 'grant', messages: ['d'] }]);
    expect(play.fate('d')).toEqual({ state: 'delivered', to: ['qa'], via: 'prompt' });
  });

  test('resets the count of turns', () => {
    const play = second({ rounds: 0, maxTurns: 3 });
    play.person('m2');
    play.reports('dev', 'm2', 'injected');
    play.speaks('dev');
    play.speaks('qa');
    expect(play.floor.condition).toBe('open');
    play.speaks('pm');
    play.speaks('dev');
    expect(play.floor.condition).toBe('resting');
  });

  test('delivers a message to a free floor by granting a turn with it', () => {
    const play = stage();
    const act = play.person('m1');
    expect(play.holder).toBe('pm #1');
    expect(effectsOf('prompt', act)).toEqual([
      { type: 'prompt', agent: 'pm', epoch: 1, reason: 'grant', afterLine: 0, uptoLine: 1, messages: ['m1'], open: [] },
    ]);
    expect(play.fate('m1')).toEqual({ state: 'delivered', to: ['pm'], via: 'prompt' });
    play.speaks('pm');
    expect(play.receipts('m1').at(-1)).toBe('done');
  });

  test('releases a message to the next holder when the holder left before it got it', () => {
    const play = second();
    play.person('m2');
    play.reports('dev', 'm2', 'next-prompt');
    const crash = play.leaves('dev');
    expect(effectsOf('prompt', crash)).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
  });

  test('includes a message in the next prompt of an agent that was skipped before it got the message', () => {
    const play = second();
    play.person('m2');
    expect(play.floor.lines).toBe(3);
    expect(effectsOf('prompt', play.operator({ type: 'skip' }))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
    expect(effectsOf('prompt', play.speaks('qa', 'dev'))).toMatchObject([{ agent: 'dev', afterLine: 2 }]);
  });

  test('passes edits and deletions on to the holder that got the message', () => {
    const play = second();
    play.person('m2');
    play.reports('dev', 'm2', 'injected');
    expect(effectsOf('inject', play.act({ type: 'edit', id: 'm2' }))).toMatchObject([
      { agent: 'dev', epoch: 2, message: 'm2', change: 'edited' },
    ]);
    expect(effectsOf('inject', play.act({ type: 'delete', id: 'm2' }))).toMatchObject([
      { agent: 'dev', epoch: 2, message: 'm2', change: 'deleted' },
    ]);
  });
});

describe('a message that the holder has yet to get', () => {
  function missed(): Stage {
    const play = second();
    play.person('m2');
    play.reports('dev', 'm2', 'next-prompt');
    return play;
  }

  test('is deleted without a word to the holder, now and with its next prompt', () => {
    const play = missed();
    const { lines } = play.floor;
    expect(play.act({ type: 'delete', id: 'm2' }).effects).toEqual([]);
    expect(play.floor.lines).toBe(lines);
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ agent: 'qa', messages: [] }]);
  });

  test('is deleted without a line of the conversation after a stop, too', () => {
    const play = missed();
    play.operator({ type: 'stop' });
    const { lines } = play.floor;
    expect(play.act({ type: 'delete', id: 'm2' }).effects).toEqual([]);
    expect(play.floor.lines).toBe(lines);
    expect(play.floor.held.map(({ id }) => id)).not.toContain('m2');
  });

  test('is deleted with a line of the conversation after a stop, if another agent has read it', () => {
    const play = missed();
    play.operator({ type: 'stop' });
    play.operator({ type: 'start' });
    expect(play.floor.lines).toBe(3);
    play.operator({ type: 'stop' });
    play.act({ type: 'delete', id: 'm2' });
    expect(play.floor.lines).toBe(4);
  });

  test('reaches the holder once when it is edited: with its next prompt', () => {
    const play = missed();
    expect(play.act({ type: 'edit', id: 'm2' }).effects).toEqual([]);
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([
      { agent: 'dev', reason: 'again', messages: ['m2'], afterLine: 3, uptoLine: 4 },
    ]);
  });

  test('is no news for the holder when it answers another agent that waits without the floor', () => {
    const play = second({ waitPolicy: 'release' });
    play.act({ type: 'wait', agent: 'dev', epoch: 2, reason: 'answer' });
    expect(play.holder).toBe('qa #3');
    play.act({ type: 'receive', id: 'm2', addressed: ['dev'], order: '0002' });
    for (const type of ['edit', 'delete'] as const)
      expect(effectsOf('inject', play.act({ type, id: 'm2' }))).toEqual([]);
  });

  test.each(['edit', 'delete'] as const)('is told to a holder that read it when people %s it', (type) => {
    const play = stage({ settings: { waitPolicy: 'release' } });
    play.person('m1');
    for (const agent of ['pm', 'dev']) {
      const { epoch } = play.floor;
      play.act({ type: 'wait', agent, epoch, reason: 'answer' });
    }
    expect(play.holder).toBe('qa #3');
    play.act({ type: 'receive', id: 'm2', addressed: ['dev'], order: '0002' });
    play.act({ type: 'receive', id: 'm3', addressed: ['pm'], order: '0003' });
    expect(effectsOf('prompt', play.speaks('qa'))).toMatchObject([{ agent: 'pm', messages: ['m1', 'm3'] }]);
    const { lines } = play.floor;
    expect(effectsOf('inject', play.act({ type, id: 'm2' }))).toMatchObject([{ agent: 'pm', message: 'm2' }]);
    expect(play.floor.lines).toBe(lines + 1);
  });
});

describe('mode queue', () => {
  test('holds messages, with their receipt, and releases them in order with the next grant', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.person('m3');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'turn' });
    expect(play.receipts('m2')).toEqual(['held']);
    expect(play.floor.held.map((held) => held.id)).toEqual(['m2', 'm3']);
    const end = play.speaks('dev');
    expect(effectsOf('prompt', end)).toMatchObject([
      { agent: 'qa', epoch: 3, reason: 'grant', messages: ['m2', 'm3'] },
    ]);
    expect(play.floor.held).toEqual([]);
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['qa'], via: 'prompt' });
    expect(play.fate('m3')).toEqual({ state: 'delivered', to: ['qa'], via: 'prompt' });
    expect(play.receipts('m2')).toEqual(['held']);
    play.speaks('qa');
    expect(play.receipts('m2')).toEqual(['held', 'done']);
    expect(play.receipts('m3')).toEqual(['held', 'done']);
  });

  test('releases in the order of the platform, not of arrival', () => {
    const play = second({ mode: 'queue' });
    play.act({ type: 'receive', id: 'late', addressed: [], order: '0002' });
    play.act({ type: 'receive', id: 'early', addressed: [], order: '0001' });
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ messages: ['early', 'late'] }]);
  });

  test('compares the platform’s order as numbers of any length', () => {
    const play = second({ mode: 'queue' });
    for (const order of ['10', '9', '100']) play.act({ type: 'receive', id: order, addressed: [], order });
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ messages: ['9', '10', '100'] }]);
  });

  test('delivers a deleted message to nobody', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.person('m3');
    play.act({ type: 'delete', id: 'm2' });
    expect(effectsOf('prompt', play.completes('dev'))).toMatchObject([{ agent: 'qa', messages: ['m3'] }]);
  });

  test('does not extend the turn: its deadline stays', () => {
    const play = second({ mode: 'queue' });
    play.later(59_999);
    play.person('m2');
    play.later(1);
    expect(play.holder).toBe('qa #3');
  });
});

describe('mode interrupt', () => {
  test('moves the holder to WAITING and stops its generation, with the receipt', () => {
    const play = second({ mode: 'interrupt' });
    const act = play.person('m2');
    expect(play.status('dev')).toBe('WAITING');
    expect(play.floor.turn).toMatchObject({ agent: 'dev', wait: { reason: 'human' } });
    expect(effectsOf('interrupt', act)).toEqual([{ type: 'interrupt', agent: 'dev', epoch: 2, graceMs: 5_000 }]);
    expect(play.receipts('m2')).toEqual(['preempted']);
    expect(play.holder).toBeNull();
  });

  test('answers the message first and resumes the same turn with a new epoch', () => {
    const play = second({ mode: 'interrupt' });
    play.person('m2');
    const stopped = play.stopsGenerating('dev');
    expect(play.holder).toBe('dev #3');
    expect(effectsOf('prompt', stopped)).toMatchObject([
      { agent: 'dev', epoch: 3, reason: 'resume', messages: ['m2'] },
    ]);
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['dev'], via: 'interrupt' });
    expect(factsOf('turnGranted', stopped)).toEqual([]);
    play.speaks('dev');
    expect(play.holder).toBe('qa #4');
    expect(play.receipts('m2')).toEqual(['preempted', 'done']);
  });

  test('stops by force when the grace is over', () => {
    const play = second({ mode: 'interrupt' });
    play.person('m2');
    play.later(4_999);
    expect(play.status('dev')).toBe('WAITING');
    const forced = play.later(1);
    expect(effectsOf('interrupt', forced)).toEqual([{ type: 'interrupt', agent: 'dev', epoch: 2, graceMs: 0 }]);
    expect(factsOf('turnStopped', forced)).toMatchObject([{ agent: 'dev', epoch: 2, forced: true }]);
    expect(play.holder).toBe('dev #3');
  });

  test('does not count a preempted turn twice', () => {
    const play = second({ mode: 'interrupt', rounds: 0, maxTurns: 3 });
    play.person('m2');
    play.stopsGenerating('dev');
    expect(play.floor.usageSincePerson.turns).toBeLessThanOrEqual(1);
  });
});

describe('mode parallel', () => {
  test('passes a message at once to every online seat, to observe', () => {
    const play = second({ mode: 'parallel' });
    const act = play.person('m2');
    expect(effectsOf('inject', act)).toMatchObject([{ agent: 'dev', epoch: 2, message: 'm2', observed: true }]);
    expect(effectsOf('observe', act)).toEqual([
      { type: 'observe', agent: 'pm', message: 'm2' },
      { type: 'observe', agent: 'qa', message: 'm2' },
    ]);
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'exchange' });
    expect(play.receipts('m2')).toEqual(['observed']);
  });

  test('T4 counts a message as observed when the holder has received it, not before', () => {
    const play = second({ mode: 'parallel' });
    play.person('m2');
    play.reports('dev', 'm2', 'injected');
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['dev'], via: 'observe' });
    play.speaks('dev');
    play.speaks('qa');
    expect(play.floor.condition).toBe('resting');
    expect(play.receipts('m2')).toEqual(['observed']);
  });

  test('T4 shows a message that the holder could not receive to the next agent, in its prompt', () => {
    const play = second({ mode: 'parallel' });
    play.person('m2');
    expect(play.refused({ type: 'injected', agent: 'dev', epoch: 2, id: 'm2', outcome: 'next-prompt' })).toBe(
      'unknown-message',
    );
    const [prompt] = effectsOf('prompt', play.speaks('dev'));
    expect(prompt).toMatchObject({ agent: 'qa', messages: [] });
    expect(play.journal.find(({ fact }) => fact.type === 'messageRouted' && fact.id === 'm2')?.fact).toMatchObject({
      line: (prompt?.uptoLine ?? 0) - 1,
    });
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['qa'], via: 'observe' });
  });

  test('T4 opens an exchange for a message that no agent got in the last one', () => {
    const play = second({ mode: 'parallel' });
    play.speaks('dev');
    play.person('m2');
    expect(effectsOf('prompt', play.speaks('qa'))).toMatchObject([{ agent: 'pm', epoch: 4, messages: ['m2'] }]);
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['pm'], via: 'prompt' });
    play.speaks('pm');
    expect(play.receipts('m2')).toEqual(['observed', 'done']);
  });

  test('T4 keeps a message that no agent got through a stop, until a person writes', () => {
    const play = second({ mode: 'parallel' });
    play.person('m2');
    play.operator({ type: 'stop' });
    expect(effectsOf('prompt', play.person('m3'))).toMatchObject([{ messages: ['m2', 'm3'] }]);
  });

  test('T4 shows no message to an idle agent', () => {
    const play = second({ mode: 'parallel' });
    play.operator({ type: 'remove', agent: 'pm' });
    expect(play.status('pm')).toBe('IDLE');
    const act = play.person('m2');
    expect(effectsOf('observe', act)).toEqual([{ type: 'observe', agent: 'qa', message: 'm2' }]);
  });

  test('leaves out agents that are offline', () => {
    const play = second({ mode: 'parallel' });
    play.leaves('qa');
    expect(effectsOf('observe', play.person('m2'))).toEqual([{ type: 'observe', agent: 'pm', message: 'm2' }]);
  });

  test('changes neither the turn nor its deadline nor the order', () => {
    const play = second({ mode: 'parallel' });
    const { turn, queue } = play.floor;
    play.person('m2');
    expect(play.floor.turn).toEqual(turn);
    expect(play.floor.queue).toEqual(queue);
    play.later(60_000);
    expect(play.moves('dev').at(-1)).toBe('dev ACTIVE>QUEUED TIMEOUT');
  });

  test('opens an exchange on a resting floor like every other mode', () => {
    const play = stage({ settings: { mode: 'parallel' } });
    expect(effectsOf('prompt', play.person('m1'))).toMatchObject([{ agent: 'pm', messages: ['m1'] }]);
  });
});

describe('a change of mode', () => {
  test('applies to later messages', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.operator({ type: 'mode', mode: 'inject' });
    expect(play.fate('m2')).toMatchObject({ state: 'held' });
    play.person('m3');
    expect(play.fate('m3')).toMatchObject({ state: 'delivered', via: 'inject' });
    expect(play.floor.held.map((held) => held.id)).toEqual(['m2']);
  });

  test('to the present mode is refused', () => {
    expect(stage().refused({ type: 'mode', by: 'ada', mode: 'inject' })).toBe('already');
  });
});

describe.each(['inject', 'queue', 'interrupt', 'parallel'] as const)('in mode %s', (mode) => {
  test('every message has one recorded fate and one receipt when it arrives', () => {
    const play = second({ mode });
    const act = play.person('m2');
    expect(factsOf('messageRouted', act).map((fact) => fact.id)).toEqual(['m2']);
    expect(effectsOf('receipt', act)).toHaveLength(1);
  });

  test('a message that is not for agents is recorded with its rule and not delivered', () => {
    const play = second({ mode });
    const before = play.floor;
    const act = play.act({ type: 'receive', id: 'm2', addressed: [], ignore: 'another bot' });
    expect(play.fate('m2')).toEqual({ state: 'ignored', rule: 'another bot' });
    expect(act.effects).toEqual([]);
    expect(play.floor).toEqual(before);
  });

  test('receipts can be turned off, fates cannot', () => {
    const play = second({ mode, receipts: false });
    const act = play.person('m2');
    expect(effectsOf('receipt', act)).toEqual([]);
    expect(play.fate('m2')).not.toBeNull();
  });

  test('a paused floor holds messages and grants nothing until it is resumed', () => {
    const play = stage({ settings: { mode } });
    play.operator({ type: 'pause' });
    play.person('m1');
    expect(play.holder).toBeNull();
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('pm #1');
    expect(effectsOf('prompt', play.last)).toMatchObject([{ agent: 'pm', messages: ['m1'] }]);
  });
});
