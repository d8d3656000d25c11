import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { OutgoingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { exportCalls } from '../../../src/adapters/console/audit.ts';
import type { AuditRow, AuditWanted } from '../../../src/turns/tool-calls.ts';
import { auditRow, fakeAudit, openPage, sessionOf, stand } from './fakes.ts';
import type { FakeAudit, Page, Stand } from './fakes.ts';

let here: Stand;
let audit: FakeAudit;
let page: Page;

beforeEach(async () => {
  here = await stand();
  audit = fakeAudit();
  here.adapter.setRuns({ events: () => ({ ok: false, status: 404, text: '' }), audit });
  page = await openPage(here.adapter.accessLink());
});
afterEach(async () => {
  page.close();
  await here.adapter.stop();
});

const fill = (count: number, more: (seq: number) => Partial<AuditRow> = () => ({})): void => {
  for (let seq = 1; seq <= count; seq += 1) audit.rows.push(auditRow(seq, more(seq)));
};
const look = async (wanted: AuditWanted = {}) => {
  page.send({ type: 'audit', wanted });
  return page.frame('audit', ({ part }) => part === 'newest');
};
const earlier = async () => {
  page.send({ type: 'audit-earlier' });
  return page.frame('audit', ({ part }) => part === 'earlier');
};
const seqs = ({ rows }: { readonly rows: readonly AuditRow[] }): readonly number[] => rows.map(({ seq }) => seq);

describe('a page that shows tool calls', () => {
  test('gets the newest 100, then 100 at a time; Conch reads no more rows than these', async () => {
    fill(250);
    const first = await look();
    expect([first.rows[0]?.seq, first.rows.length, first.more, audit.read]).toEqual([250, 100, true, 100]);
    expect(first.rows[0]?.decidedBy).toBe('Ann');
    const second = await earlier();
    expect([second.rows[0]?.seq, second.rows.length, second.more, audit.read]).toEqual([150, 100, true, 200]);
    const last = await earlier();
    expect([last.rows.at(-1)?.seq, last.rows.length, last.more]).toEqual([1, 50, false]);
  });

  test.each<[AuditWanted, readonly number[]]>([
    [{ agent: 'qa' }, [4]],
    [{ channel: 'discord:42' }, [5]],
    [{ decision: 'rule' }, [3]],
    [{ decision: 'people' }, [6, 5, 4, 2, 1]],
    [{ outcome: 'unknown' }, [2]],
    [{ outcome: 'open' }, [6]],
    [{ tool: 'BASH' }, [3]],
    [{ since: auditRow(4).askedAt }, [6, 5, 4]],
    [{ agent: 'dev', decision: 'once', outcome: 'complete' }, [5, 1]],
  ])('gets only the matching calls for %j', async (wanted, found) => {
    fill(6, (seq) => {
      if (seq === 2) return { status: 'error', outcome: 'unknown', code: 'UNKNOWN' };
      if (seq === 3) return { tool: 'Bash', decision: 'rule', rule: 'execute(ls)' };
      if (seq === 4) return { agent: 'qa' };
      if (seq === 5) return { channel: 'discord:42' };
      return seq === 6 ? { status: 'pending', decision: 'open' } : {};
    });
    expect(seqs(await look(wanted))).toEqual(found);
  });

  test('gets the position of the search when few calls match, and continues from there', async () => {
    fill(12_000, (seq) => ({ decision: seq === 1 ? 'void' : 'once' }));
    const first = await look({ decision: 'void' });
    expect([first.rows, first.more]).toEqual([[], true]);
    expect(first.upto).toBeLessThan(auditRow(8_000).askedAt);
    let next = first;
    for (let tries = 0; next.more && tries < 5; tries += 1) next = await earlier();
    expect([seqs(next), next.more, next.upto]).toEqual([[1], false, null]);
  });

  test('gets long calls in several frames, and a call of 2 MB without its input and output', async () => {
    fill(6, (seq) => ({ output: 'x'.repeat(seq === 1 ? 2_000_000 : 400_000) }));
    expect(seqs(await look())).toEqual([6, 5, 4]);
    const next = await earlier();
    expect(seqs(next)).toEqual([3, 2, 1]);
    expect(next.rows.map(({ cut = false, output, input }) => [cut, output?.length ?? 0, Object.keys(input)])).toEqual([
      [false, 400_000, ['path', 'text']],
      [false, 400_000, ['path', 'text']],
      [true, 0, []],
    ]);
  });

  test('gets new calls, their outcomes and open requests without a new query', async () => {
    fill(1);
    await look({ agent: 'dev' });
    audit.asked = [{ channel: 'console:demo', agent: 'dev', tool: 'Bash', askedAt: 1, until: null, question: 8 }];
    audit.change(auditRow(2, { status: 'pending', decision: 'open' }), auditRow(3, { agent: 'qa' }));
    const come = await page.frame('audit', ({ part }) => part === 'changed');
    expect([seqs(come), come.rows[0]?.decision, come.asked?.[0]?.question]).toEqual([[2], 'open', 8]);
    audit.change(auditRow(2));
    const over = await page.frame('audit', ({ part }) => part === 'changed');
    expect([seqs(over), over.rows[0]?.decision]).toEqual([[2], 'once']);
  });

  test('gets many or long changes in several frames', async () => {
    await look();
    const size = (seq: number): number => (seq > 240 ? 400_000 : 10);
    audit.change(...Array.from({ length: 250 }, (_, seq) => auditRow(seq + 1, { output: 'x'.repeat(size(seq + 1)) })));
    const frames = [];
    let count = 0;
    while (count < 250) {
      const frame = await page.frame('audit', ({ part }) => part === 'changed');
      frames.push(frame.rows.length);
      count += frame.rows.length;
    }
    expect(frames).toEqual([100, 100, 43, 3, 3, 1]);
  });

  test('gets nothing after it closed the view', async () => {
    fill(1);
    await look();
    page.send({ type: 'audit', wanted: null });
    page.send({ type: 'open', channel: null });
    await page.frame('state');
    const other = await openPage(here.adapter.accessLink());
    other.send({ type: 'audit', wanted: {} });
    await other.frame('audit');
    audit.change(auditRow(2));
    await other.frame('audit', ({ part }) => part === 'changed');
    other.close();
    page.send({ type: 'open', channel: null });
    expect((await Promise.race([page.frame('audit'), page.frame('state')])).type).toBe('state');
  });

  test('is refused for an invalid filter', async () => {
    page.send(JSON.stringify({ type: 'audit', wanted: { decision: 'toString' } }));
    expect((await page.frame('refused')).text).toContain('does not fit');
    page.send(JSON.stringify({ type: 'audit', wanted: { runs: 'all' } }));
    expect((await page.frame('refused')).text).toContain('does not fit');
  });
});

type Reply = { readonly status: number; readonly body: string; readonly type: string };

function get(path: string, headers: OutgoingHttpHeaders, method = 'GET'): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const asking = request(`${here.url}${path}`, { headers, method }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      const type = response.headers['content-type'] ?? '';
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body, type }));
    });
    asking.on('error', reject).end();
  });
}

