import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { agent } from '@agentclientprotocol/sdk';
import type { AnyMessage, McpServer, PromptRequest, PromptResponse } from '@agentclientprotocol/sdk';
import { WebSocket } from 'ws';
import { RemoteHost } from '../../../../src/agents/backends/remote/remote-host.ts';
import type { RemoteHostOptions } from '../../../../src/agents/backends/remote/remote-host.ts';
import { createRemoteBackend } from '../../../../src/agents/backends/remote/remote-backend.ts';
import type { RemoteBackendOptions } from '../../../../src/agents/backends/remote/remote-backend.ts';
import { addAgentToken, openTokenBook } from '../../../../src/agents/backends/remote/tokens.ts';
import { freePort } from '../../../kill/bot.ts';
import { systemClock, systemTimers } from '../../../../src/lib/time.ts';

export const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

/** Starts a host on a free port with the remote agent dev. `logged`: the lines of the host's log. */
export async function remoteRig(
  more: Partial<RemoteHostOptions> = {},
  backendOptions: Partial<RemoteBackendOptions> = {},
) {
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-remote-'));
  const token = addAgentToken(dataDir, 'dev', { at: 0 });
  const logged: string[] = [];
  const keep = (level: string) => (_fields: object, message: string) => void logged.push(`${level}: ${message}`);
  const port = await freePort();
  const host = new RemoteHost({
    port,
    host: '127.0.0.1',
    tokens: openTokenBook(dataDir),
    origins: ['https://allowed.example'],
    heartbeatMs: 60_000,
    heartbeatTimeoutMs: 180_000,
    clock: systemClock(),
    timers: systemTimers,
    log: { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') },
    ...more,
  });
  const backend = createRemoteBackend({
    host,
    agentId: 'dev',
    reconnectGraceMs: 10_000,
    quietMs: 5,
    ...backendOptions,
  });
  await host.start();
  const url = `${more.tls === undefined ? 'ws' : 'wss'}://127.0.0.1:${port}/agent`;
  const sockets: WebSocket[] = [];
  const dial = (headers: Record<string, string>, address = url) => {
    const socket = new WebSocket(address, { headers, perMessageDeflate: false, maxPayload: 200_000_000 });
    socket.on('error', () => undefined);
    sockets.push(socket);
    return socket;
  };
  return {
    host,
    backend,
    url,
    token,
    dataDir,
    logged,
    dial,
    /** Opens a connection as dev. */
    async connected(how: string = token) {
      const socket = dial({ Authorization: `Bearer ${how}` });
      await once(socket, 'open');
      return socket;
    },
    /** Returns the HTTP status of a handshake; 101 when it is accepted. */
    async handshakeStatus(headers: Record<string, string>, address = url): Promise<number> {
      const socket = dial(headers, address);
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      socket.on('open', () => resolve(101)).on('error', reject);
      socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
      const status = await promise;
      socket.terminate();
      return status;
    },
    async stop() {
      for (const socket of sockets) socket.terminate();
      await host.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

export type RemoteRig = Awaited<ReturnType<typeof remoteRig>>;

/** Returns the code and reason with which a connection was closed. */
export async function closing(socket: WebSocket): Promise<{ readonly code: number; readonly reason: string }> {
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
  return { code, reason: reason.toString('utf8') };
}

/** Resolves as soon as a condition holds. Rejects with `what` in the message after the limit. */
export async function until(holds: () => boolean, what: string, limitMs = 60_000): Promise<void> {
  const limit = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > limit) throw new Error(`In ${limitMs} ms there was not: ${what}`);
    await pause(5);
  }
}

/** How an agent in this process answers a prompt. */
export type Answering = (
  text: string,
  say: (text: string) => Promise<void>,
  /** Requests permission. */
  ask: (title: string) => Promise<unknown>,
) => Promise<PromptResponse>;

/**
 * Answers as an agent that speaks ACP over an open connection. `sessions`: ids of its sessions. `calls`: methods called
 * by the host. `servers`: tool servers of its sessions. `steering`: the agent takes messages in a running turn.
 */
export function speak(socket: WebSocket, answering: Answering, capabilities: object = {}) {
  const sessions: string[] = [];
  const calls: string[] = [];
  const servers: McpServer[] = [];
  const readable = new ReadableStream<AnyMessage>({
    start: (controller) => {
      socket.on('message', (bytes: Buffer) => controller.enqueue(JSON.parse(bytes.toString('utf8')) as AnyMessage));
      socket.on('close', () => controller.close());
    },
  });
  const writable = new WritableStream<AnyMessage>({ write: (message) => socket.send(JSON.stringify(message)) });
  agent({ name: 'test' })
    .onRequest('initialize', () => {
      calls.push('initialize');
      const _meta = { steering: { supported: 'steering' in capabilities } };
      return { protocolVersion: 1, agentCapabilities: capabilities, _meta };
    })
    .onRequest('session/new', ({ params }) => {
      calls.push('session/new');
      servers.push(...params.mcpServers);
      sessions.push(`s${sessions.length + 1}-${sessions.length}`);
      return { sessionId: sessions.at(-1)! };
    })
    .onRequest('session/resume', () => {
      calls.push('session/resume');
      return {};
    })
    .onRequest('session/prompt', async ({ params, client }) => {
      const say = (text: string) =>
        client.notify('session/update', {
          sessionId: params.sessionId,
          update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } },
        });
      calls.push(`session/prompt ${params.sessionId}`);
      const ask = (title: string) =>
        client.request('session/request_permission', {
          sessionId: params.sessionId,
          toolCall: { toolCallId: 't1', title },
          options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }],
        });
      return await answering(textOf(params), say, ask);
    })
    .onRequest(
      '_session/steering',
      (params: unknown) => params,
      () => ({ outcome: 'injected' }),
    )
    .onNotification('session/cancel', () => void calls.push('session/cancel'))
    .connect({ readable, writable });
  return { sessions, calls, servers };
}

function textOf({ prompt }: PromptRequest): string {
  return prompt.map((part) => (part.type === 'text' ? part.text : '')).join('');
}
