import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { retry } from '../../../src/lib/retry.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import { freePort } from '../../kill/bot.ts';

/** A PostgreSQL server for tests. */
export type TestServer = {
  readonly url: string;
  /** Ends the server at once, without a checkpoint, like a crash. */
  kill(): Promise<void>;
  /** Starts the server again with its data. */
  start(): Promise<void>;
  /** Freezes all its processes for this time. Requests wait meanwhile. */
  freeze(ms: number): Promise<void>;
  stop(): Promise<void>;
};

/** The folder of the newest installed server's programs; `null` when none is installed. */
export function serverPrograms(): string | null {
  const root = '/usr/lib/postgresql';
  if (!existsSync(root)) return null;
  const [newest] = readdirSync(root).toSorted((a, b) => Number(b) - Number(a));
  return newest === undefined ? null : join(root, newest, 'bin');
}

/**
 * The server that `CONCH_TEST_PG` names, else a new one with fsync from the installed programs. `null` when there is
 * neither. A server started here listens on 127.0.0.1 only.
 */
export async function testServer(): Promise<TestServer | null> {
  const given = process.env['CONCH_TEST_PG'];
  if (given !== undefined)
    return { url: given, kill: refused, start: refused, freeze: refused, stop: async () => undefined };
  const programs = serverPrograms();
  if (programs !== null) return startServer(programs);
  if (process.env['CONCH_REQUIRE_POSTGRES'] === '1') throw new Error(MISSING);
  process.stderr.write(`The tests with PostgreSQL are skipped. ${MISSING}\n`);
  return null;
}

const MISSING = 'Install PostgreSQL (apt-get install postgresql), or name a server in CONCH_TEST_PG.';

async function refused(): Promise<void> {
  throw new Error('the server that CONCH_TEST_PG names is neither killed, started nor frozen by tests');
}

async function startServer(programs: string): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'conch-postgres-'));
  const user = notRoot();
  if (user !== null) chownSync(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const run = { ...user, cwd: folder, stdio: 'ignore', env: { ...process.env, LC_ALL: 'C.UTF-8' } } as const;
  execFileSync(join(programs, 'initdb'), ['-D', data, '-U', 'conch', '-A', 'trust', '-E', 'UTF8'], run);
  const port = await freePort();
  const url = `postgres://conch@127.0.0.1:${port}/postgres`;
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, `unix_socket_directories=${folder}`];
  let server: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    server = spawn(join(programs, 'postgres'), ['-D', data, ...settings.flatMap((each) => ['-c', each])], run);
    await untilReady(url);
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ending = server;
    server = null;
    if (ending === null || ending.exitCode !== null) return;
    const ended = new Promise((resolve) => void ending.once('exit', resolve));
    ending.kill(signal);
    await ended;
  };
  await start();
  return {
    url,
    kill: () => end('SIGKILL'),
    start,
    async freeze(ms) {
      const all = processesOf(server?.pid);
      for (const pid of all) signalled(pid, 'SIGSTOP');
      await pause(ms);
      for (const pid of all) signalled(pid, 'SIGCONT');
    },
    async stop() {
      await end('SIGINT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** True when PgBouncer is installed. Throws when it is missing where the tests require it. */
export function hasPooler(): boolean {
  const isInstalled = existsSync(POOLER);
  if (!isInstalled && process.env['CONCH_REQUIRE_POSTGRES'] === '1')
    throw new Error('Install PgBouncer (apt-get install pgbouncer).');
  return isInstalled;
}

const POOLER = '/usr/sbin/pgbouncer';

/** Starts PgBouncer before a server, with its default settings. */
export async function startPooler(
  server: string,
  mode: 'transaction' | 'session',
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'conch-pooler-'));
  const user = notRoot();
  const { hostname, port: serverPort, username, pathname } = new URL(server);
  const [port, file] = [await freePort(), join(folder, 'pooler.ini')];
  const lines = [
    '[databases]',
    `${pathname.slice(1)} = host=${hostname} port=${serverPort} user=${username}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${mode}`,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  if (user !== null) for (const path of [folder, file]) chownSync(path, user.uid, user.gid);
  const pooler = spawn(POOLER, ['-q', file], { ...user, cwd: folder, stdio: 'ignore' });
  const ended = new Promise((resolve) => void pooler.once('exit', resolve));
  const url = `postgres://${username}@127.0.0.1:${port}${pathname}`;
  await untilReady(url);
  return {
    url,
    async stop() {
      pooler.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A process and its children. */
function processesOf(pid: number | undefined): readonly number[] {
  if (pid === undefined) return [];
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number);
  return [pid, ...children.filter((child) => child > 0)];
}

/** Sends a signal to a process. Ignores that it may have ended. */
function signalled(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/** PostgreSQL refuses to run as root. */
function notRoot(): { readonly uid: number; readonly gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const idOf = (flag: string): number => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

const STARTING = { firstMs: 50, longestMs: 100, attempts: 300 };

async function untilReady(url: string): Promise<void> {
  const connect = async (): Promise<void> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.end();
  };
  await retry(connect, STARTING, { timers: systemTimers });
}
