import { randomUUID } from 'node:crypto';
import { Readable, Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { RequestError, agent, ndJsonStream } from '@agentclientprotocol/sdk';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { z } from 'zod';
import { performStep, sceneOf } from './acts.ts';

/** A scripted worker as an agent over ACP, with the floor's tools for its questions. */
const serverSchema = z.object({
  url: z.string(),
  headers: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
});
type ToolServer = z.output<typeof serverSchema>;
let floor: ToolServer | null = null;

const peer = agent({ name: 'scripted-worker' })
  .onRequest('initialize', () => ({ protocolVersion: 1, agentCapabilities: { mcpCapabilities: { http: true } } }))
  .onRequest('session/new', ({ params: { mcpServers } }) => {
    floor = serverSchema.safeParse(mcpServers[0]).data ?? null;
    return { sessionId: randomUUID() };
  })
  .onRequest('session/prompt', async ({ params: { sessionId, prompt }, client }) => {
    const { stepMs, ...scene } = sceneOf(prompt.map((part) => ('text' in part ? part.text : '')).join('\n'));
    if (stepMs > 0) await pause(stepMs);
    const act = performStep(scene);
    switch (act.do) {
      case 'say':
        await client.notify('session/update', {
          sessionId,
          update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: act.text } },
        });
        return { stopReason: 'end_turn' as const };
      case 'ask':
        await ask(act.question);
        return { stopReason: 'end_turn' as const };
      case 'fail':
        throw RequestError.internalError({ details: act.why }, act.why);
      case 'hang':
        await pause(600_000);
        return { stopReason: 'end_turn' as const };
    }
  })
  .onNotification('session/cancel', () => undefined);

/** Asks people through the floor's tool. */
async function ask(question: string): Promise<void> {
  if (floor === null) throw new Error('the session has no floor tools');
  const headers = Object.fromEntries(floor.headers.map(({ name, value }) => [name, value]));
  const client = new Client({ name: 'scripted-worker', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(floor.url), { requestInit: { headers } }));
  await client.callTool({ name: 'wait_for', arguments: { question } });
  await client.close();
}

const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
await peer.connect(ndJsonStream(Writable.toWeb(process.stdout), input)).closed;
