import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { CrewConfig } from '../../../../src/config/config.ts';
import { ticketsOf } from '../../../../src/runtime/crews/ticket-sources.ts';
import type { Repository } from '../../../../src/work/crews/git/repository.ts';
import { isClosed } from '../../../../src/work/crews/tickets/ticket.ts';
import type { TicketSource } from '../../../../src/work/crews/tickets/ticket.ts';

const NOW = Date.UTC(2026, 10, 24, 8);
const DAY_MS = 86_400_000;

type Issue = {
  number: number;
  title: string;
  body: string | null;
  state: string;
  updated_at: string;
  labels: string[];
  assignees: { login: string }[];
};
type Comment = { id: number; issue: number; body: string; user: { login: string }; author_association: string };
type Answer = { readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> };

/** A local server with the part of GitHub's API that a crew uses. */
class FakeGitHub {
  readonly issues: Issue[] = [];
  readonly labelled: Record<number, string> = {};
  /** The versions of texts, by issue: seconds after the label, and who wrote it. */
  readonly edits: Record<number, readonly (readonly [number, string | null])[]> = {};
  /** Who changed the title after the label, by issue. */
  readonly renamed: Record<number, string> = {};
  readonly comments: Comment[] = [];
  readonly permissions: Record<string, string> = { ann: 'write', eve: 'read', 'conch-bot': 'write' };
  readonly requests: string[] = [];
  readonly tokens = new Set<string>();
  graphqlError: string | null = null;
  setsLabels = true;
  /** Answers that replace the next answers of the server, in this order. */
  readonly refusals: Answer[] = [];
  /** Answers before all others, by path. Each is given once. */
  readonly refusalsAt = new Map<string, Answer>();
  #server: Server | null = null;

