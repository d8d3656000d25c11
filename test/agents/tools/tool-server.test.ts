import { Server } from 'node:net';
import { expect, test, vi } from 'vitest';
import { createToolServer } from '../../../src/agents/tools/tool-server.ts';

test('a tool server that found no free port can be closed, and listens again for the next session', async () => {
  const listen = vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server) {
    process.nextTick(() => this.emit('error', new Error('listen EADDRINUSE')));
    return this;
  });
  const server = createToolServer();
  await expect(server.open()).rejects.toThrow('EADDRINUSE');
  await expect(server.close()).resolves.toBeUndefined();
  await expect(server.open()).rejects.toThrow('EADDRINUSE');
  listen.mockRestore();
  const [one, other] = await Promise.all([server.open(), server.open()]);
  expect([one.url, other.url]).toEqual([one.url, expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/)]);
  await server.close();
});
