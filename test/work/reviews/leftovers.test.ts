import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/time.ts';
import { MACHINES_BESIDE_FLOORS } from '../../../src/runtime/machines.ts';
import { carryOut } from '../../../src/runtime/maintenance.ts';
import { openFloorStore } from '../../../src/turns/floor-store.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';
import { floorWithWork } from '../../../src/work/floor-with-work.ts';
import { load } from '../../config/world.ts';
import { folderForReviewer, refsOf, sweepReviews } from '../../../src/work/reviews/leftovers.ts';
import type { StoredReviews } from '../../../src/work/reviews/leftovers.ts';
import { reviewMachine } from '../../../src/work/reviews/review-binding.ts';
import type { ReviewCommand } from '../../../src/work/reviews/review-events.ts';
import type { ReviewState } from '../../../src/work/reviews/review.ts';
import { measureWork, showWork } from '../../../src/work/reviews/work-tree.ts';
import { openStage, until } from './stage.ts';
import { START } from './search.ts';

let place = '';
let root = '';
let scratch = '';

const git = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', root, '-c', 'user.name=Ann', '-c', 'user.email=ann@localhost', ...args], {
    encoding: 'utf8',
  }).trim();
const refs = (): readonly string[] =>
  git('for-each-ref', '--format=%(refname)', 'refs/conch')
    .split('\n')
    .filter((ref) => ref !== '');
const worktrees = (): readonly string[] =>
  git('worktree', 'list', '--porcelain')
    .split('\n')
    .flatMap((line) => /^worktree (.*)$/.exec(line)?.[1] ?? [])
    .toSorted();

beforeEach(() => {
  place = realpathSync(mkdtempSync(join(tmpdir(), 'conch-leftovers-')));
  [root, scratch] = [join(place, 'repository'), join(place, 'data', 'reviews')];
  execFileSync('git', ['init', '--quiet', root]);
  git('commit', '--quiet', '--allow-empty', '-m', 'Begin');
  mkdirSync(scratch, { recursive: true });
});

afterEach(() => rmSync(place, { recursive: true, force: true }));

const ENDED_AT = 5_000;

/** The state of a channel after `count` reviews. With `isOpen`, the last review is still open. */
function channelWith(
  channel: string,
  count: number,
  { isOpen = false, ticket = false, series = channel } = {},
): ReviewState {
  let state = reviewMachine.empty(channel);
  const give = (command: ReviewCommand, at: number): void => {
    const decision = reviewMachine.decide(state, command, at);
    state = decision.facts.reduce((before, fact) => reviewMachine.evolve(before, fact, at), state);
  };
  for (let number = 1; number <= count; number += 1) {
    const of = ticket ? { ticket: { crew: 'web', task: 't1' } } : {};
    give({ ...START, id: `${series}-${number}`, ...of }, ENDED_AT);
    if (number < count || !isOpen) give({ type: 'CANCEL', by: 'ann', reason: '' }, ENDED_AT);
  }
  return state;
}

const OWN = { owner: 'store1' };

/** Stores work of a review and copies it into a folder for the reviewer. Returns this folder. */
async function leave(id: string, at: { readonly owner: string } = OWN): Promise<string> {
  writeFileSync(join(root, 'work.txt'), id);
  const work = await measureWork(process.env, root, `${refsOf(at, id)}/1`, null);
  const shown = folderForReviewer({ scratch }, id);
  await showWork(process.env, root, work?.commit ?? '', shown);
  return shown;
}

const failures: unknown[] = [];
const stored = (...states: readonly ReviewState[]): StoredReviews => ({
  env: process.env,
  ...OWN,
  scratch,
  states: () => states,
  folders: () => [join(place, 'missing'), root, root],
  failed: (error) => failures.push(error),
});
const never = () => null;

