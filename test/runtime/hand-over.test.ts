import { statSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { AgentBackend, AgentSession } from '../../src/agents/backends/backend.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, options } from '../engine/sqlite/fixture.ts';
import { watch } from '../engine/sqlite/watch.ts';
import { startApp } from './start-app.ts';

const AGENTS = ['pm', 'dev', 'qa'];

/** A backend whose agents answer every turn at once. */
const backend: AgentBackend = {
  kind: 'quick',
  needsSignal: false,
  promisesToAsk: true,
  async open(): Promise<AgentSession> {
    return {
      async prompt(turn, report) {
        report.text(`an answer in turn ${turn.epoch}`);
        return { how: 'completed' };
      },
      inject: async () => 'injected',
      interrupt: async () => {},
      ping: async () => {},
      close: async () => {},
    };
  },
};

/** Runs three agents in each channel until each channel had `turns` turns. `spent`: average costs of a hand-over. */
async function talk(path: string, { channels, turns }: { channels: number; turns: number }) {
  const ids = Array.from({ length: channels }, (_, index) => `console:c${index}`);
  const db = openDatabase(path);
  const { asked, plan } = watch(db);
  const disk = { syncs: 0 };
  const sync = (): null => {
    disk.syncs += 1;
    return null;
  };
  const time = createTime();
  const store = new FloorStore(db, options(path, { clock: time.clock, disk: { sync, close: () => undefined } }));
  const { app, intake, broken } = await startApp({
    config: load({
      agents: AGENTS.map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
      channels: ids.map((id) => ({ id, agents: AGENTS, rounds: 0, maxTurns: turns })),
    }),
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
  });
  await time.advance(2_000);
  const start = { commits: disk.syncs, bytes: statSync(`${path}-wal`).size, statements: total(asked) };
  await Promise.all(
    ids.map((channel, index) =>
      intake().message({
        id: `m${index}`,
        channel,
        author: { id: 'u1', name: 'Ada' },
        text: 'go on',
        sentAt: time.clock.now(),
        order: '1',
        addressed: [],
        attachments: [],
      }),
    ),
  );
  for (let waits = 0; waits < 40 * turns && ids.some((id) => store.floors.state(id)?.turn !== null); waits += 1)
    await time.settle();
  expect(ids.map((id) => store.floors.state(id)?.epoch)).toEqual(ids.map(() => turns));
  const handOvers = channels * turns;
  const spent = {
    commits: (disk.syncs - start.commits) / handOvers,
    bytes: (statSync(`${path}-wal`).size - start.bytes) / handOvers,
    statements: (total(asked) - start.statements) / handOvers,
  };
  const plans = [...asked.keys()].filter((sql) => !/^(?:BEGIN|COMMIT|ROLLBACK)/u.test(sql)).flatMap(plan);
  await app.stop();
  expect(broken).toEqual([]);
  return { spent, plans };
}

function total(asked: ReadonlyMap<string, number>): number {
  return [...asked.values()].reduce((sum, each) => sum + each, 0);
}

describe('a hand-over between healthy agents', () => {
  test('takes one commit of about five statements, BEGIN and COMMIT included', async () => {
    using place = folder();
    const { spent } = await talk(place.file(), { channels: 1, turns: 60 });
    expect(spent.commits).toBeLessThanOrEqual(1.02);
    expect(spent.statements).toBeLessThanOrEqual(5.35);
    expect(spent.bytes).toBeLessThanOrEqual(11_700);
  });

  test('shares its commit and its pages with hand-overs of other channels', async () => {
    using place = folder();
    const { spent } = await talk(place.file(), { channels: 100, turns: 5 });
    expect(spent.commits).toBeLessThanOrEqual(0.02);
    // Once in five hand-overs: two statements for the receipt of a person's message, three to read who asked for the turn.
    expect(spent.statements).toBeLessThanOrEqual(6.5);
    expect(spent.bytes).toBeLessThanOrEqual(1_650);
  });
});

/** Partial indexes: of messages that are not applied yet, and of deadlines. A scan of them reads no old rows. */
const OPEN = /USING INDEX (?:inbox_unapplied|machines_deadline)\b/u;

test('reads no whole table in any statement of the store', async () => {
  using place = folder();
  const { plans } = await talk(place.file(), { channels: 2, turns: 5 });
  expect(plans.length).toBeGreaterThan(20);
  expect(plans.filter((step) => step.startsWith('SCAN') && !OPEN.test(step))).toEqual([]);
});
