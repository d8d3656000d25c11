import { describe, expect, test } from 'vitest';
import { caller, listener, slackServer } from './server-rig.ts';
import { ALL_SCOPES } from './server.ts';
import { objects } from './state-text.ts';
import type { Json } from './state.ts';

const texts = (answer: Json) => objects(answer['messages']).map((message) => message['text']);

describe('the history of a channel', () => {
  test('is read newest first, in pages, without the bounds unless `inclusive` is set', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { ann, channel } = slack.ids;
    const [first = '', , third = ''] = ['1', '2', '3', '4'].map((text) => slack.write(ann, channel, text));
    const read = (args: Json) => call('conversations.history', { channel, ...args });
    expect(texts(await read({}))).toEqual(['4', '3', '2', '1']);
    expect(texts(await read({ oldest: first }))).toEqual(['4', '3', '2']);
    expect(texts(await read({ oldest: first, latest: third, inclusive: true }))).toEqual(['3', '2', '1']);
    const page = await read({ limit: 3 });
    expect(page).toMatchObject({ has_more: true });
    const cursor = (page['response_metadata'] as Json)['next_cursor'];
    expect(texts(await read({ limit: 3, cursor }))).toEqual(['1']);
  });

  test('shows replies only under their message, and broadcast replies in both places', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { ann, bob, channel } = slack.ids;
    const thread = slack.write(ann, channel, 'root');
    slack.write(bob, channel, 'reply', { thread });
    slack.write(bob, channel, 'loud reply', { thread, broadcast: true });
    const history = await call('conversations.history', { channel });
    expect(texts(history)).toEqual(['loud reply', 'root']);
    expect(objects(history['messages'])[1]).toMatchObject({ thread_ts: thread, reply_count: 2, reply_users: [bob] });
    expect(texts(await call('conversations.replies', { channel, ts: thread }))).toEqual([
      'root',
      'reply',
      'loud reply',
    ]);
  });

  test("gives a post's whole metadata only on request", async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { channel } = slack.ids;
    const metadata = { event_type: 'post', event_payload: { id: '7' } };
    await call('chat.postMessage', { channel, text: 'x', metadata });
    const read = async (args: Json) =>
      objects((await call('conversations.history', { channel, ...args }))['messages'])[0];
    expect((await read({}))?.['metadata']).toEqual({ event_type: 'post' });
    expect((await read({ include_all_metadata: true }))?.['metadata']).toEqual(metadata);
  });

  test('is closed to a bot that is not in the channel', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    slack.kickBot(slack.ids.channel);
    slack.kickBot(slack.ids.other);
    const errors = [slack.ids.channel, slack.ids.other].map((channel) => call('conversations.history', { channel }));
    expect(await Promise.all(errors)).toMatchObject([{ error: 'not_in_channel' }, { error: 'channel_not_found' }]);
  });
});