  async start(): Promise<string> {
    this.#server = createServer((request, response) => {
      void this.#serve(request, response);
    });
    await new Promise<void>((resolve) => this.#server?.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  issue(number: number, body: string | null = null, by = 'ann'): Issue {
    const issue: Issue = {
      number,
      title: `Issue ${number}`,
      body,
      state: 'open',
      updated_at: `t${number}`,
      labels: ['conch'],
      assignees: [],
    };
    this.issues.push(issue);
    this.labelled[number] = by;
    return issue;
  }

  claim(issue: number, by: string, until: number, login = 'ann'): void {
    const body = `<!-- conch claim by=${by} until=${new Date(until).toISOString()} -->`;
    this.comments.push({
      id: this.comments.length + 1,
      issue,
      body,
      user: { login },
      author_association: 'COLLABORATOR',
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, body = {}, headers = {} } = await this.#answer(request);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(status === 204 ? undefined : JSON.stringify(body));
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const { method = 'GET' } = request;
    this.requests.push(`${method} ${url.pathname}`);
    this.tokens.add(request.headers.authorization ?? '');
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const refusal = this.refusalsAt.get(url.pathname) ?? this.refusals.shift();
    this.refusalsAt.delete(url.pathname);
    if (refusal !== undefined) return refusal;
    const text = Buffer.concat(pieces).toString('utf8');
    const given = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    return this.#row(method, url, given);
  }

  #row(method: string, url: URL, given: Record<string, unknown>): Answer {
    const path = url.pathname.replace('/repos/acme/shop', '');
    const [, name, first = '', second = ''] = path.split('/');
    const number = Number(first);
    const page = (rows: readonly unknown[]): Answer => {
      const from = (Number(url.searchParams.get('page') ?? '1') - 1) * 100;
      return { status: 200, body: rows.slice(from, from + 100) };
    };
    if (path === '/graphql' && this.graphqlError !== null)
      return { status: 200, body: { data: null, errors: [{ message: this.graphqlError }] } };
    if (path === '/graphql') {
      const { number: asked } = given['variables'] as { number: number };
      const nodes = (this.edits[asked] ?? []).map(([seconds, login]) => ({
        editedAt: labelledAt(seconds),
        editor: login === null ? null : { login },
      }));
      const userContentEdits = { totalCount: nodes.length, nodes: nodes.slice(0, 100) };
      return { status: 200, body: { data: { repository: { issue: { userContentEdits } } } } };
    }
    if (path === '/user') return { status: 200, body: { login: 'conch-bot' } };
    if (name === 'collaborators') return { status: 200, body: { permission: this.permissions[first] ?? 'none' } };
    if (method === 'DELETE' && second === 'assignees') {
      const gone = given['assignees'] as string[];
      const issue = this.issues.find((each) => each.number === number);
      if (issue !== undefined) issue.assignees = issue.assignees.filter(({ login }) => !gone.includes(login));
      return { status: 200, body: issue };
    }
    if (method === 'DELETE') {
      const at = this.comments.findIndex(({ id }) => id === Number(second));
      this.comments.splice(at, 1);
      return { status: 204 };
    }
    if (first === 'comments' && method === 'PATCH') {
      const comment = this.comments.find(({ id }) => id === Number(second));
      return { status: 200, body: Object.assign(comment ?? {}, given) };
    }
    if (first === '' && method === 'POST') {
      const issue = this.issue(this.issues.length + 1, String(given['body']));
      Object.assign(issue, { title: given['title'], labels: this.setsLabels ? given['labels'] : [] });
      return { status: 201, body: { ...issue, labels: issue.labels.map((label) => ({ name: label })) } };
    }
    if (first === '') {
      const [label, state] = [url.searchParams.get('labels'), url.searchParams.get('state')];
      const found = this.issues.filter((each) => label === null || each.labels.includes(label));
      const asked = found.filter((each) => state === 'all' || each.state === 'open');
      return page(asked.map((each) => ({ ...each, labels: each.labels.map((text) => ({ name: text })) })));
    }
    const issue = this.issues.find((each) => each.number === number);
    if (issue === undefined) return { status: 404, body: { message: 'Not Found' } };
    if (second === 'events')
      return page([
        { event: 'renamed', created_at: labelledAt(-9), actor: { login: 'eve' } },
        {
          event: 'labeled',
          created_at: labelledAt(0),
          label: { name: 'conch' },
          actor: { login: this.labelled[number] },
        },
        ...(this.renamed[number] === undefined
          ? []
          : [{ event: 'renamed', created_at: labelledAt(9), actor: { login: this.renamed[number] } }]),
      ]);
    if (second === 'assignees') {
      issue.assignees.push(...(given['assignees'] as string[]).map((login) => ({ login })));
      return { status: 201 };
    }
    if (second === 'comments' && method === 'POST') {
      const id = (this.comments.at(-1)?.id ?? 0) + 1;
      const comment = {
        id,
        issue: number,
        body: String(given['body']),
        user: { login: 'conch-bot' },
        author_association: 'COLLABORATOR',
      };
      this.comments.push(comment);
      return { status: 201, body: comment };
    }
    if (second === 'comments') return page(this.comments.filter(({ issue: of }) => of === number));
    if (method === 'PATCH') issue.state = String(given['state']);
    return { status: 200, body: issue };
  }
}

function labelledAt(seconds: number): string {
  return new Date(NOW - DAY_MS + seconds * 1_000).toISOString().replace('.000', '');
}

