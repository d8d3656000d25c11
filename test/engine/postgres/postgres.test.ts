import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Client } from 'pg';
import { afterAll, describe, expect, test } from 'vitest';
import { fillPostgres } from '../../../src/engine/postgres/offline.ts';
import { openPostgresLog } from '../../../src/engine/postgres/postgres-log.ts';
import type { SharedLog } from '../../../src/engine/shared/shared-log.ts';
import { portContract } from '../port-contract.ts';
import { deletionContract, leaderContract, sharingContract } from '../sharing-contract.ts';
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
  deletionContract('PostgreSQL', async () => place());
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
      await log.lead(worker);
      await expect(fillPostgres(where)(moved('store', 10))).rejects.toMatchObject({ code: 'locked' });
      await log.commit({ worker, number: 1, rows: [{ table: 'memory', id: 'a', row: '1' }] });
      await log.leave(worker);
      await log.close();
      await expect(fillPostgres(where)(moved('store', 10))).rejects.toThrow(/holds another store already/);
    });
  });

  test('a log of the time when every process wrote is taken over', async () => {
    const where = { url: server?.url ?? '', schema: `o_${randomUUID().replaceAll('-', '').slice(0, 20)}` };
    const client = new Client({ connectionString: where.url });
    await client.connect();
    const former = readFileSync(new URL('schema-4.sql', import.meta.url), 'utf8');
    await client.query(former.replaceAll(/\bconch\b/g, where.schema));
    const log = await openPostgresLog(where);
    const { rows } = await log.pull(0);
    expect(rows.map(({ table, id }) => [table, id])).toEqual([
      ['memory', '["a","b"]'],
      ['ledger', '[1,2048,0]'],
    ]);
    const { worker, logId } = await log.join();
    expect([logId, await log.lead(worker)]).toEqual(['old', true]);
    expect(await log.commit({ worker, number: 1, rows: [{ table: 'memory', id: '["a","b"]', row: null }] })).toBe(true);
    expect(await log.pull(7)).toMatchObject({ rows: [{ id: '["a","b"]', row: null }], position: 8 });
    await log.close();
    await client.end();
  });
});
