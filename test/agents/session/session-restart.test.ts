import { expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import { load } from '../../config/world.ts';
import { folder, open } from '../../engine/sqlite/fixture.ts';
import { startApp } from '../../runtime/start-app.ts';
import { CHANNEL, puppetry } from '../bench.ts';
import { createTime } from '../time.ts';
import type { Time } from '../time.ts';

const CONFIG = load({
  agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
  channels: [{ id: CHANNEL, agents: ['dev'] }],
});

/** Starts the program on a store in `file`. Each of `failures` fails one start of its agent. `run`: as an operator. */
async function program(file: string, time: Time, failures: Error[]) {
  const { backend, sessions } = puppetry({ failures });
  const store = open(file, { clock: time.clock });
  const { app, broken, intake } = await startApp({
    config: CONFIG,
    store,
    time,
    adapter: { name: 'console' },
    backendFor: () => backend,
  });
  const run = async (line: string) =>
    (await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, line)).text;
  const status = () => store.floors.state(CHANNEL)?.seats[0]?.status;
  return { app, run, sessions, broken, status };
}

test("five crashes stop an agent, it stays stopped after the program restarts, and an operator's restart starts it", async () => {
  using place = folder();
  const time = createTime();
  const first = await program(
    place.file(),
    time,
    Array.from({ length: 5 }, () => new BackendError('exited with code 1')),
  );
  await time.advance(60_000);
  expect(await first.run('/agent status dev')).toContain('Stopped (until /agent restart): 5 errors in a row');
  await first.app.stop();

  const { app, run, sessions, broken, status } = await program(place.file(), time, []);
  await time.advance(600_000);
  expect(await run('/agent list')).toContain('Stopped (until /agent restart)');
  expect(await run('/agent status dev')).toContain(
    '5 errors in a row, session 1, 5 errors in a row, 5 in all; last: exited with code 1',
  );
  expect([sessions.length, status()]).toEqual([0, 'OFFLINE']);

  expect(await run('/agent restart dev')).toBe('dev is restarted.');
  await time.advance(1_000);
  expect(await run('/agent status dev')).toContain('BuildingPrompt (ready), session 1, 0 errors in a row, 0 in all');
  expect([sessions.length, status()]).toEqual([1, 'QUEUED']);
  await app.stop();
  expect(broken).toEqual([]);
});
