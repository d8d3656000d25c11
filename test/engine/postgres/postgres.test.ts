import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { openPostgresLog } from '../../../src/engine/postgres/postgres-log.ts';
import type { SharedLog } from '../../../src/engine/shared/shared-log.ts';
import { portContract } from '../port-contract.ts';
import { leaderContract, sharingContract } from '../sharing-contract.ts';
import { openShared } from '../shared-store.ts';
import { testServer } from './server.ts';

const server = await testServer();

/** A log of its own in the server. */
function place(): () => Promise<SharedLog> {
  const schema = `t_${randomUUID().replaceAll('-', '').slice(0, 20)}`;
  return () => openPostgresLog({ url: server?.url ?? '', schema });
}

describe.skipIf(server === null)('with a PostgreSQL server', () => {
  afterAll(() => server?.stop());

  portContract('a store in PostgreSQL', async () => {
    const open = place();
    let store = await openShared(await open());
    return {
      store,
      restart: async () => {
        await store.close();
        store = await openShared(await open());
        return store;
      },
      dispose: () => store.close(),
    };
  });

  leaderContract('PostgreSQL', async () => place());
  sharingContract('PostgreSQL', async () => place());

  describe('a shared log in PostgreSQL', () => {
    test('writes a group that is sent again once', async () => {
      const log = await place()();
      const { worker } = await log.join();
      const changes = [{ table: 'memory', id: 'a', row: '1', known: null }];
      const group = { worker, number: 1, changes, checks: [] };
      expect([await log.commit(group), await log.commit(group)]).toEqual([
        { state: 'taken', position: 1 },
        { state: 'taken', position: 1 },
      ]);
      await log.close();
    });

    test('gives slots of workers that are gone to others', async () => {
      const log = await place()();
      const [one, two] = [await log.join(), await log.join()];
      await log.bury(one.worker);
      const three = await log.join();
      expect([one.slot, two.slot, three.slot]).toEqual([0, 1, 0]);
      expect((await log.living()).toSorted()).toEqual([two.worker, three.worker].toSorted());
      await log.close();
    });
  });
});
