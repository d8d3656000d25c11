import { SocketModeClient } from '@slack/socket-mode';
import { WebClient } from '@slack/web-api';
import { afterEach, expect, vi } from 'vitest';
import { WebSocket } from 'ws';
import { startSlack } from './server.ts';
import type { SlackOptions, SlackServer } from './server.ts';
import { isObject } from './state-text.ts';
import type { Json } from './state.ts';

const QUICK: SlackOptions = { ackMs: 80, retryDelaysMs: [0, 40, 80] };
const quiet = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  getLevel: () => 'error' as never,
  setName() {},
};

const ends: (() => Promise<unknown>)[] = [];

/** Registers a function that runs after the test. The newest function runs first. */
export function atEnd(end: () => Promise<unknown>): void {
  ends.push(end);
}

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** Starts a fake Slack with short delays of repetitions. Closes it after the test. */
export async function slackServer(options: SlackOptions = {}): Promise<SlackServer> {
  const slack = await startSlack({ ...QUICK, ...options });
  ends.push(() => slack.close());
  return slack;
}

/** Returns a function that calls methods with Slack's own client. Errors are returned, not thrown. */
export function caller(slack: Pick<SlackServer, 'apiUrl' | 'botToken'>, token = slack.botToken) {
  const options = { slackApiUrl: slack.apiUrl, retryConfig: { retries: 0 }, timeout: 300, logger: quiet };
  const web = new WebClient(token, { ...options, rejectRateLimitedCalls: true });
  return async (method: string, args: Json = {}): Promise<Json> => {
    try {
      return (await web.apiCall(method, args)) as unknown as Json;
    } catch (error) {
      const known = error as { code?: string; data?: Json; retryAfter?: number; statusCode?: number };
      if (known.data !== undefined) return known.data;
      return { ok: false, code: known.code, status: known.statusCode, retryAfter: known.retryAfter };
    }
  };
}

export type Heard = { readonly text: string; readonly event: Json; readonly retry: number };

/** Connects Slack's own Socket Mode client, which records events. Acknowledges while `acks` returns true. */
export async function listener(slack: SlackServer, acks: (heard: readonly Heard[]) => boolean = () => true) {
  const heard: Heard[] = [];
  const options = { appToken: slack.appToken, clientOptions: { slackApiUrl: slack.apiUrl }, logger: quiet };
  const socket = new SocketModeClient({ ...options, clientPingTimeout: 200 });
  type Given = { ack: (answer?: Json) => Promise<void>; body: Json; retry_num?: number; type: string };
  socket.on('slack_event', ({ ack, body, retry_num: retry = 0 }: Given) => {
    const event = isObject(body['event']) ? body['event'] : body;
    heard.push({ text: String(event['text']), event, retry });
    if (acks(heard)) ack().catch(() => undefined);
  });
  await socket.start();
  ends.push(() => socket.disconnect());
  return { heard, socket };
}

/** Opens a plain Socket Mode connection that records every frame and acknowledges none by itself. */
export async function rawSocket(slack: SlackServer) {
  const { url } = await caller(slack, slack.appToken)('apps.connections.open');
  const frames: Json[] = [];
  const socket = new WebSocket(String(url));
  socket.on('message', (raw: Buffer) => void frames.push(JSON.parse(raw.toString('utf8'))));
  ends.push(async () => socket.terminate());
  await vi.waitFor(() => expect(frames[0]).toMatchObject({ type: 'hello' }), { timeout: 60_000 });
  const ack = (frame: Json | undefined, payload: Json = {}) =>
    socket.send(JSON.stringify({ envelope_id: frame?.['envelope_id'], payload }));
  return { url: String(url), frames, socket, ack };
}
