import type { Random } from '../kill/random.ts';
import { oddText } from './bytes.ts';

type Header = readonly [name: string, value: string];

/** A well-formed request. */
export type Request = {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly Header[];
  readonly body?: string;
};

const METHODS = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'OPTIONS',
  'CONNECT',
  'TRACE',
  'PRI',
  'get',
  'X-Y',
  '',
  'M-SEARCH',
];
const TARGETS = [
  [
    '/',
    '//',
    '///',
    '/?',
    '/%',
    '/%00',
    '/%ff',
    '/..%2f..%2fpackage.json',
    '/../../etc/passwd',
    '/index.html',
    '/a\\b',
  ],
  [
    '/agent',
    '/agent?token=x',
    '/agent#x',
    '/mcp',
    '/mcp?x',
    '/ctl',
    '/socket',
    '/healthz',
    '/slack/events',
    '/assets/',
  ],
  ['http://[', 'http://', 'http://a/', 'http://[::1', 'http://a:99999/', 'ws://a:b@c:99999/agent', 'wss://a', 'a:80'],
  ['*', '', 'agent', '?', '#', '/é', '/\0', '/ x', `/${'x'.repeat(9_000)}`, `/${'%2e'.repeat(500)}`, 'javascript:0'],
].flat();
const HEADERS: readonly Header[] = [
  ['Host', 'evil.example'],
  ['Host', '['],
  ['Host', ''],
  ['Host', '127.0.0.1:99999'],
  ['Host', 'a@b:c@d'],
  ['Origin', 'null'],
  ['Origin', 'http://['],
  ['Connection', 'close'],
  ['Connection', 'Upgrade, keep-alive, close'],
  ['Upgrade', 'websocket'],
  ['Upgrade', 'h2c, websocket'],
  ['Upgrade', 'WEBSOCKET\t'],
  ['Sec-WebSocket-Key', 'short'],
  ['Sec-WebSocket-Version', '99'],
  ['Sec-WebSocket-Version', '8, 13'],
  ['Sec-WebSocket-Protocol', 'a, a,,b'],
  ['Sec-WebSocket-Extensions', 'permessage-deflate; server_max_window_bits=99; x="'],
  ['Content-Length', '-1'],
  ['Content-Length', '99'],
  ['Content-Length', '1e3'],
  ['Content-Length', '9'.repeat(30)],
  ['Transfer-Encoding', 'chunked'],
  ['Transfer-Encoding', 'gzip, chunked'],
  ['Transfer-Encoding', 'chunked, identity'],
  ['Content-Encoding', 'gzip'],
  ['Content-Type', 'application/json; charset=utf-99'],
  ['Content-Type', 'multipart/form-data; boundary='],
  ['Content-Type', 'application/x-www-form-urlencoded'],
  ['Expect', '100-continue'],
  ['Expect', 'the unexpected'],
  ['Range', 'bytes=9-1'],
  ['Range', 'bytes=-'],
  ['Range', `bytes=0-${'9'.repeat(30)}`],
  ['If-None-Match', '*'],
  ['Accept', 'text/event-stream'],
  ['Cookie', '=;;=x; conch_0'],
  ['Authorization', 'Bearer '],
  ['Authorization', `Bearer ${'x'.repeat(600)}`],
  ['X-Forwarded-For', '[,'],
  ['Mcp-Session-Id', '\u0001'],
  ['X-Slack-Request-Timestamp', 'NaN'],
  ['Last-Event-ID', '1'],
  ['Trailer', 'x'],
  ['A b', 'c'],
  [' folded', ' line\r\n more'],
  ['X-Long', 'x'.repeat(20_000)],
];

/** The bytes of a request, mostly odd in one or two respects. */
export function requestBytes(random: Random, right: Request): Buffer {
  const method = random.chance(0.08) ? random.pick(METHODS) : right.method;
  const target = random.chance(0.2) ? random.pick(TARGETS) : right.target;
  const version = random.chance(0.03) ? random.pick(['HTTP/1.0', 'HTTP/2.0', 'HTTP/9', 'http/1.1', '']) : 'HTTP/1.1';
  const [framing, body] = framed(random, right.body);
  const headers = [...right.headers, ...framing].flatMap((header) => changed(random, header));
  while (random.chance(0.15)) headers.splice(random.between(0, headers.length), 0, random.pick(HEADERS));
  if (random.chance(0.01)) headers.push(...Array.from({ length: 3_000 }, (_, n): Header => [`X-${n}`, '']));
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.from(`${method} ${target} ${version}\r\n${lines}\r\n${body}`);
}

/** The request of a WebSocket handshake. */
export function upgrade(target: string, headers: readonly Header[]): Request {
  const usual: readonly Header[] = [
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
    ['Sec-WebSocket-Version', '13'],
  ];
  return { method: 'GET', target, headers: [...headers, ...usual] };
}

/** The bytes of a well-formed request. */
export function plain({ method, target, headers, body = '' }: Request): Buffer {
  const length: readonly Header[] = body === '' ? [] : [['Content-Length', String(Buffer.byteLength(body))]];
  const lines = [...headers, ...length].map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines}\r\n${body}`);
}

function changed(random: Random, [name, value]: Header): readonly Header[] {
  if (random.chance(0.95)) return [[name, value]];
  return random.pick<readonly Header[]>([
    [],
    [
      [name, value],
      [name, value],
    ],
    [[name.toLowerCase(), `${value}, ${value}`]],
    [[name, oddText(random)]],
    [[name, `${value}${oddText(random)}`]],
  ]);
}

/** Returns the length headers of an HTTP body, and the body as sent. Some headers are wrong on purpose. */
function framed(random: Random, body: string | undefined): readonly [readonly Header[], string] {
  if (body === undefined) return [[], random.chance(0.05) ? oddText(random) : ''];
  const length = Buffer.byteLength(body);
  const chunked = `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  if (random.chance(0.75)) return [[['Content-Length', String(length)]], body];
  return random.pick<readonly [readonly Header[], string]>([
    [[['Transfer-Encoding', 'chunked']], chunked],
    [[['Transfer-Encoding', 'chunked']], `zz\r\n${body}`],
    [[['Transfer-Encoding', 'chunked']], `ffffffffffffffff\r\n${body}`],
    [
      [
        ['Transfer-Encoding', 'chunked'],
        ['Content-Length', String(length)],
      ],
      chunked,
    ],
    [[['Content-Length', String(length + 5)]], body],
    [[['Content-Length', String(Math.max(0, length - 5))]], body],
    [
      [
        ['Content-Length', String(length)],
        ['Content-Length', '0'],
      ],
      body,
    ],
    [[], body],
  ]);
}
