import { describe, expect, test } from 'vitest';
import { nextDeadline, waitOf } from '../../../src/turns/floor/seats.ts';
import { announcementsIn, effectsOf, factsOf, movesIn, stage } from './stage.ts';
import type { Stage } from './stage.ts';

/** dev is ACTIVE #2 after pm's turn; qa is next, then pm. */
function second(settings = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  play.speaks('pm');
  return play;
}

describe('example A: one round', () => {
  const play = stage();

  test('a message opens the exchange and pm has the floor with it', () => {
    const act = play.person('m1');
    expect(play.floor.condition).toBe('open');
    expect(play.holder).toBe('pm #1');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'pm', epoch: 1, reason: 'grant', messages: ['m1'] }]);
  });

  test("pm's text is posted, and its end gives dev the floor with the whole text", () => {
    expect(effectsOf('post', play.says('pm', 'the spec'))).toEqual([
      { type: 'post', agent: 'pm', epoch: 1, line: 2, text: 'the spec' },
    ]);
    const end = play.completes('pm');
    expect(movesIn(end.facts)).toEqual(['pm ACTIVE>QUEUED TURN_COMPLETE', 'dev QUEUED>ACTIVE TURN_GRANTED']);
    expect(play.holder).toBe('dev #2');
    expect(effectsOf('prompt', end)).toEqual([
      { type: 'prompt', agent: 'dev', epoch: 2, reason: 'grant', afterLine: 0, uptoLine: 2, messages: [], open: [] },
    ]);
  });

  test('dev mentions pm, and so hands over to pm', () => {
    play.says('dev', 'done, @pm please check', ['pm']);
    play.completes('dev');
    expect(play.holder).toBe('pm #3');
  });

  test('pm passes: nothing is posted or announced, and qa has the floor', () => {
    const pass = play.passes('pm');
    expect(effectsOf('post', pass)).toEqual([]);
    expect(effectsOf('announce', pass)).toEqual([]);
    expect(factsOf('turnEnded', pass)).toMatchObject([{ agent: 'pm', epoch: 3, outcome: 'passed' }]);
    expect(play.holder).toBe('qa #4');
  });

  test('when qa is done everyone had a turn: the floor rests, all QUEUED, nobody ACTIVE', () => {
    play.speaks('qa');
    expect(play.floor.condition).toBe('resting');
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(play.holder).toBeNull();
    expect(play.announced).toEqual([]);
  });

  test('each state change of pm is one record, in the words of the table', () => {
    expect(play.moves('pm').slice(2)).toEqual([
      'pm QUEUED>ACTIVE TURN_GRANTED',
      'pm ACTIVE>QUEUED TURN_COMPLETE',
      'pm QUEUED>ACTIVE TURN_GRANTED',
      'pm ACTIVE>QUEUED TURN_COMPLETE',
    ]);
  });

  test('pm is not given the same lines twice', () => {
    const third = play.effects.flatMap((effect) => (effect.type === 'prompt' && effect.epoch === 3 ? [effect] : []));
    expect(third).toMatchObject([{ agent: 'pm', uptoLine: 3, messages: [] }]);
    expect(third[0]?.afterLine).toBeGreaterThanOrEqual(1);
  });
});

describe('example B: inject', () => {
  test('m2 is delivered to dev, and marked done when the turn ends', () => {
    const play = second();
    expect(effectsOf('inject', play.person('m2'))).toMatchObject([{ agent: 'dev', epoch: 2, message: 'm2' }]);
    expect(play.receipts('m2')).toEqual(['injected']);
    play.reports('dev', 'm2', 'injected');
    play.speaks('dev');
    expect(play.receipts('m2')).toEqual(['injected', 'done']);
  });

  test('a message that dev has not seen continues the same turn, at most three times', () => {
    const play = second();
    for (const id of ['a', 'b', 'c']) {
      play.person(id);
      play.reports('dev', id, 'next-prompt');
      play.speaks('dev');
      expect(play.holder).toBe('dev #2');
    }
    play.person('d');
    play.reports('dev', 'd', 'next-prompt');
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', epoch: 3, messages: ['d'] }]);
  });

  test('while dev waits for an answer, a message to another agent waits for dev’s next prompt', () => {
    const play = second();
    play.waits('dev');
    play.person('m2', 'qa');
    expect(play.status('dev')).toBe('WAITING');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'prompt' });
    const answer = play.person('m3', 'dev');
    const [prompt] = effectsOf('prompt', answer);
    expect(prompt).toMatchObject({ agent: 'dev', reason: 'resume' });
    expect(prompt?.messages.toSorted()).toEqual(['m2', 'm3']);
    expect(play.fate('m2')).toMatchObject({ state: 'delivered', to: ['dev'] });
  });
});

