import { describe, expect, test } from 'vitest';
import type { CommandOf } from '../../../src/turns/floor/command.ts';
import { openQuestion, waitOf } from '../../../src/turns/floor/seats.ts';
import type { FloorSettings } from '../../../src/turns/floor/settings.ts';
import { factsOf, stage } from './stage.ts';
import type { Act, Stage } from './stage.ts';

type Approval = CommandOf<'request'>['approval'];

const APPROVAL = { title: 'run the tests', detail: 'npm test' };
const DANGER = { title: 'clean up', detail: 'rm -rf build' };

/** pm holds the floor as #1 and waits for approval. The channel shows it as question 1. */
function asking(settings: Partial<FloorSettings> = {}): Stage {
  const play = stage({ agents: ['pm', 'dev'], settings });
  play.person('m1');
  asks(play);
  return play;
}

function asks(play: Stage, approval: Approval = APPROVAL): void {
  play.act({ type: 'request', agent: 'pm', epoch: 1, approval });
  play.act({ type: 'shown', question: play.floor.questions });
}

const allow = (play: Stage, question: number): Act => play.operator({ type: 'decide', choice: 'allow', question });
const reject = (play: Stage, question: number): Act => play.operator({ type: 'decide', choice: 'reject', question });
const late = (play: Stage, question: number) => play.refused({ type: 'decide', by: 'bob', choice: 'allow', question });

describe('a holder that waits for approval', () => {
  test('waits for approval, keeps the floor and is announced', () => {
    const play = stage({ agents: ['pm', 'dev'], settings: { waitPolicy: 'release' } });
    play.person('m1');
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
    expect(play.seats).toBe('pm WAITING, dev QUEUED');
    expect(waitOf(play.floor.turn)).toMatchObject({
      reason: 'approval',
      question: { ...APPROVAL, question: 1, shown: false },
    });
    expect(factsOf('announced', play.last).map((fact) => fact.announcement)).toEqual([
      { kind: 'approval', agent: 'pm', question: 1, ...APPROVAL, until: waitOf(play.floor.turn)?.deadlineAt },
    ]);
  });

  test('continues under the same epoch when an operator allows the request', () => {
    const play = asking();
    expect(factsOf('questionClosed', allow(play, 1))).toMatchObject([{ epoch: 1, question: 1, choice: 'allow' }]);
    expect(play.last.effects.map(({ type }) => type)).toEqual(['announce']);
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
    play.speaks('pm');
    expect(play.holder).toBe('dev #2');
  });

  test('cannot be resumed by a grant without an answer', () => {
    expect(asking().refused({ type: 'grant', by: 'ada', agent: 'pm' })).toBe('needs-decision');
  });

  test('gets messages of that time injected after the answer', () => {
    const play = asking();
    play.person('m2');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'prompt' });
    const { effects } = allow(play, 1);
    expect(effects).toContainEqual({ type: 'inject', agent: 'pm', epoch: 1, message: 'm2', observed: false });
  });

  test('forfeits its turn when nobody answers in time, and its generation is stopped', () => {
    const play = asking();
    const { effects } = play.later(600_000);
    expect(play.holder).toBe('dev #2');
    expect(effects).toContainEqual({ type: 'interrupt', agent: 'pm', epoch: 1, graceMs: 5_000 });
  });

  test('is prompted again with a new epoch after a restart', () => {
    const play = asking();
    play.act({ type: 'restart' });
    play.act({ type: 'catchUp' });
    play.joins('dev');
    play.joins('pm');
    expect(play.holder).toBe('pm #2');
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
  });
});

