import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { runCtl } from '../../src/cli/ctl.ts';
import type { CtlCall } from '../../src/cli/ctl.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const servers: Server[] = [];
afterEach(() => Promise.all(servers.splice(0).map((server) => new Promise((done) => server.close(done)))));

describe('a running bot', () => {
  test('is given the line with the token, and its answer is printed', async () => {
    const bot = await serve(200, '{"ok":true,"text":"Skipped dev."}');
    const result = await ctl({ line: 'floor skip', channel: 'console:demo', json: false }, bot.port);
    expect(result).toEqual({ code: EXIT_CODES.ok, out: 'Skipped dev.\n', err: '' });
    expect(bot.requests).toEqual([
      {
        path: 'POST /ctl',
        authorization: 'Bearer s3cret',
        body: { channel: 'console:demo', line: 'floor skip' },
      },
    ]);
  });

  test('picks the channel when none is named', async () => {
    const bot = await serve(200, '{"ok":true,"text":"x"}');
    await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(bot.requests[0]?.body).toEqual({ line: 'stop' });
  });

  test('that refuses ends with the code for a refusal', async () => {
    const bot = await serve(200, '{"ok":false,"text":"Nothing to stop."}');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result).toEqual({ code: EXIT_CODES.refused, out: '', err: 'Nothing to stop.\n' });
  });

  test('is printed as JSON when asked', async () => {
    const bot = await serve(400, '{"ok":false,"text":"There are 2 channels."}');
    const result = await ctl({ line: 'stop', channel: null, json: true }, bot.port);
    expect(result).toEqual({ code: EXIT_CODES.refused, out: '{"ok":false,"text":"There are 2 channels."}\n', err: '' });
  });

  test('cannot control the terminal with what people wrote', async () => {
    const bot = await serve(200, JSON.stringify({ ok: true, text: 'one\n\u001b[2Jtwo\r' }));
    expect((await ctl({ line: 'queue', channel: null, json: false }, bot.port)).out).toBe('one\n[2Jtwo\n');
  });

  test('that does not take the token is another one', async () => {
    const bot = await serve(401, '{"ok":false,"text":"no"}');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err).toMatch(/^No running Conch answers at 127\.0\.0\.1:\d+: it did not accept the token\. .*\n$/);
  });
});

describe('no running bot', () => {
  test('without a token file is one clear line', async () => {
    const result = await ctl({ line: 'stop', channel: null, json: false }, 7420, null);
    expect(result).toEqual({
      code: EXIT_CODES.notRunning,
      out: '',
      err: 'No running Conch answers at 127.0.0.1:7420: there is no /data/console-token. Start it with "npm start", or set CONCH_PORT and CONCH_DATA_DIR to those of the running one.\n',
    });
  });

  test('at a closed port is one clear line', async () => {
    const bot = await serve(200, '');
    await new Promise((done) => servers.splice(0)[0]?.close(done));
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err.trim().split('\n')).toHaveLength(1);
    expect(result.err).toContain('ECONNREFUSED');
  });

  test.each<[string, Partial<CtlCall>, string]>([
    ['a command', {}, '15 seconds'],
    ['work on the database', { maintenance: { act: 'prune', isDryRun: false } }, '60 minutes'],
  ])('in the time of %s is said with that time', async (_, more, limit) => {
    const late = () => Promise.reject(new DOMException('late', 'TimeoutError'));
    const result = await ctl({ line: '', channel: null, json: false, ...more }, 7420, 's3cret', late);
    expect(result.err).toContain(`it did not answer within ${limit}`);
  });

  test('but another program at the port is said so', async () => {
    const bot = await serve(200, '<html>hello</html>');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err).toContain('the answer is not from Conch (HTTP 200)');
  });

  test('is not given the token after a redirect', async () => {
    const bot = await serve(302, '', { location: 'http://127.0.0.1:1/elsewhere' });
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err).toContain('unexpected redirect');
  });
});

async function ctl(call: CtlCall, port: number, token: string | null = 's3cret\n', ask = fetch) {
  let out = '';
  let err = '';
  const code = await runCtl(call, {
    dataDir: '/data',
    port,
    readFile: async (path) => {
      if (token === null || path !== '/data/console-token') throw new Error('ENOENT');
      return token;
    },
    fetch: ask,
    out: (text) => void (out += text),
    err: (text) => void (err += text),
  });
  return { code, out, err };
}

async function serve(status: number, body: string, headers: Record<string, string> = {}) {
  const requests: { readonly path: string; readonly authorization: string | undefined; readonly body: unknown }[] = [];
  const server = createServer((request, response) => {
    void reply(request, response);
  });
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method, url } = request;
    const sent = JSON.parse(await read(request)) as unknown;
    requests.push({ path: `${method} ${url}`, authorization: request.headers.authorization, body: sent });
    response.writeHead(status, { connection: 'close', ...headers }).end(body);
  };
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return { port: (server.address() as AddressInfo).port, requests };
}

async function read(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}
