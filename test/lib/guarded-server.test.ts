import { createHook } from 'node:async_hooks';
import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { closeSocket, createQuietServer, guardServer, guardSocket, targetOf } from '../../src/lib/guarded-server.ts';
import type { Listeners } from '../../src/lib/guarded-server.ts';
import { handshake, sendRaw, statusOf } from './raw.ts';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

async function guarded(listeners: Listeners) {
  const faults: string[] = [];
  const server = createServer();
  const tell = ({ err }: { err?: unknown }, message: string) => void faults.push(`${message}: ${String(err)}`);
  guardServer(server, listeners, { error: tell });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ends.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, faults, port: (server.address() as AddressInfo).port };
}

async function webSockets() {
  const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  ends.push(() => sockets.close());
  await once(sockets, 'listening');
  return { sockets, url: `ws://127.0.0.1:${(sockets.address() as AddressInfo).port}` };
}

const answer: Listeners['request'] = (_request, response) => void response.end('fine');
const GET = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
const broken = (): never => {
  throw new Error('broken');
};
const UNANSWERED = 'a request could not be answered: Error: broken';

describe('a quiet server', () => {
  async function quiet(patience: Parameters<typeof createQuietServer>[0]) {
    const server = createQuietServer(patience);
    server.on('request', (request, response) => void request.on('end', () => response.end('fine')).resume());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    ends.push(() => {
      server.close();
      server.closeAllConnections();
    });
    return (server.address() as AddressInfo).port;
  }

  const LONG = 3_600_000;
  const POST = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\n';

  test('has no timer that wakes the program while nobody calls', async () => {
    const made: object[] = [];
    const hook = createHook({ init: (_id, type, _by, resource) => void (type === 'Timeout' && made.push(resource)) });
    hook.enable();
    const port = await quiet({ headMs: LONG, wholeMs: LONG });
    hook.disable();
    const DAY_MS = 86_400_000;
    expect(made.filter((timer) => Number(Reflect.get(timer, '_idleTimeout')) < DAY_MS)).toEqual([]);
    expect(made).toHaveLength(1);
    expect(statusOf(await sendRaw(port, GET))).toBe(200);
  });

  test('answers 408 when the head of a request, or the rest of it, does not arrive in time', async () => {
    expect(statusOf(await sendRaw(await quiet({ headMs: 20, wholeMs: LONG }), 'GET / HTTP'))).toBe(408);
    expect(statusOf(await sendRaw(await quiet({ headMs: LONG, wholeMs: 20 }), `${POST}ab`))).toBe(408);
    expect(statusOf(await sendRaw(await quiet({ headMs: LONG, wholeMs: LONG }), `${POST}abcd`))).toBe(200);
  });
});

describe('a guarded server', () => {
  test.each<[string, Listeners['request']]>([
    ['throws', broken],
    ['rejects', async () => broken()],
  ])('answers 500 when its listener %s, logs the error once, and answers the next caller', async (_how, request) => {
    const calls: Listeners['request'][] = [request];
    const { port, faults } = await guarded({ request: (...given) => (calls.pop() ?? answer)(...given) });
    expect(statusOf(await sendRaw(port, GET))).toBe(500);
    expect(statusOf(await sendRaw(port, GET))).toBe(200);
    expect(faults).toEqual([UNANSWERED]);
  });

  test('closes the connection when its listener throws in the middle of an answer', async () => {
    const { port, faults } = await guarded({
      request: (_request, response) => {
        response.write('half');
        broken();
      },
    });
    expect(await sendRaw(port, GET)).not.toContain('500');
    expect(faults).toEqual([UNANSWERED]);
  });

  test('T1 answers 500 when the file that it sends does not exist', async () => {
    const { port, faults } = await guarded({
      request: (_request, response) => void createReadStream('/no/such/file').pipe(response),
    });
    expect(statusOf(await sendRaw(port, GET))).toBe(500);
    expect(faults).toEqual([expect.stringContaining('ENOENT')]);
  });

  test('T1 logs an error of the server itself and still answers', async () => {
    const { server, port, faults } = await guarded({ request: answer });
    server.emit('error', new Error('too many open files'));
    expect(statusOf(await sendRaw(port, GET))).toBe(200);
    expect(faults).toEqual(['a connection could not be accepted: Error: too many open files']);
  });

  test('T1 answers 400 to an upgrade that makes its listener throw, and logs the error once', async () => {
    const { port, faults } = await guarded({ request: answer, upgrade: broken });
    expect(statusOf(await sendRaw(port, handshake('/')))).toBe(400);
    expect(faults).toEqual(['an upgrade could not be answered: Error: broken']);
  });

  test('writes no HTTP answer into a connection that is already a WebSocket', async () => {
    const sockets = new WebSocketServer({ noServer: true });
    const { port } = await guarded({
      request: answer,
      upgrade: (...given) => sockets.handleUpgrade(...given, broken),
    });
    expect((await sendRaw(port, handshake('/'))).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 101']);
  });
});

describe('a guarded WebSocket', () => {
  test.each([
    ['throws', broken],
    ['rejects', async () => broken()],
  ])('is closed with 1011 when a listener %s, and the program goes on', async (_how, listener) => {
    const faults: unknown[] = [];
    const { sockets, url } = await webSockets();
    sockets.on('connection', (socket) => {
      const safe = guardSocket(socket, (error) => void faults.push(error));
      socket.on('message', safe(listener));
    });
    const caller = new WebSocket(url);
    caller.on('open', () => caller.send('hello'));
    expect((await once(caller, 'close'))[0]).toBe(1011);
    expect(faults).toEqual([new Error('broken')]);
  });

  test('is closed with as much of the reason as fits into a close frame, in whole characters', async () => {
    const { sockets, url } = await webSockets();
    sockets.on('connection', (socket) => closeSocket(socket, 1008, `x${'é'.repeat(200)}`));
    const caller = new WebSocket(url);
    const [code, reason] = (await once(caller, 'close')) as [number, Buffer];
    expect(code).toBe(1008);
    expect(reason.toString()).toMatch(/^xé{59}/);
  });
});

describe('the target of a request', () => {
  const of = (url?: string) => targetOf({ url } as IncomingMessage);

  test('is a path and a query', () => {
    expect(of('/agent')).toEqual({ path: '/agent', query: '' });
    expect(of('/agent?a=/b?c')).toEqual({ path: '/agent', query: 'a=/b?c' });
    expect(of('/?')).toEqual({ path: '/', query: '' });
  });

  test.each(['//', '//host/agent', 'http://[', 'ws://a:b@c:99999/agent', 'http://a/', '*', '', 'a:80', '/a#b', '/a b'])(
    'is null for "%s"',
    (url) => expect(of(url)).toBeNull(),
  );
});
