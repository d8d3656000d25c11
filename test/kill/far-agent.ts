// A remote agent. Connects to the first of several addresses that answers, and again when the connection is lost. Asks
// for permission in every third turn. Arguments: addresses. Environment: `CONCH_AGENT_TOKEN`, and `WITNESS_DIR`.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { agent } from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import { WebSocket } from 'ws';
import type { ClientOptions } from 'ws';
import { keepPrompt } from './witness.ts';

const AGAIN_MS = 100;
const WORD_MS = 40;

const headers = { Authorization: `Bearer ${process.env['CONCH_AGENT_TOKEN']}` };
let turns = 0;

const far = agent({ name: 'far' })
  .onRequest('initialize', () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest('session/new', () => ({ sessionId: randomUUID() }))
  .onRequest('session/prompt', async ({ params: { sessionId, prompt }, client }) => {
    const complete = keepPrompt(prompt.map((part) => (part.type === 'text' ? part.text : '')).join(''));
    const say = (text: string) =>
      client.notify('session/update', {
        sessionId,
        update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } },
      });
    turns += 1;
    let decision = 'not asked';
    if (turns % 3 === 0) {
      const { outcome } = await client.request('session/request_permission', {
        sessionId,
        toolCall: { toolCallId: randomUUID(), title: `deploy ${turns}`, kind: 'execute' },
        options: [
          { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
          { optionId: 'no', name: 'No', kind: 'reject_once' },
        ],
      });
      decision = outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome;
    }
    for (const word of ['I', 'have', 'read', 'it,', `${randomUUID()}:`, decision]) {
      await say(`${word} `);
      await pause(WORD_MS);
    }
    complete();
    return { stopReason: 'end_turn' };
  })
  .onNotification('session/cancel', () => undefined);

/** A connection that fails when the server does not answer within a second. */
class Impatient extends WebSocket {
  constructor(url: string, protocols?: string | string[], options: ClientOptions = {}) {
    super(url, protocols, { ...options, handshakeTimeout: 1_000 });
  }
}

for (;;) {
  for (const url of process.argv.slice(2))
    await far.connect(createWebSocketStream(url, { WebSocket: Impatient, headers })).closed.catch(() => undefined);
  await pause(AGAIN_MS);
}