describe('the stored work of ended reviews', () => {
  test('is removed: all folders, and the refs of all but the last review of each channel', async () => {
    const [first, last] = [await leave('c-1'), await leave('c-2')];
    expect(await sweepReviews(stored(channelWith('c', 2)), never)).toBe(1);
    expect([existsSync(first), existsSync(last), worktrees()]).toEqual([false, false, [root]]);
    expect(refs()).toEqual(['refs/conch/review/store1/c-2/1']);
    expect(await sweepReviews(stored(channelWith('c', 2)), never)).toBe(0);
    expect(failures).toEqual([]);
  });

  test('stays while its review is open, and when this program knows no review with its name', async () => {
    const kept = [await leave('c-2'), await leave('c-3'), await leave('other-1')];
    await leave('c-1', { owner: 'store2' });
    const before = refs();
    expect(await sweepReviews(stored(channelWith('c', 2, { isOpen: true })), () => Infinity)).toBe(0);
    expect([refs(), kept.every((each) => existsSync(each))]).toEqual([before, true]);
    expect(worktrees()).toEqual(expect.arrayContaining(kept));
  });

  test("never includes the user's worktrees, not even those whose folder is missing", async () => {
    const [away, here] = [join(place, 'usb-stick'), join(place, 'data', 'mine')];
    for (const each of [away, here]) git('worktree', 'add', '--quiet', '--detach', each);
    rmSync(away, { recursive: true });
    await leave('c-1');
    await leave('c-2');
    await sweepReviews(stored(channelWith('c', 2)), never);
    expect(worktrees()).toEqual([here, root, away]);
  });

  test('is removed when only the folder or only the registration is there', async () => {
    const [folder, registered] = [await leave('c-1'), await leave('c-2')];
    rmSync(registered, { recursive: true });
    git('worktree', 'remove', '--force', folder);
    mkdirSync(folder);
    await sweepReviews(stored(channelWith('c', 2)), never);
    expect([existsSync(folder), worktrees()]).toEqual([false, [root]]);
  });

  test('expires with the retention of its channel', async () => {
    await leave('c-1');
    await leave('d-1');
    const states = [channelWith('c', 1), channelWith('d', 1)];
    const at = (instant: number) => (channel: string) => (channel === 'c' ? instant : null);
    expect(await sweepReviews(stored(...states), at(ENDED_AT))).toBe(0);
    expect(refs()).toHaveLength(2);
    expect(await sweepReviews(stored(...states), at(ENDED_AT + 1), true)).toBe(1);
    expect(refs()).toHaveLength(2);
    expect(await sweepReviews(stored(...states), at(ENDED_AT + 1))).toBe(1);
    expect(refs()).toEqual(['refs/conch/review/store1/d-1/1']);
  });

  test('of a ticket is removed before the retention ends, because the branch of the ticket has it', async () => {
    await leave('t-1');
    expect(await sweepReviews(stored(channelWith('t', 1, { ticket: true })), never)).toBe(1);
    expect(refs()).toEqual([]);
  });

  test('of an earlier review of a ticket is removed, but not that of a review that did not begin yet', async () => {
    const ids = [1, 2, 3].map((number) => `t-5e55104a-${number}`);
    const shown: string[] = [];
    for (const id of ids) shown.push(await leave(id));
    const state = channelWith('t', 2, { isOpen: true, ticket: true, series: 't-5e55104a' });
    expect(await sweepReviews(stored(state), never)).toBe(1);
    expect(refs()).toEqual([2, 3].map((number) => `refs/conch/review/store1/t-5e55104a-${number}/1`));
    expect(shown.map((each) => existsSync(each))).toEqual([false, true, true]);
  });

  test('counts as removed only when git deleted it', async () => {
    await leave('c-1');
    const lock = join(root, '.git', 'refs/conch/review/store1/c-1/1.lock');
    writeFileSync(lock, '');
    const states = stored(channelWith('c', 2));
    expect([await sweepReviews(states, never), failures.length > 0]).toEqual([0, true]);
    rmSync(lock);
    expect(await sweepReviews(states, never)).toBe(1);
    failures.length = 0;
  });

  test('stays while one of two channels with equal names in refs needs it', async () => {
    await leave('c.x-1');
    const states = [channelWith('c.x', 1), channelWith('c-x', 1, { isOpen: true })];
    expect(await sweepReviews(stored(...states), () => Infinity)).toBe(0);
    expect(refs()).toHaveLength(1);
  });
});

