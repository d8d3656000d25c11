import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { HTTPModuleFunctions, isRawBodyError } from '@slack/bolt';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Timers } from '../../lib/time.ts';
import { createQuietServer, guardServer, targetOf } from '../../lib/guarded-server.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import { AdapterError } from '../port.ts';
import type { Ack } from './commands.ts';

/** Where signed requests are taken, and what becomes of them. */
type HttpReceiverPorts = {
  readonly signingSecret: string;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly path: string;
  readonly timers: Timers;
  readonly log: Logger;
  /** Rejects when Slack had better send it again. */
  readonly take: (body: unknown, ack: Ack) => Promise<void>;
};

/** A server that takes Slack's signed requests; Bolt checks the signatures. */
export type HttpReceiver = { readonly url: string; close(): Promise<void> };

const BODY_LIMIT = 1_048_576;
/** Slack waits no longer for an answer. */
const ANSWER_WITHIN_MS = 3_000;

const anything = z.unknown().optional();
const plainSchema = z.looseObject({ ssl_check: anything, type: anything, challenge: anything });

/** Listens; rejects with an `AdapterError` when it cannot. */
export async function openHttpReceiver(ports: HttpReceiverPorts): Promise<HttpReceiver> {
  const server = createQuietServer();
  guardServer(server, { request: (request, response) => answer(ports, request, response) }, ports.log);
  await listening(server, ports);
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : ports.port;
  return {
    url: `http://${ports.host}:${port}${ports.path}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function listening(server: Server, { host, port }: HttpReceiverPorts): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const message = `Slack's requests cannot be taken on ${host}:${port} (${cause.message}). Choose another adapters.slack.port.`;
      reject(new AdapterError(message, { adapter: 'slack', cause }));
    });
    server.listen(port, host, resolve);
  });
}

async function answer(ports: HttpReceiverPorts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const target = targetOf(request);
  if (target === null) return finish(response, 400);
  if (target.path !== ports.path) return finish(response, 404);
  if (request.method !== 'POST') return finish(response, 405);
  const body = await bodyOf(ports, request);
  if (!body.ok) return finish(response, body.status);
  const plain = plainSchema.safeParse(body.value).data;
  if (plain?.ssl_check !== undefined) return finish(response, 200);
  if (plain?.type === 'url_verification') return finish(response, 200, { challenge: plain.challenge });
  const late = ports.timers.after(ANSWER_WITHIN_MS, () => finish(response, 503));
  try {
    await ports.take(body.value, async (reply) => finish(response, 200, reply));
  } catch (error) {
    ports.log.warn({ why: reasonOf(error) }, 'a request of Slack failed');
    finish(response, 500);
  } finally {
    late.cancel();
  }
  finish(response, 200);
}

type Body = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly status: number };

async function bodyOf({ signingSecret, log }: HttpReceiverPorts, request: IncomingMessage): Promise<Body> {
  try {
    const options = { enabled: true, signingSecret, bodyLimit: BODY_LIMIT };
    const verified = await HTTPModuleFunctions.parseAndVerifyHTTPRequest(options, request);
    try {
      return { ok: true, value: HTTPModuleFunctions.parseHTTPRequestBody(verified) };
    } catch {
      return { ok: false, status: 400 };
    }
  } catch (error) {
    if (isRawBodyError(error)) return { ok: false, status: 413 };
    log.warn({ why: reasonOf(error) }, 'a request was not signed by Slack');
    return { ok: false, status: 401 };
  }
}

/** Answers once; whatever comes later is too late. */
function finish(response: ServerResponse, status: number, reply?: object): void {
  if (response.headersSent || response.destroyed) return;
  if (reply === undefined) return void response.writeHead(status).end();
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(reply));
}
