import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openCrewWork } from '../../../src/work/crews/crew-work.ts';
import type { CrewPlan, CrewWorkPorts } from '../../../src/work/crews/crew-work.ts';
import { emptyCrew, idleWorker } from '../../../src/work/crews/crew.ts';
import type { Crew, Worker } from '../../../src/work/crews/crew.ts';
import { isInConflict } from '../../../src/work/crews/git/merge.ts';
import { fetchMain, remoteOf } from '../../../src/work/crews/git/repository.ts';
import type { Repository } from '../../../src/work/crews/git/repository.ts';
import { filesTickets } from '../../../src/work/crews/tickets/files-tickets.ts';
import { newTicketText, withStatus } from '../../../src/work/crews/tickets/ticket-file.ts';
import { scene } from './git/scene.ts';

/** Opens the work of a crew on a new repository. `changes`: settings that replace the defaults. */
async function opened(changes: Partial<CrewPlan> = {}, ports: Partial<CrewWorkPorts> = {}) {
  const place = scene();
  const plan = { id: 'web', repo: place.root, main: 'main', folder: 'agents', fetch: false, push: false, marks: 'm/' };
  const rest = {
    test: 'none',
    testTimeoutSeconds: 1,
    prepare: [],
    prepareTimeoutSeconds: 1,
    guardsCopy: false,
    meetingTurns: 0,
  };
  const work = await openCrewWork(
    { ...plan, ...rest, ...changes },
    {
      env: place.env,
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
      ...ports,
    },
  );
  return { ...place, work };
}

const OPEN = { title: 'One', text: '', status: 'open', deps: [], priority: 2, touches: [] } as const;