test('a review whose program was killed between its end and its clean-up is cleaned up at the next start, once', async () => {
  const [path, copy, saved] = [join(place, 'a.db'), join(place, 'b.db'), join(place, 'saved')];
  const dataDir = join(place, 'data');
  git('worktree', 'add', '--quiet', '--detach', join(place, 'mine'));
  const agents = {
    dev: () => (writeFileSync(join(root, 'work.txt'), 'work'), 'One.'),
    qa: () => {
      // Copies the files that exist only until the review ends.
      cpSync(scratch, join(saved, 'reviews'), { recursive: true });
      cpSync(join(root, '.git/worktrees'), join(saved, 'worktrees'), { recursive: true });
      return 'PASS';
    },
  };
  const killed = await openStage({ agents, folder: root, path, dataDir });
  killed.app.reviews.onFacts((_channel, facts) => {
    if (!facts.some(({ type }) => type === 'reviewEnded')) return;
    for (const end of ['', '-wal']) if (existsSync(path + end)) copyFileSync(path + end, copy + end);
  });
  await killed.command('/review start dev qa write it');
  await killed.over();
  // The clean-up begins only after the review is over.
  await until(() => !worktrees().includes(join(scratch, 'console-demo-1')));
  await killed.app.stop();
  expect(worktrees()).toEqual([join(place, 'mine'), root]);
  cpSync(join(saved, 'reviews'), scratch, { recursive: true });
  cpSync(join(saved, 'worktrees'), join(root, '.git/worktrees'), { recursive: true });
  const left = join(scratch, 'console-demo-1');
  expect([existsSync(join(left, 'work.txt')), worktrees()]).toEqual([true, [left, join(place, 'mine'), root]]);

  const next = await openStage({ agents, folder: root, path: copy, dataDir });
  expect(next.review.outcome?.kind).toBe('passed');
  await until(() => !existsSync(left) && !worktrees().includes(left));
  await next.app.stop();
  expect(worktrees()).toEqual([join(place, 'mine'), root]);
  const before = [refs(), git('status', '--porcelain')];
  const third = await openStage({ agents, folder: root, path: copy, dataDir });
  await third.app.stop();
  expect([refs(), git('status', '--porcelain')]).toEqual(before);
  expect(worktrees()).toEqual([join(place, 'mine'), root]);
});

test('a review that a message opens deletes the stored work of the review before', async () => {
  const agents = { dev: () => (writeFileSync(join(root, 'work.txt'), 'work'), 'One.'), qa: () => 'PASS' };
  const channel = { order: 'review', review: { primary: 'dev', reviewer: 'qa' } };
  const stage = await openStage({ agents, folder: root, channel, dataDir: join(place, 'data') });
  await stage.write('Write it');
  await until(() => stage.review.outcome?.kind === 'passed');
  const first = refs();
  expect(first).not.toEqual([]);
  await stage.write('Write more');
  await until(() => stage.review.id.endsWith('-2') && stage.review.outcome?.kind === 'passed');
  await until(() => !refs().some((ref) => first.includes(ref)));
  await stage.app.stop();
});

test('stored work of a review expires when the database is pruned, and a dry run only counts it', async () => {
  const path = join(place, 'c.db');
  const dataDir = join(place, 'data');
  const agents = { dev: () => (writeFileSync(join(root, 'work.txt'), 'work'), 'One.'), qa: () => 'PASS' };
  const stage = await openStage({ agents, folder: root, path, dataDir });
  await stage.command('/review start dev qa write it');
  const endedAt = (await stage.over()).outcome?.at ?? 0;
  const config = load(
    {
      retention: { days: 2 },
      agents: ['dev', 'qa'].map((id) => ({ id, backend: { kind: 'command', command: 'unused', cwd: root } })),
      channels: [{ id: 'console:demo', agents: ['dev', 'qa'] }],
    },
    { CONCH_DATA_DIR: dataDir },
  );
  const prune = (store: FloorStore, days: number, isDryRun: boolean) =>
    carryOut(
      { act: 'prune', isDryRun },
      { store, config: () => config, clock: { now: () => endedAt + days * 86_400_000 } },
    );
  const said = (count: number) => ({ ok: true, text: expect.stringContaining(`the stored work of ${count} reviews`) });
  const before = refs();
  expect(before).toHaveLength(3);
  // The ended review removes its reviewer's folder by itself, at the same time.
  await until(() => worktrees().length === 1);
  expect((await prune(stage.store, 1, false)).text).toContain('Nothing is older');
  expect(await prune(stage.store, 3, true)).toEqual(said(1));
  expect(refs()).toEqual(before);
  await stage.app.stop();

  const store = openFloorStore({
    path,
    machine: floorWithWork,
    clock: systemClock(),
    textLimit: () => 4_000,
    words: () => null,
  });
  for (const machine of MACHINES_BESIDE_FLOORS) machine.hostIn(store);
  expect(await prune(store, 3, false)).toEqual(said(1));
  expect(refs()).toEqual([]);
  expect((await prune(store, 3, false)).text).toContain('Nothing is older');
  await store.close();
});
