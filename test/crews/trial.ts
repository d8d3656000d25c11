import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { measure } from './measure.ts';
import type { Measured } from './measure.ts';
import { copyOf } from './measure-copy.ts';
import type { TrialCall, TrialEvent } from './program.ts';
import { TICKETS, makeRepository } from '../../examples/crew/repository.ts';

const PROGRAM = new URL('program.ts', import.meta.url).pathname;

/** A finished trial: its repository and what was measured. */
export type Trial = {
  readonly repo: string;
  readonly dataDir: string;
  readonly measured: Measured;
  readonly facts: number;
};

/** The parts of a trial. Default: all twelve tickets, and a program that is never killed. */
export type TrialOrder = Partial<Pick<TrialCall, 'kind' | 'stepMs' | 'script' | 'people'>> & {
  readonly workers: number;
  /** For each start that is killed: the number of facts before the kill. */
  readonly kills?: readonly number[];
  readonly filler?: number;
  readonly tickets?: readonly string[];
  /** The command of the tests, or "none". Default: Conch finds it. */
  readonly test?: string;
  /** True to run the tests of every commit of main, which takes seconds for each. */
  readonly testsMain?: boolean;
};

/** Lets a crew work through the tickets, and measures the result. Rejects when it does not end. */
export async function performTrial(order: TrialOrder): Promise<Trial> {
  const { workers, kind = 'command', stepMs = 0, script = {}, kills = [], test = 'auto' } = order;
  const { tickets = Object.keys(TICKETS), testsMain = false, people = null } = order;
  const most = tickets.length + (people === 'vote' || people === 'hold' ? 1 : 0);
  const repo = makeRepository({ filler: order.filler ?? 0, tickets });
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-crew-trial-data-'));
  const before = copyOf(repo);
  const worker = kind === 'acp' ? 'peer.ts' : 'worker.ts';
  const call = { repo, dataDir, workers, kind, worker, prepare: [], stepMs, script, test, people, tickets: most };
  const from = performance.now();
  for (const killAt of kills) await startProgram({ ...call, killAt });
  await startProgram({ ...call, killAt: 0 });
  const wallMs = performance.now() - from;
  const events = eventsIn(join(dataDir, 'events.jsonl'));
  const measured = await measure({ repo, dataDir, before, events, script, tickets, testsMain });
  return { repo, dataDir, facts: events.length, measured: { workers, wallMs, starts: kills.length + 1, ...measured } };
}

/** The time limit of one start, in milliseconds. */
const LIMIT_MS = 900_000;

/** Runs the program once, until its tickets are finished or it is killed. */
export async function startProgram(call: TrialCall): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [PROGRAM, JSON.stringify(call)], { timeout: LIMIT_MS, maxBuffer: 1e8 });
  } catch (error) {
    const { signal, killed } = error as { readonly signal?: string; readonly killed?: boolean };
    if (call.killAt === 0 || killed === true || signal !== 'SIGKILL')
      throw new Error(`see ${call.dataDir}`, { cause: error });
  }
}

/** The facts of a trial's crew, in order. */
export function eventsIn(file: string): readonly TrialEvent[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.flatMap((line) => (line.endsWith('}') ? [JSON.parse(line) as TrialEvent] : []));
}
