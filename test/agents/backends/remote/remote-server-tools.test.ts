import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { McpPool } from '../../../../src/agents/mcp/mcp-pool.ts';
import { KnownSecrets } from '../../../../src/agents/tools/known-secrets.ts';
import type { CallResult, GatedCall } from '../../../../src/agents/tools/tool-gate.ts';
import type { Choice } from '../../../../src/turns/floor/settings.ts';
import { livingIn } from '../acp/acp-rig.ts';
import { mcpPorts, toolsServer } from '../../mcp/mcp-rig.ts';
import { gateThat, prompt, recorder } from '../conversation.ts';
import { SEAT, remoteRig, speak, until } from './remote-rig.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** Connects a remote agent and opens its session. `turn` runs a turn in which the agent does `doing`. */
async function begun() {
  const { ports } = mcpPorts();
  const pool = new McpPool(() => ({ raw: toolsServer(['tool=pid']) }), ports);
  ends.push(() => pool.close());
  const secrets = new KnownSecrets([]);
  const rig = await remoteRig({}, { serverTools: { pool, secrets: () => secrets, clock: ports.clock } });
  ends.push(() => rig.stop());
  const asked: GatedCall[] = [];
  const settled: CallResult[] = [];
  let act = async (): Promise<unknown> => null;
  let came: unknown = null;
  const connect = async () => {
    const socket = rig.dial({ Authorization: `Bearer ${rig.token}` });
    const answering = async (_text: string, say: (text: string) => Promise<void>) => {
      came = await act();
      await say('Done.');
      return { stopReason: 'end_turn' } as const;
    };
    const { servers } = speak(socket, answering, { mcpCapabilities: { http: true } });
    await until(() => rig.host.slot('dev').link !== null, 'the connection');
    return { socket, servers };
  };
  const { socket, servers } = await connect();
  const session = await rig.backend.open({ ...SEAT, reaches: (_server, tool) => tool !== 'write' });
  ends.push(() => session.close());
  const turn = async (choice: Choice, doing: () => Promise<unknown>): Promise<string> => {
    act = doing;
    const gate = gateThat((call) => (asked.push(call), choice));
    const kept = { ...gate, settled: async (_: GatedCall, result: CallResult) => void settled.push(result) };
    await session.prompt(prompt({ text: 'Go' }), { ...recorder().report, gate: kept });
    return JSON.stringify(came);
  };
  return { rig, session, socket, servers, connect, turn, asked, settled };
}

/** Creates a client of the tool server that the agent was given last. */
async function clientOf(servers: Awaited<ReturnType<typeof begun>>['servers']): Promise<Client> {
  const server = servers.at(-1);
  if (server === undefined || !('url' in server)) throw new Error('no server was given');
  const client = new Client({ name: 'test', version: '1' });
  const headers = Object.fromEntries(server.headers.map(({ name, value }) => [name, value]));
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } }));
  ends.push(() => client.close());
  return client;
}

describe('a remote agent with MCP tools', () => {
  test("finds the tools that the rules can allow beside the floor's tools", async () => {
    const { servers } = await begun();
    const { tools } = await (await clientOf(servers)).listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['say', 'raw__echo', 'read_output']));
    expect(names).not.toContain('raw__write');
  });

  test('has its calls decided, run and recorded by Conch', async () => {
    const { servers, turn, asked, settled } = await begun();
    const client = await clientOf(servers);
    const call = () => client.callTool({ name: 'raw__echo', arguments: { text: 'a' } });
    expect(await turn('allow', call)).toContain('Result of raw__echo');
    expect(asked).toMatchObject([{ tool: 'mcp__raw__echo', input: { text: 'a' } }]);
    expect(asked[0]?.accounts).toBeUndefined();
    expect(settled).toMatchObject([{ status: 'complete', output: 'a' }]);
    expect(await turn('reject', call)).toContain('People denied it');
    expect(settled).toHaveLength(1);
  });

  test('runs nothing while it does not hold the floor', async () => {
    const { servers, asked } = await begun();
    const client = await clientOf(servers);
    const came = await client.callTool({ name: 'raw__echo', arguments: { text: 'a' } });
    expect([JSON.stringify(came), asked]).toEqual([expect.stringContaining('You do not have the floor'), []]);
  });

  test('finds the same server after a reconnect, and leaves no process of the server behind', async () => {
    const { rig, session, socket, servers, connect, turn } = await begun();
    const pid = async (given: typeof servers) => {
      const client = await clientOf(given);
      return await turn('allow', () => client.callTool({ name: 'raw__pid', arguments: {} }));
    };
    const numbers = (text: string) => /\\n(\d+)\\n/.exec(text)?.[1];
    const before = numbers(await pid(servers));
    socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    const again = await connect();
    await until(() => again.servers.length > 0, 'the session');
    expect(numbers(await pid(again.servers))).toBe(before);
    expect(before).toMatch(/^\d+$/);
    again.socket.terminate();
    await until(() => rig.host.slot('dev').link === null, 'the loss');
    await session.close();
    await vi.waitFor(() => expect(livingIn(Number(before))).toEqual([]), { timeout: 60_000 });
  });
});
