import type { IncomingMessage, ServerResponse } from 'node:http';
import { HTTPModuleFunctions, isRawBodyError } from '@slack/bolt';
import { z } from 'zod';
import { defined } from '../../lib/defined.ts';
import { closeServer, createQuietServer, guardServer, listenOn, reply, targetOf } from '../../lib/guarded-server.ts';
import { AdapterError } from '../port.ts';
import type { AdapterParts } from '../port.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import type { Ack } from './commands.ts';

/** Where signed requests are taken, and what becomes of them. */
type HttpReceiverPorts = Pick<AdapterParts, 'timers' | 'log'> & {
  readonly signingSecret: string;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly path: string;
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
  const port = await listenOn(server, ports).catch((cause: Error) => {
    const message = `Slack's requests cannot be taken on ${ports.host}:${ports.port} (${cause.message}). Choose another adapters.slack.port.`;
    throw new AdapterError(message, { adapter: 'slack', cause });
  });
  return { url: `http://${ports.host}:${port}${ports.path}`, close: () => closeServer(server) };
}

async function answer(ports: HttpReceiverPorts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const target = targetOf(request);
  if (target === null) return reply(response, { status: 400 });
  if (target.path !== ports.path) return reply(response, { status: 404 });
  if (request.method !== 'POST') return reply(response, { status: 405 });
  const body = await bodyOf(ports, request);
  if (!body.ok) return reply(response, { status: body.status });
  const plain = plainSchema.safeParse(body.value).data;
  if (plain?.ssl_check !== undefined) return reply(response, { status: 200 });
  if (plain?.type === 'url_verification') return reply(response, { status: 200, body: { challenge: plain.challenge } });
  const late = ports.timers.after(ANSWER_WITHIN_MS, () => reply(response, { status: 503 }));
  try {
    await ports.take(body.value, async (acked) => reply(response, { status: 200, ...defined({ body: acked }) }));
  } catch (error) {
    ports.log.warn({ why: reasonOf(error) }, 'a request of Slack failed');
    reply(response, { status: 500 });
  } finally {
    late.cancel();
  }
  reply(response, { status: 200 });
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
