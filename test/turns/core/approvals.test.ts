import { describe, expect, test } from 'vitest';
import type { FloorSettings } from '../../../src/turns/core/settings.ts';
import { factsOf, stage } from './stage.ts';
import type { Stage } from './stage.ts';

const APPROVAL = { title: 'run the tests', detail: 'npm test', choices: ['allow_once', 'reject_once'] } as const;

/** pm holds the floor as #1 and asks for a yes. */
function asking(settings: Partial<FloorSettings> = {}): Stage {
  const play = stage({ agents: ['pm', 'dev'], settings });
  play.person('m1');
  play.act({ type: 'request', agent: 'pm', epoch: 1, approval: APPROVAL });
  return play;
}

describe('a holder that asks for a yes', () => {
  test('waits for approval, keeps the floor and is announced', () => {
    const play = asking({ waitPolicy: 'release' });
    expect(play.seats).toBe('pm WAITING, dev QUEUED');
    expect(play.floor.turn?.wait).toMatchObject({ reason: 'approval', approval: APPROVAL });
    expect(factsOf('announced', play.last).map((fact) => fact.announcement)).toEqual([
      { kind: 'approval', agent: 'pm', title: 'run the tests', detail: 'npm test' },
    ]);
  });

  test('goes on under the same epoch when an operator allows it', () => {
    const play = asking();
    const { effects } = play.act({ type: 'decide', by: 'ada', choice: 'allow_once', epoch: 1 });
    expect(effects).toEqual([{ type: 'decision', agent: 'pm', epoch: 1, choice: 'allow_once' }]);
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
    play.speaks('pm');
    expect(play.holder).toBe('dev #2');
  });

  test('a wider yes than its protocol takes becomes the narrower one, and a no stays a no', () => {
    expect(asking().act({ type: 'decide', by: 'ada', choice: 'allow_always' }).effects).toMatchObject([
      { choice: 'allow_once' },
    ]);
    expect(asking().act({ type: 'decide', by: 'ada', choice: 'reject_always' }).effects).toMatchObject([
      { choice: 'reject_once' },
    ]);
  });

  test('an answer for another turn, a second one, and one that nobody waits for are refused', () => {
    const play = asking();
    expect(play.refused({ type: 'decide', by: 'ada', choice: 'allow_once', epoch: 7 })).toBe('stale-epoch');
    play.act({ type: 'decide', by: 'ada', choice: 'reject_once' });
    expect(play.refused({ type: 'decide', by: 'bob', choice: 'allow_once' })).toBe('nothing-to-decide');
  });

  test('cannot be resumed past the question by a grant', () => {
    expect(asking().refused({ type: 'grant', by: 'ada', agent: 'pm' })).toBe('needs-decision');
  });

  test('a message meanwhile is injected once the answer came', () => {
    const play = asking();
    play.person('m2');
    expect(play.fate('m2')).toEqual({ state: 'held', until: 'prompt' });
    const { effects } = play.act({ type: 'decide', by: 'ada', choice: 'allow_once' });
    expect(effects).toContainEqual({ type: 'inject', agent: 'pm', epoch: 1, message: 'm2', observed: false });
  });

  test('forfeits its turn when nobody answers in time, and its generation is stopped', () => {
    const play = asking();
    const { effects } = play.later(600_000);
    expect(play.holder).toBe('dev #2');
    expect(effects).toContainEqual({ type: 'interrupt', agent: 'pm', epoch: 1, graceMs: 5_000 });
  });

  test('is prompted anew, with a new epoch, after a restart', () => {
    const play = asking();
    play.act({ type: 'restart' });
    play.act({ type: 'catchUp' });
    play.joins('dev');
    play.joins('pm');
    expect(play.holder).toBe('pm #2');
    expect(play.seats).toBe('pm ACTIVE, dev QUEUED');
  });
});
