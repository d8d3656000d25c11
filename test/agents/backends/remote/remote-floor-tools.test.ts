import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runBridge } from '../../../../src/agents/bridge/bridge.ts';
import { toolsUrlOf } from '../../../../src/agents/backends/remote/remote-host.ts';
import type { ToolEndpoint } from '../../../../src/agents/tools/tool-server.ts';
import { FLOOR_TOOLS, FloorTools } from '../../../../src/agents/tools/floor-tools.ts';
import { FAKE_ACP, acpRig } from '../acp/acp-rig.ts';
import { prompt, recorder } from '../conversation.ts';
import { createTime } from '../../time.ts';
import { SEAT, remoteRig, until } from './remote-rig.ts';
import type { RemoteRig } from './remote-rig.ts';

let rig: RemoteRig;
beforeEach(async () => void (rig = await remoteRig()));
afterEach(() => rig.stop());

const connected = (of = rig) => until(() => of.host.slot('dev').link !== null, 'the connection');

/** Opens the floor tools of one session of the connected agent dev. */
async function opened(of = rig, headers: Record<string, string> = {}): Promise<ToolEndpoint> {
  of.dial({ Authorization: `Bearer ${of.token}`, ...headers });
  await connected(of);
  return of.host.openToolEndpoint(of.host.slot('dev').link!)!;
}

