import { describe, expect, test, vi } from 'vitest';
import type { Fault } from './faults.ts';
import { caller, slackServer } from './server-rig.ts';
import type { Json } from './state.ts';

describe('a call with a fault', () => {
  const executed: readonly (readonly [Fault, Json, number])[] = [
    [{ kind: 'reset-before' }, { code: 'slack_webapi_request_error' }, 0],
    [{ kind: 'reset-after' }, { code: 'slack_webapi_request_error' }, 1],
    [{ kind: 'hang-before' }, { code: 'slack_webapi_request_error' }, 0],
    [{ kind: 'hang-after' }, { code: 'slack_webapi_request_error' }, 1],
    [{ kind: 'late', ms: 30 }, { ok: true }, 1],
    [{ kind: 'status', status: 503 }, { status: 503 }, 0],
    [{ kind: 'status', status: 500, when: 'after' }, { status: 500 }, 1],
    [{ kind: 'ratelimited', retryAfterSeconds: 7 }, { retryAfter: 7 }, 0],
    [{ kind: 'error', error: 'fatal_error' }, { error: 'fatal_error' }, 0],
  ];
  test.each(executed)('%j: has its effect on the answer and on the channel, once', async (fault, answer, posts) => {
    const slack = await slackServer();
    const call = caller(slack);
    slack.fail('chat.postMessage', fault);
    const args = { channel: slack.ids.channel, text: 'hello' };
    expect(await call('chat.postMessage', args)).toMatchObject(answer);
    expect(slack.read(slack.ids.channel)).toHaveLength(posts);
    expect(await call('chat.postMessage', args)).toMatchObject({ ok: true });
    expect(slack.requests).toHaveLength(2);
  });

  test('executed late is posted after its caller gave up', async () => {
    const slack = await slackServer();
    slack.fail({ channel: slack.ids.channel }, { kind: 'late', ms: 400, execute: 'last' });
    const answer = await caller(slack)('chat.postMessage', { channel: slack.ids.channel, text: 'ghost' });
    expect(answer).toMatchObject({ code: 'slack_webapi_request_error' });
    expect(slack.read(slack.ids.channel)).toEqual([]);
    await vi.waitFor(() => expect(slack.read(slack.ids.channel)).toMatchObject([{ text: 'ghost' }]), {
      timeout: 60_000,
    });
  });

  test('lasts until it is healed, and does not affect other channels', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const heal = slack.fail({ channel: slack.ids.channel, times: null }, { kind: 'status', status: 502 });
    const post = (channel: string) => call('chat.postMessage', { channel, text: 'x' });
    expect([await post(slack.ids.channel), await post(slack.ids.channel)]).toMatchObject([
      { status: 502 },
      { status: 502 },
    ]);
    expect(await post(slack.ids.other)).toMatchObject({ ok: true });
    heal();
    expect(await post(slack.ids.channel)).toMatchObject({ ok: true });
  });

  test('beyond the limit of history calls gets the seconds to wait', async () => {
    const slack = await slackServer({ historyPerMinute: 2 });
    const call = caller(slack);
    const ask = () => call('conversations.history', { channel: slack.ids.channel });
    expect([await ask(), await ask()]).toMatchObject([{ ok: true }, { ok: true }]);
    const { retryAfter } = await ask();
    expect(Number(retryAfter)).toBeGreaterThan(50);
  });
});
