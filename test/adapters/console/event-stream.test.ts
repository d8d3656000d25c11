import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EventSource } from 'eventsource';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { streamEvents } from '../../../src/adapters/console/event-stream.ts';
import type { EventSource as Told, EventRequest } from '../../../src/adapters/console/event-stream.ts';
import type { EventSink } from '../../../src/lib/guarded-server.ts';
import { createTime } from '../../agents/time.ts';
import { fakeAudit, sessionOf, stand } from './fakes.ts';
import type { Stand } from './fakes.ts';

let here: Stand;
let token = '';
let asked: EventRequest[] = [];
let closed = { times: 0 };
let sink: EventSink = () => {};
const open = new Set<ClientRequest>();

beforeEach(async () => {
  here = await stand();
  token = readFileSync(join(here.dataDir, 'console-token'), 'utf8').trim();
  const mine = { times: 0 };
  [asked, closed] = [[], mine];
  const events: Told = (wanted, to) => {
    asked.push(wanted);
    if (wanted.agent === 'ghost') return { ok: false, status: 404, text: 'There is no agent "ghost".' };
    if (wanted.after === 7) return { ok: false, status: 410, text: 'No longer kept.' };
    sink = to;
    sink({ id: 8, name: 'tool:start', data: { type: 'tool:start', seq: 8 } });
    return { ok: true, close: () => void (mine.times += 1) };
  };
  here.adapter.setRuns({ events, audit: fakeAudit() });
});
afterEach(async () => {
  for (const each of open) each.destroy();
  open.clear();
  await here.adapter.stop();
});

/** An answer whose first data has come. `text`: everything received so far. */
type Begun = { readonly status: number; readonly response: IncomingMessage; text: string };

function get(query: string, headers: OutgoingHttpHeaders): Promise<Begun> {
  return new Promise((resolve, reject) => {
    const asking = request(`${here.url}/runs/events${query}`, { headers }, (response) => {
      const begun: Begun = { status: response.statusCode ?? 0, response, text: '' };
      response.setEncoding('utf8').on('data', (chunk: string) => (begun.text += chunk));
      response.once('data', () => resolve(begun)).on('error', () => {});
    });
    open.add(asking);
    asking.on('error', reject).end();
  });
}

const bearer = (): OutgoingHttpHeaders => ({ authorization: `Bearer ${token}` });

describe('a program with the token', () => {
  test('is refused while 64 streams are open, and allowed again when one was closed', async () => {
    for (let n = 0; n < 64; n += 1) await get('?agent=dev', bearer());
    const full = await get('?agent=dev', bearer());
    expect([full.status, asked.length]).toEqual([503, 64]);
    const [first] = open;
    first?.destroy();
    await vi.waitFor(() => expect(closed.times).toBe(1));
    expect((await get('?agent=dev', bearer())).status).toBe(200);
  });

  test('gets missed events, then new ones, with numbers to resume from', async () => {
    const begun = await get('?agent=dev&channel=console:demo&format=ag-ui', { ...bearer(), 'last-event-id': '5' });
    expect(asked).toEqual([{ agent: 'dev', channel: 'console:demo', format: 'ag-ui', after: 5 }]);
    expect(begun.response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
    });
    sink({ id: null, name: 'stream:token', data: { text: 'two\nlines' } });
    sink({ id: 12, name: 'tool:result', data: {} });
    await vi.waitFor(() => expect(begun.text).toContain('id: 12'));
    expect(begun.text).toBe(
      [
        'retry: 2000',
        'id: 8\nevent: tool:start\ndata: {"type":"tool:start","seq":8}',
        'event: stream:token\ndata: {"text":"two\\nlines"}',
        'id: 12\nevent: tool:result\ndata: {}\n\n',
      ].join('\n\n'),
    );
  });

  test('gets no more events after it disconnects', async () => {
    const { response } = await get('?agent=dev', bearer());
    response.destroy();
    await vi.waitFor(() => expect(closed.times).toBe(1));
    expect(asked[0]?.channel).toBeNull();
  });

  test('can read the stream with the library eventsource, which gets the ids of events', async () => {
    const heard: string[] = [];
    const fetching: string[] = [];
    const source = new EventSource(`${here.url}/runs/events?agent=dev`, {
      fetch: (url, init) => {
        fetching.push(new Headers(init.headers).get('last-event-id') ?? '');
        return fetch(url, { ...init, headers: { ...init.headers, ...(bearer() as Record<string, string>) } });
      },
    });
    source.addEventListener('tool:start', ({ lastEventId }) => void heard.push(lastEventId));
    await vi.waitFor(() => expect(heard).toEqual(['8']));
    source.close();
    expect(fetching).toEqual(['']);
  });
});

