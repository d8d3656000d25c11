import { describe, expect, test } from 'vitest';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { sieved } from '../../../src/agents/mcp/mcp-connection.ts';

function rig() {
  const transport: Transport = { start: async () => {}, send: async () => {}, close: async () => {} };
  const bad = sieved(transport);
  const heard: JSONRPCMessage[] = [];
  Object.assign(transport, { onmessage: (message: JSONRPCMessage) => void heard.push(message) });
  return { hear: (message: JSONRPCMessage) => transport.onmessage?.(message), heard, bad };
}

describe('a message from an MCP server', () => {
  test.each(['message', 'resources/updated', 'resources/list_changed', 'prompts/list_changed', 'tasks/status'])(
    'T79 does not reach the client as notifications/%s, which nobody reads',
    (name) => {
      const { hear, heard } = rig();
      for (let n = 0; n < 20_000; n += 1)
        hear({ jsonrpc: '2.0', method: `notifications/${name}`, params: { data: n } });
      expect(heard).toEqual([]);
    },
  );

  test.each(['progress', 'tools/list_changed', 'cancelled'])('reaches the client as notifications/%s', (name) => {
    const { hear, heard } = rig();
    hear({ jsonrpc: '2.0', method: `notifications/${name}` });
    expect(heard).toHaveLength(1);
  });

  test('T79 that lists tools loses its invalid entries, which are reported once', () => {
    const { hear, heard, bad } = rig();
    const good = { name: 'a', inputSchema: { type: 'object' } };
    const odd = { ...good, name: 'b', outputSchema: { anyOf: [] } };
    hear({
      jsonrpc: '2.0',
      id: 1,
      result: {
        tools: [good, odd, null, 7, { name: 'c' }, { name: 'd', inputSchema: { type: 'object', required: 'x' } }],
        nextCursor: 'x',
      },
    });
    expect(heard).toEqual([
      { jsonrpc: '2.0', id: 1, result: { tools: [good, { ...good, name: 'b' }], nextCursor: 'x' } },
    ]);
    expect(bad.take()).toEqual([
      'a tool without a name: its definition is not that of a tool',
      'a tool without a name: its definition is not that of a tool',
      '"c": its definition is not that of a tool',
      '"d": its definition is not that of a tool',
    ]);
    expect(bad.take()).toEqual([]);
  });
});
