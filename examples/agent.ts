// An agent that dials out to a Conch and answers in its turn. Run it with Node 22.18 or newer:
//   CONCH_AGENT_TOKEN=... node examples/agent.ts ws://127.0.0.1:7421/agent
import { randomUUID } from 'node:crypto';
import { agent } from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import { WebSocket } from 'ws';

const [url = 'ws://127.0.0.1:7421/agent'] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env['CONCH_AGENT_TOKEN']}` };

const echo = agent({ name: 'echo' })
  .onRequest('initialize', () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest('session/new', () => ({ sessionId: randomUUID() }))
  .onRequest('session/prompt', async ({ params, client }) => {
    const text = params.prompt.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const content = { type: 'text' as const, text: `I was sent ${text.length} characters.` };
    await client.notify('session/update', {
      sessionId: params.sessionId,
      update: { sessionUpdate: 'agent_message_chunk', content },
    });
    return { stopReason: 'end_turn' };
  })
  .onNotification('session/cancel', () => undefined);

await echo.connect(createWebSocketStream(url, { WebSocket, headers })).closed;
