import { Client } from 'pg';
import { StoreError } from '../errors.ts';
import { CONNECT_MS, OLDEST, unreached } from './postgres-log.ts';
import type { PostgresOptions } from './postgres-log.ts';

type SharingProcess = { readonly name: string; readonly silentMs: number; readonly leads: boolean };

type PostgresState = {
  readonly version: string;
  readonly isTooOld: boolean;
  /** Settings with which a crash can lose commits, as `name = value`. */
  readonly unsafe: readonly string[];
  readonly requestMs: number;
  /** The processes that have not left and were not declared dead, first those that joined first. */
  readonly processes: readonly SharingProcess[];
};

const REQUESTS = 9;

/** Reads the state of a database and changes nothing. Rejects with a `StoreError` when connecting or a query fails. */
export async function examinePostgres({ url, schema = 'conch' }: PostgresOptions): Promise<PostgresState> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS });
  try {
    await client.connect();
    const { rows } = await client.query<{ version: string; number: number; unsafe: string[] }>(
      `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
         ARRAY(SELECT name || ' = ' || setting FROM pg_settings
               WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off') AS unsafe`,
    );
    const [{ version, number, unsafe } = { version: '', number: 0, unsafe: [] }] = rows;
    const times: number[] = [];
    for (let request = 0; request < REQUESTS; request += 1) {
      const from = performance.now();
      await client.query('SELECT 1');
      times.push(performance.now() - from);
    }
    const requestMs = times.toSorted((one, other) => one - other)[Math.floor(REQUESTS / 2)] ?? 0;
    return { version, isTooOld: number < OLDEST, unsafe, requestMs, processes: await processesIn(client, schema) };
  } catch (error) {
    throw new StoreError('unreached', unreached(url, error), error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function processesIn(client: Client, schema: string): Promise<readonly SharingProcess[]> {
  const { rows: known } = await client.query('SELECT to_regclass($1) AS found', [`${schema}.workers`]);
  if ((known as readonly { readonly found: unknown }[])[0]?.found === null) return [];
  const { rows } = await client.query<SharingProcess>(
    `SELECT name, round(extract(epoch FROM clock_timestamp() - beat) * 1000)::int AS "silentMs",
       worker IS NOT DISTINCT FROM (SELECT leader FROM ${schema}.log) AS leads
     FROM ${schema}.workers WHERE state = 'living' ORDER BY joined`,
  );
  return rows;
}