const servers: FakeGitHub[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

let now = NOW;
async function stage(): Promise<{ hub: FakeGitHub; open: (crew?: string) => Promise<TicketSource> }> {
  now = NOW;
  const hub = new FakeGitHub();
  servers.push(hub);
  const baseUrl = await hub.start();
  const tickets = { kind: 'github', repository: 'acme/shop', label: 'conch', token: 'a-token', baseUrl };
  const open = (crew = 'web') =>
    ticketsOf({ id: crew, tickets } as unknown as CrewConfig, { commonDir: '/r/.git' } as Repository, {
      now: () => now,
    });
  return { hub, open };
}

describe('issues of GitHub', () => {
  test('are tickets with title, text and the issues that they depend on', async () => {
    const { hub, open } = await stage();
    hub.issue(1, 'Do it.\n\nDepends on #2 and #3\n- blocked by: #4\nIt is not related to #5');
    hub.issue(2);
    hub.issue(3).labels = [];
    Object.assign(hub.issue(4), { labels: [], state: 'closed' });
    const { tickets, unreadable } = await (await open()).list();
    expect(unreadable).toEqual([]);
    expect(tickets[0]).toMatchObject({ id: 'gh-1', title: 'Issue 1', deps: ['gh-2', 'gh-3', 'gh-4'], status: 'open' });
    expect(tickets.map(({ id, status }) => `${id} ${status}`)).toEqual([
      'gh-1 open',
      'gh-2 open',
      'gh-3 in_progress',
      'gh-4 closed',
    ]);
    expect([...hub.tokens]).toEqual(['token a-token']);
  });

  test('are read to the last page, without pull requests', async () => {
    const { hub, open } = await stage();
    for (let number = 1; number <= 205; number += 1) hub.issue(number);
    Object.assign(hub.issues[7] ?? {}, { pull_request: { url: 'x' } });
    expect((await (await open()).list()).tickets).toHaveLength(204);
  });

  test('labelled by somebody without write permission are listed with the reason, and are no tickets', async () => {
    const { hub, open } = await stage();
    hub.issue(1, null, 'eve');
    hub.issue(2, null, 'stranger');
    expect(await (await open()).list()).toEqual({
      tickets: [],
      unreadable: [
        { id: 'gh-1', why: 'eve, who set the label "conch", may not write to the repository' },
        { id: 'gh-2', why: 'stranger, who set the label "conch", may not write to the repository' },
      ],
    });
  });

  test.each<[string, (hub: FakeGitHub) => void]>([
    ['text was changed before the label was set', (hub) => (hub.edits[1] = [[-1, 'eve']])],
    ['text was changed later by somebody who may write', (hub) => (hub.edits[1] = [[60, 'ann']])],
    ['title was changed later by somebody who may write', (hub) => (hub.renamed[1] = 'ann')],
  ])('whose %s are tickets', async (_, change) => {
    const { hub, open } = await stage();
    hub.issue(1);
    change(hub);
    expect(await (await open()).list()).toMatchObject({ tickets: [{ id: 'gh-1' }], unreadable: [] });
  });

  const EVE_THEN_ANN = [
    [60, 'eve'],
    [90, 'ann'],
  ] as const;
  test.each<[string, string, (hub: FakeGitHub) => void]>([
    ['text', 'eve', (hub) => (hub.edits[1] = [[0, 'eve']])],
    ['text; then somebody who may write changed it', 'eve', (hub) => (hub.edits[1] = EVE_THEN_ANN)],
    ['title', 'eve', (hub) => (hub.renamed[1] = 'eve')],
    ['text; the account is deleted', 'somebody unknown', (hub) => (hub.edits[1] = [[60, null]])],
    [
      'text; only 100 of 101 versions are listed',
      'somebody unknown',
      (hub) => (hub.edits[1] = Array.from({ length: 101 }, () => [-1, 'ann'] as const)),
    ],
  ])('that a stranger changed after the label was set are no tickets: the %s', async (_, who, change) => {
    const { hub, open } = await stage();
    hub.issue(1);
    change(hub);
    const why = `${who}, who may not write to the repository, changed it after the label "conch" was set. Read it, then set the label again`;
    expect(await (await open()).list()).toEqual({ tickets: [], unreadable: [{ id: 'gh-1', why }] });
  });

  test.each([
    ['Resource not accessible by personal access token', 'Resource not accessible by personal access token'],
    ['API rate limit already exceeded', 'GitHub asks to wait until'],
  ])('whose changes GitHub does not tell are an error: %s', async (message, words) => {
    const { hub, open } = await stage();
    hub.issue(1);
    hub.graphqlError = message;
    await expect((await open()).list()).rejects.toThrow(words);
  });

  test('are fetched at most once in 30 seconds, and labels are looked up once for each change', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    await source.list();
    const first = hub.requests.length;
    await source.list();
    expect(hub.requests).toHaveLength(first);
    now += 30_000;
    await source.list();
    expect(hub.requests.slice(first)).toEqual(['GET /repos/acme/shop/issues']);
  });

  test('are made for a proposed ticket, once, with the label and what they depend on', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    const order = { key: 'web-p-1-x', from: 'gh-1', title: 'More', text: 'Why', deps: ['gh-1'], touches: [], at: NOW };
    expect(await source.create?.(order, '')).toEqual({ id: 'gh-2', file: null });
    expect(await source.create?.(order, '')).toEqual({ id: 'gh-2', file: null });
    const { tickets } = await source.list();
    expect(tickets.map(({ id, title, deps }) => [id, title, deps])).toEqual([
      ['gh-1', 'Issue 1', []],
      ['gh-2', 'More', ['gh-1']],
    ]);
  });

  test('are made once for a proposed ticket when the token may not set labels, and are tickets once people set it', async () => {
    const { hub, open } = await stage();
    hub.setsLabels = false;
    const source = await open();
    const order = { key: 'web-p-1-x', from: '', title: 'More', text: 'Why', deps: [], touches: [], at: NOW };
    for (let time = 0; time < 2; time += 1)
      await expect(source.create?.(order, '')).rejects.toThrow('GitHub did not set the label "conch" on #1');
    expect(hub.issues).toHaveLength(1);
    hub.issues[0]?.labels.push('conch');
    expect(await source.create?.(order, '')).toEqual({ id: 'gh-1', file: null });
    expect(hub.issues).toHaveLength(1);
  });

  test('whose lookup has an unexpected form are an error that names the request', async () => {
    const { hub, open } = await stage();
    hub.refusalsAt.set('/repos/acme/shop/issues/1', { status: 200, body: { number: 'one' } });
    await expect((await open()).isClosed?.('gh-1')).rejects.toThrow(
      /^GitHub's answer to GET \/repos\/\{owner\}\/\{repo\}\/issues\/\{issue_number\} has an unexpected form$/,
    );
  });

  test('are made of a message, once', async () => {
    const { hub, open } = await stage();
    const source = await open();
    const order = { key: 'web-m', from: '', title: 'A header', text: '> Ada', deps: [], touches: [], at: NOW };
    expect(await source.create?.(order, '')).toEqual({ id: 'gh-1', file: null });
    expect(await source.create?.(order, '')).toEqual({ id: 'gh-1', file: null });
    expect(hub.issues[0]?.body).toBe('> Ada\n\n<!-- conch proposal=web-m -->');
  });

  test('are claimed by one comment with a lease, by the same crew once', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    expect(await source.claim?.('gh-1')).toBeNull();
    expect(await source.claim?.('gh-1')).toBeNull();
    expect(hub.comments).toHaveLength(1);
    expect(hub.comments[0]?.body).toContain(new Date(NOW + 7 * DAY_MS).toISOString().slice(0, 10));
    expect(hub.issues[0]?.assignees).toEqual([{ login: 'conch-bot' }]);
  });

  test('get no claim when what must be done before fails; it is not done for issues that others have claimed', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    hub.issue(2);
    hub.claim(2, 'other', NOW + DAY_MS);
    const source = await open();
    const fail = () => Promise.reject(new Error('no thread'));
    await expect(source.claim?.('gh-1', fail)).rejects.toThrow('no thread');
    expect(hub.comments).toHaveLength(1);
    expect(await source.claim?.('gh-2', fail)).toContain('other has claimed it until');
  });

  test('are assigned by the next claim when a rate limit came after the comment', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    hub.refusalsAt.set('/user', { status: 429, headers: { 'retry-after': '120' }, body: { message: 'slow down' } });
    await expect(source.claim?.('gh-1')).rejects.toThrow('GitHub asks to wait until');
    expect([hub.comments.length, hub.issues[0]?.assignees]).toEqual([1, []]);
    now += 120_000;
    expect(await source.claim?.('gh-1')).toBeNull();
    expect([hub.comments.length, hub.issues[0]?.assignees]).toEqual([1, [{ login: 'conch-bot' }]]);
  });

  test('keep their claim when the crew claims them again before it ends', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    for (const days of [0, 3, 3, 3]) {
      now += days * DAY_MS;
      expect(await source.claim?.('gh-1')).toBeNull();
    }
    expect(hub.comments).toHaveLength(1);
    expect(await (await open('other')).claim?.('gh-1')).toMatch(/^web-\w+ has claimed it until/);
  });

  test('that another crew has claimed cannot be claimed until its lease has expired', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    hub.claim(1, 'other', NOW + DAY_MS);
    const source = await open();
    expect(await source.claim?.('gh-1')).toContain('other has claimed it until');
    expect(hub.comments).toHaveLength(1);
    now += 2 * DAY_MS;
    expect(await source.claim?.('gh-1')).toBeNull();
  });

  test.each([
    ['its lease ends', (_hub: FakeGitHub) => void (now += 2 * DAY_MS)],
    ['its assignee changes', (hub: FakeGitHub) => hub.issues[0]?.assignees.push({ login: 'ann' })],
  ])('that another crew has claimed are listed, and not claimed again until %s', async (_name, change) => {
    const { hub, open } = await stage();
    hub.issue(1, 'Depends on #2');
    hub.issue(2);
    hub.claim(1, 'other', NOW + DAY_MS);
    const source = await open();
    const statuses = async () => (await source.list()).tickets.map(({ status }) => status);
    expect(await statuses()).toEqual(['open', 'open']);
    await source.claim?.('gh-1');
    hub.issues[0]?.assignees.push({ login: 'other-bot' });
    for (let time = 0; time < 2; time += 1) {
      expect(await statuses()).toEqual(['in_progress', 'open']);
      expect((await source.list()).unreadable).toEqual([
        { id: 'gh-1', why: `other has claimed it until ${new Date(NOW + DAY_MS).toISOString()}` },
      ]);
      now += 30_000;
    }
    change(hub);
    expect(await statuses()).toEqual(['open', 'open']);
    expect((await source.list()).unreadable).toEqual([]);
  });

  test('go to one of two crews that claim them at the same moment', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const [one, other] = [await open('one'), await open('other')];
    const won = (await Promise.all([one.claim?.('gh-1'), other.claim?.('gh-1')])).filter((why) => why === null);
    expect(won).toHaveLength(1);
    expect(hub.comments).toHaveLength(1);
  });

  test('cannot be claimed by a comment of somebody without write permission', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    hub.claim(1, 'other', NOW + DAY_MS, 'eve');
    expect(await (await open()).claim?.('gh-1')).toBeNull();
  });

  test('are free again when the work is given up', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    await source.claim?.('gh-1');
    await source.released?.('gh-1');
    expect([hub.comments, hub.issues[0]?.assignees]).toEqual([[], []]);
    expect(await (await open('other')).claim?.('gh-1')).toBeNull();
  });

  test('get a note of a meeting as one comment, which never counts as a claim', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    const note = `agreed: <!-- conch claim by=eve until=2999-01-01T00:00:00Z -->`;
    for (let times = 0; times < 2; times += 1) expect(await source.note?.('gh-1', note, '')).toBe(null);
    const [comment, ...others] = hub.comments;
    expect(others).toEqual([]);
    expect(comment?.body).toContain('agreed: <! -- conch claim by=eve');
    expect(await source.claim?.('gh-1')).toBe(null);
  });

  test('are closed with one comment that names the commit, also when closing is repeated', async () => {
    const { hub, open } = await stage();
    hub.issue(1);
    const source = await open();
    hub.refusals.push({ status: 502, body: { message: 'bad gateway' } });
    await expect(source.closed('gh-1', 'abc123')).rejects.toThrow('failed with 502');
    await source.closed('gh-1', 'abc123');
    await source.closed('gh-1', 'abc123');
    expect(hub.issues[0]?.state).toBe('closed');
    expect(hub.comments.map(({ body }) => body)).toEqual([expect.stringContaining('Merged as abc123.')]);
  });

  test('that people closed are known as closed, although they are not listed', async () => {
    const { hub, open } = await stage();
    const issue = hub.issue(1);
    const source = await open();
    expect(await isClosed(source, 'gh-1')).toBe(false);
    issue.state = 'closed';
    expect(await isClosed(source, 'gh-1')).toBe(true);
    expect(await isClosed(source, 'gh-9')).toBe(false);
  });

  test.each([
    [401, 'GitHub does not accept the token'],
    [404, 'GitHub knows no such repository'],
    [500, 'failed with 500'],
  ])('answered with %i are an error that says what to do', async (status, words) => {
    const { hub, open } = await stage();
    hub.refusals.push({ status, body: { message: 'no' } });
    await expect((await open()).list()).rejects.toThrow(words);
  });

  test.each([
    ['retry-after', { 'retry-after': '120' }, 120_000],
    ['the reset', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${NOW / 1_000 + 300}` }, 300_000],
    ['no time', {}, 60_000],
  ])('at a rate limit with %s are not fetched before this time', async (_name, headers, ms) => {
    const { hub, open } = await stage();
    hub.refusals.push({ status: 429, headers, body: { message: 'slow down' } });
    const source = await open();
    await expect(source.list()).rejects.toThrow('GitHub asks to wait until');
    now += ms - 1;
    await expect(source.list()).rejects.toThrow('GitHub asks to wait until');
    expect(hub.requests).toHaveLength(1);
    now += 1;
    expect((await source.list()).tickets).toEqual([]);
  });

  test('on a server that does not answer are an error that says so', async () => {
    const { hub, open } = await stage();
    const source = await open();
    await servers.pop()?.stop();
    await expect(source.list()).rejects.toThrow('GitHub could not be reached');
    expect(hub.requests).toEqual([]);
  });
});
