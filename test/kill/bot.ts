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

/** A folder with a configuration, a folder for data and a free port: all that one Conch needs of the machine. */
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

/** Takes the folder away. */
export function clearPlace(place: Place): void {
  rmSync(place.dir, { recursive: true, force: true });
}

/** How a process ended, and how long it had lived in milliseconds. */
export type End = { readonly code: number | null; readonly signal: string | null; readonly afterMs: number };

/** The real program, running. */
export type Bot = {
  readonly child: ChildProcess;
  readonly port: number;
  readonly dataDir: string;
  readonly ended: Promise<End>;
  /** Resolves with the milliseconds from the start to the first "ready" of `/healthz`; rejects when that never comes. */
  ready(): Promise<number>;
  /** Sends the signal and resolves when the process has ended. */
  end(signal: NodeJS.Signals): Promise<End>;
  /** Resolves at the next output, or when it does not come within the limit. */
  line(limitMs: number): Promise<void>;
  out(): string;
  err(): string;
  /** What it said about its end: standard error, and the gravest lines of its log. */
  lastWords(): string;
};

/** What is special about one start. */
export type Start = {
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What runs the program, with its first arguments; this Node unless told. */
  readonly command?: readonly string[];
  /** Another copy of the program than this one. */
  readonly program?: string;
  /** Takes the place of a pipe for standard output: a file descriptor. */
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

/** Runs the program to its end: its exit code and what it printed. */
export async function runConch(
  place: Place,
  start: Start = {},
): Promise<{ readonly code: number | null; readonly afterMs: number; readonly out: string; readonly err: string }> {
  const bot = startBot(place, start);
  const { code, afterMs } = await bot.ended;
  return { code, afterMs, out: bot.out(), err: bot.err() };
}

/**
 * A port that nobody listens on. It is none of those that the system hands out by itself, so that no server of another test
 * gets it before it is taken.
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