describe('example C: queue', () => {
  test('m2 and m3 are held and released with the next grant, and the exchange starts again', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.person('m3');
    expect([...play.receipts('m2'), ...play.receipts('m3')]).toEqual(['held', 'held']);
    const end = play.speaks('dev');
    expect(effectsOf('prompt', end)).toMatchObject([{ agent: 'qa', epoch: 3, messages: ['m2', 'm3'] }]);
    play.speaks('qa');
    play.speaks('pm');
    play.speaks('dev');
    expect(play.floor.condition).toBe('resting');
    expect(play.moves('qa').filter((move) => move.endsWith('TURN_GRANTED'))).toHaveLength(1);
  });

  test('the next grant goes to the agent that the held messages address', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.person('m3', 'pm');
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'pm', messages: ['m2', 'm3'] }]);
  });

  test('a change of mode leaves m2 held until the turn ends, and m4 follows the new mode', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.operator({ type: 'mode', mode: 'inject' });
    play.person('m4');
    expect(play.fate('m4')).toEqual({ state: 'delivered', to: ['dev'], via: 'inject' });
    play.reports('dev', 'm4', 'injected');
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
  });

  test('held messages go to the next holder when dev is removed or crashes', () => {
    const removed = second({ mode: 'queue' });
    removed.person('m2');
    expect(effectsOf('prompt', removed.operator({ type: 'remove', agent: 'dev' }))).toMatchObject([
      { agent: 'qa', messages: ['m2'] },
    ]);
    const crashed = second({ mode: 'queue' });
    crashed.person('m2');
    expect(effectsOf('prompt', crashed.leaves('dev'))).toMatchObject([{ agent: 'qa', messages: ['m2'] }]);
  });

  test('held messages stay held on the resting floor after a stop', () => {
    const play = second({ mode: 'queue' });
    play.person('m2');
    play.operator({ type: 'stop' });
    expect(play.floor.held.map((held) => held.id)).toEqual(['m2']);
    expect(play.fate('m2')).toMatchObject({ state: 'held' });
    expect(play.floor.condition).toBe('resting');
  });
});

describe('example D: interrupt', () => {
  test('dev is preempted, and its later text with #2 is refused', () => {
    const play = second({ mode: 'interrupt' });
    const act = play.person('m2');
    expect(movesIn(act.facts)).toEqual(['dev ACTIVE>WAITING PREEMPTED']);
    expect(waitOf(play.floor.turn)?.reason).toBe('human');
    expect(effectsOf('interrupt', act)).toMatchObject([{ agent: 'dev', epoch: 2, graceMs: 5_000 }]);
    play.refused({ type: 'say', agent: 'dev', epoch: 2, text: 'too late', mentions: [] });
    play.stopsGenerating('dev');
    expect(play.refused({ type: 'say', agent: 'dev', epoch: 2, text: 'too late', mentions: [] })).toBe('stale-epoch');
  });

  test('m3 joins m2 when it arrives before dev has stopped', () => {
    const play = second({ mode: 'interrupt' });
    play.person('m2');
    const third = play.person('m3');
    expect(effectsOf('interrupt', third)).toEqual([]);
    expect(play.receipts('m3')).toEqual(['preempted']);
    const stopped = play.stopsGenerating('dev');
    expect(movesIn(stopped.facts)).toEqual(['dev WAITING>ACTIVE WAIT_RESOLVED']);
    expect(play.holder).toBe('dev #3');
    expect(effectsOf('prompt', stopped)).toMatchObject([
      { agent: 'dev', epoch: 3, reason: 'resume', messages: ['m2', 'm3'] },
    ]);
  });

  test('dev is stopped by force after the grace, and resumed', () => {
    const play = second({ mode: 'interrupt' });
    play.person('m2');
    play.later(5_000);
    expect(play.holder).toBe('dev #3');
    expect(play.refused({ type: 'interrupted', agent: 'dev', epoch: 2 })).toBe('stale-epoch');
  });

  test('a responder has the floor for one turn while dev waits, then dev continues', () => {
    const play = second({ mode: 'interrupt', interruptResponder: 'pm' });
    expect(play.floor.queue).toEqual(['qa', 'pm']);
    play.person('m2');
    play.stopsGenerating('dev');
    expect(play.holder).toBe('pm #3');
    expect(play.status('dev')).toBe('WAITING');
    const prompts = play.effects.filter((effect) => effect.type === 'prompt' && effect.epoch === 3);
    expect(prompts).toMatchObject([{ agent: 'pm', reason: 'grant', messages: ['m2'] }]);
    const end = play.speaks('pm');
    expect(play.holder).toBe('dev #4');
    expect(play.floor.queue).toEqual(['qa', 'pm']);
    expect(effectsOf('prompt', end)).toMatchObject([{ agent: 'dev', epoch: 4, reason: 'resume' }]);
    expect(movesIn(end.facts)).toEqual(['pm ACTIVE>QUEUED TURN_COMPLETE', 'dev WAITING>ACTIVE WAIT_RESOLVED']);
    play.speaks('dev');
    expect(play.holder).toBe('qa #5');
  });

  test('a responder keeps its place in the queue', () => {
    const play = stage({ settings: { mode: 'interrupt', interruptResponder: 'dev' } });
    play.person('m1');
    play.person('m2');
    play.stopsGenerating('pm');
    expect(play.holder).toBe('dev #2');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
    expect(play.floor.queue).toEqual(['dev', 'qa']);
  });

  test('the holder answers for a responder that is offline', () => {
    const play = second({ mode: 'interrupt', interruptResponder: 'pm' });
    play.leaves('pm');
    play.person('m2');
    play.stopsGenerating('dev');
    expect(play.holder).toBe('dev #3');
    expect(effectsOf('prompt', play.last)).toMatchObject([{ agent: 'dev', messages: ['m2'] }]);
  });

  test('a responder that itself holds the floor answers by itself', () => {
    const play = second({ mode: 'interrupt', interruptResponder: 'dev' });
    play.person('m2');
    play.stopsGenerating('dev');
    expect(play.holder).toBe('dev #3');
  });

  test('a responder that crashes gives the floor back to dev', () => {
    const play = second({ mode: 'interrupt', interruptResponder: 'pm' });
    play.person('m2');
    play.stopsGenerating('dev');
    play.leaves('pm');
    expect(play.holder).toBe('dev #4');
  });

  test('with nobody ACTIVE it behaves like inject', () => {
    const resting = stage({ settings: { mode: 'interrupt' } });
    expect(effectsOf('prompt', resting.person('m1'))).toMatchObject([{ agent: 'pm', messages: ['m1'] }]);
    const waiting = second({ mode: 'interrupt' });
    waiting.waits('dev');
    const answer = waiting.person('m2');
    expect(effectsOf('interrupt', answer)).toEqual([]);
    expect(effectsOf('prompt', answer)).toMatchObject([{ agent: 'dev', messages: ['m2'] }]);
  });
});