async function client({ url, token }: Pick<ToolEndpoint, 'url' | 'token'>): Promise<Client> {
  const made = new Client({ name: 'test', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return made;
}

type Call = Omit<RequestInit, 'headers'> & { readonly path?: string; readonly headers?: Record<string, string> };

/** Returns the HTTP status of one call. */
async function status(token: string, more: Call = {}): Promise<number> {
  const { path = '/mcp', headers, ...init } = more;
  const response = await fetch(rig.url.replace('ws:', 'http:').replace('/agent', path), {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    ...init,
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      Authorization: `Bearer ${token}`,
      ...headers,
    },
  });
  await response.body?.cancel();
  return response.status;
}

describe('the floor tools of a remote agent', () => {
  test('are on the port that it connected to, and act on its turn', async () => {
    const endpoint = await opened();
    expect(endpoint.url).toBe(rig.url.replace('ws:', 'http:').replace('/agent', '/mcp'));
    const { report, messages } = recorder();
    endpoint.serve(new FloorTools(report, 'dev', prompt({})));
    const agent = await client(endpoint);
    expect((await agent.listTools()).tools.map(({ name }) => name)).toEqual(Object.keys(FLOOR_TOOLS));
    await agent.callTool({ name: 'say', arguments: { text: 'Hello' } });
    endpoint.serve(null);
    await agent.callTool({ name: 'say', arguments: { text: 'Too late' } });
    expect(messages).toEqual(['Hello', '']);
  });

  test("accept only their session's token, not the token that the agent connects with", async () => {
    const endpoint = await opened();
    const strangers = ['', endpoint.token.slice(1), rig.token];
    expect(await Promise.all(strangers.map((token) => status(token)))).toEqual([401, 401, 401]);
    expect(await status(endpoint.token)).toBe(200);
  });

  test('refuse the token of an ended session, and earlier tokens that the ended session admits', async () => {
    const [one, two] = [await opened(), rig.host.openToolEndpoint(rig.host.slot('dev').link!)!];
    one.close();
    one.admit('earlier');
    expect(await Promise.all([one.token, 'earlier', two.token].map((token) => status(token)))).toEqual([401, 401, 200]);
  });

  test('accept an earlier token of the same session until the session ends', async () => {
    const endpoint = await opened();
    endpoint.admit('earlier');
    expect(await status('earlier')).toBe(200);
    endpoint.close();
    expect(await status('earlier')).toBe(401);
  });

  test('refuse pages in a browser unless their origin is listed', async () => {
    const { token } = await opened();
    const from = (Origin: string) => status(token, { headers: { Origin } });
    expect([await from('https://evil.example'), await from('https://allowed.example')]).toEqual([403, 200]);
  });

  test('accept calls of up to 1 MiB, the limit of a message of the connection', async () => {
    const { token } = await opened();
    const around = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":""}}}';
    const body = (bytes: number) => around.replace('""', `"${'x'.repeat(bytes - around.length)}"`);
    expect([await status(token, { body: body(1_048_576) }), await status(token, { body: body(1_048_577) })]).toEqual([
      200, 413,
    ]);
    const endless = new Blob([body(1_048_577)]).stream();
    expect(await status(token, { body: endless, duplex: 'half' })).toBe(413);
  });

  test("T49 answer 429 when they are called above the connection's rate, and then work again", async () => {
    const time = createTime();
    const other = await remoteRig({ limits: { messagesPerSecond: 5 }, timers: time.timers, clock: time.clock });
    try {
      const { url, token } = await opened(other);
      const headers = {
        Authorization: `Bearer ${token}`,
        Accept: 'application/json, text/event-stream',
        'Content-Type': 'application/json',
      };
      const body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
      const call = () => fetch(url, { method: 'POST', headers, body });
      const statuses: number[] = [];
      for (let n = 0; n < 100 && !statuses.includes(429); n += 1) statuses.push((await call()).status);
      expect(statuses.at(-1)).toBe(429);
      expect(statuses.length).toBeLessThan(12);
      expect((await call()).headers.get('Retry-After')).toBe('1');
      await time.advance(2_000);
      expect((await call()).status).toBe(200);
      expect(other.host.slot('dev').link?.open).toBe(true);
    } finally {
      await other.stop();
    }
  });

  test('are at no other path, and refuse the method DELETE', async () => {
    const { token } = await opened();
    expect(await status(token, { path: '/' })).toBe(426);
    expect(await status(token, { path: '/mcp?x' })).toBe(426);
    expect(await status(token, { method: 'DELETE' })).toBe(405);
  });

  test("behind a proxy are at the proxy's name, and only for encrypted calls", async () => {
    const other = await remoteRig({ behindProxy: true });
    try {
      const proxied = { 'X-Forwarded-Proto': 'https', Host: 'chat.example.org' };
      const { url, token } = await opened(other, proxied);
      expect(url).toBe('https://chat.example.org/mcp');
      const call = async (headers: Record<string, string>) =>
        (
          await fetch(other.url.replace('ws:', 'http:').replace('/agent', '/mcp'), {
            method: 'GET',
            headers: { Authorization: `Bearer ${token}`, ...headers },
          })
        ).status;
      expect([await call({}), await call({ 'X-Forwarded-Proto': 'https' })]).toEqual([403, 405]);
    } finally {
      await other.stop();
    }
  });
});

describe('the URL of the floor tools', () => {
  const dialled = (host?: string, more: Record<string, string> = {}) => ({
    headers: { ...more, ...(host !== undefined && { host }) },
  });

  test.each([
    ['127.0.0.1:7421', {}, 'http://127.0.0.1:7421/mcp'],
    ['[::1]:7421', {}, 'http://[::1]:7421/mcp'],
    ['chat.example.org', { tls: {} }, 'https://chat.example.org/mcp'],
    ['chat.example.org:8443', { behindProxy: true }, 'https://chat.example.org:8443/mcp'],
  ])('for an agent that dialled %s is known with %j', (host, reach, url) => {
    expect(toolsUrlOf(dialled(host), reach)).toBe(url);
  });

  test.each([
    undefined,
    '',
    'a b',
    'user@chat.example.org',
    'chat.example.org/path',
    'chat.example.org:99999',
    '[::1',
    'a?b',
    'a#b',
  ])('is unknown when the agent says that it dialled %j', (host) => {
    expect(toolsUrlOf(dialled(host), {})).toBeNull();
  });

  test('uses X-Forwarded-Host only behind a proxy', () => {
    const request = dialled('10.0.0.5:7421', { 'x-forwarded-host': 'spoofed.example, chat.example.org' });
    expect(toolsUrlOf(request, { behindProxy: true })).toBe('https://chat.example.org/mcp');
    expect(toolsUrlOf(request, {})).toBe('http://10.0.0.5:7421/mcp');
  });
});

describe('an agent that reconnects', () => {
  /** Connects an agent that answers each request and records the tokens of the floor tools. */
  const agent = (tokens: string[], sessionCapabilities: object) => {
    const socket = rig.dial({ Authorization: `Bearer ${rig.token}` });
    socket.on('message', (bytes: Buffer) => {
      const { id, method, params } = JSON.parse(bytes.toString('utf8')) as Asked;
      const [header] = params?.mcpServers?.[0]?.headers ?? [];
      if (header !== undefined) tokens.push(header.value.replace('Bearer ', ''));
      const agentCapabilities = { mcpCapabilities: { http: true }, sessionCapabilities };
      const result =
        method === 'initialize'
          ? { protocolVersion: 1, agentCapabilities }
          : { sessionId: 's1', stopReason: 'end_turn' };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
    return socket;
  };

  test.each([
    ['with its session keeps its token and gets another', { resume: {} }, [200, 200]],
    ['without its session has only its new token', {}, [401, 200]],
  ])('%s', async (_what, capabilities, statuses) => {
    const tokens: string[] = [];
    const socket = agent(tokens, capabilities);
    await connected();
    const session = await rig.backend.open(SEAT);
    expect(await status(tokens[0]!)).toBe(200);
    socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    expect(await status(tokens[0]!)).toBe(401);
    agent(tokens, capabilities);
    await until(() => tokens.length === 2, 'the session');
    await session.prompt(prompt({ text: 'Hello' }), recorder().report);
    const now = () => Promise.all(tokens.map((token) => status(token)));
    expect(await now()).toEqual(statuses);
    await session.close();
    expect(await now()).toEqual([401, 401]);
  });
});

type Asked = {
  readonly id: number;
  readonly method: string;
  readonly params?: { readonly mcpServers?: readonly { readonly headers: readonly { readonly value: string }[] }[] };
};

describe('an agent behind a bridge', () => {
  test('keeps its floor tools when the connection is lost in a turn, although it gets no new token', async () => {
    const fake = await acpRig();
    const stop = new AbortController();
    const over = runBridge({
      url: rig.url,
      token: rig.token,
      command: process.execPath,
      args: [FAKE_ACP],
      env: { PATH: process.env['PATH'] ?? '', ...fake.env },
      cwd: import.meta.dirname,
      signal: stop.signal,
      say: () => undefined,
      waitMs: () => 20,
    });
    try {
      await connected();
      const session = await rig.backend.open(SEAT);
      const heard = recorder();
      fake.play({ do: 'say', text: 'One.' }, { do: 'pause' });
      const turn = session.prompt(prompt({ text: 'Count' }), heard.report);
      await fake.paused();
      fake.play({ do: 'say', text: 'Two.' }, { do: 'hand_to', agent: 'qa' });
      rig.host.slot('dev').link?.drop('as if the network failed', { final: false });
      expect(await turn).toEqual({ how: 'completed', handTo: 'qa' });
      expect(heard.messages.filter((message) => message !== '')).toEqual(['One.', 'Two.']);
      expect(fake.told.opened).toEqual(['session/new']);
      expect(fake.told.seen.at(-1)).toContain(`The server "${fake.told.servers[0]}" has tools`);
      await session.close();
    } finally {
      stop.abort();
      await over;
      await fake.stop();
    }
  });
});