describe('T7 an answer', () => {
  test('W: to the previous question, about another command of the same turn, changes nothing', () => {
    const play = asking();
    play.act({ type: 'withdraw', agent: 'pm', epoch: 1 });
    asks(play, DANGER);
    expect(late(play, 1)).toBe('stale-question');
    expect(play.seats).toBe('pm WAITING, dev QUEUED');
    expect(factsOf('questionClosed', allow(play, 2))).toMatchObject([{ question: 2, choice: 'allow' }]);
  });

  test('counts once: a double click and a second operator are refused, even if another question is open', () => {
    const play = asking();
    reject(play, 1);
    expect(late(play, 1)).toBe('stale-question');
    asks(play, DANGER);
    expect(late(play, 1)).toBe('stale-question');
    expect(openQuestion(play.floor)).toMatchObject({ question: 2, ...DANGER });
  });

  test('to a question that does not exist yet is refused', () => {
    expect(late(asking(), 2)).toBe('stale-question');
  });

  test('after the turn is refused', () => {
    const play = asking();
    play.operator({ type: 'skip' });
    expect(late(play, 1)).toBe('stale-question');
  });

  test('is announced as no longer needed after a restart, unless its question survives the restart', () => {
    const told = (approval: Approval) => {
      const play = stage({ agents: ['pm'] });
      play.person('m1');
      asks(play, approval);
      return factsOf('announced', play.act({ type: 'restart' })).map((fact) => fact.announcement);
    };
    expect(told(APPROVAL)).toMatchObject([{ kind: 'answered', agent: 'pm', question: 1, choice: null, by: null }]);
    expect(told({ ...APPROVAL, lasting: true })).toEqual([]);
  });

  test('after a restart is refused, before and after the holder is back', () => {
    const play = asking();
    play.act({ type: 'restart' });
    expect(late(play, 1)).toBe('stale-question');
    play.act({ type: 'catchUp' });
    play.joins('pm');
    play.act({ type: 'request', agent: 'pm', epoch: 2, approval: DANGER });
    play.act({ type: 'shown', question: 2 });
    expect(late(play, 1)).toBe('stale-question');
  });

  test('to a question from before a restored backup is refused: new questions get higher numbers', () => {
    const play = asking();
    reject(play, 1);
    play.act({ type: 'raiseEpoch', by: 1_000 });
    asks(play, DANGER);
    expect(late(play, 2)).toBe('stale-question');
    expect(openQuestion(play.floor)?.question).toBe(1_002);
  });
});

describe('T7 a question that its agent withdraws', () => {
  test('is closed, and the turn continues', () => {
    const play = asking();
    play.person('m2');
    const { effects } = play.act({ type: 'withdraw', agent: 'pm', epoch: 1 });
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
    expect(effects).toContainEqual({ type: 'inject', agent: 'pm', epoch: 1, message: 'm2', observed: false });
    expect(factsOf('questionClosed', play.last)).toMatchObject([{ question: 1, choice: null }]);
    play.speaks('pm');
  });

  test('must be of the same agent and turn, and is withdrawn once', () => {
    const play = asking();
    const withdraw = { type: 'withdraw', agent: 'pm', epoch: 1 } as const;
    expect(play.refused({ ...withdraw, epoch: 2 })).toBe('stale-epoch');
    expect(play.refused({ ...withdraw, agent: 'dev' })).toBe('not-holder');
    reject(play, 1);
    expect(play.refused(withdraw)).toBe('stale-question');
  });
});

describe('T53 an approval', () => {
  test('is refused before the channel shows the question; a denial is not', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    const { effects } = play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
    expect(effects.map(({ type }) => type)).toEqual(['announce', 'offer']);
    expect(late(play, 1)).toBe('not-shown');
    expect(factsOf('questionClosed', reject(play, 1))).toMatchObject([{ choice: 'reject' }]);
    expect(play.refused({ type: 'shown', question: 1 })).toBe('stale-question');
  });

  test('is impossible when the platform never shows the question: it counts as denied, and its post says so', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
    play.act({ type: 'shown', question: 1, why: 'Missing Access' });
    expect(factsOf('questionClosed', play.last)).toMatchObject([{ epoch: 1, question: 1, choice: 'reject' }]);
    expect(factsOf('announced', play.last)).toMatchObject([
      {
        key: 'approval:1',
        repeat: 2,
        announcement: { kind: 'answered', agent: 'pm', choice: 'reject', by: null, reason: 'Missing Access' },
      },
    ]);
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
  });

  test('is impossible when nobody can be asked, because the text was not stored', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL, unaskable: 'too long' });
    const { facts, effects } = play.last;
    expect(effects.map(({ type }) => type)).toEqual(['announce']);
    expect(factsOf('questionClosed', play.last)).toMatchObject([{ question: 1, choice: 'reject', by: null }]);
    expect(JSON.stringify(facts)).not.toContain('npm test');
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
  });

  test('has a new announcement for each of two questions in a row, none an edit of the other', () => {
    const play = asking();
    reject(play, 1);
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: DANGER });
    expect(factsOf('announced', play.last)).toMatchObject([{ key: 'approval:2', repeat: 1 }]);
  });
});

