import { expect, test } from 'vitest';
import type { TurnPrompt, Usage } from '../../src/agents/backends/backend.ts';
import { readLedger } from '../../src/engine/sqlite/ledger.ts';
import { CHANNEL, puppetry } from '../agents/bench.ts';
import type { Puppet } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, open, written } from '../engine/sqlite/fixture.ts';
import { verified } from '../../src/cli/database.ts';
import { startApp } from './start-app.ts';

const CONFIG = load({
  agents: ['pm', 'dev'].map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
  channels: [{ id: CHANNEL, agents: ['pm', 'dev'] }],
});

function used(tokens: number): Usage {
  const use = { backend: 'fake', model: 'm-1', input: tokens, output: 0, cached: null, ms: 40 } as const;
  return { tokens, costMicros: 2 * tokens, use: { ...use, source: 'computed', outcome: 'answered' } };
}

test('stores a model call, also after its run, with the person who asked and the run it belongs to', async () => {
  using place = folder();
  const { backend, sessions } = puppetry();
  const time = createTime();
  const store = open(place.file(), { clock: time.clock });
  const { app, intake, broken } = await startApp({
    config: CONFIG,
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
  });
  await time.advance(1_000);
  /** Waits for a session with such a turn: a database on disk answers later. */
  const atWork = async (is: (turn: TurnPrompt) => boolean): Promise<Puppet> => {
    for (;;) {
      const found = sessions.findLast(({ turn }) => turn !== null && is(turn));
      if (found !== undefined) return found;
      await time.advance(10);
      await new Promise((resolve) => void setImmediate(resolve));
    }
  };
  const speaking = (epoch: number): Promise<Puppet> =>
    atWork((turn) => turn.epoch === epoch && turn.channel === CHANNEL);
  await intake().message(written('m1', 'build it', CHANNEL));
  const first = await speaking(1);
  first.report?.usage(used(100));
  await first.report?.gate.step({ text: '', checkpoint: null });
  first.report?.usage(used(200));
  first.ends({ how: 'completed' });
  (await speaking(2)).report?.usage(used(400));
  await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/run start dev look');
  const aside = await atWork(({ channel }) => channel !== CHANNEL);
  aside.report?.usage(used(800));
  aside.report?.text('Done.');
  aside.ends({ how: 'completed' });
  await time.advance(1_000);
  aside.report?.usage(used(1_600));
  await app.stop();
  const rows = readLedger(place.file(), 0);
  expect(rows.map(({ agent, epoch, requestedBy, run, tokens }) => [agent, epoch, requestedBy, run, tokens])).toEqual([
    ['pm', 1, 'u1', null, 100],
    ['pm', 1, 'u1', `${CHANNEL} pm#1`, 200],
    ['dev', 2, 'u1', null, 400],
    ['dev', null, 'ada', `${CHANNEL} dev+#1`, 800],
    ['dev', null, 'ada', `${CHANNEL} dev+#1`, 1_600],
  ]);
  expect(rows[0]).toMatchObject({ backend: 'fake', model: 'm-1', costMicros: 200, source: 'computed', ms: 40 });
  const told = verified(place.file(), { json: true, background: false });
  expect([told.text, broken]).toEqual(['{"problems":[]}', []]);
});
