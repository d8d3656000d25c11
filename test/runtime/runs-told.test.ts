import { expect, test } from 'vitest';
import { floorWithRuns, runKeyOf, runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import { TurnManager } from '../../src/turns/manager.ts';
import { createTime } from '../agents/time.ts';
import { seatOf } from '../turns/floor/stage.ts';
import { call } from '../work/runs/fixture.ts';

const HALL = 'console:hall';

test('what a run does to its floor is told like any change of it, and its deadline is met', async () => {
  const time = createTime();
  const { clock } = time;
  const store = openFloorStore({
    path: ':memory:',
    clock,
    machine: floorWithRuns,
    textLimit: () => 4_000,
    words: () => null,
  });
  const runs = store.host(runOnFloor);
  const told: string[] = [];
  const manager = new TurnManager({
    store,
    ...time,
    addressed: () => [],
    takeDraft: () => null,
    changed: ({ facts }) => void told.push(...facts.map(({ type }) => type)),
    failed: (error) => {
      throw error;
    },
  });
  await manager.apply(HALL, {
    type: 'configure',
    settings: PLAIN_SETTINGS,
    seats: ['pm', 'dev'].map((id) => seatOf(id)),
  });
  for (const agent of ['pm', 'dev']) await manager.apply(HALL, { type: 'join', agent });
  await manager.apply(HALL, { type: 'start', by: 'ann' });
  await manager.apply(HALL, { type: 'use', agent: 'pm', epoch: 1 });
  told.length = 0;
  const asked = { ...call('a'), source: 'agent', verdict: 'ask' } as const;
  await runs.apply(
    runKeyOf({ channel: HALL, agent: 'pm' }),
    { type: 'REQUEST', session: '1', call: asked },
    clock.now(),
  );
  expect(told).toEqual(['turnWaited', 'seatMoved', 'announced']);
  await time.advance(PLAIN_SETTINGS.waitTimeoutMs);
  expect([store.floor(HALL)?.turn?.agent, runs.state(runKeyOf({ channel: HALL, agent: 'pm' }))?.status]).toEqual([
    'dev',
    'idle',
  ]);
  manager.stop();
  await store.close();
});
