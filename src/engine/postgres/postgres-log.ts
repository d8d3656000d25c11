import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { Pool } from 'pg';
import type { ClientBase, PoolConfig } from 'pg';
import { errorMessage } from '../../lib/defined.ts';
import { StoreError, errorCodeOf } from '../errors.ts';
import type { Changes, Group, Member, SharedLog } from '../shared/shared-log.ts';

/** Where a shared log is. */
export type PostgresOptions = {
  /** The address of the database, as `postgres://user:password@host/database`. */
  readonly url: string;
  /** The schema of the log; `conch` by default. At most 41 lower-case letters, digits and `_`, no digit first. */
  readonly schema?: string;
};

const SCHEMA_VERSION = 6;

function schemaOf(schema: string): string {
  return readFileSync(new URL('schema.sql', import.meta.url), 'utf8').replaceAll(/\bconch\b/g, schema);
}

/** The time limit for connecting to the database, and for each query of `examinePostgres`, in milliseconds. */
export const CONNECT_MS = 5_000;
/** Limits of the log's connections. A query's limit is 1 s above that of the database (`DATABASE_LIMITS`). */
const LIMITS = {
  connectionTimeoutMillis: CONNECT_MS,
  query_timeout: 5_000,
  keepAlive: true,
} as const satisfies PoolConfig;

/** Limits each query in the database to 4 s. Sent as a query, because poolers refuse it as a connection option. */
const DATABASE_LIMITS = 'SET statement_timeout = 4000';

/** A pull ends after this many rows, at the end of a group. */
const PULLED_AT_ONCE = 5_000;

/** The oldest version of PostgreSQL that Conch accepts, as `server_version_num`. */
export const OLDEST = 150_000;

/**
 * Opens the shared log in a PostgreSQL database, and creates its tables at the first use. Rejects with a `StoreError`
 * when the name of the schema is unfit, or when the database cannot be used, is older than PostgreSQL 15, or has
 * tables of a newer Conch.
 */
export async function openPostgresLog({ url, schema = 'conch' }: PostgresOptions): Promise<SharedLog> {
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema))
    throw new StoreError('unavailable', `The schema name "${schema}" is not allowed: ${NAMES}.`);
  const pool = poolOf(url, 3);
  try {
    await prepare(pool, schema);
  } catch (error) {
    await pool.end();
    throw error instanceof StoreError ? error : new StoreError('unreached', unreached(url, error), error);
  }
  return new PostgresLog(pool, { url, schema });
}

const NAMES = 'use at most 41 lower-case letters, digits and underscores, no digit first';

/** Says that a database cannot be used, and why. Names the database without user and password. */
export function unreached(url: string, error: unknown): string {
  return `PostgreSQL at ${hostAndDatabase(url)} cannot be used (${errorMessage(error)}). Start it, or correct "store" in the configuration.`;
}

/** The host and the name of a database, for people. */
export function hostAndDatabase(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}

function poolOf(url: string, max: number): Pool {
  const onConnect = async (client: ClientBase): Promise<void> => void (await client.query(DATABASE_LIMITS));
  // The pool waits for the promise, although the types do not say so.
  // eslint-disable-next-line typescript/no-misused-promises
  const pool = new Pool({ connectionString: url, max, ...LIMITS, onConnect });
  // A connection that breaks while nobody uses it is replaced at its next use.
  pool.on('error', () => undefined);
  return pool;
}

async function prepare(pool: Pool, schema: string): Promise<void> {
  const { rows } = await pool.query<{ version: number }>(
    "SELECT current_setting('server_version_num')::int AS version",
  );
  if ((rows[0]?.version ?? 0) < OLDEST)
    throw new StoreError('unavailable', 'This PostgreSQL is too old. Use PostgreSQL 15 or newer.');
  const known = await versionOf(pool, schema);
  if (known !== null && known > SCHEMA_VERSION)
    throw new StoreError(
      'newer-schema',
      `The tables of ${schema} were made by a newer Conch (version ${known}). Update Conch.`,
    );
  if (known === SCHEMA_VERSION) return;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await pool.query(schemaOf(schema));
      const sql = `INSERT INTO ${schema}.log (id, version, position) VALUES ($1, $2, 0) ON CONFLICT (one) DO UPDATE SET version = excluded.version`;
      await pool.query(sql, [randomUUID().slice(0, 8), SCHEMA_VERSION]);
      return;
    } catch (error) {
      // Two processes that start at once make the same tables: the slower one tries again.
      if (attempt === PREPARED_WITHIN || !MADE_MEANWHILE.has(errorCodeOf(error))) throw error;
    }
  }
}

