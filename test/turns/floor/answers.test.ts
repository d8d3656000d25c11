import { describe, expect, test } from 'vitest';
import type { Act } from './stage.ts';
import { effectsOf, stage } from './stage.ts';

/** Returns the messages to answer in the prompts of an act, and which of them were in an earlier prompt. */
function prompted(act: Act): readonly { readonly messages: readonly string[]; readonly open: readonly string[] }[] {
  return effectsOf('prompt', act).map(({ messages, open }) => ({ messages, open }));
}

/** Returns the messages that an act marks as done. */
function done(act: Act): readonly string[] {
  return effectsOf('receipt', act).flatMap(({ message, receipt }) => (receipt === 'done' ? [message] : []));
}

describe('a burst in interrupt mode (example T)', () => {
  test('T2 is answered together, and counts as answered only after a generation that ended normally', () => {
    const play = stage({ settings: { mode: 'interrupt' } });
    play.person('m1');
    play.person('m2');
    play.person('m3');
    expect(prompted(play.stopsGenerating('pm'))).toEqual([{ messages: ['m1', 'm2', 'm3'], open: ['m1'] }]);
    play.says('pm', 'about m2');
    play.person('m4');
    expect(prompted(play.stopsGenerating('pm'))).toEqual([
      { messages: ['m1', 'm2', 'm3', 'm4'], open: ['m1', 'm2', 'm3'] },
    ]);
    expect(['m1', 'm2', 'm3', 'm4'].flatMap((id) => play.receipts(id).filter((one) => one === 'done'))).toEqual([]);
    expect(done(play.completes('pm'))).toEqual(['m1', 'm2', 'm3', 'm4']);
  });

  test('T2 goes to the next agent together when the turn fails before it posts more', () => {
    const play = stage({ settings: { mode: 'interrupt' } });
    play.person('m1');
    play.says('pm', 'about m1');
    play.person('m2');
    play.person('m3');
    play.stopsGenerating('pm');
    const crash = play.leaves('pm');
    expect(done(crash)).toEqual([]);
    expect(prompted(crash)).toEqual([{ messages: ['m2', 'm3'], open: [] }]);
  });

  test("T2 leaves the turn's own messages open while a responder answers", () => {
    const play = stage({ settings: { mode: 'interrupt', interruptResponder: 'qa' } });
    play.person('m1');
    play.person('m2');
    expect(prompted(play.stopsGenerating('pm'))).toEqual([{ messages: ['m2'], open: [] }]);
    const answered = play.speaks('qa');
    expect(done(answered)).toEqual(['m2']);
    expect(prompted(answered)).toEqual([{ messages: ['m1'], open: ['m1'] }]);
    expect(done(play.completes('pm'))).toEqual(['m1']);
  });
});

describe('many held messages (example U)', () => {
  const ids = Array.from({ length: 100 }, (_, index) => `m${String(index).padStart(3, '0')}`);

  test('T3 are all in the prompt of a resumed turn again, and answered when it completes', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.operator({ type: 'pause' });
    for (const id of ids) play.act({ type: 'receive', id, addressed: [], order: id });
    expect(prompted(play.operator({ type: 'resume' }))).toEqual([{ messages: ids, open: [] }]);
    play.says('pm', 'The first of a hundred answers.');
    play.act({ type: 'restart' });
    play.joins('pm');
    expect(prompted(play.catchesUp())).toEqual([{ messages: ids, open: ids }]);
    expect(play.effects.filter((effect) => effect.type === 'receipt' && effect.receipt === 'done')).toEqual([]);
    expect(done(play.completes('pm'))).toEqual(ids);
  });

  test('T3 injected before the turn waits without the floor, and reported then, are still open at its resume', () => {
    const play = stage({ settings: { waitPolicy: 'release' } });
    play.person('m1');
    play.person('m2');
    play.waits('pm');
    play.reports('pm', 'm2', 'injected');
    play.speaks('dev');
    play.person('m3', 'pm');
    expect(prompted(play.speaks('qa'))).toEqual([{ messages: ['m1', 'm2', 'm3'], open: ['m1', 'm2'] }]);
  });

  test('T3 injected before the turn asks another agent, and reported then, are still open at its resume', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.act({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer', of: 'qa' });
    play.reports('pm', 'm2', 'injected');
    expect(prompted(play.speaks('qa'))).toEqual([{ messages: ['m1', 'm2'], open: ['m1', 'm2'] }]);
  });

  test.each(['hold', 'release'] as const)(
    'T3 that could not be injected end the wait of their turn, however late the report (waitPolicy %s)',
    (waitPolicy) => {
      const play = stage({ agents: ['pm'], settings: { waitPolicy } });
      play.person('m1');
      play.person('m2');
      play.waits('pm');
      expect(prompted(play.reports('pm', 'm2', 'next-prompt'))).toEqual([{ messages: ['m1', 'm2'], open: ['m1'] }]);
    },
  );

  test('T3 that could not be injected do not answer a question to another agent', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.act({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer', of: 'qa' });
    play.reports('pm', 'm2', 'refused');
    expect(prompted(play.speaks('qa'))).toEqual([{ messages: ['m1', 'm2'], open: ['m1'] }]);
  });

  test('T3 that could not be injected wait for the history before they end a wait', () => {
    const play = stage({ agents: ['pm'] });
    play.person('m1');
    play.person('m2');
    play.waits('pm');
    play.losesTouch();
    expect(prompted(play.reports('pm', 'm2', 'next-prompt'))).toEqual([]);
    expect(prompted(play.catchesUp())).toEqual([{ messages: ['m1', 'm2'], open: ['m1'] }]);
  });

  test('T3 without room in a prompt are prompted again in the same turn', () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.operator({ type: 'pause' });
    for (const id of ['m1', 'm2', 'm3']) play.act({ type: 'receive', id, addressed: [], order: id });
    play.operator({ type: 'resume' });
    play.reports('pm', 'm3', 'no-room');
    const first = play.completes('pm');
    expect(done(first)).toEqual([]);
    expect(prompted(first)).toEqual([{ messages: ['m3'], open: [] }]);
    expect(done(play.completes('pm'))).toEqual(['m1', 'm2', 'm3']);
  });
});

