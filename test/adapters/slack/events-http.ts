import { createHmac } from 'node:crypto';
import type { Kind, Outcome } from './events-delivery.ts';
import { isObject } from './state-text.ts';
import type { Json, World } from './state.ts';

export type Post = {
  readonly url: string;
  readonly kind: Kind;
  readonly payload: Json;
  /** The number and reason of the repetition; `null` for the first attempt. */
  readonly retry: { readonly number: number; readonly reason: string } | null;
  readonly ackMs: number;
};

/** Posts a payload with Slack's signature. The result of a failure is a value of x-slack-retry-reason. */
export async function postSigned(world: World, post: Post): Promise<Outcome> {
  const body = bodyOf(post);
  const seconds = String(Math.floor(world.now() / 1_000));
  const hash = createHmac('sha256', world.app.signingSecret).update(`v0:${seconds}:${body}`).digest('hex');
  const headers: Record<string, string> = {
    'content-type': post.kind === 'events_api' ? 'application/json' : 'application/x-www-form-urlencoded',
    'x-slack-request-timestamp': seconds,
    'x-slack-signature': `v0=${hash}`,
    'user-agent': 'Slackbot 1.0 (+https://api.slack.com/robots)',
  };
  if (post.retry !== null) {
    headers['x-slack-retry-num'] = String(post.retry.number);
    headers['x-slack-retry-reason'] = post.retry.reason;
  }
  try {
    const answer = await fetch(post.url, { method: 'POST', headers, body, signal: AbortSignal.timeout(post.ackMs) });
    const text = await answer.text();
    if (answer.ok) return { acked: true, payload: answered(text) };
    return { acked: false, payload: answer.headers.get('x-slack-no-retry') === '1' ? 'no_retry' : 'http_error' };
  } catch (error) {
    const late = error instanceof Error && error.name === 'TimeoutError';
    return { acked: false, payload: late ? 'http_timeout' : 'connection_failed' };
  }
}

function bodyOf({ kind, payload }: Post): string {
  if (kind === 'events_api') return JSON.stringify(payload);
  if (kind === 'interactive') return new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  return new URLSearchParams(
    Object.entries(payload).map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();
}

function answered(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : { text };
  } catch {
    return text === '' ? {} : { text };
  }
}
