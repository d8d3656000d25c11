import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CANARY, CONTROLS, TICKETS, git, makeRepository } from './repository.ts';
import type { TrialCall, TrialEvent } from './program.ts';

const PROGRAM = new URL('program.ts', import.meta.url).pathname;

/** What a trial measured; the names are those of the table of measures. */
export type Measured = {
  readonly workers: number;
  /** Tickets whose work is on main exactly once. */
  readonly onMainOnce: number;
  readonly redCommitsOnMain: number;
  readonly closedWithoutCommit: number;
  readonly mergedButOpen: number;
  readonly givenTwice: number;
  readonly controlsStarted: number;
  readonly startedBeforeDependency: number;
  readonly copyChanged: readonly string[];
  readonly canaryFound: number;
  readonly leftOver: readonly string[];
  readonly wallMs: number;
  /** From DONE to merged, in milliseconds, without the tests. */
  readonly doneToMergedMs: readonly number[];
  readonly tree: string;
  readonly starts: number;
};

/** A finished trial: its repository and what was measured. */
export type Trial = {
  readonly repo: string;
  readonly dataDir: string;
  readonly measured: Measured;
  readonly facts: number;
};

export type TrialOrder = Partial<Pick<TrialCall, 'stepMs' | 'script'>> & {
  readonly workers: number;
  /** Kills the program after this many facts, in each of these starts. */
  readonly kills?: readonly number[];
  readonly filler?: number;
  /** The command of the tests, or "none". Default: found by Conch. */
  readonly test?: string;
  /** Runs the tests of every commit of main, which takes seconds for each. */
  readonly testsMain?: boolean;
};

/** Lets a crew work through the twelve tickets, and measures the result. Rejects when it does not end. */
export async function performTrial(order: TrialOrder): Promise<Trial> {
  const repo = makeRepository(order.filler);
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-crew-trial-data-'));
  const before = copyOf(repo);
  const { workers, stepMs = 0, script = {}, kills = [], test = 'auto' } = order;
  const call = { repo, dataDir, workers, stepMs, script, test, tickets: Object.keys(TICKETS).length };
  const from = performance.now();
  for (const killAt of kills) await start({ ...call, killAt }, true);
  await start({ ...call, killAt: 0 }, false);
  const wallMs = performance.now() - from;
  const events = eventsIn(join(dataDir, 'events.jsonl'));
  const measured = measure({ repo, dataDir, before, events, order });
  return { repo, dataDir, facts: events.length, measured: { ...measured, workers, wallMs, starts: kills.length + 1 } };
}

/** The longest time of one start, in milliseconds. */
const LIMIT_MS = 300_000;

async function start(call: TrialCall, mayDie: boolean): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [PROGRAM, JSON.stringify(call)], { timeout: LIMIT_MS, maxBuffer: 1e8 });
  } catch (error) {
    const { signal, killed } = error as { readonly signal?: string; readonly killed?: boolean };
    if (!mayDie || killed === true || signal !== 'SIGKILL') throw error;
  }
}

function eventsIn(file: string): readonly TrialEvent[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.flatMap((line) => (line.endsWith('}') ? [JSON.parse(line) as TrialEvent] : []));
}

/** The parts of the user's copy that a crew never changes. */
function copyOf(repo: string): Readonly<Record<string, string>> {
  return {
    branch: git(repo, 'symbolic-ref', 'HEAD'),
    dirtyFile: readFileSync(join(repo, 'notes.txt'), 'utf8'),
    dirty: git(repo, 'status', '--porcelain', '--untracked-files=no'),
    stash: git(repo, 'stash', 'list', '--format=%H'),
    config: readFileSync(join(repo, '.git/config'), 'utf8'),
    hooks: readdirSync(join(repo, '.git/hooks')).join(),
    env: readFileSync(join(repo, '.env'), 'utf8'),
  };
}

type Known = {
  readonly repo: string;
  readonly dataDir: string;
  readonly before: ReturnType<typeof copyOf>;
  readonly events: readonly TrialEvent[];
  readonly order: TrialOrder;
};

type Assigned = { readonly type: string; readonly ticket: { readonly id: string; readonly base: string } };

