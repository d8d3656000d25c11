import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { McpServer as SdkServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { McpServer } from '../../../src/agents/mcp/mcp-server.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import { mcpPorts, toolNamed } from './mcp-rig.ts';

const open: { close: () => Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** Starts a server on this machine. Resolves with its URL. */
async function listening(answer: Answer): Promise<string> {
  const server: Server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('impossible: a server without a port');
  return `http://127.0.0.1:${address.port}/mcp`;
}

/** Answers like an MCP server with two tools. */
const asTools: Answer = async (request, response) => {
  const server = new SdkServer({ name: 'web', version: '1' });
  const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
  server.registerTool('echo', { description: 'Says it', inputSchema: { text: z.string() } }, ({ text: words }) =>
    text(words),
  );
  server.registerTool('big', { description: 'Says much', inputSchema: {} }, () => text('x'.repeat(9_000_000)));
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  await transport.handleRequest(request, response);
};

function reached(url: string, headers: Record<string, string> = {}) {
  const rig = mcpPorts();
  const server = new McpServer('web', serverSchema.parse({ url, headers }), rig.ports);
  open.push(server);
  return { server, ...rig };
}

const call = (server: McpServer, name: string, input: Record<string, unknown> = {}) =>
  server.call(toolNamed(name), { id: '1', input, stopped: new AbortController().signal, progressed() {} });

describe('an MCP server over HTTP', () => {
  test('is called with its headers', async () => {
    const seen = new Set<string | undefined>();
    const url = await listening((request, response) => {
      seen.add(request.headers.authorization);
      return asTools(request, response);
    });
    const { server } = reached(url, { Authorization: 'Bearer t0k3n' });
    expect((await server.tools()).map(({ name }) => name)).toEqual(['echo', 'big']);
    expect((await call(server, 'echo', { text: 'hello' })).text).toBe('hello');
    expect([...seen]).toEqual(['Bearer t0k3n']);
  });

  test('that redirects is not followed to another host, and its headers are not sent there', async () => {
    const others: string[] = [];
    const other = await listening((request, response) => {
      others.push(request.url ?? '');
      return asTools(request, response);
    });
    const url = await listening((_, response) => void response.writeHead(307, { location: other }).end());
    await expect(reached(url, { Authorization: 'Bearer t0k3n' }).server.tools()).rejects.toThrow(
      'it answered with 307',
    );
    expect(others).toEqual([]);
  });

  test('may send at most 8 MiB in one answer', async () => {
    const { server } = reached(await listening(asTools));
    await server.tools();
    expect(await call(server, 'big')).toMatchObject({ isError: true, code: 'UNKNOWN' });
    expect((await call(server, 'echo', { text: 'still here' })).text).toBe('still here');
  });

  test('that answers with 401 gives a one-line error, and is retried after its backoff', async () => {
    let status = 401;
    const url = await listening((request, response) =>
      status === 200 ? asTools(request, response) : void response.writeHead(status).end('no'),
    );
    const { server, time } = reached(url);
    await expect(server.tools()).rejects.toThrow(/^it answered with 401$/);
    status = 200;
    await expect(server.tools()).rejects.toThrow('it is tried again in 1 s: it answered with 401');
    await time.advance(1_000);
    expect(await server.tools()).toHaveLength(2);
  });

  test('that is unreachable gives a one-line error', async () => {
    await expect(reached('http://127.0.0.1:1/mcp').server.tools()).rejects.toThrow(/^it cannot be reached: /);
  });

  test('that breaks the connection during a call gives the outcome UNKNOWN', async () => {
    const url = await listening(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(Buffer.from(chunk as Uint8Array));
      const body = Buffer.concat(chunks).toString();
      if (body.includes('tools/call')) return void request.socket.destroy();
      const copy = Object.assign(request, { body: undefined });
      const server = new SdkServer({ name: 'web', version: '1' });
      server.registerTool('echo', { inputSchema: {} }, () => ({ content: [] }));
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
      await server.connect(transport);
      await transport.handleRequest(copy, response, body === '' ? undefined : JSON.parse(body));
    });
    const { server } = reached(url);
    await server.tools();
    expect(await call(server, 'echo')).toMatchObject({ isError: true, code: 'UNKNOWN' });
  });
});