describe('a message of the app', () => {
  test('is refused when its blocks are too long or wrong, and cut when its text is', async () => {
    const slack = await slackServer();
    const post = (args: Json) =>
      caller(slack)('chat.postMessage', { channel: slack.ids.channel, text: 'fall-back', ...args });
    const markdown = (length: number) => ({ type: 'markdown', text: 'm'.repeat(length) });
    const section = (length: number) => ({ type: 'section', text: { type: 'mrkdwn', text: 's'.repeat(length) } });
    expect(await post({ blocks: [markdown(12_000)] })).toMatchObject({ ok: true });
    expect(await post({ blocks: [markdown(12_001)] })).toMatchObject({ error: 'msg_blocks_too_long' });
    expect(await post({ blocks: [section(3_000)] })).toMatchObject({ ok: true });
    expect(await post({ blocks: [section(3_001)] })).toMatchObject({ error: 'invalid_blocks' });
    expect(await post({ blocks: [1, 2, 3, 4, 5].map(() => section(2_700)) })).toMatchObject({
      error: 'msg_blocks_too_long',
    });
    expect(await post({ blocks: [{ type: 'nonsense' }] })).toMatchObject({ error: 'invalid_blocks' });
    expect(await post({ text: 'x'.repeat(40_001) })).toMatchObject({ ok: true, warning: 'message_truncated' });
    expect(slack.read(slack.ids.channel).at(-1)?.text).toHaveLength(40_000);
    expect(await post({ text: '' })).toMatchObject({ error: 'no_text' });
    expect(await post({ markdown_text: 'both' })).toMatchObject({ error: 'markdown_text_conflict' });
  });

  const pinging: readonly (readonly [string, Json, readonly string[]])[] = [
    ['text', { text: 'hey <!channel> and <@U0ABC|ann>' }, ['channel', 'user:U0ABC']],
    ['a markdown block', { text: '', blocks: [{ type: 'markdown', text: 'ask <!subteam^S0DEV>' }] }, ['subteam:S0DEV']],
    ['a name that links', { text: '@here', link_names: true }, ['here']],
    [
      'mrkdwn that is not verbatim',
      { blocks: [{ type: 'section', text: { type: 'mrkdwn', text: '@everyone' } }] },
      ['everyone'],
    ],
    ['escaped text', { text: '&lt;!channel&gt; @channel' }, []],
    ['plain text', { blocks: [{ type: 'section', text: { type: 'plain_text', text: '<!here>' } }] }, []],
  ];
  test.each(pinging)('notifies the people whom %s names', async (_, args, pings) => {
    const slack = await slackServer();
    await caller(slack)('chat.postMessage', { channel: slack.ids.channel, ...args });
    expect(slack.read(slack.ids.channel)[0]?.pings).toEqual(pings);
  });

  test('keeps the pings of an edit, takes new metadata, and shows as edited only without blocks', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { channel } = slack.ids;
    const { ts } = await call('chat.postMessage', {
      channel,
      text: 'draft',
      metadata: { event_type: 'a', event_payload: {} },
    });
    await call('chat.update', { channel, ts, text: 'now', blocks: [{ type: 'markdown', text: '**<!here>**' }] });
    expect(slack.read(channel)).toMatchObject([{ edited: false, pings: ['here'], metadata: { event_type: 'a' } }]);
    await call('chat.update', { channel, ts, text: 'done', metadata: { event_type: 'b', event_payload: {} } });
    const done = { text: 'done', edited: true, pings: ['here'], metadata: { event_type: 'b' }, blocks: [] };
    expect(slack.read(channel)).toMatchObject([done]);
    const theirs = slack.write(slack.ids.ann, channel, 'mine');
    expect(await call('chat.update', { channel, ts: theirs, text: 'x' })).toMatchObject({
      error: 'cant_update_message',
    });
    expect(await call('chat.delete', { channel, ts: '1.000001' })).toMatchObject({ error: 'message_not_found' });
  });

  test('leaves a tombstone when it is deleted under its replies', async () => {
    const slack = await slackServer();
    const { channel, ann } = slack.ids;
    const { heard } = await listener(slack);
    const { ts } = await caller(slack)('chat.postMessage', { channel, text: 'root' });
    slack.write(ann, channel, 'reply', { thread: String(ts) });
    await caller(slack)('chat.delete', { channel, ts });
    await slack.events.settled();
    expect(heard.at(-1)?.event).toMatchObject({ subtype: 'message_changed', message: { subtype: 'tombstone' } });
  });

  test('can be streamed only between its start and its stop', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { channel, ann, team } = slack.ids;
    const thread_ts = slack.write(ann, channel, 'tell me');
    const start = { channel, thread_ts, markdown_text: 'Once ', username: 'dev' };
    expect(await call('chat.startStream', start)).toMatchObject({ error: 'missing_recipient_team_id' });
    const { ts } = await call('chat.startStream', { ...start, recipient_team_id: team, recipient_user_id: ann });
    expect(await call('chat.update', { channel, ts, text: 'x' })).toMatchObject({ error: 'streaming_state_conflict' });
    await call('chat.appendStream', { channel, ts, markdown_text: 'upon a ' });
    const metadata = { event_type: 'post', event_payload: {} };
    await call('chat.stopStream', { channel, ts, chunks: [{ type: 'markdown_text', text: 'time.' }], metadata });
    const told = { author: 'dev', text: 'Once upon a time.', streaming: 'completed', metadata };
    expect(slack.read(channel, thread_ts)[1]).toMatchObject(told);
    const late = await call('chat.appendStream', { channel, ts, markdown_text: '!' });
    expect(late).toMatchObject({ error: 'message_not_in_streaming_state' });
  });
});

