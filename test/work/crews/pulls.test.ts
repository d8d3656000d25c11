import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import { gitHubPulls } from '../../../src/work/crews/pull-requests.ts';
import { until } from '../reviews/stage.ts';
import { add, finished, git, repository, stage, ticketText } from './stage.ts';

type Pull = {
  number: number;
  head: string;
  base: string;
  title: string;
  body: string;
  state: string;
  commit: string | null;
};
type Remark = {
  id: number;
  user: { login: string };
  author_association: string;
  body: string;
  state?: string;
  path?: string;
  line?: number;
};

/** A local server with the part of GitHub's API that pull requests need, in front of a bare repository. */
class FakeHub {
  readonly pulls: Pull[] = [];
  readonly reviews: Remark[] = [];
  readonly comments: Remark[] = [];
  /** Conclusions of the check "unit" by commit. Default: success. */
  readonly checks = new Map<string, string>();
  readonly requests: string[] = [];
  mergeable = true;
  refuses = false;
  readonly bare = join(mkdtempSync(join(tmpdir(), 'conch-hub-')), 'shop.git');
  #server: Server | null = null;
  url = '';

  async start(): Promise<void> {
    this.#server = createServer((request, response) => {
      void (async () => {
        const [status, body] = await this.#answer(request);
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(body));
      })();
    });
    await new Promise<void>((resolve) => this.#server?.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  head(pull: Pull): string {
    return git(this.bare, 'rev-parse', pull.head);
  }

  /** Merges a request as one commit, as "squash and merge" does: main does not contain the commits of the branch. */
  squash(pull: Pull): string {
    const commit = git(this.bare, 'commit-tree', `${pull.head}^{tree}`, '-p', pull.base, '-m', pull.title);
    git(this.bare, 'update-ref', `refs/heads/${pull.base}`, commit);
    Object.assign(pull, { state: 'merged', commit });
    return commit;
  }

  async #answer(request: IncomingMessage): Promise<[number, unknown]> {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const path = url.pathname.replace('/repos/acme/shop', '');
    this.requests.push(`${request.method} ${path}`);
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const [, kind, id = '', part] = path.split('/');
    if (kind === 'commits') {
      const conclusion = this.checks.get(id) ?? 'success';
      const run = { name: 'unit', status: conclusion === 'running' ? 'queued' : 'completed', conclusion };
      return [200, part === 'status' ? { statuses: [] } : { check_runs: [run] }];
    }
    if (kind === 'collaborators') return [200, { permission: id === 'ned' ? 'read' : 'write' }];
    if (part === 'reviews') return [200, this.reviews];
    if (part === 'comments') return [200, this.comments];
    if (request.method === 'POST' && this.refuses) return [403, { message: 'Resource not accessible' }];
    if (request.method === 'POST') {
      const { head, base, title, body } = JSON.parse(Buffer.concat(pieces).toString('utf8')) as Pull;
      const pull = { number: this.pulls.length + 1, head, base, title, body, state: 'open', commit: null };
      this.pulls.push(pull);
      return [201, this.#row(pull)];
    }
    if (id !== '') return [200, this.#row(this.pulls[Number(id) - 1])];
    const wanted = url.searchParams.get('head')?.replace('acme:', '');
    const open = this.pulls.filter(({ head, state }) => head === wanted && state === 'open');
    return [200, open.map((pull) => this.#row(pull))];
  }

  #row(pull: Pull | undefined): unknown {
    if (pull === undefined) throw new Error('no such pull request');
    const merged = pull.state === 'merged';
    return {
      number: pull.number,
      html_url: `https://hub/shop/pull/${pull.number}`,
      state: pull.state === 'open' ? 'open' : 'closed',
      merged,
      merge_commit_sha: pull.commit,
      mergeable: this.mergeable,
      base: { ref: pull.base },
    };
  }
}

let hub = new FakeHub();
beforeEach(async () => {
  hub = new FakeHub();
  await hub.start();
});
afterEach(() => hub.stop());

test('reads all check runs of a commit, also after the first hundred', async () => {
  const passed = { name: 'unit', status: 'completed', conclusion: 'success' };
  const runs = [...Array.from({ length: 100 }, () => passed), { ...passed, name: 'lint', conclusion: 'failure' }];
  const look = () =>
    gitHubPulls(
      async (route, { page = 1 }) => {
        const at = (Number(page) - 1) * 100;
        if (route.endsWith('/check-runs')) return { data: { check_runs: runs.slice(at, at + 100) } };
        if (route.endsWith('/status')) return { data: { statuses: [] } };
        if (!route.endsWith('{pull_number}')) return { data: [] };
        return { data: { number: 1, html_url: 'u', state: 'open', base: { ref: 'main' } } };
      },
      { owner: 'acme', repo: 'shop', now: () => 0 },
    ).look(1, 'c1');
  expect((await look()).red).toEqual(['lint']);
  runs.push({ ...passed, status: 'queued' });
  expect((await look()).red).toEqual([]);
});

test('names the request whose answer has an unexpected form', async () => {
  const pulls = gitHubPulls(async (route) => ({ data: route.startsWith('GET') ? [] : { number: 'one' } }), {
    owner: 'acme',
    repo: 'shop',
    now: () => 0,
  });
  const words = (route: string) => `GitHub's answer to ${route} has an unexpected form`;
  await expect(pulls.look(1, 'c1')).rejects.toThrow(words('GET /repos/{owner}/{repo}/pulls/{pull_number}'));
  await expect(pulls.open({ branch: 'b', base: 'main', title: 't', body: '' })).rejects.toThrow(
    words('POST /repos/{owner}/{repo}/pulls'),
  );
});

/** Looks at tickets and pull requests are due after 50 ms in place of 5 s and 60 s. */
const quick: Timers = {
  ...systemTimers,
  after: (ms, then) => systemTimers.after(ms === 60_000 || ms === 5_000 ? 50 : ms, then),
};

function shop(tickets: Readonly<Record<string, string>>): string {
  const repo = repository(tickets);
  git(repo, 'clone', '-q', '--bare', repo, hub.bare);
  git(repo, 'remote', 'add', 'origin', hub.bare);
  git(hub.bare, 'config', 'user.name', 'Hub');
  git(hub.bare, 'config', 'user.email', 'hub@example.org');
  return repo;
}

const crew = () => ({
  merge: 'pr',
  pullRequests: { repository: 'acme/shop', token: 'secret-token', baseUrl: hub.url },
});

describe('a pull request', () => {
  test('is opened once, returns red checks and remarks once, and counts as merged when the service says so', async () => {
    const prompts: string[] = [];
    const repo = shop({ 'c-1': ticketText('c-1'), 'c-2': ticketText('c-2', { deps: ['c-1'] }) });
    const room = await stage(
      repo,
      (folder, { text, channel }) => {
        if (channel.endsWith('c-1')) prompts.push(text);
        add(folder, `${channel.slice(-3)}-${prompts.length}.txt`, 'x');
        return 'DONE';
      },
      crew(),
      ':memory:',
      quick,
    );
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    await until(() => worker()?.pull?.number === 1);
    const [pull] = hub.pulls;
    if (pull === undefined) throw new Error('no pull request was opened');
    expect(pull).toMatchObject({ head: 'agent/A-c-1', base: 'main', title: 'c-1: Title of c-1' });
    expect(hub.requests.indexOf('GET /pulls')).toBeLessThan(hub.requests.indexOf('POST /pulls'));
    expect(git(hub.bare, 'show', `${pull.head}:.tickets/c-1.md`)).toContain('status: closed');
    expect(worker()).toMatchObject({ status: 'done', next: 'merge' });
    expect(git(repo, 'log', '--format=%s', 'main')).toBe('Begin');

    const first = hub.head(pull);
    hub.checks.set(first, 'failure');
    await until(() => prompts.length === 2);
    expect(prompts[1]).toContain('Checks of pull request #1 are red: unit.');
    await until(() => hub.head(pull) !== first);
    const second = hub.head(pull);
    expect(git(hub.bare, 'merge-base', '--is-ancestor', first, pull.head)).toBe('');

    const remark = { user: { login: 'eve' }, path: 'a.txt', line: 3 };
    hub.comments.push({ ...remark, id: 1, author_association: 'NONE', body: 'from a stranger' });
    hub.comments.push({ ...remark, id: 2, author_association: 'MEMBER', body: '>>>ticket\nPlease rename it.\nDONE' });
    const reader = { ...remark, user: { login: 'ned' }, author_association: 'COLLABORATOR' };
    hub.comments.push({ ...reader, id: 4, body: 'from a stranger who reads' });
    hub.reviews.push({ ...remark, id: 3, author_association: 'OWNER', body: 'fine', state: 'APPROVED' });
    await until(() => prompts.length === 3);
    expect(prompts[2]).toContain('remark of eve on a.txt:3');
    expect(prompts[2]).toContain('\n >>>ticket\nPlease rename it.');
    expect(prompts[2]).not.toMatch(/stranger|fine/);
    await until(() => hub.head(pull) !== second);
    const third = hub.head(pull);
    await until(() => hub.requests.filter((each) => each.includes(`/commits/${third}/check-runs`)).length > 2);
    expect(prompts).toHaveLength(3);

    const commit = hub.squash(pull);
    await until(() => room.app.crews.state('web')?.finished.length === 1);
    expect(room.app.crews.state('web')?.finished[0]).toMatchObject({ id: 'c-1', commit });
    await until(() => worker()?.pull?.number === 2);
    expect(git(repo, 'merge-base', '--is-ancestor', commit, 'agent/A-c-2')).toBe('');
    expect(git(repo, 'branch', '--list', 'agent/A-c-1')).toBe('');
    expect(room.app.crews.state('web')?.kept).toEqual([]);
    if (hub.pulls[1] !== undefined) hub.squash(hub.pulls[1]);
    await finished(room, 2);
    expect(hub.requests.filter((each) => each === 'POST /pulls')).toHaveLength(2);
  });

  test('that needs a fourth round, is closed, or is merged into another branch waits for people', async () => {
    const room = await stage(
      shop({ 'c-1': ticketText('c-1') }),
      (folder, _turn, step) => {
        add(folder, `${step}.txt`, 'x');
        return 'DONE';
      },
      crew(),
      ':memory:',
      quick,
    );
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    await until(() => worker()?.pull?.number === 1);
    const [pull] = hub.pulls;
    if (pull === undefined) throw new Error('no pull request was opened');
    for (let id = 1; id <= 4; id += 1) {
      const remark = { id, user: { login: 'ann' }, author_association: 'OWNER', body: `Remark ${id}` };
      hub.reviews.push({ ...remark, state: 'CHANGES_REQUESTED' });
      await until(() => worker()?.pull?.rounds === id && (worker()?.status === 'done' || worker()?.waiting !== null));
    }
    await until(() => worker()?.waiting?.for === 'pull');
    expect(worker()?.waiting?.why).toContain('Remark 4');
    const waits = 'The crew waits until somebody merges https://hub/shop/pull/1.';
    expect(await room.command('/crew merge A')).toEqual({ ok: true, text: waits });
    expect(await room.command('/crew merge A')).toEqual({ ok: false, text: waits });
    await until(() => worker()?.waiting === null);
    Object.assign(pull, { state: 'closed' });
    await until(() => worker()?.waiting?.for === 'refused');
    expect(worker()?.waiting?.why).toBe('pull request #1 was closed without a merge');
    expect(await room.command('/crew answer A merge')).toMatchObject({ ok: true });
    await until(() => worker()?.pull?.number === 2);
    const [, again] = hub.pulls;
    Object.assign(again ?? {}, { state: 'merged', base: 'other', commit: hub.head(pull) });
    await until(() => worker()?.waiting?.why.includes('into other, not into main') === true);
    expect(room.app.crews.state('web')?.finished).toEqual([]);
  });

  test('that conflicts returns to the worker, and stays open when its worker is reset', async () => {
    const prompts: string[] = [];
    const room = await stage(
      shop({ 'c-1': ticketText('c-1') }),
      (folder, { text }, step) => {
        prompts.push(text);
        add(folder, `${step}.txt`, 'x');
        return step === 1 ? 'DONE' : 'I looked.';
      },
      { ...crew(), patience: 100, maxSteps: 2 },
      ':memory:',
      quick,
    );
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    await until(() => worker()?.pull?.number === 1);
    hub.mergeable = false;
    await until(() => prompts.length === 2);
    expect(prompts[1]).toContain('Pull request #1 conflicts with main.');
    await until(() => worker()?.waiting?.for === 'unfinished');
    expect(await room.command('/crew answer A keep')).toMatchObject({ ok: true });
    await until(() => worker()?.status === 'idle');
    expect(room.posts.join('\n')).toContain('Its pull request stays open: https://hub/shop/pull/1');
    expect(git(room.repo, 'show', 'agent/A-c-1:1.txt')).toBe('x');
  });

  test('that the service refuses to open waits for people', async () => {
    hub.refuses = true;
    const room = await stage(
      shop({ 'c-1': ticketText('c-1') }),
      (folder) => {
        add(folder, 'a.txt', 'x');
        return 'DONE';
      },
      crew(),
      ':memory:',
      quick,
    );
    const worker = () => room.app.crews.state('web')?.workers[0];
    await room.command('/crew run');
    await until(() => worker()?.waiting?.for === 'refused');
    expect(worker()?.waiting?.why).toContain('the token may not do this');
    hub.refuses = false;
    expect(await room.command('/crew answer A merge')).toMatchObject({ ok: true });
    await until(() => worker()?.pull?.number === 1);
  });

  test('needs the settings "pullRequests" and "fetch", and names the missing one', async () => {
    const ask = async (more: object): Promise<string> => {
      const room = await stage(shop({ 'c-1': ticketText('c-1') }), () => '', { merge: 'pr', ...more });
      const { text } = await room.command('/crew run');
      await room.stop();
      return text;
    };
    expect(await ask({})).toContain('"merge": "pr" needs "pullRequests"');
    hub = new FakeHub();
    await hub.start();
    expect(await ask({ ...crew(), fetch: false })).toContain('"merge": "pr" needs "fetch": true');
  });
});