describe('example E: parallel', () => {
  test('every online seat has m2 as observed, the turn and the order are untouched', () => {
    const play = second({ mode: 'parallel' });
    const { turn, queue } = play.floor;
    const shown = play
      .person('m2')
      .effects.flatMap((effect) => (effect.type === 'inject' || effect.type === 'observe' ? [effect.agent] : []));
    expect(shown).toEqual(['pm', 'dev', 'qa']);
    expect(play.receipts('m2')).toEqual(['observed']);
    expect(play.floor.turn).toEqual(turn);
    expect(play.floor.queue).toEqual(queue);
    play.speaks('dev');
    play.speaks('qa');
    expect(play.floor.condition).toBe('resting');
  });

  test('the count since the last human message starts again', () => {
    const play = second({ mode: 'parallel', rounds: 0, maxTurns: 3 });
    play.speaks('dev');
    play.person('m2');
    play.speaks('qa');
    play.speaks('pm');
    expect(play.floor.condition).toBe('open');
  });

  test('an agent addressed in m2 goes to the head of the queue, not to the floor', () => {
    const play = second({ mode: 'parallel' });
    play.person('m2', 'pm');
    expect(play.holder).toBe('dev #2');
    play.speaks('dev');
    expect(play.holder).toBe('pm #3');
    play.speaks('pm');
    expect(play.holder).toBe('qa #4');
  });

  test('an agent that observed a message is not given it again as one to answer', () => {
    const play = second({ mode: 'parallel' });
    play.person('m2');
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'qa', messages: [] }]);
  });
});

