import { describe, expect, test, vi } from 'vitest';
import { caller, listener, rawSocket, slackServer } from './server-rig.ts';
import type { SlackServer } from './server.ts';
import { isObject } from './state-text.ts';
import type { Json } from './state.ts';

const button = (value: string) => ({
  type: 'button',
  action_id: `act:${value}`,
  text: { type: 'plain_text', text: value },
  value,
});
const buttons = (...values: string[]) => [{ type: 'actions', block_id: 'row', elements: values.map(button) }];

const payloadOf = (frame: Json | undefined) => (isObject(frame?.['payload']) ? frame['payload'] : {});

describe('a command or a button press', () => {
  /** Connects an app that acknowledges commands and button presses with `ack`, and answers by the response_url. */
  async function app(slack: SlackServer, answer: (payload: Json) => Json | null, ack: Json = {}) {
    const raw = await rawSocket(slack);
    raw.socket.on('message', (bytes: Buffer) => {
      const frame = JSON.parse(bytes.toString('utf8'));
      if (frame.type !== 'slash_commands' && frame.type !== 'interactive') return;
      raw.ack(frame, ack);
      const body = answer(frame.payload);
      if (body !== null) void fetch(frame.payload.response_url, { method: 'POST', body: JSON.stringify(body) });
    });
    return raw;
  }

  test('is answered to its author only', async () => {
    const slack = await slackServer();
    const { ann, bob, channel } = slack.ids;
    await app(slack, ({ command, text }) => ({ text: `${String(command)} ${String(text)}: done` }));
    const shown = await slack.command(ann, channel, 'floor skip');
    const answers = [{ text: '/conch floor skip: done', via: 'response_url', user: ann, channel }];
    expect(shown).toMatchObject({ acked: true, error: null, answers });
    expect(slack.ephemerals(bob)).toEqual([]);
  });

  test('can be answered by the acknowledgement itself', async () => {
    const slack = await slackServer();
    await app(slack, () => null, { text: 'at once' });
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'help');
    expect(shown.answers).toMatchObject([{ text: 'at once', via: 'ack' }]);
  });

  test('fails visibly when the app does not answer or is not connected', async () => {
    const slack = await slackServer();
    const { ann, channel } = slack.ids;
    expect(await slack.command(ann, channel, 'stop')).toMatchObject({ acked: false, error: 'dispatch_failed' });
    await rawSocket(slack);
    expect(await slack.command(ann, channel, 'stop')).toMatchObject({ acked: false, error: 'operation_timeout' });
    expect(slack.attempts).toHaveLength(2);
  });

  test('carries the button, the message and the person', async () => {
    const slack = await slackServer();
    const { ann, channel } = slack.ids;
    const { ts } = await caller(slack)('chat.postMessage', { channel, text: 'card', blocks: buttons('skip', 'stop') });
    const { frames } = await app(slack, () => ({ replace_original: false, text: 'skipped' }));
    expect(slack.read(channel)[0]?.buttons.map(({ value }) => value)).toEqual(['skip', 'stop']);
    const shown = await slack.press(ann, channel, String(ts), 'skip');
    expect(shown.answers).toMatchObject([{ text: 'skipped' }]);
    const actions = [{ action_id: 'act:skip', value: 'skip', block_id: 'row', type: 'button' }];
    const payload = {
      type: 'block_actions',
      actions,
      user: { id: ann },
      channel: { id: channel },
      container: { message_ts: ts },
    };
    const pressed = frames.findLast(({ type }) => type === 'interactive');
    expect(pressed).toMatchObject({ type: 'interactive', payload });
  });

  test('can be answered five times at most', async () => {
    const slack = await slackServer();
    const { frames } = await app(slack, () => ({ text: '1' }));
    await slack.command(slack.ids.ann, slack.ids.channel, 'help');
    const url = String(payloadOf(frames.at(-1))['response_url']);
    const again = async () => (await fetch(url, { method: 'POST', body: JSON.stringify({ text: 'more' }) })).status;
    const statuses = [];
    for (let count = 0; count < 5; count += 1) statuses.push(await again());
    expect(statuses).toEqual([200, 200, 200, 200, 404]);
  });

  test('opens one view within 3 s, which can be submitted', async () => {
    let now = Date.now();
    const slack = await slackServer({ now: () => now });
    const call = caller(slack);
    const { ann, channel } = slack.ids;
    const options = ['queue', 'inject'].map((value) => ({ text: { type: 'plain_text', text: value }, value }));
    const element = { type: 'static_select', action_id: 'mode', options, initial_option: options[0] };
    const input = { type: 'input', block_id: 'how', label: { type: 'plain_text', text: 'Mode' }, element };
    const title = { type: 'plain_text', text: 'Settings' };
    const view = { type: 'modal', callback_id: 'set', title, submit: title, blocks: [input] };
    const raw = await app(slack, () => null);
    const trigger = () => payloadOf(raw.frames.at(-1))['trigger_id'];
    await slack.command(ann, channel, 'settings', { waitMs: 0 });
    expect(await call('views.open', { trigger_id: trigger(), view })).toMatchObject({ ok: true });
    expect(await call('views.open', { trigger_id: trigger(), view })).toMatchObject({ error: 'exchanged_trigger_id' });
    const [opened] = slack.openViews(ann);
    expect(await slack.submit(opened?.id ?? '', { mode: 'inject' })).toMatchObject({ acked: true, errors: null });
    const values = { how: { mode: { selected_option: { value: 'inject' } } } };
    const payload = { type: 'view_submission', view: { callback_id: 'set', state: { values } } };
    await vi.waitFor(() => expect(raw.frames.at(-1)).toMatchObject({ payload }), { timeout: 60_000 });
    expect(slack.openViews(ann)).toEqual([]);
    await slack.command(ann, channel, 'settings', { waitMs: 0 });
    now += 3_001;
    expect(await call('views.open', { trigger_id: trigger(), view })).toMatchObject({ error: 'expired_trigger_id' });
  });

  test("includes Slack's own Stop button, as an event", async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    slack.sessionStopped(slack.ids.ann, slack.ids.channel, '1.000001');
    await slack.events.settled();
    expect(heard).toMatchObject([
      { event: { type: 'agent_session_stopped', user: slack.ids.ann, thread_ts: '1.000001' } },
    ]);
  });
});
