import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { watchRuns } from '../../src/cli/ctl.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Answering = (response: ServerResponse, request: IncomingMessage, visit: number) => void;

async function bot(answer: Answering): Promise<{ readonly port: number; readonly requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const { authorization = '', 'last-event-id': last = '' } = request.headers;
    requests.push(`${request.url ?? ''} ${authorization} ${String(last)}`.trimEnd());
    answer(response, request, requests.length);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, requests };
}

const AT = Date.UTC(2026, 10, 22, 12, 3, 4);
const event = (id: number, type: string, more: object): string =>
  `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ v: 1, seq: id, at: AT, run: 'demo#1', agent: 'dev', channel: 'console:demo', type, ...more })}\n\n`;

function begin(response: ServerResponse, ...events: readonly string[]): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.write(`retry: 1\n\n${events.join('')}`);
}

function watch(port: number, more: { readonly json?: boolean; readonly token?: string | null } = {}) {
  const { json = false, token = 's3cret\n' } = more;
  const told = { out: '', err: '' };
  const ending = new AbortController();
  const world = {
    dataDir: '/data',
    port,
    readFile: () => (token === null ? Promise.reject(new Error('no such file')) : Promise.resolve(token)),
    fetch,
    out: (text: string) => void (told.out += text),
    err: (text: string) => void (told.err += text),
  };
  const code = watchRuns({ agent: 'dev', channel: 'console:demo', json }, world, ending.signal);
  return { told, code, end: () => ending.abort() };
}

describe('conch run watch', () => {
  test('prints a line for each event, and streamed text as it arrives', async () => {
    const { port, requests } = await bot((response) =>
      begin(
        response,
        event(4, 'tool:start', { tool: 'execute', input: { command: 'npm test' }, callId: 'a' }),
        event(5, 'agent:paused', { payload: { reason: 'approval_required', turn: 3 }, approvalId: 'a1' }),
        `event: stream:token\ndata: ${JSON.stringify({ type: 'stream:token', at: AT, run: 'demo#1', text: 'I \u001b[2Jread' })}\n\n`,
        event(6, 'state:update', { payload: { status: 'idle' }, run: '' }),
      ),
    );
    const { told, code, end } = watch(port);
    await vi.waitFor(() => expect(told.out).toContain('idle'), { timeout: 60_000 });
    end();
    expect(await code).toBe(EXIT_CODES.ok);
    expect(told.out.split('\n')).toEqual([
      '12:03:04 demo#1 tool:start tool=execute input={"command":"npm test"} callId=a',
      '12:03:04 demo#1 agent:paused approvalId=a1 reason=approval_required turn=3',
      'I [2Jread',
      '12:03:04 state:update status=idle',
      '',
    ]);
    expect(requests).toEqual(['/runs/events?agent=dev&channel=console%3Ademo Bearer s3cret']);
  });

  test('prints the events themselves with --json', async () => {
    const { port } = await bot((response) =>
      begin(response, event(4, 'agent:step', { payload: { turn: 1, progress: 0.01 } })),
    );
    const { told, code, end } = watch(port, { json: true });
    await vi.waitFor(() => expect(told.out).not.toBe(''), { timeout: 60_000 });
    end();
    await code;
    expect(JSON.parse(told.out)).toMatchObject({ v: 1, seq: 4, type: 'agent:step', payload: { turn: 1 } });
  });

  test('reconnects after a lost connection, and continues after the last event', async () => {
    const { port, requests } = await bot((response, _request, visit) => {
      begin(response, event(visit, 'agent:step', { payload: { turn: visit } }));
      if (visit < 3) response.end();
    });
    const { told, code, end } = watch(port);
    await vi.waitFor(() => expect(told.out).toContain('turn=3'), { timeout: 60_000 });
    end();
    await code;
    expect(requests.map((line) => line.split(' ').at(-1))).toEqual(['s3cret', '1', '2']);
    expect(told.err).toBe('');
  });

  test.each([
    [404, 'There is no agent "dev" in any channel.\n', EXIT_CODES.refused],
    [400, 'Say which channel: one, two.\n', EXIT_CODES.refused],
    [403, 'Open the console page first.\n', EXIT_CODES.notRunning],
  ])('prints the reason of a refusal with status %i, and ends', async (status, words, expected) => {
    const { port } = await bot((response) => response.writeHead(status).end(words));
    const { told, code } = watch(port);
    expect([await code, told]).toEqual([expected, { out: '', err: words }]);
  });

  test('ends with a failure, and says what to do, when events since a lost connection were deleted', async () => {
    const { port } = await bot((response, _request, visit) => {
      if (visit > 1) response.writeHead(410).end('Start again without Last-Event-ID.\n');
      else begin(response, event(1, 'agent:step', {}));
      if (visit === 1) response.end();
    });
    const { told, code } = watch(port);
    expect(await code).toBe(EXIT_CODES.refused);
    expect(told.err).toBe(
      'Events sent in the meantime are no longer available. To follow from now on, start it again.\n',
    );
  });

  test('says that no Conch answers when another program has its port', async () => {
    const { port } = await bot((response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<p>'));
    const { told, code } = watch(port);
    expect(await code).toBe(EXIT_CODES.notRunning);
    expect(told.err).toMatch(/^No running Conch answers at .*Invalid content type/);
  });

  test('says what to do when Conch is not running, and when it has never run', async () => {
    const gone = await bot((response) => response.end());
    await new Promise((resolve) => servers.splice(0)[0]?.close(resolve));
    const { told, code } = watch(gone.port);
    expect(await code).toBe(EXIT_CODES.notRunning);
    expect(told.err).toMatch(/^No running Conch answers at 127\.0\.0\.1:\d+: .*Start it with "npm start"/);
    const never = watch(1, { token: null });
    expect(await never.code).toBe(EXIT_CODES.notRunning);
    expect(never.told.err).toContain('there is no /data/console-token');
  });
});
