import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { runCtl } from '../../src/cli/ctl.ts';
import type { CtlCall } from '../../src/cli/ctl.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const servers: Server[] = [];
afterEach(() => Promise.all(servers.splice(0).map((server) => new Promise((done) => server.close(done)))));

describe('conch ctl with a running Conch', () => {
  test('sends the line with the token, and prints the answer', async () => {
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

  test('sends no channel when none is named', async () => {
    const bot = await serve(200, '{"ok":true,"text":"x"}');
    await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(bot.requests[0]?.body).toEqual({ line: 'stop' });
  });

  test('ends with the exit code of a refusal when Conch refuses', async () => {
    const bot = await serve(200, '{"ok":false,"text":"Nothing to stop."}');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result).toEqual({ code: EXIT_CODES.refused, out: '', err: 'Nothing to stop.\n' });
  });

  test('prints the answer as JSON with --json', async () => {
    const bot = await serve(400, '{"ok":false,"text":"There are 2 channels."}');
    const result = await ctl({ line: 'stop', channel: null, json: true }, bot.port);
    expect(result).toEqual({ code: EXIT_CODES.refused, out: '{"ok":false,"text":"There are 2 channels."}\n', err: '' });
  });

  test('removes control characters from texts of people', async () => {
    const bot = await serve(200, JSON.stringify({ ok: true, text: 'one\n\u001b[2Jtwo\r' }));
    expect((await ctl({ line: 'queue', channel: null, json: false }, bot.port)).out).toBe('one\n[2Jtwo\n');
  });

  test('reports that no Conch is running when the server does not accept the token', async () => {
    const bot = await serve(401, '{"ok":false,"text":"no"}');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err).toMatch(/^No running Conch answers at 127\.0\.0\.1:\d+: it did not accept the token\. .*\n$/);
  });
});

describe('conch ctl without a running Conch', () => {
  test('prints one line when the token file is missing', async () => {
    const result = await ctl({ line: 'stop', channel: null, json: false }, 7420, null);
    expect(result).toEqual({
      code: EXIT_CODES.notRunning,
      out: '',
      err: 'No running Conch answers at 127.0.0.1:7420: there is no /data/console-token. Start it with "npm start", or set CONCH_PORT and CONCH_DATA_DIR to those of the running one.\n',
    });
  });

  test('prints one line when the port is closed', async () => {
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
  ])('names the time limit of %s when the limit has passed', async (_, more, limit) => {
    const late = () => Promise.reject(new DOMException('late', 'TimeoutError'));
    const result = await ctl({ line: '', channel: null, json: false, ...more }, 7420, 's3cret', late);
    expect(result.err).toContain(`it did not answer within ${limit}`);
  });

  test('reports another program at the port', async () => {
    const bot = await serve(200, '<html>hello</html>');
    const result = await ctl({ line: 'stop', channel: null, json: false }, bot.port);
    expect(result.code).toBe(EXIT_CODES.notRunning);
    expect(result.err).toContain('the answer is not from Conch (HTTP 200)');
  });

  test('follows no redirect, so that no other server gets the token', async () => {
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
