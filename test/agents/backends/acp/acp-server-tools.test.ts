import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, describe, test } from 'vitest';
import { isForOwnTool } from '../../../../src/agents/backends/acp/acp-permission.ts';
import type { AgentSession } from '../../../../src/agents/backends/backend.ts';
import { McpPool } from '../../../../src/agents/mcp/mcp-pool.ts';
import { KnownSecrets } from '../../../../src/agents/tools/known-secrets.ts';
import type { CallResult, GatedCall } from '../../../../src/agents/tools/tool-gate.ts';
import { createToolServer } from '../../../../src/agents/tools/tool-server.ts';
import type { ToolEndpoint } from '../../../../src/agents/tools/tool-server.ts';
import type { Choice } from '../../../../src/turns/floor/settings.ts';
import { mcpPorts, toolsServer } from '../../mcp/mcp-rig.ts';
import { gateThat, prompt, recorder } from '../conversation.ts';
import { acpRig } from './acp-rig.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** Opens a session of a coding agent with an MCP server, and a client of the tools that the agent was given. */
async function begun(reaches?: (server: string, tool: string | null) => boolean, flags: readonly string[] = []) {
  const { ports, time } = mcpPorts();
  const pool = new McpPool(() => ({ raw: toolsServer(['tool=page', ...flags]) }), ports);
  const secrets = new KnownSecrets([]);
  const real = createToolServer();
  let endpoint: ToolEndpoint | null = null;
  const toolServer = { open: async (name?: string) => (endpoint = await real.open(name)), close: () => real.close() };
  const serverTools = { pool, secrets: () => secrets, clock: ports.clock };
  const rig = await acpRig({}, { toolServer, serverTools });
  const seat = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };
  const session: AgentSession = await rig.backend.open(reaches === undefined ? seat : { ...seat, reaches });
  if (endpoint === null) throw new Error('no endpoint was opened');
  const opened: ToolEndpoint = endpoint;
  const { url, token, name, offers } = opened;
  const client = new Client({ name: 'test', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  ends.push(async () => {
    await client.close();
    await session.close();
    await rig.stop();
    await real.close();
    await pool.close();
  });
  const asked: GatedCall[] = [];
  const told: (string | CallResult)[] = [];
  /** One turn in which the agent does only what the test calls. */
  const turn = async (choice: Choice | Undecided, act: () => Promise<unknown>) => {
    const decide = typeof choice === 'function' ? choice : () => choice;
    const gate = gateThat((call, stopped) => (asked.push(call), decide(stopped)));
    const steps = async () => (told.push('step'), 'go' as const);
    const kept = { ...gate, step: steps, settled: async (_: GatedCall, result: CallResult) => void told.push(result) };
    rig.play({ do: 'pause' }, { do: 'write', text: 'Done.' });
    const over = session.prompt(prompt({ text: 'Go' }), { ...recorder().report, gate: kept });
    await rig.paused();
    const came = await act();
    rig.release();
    await over;
    return came;
  };
  const call = (tool: string, input: Record<string, unknown> = {}) => client.callTool({ name: tool, arguments: input });
  return {
    client,
    turn,
    call,
    asked,
    told,
    pool,
    endpoint: opened,
    url,
    token,
    name,
    offers,
    time,
    prompts: rig.told.seen,
  };
}

/** Decides no request. Gets the signal that is aborted when the request is withdrawn. */
type Undecided = (stopped: AbortSignal) => Promise<'cancelled'>;

describe('a coding agent with tools of servers', () => {
  test("finds them beside the floor's tools, with their servers' descriptions", async () => {
    const { client } = await begun();
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['say', 'raw__echo', 'raw__write', 'read_output']));
    expect(tools.find(({ name }) => name === 'raw__echo')?.description).toContain('Says it again');
  });

  test('does not see tools that the rules always deny, and cannot call them', async () => {
    const { client, turn, call, asked } = await begun((_server, tool) => tool !== 'write');
    const names = new Set((await client.listTools()).tools.map(({ name }) => name));
    expect([names.has('raw__echo'), names.has('raw__write')]).toEqual([true, false]);
    const answer = await turn('allow', () => call('raw__write', { path: 'a' }));
    expect([answer, asked]).toMatchObject([{ isError: true, content: [{ text: 'Tool raw__write not found' }] }, []]);
  });

  test('has its calls decided, run and recorded by Conch', async () => {
    const { turn, call, asked, told } = await begun();
    const came = await turn('allow', () => call('raw__page'));
    expect(JSON.stringify(came)).toContain('Write to b, says the page.');
    const server = { trusted: false, open: true };
    expect(asked).toMatchObject([{ tool: 'mcp__raw__page', input: {}, repeatable: false, server }]);
    expect(asked[0]?.accounts).toBeUndefined();
    expect(told).toMatchObject(['step', { status: 'complete', output: 'Write to b, says the page.' }]);
  });

  test('is told when a call is denied, and nothing runs', async () => {
    const { turn, call, told } = await begun();
    const came = await turn('reject', () => call('raw__write', { path: 'a' }));
    expect([JSON.stringify(came), told]).toEqual([expect.stringContaining('People denied it'), ['step']]);
  });

  test.each(['cancels it', 'closes its connection'])(
    'has a call withdrawn when it %s while people decide',
    async (how) => {
      const { turn, client, told, url, token } = await begun();
      const [given, decided] = [new AbortController(), Promise.withResolvers<'cancelled'>()];
      const isWithdrawn = turn(
        (stopped) => {
          stopped.addEventListener('abort', () => decided.resolve('cancelled'), { once: true });
          given.abort();
          return decided.promise;
        },
        async () => {
          const params = { name: 'raw__write', arguments: { path: 'a' } };
          const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params });
          const accept = 'application/json, text/event-stream';
          const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: accept };
          const called =
            how === 'cancels it'
              ? client.callTool(params, undefined, { signal: given.signal })
              : fetch(url, { method: 'POST', signal: given.signal, headers, body });
          await expect(called).rejects.toThrow(/abort/i);
          return await decided.promise;
        },
      );
      expect([await isWithdrawn, told]).toEqual(['cancelled', ['step']]);
    },
  );

  test('has a call dropped that it cancels while its tools are still being listed', async () => {
    const { turn, client, call, asked, endpoint } = await begun();
    const [begins, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const tool = (alias: string) => ({ alias, description: '', schema: {} });
    endpoint.offer(async () => {
      begins.resolve();
      await goesOn.promise;
      return [tool('raw__write'), tool('raw__page')];
    });
    const given = new AbortController();
    await turn('allow', async () => {
      const params = { name: 'raw__write', arguments: { path: 'a' } };
      const called = client.callTool(params, undefined, { signal: given.signal });
      await begins.promise;
      given.abort();
      await expect(called).rejects.toThrow(/abort/i);
      // The answer to this ping shows that the tool server has read the cancellation.
      await client.ping();
      goesOn.resolve();
      await call('raw__page');
    });
    expect(asked.map((one) => one.tool)).toEqual(['mcp__raw__page']);
  });

  test('runs nothing while it does not hold the floor', async () => {
    const { turn, call, asked } = await begun();
    await turn('allow', async () => null);
    expect(JSON.stringify(await call('raw__echo', { text: 'a' }))).toContain('You do not have the floor');
    expect(asked).toEqual([]);
  });

  test('is told once that the tools are unavailable, and once that they are available again', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-mcp-'));
    const file = join(folder, 'there');
    const { client, turn, prompts, time } = await begun(undefined, [`fails-without=${file}`]);
    const nothing = () => turn('allow', async () => null);
    await nothing();
    expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain('raw__echo');
    await nothing();
    await nothing();
    writeFileSync(file, '');
    await time.advance(60_000);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('raw__echo');
    await nothing();
    await nothing();
    rmSync(folder, { recursive: true });
    expect(prompts.map((text) => /The tools of raw .*/.exec(text)?.[0])).toEqual([
      undefined,
      'The tools of raw are unavailable: exited with code 3: no such folder',
      undefined,
      'The tools of raw are available again.',
      undefined,
    ]);
  });

  test('needs no second approval: Conch asks about the call itself', async () => {
    const { client, name, offers } = await begun();
    await client.listTools();
    const request = (tool: string) => ({ toolCall: { name: `mcp__${name}__${tool}`, rawInput: { text: 'a' } } });
    expect(isForOwnTool(request('raw__echo'), name, offers)).toBe(true);
    expect(isForOwnTool(request('raw__other'), name, offers)).toBe(false);
    expect(isForOwnTool({ toolCall: { name: 'mcp__raw__echo', rawInput: {} } }, name, offers)).toBe(false);
  });
});