describe('a message', () => {
  test('that is in the next prompt is not withdrawn by a late report of its injection', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    expect(prompted(play.completes('pm'))).toEqual([{ messages: ['m2'], open: [] }]);
    const late = { type: 'injected', agent: 'pm', epoch: 1, id: 'm2' } as const;
    for (const outcome of ['next-prompt', 'refused', 'injected'] as const)
      expect(play.refused({ ...late, outcome })).toBe('unknown-message');
    expect(done(play.completes('pm'))).toEqual(['m1', 'm2']);
  });

  test("T2 stays open during its agent's question, and is answered by the turn after it", () => {
    const play = stage();
    play.person('m1');
    play.says('pm', 'Postgres or SQLite?');
    play.waits('pm');
    expect(prompted(play.person('m2'))).toEqual([{ messages: ['m1', 'm2'], open: ['m1'] }]);
    expect(done(play.completes('pm'))).toEqual(['m1', 'm2']);
  });

  test('T2 that was injected is in the prompt of a turn that a restart interrupted', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.reports('pm', 'm2', 'injected');
    play.act({ type: 'restart' });
    play.joins('pm');
    expect(prompted(play.catchesUp())).toEqual([{ messages: ['m1', 'm2'], open: ['m1', 'm2'] }]);
  });

  test('that arrived after the last text of a failed turn goes to the next agent', () => {
    const play = stage();
    play.person('m1');
    play.says('pm');
    play.person('m2');
    play.reports('pm', 'm2', 'injected');
    const skipped = play.operator({ type: 'skip' });
    expect(done(skipped)).toEqual([]);
    expect(prompted(skipped)).toEqual([{ messages: ['m2'], open: [] }]);
  });

  test('that arrived after the last text of a silent turn goes to the next agent; earlier ones are answered', () => {
    const play = stage({ settings: { autoDetectTurnEnd: true } });
    play.person('m1');
    play.says('pm');
    play.person('m2');
    play.reports('pm', 'm2', 'injected');
    const silence = play.later(10_000);
    expect(done(silence)).toEqual(['m1']);
    expect(prompted(silence)).toEqual([{ messages: ['m2'], open: [] }]);
  });

  test('that a generation answered stays answered, even if the next generation fails', () => {
    const play = stage();
    play.person('m1');
    play.person('m2');
    play.reports('pm', 'm2', 'next-prompt');
    expect(prompted(play.speaks('pm'))).toEqual([{ messages: ['m2'], open: [] }]);
    const crash = play.leaves('pm');
    expect(done(crash)).toEqual(['m1']);
    expect(prompted(crash)).toEqual([{ messages: ['m2'], open: [] }]);
  });
});

describe('a stop', () => {
  test("T5 before the first text holds the turn's messages again, and reports how many", () => {
    const play = stage({ settings: { mode: 'queue' } });
    play.operator({ type: 'pause' });
    play.person('m1');
    play.person('m2');
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('pm #1');
    play.operator({ type: 'stop' });
    expect(play.announced.at(-1)).toEqual({ kind: 'stopped', agent: 'pm', kept: 2 });
    expect(play.floor.held.map(({ id }) => id)).toEqual(['m1', 'm2']);
    expect([play.fate('m1'), play.fate('m2')]).toMatchObject([{ state: 'held' }, { state: 'held' }]);
    expect(play.receipts('m1').at(-1)).toBe('held');
    expect(prompted(play.person('m3'))).toEqual([{ messages: ['m1', 'm2', 'm3'], open: [] }]);
  });

  test.each([['stop'], ['skip']] as const)(
    'T5 a %s in the middle of an answer shows on the message that it was cut short',
    (type) => {
      const play = stage();
      play.person('m1');
      play.says('pm', 'To begin with');
      play.operator({ type });
      expect(play.receipts('m1')).toEqual(['held', 'cut']);
      expect(play.floor.held).toEqual([]);
    },
  );

  test('T5 a turn that ends normally leaves nothing cut off', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    expect(play.receipts('m1')).toEqual(['held', 'done']);
  });
});