/** Returns the headers of a request by the page's script. */
const own = async () => {
  const { cookie, part } = await sessionOf(here.adapter.accessLink());
  return { cookie, 'conch-page': part, 'sec-fetch-site': 'same-origin' };
};

describe('the export', () => {
  test('gives the page every matching call, whole, as lines of JSON', async () => {
    fill(500, (seq) => ({ output: 'x'.repeat(seq === 7 ? 2_000_000 : 10), agent: seq % 2 === 0 ? 'dev' : 'qa' }));
    const { status, body, type } = await get('/runs/audit?agent=qa', await own());
    expect([status, type]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
    const rows = body
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    expect(rows).toEqual(audit.rows.filter(({ agent }) => agent === 'qa').toReversed());
  });

  test('is cut off when the calls cannot be read, and rejects with the error for the log', async () => {
    const source = Object.assign(fakeAudit(), {
      calls: () => {
        throw new Error('the database is damaged');
      },
    });
    const answered = Promise.withResolvers<unknown>();
    const server = createServer((_request, response) => {
      exportCalls({ response, query: '' }, source).then(answered.resolve, answered.resolve);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await expect(fetch(`http://127.0.0.1:${port}/`).then((got) => got.text())).rejects.toThrow(
      /terminated|fetch failed|closed/,
    );
    expect(await answered.promise).toMatchObject({ message: 'the database is damaged' });
    server.close();
  });

  test('is available to a program with the token', async () => {
    fill(2);
    const token = readFileSync(join(here.dataDir, 'console-token'), 'utf8').trim();
    expect((await get('/runs/audit', { authorization: `Bearer ${token}` })).body.split('\n')).toHaveLength(3);
  });

  test('is refused without the cookie, for another site, and for a rebound host name', async () => {
    fill(2);
    const shown = await own();
    const { cookie, 'conch-page': part } = shown;
    const session = { cookie, 'conch-page': part };
    for (const headers of [
      { 'sec-fetch-site': 'same-origin' },
      { cookie, 'sec-fetch-site': 'same-origin' },
      { 'conch-page': part, 'sec-fetch-site': 'same-origin' },
      { ...shown, cookie: `${cookie}x` },
      { ...session, 'sec-fetch-site': 'cross-site' },
      { ...session, origin: 'https://evil.example' },
      { ...session, host: 'evil.example', origin: 'http://evil.example' },
      { authorization: 'Bearer no' },
    ]) {
      const { status, body } = await get('/runs/audit', headers);
      expect([status, body.includes('notes')]).toEqual([403, false]);
    }
    expect((await get('/runs/audit', await own(), 'POST')).status).toBe(405);
  });

  test('names the valid filters', async () => {
    const { status, body } = await get('/runs/audit?decision=maybe', await own());
    expect([status, body]).toEqual([
      400,
      'Expected some of channel, agent, decision, outcome, tool, since, and nothing else.\n',
    ]);
    expect((await get(`/runs/audit?since=${auditRow(2).askedAt}`, await own())).status).toBe(200);
  });
});

describe('a rule', () => {
  test('cannot be revoked without an open page, nor by another site', async () => {
    const { cookie, protocols } = await sessionOf(here.adapter.accessLink());
    const knock = (headers: Record<string, string>): Promise<string> =>
      new Promise((resolve) => {
        const socket = new WebSocket(`${here.url.replace('http', 'ws')}/socket`, [...protocols], { headers });
        const line = '/run revoke dev #1.1';
        socket.on('open', () =>
          socket.send(JSON.stringify({ type: 'command', channel: 'console:demo', key: crypto.randomUUID(), line })),
        );
        socket.on('message', (text: Buffer) => resolve(text.toString()));
        socket.on('unexpected-response', (_request, response) => resolve(`${response.statusCode}`));
      });
    expect(
      await Promise.all([
        knock({ origin: here.url }),
        knock({ cookie }),
        knock({ cookie, origin: 'https://evil.example' }),
      ]),
    ).toEqual(['403', '403', '403']);
    expect(here.intake.commands).toEqual([]);
    expect(await knock({ cookie, origin: here.url })).toContain('answer');
    expect(here.intake.commands.map(({ line }) => line)).toEqual(['/run revoke dev #1.1']);
  });
});