describe('example F: wait_for', () => {
  /** dev has asked "Postgres or SQLite?" and waits. */
  function asking(settings = {}): Stage {
    const play = second(settings);
    play.says('dev', 'Postgres or SQLite?');
    play.waits('dev');
    return play;
  }

  test('the question is posted and dev waits for 600 s with the floor', () => {
    const play = second();
    expect(effectsOf('post', play.says('dev', 'Postgres or SQLite?'))).toMatchObject([{ agent: 'dev', epoch: 2 }]);
    expect(movesIn(play.waits('dev').facts)).toEqual(['dev ACTIVE>WAITING WAIT_REQUESTED']);
    expect(play.floor.turn).toMatchObject({ agent: 'dev', wait: { reason: 'answer', deadlineAt: play.at + 600_000 } });
    expect(nextDeadline(play.floor)).toBe(play.at + 600_000);
    expect(play.holder).toBeNull();
  });

  test.each([
    ['replies to it or mentions dev', ['dev']],
    ['writes anything that addresses nobody', []],
  ])('when a person %s, dev goes on with the answer', (_, addressed) => {
    const play = asking();
    const answer = play.person('m2', ...addressed);
    expect(movesIn(answer.facts)).toEqual(['dev WAITING>ACTIVE WAIT_RESOLVED']);
    expect(play.holder?.startsWith('dev')).toBe(true);
    expect(effectsOf('prompt', answer)).toMatchObject([{ agent: 'dev', reason: 'resume', messages: ['m2'] }]);
    expect(play.fate('m2')).toMatchObject({ state: 'delivered', to: ['dev'] });
    play.speaks('dev');
    expect(play.holder?.startsWith('qa')).toBe(true);
  });

  test('a text without addressee is no answer while two agents wait', () => {
    const play = asking({ waitPolicy: 'release' });
    play.waits('qa');
    play.person('m2');
    expect([play.status('dev'), play.status('qa')]).toEqual(['WAITING', 'WAITING']);
    expect(play.holder?.startsWith('pm')).toBe(true);
    play.person('m3', 'qa');
    play.speaks('pm');
    expect(play.status('dev')).toBe('WAITING');
    expect(play.holder?.startsWith('qa')).toBe(true);
  });

  test('a text to somebody else is no answer', () => {
    const play = asking();
    play.person('m2', 'qa');
    expect(play.status('dev')).toBe('WAITING');
    expect(play.holder).toBeNull();
  });

  test('after its time limit dev is QUEUED, people are told and qa has the floor', () => {
    const play = asking();
    const over = play.later(600_000);
    expect(movesIn(over.facts)).toEqual(['dev WAITING>QUEUED WAIT_TIMEOUT', 'qa QUEUED>ACTIVE TURN_GRANTED']);
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'waitTimeout', agent: 'dev' }]);
    expect(factsOf('turnEnded', over)).toMatchObject([{ agent: 'dev', epoch: 2, outcome: 'expired' }]);
  });

  test('with waitPolicy release the others have turns, and dev continues when the floor is free', () => {
    const play = asking({ waitPolicy: 'release' });
    expect(play.holder).toBe('qa #3');
    expect(play.status('dev')).toBe('WAITING');
    play.person('m2', 'dev');
    expect(play.holder).toBe('qa #3');
    const end = play.speaks('qa');
    expect(play.holder?.startsWith('dev')).toBe(true);
    expect(effectsOf('prompt', end)).toMatchObject([{ agent: 'dev', reason: 'resume', messages: ['m2'] }]);
  });

  test('with waitPolicy release an answer on a free floor resumes dev at once', () => {
    const play = asking({ waitPolicy: 'release' });
    play.speaks('qa');
    expect(play.holder).toBeNull();
    play.person('m2', 'dev');
    expect(play.holder?.startsWith('dev')).toBe(true);
  });

  test('with waitPolicy release an answer on a resting floor opens an exchange, in which dev can hand over', () => {
    const play = asking({ waitPolicy: 'release' });
    play.speaks('qa');
    play.person('m2', 'dev');
    expect(play.floor.condition).toBe('open');
    play.speaks('dev', 'qa');
    expect(play.holder?.startsWith('qa')).toBe(true);
  });

  test('with waitPolicy release an answered wait does not time out while another agent speaks', () => {
    const play = asking({ waitPolicy: 'release' });
    play.works('qa', 1);
    play.later(599_999);
    play.person('m2', 'dev');
    const over = play.later(1);
    expect(announcementsIn(over.effects)).toEqual([]);
    expect(play.status('dev')).toBe('WAITING');
    play.speaks('qa');
    expect(play.holder?.startsWith('dev')).toBe(true);
  });

  test('with waitPolicy release the wait times out while another agent speaks', () => {
    const play = asking({ waitPolicy: 'release' });
    play.works('qa', 1);
    play.later(599_999);
    expect(play.status('dev')).toBe('WAITING');
    const over = play.later(1);
    expect(movesIn(over.facts)).toEqual(['dev WAITING>QUEUED WAIT_TIMEOUT']);
    expect(announcementsIn(over.effects)).toEqual([{ kind: 'waitTimeout', agent: 'dev' }]);
    expect(play.holder).toBe('qa #3');
  });

  test('a wait for approval is not resolved by messages', () => {
    const play = second();
    play.act({ type: 'request', agent: 'dev', epoch: 2, approval: { title: 'ls', detail: 'ls' } });
    play.person('m2', 'dev');
    expect(play.status('dev')).toBe('WAITING');
  });
});
