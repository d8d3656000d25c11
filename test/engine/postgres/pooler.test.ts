import { randomUUID } from 'node:crypto';
import { afterAll, describe } from 'vitest';
import { openPostgresLog } from '../../../src/engine/postgres/postgres-log.ts';
import type { SharedLog } from '../../../src/engine/shared/shared-log.ts';
import { deletionContract, leaderContract, sharingContract } from '../sharing-contract.ts';
import { hasPooler, startPooler, testServer } from './server.ts';

const server = await testServer();
const isSkipped = server === null || !hasPooler();

describe.skipIf(isSkipped)('behind PgBouncer', async () => {
  if (isSkipped) return;
  const modes = ['transaction', 'session'] as const;
  const poolers = await Promise.all(modes.map((mode) => startPooler(server.url, mode)));
  afterAll(async () => {
    await Promise.all(poolers.map((pooler) => pooler.stop()));
    await server.stop();
  });
  for (const [index, { url }] of poolers.entries()) {
    const newSchema = (): string => `p_${randomUUID().replaceAll('-', '').slice(0, 20)}`;
    const place = (): (() => Promise<SharedLog>) => {
      const schema = newSchema();
      return () => openPostgresLog({ url, schema });
    };
    deletionContract(`PostgreSQL in ${modes[index]} mode`, async () => place());
    leaderContract(`PostgreSQL in ${modes[index]} mode`, async () => place());
    sharingContract(`PostgreSQL in ${modes[index]} mode`, async () => place());
  }
});
