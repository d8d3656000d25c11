import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { until } from '../reviews/stage.ts';
import { decideCrew } from '../../../src/work/crews/crew-decide.ts';
import type { CrewCommand } from '../../../src/work/crews/crew-events.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import { CrewRunner } from '../../../src/work/crews/crews.ts';
import type { CrewPorts } from '../../../src/work/crews/crews.ts';
import { emptyCrew } from '../../../src/work/crews/crew.ts';
import { CHANNEL, add, finished, git, opened, repository, stage, ticketText } from './stage.ts';

const WORKTREE = 'agents/A-c-1';

type Row = {
  readonly name: string;
  /** Changes the repository while Conch is not running. */
  readonly meanwhile: (repo: string) => void;
  /** The worker after each start, and the number of stored works. */
  readonly after: { readonly status: string; readonly ticket: string | null; readonly kept: number };
};

const ROWS: readonly Row[] = [
  {
    name: 'whose worktree is gone is idle',
    meanwhile: (repo) => rmSync(join(repo, WORKTREE), { recursive: true }),
    after: { status: 'idle', ticket: null, kept: 0 },
  },
  {
    name: 'whose worktree is gone, and its registration too, is idle',
    meanwhile(repo) {
      rmSync(join(repo, WORKTREE), { recursive: true });
      git(repo, 'worktree', 'prune');
    },
    after: { status: 'idle', ticket: null, kept: 0 },
  },
  {
    name: 'whose ticket was closed is idle, and its work is stored',
    meanwhile(repo) {
      const file = join(repo, '.tickets/c-1.md');
      writeFileSync(file, readFileSync(file, 'utf8').replace('status: open', 'status: closed'));
      git(repo, 'commit', '-qam', 'Close c-1');
    },
    after: { status: 'idle', ticket: null, kept: 1 },
  },
  {
    name: 'with changed files goes on with them',
    meanwhile: (repo) => writeFileSync(join(repo, WORKTREE, 'more.txt'), 'more\n'),
    after: { status: 'working', ticket: 'c-1', kept: 0 },
  },
  {
    name: 'whose worktree has lost its .git file goes on with its files',
    meanwhile: (repo) => rmSync(join(repo, WORKTREE, '.git')),
    after: { status: 'working', ticket: 'c-1', kept: 0 },
  },
  {
    name: 'whose worktree has lost its .git file and its registration goes on with its files',
    meanwhile(repo) {
      rmSync(join(repo, WORKTREE, '.git'));
      rmSync(join(repo, '.git/worktrees/A-c-1'), { recursive: true });
    },
    after: { status: 'working', ticket: 'c-1', kept: 0 },
  },
  {
    name: 'whose worktree has lost its registration goes on with its files',
    meanwhile: (repo) => rmSync(join(repo, '.git/worktrees/A-c-1'), { recursive: true }),
    after: { status: 'working', ticket: 'c-1', kept: 0 },
  },
  {
    name: 'whose git was ended in the middle goes on without its lock',
    meanwhile: (repo) => writeFileSync(join(repo, '.git/worktrees/A-c-1/index.lock'), ''),
    after: { status: 'working', ticket: 'c-1', kept: 0 },
  },
];

/** Returns the path of a store in which A works on c-1 and has changed a file, and the crew is stopped. */
async function interrupted(repo: string): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
  let steps = 0;
  const room = await stage(
    repo,
    (folder) => {
      writeFileSync(join(folder, 'half.txt'), `${(steps += 1)}\n`);
      return 'One step.';
    },
    {},
    path,
  );
  await room.command('/crew run');
  await until(() => steps > 0);
  await room.command('/crew stop');
  const worker = () => room.app.crews.state('web')?.workers[0];
  await until(() => worker()?.step?.queued === true);
  await room.stop();
  opened.length = 0;
  return path;
}

/** Starts the program, and stops it when no worker is leaving its ticket. Resolves with crew, refs and worktrees. */
async function restarted(repo: string, path: string) {
  const room = await stage(repo, () => 'One step.', {}, path);
  const state = () => room.app.crews.state('web');
  await until(() => state()?.workers.every(({ leaving }) => leaving === null) === true);
  const known = state();
  await room.stop();
  opened.length = 0;
  const refs = git(repo, 'for-each-ref', '--format=%(refname) %(objectname)');
  return { known, refs, worktrees: git(repo, 'worktree', 'list', '--porcelain') };
}

describe('after a start, a worker', () => {
  test.each(ROWS)('$name; another start changes nothing', async ({ meanwhile, after }) => {
    const repo = repository({ 'c-1': ticketText('c-1') });
    const path = await interrupted(repo);
    const half = join(repo, WORKTREE, 'half.txt');
    const before = readFileSync(half, 'utf8');
    mkdirSync(join(repo, 'agents/mine'));
    writeFileSync(join(repo, 'agents/mine/notes.txt'), 'mine\n');
    meanwhile(repo);
    const first = await restarted(repo, path);
    const [worker] = first.known?.workers ?? [];
    expect({ status: worker?.status, ticket: worker?.ticket?.id ?? null, kept: first.known?.kept.length }).toEqual(
      after,
    );
    expect(first.known?.finished).toEqual([]);
    const places = [
      ...(after.ticket === null ? [] : [readFileSync(half, 'utf8').trim()]),
      ...(first.known?.kept ?? []).map(({ ref }) => git(repo, 'show', `${ref}:half.txt`)),
    ];
    expect(places.filter((text) => text !== before.trim())).toEqual([]);
    expect(existsSync(join(repo, '.git/worktrees/A-c-1/index.lock'))).toBe(false);
    expect(await restarted(repo, path)).toEqual(first);
    expect(readFileSync(join(repo, 'agents/mine/notes.txt'), 'utf8')).toBe('mine\n');
  });
});

