import { expect, test } from 'vitest';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { runKeyOf, runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import { TurnManager } from '../../src/turns/manager.ts';
import { createTime } from '../agents/time.ts';
import { seatOf } from '../turns/floor/stage.ts';
import { viewOf } from '../../src/turns/view.ts';
import { createRunCommands } from '../../src/work/runs/run-commands.ts';
import { call } from '../work/runs/fixture.ts';

const HALL = 'console:hall';
const OLA = { id: 'u7', name: 'Ola', roles: [] };

test('reports the changes that a request of a run makes to the floor, and ends its turn at the deadline', async () => {
  const time = createTime();
  const { clock } = time;
  const store = openFloorStore({
    path: ':memory:',
    clock,
    machine: floorWithWork,
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
    { type: 'REQUEST', session: '1', calls: [asked] },
    clock.now(),
  );
  expect(told).toEqual(['turnWaited', 'seatMoved', 'announced']);
  await time.advance(PLAIN_SETTINGS.waitTimeoutMs);
  expect([store.floors.state(HALL)?.turn?.agent, runs.state(runKeyOf({ channel: HALL, agent: 'pm' }))?.status]).toEqual(
    ['dev', 'idle'],
  );
  manager.stop();
  await store.close();
});

test.each(['abort', 'complete'] as const)('keeps the displayed text when /run %s ends its turn', async (verb) => {
  const time = createTime();
  const { clock } = time;
  const store = openFloorStore({
    path: ':memory:',
    clock,
    machine: floorWithWork,
    textLimit: () => 4_000,
    words: () => null,
  });
  const runs = store.host(runOnFloor);
  const told: string[] = [];
  const drafts = [{ agent: 'pm', epoch: 1, text: 'The tide', mentions: [], workedAt: clock.now() }];
  const manager = new TurnManager({
    store,
    ...time,
    addressed: () => [],
    takeDraft: () => drafts.shift() ?? null,
    changed: ({ facts }) => {
      for (const fact of facts)
        if (fact.type === 'said') told.push(fact.text);
        else if (fact.type === 'turnEnded') told.push(fact.outcome);
    },
    failed: (error) => {
      throw error;
    },
  });
  const seats = ['pm', 'dev'].map((id) => seatOf(id));
  await manager.apply(HALL, { type: 'configure', settings: PLAIN_SETTINGS, seats });
  for (const agent of ['pm', 'dev']) await manager.apply(HALL, { type: 'join', agent });
  await manager.apply(HALL, { type: 'start', by: 'ann' });
  const commands = createRunCommands({
    runs,
    floors: {
      apply: (channel, command) => manager.apply(channel, command),
      keep: (channel, agent, by, completes) => manager.keep(channel, agent, by, completes),
      view: () => viewOf(store.floors.state(HALL)!, clock.now(), store.id),
      turns: () => [],
    },
    clock,
    nameOf: (id) => id,
    closed: () => null,
    approvers: () => null,
    settable: () => ({ backend: 'llm', options: ['model', 'steps', 'tools'] }),
    readTools: (text) => ({ ok: true, rules: [text] }),
    requesters: () => [],
    written: () => '',
    work: () => ({ steps: undefined, waitMs: 0 }),
  });
  const end = () => commands.run(verb, 'pm', { channel: HALL, person: OLA, values: { agent: 'pm' } });
  expect(await end()).toMatchObject({ ok: false });
  expect([told, drafts.length]).toEqual([[], 1]);
  await manager.apply(HALL, { type: 'use', agent: 'pm', epoch: 1 });
  expect(await end()).toMatchObject({ ok: true });
  expect(told).toEqual(verb === 'complete' ? ['The tide', 'completed'] : ['The tide … (cut off)', 'revoked']);
  const ended = [...runs.newest(`${HALL} pm`)].map(({ fact }) => fact)[0];
  // T62: the text that the turn had written is the result of its run.
  expect(ended).toMatchObject(verb === 'complete' ? { type: 'runCompleted', result: 'The tide' } : { type: 'aborted' });
  manager.stop();
  await store.close();
});
