import { describe, expect, test } from 'vitest';
import { effectsOf, factsOf, stage } from './stage.ts';
import type { Act, Stage } from './stage.ts';
import type { FloorSettings } from '../../../src/turns/floor/settings.ts';

/** An agent asks another agent and waits for it. */
function asks(play: Stage, agent: string, of: string): Act {
  play.says(agent, `@${of}, does it pass?`, [of]);
  return play.act({ type: 'wait', agent, epoch: play.epochOf(agent), reason: 'answer', of });
}

/** dev (#2) works on m1, has asked qa and waits for the answer. */
function asked(settings: Partial<FloorSettings> = {}): Stage {
  const play = stage({ settings });
  play.person('m1');
  play.speaks('pm');
  asks(play, 'dev', 'qa');
  return play;
}

describe('an agent that asks another (example R)', () => {
  test('T15 waits, and the other agent gets the floor', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    const act = asks(play, 'dev', 'qa');
    expect(play.seats).toBe('pm QUEUED, dev WAITING, qa ACTIVE');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'qa', epoch: 3, reason: 'grant', askedBy: 'dev' }]);
  });

  test('T15 continues with any text of the other agent as the answer', () => {
    const play = asked();
    const act = play.speaks('qa');
    expect(play.seats).toBe('pm QUEUED, dev ACTIVE, qa QUEUED');
    expect(effectsOf('prompt', act)).toMatchObject([
      { agent: 'dev', epoch: 4, reason: 'resume', asked: { agent: 'qa', answered: true } },
    ]);
  });

  test.each<[string, (play: Stage) => Act]>([
    ['passes', (play) => play.passes('qa')],
    ['fails', (play) => play.leaves('qa')],
    ['times out', (play) => play.later(60_000)],
    ['is skipped', (play) => play.operator({ type: 'skip' })],
    ['is removed', (play) => play.operator({ type: 'remove', agent: 'qa' })],
  ])('T15 continues without an answer, and is told so, when the other agent %s', (_, ends) => {
    const play = asked();
    expect(effectsOf('prompt', ends(play))).toMatchObject([{ agent: 'dev', asked: { agent: 'qa', answered: false } }]);
    expect(play.holder).toBe('dev #4');
  });

  test('T15 costs the other agent neither its place nor its own turn', () => {
    const play = stage({ agents: ['pm', 'dev', 'ops', 'qa'] });
    play.person('m1');
    asks(play, 'pm', 'ops');
    play.speaks('ops');
    play.speaks('pm');
    expect(play.floor.queue).toEqual(['ops', 'qa', 'pm']);
    expect(play.holder).toBe('dev #4');
    play.speaks('dev');
    expect(play.holder).toBe('ops #5');
  });

  test.each(['mention', 'manual', 'priority'] as const)('T15 is answered in the order %s', (order) => {
    const play = stage({ settings: { order } });
    play.person('m1', 'dev');
    if (order === 'manual') play.operator({ type: 'grant', agent: 'dev' });
    asks(play, 'dev', 'qa');
    expect(play.holder).toBe('qa #2');
    play.speaks('qa');
    expect(play.holder).toBe('dev #3');
  });

  test('T15 lends the floor under each wait policy', () => {
    expect(asked({ waitPolicy: 'hold' }).holder).toBe('qa #3');
    expect(asked({ waitPolicy: 'release' }).holder).toBe('qa #3');
  });

  test.each([
    ['itself', 'dev', 'not-seated'],
    ['one that is not here', 'eve', 'not-seated'],
    ['one that is away', 'pm', 'offline'],
  ] as const)('T15 cannot ask %s', (_, of, refusal) => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    play.leaves('pm');
    expect(play.refused({ type: 'wait', agent: 'dev', epoch: 2, reason: 'answer', of })).toBe(refusal);
    expect(play.holder).toBe('dev #2');
  });

  test('T15 cannot be asked in return', () => {
    const play = asked();
    expect(play.refused({ type: 'wait', agent: 'qa', epoch: 3, reason: 'answer', of: 'dev' })).toBe('asks-back');
  });

  test('T15 can be part of a chain of five waiting agents, not six', () => {
    const play = stage({ agents: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] });
    play.person('m1');
    const chain = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const [place, agent] of chain.slice(0, -1).entries()) asks(play, agent, chain[place + 1] ?? '');
    expect(play.refused({ type: 'wait', agent: 'f', epoch: 6, reason: 'answer', of: 'g' })).toBe('asks-too-deep');
    for (const agent of ['f', 'e', 'd', 'c', 'b']) play.speaks(agent);
    expect(play.holder).toBe('a #11');
  });

  test('T15 uses two turns: the turn of the other agent and its own resumption', () => {
    const play = asked();
    expect(play.floor.usageSincePerson.turns).toBe(3);
    play.speaks('qa');
    expect(play.floor.usageSincePerson.turns).toBe(4);
  });

  test('T15 waits at the limit of turns, and is answered after a resume', () => {
    const play = asked({ maxTurns: 2 });
    expect(play.holder).toBeNull();
    expect(play.floor.limit?.budget).toBe('turns');
    expect(play.status('dev')).toBe('WAITING');
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('qa #3');
    play.speaks('qa');
    expect(play.holder).toBe('dev #4');
  });

  test('T15 goes on beyond the limit of turns when the other agent leaves, and the limit stays, announced once', () => {
    const play = asked({ maxTurns: 2 });
    play.leaves('qa');
    expect(play.holder).toBe('dev #3');
    expect(play.floor.limit?.budget).toBe('turns');
    play.speaks('dev', 'pm');
    expect(play.holder).toBeNull();
    expect(play.floor.limit?.budget).toBe('turns');
    expect(play.announced.filter(({ kind }) => kind === 'limit')).toHaveLength(1);
    play.operator({ type: 'resume' });
    expect(play.holder).toBe('pm #4');
  });

  test.each<[string, (play: Stage) => Act]>([
    ['a message', (play) => play.person('m2')],
    ['/floor resume', (play) => play.operator({ type: 'resume' })],
  ])('T15 ends the limit with %s while it goes on beyond the limit', (_, ends) => {
    const play = asked({ maxTurns: 2 });
    play.leaves('qa');
    ends(play);
    expect(play.floor.limit).toBeNull();
    expect(play.floor.usageSincePerson.turns).toBe(0);
    play.speaks('dev');
    if (play.holder === 'dev #3') play.speaks('dev');
    expect(play.holder?.startsWith('pm')).toBe(true);
  });

  test('T15 has its answer when the other agent answers an interrupting message for a third', () => {
    const play = asked({ maxTurns: 2, mode: 'interrupt', interruptResponder: 'qa' });
    play.operator({ type: 'grant', agent: 'pm' });
    play.person('m2');
    const act = play.stopsGenerating('pm');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'qa', askedBy: 'dev', messages: ['m2'] }]);
    const next = play.speaks('qa');
    expect(effectsOf('prompt', next)).toMatchObject([{ agent: 'dev', asked: { agent: 'qa', answered: true } }]);
    expect(effectsOf('prompt', play.speaks('dev'))).toMatchObject([{ agent: 'pm', reason: 'resume' }]);
    play.speaks('pm');
    expect(factsOf('turnGranted', { facts: play.journal.map(({ fact }) => fact), effects: [] })).toMatchObject([
      { agent: 'pm' },
      { agent: 'dev' },
      { agent: 'pm' },
      { agent: 'qa' },
    ]);
  });

  test('T15 stops waiting after the wait timeout when the other agent is never granted a turn', () => {
    const play = stage();
    play.person('m1');
    play.speaks('pm');
    play.operator({ type: 'pause' });
    asks(play, 'dev', 'qa');
    expect(play.holder).toBeNull();
    play.later(599_999);
    expect(play.status('dev')).toBe('WAITING');
    play.later(1);
    expect(play.moves('dev').at(-1)).toBe('dev WAITING>QUEUED WAIT_TIMEOUT');
  });

  test('T15 keeps waiting while the other agent works', () => {
    const play = asked({ waitTimeoutMs: 50_000 });
    play.later(55_000);
    expect(play.seats).toBe('pm QUEUED, dev WAITING, qa ACTIVE');
    play.speaks('qa');
    expect(play.holder).toBe('dev #4');
  });

  test("T15 does not get people's messages, which go to the holder", () => {
    const play = asked();
    play.person('m2');
    expect(play.fate('m2')).toEqual({ state: 'delivered', to: ['qa'], via: 'inject' });
    expect(play.holder).toBe('qa #3');
  });

  test.each([
    ['asks another agent', { of: 'qa' }],
    ['asks people and lends the floor', {}],
  ])('posts the reports of background runs when it %s', (_when, of) => {
    const play = stage({ settings: { waitPolicy: 'release' } });
    play.person('m1');
    play.act({ type: 'beginAside', agent: 'qa', run: 1, what: 'looks for dead links' });
    play.act({ type: 'endAside', agent: 'qa', what: 'is done', report: 'No dead links.' });
    const waits = play.act({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer', ...of });
    expect(factsOf('reported', waits)).toMatchObject([{ agent: 'qa', text: 'No dead links.' }]);
  });

  test('T15 gets the messages that address it when it continues', () => {
    const play = asked();
    play.person('m2', 'dev');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'prompt' });
    expect(effectsOf('prompt', play.speaks('qa'))).toMatchObject([
      { agent: 'dev', messages: expect.arrayContaining(['m2']) },
    ]);
  });

  test('T15 loses its turn with all others at a stop', () => {
    const play = asked();
    play.operator({ type: 'stop' });
    expect(play.seats).toBe('pm QUEUED, dev QUEUED, qa QUEUED');
    expect(play.floor.parked).toEqual([]);
  });

  test('T15 can be resumed by an operator without an answer', () => {
    const play = asked();
    play.operator({ type: 'grant', agent: 'dev' });
    play.speaks('qa');
    expect(play.holder).toBe('dev #4');
  });

  test('T15 gets its answer after a restart', () => {
    const play = asked();
    play.act({ type: 'restart' });
    for (const agent of ['pm', 'dev', 'qa']) play.joins(agent);
    play.catchesUp();
    expect(play.holder).toBe('qa #4');
    expect(effectsOf('prompt', play.speaks('qa'))).toMatchObject([{ agent: 'dev', asked: { answered: true } }]);
  });
});

describe('the feedback in the grant of a turn', () => {
  const feedback = { name: 'Ann', words: 'use b.txt' };

  test('is in the prompt again when the turn resumes after a wait', () => {
    const play = stage();
    play.operator({ type: 'grant', agent: 'dev', feedback });
    asks(play, 'dev', 'qa');
    const act = play.speaks('qa');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'dev', reason: 'resume', feedback }]);
  });

  test('is in the prompt again when the turn resumes after a restart', () => {
    const play = stage();
    play.operator({ type: 'grant', agent: 'dev', feedback });
    play.act({ type: 'restart' });
    play.act({ type: 'catchUp' });
    const act = play.joins('dev');
    expect(effectsOf('prompt', act)).toMatchObject([{ agent: 'dev', reason: 'resume', feedback }]);
  });
});
