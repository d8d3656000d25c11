import { describe, expect, test } from 'vitest';
import { requestersOf } from '../../src/turns/requesters.ts';
import { Bound, HALL, by } from '../work/runs/bound.ts';

/** Returns the ids of the people who requested the current turn of an agent. */
function requesters({ store, hall }: Bound, agent: string): readonly string[] {
  return requestersOf(hall, agent, {
    newest: () => store.floors.journal(HALL, 100).toReversed(),
    authorOf: (id) => store.message(id)?.author ?? null,
  }).map(({ id }) => id);
}

const ends = (agent: string, epoch: number, handTo?: string) =>
  ({ type: 'end', agent, epoch, outcome: 'completed', signalled: true, ...(handTo ? { handTo } : {}) }) as const;

/** A resting floor. dev is next. */
async function resting(): Promise<Bound> {
  const bound = await new Bound().granted();
  return bound.floor({ type: 'stop', by });
}

describe('the requesters of a turn', () => {
  test('are the author of the message that began it', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    expect(requesters(bound, 'dev')).toEqual(['bob']);
  });

  test('are all authors of its messages, injected ones included', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    await bound.hears('2', 'carol');
    expect(requesters(bound, 'dev')).toEqual(['bob', 'carol']);
  });

  test('are those of the turn that handed the floor over', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    await bound.floor(ends('dev', 2, 'pm'));
    expect([bound.hall.turn?.agent, requesters(bound, 'pm')]).toEqual(['pm', ['bob']]);
  });

  test('include the authors of messages that were injected into the turn that handed over', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    await bound.hears('2', 'carol');
    await bound.floor({ type: 'injected', agent: 'dev', epoch: 2, id: '2', outcome: 'injected' }, ends('dev', 2, 'pm'));
    expect(requesters(bound, 'pm')).toEqual(['bob', 'carol']);
  });

  test('include those of a turn that continued with another message before it handed over', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    await bound.hears('2', 'carol');
    await bound.floor(
      { type: 'injected', agent: 'dev', epoch: 2, id: '2', outcome: 'next-prompt' },
      { type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: false },
      ends('dev', 2, 'pm'),
    );
    expect([bound.hall.turn?.agent, requesters(bound, 'pm')]).toEqual(['pm', ['bob', 'carol']]);
  });

  test('remain those of the turn that handed over when somebody else writes during the turn', async () => {
    const bound = await (await resting()).hears('1', 'bob');
    await bound.floor(ends('dev', 2, 'pm'));
    await bound.hears('2', 'carol');
    expect(requesters(bound, 'pm')).toEqual(['bob', 'carol']);
  });

  test('are empty when an operator granted the turn', async () => {
    expect(requesters(await new Bound().granted(), 'pm')).toEqual([]);
    const bound = await (await resting()).hears('1', 'bob');
    await bound.floor({ type: 'grant', by, agent: 'pm' }, ends('dev', 2));
    expect([bound.hall.turn?.agent, requesters(bound, 'pm')]).toEqual(['pm', []]);
  });

  test('are one unknown person when no record is left', () => {
    expect(requestersOf(null, 'pm', { newest: () => [], authorOf: () => null })).toMatchObject([{ id: '' }]);
  });
});
