import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createToolServer } from '../../../../src/agents/tools/tool-server.ts';
import type { ToolEndpoint, ToolServer } from '../../../../src/agents/tools/tool-server.ts';
import { FLOOR_TOOLS, FloorTools } from '../../../../src/agents/tools/floor-tools.ts';
import { prompt, recorder } from '../conversation.ts';

let server: ToolServer;
let endpoint: ToolEndpoint;

beforeEach(async () => {
  server = createToolServer();
  endpoint = await server.open();
});
afterEach(() => server.close());

async function client(token = endpoint.token): Promise<Client> {
  const made = new Client({ name: 'test', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await made.connect(new StreamableHTTPClientTransport(new URL(endpoint.url), { requestInit }));
  return made;
}

async function status(headers: Record<string, string>, more: RequestInit = {}): Promise<number> {
  const request = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const accept = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  const body = JSON.stringify(request);
  const init = { method: 'POST', body, ...more, headers: { ...accept, ...headers } };
  return (await fetch(endpoint.url, init)).status;
}

describe("the floor's tools as tools", () => {
  test('are the tools of the table `FLOOR_TOOLS`', async () => {
    const { tools } = await (await client()).listTools();
    expect(tools.map(({ name }) => name)).toEqual(Object.keys(FLOOR_TOOLS));
    expect(tools[0]?.inputSchema.required).toEqual(['text']);
  });

  test('T22 are annotated as harmless, for agents that ask before all other tools', async () => {
    const { tools } = await (await client()).listTools();
    const harmless = { readOnlyHint: false, destructiveHint: false, openWorldHint: false };
    expect(tools.map(({ annotations }) => annotations)).toEqual(Object.keys(FLOOR_TOOLS).map(() => harmless));
  });

  test('do nothing while the agent does not hold the floor', async () => {
    const { content } = await (await client()).callTool({ name: 'say', arguments: { text: 'Hello' } });
    expect(content).toEqual([{ type: 'text', text: 'You do not have the floor: nothing was done.' }]);
  });

  test('act on the running turn, and do nothing once it has ended', async () => {
    const { report, messages } = recorder();
    const floorTools = new FloorTools(report, 'dev', prompt({}));
    const agent = await client();
    endpoint.serve(floorTools);
    await agent.callTool({ name: 'say', arguments: { text: 'Hello' } });
    await agent.callTool({ name: 'hand_to', arguments: { agent: 'qa' } });
    endpoint.serve(null);
    await agent.callTool({ name: 'say', arguments: { text: 'Too late' } });
    expect([messages, floorTools.ending]).toEqual([['Hello', ''], { how: 'completed', handTo: 'qa' }]);
  });

  test('answer invalid input with an error text', async () => {
    endpoint.serve(new FloorTools(recorder().report, 'dev', { roster: [] }));
    const { content } = await (await client()).callTool({ name: 'say', arguments: { text: 7 } });
    expect(content).toEqual([{ type: 'text', text: expect.stringMatching(/^Not done/) }]);
  });
});

describe('a caller', () => {
  test('without the token is refused', async () => {
    const refused = await Promise.all([status({}), status({ Authorization: `Bearer ${endpoint.token.slice(1)}` })]);
    expect(refused).toEqual([401, 401]);
  });

  test('with a revoked token is refused', async () => {
    const Authorization = `Bearer ${endpoint.token}`;
    expect(await status({ Authorization })).toBe(200);
    endpoint.close();
    expect(await status({ Authorization })).toBe(401);
  });

  test('in a browser page is refused even with the token', async () => {
    expect(await status({ Authorization: `Bearer ${endpoint.token}`, Origin: 'http://localhost:1' })).toBe(403);
  });

  test('cannot send unlimited data', async () => {
    const body = JSON.stringify({ text: 'x'.repeat(300_000) });
    expect(await status({ Authorization: `Bearer ${endpoint.token}` }, { body })).toBe(413);
  });

  test('of another session acts on the turn of that session alone, at the same URL', async () => {
    const other = await server.open();
    const [here, there] = [recorder(), recorder()];
    other.serve(new FloorTools(there.report, 'qa', prompt({})));
    endpoint.serve(new FloorTools(here.report, 'dev', prompt({})));
    await (await client(other.token)).callTool({ name: 'say', arguments: { text: 'Hello' } });
    expect([other.url, here.messages, there.messages]).toEqual([endpoint.url, [''], ['Hello', '']]);
  });
});