describe('T46 an answer', () => {
  const notices = (play: Stage) => play.last.effects.filter((effect) => effect.type === 'announce');
  const ran = {
    type: 'ran',
    agent: 'pm',
    approval: 'run 1.1',
    callOutcome: { status: 'complete', ms: 2_100 },
  } as const;

  /** pm requests approval for a call of its run. */
  function calling(): Stage {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    play.act({ type: 'request', agent: 'pm', epoch: 1, approval: { ...APPROVAL, id: 'run 1.1' } });
    play.act({ type: 'shown', question: 1 });
    return play;
  }

  test('replaces the question, with the name of the person who gave it', () => {
    const play = calling();
    play.operator({ type: 'decide', choice: 'allow', question: 1, name: 'Ada' });
    const answer = { kind: 'answered', question: 1, title: 'run the tests', choice: 'allow', by: 'Ada' };
    expect(notices(play)).toMatchObject([{ key: 'approval:1', repeat: 2, announcement: answer }]);
    expect(play.floor.notice?.count).toBe(1);
  });

  test("shows the call's outcome once it is known, and not before", () => {
    const play = calling();
    expect(play.refused(ran)).toBe('stale-question');
    play.operator({ type: 'decide', choice: 'allow', question: 1, name: 'Ada' });
    expect(play.refused({ ...ran, approval: 'run 1.2' })).toBe('stale-question');
    play.act(ran);
    expect(notices(play)).toMatchObject([
      { key: 'approval:1', repeat: 2, announcement: { by: 'Ada', callOutcome: ran.callOutcome } },
    ]);
    expect(play.refused(ran)).toBe('stale-question');
  });

  test('is shown as no longer needed when the turn ends or the agent withdraws the request', () => {
    const skipped = calling();
    skipped.operator({ type: 'skip' });
    expect(notices(skipped)).toContainEqual(
      expect.objectContaining({ key: 'approval:1', announcement: expect.objectContaining({ choice: null, by: null }) }),
    );
    const withdrawn = calling();
    withdrawn.act({ type: 'withdraw', agent: 'pm', epoch: 1 });
    expect(notices(withdrawn)).toMatchObject([{ announcement: { kind: 'answered', choice: null } }]);
  });
});

describe('a form of a tool server', () => {
  const about = { step: 1, steps: 2, tool: 'login', call: 'sign in at x', folder: null, why: 'w', says: null } as const;

  test.each([
    ['the turn ends', (play: Stage) => play.operator({ type: 'skip' })],
    ['the agent withdraws it', (play: Stage) => play.act({ type: 'withdraw', agent: 'pm', epoch: 1 })],
  ])('is no longer needed, in the same words, when %s', (_when, ends) => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    asks(play, { ...APPROVAL, about: { ...about, answer: 'name=Ann' } });
    const told = factsOf('announced', ends(play)).map(({ announcement }) => announcement);
    expect(told).toContainEqual(expect.objectContaining({ kind: 'answered', title: 'sign in at x', inWords: true }));
  });
});

describe('two denied calls of an agent', () => {
  test('T56 have two announcements for different titles, and one for the same title', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    for (const title of ['git push', 'rm -rf /', 'rm -rf /'])
      play.act({ type: 'forbidden', agent: 'pm', title, why: 'no rule covers it' });
    const told = play.journal.flatMap(({ fact }) => (fact.type === 'announced' ? [fact.repeat] : []));
    expect(told).toEqual([1, 1, 2]);
  });
});

describe('a call that people allowed', () => {
  test('T58 is shown with its outcome when it ends, even after a later request was allowed', () => {
    const play = stage({ agents: ['pm', 'dev'] });
    play.person('m1');
    for (const question of [1, 2]) {
      play.act({ type: 'request', agent: 'pm', epoch: 1, approval: { ...APPROVAL, id: `run 1.${question}` } });
      play.act({ type: 'shown', question });
      play.operator({ type: 'decide', choice: 'allow', question, name: 'Ada' });
    }
    play.act({ type: 'ran', agent: 'pm', approval: 'run 1.1', callOutcome: { status: 'complete', ms: 2_100 } });
    expect(play.announced.at(-1)).toMatchObject({ question: 1, callOutcome: { status: 'complete' } });
    play.act({ type: 'ran', agent: 'pm', approval: 'run 1.2', callOutcome: { status: 'error', ms: 1 } });
    expect(play.announced.at(-1)).toMatchObject({ question: 2, callOutcome: { status: 'error' } });
  });
});