describe("the app's permissions", () => {
  test('follow its scopes', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { channel } = slack.ids;
    expect(await call('auth.test')).toMatchObject({ response_metadata: { scopes: [...ALL_SCOPES] } });
    slack.setScopes(['chat:write']);
    const refused = await call('conversations.history', { channel });
    expect(refused).toMatchObject({ error: 'missing_scope', needed: 'channels:history', provided: 'chat:write' });
    await call('chat.postMessage', { channel, text: 'who am I', username: 'dev', icon_emoji: ':shell:' });
    expect(slack.read(channel)).toMatchObject([{ author: 'Conch', icon: null }]);
  });

  test('end with its tokens', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    slack.revokeTokens({ announce: true });
    await slack.events.settled();
    expect(heard).toMatchObject([{ event: { type: 'tokens_revoked', tokens: { bot: [slack.ids.botUser] } } }]);
    expect(await caller(slack)('auth.test')).toMatchObject({ error: 'token_revoked' });
    expect(await caller(slack, 'xoxb-other')('auth.test')).toMatchObject({ error: 'invalid_auth' });
    expect(await caller(slack)('no.such')).toMatchObject({ error: 'unknown_method' });
  });

  test('end in an archived channel until it is restored', async () => {
    const slack = await slackServer();
    const { heard } = await listener(slack);
    const post = () => caller(slack)('chat.postMessage', { channel: slack.ids.channel, text: 'x' });
    slack.archive(slack.ids.channel);
    expect(await post()).toMatchObject({ error: 'is_archived' });
    slack.unarchive(slack.ids.channel);
    expect(await post()).toMatchObject({ ok: true });
    slack.kickBot(slack.ids.channel);
    expect(await post()).toMatchObject({ error: 'not_in_channel' });
    await slack.events.settled();
    const types = ['channel_archive', 'channel_unarchive', 'member_left_channel', 'channel_left'];
    expect(heard.map(({ event }) => event['type'])).toEqual(expect.arrayContaining(types));
  });

  test('include reactions with names that Slack knows', async () => {
    const slack = await slackServer();
    const call = caller(slack);
    const { ann, channel, botUser } = slack.ids;
    const where = { channel, timestamp: slack.write(ann, channel, 'look') };
    expect(await call('reactions.add', { ...where, name: 'eyes' })).toMatchObject({ ok: true });
    expect(await call('reactions.add', { ...where, name: 'eyes' })).toMatchObject({ error: 'already_reacted' });
    expect(await call('reactions.add', { ...where, name: '👀' })).toMatchObject({ error: 'invalid_name' });
    expect(slack.read(channel)[0]?.reactions).toEqual({ eyes: [botUser] });
    await call('reactions.remove', { ...where, name: 'eyes' });
    expect(await call('reactions.remove', { ...where, name: 'eyes' })).toMatchObject({ error: 'no_reaction' });
  });

  test("include people's files, with its token", async () => {
    const slack = await slackServer();
    const { ann, channel } = slack.ids;
    slack.write(ann, channel, 'see', { files: [{ name: 'a.txt', content: 'inside' }] });
    const [message] = objects((await caller(slack)('conversations.history', { channel }))['messages']);
    const url = String(objects(message?.['files'])[0]?.['url_private']);
    const authorization = `Bearer ${slack.botToken}`;
    expect(await (await fetch(url, { headers: { authorization } })).text()).toBe('inside');
    expect(await (await fetch(url)).text()).toContain('Log in');
  });

  test('include reading the members of a user group', async () => {
    const slack = await slackServer();
    const { ann, bob } = slack.ids;
    const group = slack.group('operators', [ann]);
    slack.setGroup(group, [ann, bob]);
    expect(await caller(slack)('usergroups.list')).toMatchObject({ usergroups: [{ id: group, handle: 'operators' }] });
    expect(await caller(slack)('usergroups.users.list', { usergroup: group })).toMatchObject({ users: [ann, bob] });
    expect(await caller(slack)('users.info', { user: bob })).toMatchObject({
      user: { real_name: 'Bob', is_bot: false },
    });
  });
});
