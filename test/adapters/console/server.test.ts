import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { createConsoleAdapter } from '../../../src/adapters/console/adapter.ts';
import type { Status } from '../../../src/turns/floor/floor.ts';
import {
  CHANNEL,
  OTHER,
  fakeIntake,
  fakeQueries,
  newFolder,
  ownMessages,
  openPage,
  restingView,
  sessionOf,
  silent,
  stand,
  wallClock,
} from './fakes.ts';
import { ODD_TARGETS, handshake, sendRaw, statusOf } from '../../lib/raw.ts';
import type { Stand } from './fakes.ts';

type Reply = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string };

/** Sends a request. Unlike fetch, it can set Host and Origin. */
function call(url: string, headers: OutgoingHttpHeaders = {}, post?: { readonly body: string }): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { headers, method: post === undefined ? 'GET' : 'POST' }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
    });
    asking.on('error', reject).end(post?.body);
  });
}

/** Returns the status of an upgrade request; 101 when it is accepted. */
function knock(url: string, headers: Record<string, string>, protocols: readonly string[] = []): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`, [...protocols], { headers });
    socket.on('open', () => {
      socket.terminate();
      resolve(101);
    });
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    socket.on('error', reject);
  });
}

let here: Stand;
beforeEach(async () => {
  here = await stand();
});
afterEach(() => here.adapter.stop());

describe('a running console', () => {
  test('healthz answers "starting" until the program is ready', async () => {
    const before = await call(`${here.url}/healthz`);
    expect([before.status, JSON.parse(before.body)]).toMatchObject([503, { status: 'starting' }]);
    here.adapter.setReady();
    const after = await call(`${here.url}/healthz`);
    expect([after.status, JSON.parse(after.body)]).toMatchObject([200, { status: 'ready' }]);
  });

  test.each([
    ['ok', 200, 'ready'],
    ['degraded', 200, 'ready'],
    ['full', 503, 'stuck'],
    ['locked', 503, 'stuck'],
    ['unreached', 503, 'stuck'],
  ] as const)('T41 healthz of a database that is %s answers %i, %s', async (database, code, status) => {
    const { platform } = ownMessages();
    const options = { dataDir: newFolder(), platform, port: 0, clock: wallClock, log: silent };
    const adapter = createConsoleAdapter({ ...options, database: () => database });
    await adapter.start(fakeIntake(), fakeQueries());
    adapter.setReady();
    const answer = await call(`${adapter.url}/healthz`);
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([code, { status, database: { status: database } }]);
    await adapter.stop();
  });

  test('livez answers 200 before the program is ready, and shows no status', async () => {
    const { status, body } = await call(`${here.url}/livez`);
    expect([status, body]).toEqual([200, 'ok\n']);
  });

  test('healthz counts tool servers that wait for a login, names none, and stays ready', async () => {
    const { platform } = ownMessages();
    const options = { dataDir: newFolder(), platform, port: 0, clock: wallClock, log: silent };
    const adapter = createConsoleAdapter({
      ...options,
      toolsAwaitingLogin: () => [{ server: 'github', why: 'nobody is' }],
    });
    await adapter.start(fakeIntake(), fakeQueries());
    adapter.setReady();
    const { status, body } = await call(`${adapter.url}/healthz`);
    expect([status, JSON.parse(body)]).toMatchObject([200, { tools: { status: 'degraded', logins: 1 } }]);
    expect(body).not.toContain('github');
    await adapter.stop();
  });

  test.each([
    ['ok', 0, { pm: 'IDLE', dev: 'ACTIVE', qa: 'QUEUED' }],
    ['degraded', 1, { pm: 'IDLE', dev: 'OFFLINE', qa: 'QUEUED' }],
    ['down', 3, { pm: 'OFFLINE', dev: 'OFFLINE', qa: 'OFFLINE' }],
  ] as const)(
    'T40 healthz says that its agents are %s, and stays ready with %i of them OFFLINE',
    async (status, offline, seats) => {
      const seat = (agent: string, state: Status, disabled = false) => ({
        agent,
        status: state,
        disabled,
        waitUntil: null,
      });
      const own = Object.entries(seats).map(([agent, state]) => seat(agent, state));
      here.queries.views.set(CHANNEL, { ...restingView(), seats: [...own, seat('ops', 'OFFLINE', true)] });
      here.queries.views.set(OTHER, { ...restingView(OTHER), seats: own.slice(0, 2) });
      here.adapter.setReady();
      const { status: code, body } = await call(`${here.url}/healthz`);
      expect([code, JSON.parse(body)]).toMatchObject([200, { status: 'ready', agents: { status, offline, of: 3 } }]);
    },
  );

  test('the page may load scripts only from its own server', async () => {
    expect((await call(`${here.url}/`)).headers['content-security-policy']).toContain("default-src 'self'");
  });

  test("a host name that is not this machine's is refused", async () => {
    for (const host of ['evil.example', 'evil.example:7420', '127.0.0.1.evil.example', '192.168.0.7']) {
      for (const path of ['/', '/healthz', '/ctl']) {
        expect((await call(`${here.url}${path}`, { host })).status).toBe(403);
      }
    }
    expect((await call(`${here.url}/healthz`, { host: 'localhost:9' })).status).toBe(503);
  });

  test('the page of this server is allowed', async () => {
    const { cookie, protocols } = await sessionOf(here.adapter.accessLink());
    expect(await knock(here.url, { cookie, origin: here.url }, protocols)).toBe(101);
  });

  test('another site is refused, also with a session', async () => {
    const { cookie, protocols } = await sessionOf(here.adapter.accessLink());
    for (const origin of ['https://evil.example', 'http://127.0.0.1:1', 'null', here.url.replace('http', 'https')]) {
      expect(await knock(here.url, { cookie, origin }, protocols)).toBe(403);
    }
    expect(await knock(here.url, { cookie }, protocols)).toBe(403);
  });

  test('a rebound host name is refused, also with a matching origin', async () => {
    const { cookie, protocols } = await sessionOf(here.adapter.accessLink());
    const rebound = { cookie, host: 'evil.example', origin: 'http://evil.example' };
    expect(await knock(here.url, rebound, protocols)).toBe(403);
  });

  test('a missing, wrong or incomplete cookie is refused', async () => {
    const { cookie, protocols } = await sessionOf(here.adapter.accessLink());
    const [name] = cookie.split('=');
    for (const wrong of ['', `${name}=`, `${name}=${'x'.repeat(43)}`, `${name}=0.`, cookie.slice(0, -10)]) {
      expect(await knock(here.url, { cookie: wrong, origin: here.url }, protocols)).toBe(403);
    }
  });

  test.each(ODD_TARGETS)('T1 a request for "%s" is answered with 400, and an upgrade too', async (target) => {
    const port = Number(new URL(here.url).port);
    const host = `Host: 127.0.0.1:${port}\r\n`;
    expect(statusOf(await sendRaw(port, `GET ${target} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`))).toBe(400);
    expect(statusOf(await sendRaw(port, handshake(target)))).toBe(400);
    expect((await call(`${here.url}/`)).status).toBe(200);
  });

  test('T1 an invalid byte range is answered with the whole file', async () => {
    for (const range of ['bytes=9-1', `bytes=0-${'9'.repeat(30)}`, 'bytes=-', 'odd']) {
      expect((await call(`${here.url}/`, { range })).status).toBe(200);
    }
  });

  test('T1 an unreadable file of the page fails only its own request', async () => {
    const unreadable = createNetServer().listen(join(here.pageDir, 'odd.js'));
    await once(unreadable, 'listening');
    await expect(call(`${here.url}/odd.js`)).rejects.toThrow('socket hang up');
    unreadable.close();
    expect((await call(`${here.url}/`)).status).toBe(200);
  });

  test('files outside of the page are not served', async () => {
    const { port } = new URL(here.url);
    const beside = `${here.pageDir}-beside`;
    mkdirSync(beside);
    for (const folder of [here.dataDir, beside]) {
      writeFileSync(join(folder, 'secret.txt'), 'a secret');
      for (const up of ['..', '%2e%2e', '.%2E', '..%2f..', 'x/../..']) {
        const raw = `GET /${up}/${basename(folder)}/secret.txt HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`;
        const answer = await sendRaw(Number(port), raw);
        expect([up, statusOf(answer)]).toEqual([up, 404]);
        expect(answer).not.toContain('a secret');
      }
    }
  });
});

describe('access to the page', () => {
  const keyOf = (link: string | null): string => new URL(link ?? '').searchParams.get('key') ?? '';
  const post = (key: string, headers: OutgoingHttpHeaders = { origin: here.url }): Promise<Reply> =>
    call(`${here.url}/session`, headers, { body: JSON.stringify({ key }) });

  test('T78 a request without a token, cookie or key receives none of them', async () => {
    const token = readFileSync(join(here.dataDir, 'console-token'), 'utf8').trim();
    for (const path of [
      '/',
      '/index.html',
      '/healthz',
      '/session',
      '/ctl',
      '/runs/audit',
      '/crew?channel=console:demo&most=20',
      '/runs/events?agent=dev',
    ]) {
      for (const asked of [undefined, { body: '{}' }]) {
        const { headers, body } = await call(`${here.url}${path}`, {}, asked);
        expect(headers['set-cookie']).toBeUndefined();
        expect(body).not.toContain(token);
        expect(body).not.toContain('key=');
      }
    }
  });

  test('T78 a link works once, and gives a cookie that scripts and other sites cannot use', async () => {
    const key = keyOf(here.adapter.accessLink());
    const first = await post(key);
    expect(first.status).toBe(200);
    const port = new URL(here.url).port;
    expect(first.headers['set-cookie']?.[0]).toMatch(
      new RegExp(`^conch_${port}=\\w+\\.[\\w-]{43}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000$`),
    );
    expect((await post(key)).status).toBe(401);
    expect((await post('unknown')).status).toBe(401);
  });

  test('T78 fetching the link, as a preview does, leaves it valid', async () => {
    const link = here.adapter.accessLink() ?? '';
    for (let times = 0; times < 3; times += 1) expect((await call(link)).headers['set-cookie']).toBeUndefined();
    expect((await post(keyOf(link))).status).toBe(200);
  });

  test('T78 a key posted by another site, by a rebound name or without an origin is refused and stays valid', async () => {
    const key = keyOf(here.adapter.accessLink());
    for (const headers of [{ origin: 'https://evil.example' }, { origin: 'http://127.0.0.1:1' }, {}]) {
      expect((await post(key, headers)).status).toBe(403);
    }
    expect((await post(key, { host: 'evil.example', origin: 'http://evil.example' })).status).toBe(403);
    expect((await post(key)).status).toBe(200);
  });

  test("T78 neither the cookie nor the page's secret part gives access alone", async () => {
    const { cookie, part, protocols } = await sessionOf(here.adapter.accessLink());
    const own = { origin: here.url };
    expect(await knock(here.url, { ...own, cookie })).toBe(403);
    expect(await knock(here.url, own, protocols)).toBe(403);
    const asked = async (headers: OutgoingHttpHeaders) => (await call(`${here.url}/session`, headers)).status;
    expect(await asked({ ...own, cookie })).toBe(401);
    expect(await asked({ ...own, 'conch-page': part })).toBe(401);
    expect(await asked({ ...own, cookie, 'conch-page': part })).toBe(200);
    expect((await call(`${here.url}/ctl`, { authorization: `Bearer ${part}` }, { body: '{"open":true}' })).status).toBe(
      401,
    );
  });

  test('T78 a session survives a restart, and ends when the token is replaced', async () => {
    const { cookie, part } = await sessionOf(here.adapter.accessLink());
    const unused = keyOf(here.adapter.accessLink());
    const value = cookie.split('=')[1] ?? '';
    const asked = async () => {
      const name = `conch_${new URL(here.url).port}`;
      const shown = { origin: here.url, cookie: `${name}=${value}`, 'conch-page': part };
      return (await call(`${here.url}/session`, shown)).status;
    };
    await here.adapter.stop();
    here = await stand(here.dataDir);
    expect(await asked()).toBe(200);
    expect((await post(unused)).status).toBe(401);
    await here.adapter.stop();
    rmSync(join(here.dataDir, 'console-token'));
    here = await stand(here.dataDir);
    expect(await asked()).toBe(401);
  });

  test('T78 a program with the token gets a new link', async () => {
    const token = readFileSync(join(here.dataDir, 'console-token'), 'utf8').trim();
    const headers = { authorization: `Bearer ${token}` };
    const reply = await call(`${here.url}/ctl`, headers, { body: '{"open":true}' });
    const { ok, text } = JSON.parse(reply.body) as { readonly ok: boolean; readonly text: string };
    expect([ok, text.startsWith(`${here.url}/?key=`)]).toEqual([true, true]);
    expect((await post(keyOf(text))).status).toBe(200);
    expect((await call(`${here.url}/ctl`, {}, { body: '{"open":true}' })).status).toBe(401);
  });
});

describe('commands from the command line', () => {
  const body = JSON.stringify({ channel: CHANNEL, line: '/floor skip' });
  const token = (): string => readFileSync(join(here.dataDir, 'console-token'), 'utf8').trim();
  const bearer = (): { authorization: string } => ({ authorization: `Bearer ${token()}` });

  test('the token of the file allows a command', async () => {
    const reply = await call(`${here.url}/ctl`, bearer(), { body });
    expect([reply.status, JSON.parse(reply.body)]).toEqual([200, { ok: true, text: 'Done.' }]);
    expect(here.intake.commands).toEqual([{ channel: CHANNEL, line: '/floor skip', drawnFor: undefined }]);
  });

  test('only its owner can read the token', () => {
    expect(statSync(join(here.dataDir, 'console-token')).mode & 0o777).toBe(0o600);
  });

  test('a missing or wrong token and a request of a web page are refused and run nothing', async () => {
    expect((await call(`${here.url}/ctl`, {}, { body })).status).toBe(401);
    expect((await call(`${here.url}/ctl`, { authorization: 'Bearer nonsense' }, { body })).status).toBe(401);
    expect((await call(`${here.url}/ctl`, { ...bearer(), origin: here.url }, { body })).status).toBe(403);
    expect((await call(`${here.url}/ctl`, bearer())).status).toBe(405);
    expect(here.intake.commands).toEqual([]);
  });

  test('a channel can be given by its name', async () => {
    await call(`${here.url}/ctl`, bearer(), { body: JSON.stringify({ channel: 'demo', line: '/queue' }) });
    expect(here.intake.commands).toEqual([{ channel: CHANNEL, line: '/queue', drawnFor: undefined }]);
  });

  test('a command without a channel is refused with the list of channels', async () => {
    const reply = await call(`${here.url}/ctl`, bearer(), { body: JSON.stringify({ line: '/queue' }) });
    expect(JSON.parse(reply.body)).toEqual({
      ok: false,
      text: 'Say which channel with --channel. Channels here: console:demo, discord:42',
    });
  });

  test('a name that several channels have is refused with their ids', async () => {
    const channels = here.queries.channels().map((each) => ({ ...each, name: 'demo' }));
    here.queries.channels = () => channels;
    const ask = async (channel: string): Promise<unknown> =>
      (await call(`${here.url}/ctl`, bearer(), { body: JSON.stringify({ channel, line: '/queue' }) })).body;
    expect(await ask('demo')).toContain(
      'Several channels are named demo. Use an id. Channels here: console:demo, discord:42',
    );
    expect(await ask('no')).toContain('There is no channel no. Channels here: console:demo, discord:42');
  });

  test('a body that is not a command, or too long, is refused', async () => {
    for (const wrong of ['', 'not json', '{}', '{"line":""}', '{"line":"/stop","more":1}']) {
      expect((await call(`${here.url}/ctl`, bearer(), { body: wrong })).status).toBe(400);
    }
    expect((await call(`${here.url}/ctl`, bearer(), { body: 'x'.repeat(100_000) })).status).toBe(413);
  });
});

describe('a start', () => {
  test('with a used port fails with one line', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const { platform } = ownMessages();
    const adapter = createConsoleAdapter({ dataDir: newFolder(), platform, port, clock: wallClock, log: silent });
    await expect(adapter.start(fakeIntake(), fakeQueries())).rejects.toThrow(
      new RegExp(`^Port ${port} is taken: .*set CONCH_PORT to a free port\\.$`),
    );
    await new Promise((resolve) => other.close(resolve));
  });

  test('the token is kept over a restart, so that an open page stays allowed', async () => {
    const before = readFileSync(join(here.dataDir, 'console-token'), 'utf8');
    await here.adapter.stop();
    here = await stand(here.dataDir);
    expect(readFileSync(join(here.dataDir, 'console-token'), 'utf8')).toBe(before);
  });

  test('a stop ends the connections of open pages', async () => {
    const page = await openPage(here.adapter.accessLink());
    await here.adapter.stop();
    expect([1001, 1006]).toContain(await page.closed);
    here = await stand();
  });
});
