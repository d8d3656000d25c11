import { execFileSync, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createPostgresState } from '@chat-adapter/state-pg';
import { Pool } from 'pg';
import { SAID } from '../floors.ts';
import { inLanes } from '../steady.ts';
import type { Measured, Span } from '../steady.ts';

const LOCK_MS = 30_000;
const HISTORY = 20;
const CONNECTIONS = 16;
const WAITS = 100;
const WAIT_MS = 100;

/**
 * The Vercel Chat SDK knows no floor: one handler at a time has a thread's lock. Its nearest operation to a hand-over
 * takes that lock, adds the text to the thread's history and releases the lock. Its state is in a PostgreSQL server of
 * its own.
 */
export async function handOvers(path: string, channels: number, span: Span): Promise<Measured> {
  const server = await startPostgres(`${path}-pg`);
  const client = new Pool({ host: server.folder, user: 'bench', database: 'postgres', max: CONNECTIONS });
  client.on('error', () => undefined);
  const quiet = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };
  const state = createPostgresState({ client, logger: quiet });
  try {
    await state.connect();
    return await inLanes(channels, span, async (lane) => {
      const thread = `bench:${lane}`;
      const lock = await state.acquireLock(thread, LOCK_MS);
      if (lock === null) throw new Error('impossible: a lane shares its lock');
      await state.appendToList(`history:${thread}`, { text: SAID }, { maxLength: HISTORY });
      await state.releaseLock(lock);
    });
  } finally {
    await state.disconnect();
    await client.end();
    await server.stop();
  }
}

type Postgres = { readonly folder: string; stop(): Promise<void> };

/** Starts a server that listens only on a socket in `folder`. It runs as user `postgres` when this process is root. */
async function startPostgres(folder: string): Promise<Postgres> {
  const programs = programsIn('/usr/lib/postgresql');
  const [uid, gid] = process.getuid?.() === 0 ? ['-u', '-g'].map((flag) => idOf(flag)) : [];
  const as = uid === undefined || gid === undefined ? {} : { uid, gid };
  mkdirSync(folder, { recursive: true });
  if (uid !== undefined && gid !== undefined) {
    chownSync(join(folder, '..'), uid, gid);
    chownSync(folder, uid, gid);
  }
  const data = join(folder, 'data');
  execFileSync(join(programs, 'initdb'), ['-D', data, '-U', 'bench', '-A', 'trust'], {
    ...as,
    cwd: folder,
    stdio: 'ignore',
  });
  const args = ['-D', data, '-k', folder, '-c', 'listen_addresses='];
  const server = spawn(join(programs, 'postgres'), args, { ...as, cwd: folder, stdio: 'ignore' });
  const ended = Promise.withResolvers<void>();
  server.once('exit', () => ended.resolve());
  for (let wait = 0; wait < WAITS && !isUp(folder); wait += 1) await pause(WAIT_MS);
  return {
    folder,
    async stop() {
      server.kill('SIGINT');
      await ended.promise;
    },
  };

  function isUp(where: string): boolean {
    return existsSync(join(data, 'postmaster.pid')) && existsSync(join(where, '.s.PGSQL.5432'));
  }
}

function programsIn(root: string): string {
  const [newest] = existsSync(root) ? readdirSync(root).toSorted().toReversed() : [];
  if (newest === undefined) throw new Error('there is no PostgreSQL on this machine');
  return join(root, newest, 'bin');
}

function idOf(flag: string): number {
  return Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
}
