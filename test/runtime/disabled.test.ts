import { expect, test } from 'vitest';
import type { AgentBackend } from '../../src/agents/backends/backend.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { startApp } from './start-app.ts';

const CHANNEL = 'console:demo';

test('T64 closes the session of an agent that an operator disables, and opens another when it is enabled', async () => {
  const time = createTime();
  const happened: string[] = [];
  const backend: AgentBackend = {
    kind: 'still',
    needsSignal: false,
    promisesToAsk: true,
    async open({ agent }) {
      happened.push(`${agent} opens`);
      return {
        prompt: () => new Promise(() => {}),
        inject: async () => 'next-prompt',
        interrupt: async () => {},
        ping: async () => {},
        close: async () => void happened.push(`${agent} closes`),
      };
    },
  };
  const store = openFloorStore({
    path: ':memory:',
    machine: floorWithWork,
    clock: time.clock,
    textLimit: () => 4_000,
    words: () => null,
  });
  const { app, intake } = await startApp({
    config: load({
      agents: ['pm', 'dev'].map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
      channels: [{ id: CHANNEL, agents: ['pm', 'dev'] }],
    }),
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
  });
  await time.advance(1_000);
  const type = async (line: string): Promise<string> => {
    const { text } = await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, line);
    await time.advance(1_000);
    return text;
  };
  const statusOf = (agent: string) => store.floors.state(CHANNEL)?.seats.find((seat) => seat.agent === agent)?.status;
  happened.length = 0;
  await type('/agent disable dev');
  expect([happened, statusOf('dev')]).toEqual([['dev closes'], 'OFFLINE']);
  expect(await type('/agent status dev')).toContain('disabled (until /agent enable)');
  expect(await type('/agent restart dev')).toContain('/agent enable dev');
  await time.advance(60_000);
  expect(happened).toEqual(['dev closes']);
  await type('/agent enable dev');
  expect([happened, statusOf('dev')]).toEqual([['dev closes', 'dev opens'], 'QUEUED']);
  await app.stop();
});