function measure({ repo, dataDir, before, events, order }: Known): Omit<Measured, 'workers' | 'wallMs' | 'starts'> {
  const main = newestMain(repo);
  const commits = git(
    repo,
    'log',
    '--first-parent',
    '--reverse',
    '--format=%H %(trailers:key=Conch-Ticket,valueonly)',
    main,
  )
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => ({ commit: line.slice(0, 40), ticket: line.slice(41).trim() }));
  const merges = commits.filter(({ ticket }) => ticket !== '');
  const ids = Object.keys(TICKETS);
  const mergeOf = (id: string) => merges.filter(({ ticket }) => ticket === id);
  const isClosed = (id: string) => git(repo, 'show', `${main}:.tickets/${id}.md`).includes('\nstatus: closed\n');
  const assigned = events
    .map(({ fact }) => fact)
    .filter((fact): fact is typeof fact & Assigned => fact.type === 'ticketAssigned');
  const after = copyOf(repo);
  return {
    onMainOnce: ids.filter((id) => mergeOf(id).length === 1).length,
    redCommitsOnMain:
      order.testsMain === true
        ? redOf(
            repo,
            commits.map(({ commit }) => commit),
          )
        : 0,
    closedWithoutCommit: ids.filter((id) => isClosed(id) && mergeOf(id).length === 0).length,
    mergedButOpen: ids.filter((id) => !isClosed(id) && mergeOf(id).length > 0).length,
    givenTwice: assigned.length - new Set(assigned.map(({ ticket }) => ticket.id)).size,
    controlsStarted: assigned.filter(({ ticket }) => CONTROLS.includes(ticket.id)).length,
    startedBeforeDependency: assigned.filter(({ ticket }) => !hasAll(repo, ticket, mergeOf)).length,
    copyChanged: Object.keys(before).filter((key) => before[key] !== after[key]),
    canaryFound: canariesIn(repo, dataDir),
    leftOver: leftOf(repo),
    doneToMergedMs: durations(events),
    tree: git(repo, 'rev-parse', `${main}^{tree}`),
  };
}

/** Main, or the newer commit that waits for the user's copy. */
function newestMain(repo: string): string {
  try {
    return git(repo, 'rev-parse', '--verify', '--quiet', 'refs/conch/main');
  } catch {
    return git(repo, 'rev-parse', 'main');
  }
}

function hasAll(
  repo: string,
  { id, base }: Assigned['ticket'],
  mergeOf: (id: string) => readonly { readonly commit: string }[],
): boolean {
  return (TICKETS[id] ?? []).every((dep) => mergeOf(dep).some(({ commit }) => isIn(repo, commit, base)));
}

function isIn(repo: string, commit: string, base: string): boolean {
  try {
    git(repo, 'merge-base', '--is-ancestor', commit, base);
    return true;
  } catch {
    return false;
  }
}

/** Commits of main whose tests are red. */
function redOf(repo: string, commits: readonly string[]): number {
  const folder = mkdtempSync(join(tmpdir(), 'conch-crew-main-'));
  let red = 0;
  git(repo, 'worktree', 'add', '--quiet', '--detach', '--force', folder, commits[0] ?? 'main');
  for (const commit of commits) {
    git(folder, 'checkout', '--quiet', '--force', '--detach', commit);
    try {
      execTests(folder);
    } catch {
      red += 1;
    }
  }
  git(repo, 'worktree', 'remove', '--force', folder);
  return red;
}

function execTests(folder: string): void {
  git(folder, '-c', 'alias.t=!node --test', 't');
}

/** Objects, posts, logs and the journal that hold the canary. */
function canariesIn(repo: string, dataDir: string): number {
  const objects = git(repo, 'log', '--all', '--format=%H', `-S${CANARY}`)
    .split('\n')
    .filter((line) => line !== '');
  const files = readdirSync(dataDir).filter((name) => /\.(?:jsonl|db|db-wal)$/.test(name));
  return objects.length + files.filter((name) => readFileSync(join(dataDir, name)).includes(CANARY)).length;
}

function leftOf(repo: string): readonly string[] {
  const worktrees = git(repo, 'worktree', 'list', '--porcelain').match(/^worktree .*$/gm) ?? [];
  const branches = git(repo, 'branch', '--list', 'agent/*', '--format=%(refname:short)').split('\n');
  const folders = existsSync(join(repo, 'agents')) ? readdirSync(join(repo, 'agents')) : [];
  return [...worktrees.slice(1), ...branches, ...folders].filter((each) => each !== '');
}

/** The time from a worker's last `done` to its merge, without the time of the tests before it. */
function durations(events: readonly TrialEvent[]): readonly number[] {
  const tested = new Map<string, number>();
  const all: number[] = [];
  for (const { at, fact } of events) {
    if (fact.type === 'mergeAsked') tested.set(fact.worker ?? '', at);
    const from = tested.get(fact.worker ?? '');
    if (fact.type === 'merged' && from !== undefined) all.push(at - from);
  }
  return all.toSorted((a, b) => a - b);
}
