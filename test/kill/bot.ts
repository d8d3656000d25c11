import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const PROGRAM = new URL('../../src/conch.js', import.meta.url).pathname;
const START_LIMIT_MS = 60_000;
const POLL_MS = 10;

/** What one Conch needs of the machine: a configuration, a data folder and a free port. */
export type Place = {
  readonly dir: string;
  readonly dataDir: string;
  readonly configFile: string;
  readonly port: number;
};

/** Makes a place; `config` is the content of its `turnConfig.json`. */
export async function makePlace(config: object | string): Promise<Place> {
  const dir = mkdtempSync(join(tmpdir(), 'conch-process-'));
  const place = { dir, dataDir: join(dir, 'data'), configFile: join(dir, 'turnConfig.json'), port: await freePort() };
  configure(place, config);
  return place;
}

/** Rewrites the configuration of a place. */
export function configure(place: Place, config: object | string): void {
  writeFileSync(place.configFile, typeof config === 'string' ? config : JSON.stringify(config, null, 2));
}

/** Deletes the folder of a place. */
export function clearPlace(place: Place): void {
  rmSync(place.dir, { recursive: true, force: true });
}

/** How a process ended. `afterMs`: its lifetime in milliseconds. */
export type End = { readonly code: number | null; readonly signal: string | null; readonly afterMs: number };

/** A running program. */
export type Bot = {
  readonly child: ChildProcess;
  readonly port: number;
  readonly dataDir: string;
  readonly ended: Promise<End>;
  /** Resolves with the milliseconds from start to the first "ready" of `/healthz`. Rejects when that never comes. */
  ready(): Promise<number>;
  /** Sends the signal and resolves when the process has ended. */
  end(signal: NodeJS.Signals): Promise<End>;
  /** Resolves at the next output, or after the limit in milliseconds. */
  line(limitMs: number): Promise<void>;
  out(): string;
  err(): string;
  /** Standard error, and the log lines of the levels fatal and error. */
  lastWords(): string;
};

/** Options of one start. */
export type Start = {
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The executable that runs the program, with its first arguments. Default: this Node. */
  readonly command?: readonly string[];
  /** The path of another copy of the program. */
  readonly program?: string;
  /** A file descriptor that replaces the pipe for standard output. */
  readonly stdout?: number;
};

/** Starts the program in a place. */
export function startBot(place: Place, start: Start = {}): Bot {
  const [executable = process.execPath, ...before] = start.command ?? [];
  const startedAt = performance.now();
  const child = spawn(executable, [...before, start.program ?? PROGRAM, ...(start.argv ?? ['start'])], {
    cwd: place.dir,
    env: { ...environment(place), ...start.env },
    stdio: ['ignore', start.stdout ?? 'pipe', 'pipe'],
  });
  const out = gather(child.stdout);
  const err = gather(child.stderr);
  const ended = new Promise<End>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, afterMs: performance.now() - startedAt }));
  });
  const isAlive = (): boolean => child.exitCode === null && child.signalCode === null;
  const ready = async (): Promise<number> => {
    while (isAlive() && performance.now() - startedAt < START_LIMIT_MS) {
      if (await isReady(place.port)) return performance.now() - startedAt;
      await pause(POLL_MS);
    }
    throw new Error(`Conch did not become ready:\n${err()}\n${out().slice(-2_000)}`);
  };
  const end = (signal: NodeJS.Signals): Promise<End> => {
    child.kill(signal);
    return ended;
  };
  const line = async (limitMs: number): Promise<void> => {
    const { stdout } = child;
    if (stdout !== null) await once(stdout, 'data', { signal: AbortSignal.timeout(limitMs) }).catch(() => undefined);
  };
  const lastWords = (): string => {
    const grave = out()
      .split('\n')
      .filter((each) => /"level":"(?:fatal|error)"/.test(each));
    return [err(), ...grave.slice(-3)].join('\n');
  };
  return {
    child,
    port: place.port,
    dataDir: isAbsolute(place.dataDir) ? place.dataDir : join(place.dir, place.dataDir),
    ended,
    ready,
    end,
    line,
    out,
    err,
    lastWords,
  };
}

/** Runs the program until it ends. Returns its exit code and output. */
export async function runConch(
  place: Place,
  start: Start = {},
): Promise<{ readonly code: number | null; readonly afterMs: number; readonly out: string; readonly err: string }> {
  const bot = startBot(place, start);
  const { code, afterMs } = await bot.ended;
  return { code, afterMs, out: bot.out(), err: bot.err() };
}

/**
 * Returns a port that nobody listens on. The system assigns no such port by itself, so no server of another test gets
 * it before its user listens.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(12_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    server.close();
    if (isFree) return once(server, 'close').then(() => port);
  }
}

/** True when a program that serves people answers at a port. */
export async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(1_000) });
    return (await response.text()).startsWith('{"status":"ready"') && response.ok;
  } catch {
    return false;
  }
}

function environment(place: Place): Record<string, string> {
  const { PATH = '', HOME = '' } = process.env;
  return { PATH, HOME, CONCH_CONFIG: place.configFile, CONCH_DATA_DIR: place.dataDir, CONCH_PORT: String(place.port) };
}

function gather(stream: NodeJS.ReadableStream | null): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  return () => text;
}