/** Makes a ticket and prepares its worktree. */
async function begun({ work, git }: Awaited<ReturnType<typeof opened>>) {
  const base = git('rev-parse', 'main');
  const place = await work.place('A', 'c-1', emptyCrew('web'), base);
  const ticket = { id: 'c-1', title: 'One', text: '', session: 's', slot: 0, thread: 't', at: 0, ...place };
  await work.prepare(ticket, 'A');
  return ticket;
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
])('a ticket whose name is taken by another %s gets another branch and folder', async (_what, more) => {
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

test('frees the repository when git fails while a crew is opened, and while it is closed', async () => {
  const { root, env, shim, open } = scene();
  const tickets = async (repository: Repository) => {
    await repository.git(['cat-file', '-e', 'missing']);
    throw new Error('impossible: git found a missing object');
  };
  await expect(opened({ repo: root }, { env, tickets })).rejects.toThrow('git cat-file failed');
  const failing = shim('case "$*" in *"worktree remove"*) exit 1;; esac; exec "$GIT" "$@"');
  const { work } = await opened({ repo: root }, { env: failing });
  await expect(open()).rejects.toThrow('Another Conch');
  await work.release();
  await open();
});

test('closes a merged ticket after a crash also when only the working copy has its file', async () => {
  const tickets = async (repository: Repository) => filesTickets(repository, '.tickets');
  const { work, root, git } = await opened({}, { tickets });
  const file = `${root}/.tickets/c-1.md`;
  mkdirSync(`${root}/.tickets`, { recursive: true });
  writeFileSync(
    file,
    newTicketText('c-1', { title: 'One', text: '', deps: [], touches: [], from: '', key: 'k', at: 0 }),
  );
  const finished = [{ id: 'c-1', commit: git('rev-parse', 'main'), worker: 'A', at: 0 }];
  await work.look({ ...emptyCrew('web'), finished });
  expect(readFileSync(file, 'utf8')).toContain('status: closed');
  await work.release();
});

test('a finished ticket is closed until that succeeds, and stays open when people open it again', async () => {
  const kept = new Map<string, string>();
  const outcomes: string[] = [];
  const source = {
    list: async () => ({ tickets: [{ ...OPEN, id: 'gh-1' }], unreadable: [] }),
    closingFile: async () => null,
    closed: async () => {
      outcomes.push(outcomes.length === 0 ? 'failed' : 'closed');
      if (outcomes.at(-1) === 'failed') throw new Error('GitHub could not be reached');
    },
  };
  const memory = {
    recall: (name: string) => kept.get(name) ?? null,
    remember: async (name: string, value: string) => void kept.set(name, value),
  };
  const { work, git } = await opened({}, { tickets: async () => source, memory });
  const crew = {
    ...emptyCrew('web'),
    finished: [{ id: 'gh-1', commit: git('rev-parse', 'main'), worker: 'A', at: 0 }],
  };
  await expect(work.look(crew)).rejects.toThrow('GitHub could not be reached');
  await work.look(crew);
  await work.look(crew);
  expect(outcomes).toEqual(['failed', 'closed']);
  await work.release();
});

test('a proposed ticket takes the next id when a file that cannot be read has its id', async () => {
  const { open, git, write } = scene();
  const tickets = filesTickets(await open(), '.tickets');
  const order = { title: 'One', text: '', deps: [], touches: [], from: '', key: 'k', at: 0 };
  const create = async () => (await tickets.create?.(order, git('rev-parse', 'main')))?.id;
  const first = await create();
  write(`.tickets/${first}.md`, 'no front matter');
  const second = await create();
  expect(second).toMatch(/^c-\w{4}$/);
  expect(second).not.toBe(first);
});

test('clearing a worktree again after a crash returns the same stored work and branch', async () => {
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

test('keeps a branch whose commits are stored nowhere else when its worktree is gone', async () => {
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

test('a ticket that is continued gets its names again, and the base of its earlier branch', async () => {
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

test('stores commits that are on no branch when their worktree is cleared', async () => {
  const stage = await opened();
  const ticket = await begun(stage);
  stage.gitIn(ticket.worktree, 'checkout', '--quiet', '--detach');
  const commit = stage.commit('work.txt', 'work', ticket.worktree);
  const { kept } = await stage.work.clear(ticket, { why: 'removed', merged: null, goesOn: true });
  expect(stage.git('rev-parse', `${kept ?? ''}^`)).toBe(commit);
  await stage.work.release();
});

test('counts instruction files that an agent wrote as work, and those that Conch wrote not', async () => {
  const stage = await opened();
  const ticket = await begun(stage);
  expect(await stage.work.measure(ticket, 'A', false)).toMatchObject({ dirty: false });
  writeFileSync(`${ticket.worktree}/AGENTS.md`, 'Run the tests first.');
  expect(await stage.work.measure(ticket, 'A', false)).toMatchObject({ dirty: true });
  expect(await stage.work.measure(ticket, 'A', true)).toMatchObject({ dirty: false, ahead: 1, files: 1 });
  expect(stage.git('show', `${ticket.branch}:AGENTS.md`)).toBe('Run the tests first.');
  writeFileSync(`${ticket.worktree}/CLAUDE.md`, 'Run them twice.');
  const { kept } = await stage.work.clear(ticket, { why: 'removed', merged: null, goesOn: true });
  expect(stage.git('diff', '--name-only', ticket.branch, kept ?? '')).toBe('CLAUDE.md');
  await stage.work.release();
});

test.each([
  ['has no settings', ''],
  ['writes diffs without prefixes', '[diff]\n\tnoprefix = true\n'],
  ['writes diffs with other prefixes', '[diff]\n\tmnemonicPrefix = true\n'],
])('finds skipped tests in files that a branch marks as binary, when the user’s git %s', async (_what, settings) => {
  const stage = await opened();
  stage.commit('test/x.test.js', 'test("a", () => {});\n');
  stage.write('../.gitconfig', `[user]\n\tname = Ann\n\temail = ann@localhost\n${settings}`);
  const ticket = await begun(stage);
  stage.commit('test/x.test.js', 'test.skip("a", () => {});\n', ticket.worktree);
  stage.commit('.gitattributes', 'test/** -diff\n', ticket.worktree);
  expect((await stage.work.test(ticket)).weakened).toMatch(/^test\/x\.test\.js skips a test:\n/);
  await stage.work.release();
});

test('says what it leaves out of weaker tests, and of an output with long lines', async () => {
  const output = `${'x'.repeat(1_048_000)}\nnot ok`;
  const run = async () => ({ code: 1, timedOut: false, output });
  const stage = await opened({ test: 'npm test' }, { run });
  const tests = (line: string) => Array.from({ length: 99 }, (_, at) => `${line}("${at}", () => {});\n`).join('');
  const files = Array.from({ length: 12 }, (_, at) => `test/${at}.test.js`);
  for (const file of files) stage.commit(file, tests('test'));
  const ticket = await begun(stage);
  for (const file of files) stage.commit(file, tests('test.skip'), ticket.worktree);
  const result = await stage.work.test(ticket);
  expect(result.weakened).toMatch(/\n… 1\d\d more lines\n.*\n… 2 more parts with weaker tests$/s);
  expect(result.weakened.length).toBeLessThan(17_000);
  expect(result.output).toMatch(/^npm test ended with code 1\n… 1028007 characters before this\nx+\nnot ok$/);
  await stage.work.release();
});

test('a repository that is reached by a link has the same folders', async () => {
  const { open, root, home } = scene();
  const link = `${home}/link`;
  symlinkSync(root, link);
  const repository = await open({}, link);
  expect(repository).toMatchObject({ root, commonDir: `${root}/.git` });
});

test('measures a branch with more changed files than fit into one command line', async () => {
  const stage = await opened();
  const ticket = await begun(stage);
  const blob = stage.git('hash-object', '-w', 'a.txt');
  const names = Array.from({ length: 900 }, (_, at) => `${`${'d'.repeat(250)}/`.repeat(11)}${at}.txt`);
  const input = names.map((name) => `100644 ${blob}\t${name}\n`).join('');
  execFileSync('git', ['-C', ticket.worktree, 'update-index', '--add', '--index-info'], { input, env: stage.env });
  stage.gitIn(ticket.worktree, 'commit', '--quiet', '-m', 'Many files');
  stage.gitIn(ticket.worktree, 'reset', '--quiet', '--hard');
  expect(await stage.work.measure(ticket, 'A', false)).toMatchObject({ files: 900, unmerged: [] });
  await stage.work.release();
});

test.each(['\n', '\r\n'])('a ticket without a status can be closed (%j)', (end) => {
  const lines = (...more: readonly string[]) => ['---', 'id: c-1', ...more, '---', '# One', ''].join(end);
  expect(withStatus(lines(), 'closed')).toBe(lines('status: closed'));
});

test('fetches main from the upstream branch that it tracks', async () => {
  const { root, home, git, commit, open } = scene();
  git('clone', '--quiet', '--bare', root, `${home}/remote.git`);
  git('-C', `${home}/remote.git`, 'branch', '-m', 'main', 'trunk');
  git('remote', 'add', 'origin', `${home}/remote.git`);
  git('fetch', '--quiet', 'origin');
  git('branch', '--quiet', '--set-upstream-to', 'origin/trunk', 'main');
  const tip = commit('b.txt', 'b');
  const repository = await open();
  expect(await remoteOf(repository)).toEqual({ name: 'origin', branch: 'trunk' });
  git('-C', `${home}/remote.git`, 'fetch', '--quiet', root, 'main:trunk');
  expect(await fetchMain(repository)).toEqual({ remote: 'origin', commit: tip, problem: null });
});

test('reports no conflict when git is too old to test for one, and leaves the conflict to the merge', async () => {
  const { git, commit, shim, open } = scene();
  const env = shim('case " $* " in *" merge-tree "*) echo usage >&2; exit 129;; esac\nexec "$GIT" "$@"');
  const base = git('rev-parse', 'main');
  const one = commit('a.txt', 'one');
  git('checkout', '--quiet', '-b', 'other', base);
  const other = commit('a.txt', 'other');
  const known = await open();
  expect(await isInConflict(known, one, other)).toBe(true);
  known.release();
  expect(await isInConflict(await open({ env }), one, other)).toBe(false);
});