test('an idle stream carries a comment every 15 s until its client disconnects', async () => {
  const time = createTime();
  const events: Told = () => ({ ok: true, close: () => {} });
  const server = createServer((asking, response) => {
    streamEvents(
      { request: asking, response, query: 'agent=dev' },
      { events, timers: time.timers, streams: new Set() },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  let text = '';
  const asking = request({ host: '127.0.0.1', port }, (response) => {
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    response.on('error', () => {});
  });
  asking.end();
  await vi.waitFor(() => expect(text).toBe('retry: 2000\n\n'));
  await time.advance(14_999);
  expect(time.pending()).toBe(1);
  await time.advance(15_001);
  await vi.waitFor(() => expect(text).toBe('retry: 2000\n\n: alive\n\n: alive\n\n'));
  asking.destroy();
  await vi.waitFor(() => expect(time.pending()).toBe(0));
  await new Promise((resolve) => server.close(resolve));
});

/** Opens a stream with 8 MiB of missed events. Its reader reads only on demand. */
async function behind() {
  const time = createTime();
  const text = 'x'.repeat(64 * 1024);
  const events: Told = (_request, to) => {
    for (let id = 1; id <= 128; id += 1) to({ id, name: 'tool:result', data: { text } });
    return { ok: true, close: () => {} };
  };
  const server = createServer((asking, response) => {
    streamEvents(
      { request: asking, response, query: 'agent=dev' },
      { events, timers: time.timers, streams: new Set() },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const asking = request({ host: '127.0.0.1', port });
  const response = await new Promise<IncomingMessage>((resolve) => asking.on('response', resolve).end());
  asking.on('error', () => {});
  response.on('error', () => {});
  const stop = async (): Promise<void> => {
    asking.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { time, response, stop };
}

describe('a reader that missed 8 MiB', () => {
  test('T82 gets all of it when it begins to read after 50 s', async () => {
    const { time, response, stop } = await behind();
    await time.advance(50_000);
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await vi.waitFor(() => expect(text.includes('id: 128\n') && text.endsWith('\n\n')).toBe(true), 20_000);
    expect(text.length).toBeGreaterThan(8 * 1024 * 1024);
    await stop();
    await vi.waitFor(() => expect(time.pending()).toBe(0));
  });

  test('T82 is disconnected when it reads nothing for a minute', async () => {
    const { time, response, stop } = await behind();
    await time.advance(60_000);
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await new Promise((resolve) => response.once('close', resolve));
    expect(text).not.toContain('id: 128\n');
    await vi.waitFor(() => expect(time.pending()).toBe(0));
    await stop();
  });
});

describe('a client without access', () => {
  test.each([
    ['has no token and no cookie', () => ({})],
    ['has a wrong token', () => ({ authorization: 'Bearer wrong' })],
    ['is another site with the cookie', () => ({ origin: 'http://evil.example', cookie: 'COOKIE' })],
    ['is another site that leaves its origin out', () => ({ 'sec-fetch-site': 'cross-site', cookie: 'COOKIE' })],
    ['is another site with the token', () => ({ origin: 'http://evil.example', authorization: `Bearer ${token}` })],
  ])('%s', async (_what, headers) => {
    const { cookie, part } = await sessionOf(here.adapter.accessLink());
    const given: OutgoingHttpHeaders = headers();
    const sent = given.cookie === 'COOKIE' ? { ...given, cookie, 'conch-page': part } : given;
    expect((await get('?agent=dev', sent)).status).toBe(403);
    expect(asked).toEqual([]);
  });

  test('is not the page itself, which gets the stream with its session', async () => {
    const { cookie, part } = await sessionOf(here.adapter.accessLink());
    const own = { cookie, 'conch-page': part };
    expect((await get('?agent=dev', { ...own, 'sec-fetch-site': 'same-origin' })).status).toBe(200);
    expect((await get('?agent=dev', { ...own, origin: here.url })).status).toBe(200);
  });
});

describe('a request that cannot be answered', () => {
  test.each([
    ['', '', 400, 'Expected ?agent=<id>'],
    ['?agent=', '', 400, 'Expected ?agent=<id>'],
    ['?agent=dev&format=xml', '', 400, 'Expected ?agent=<id>'],
    ['?agent=dev&who=me', '', 400, 'Expected ?agent=<id>'],
    ['?agent=ghost', '', 404, 'There is no agent "ghost".'],
    ['?agent=dev', '-1', 400, 'Last-Event-ID is not the number of an event'],
    ['?agent=dev', '1e99', 400, 'Last-Event-ID is not the number of an event'],
    ['?agent=dev', 'abc', 400, 'Last-Event-ID is not the number of an event'],
    ['?agent=dev', '7', 410, 'No longer kept.'],
  ])('%s after "%s" gets %i and says why', async (query, last, status, words) => {
    const begun = await get(query, { ...bearer(), ...(last === '' ? {} : { 'last-event-id': last }) });
    expect([begun.status, begun.text.startsWith(words)]).toEqual([status, true]);
  });
});
