import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openCrewWork } from '../../../src/work/crews/crew-work.ts';
import { emptyCrew, idleWorker } from '../../../src/work/crews/crew.ts';
import type { Crew, Worker } from '../../../src/work/crews/crew.ts';
import { scene } from './git/scene.ts';

/** The work of a crew on a new repository. */
async function opened() {
  const { root, env, git, gitIn, commit } = scene();
  const plan = { id: 'web', repo: root, main: 'main', folder: 'agents', fetch: false, push: false, marks: 'm/' };
  const rest = {
    test: 'none',
    testTimeoutSeconds: 1,
    prepare: [],
    prepareTimeoutSeconds: 1,
    guardsCopy: false,
    meetingTurns: 0,
  };
  const work = await openCrewWork(
    { ...plan, ...rest },
    {
      env,
      run: () => Promise.reject(new Error('nothing runs')),
      endMarked: async () => {},
      answerTo: () => null,
      tickets: async () => ({
        list: async () => ({ tickets: [], unreadable: [] }),
        closingFile: async () => null,
        closed: async () => {},
      }),
      pulls: async () => null,
      ticketsDir: null,
      say: () => {},
      carried: async () => {},
      memory: { recall: () => null, remember: async () => {} },
    },
  );
  return { work, root, git, gitIn, commit };
}

function holds(name: string, id: string, branch: string, how: 'ticket' | 'left' = 'ticket'): Worker {
  const place = { id, session: 's', worktree: `/r/${branch}`, branch };
  const ticket = { ...place, title: '', text: '', base: 'b', slot: 0, thread: 't', at: 0 };
  return { ...idleWorker({ name, agent: name, startedAt: 0 }), ...(how === 'left' ? { left: place } : { ticket }) };
}

test.each<readonly [string, Partial<Crew>]>([
  ['ticket at work', { workers: [holds('A-c', '1', 'agent/A-c-1')] }],
  ['ticket whose worktree was left', { workers: [holds('A', 'c.1', 'agent/A-c-1', 'left')] }],
  ['ticket with a kept branch', { branches: [{ id: 'C-1', branch: 'agent/A-C-1' }] }],
  ['merged ticket', { finished: [{ id: 'c#1', commit: 'm', worker: 'A', at: 0 }] }],
])('a ticket whose name would be that of another %s gets another branch and folder', async (_what, more) => {
  const { work, root, git } = await opened();
  const base = git('rev-parse', 'main');
  const crew = { ...emptyCrew('web'), ...more };
  expect(await work.place('A', 'c-1', crew, base)).toEqual({
    worktree: `${root}/agents/A-c-1-2`,
    branch: 'agent/A-c-1-2',
    base,
  });
  expect(await work.place('A', 'c-2', crew, base)).toMatchObject({ branch: 'agent/A-c-2' });
  await work.release();
});

test('a worktree that is cleared again after a crash has the same stored work and branch', async () => {
  const { work, root, git, gitIn, commit } = await opened();
  const worktree = `${root}/agents/A-c-1`;
  const branch = 'agent/A-c-1';
  git('worktree', 'add', '--quiet', '-b', branch, worktree);
  commit('half.txt', 'half', worktree);
  writeFileSync(`${worktree}/more.txt`, 'more');
  const left = { id: 'c-1', session: 's', worktree, branch };
  const how = { why: 'removed', merged: null, goesOn: true } as const;
  const cleared = { kept: 'refs/conch/kept/A-c-1/1', branch };
  expect(await work.clear(left, how)).toEqual(cleared);
  expect(existsSync(worktree)).toBe(false);
  expect(await work.clear(left, how)).toEqual(cleared);
  expect(gitIn(root, 'show', `${cleared.kept}:more.txt`)).toBe('more');
  await work.release();
});

test('a branch with commits that are stored nowhere stays when its worktree is gone', async () => {
  const { work, root, git, commit } = await opened();
  const worktree = `${root}/agents/A-c-1`;
  const branch = 'agent/A-c-1';
  git('update-ref', 'refs/conch/kept/A-c-1/1', 'main');
  git('worktree', 'add', '--quiet', '-b', branch, worktree);
  const tip = commit('half.txt', 'half', worktree);
  rmSync(worktree, { recursive: true });
  await work.clear({ id: 'c-1', session: 's', worktree, branch }, { why: 'over', merged: null, goesOn: false });
  expect(git('rev-parse', branch)).toBe(tip);
  await work.release();
});

test('a ticket that goes on has its own names again, and begins where its branch did', async () => {
  const { work, git, commit } = await opened();
  const base = git('rev-parse', 'main');
  git('branch', 'agent/A-c-1', git('commit-tree', '-p', base, '-m', 'half', `${base}^{tree}`));
  const branches = [{ id: 'c-1', branch: 'agent/A-c-1' }];
  const now = commit('b.txt', 'b');
  const crew = { ...emptyCrew('web'), branches, workers: [holds('A', 'c-1', 'agent/A-c-1', 'left')] };
  const place = { branch: 'agent/A-c-1', from: 'agent/A-c-1', base };
  expect(await work.place('A', 'c-1', crew, now)).toMatchObject(place);
  expect(await work.place('B', 'c-1', crew, now)).toMatchObject({ ...place, branch: 'agent/B-c-1' });
  git('branch', '-D', 'agent/A-c-1');
  expect(await work.place('B', 'c-1', crew, now)).toEqual(
    expect.not.objectContaining({ from: expect.anything() as unknown }),
  );
  await work.release();
});