test('removes the locks of a worktree after a start, before the step in it continues', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
  const lock = join(repo, '.git/worktrees/A-c-1/index.lock');
  const begun = Promise.withResolvers<void>();
  const first = await stage(
    repo,
    () => {
      begun.resolve();
      return new Promise(() => undefined);
    },
    {},
    path,
  );
  await first.command('/crew run');
  await begun.promise;
  await first.stop();
  opened.length = 0;
  writeFileSync(lock, '');
  const seen: boolean[] = [];
  const second = await stage(
    repo,
    (folder) => {
      seen.push(existsSync(lock));
      add(folder, 'one.txt', 'one');
      return 'DONE';
    },
    {},
    path,
  );
  await finished(second, 1);
  expect(seen[0]).toBe(false);
});

test.each([
  [
    'is in no repository and on no branch',
    (repo: string) => {
      rmSync(join(repo, WORKTREE, '.git'));
      rmSync(join(repo, '.git/worktrees/A-c-1'), { recursive: true });
      git(repo, 'branch', '-D', 'agent/A-c-1');
    },
  ],
  [
    'has become a repository of its own',
    (repo: string) => {
      rmSync(join(repo, WORKTREE, '.git'));
      git(join(repo, WORKTREE), 'init', '-q');
    },
  ],
])('leaves a worktree that %s alone with its files, and tells people', async (_name, breaks) => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const path = await interrupted(repo);
  breaks(repo);
  const room = await stage(repo, () => 'One step.', {}, path);
  await until(() => room.app.crews.state('web')?.workers[0]?.status === 'idle');
  expect(readFileSync(join(repo, WORKTREE, 'half.txt'), 'utf8')).not.toBe('');
  const words = `c-1: ${join(repo, WORKTREE)} is no longer a worktree, so its files cannot be stored. They stay in this folder`;
  await until(() => room.posts.join('\n').includes(words));
});

test('a second Conch on a repository is refused with the process and host of the first, and takes over when it ended', async () => {
  const repo = repository({ 'c-1': ticketText('c-1') });
  const first = await stage(repo, () => 'DONE');
  const second = await stage(repo, () => 'DONE');
  expect(await second.command('/crew ps')).toMatchObject({
    ok: false,
    text: expect.stringContaining(`Another Conch (process ${process.pid} on ${hostname()}) works in ${repo}.`),
  });
  await first.stop();
  opened.splice(0, 1);
  const third = await stage(repo, () => 'DONE');
  expect(await third.command('/crew ps')).toMatchObject({ ok: true });
});

test('a crew that is stopped while it begins sets no timer and looks for no tickets', async () => {
  const begun = Promise.withResolvers<void>();
  const calls: string[] = [];
  const ports = {
    key: 'web',
    crews: {
      state: () => emptyCrew('web'),
      onChange: () => {},
      apply: async () => {
        await begun.promise;
        return { ok: true };
      },
    },
    clock: { now: () => 0 },
    timers: {
      after: () => {
        calls.push('timer');
        return { cancel: () => {} };
      },
    },
    work: { release: async () => {}, fetch: async () => false, look: async () => void calls.push('look') },
    workers: 0,
    failed: (_error: unknown, words: string) => void calls.push(words),
  } as unknown as CrewPorts;
  const runner = new CrewRunner(ports);
  const beginning = runner.begin();
  await runner.stop();
  begun.resolve();
  await beginning;
  await new Promise(setImmediate);
  expect(calls).toEqual([]);
});

test.each([
  ['opening its thread fails', () => Promise.reject(new Error('no threads here')), []],
  ['the crew refuses the assignment', async () => 'thread', ['claim released']],
])('a ticket keeps no slot and no claim when %s', async (_when, openThread, released) => {
  const calls: string[] = [];
  const ticket = { id: 'c-1', title: 'One', text: '', touches: [], deps: [] };
  const commands: readonly CrewCommand[] = [
    {
      type: 'CONFIGURE',
      settings: {
        channel: CHANNEL,
        maxWorkers: 1,
        maxSteps: 9,
        patience: 3,
        merge: 'auto',
        ticketCostMicros: null,
        main: 'main',
      },
    },
    { type: 'SPAWN', workers: [{ name: 'A', agent: 'web-a' }] },
    { type: 'RUN', by: 'ann' },
    { type: 'BASE', since: null, tip: 'b0', verdict: 'green', why: '' },
  ];
  const crew = commands.reduce((before, command) => {
    const decided = decideCrew(before, command, 0);
    return decided.ok ? (decided.state ?? before) : before;
  }, emptyCrew('web'));
  const runner = new CrewRunner({
    key: 'web',
    crews: { state: () => crew, onChange: () => {}, apply: async () => ({ ok: false, refusal: 'NOT_RUNNING' }) },
    clock: { now: () => 0 },
    timers: systemTimers,
    openThread,
    work: {
      fetch: async () => false,
      look: async () => ({ tip: 'b0', ready: [ticket], listed: [], waiting: 0 }),
      place: async () => ({ worktree: '/w', branch: 'agent/A-c-1', base: 'b0' }),
      takeSlot: async () => true,
      releaseSlot: (slot: number) => void calls.push(`slot ${slot} released`),
      claim: async (_id: string, prepare: () => Promise<void>) => {
        await prepare();
        return null;
      },
      unclaim: async () => void calls.push('claim released'),
    },
  } as unknown as CrewPorts);
  await runner.assign('A', 'c-1').catch((error: unknown) => calls.push(String(error)));
  expect(calls.filter((call) => !call.startsWith('Error'))).toEqual(['slot 0 released', ...released]);
});
