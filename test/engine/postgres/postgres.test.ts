import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { afterAll, describe, expect, test } from 'vitest';
import { fillPostgres } from '../../../src/engine/postgres/offline.ts';
import { openPostgresLog } from '../../../src/engine/postgres/postgres-log.ts';
import { SLOTS } from '../../../src/engine/shared/shared-log.ts';
import type { SharedLog } from '../../../src/engine/shared/shared-log.ts';
import { portContract } from '../port-contract.ts';
import { leaderContract, sharingContract } from '../sharing-contract.ts';
import { openShared } from '../shared-store.ts';
import { testServer } from './server.ts';

const server = await testServer();

/** Returns a function that opens a new log in the server. */
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

  describe('the rows of a store that is moved to a log', () => {
    const rowsOf = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ table: 'memory', id: `${n}`, row: `{"n":${n},"text":"ü\\u0000"}` }));
    const moved = (id: string, count: number, ready = (): void => {}) => ({ id, rows: rowsOf(count), ready });
    const placed = () => ({ url: server?.url ?? '', schema: `f_${randomUUID().replaceAll('-', '').slice(0, 20)}` });

    test('are all moved, in portions, once', async () => {
      const where = placed();
      const fill = fillPostgres(where);
      expect([await fill(moved('store', 4_500)), await fill(moved('store', 4_500))]).toEqual([4_500, null]);
      const log = await openPostgresLog(where);
      const { rows, position } = await log.pull(0);
      expect([rows.length, position, (await log.join()).logId]).toEqual([4_500, 3, 'store']);
      expect(rows.find(({ id }) => id === '4499')?.row).toBe(rowsOf(4_500).at(-1)?.row);
      await log.close();
    });

    test('are not moved at all when the move is interrupted', async () => {
      const where = placed();
      const cutOff = (): never => {
        throw new Error('cut off');
      };
      await expect(fillPostgres(where)(moved('store', 10, cutOff))).rejects.toThrow('cut off');
      const log = await openPostgresLog(where);
      expect((await log.pull(0)).rows).toEqual([]);
      await log.close();
      expect(await fillPostgres(where)(moved('store', 10))).toBe(10);
    });

    test('are refused by a log with another store, and by a log in use', async () => {
      const where = placed();
      const log = await openPostgresLog(where);
      const { worker } = await log.join();
      await expect(fillPostgres(where)(moved('store', 10))).rejects.toMatchObject({ code: 'locked' });
      await log.commit({
        worker,
        number: 1,
        changes: [{ table: 'memory', id: 'a', row: '1', known: null }],
        checks: [],
      });
      await log.leave(worker);
      await log.close();
      await expect(fillPostgres(where)(moved('store', 10))).rejects.toThrow(/holds another store already/);
    });
  });

  describe('a shared log in PostgreSQL', () => {
    test('writes a repeated group once', async () => {
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

    test('writes no request that arrives after a later one', async () => {
      const log = await place()();
      const { worker } = await log.join();
      const group = (number: number, row: string) =>
        log.commit({ worker, number, changes: [{ table: 'memory', id: '1', row, known: null }], checks: [] });
      expect(await group(1, '"old"')).toEqual({ state: 'taken', position: 1 });
      expect(await group(2, '"new"')).toEqual({ state: 'taken', position: 2 });
      expect(await group(1, '"old"')).toEqual({ state: 'overtaken' });
      expect((await log.pull(0)).rows).toEqual([{ table: 'memory', id: '1', row: '"new"', position: 2 }]);
      await log.close();
    });

    test('gives slots of gone workers to others', async () => {
      const log = await place()();
      const [one, two] = [await log.join(), await log.join()];
      await log.bury(one.worker);
      const three = await log.join();
      expect([one.slot, two.slot, three.slot]).toEqual([0, 1, 0]);
      expect((await log.living()).toSorted()).toEqual([two.worker, three.worker].toSorted());
      await log.close();
    });

    test('refuses a process with a message when all slots are taken', async () => {
      const where = { url: server?.url ?? '', schema: `s_${randomUUID().replaceAll('-', '').slice(0, 20)}` };
      const log = await openPostgresLog(where);
      const client = new Client({ connectionString: where.url });
      await client.connect();
      await client.query(
        `INSERT INTO ${where.schema}.workers (worker, name, slot, state, beat)
         SELECT 'w' || n, 'host', n, 'living', now() FROM generate_series(0, ${SLOTS - 1}) AS n`,
      );
      await expect(log.join()).rejects.toThrow('1024 processes share this store already.');
      await client.query(`UPDATE ${where.schema}.workers SET state = 'left' WHERE slot = 7`);
      expect(await log.join()).toMatchObject({ slot: 7 });
      await client.end();
      await log.close();
    });
  });
});
