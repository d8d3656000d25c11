import { Client } from 'pg';
import { StoreError } from '../errors.ts';
import type { FillLog, MovedRows } from '../shared/move.ts';
import type { SharedRow } from '../shared/shared-log.ts';
import { CONNECT_MS, openPostgresLog, hostAndDatabase, unreached } from './postgres-log.ts';
import type { PostgresOptions } from './postgres-log.ts';

/** When a store's rows are written to PostgreSQL, a portion ends when it has this many rows or characters. */
const PORTION = { rows: 2_000, characters: 4_000_000 } as const;

/**
 * Returns a function that fills an empty log in PostgreSQL with the rows of a store, in one transaction. Each portion
 * is read back and compared. Unless the log has this store already, the function rejects with a `StoreError` when the
 * log holds another store or is in use. Rejects with one also when a row differs or a request fails.
 */
export function fillPostgres(options: PostgresOptions): FillLog {
  return (moved) =>
    withLog(options, async ({ client, schema, known, position, refuseInUse }) => {
      if (known === moved.id) return null;
      refuseInUse();
      if (position > 0)
        throw new StoreError(
          'unavailable',
          `${nameOfLog(options)} holds another store already. Name an empty schema in "store.schema", then run: conch move`,
        );
      const count = await writeAll(client, schema, moved);
      moved.ready();
      return count;
    });
}

/**
 * Gives a log a new name, which begins the id of each later post. Rejects with a `StoreError` when a process uses the
 * log, or when a request fails.
 */
export function renamePostgres(options: PostgresOptions, id: string): Promise<void> {
  return withLog(options, async ({ client, schema, refuseInUse }) => {
    refuseInUse();
    await client.query(`UPDATE ${schema}.log SET id = $1`, [id]);
  });
}

/** Names a store in PostgreSQL in messages to people, by host, database and schema. Leaves out user and password. */
export function nameOfLog({ url, schema = 'conch' }: PostgresOptions): string {
  return `PostgreSQL at ${hostAndDatabase(url)}, schema ${schema}`;
}

/** A locked log: no process can join it, or write rows to it, before the transaction ends. */
type LockedLog = {
  readonly client: Client;
  readonly schema: string;
  readonly known: string;
  readonly position: number;
  readonly refuseInUse: () => void;
};

async function withLog<T>(options: PostgresOptions, use: (log: LockedLog) => Promise<T>): Promise<T> {
  const { url, schema = 'conch' } = options;
  await (await openPostgresLog(options)).close();
  const client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, keepAlive: true });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('BEGIN');
    const { rows } = await client.query<{ id: string; position: string; living: string | null }>(
      `SELECT id, position, (SELECT min(name) FROM ${schema}.workers WHERE state = 'living') AS living
       FROM ${schema}.log FOR UPDATE`,
    );
    const [{ id: known, position, living } = { id: '', position: '0', living: null }] = rows;
    const refuseInUse = (): void => {
      if (living !== null)
        throw new StoreError(
          'locked',
          `The store in ${nameOfLog(options)} is in use by ${living}. Stop that Conch first.`,
        );
    };
    const result = await use({ client, schema, known, position: Number(position), refuseInUse });
    await client.query('COMMIT');
    return result;
  } catch (error) {
    throw error instanceof StoreError ? error : new StoreError('unavailable', unreached(url, error), error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function writeAll(client: Client, schema: string, { id, rows }: MovedRows): Promise<number> {
  let [count, position] = [0, 0];
  for (const portion of portionsOf(rows)) {
    position += 1;
    await write(client, schema, { portion, position });
    count += portion.length;
  }
  await client.query(`UPDATE ${schema}.log SET id = $1, position = $2`, [id, position]);
  return count;
}

function* portionsOf(rows: Iterable<SharedRow>): Generator<readonly SharedRow[]> {
  let portion: SharedRow[] = [];
  let characters = 0;
  for (const row of rows) {
    portion.push(row);
    characters += row.row?.length ?? 0;
    if (portion.length < PORTION.rows && characters < PORTION.characters) continue;
    yield portion;
    [portion, characters] = [[], 0];
  }
  if (portion.length > 0) yield portion;
}

async function write(
  client: Client,
  schema: string,
  { portion, position }: { readonly portion: readonly SharedRow[]; readonly position: number },
): Promise<void> {
  const lists = [portion.map(({ table }) => table), portion.map(({ id }) => id), portion.map(({ row }) => row)];
  await client.query({
    name: 'fill',
    text: `INSERT INTO ${schema}.rows (place, id, position, row)
      SELECT place, id, $4, row FROM unnest($1::text[], $2::text[], $3::text[]) AS given (place, id, row)`,
    values: [...lists, position],
  });
  const { rows } = await client.query<{ place: string; id: string; row: string }>({
    name: 'read back',
    text: `SELECT place, id, row FROM ${schema}.rows WHERE position = $1`,
    values: [position],
  });
  const found = new Map(rows.map(({ place, id, row }) => [`${place} ${id}`, row]));
  const other = portion.find(({ table, id, row }) => found.get(`${table} ${id}`) !== row);
  if (other !== undefined)
    throw new StoreError(
      'corrupt',
      `PostgreSQL gave back a row that differs from the written one (${other.table} ${other.id}). Nothing was moved.`,
    );
}