const PREPARED_WITHIN = 5;
const MADE_MEANWHILE = new Set(['23505', '40P01', '42P06', '42P07', '42710', 'XX000']);

async function versionOf(pool: Pool, schema: string): Promise<number | null> {
  try {
    const { rows } = await pool.query<{ version: number }>(`SELECT version FROM ${schema}.log`);
    return rows[0]?.version ?? null;
  } catch (error) {
    // No such schema, or no such table.
    if (errorCodeOf(error) === '3F000' || errorCodeOf(error) === '42P01') return null;
    throw error;
  }
}

/**
 * Returns the PostgreSQL array literal of JSON texts. JSON texts have no control characters, so quotes and backslashes
 * are the only characters to escape, in the literal as in JSON. `null` becomes NULL.
 */
function textArray(texts: readonly (string | null)[]): string {
  return `{${JSON.stringify(texts).slice(1, -1)}}`;
}

type Pulled = { readonly place: string; readonly id: string; readonly row: string | null; readonly position: string };

class PostgresLog implements SharedLog {
  readonly #pool: Pool;
  /** A connection for `beat` and `burySilent` alone, so that no other request delays a beat. */
  readonly #beats: Pool;
  readonly #options: Required<PostgresOptions>;

  constructor(pool: Pool, options: Required<PostgresOptions>) {
    this.#pool = pool;
    this.#beats = poolOf(options.url, 1);
    this.#options = options;
  }

  async join(): Promise<Member> {
    const worker = randomUUID();
    const { schema } = this.#options;
    const sql = `SELECT ${schema}.join_log($1, $2), (SELECT id FROM ${schema}.log) AS id`;
    const { rows } = await this.#pool.query<{ id: string }>(sql, [worker, `${hostname()}:${process.pid}`]);
    return { worker, logId: rows[0]?.id ?? '' };
  }

  async commit({ worker, number, rows: changed }: Group): Promise<boolean> {
    const sql = `SELECT ${this.#options.schema}.write_group($1, $2, $3, $4, $5) AS written`;
    const { rows } = await this.#pool.query<{ written: boolean }>(sql, [
      worker,
      number,
      changed.map(({ table }) => table),
      changed.map(({ id }) => id),
      textArray(changed.map(({ row }) => row)),
    ]);
    return rows[0]?.written === true;
  }

  async pull(after: number, reader?: string): Promise<Changes> {
    const { schema } = this.#options;
    const sql = `WITH noted AS (UPDATE ${schema}.workers SET reached = $1 WHERE worker = $3 AND reached <> $1)
                 SELECT place, id, row, position FROM ${schema}.rows WHERE position > $1 AND position <=
                   (SELECT max(position) FROM (SELECT position FROM ${schema}.rows WHERE position > $1 ORDER BY position LIMIT $2) AS page)
                 ORDER BY position`;
    const { rows } = await this.#pool.query<Pulled>(sql, [after, PULLED_AT_ONCE, reader]);
    const position = Number(rows.at(-1)?.position ?? after);
    const found = rows.map(({ place, id, row }) => ({ table: place, id, row }));
    return { rows: found, position, isAll: rows.length < PULLED_AT_ONCE };
  }

  async forgetDeleted(worker: string): Promise<void> {
    await this.#pool.query(`SELECT ${this.#options.schema}.forget_deleted($1)`, [worker]);
  }

  async beat(worker: string): Promise<boolean> {
    const sql = `UPDATE ${this.#options.schema}.workers SET beat = clock_timestamp() WHERE worker = $1 AND state = 'living'`;
    return ((await this.#beats.query(sql, [worker])).rowCount ?? 0) > 0;
  }

  async burySilent(worker: string, { deadMs, freshMs }: Parameters<SharedLog['burySilent']>[1]): Promise<void> {
    await this.#beats.query(`SELECT ${this.#options.schema}.bury_silent($1, $2, $3)`, [worker, deadMs, freshMs]);
  }

  async lead(worker: string): Promise<boolean> {
    const sql = `SELECT ${this.#options.schema}.lead($1) AS leads`;
    const { rows } = await this.#pool.query<{ leads: boolean }>(sql, [worker]);
    return rows[0]?.leads === true;
  }

  async leave(worker: string): Promise<void> {
    await this.#pool.query(`SELECT ${this.#options.schema}.end_worker($1)`, [worker]);
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#beats.end()]);
  }
}
