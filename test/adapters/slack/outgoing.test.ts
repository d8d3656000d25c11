import { describe, expect, test } from 'vitest';
import { ChatError } from '../../../src/adapters/port.ts';
import { channelTrouble, createClient } from '../../../src/adapters/slack/client.ts';
import { CAPABILITIES } from '../../../src/adapters/slack/adapter.ts';
import { DEV, deliver, rowOf, said, speaking, standsOnce } from './speaking.ts';
import { ALL_SCOPES } from './server.ts';
import type { Fault } from './faults.ts';

describe("an agent's post", () => {
  test("has the agent's name and avatar, and its outbox id in the metadata", async () => {
    const { outgoing, channel, slack } = await speaking();
    const id = await outgoing.post(channel, said('**hello**', { outboxId: 'box-a' }));
    const [message] = slack.read(slack.ids.channel);
    expect(message).toMatchObject({
      author: 'Dev',
      icon: ':hammer_and_wrench:',
      text: '**hello**',
      metadata: { event_type: 'conch_post', event_payload: { outbox_id: 'box-a', agent: 'dev', epoch: 7 } },
    });
    expect(id).toBe(`${slack.ids.channel}/${message?.ts}`);
  });

  test('pitfall 14: has no previews and links no names', async () => {
    const { outgoing, channel, calls } = await speaking();
    await outgoing.post(channel, said('see https://example.org'));
    expect(calls('chat.postMessage')[0]?.args).toMatchObject({
      unfurl_links: 'false',
      unfurl_media: 'false',
      parse: 'none',
      link_names: 'false',
      blocks: [{ type: 'markdown', text: 'see https://example.org' }],
    });
  });

  test.each([
    ['https://example.org/dev.png', { author: 'Dev', icon: 'https://example.org/dev.png' }],
    [':parrot:', { author: 'Dev', icon: ':parrot:' }],
    ['🪿', { author: '🪿 Dev', icon: null }],
    ['javascript:alert(1)', { author: 'Dev', icon: null }],
  ])('with the avatar %s shows it only in a form that Slack supports', async (avatar, shown) => {
    const { outgoing, channel, slack } = await speaking();
    await outgoing.post(channel, said('hello', { speaker: { ...DEV, avatar } }));
    expect(slack.read(slack.ids.channel)[0]).toMatchObject(shown);
  });

  test('appears in the thread whose floor the agent holds', async () => {
    const { outgoing, channel, slack } = await speaking();
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    await outgoing.post(`${channel}/${root}`, said('in it'));
    expect(slack.read(slack.ids.channel, root).map(({ text }) => text)).toEqual(['a thread', 'in it']);
  });
});

describe('a request of the greatest length', () => {
  test.each([
    ['code', 'const price = 1;\n'],
    ['marks that Slack has longer words for', '<>&'],
  ])('is one message, which the edit after the decision replaces completely: %s', async (_of, piece) => {
    const { outgoing, channel, slack } = await speaking();
    const most = CAPABILITIES.questionLimit ?? 0;
    const question = `dev waits for approval\n\`\`\`\n${piece.repeat(most)}`.slice(0, most - 4).concat('\n```');
    const id = await outgoing.post(channel, said(question, { speaker: null, epoch: null }));
    expect(slack.read(slack.ids.channel)).toHaveLength(1);
    await outgoing.edit(channel, id, '✅ ann allowed once what dev asked');
    expect(slack.read(slack.ids.channel).map(({ text }) => text)).toEqual(['✅ ann allowed once what dev asked']);
  });
});

describe('an app that may not post under other names', () => {
  const scopes = ALL_SCOPES.filter((scope) => scope !== 'chat:write.customize');

  test("puts the agent's name in front, and logs that once", async () => {
    const world = await speaking({ server: { botScopes: scopes } });
    const { outgoing, channel, texts, logged } = world;
    await outgoing.start();
    await world.over(outgoing.post(channel, said('hello')));
    await world.over(outgoing.post(channel, said('# news')));
    await world.over(outgoing.post(channel, said('⏸ a limit', { speaker: null, epoch: null })));
    expect(texts()).toEqual(['**Dev**: hello', '**Dev**:\n\n# news', '⏸ a limit']);
    expect(logged.filter((line) => line.includes('chat:write.customize'))).toHaveLength(1);
  });

  test('adds the name to the first message when Slack turns out to omit names', async () => {
    const { outgoing, channel, texts } = await speaking({ server: { botScopes: scopes } });
    await outgoing.post(channel, said('hello'));
    expect(texts()).toEqual(['**Dev**: hello']);
  });

  test("posts again with the agent's name in the text when Slack refuses the name", async () => {
    const { outgoing, channel, texts, slack } = await speaking();
    slack.fail('chat.postMessage', { kind: 'error', error: 'missing_scope' });
    await outgoing.post(channel, said('hello'));
    expect(texts()).toEqual(['**Dev**: hello']);
  });
});

describe('a text that Slack finds too long', () => {
  test('row 56: is posted whole as plain text in the same attempt', async () => {
    const { outgoing, channel, texts, calls } = await speaking();
    const text = '<'.repeat(3_800);
    await outgoing.post(channel, said(text));
    expect(texts()).toEqual([text]);
    expect(calls('chat.postMessage')).toHaveLength(1);
  });

  test('is sent without blocks when Slack refuses them', async () => {
    const { outgoing, channel, texts, slack } = await speaking();
    slack.fail('chat.postMessage', { kind: 'error', error: 'invalid_blocks' });
    await outgoing.post(channel, said('hello'));
    expect(texts()).toEqual(['hello']);
    expect(slack.read(slack.ids.channel)[0]?.blocks).toEqual([]);
  });

  test('row 56: is refused when empty, without a retry', async () => {
    const world = await speaking();
    const settlements = await deliver(world, { channel: world.channel, text: '' });
    expect(settlements).toMatchObject([{ state: 'failed' }]);
    expect(world.texts()).toEqual([]);
  });
});

describe('a post whose call fails', () => {
  const posted: readonly (readonly [string, Fault])[] = [
    ['row 24: the connection breaks before Slack has it', { kind: 'reset-before' }],
    ['row 25: the answer is lost', { kind: 'reset-after' }],
    ['row 26: the answer never comes, and Slack has it', { kind: 'hang-after' }],
    ['row 26: the answer never comes, and Slack does not have it', { kind: 'hang-before' }],
    ['row 27: Slack answers 502 and has it', { kind: 'status', status: 502, when: 'after' }],
    ['row 27: Slack answers 503 and does not have it', { kind: 'status', status: 503 }],
    ['row 28: Slack wants it later', { kind: 'ratelimited', retryAfterSeconds: 2 }],
  ];
  test.each(posted)('%s: appears once', async (_title, fault) => {
    const world = await speaking({ timeoutMs: 300 });
    world.slack.fail('chat.postMessage', fault);
    const settlements = await deliver(world, { channel: world.channel, text: 'hello' });
    expect(settlements.at(-1)).toMatchObject({ state: 'confirmed' });
    expect(standsOnce(world.slack, 'hello')).toBe(true);
  });

  test('row 27: appears once after ten minutes of 502, before later posts', async () => {
    const world = await speaking({ timeoutMs: 300 });
    const heal = world.slack.fail({ method: 'chat.postMessage', times: null }, { kind: 'status', status: 502 });
    const first = deliver(world, { channel: world.channel, text: 'first' });
    const end = world.time.clock.now() + 600_000;
    await world.until(() => world.time.clock.now() >= end, 'ten minutes', 1_000);
    expect(world.calls('chat.postMessage').length).toBeGreaterThan(5);
    heal();
    expect((await first).at(-1)).toMatchObject({ state: 'confirmed' });
    await deliver(world, { channel: world.channel, text: 'second' });
    expect(world.texts()).toEqual(['first', 'second']);
  });

  test('is not lost by a 403 of a proxy', async () => {
    const world = await speaking();
    world.slack.fail({ method: 'chat.postMessage', times: 3 }, { kind: 'status', status: 403 });
    expect((await deliver(world, { channel: world.channel, text: 'hello' })).at(-1)).toMatchObject({
      state: 'confirmed',
    });
    expect(world.texts()).toEqual(['hello']);
  });

  test("is not confused with another app's message that has its outbox id", async () => {
    const { outgoing, channel, slack } = await speaking();
    const post = said('hello', { outboxId: 'box-x' });
    const metadata = { event_type: 'conch_post', event_payload: { outbox_id: 'box-x' } };
    slack.bot(slack.ids.channel, 'hello', { botId: 'B0OTHER', appId: 'A0OTHER', metadata });
    expect(await outgoing.find(channel, post)).toBeNull();
    const id = await outgoing.post(channel, post);
    expect(await outgoing.find(channel, post)).toBe(id);
  });

  test('is found in a thread before 450 later replies', async () => {
    const { outgoing, channel, slack } = await speaking();
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'a thread');
    const inThread = said('in the thread');
    const before = await outgoing.find(`${channel}/${root}`, inThread);
    const id = await outgoing.post(`${channel}/${root}`, inThread);
    for (let n = 0; n < 450; n += 1) {
      slack.write(slack.ids.ann, slack.ids.channel, `reply ${n}`, { thread: root });
    }
    const found = await outgoing.find(`${channel}/${root}`, { ...inThread, afterId: `${slack.ids.channel}/${root}` });
    expect([before, found]).toEqual([null, id]);
  });

  test('is not in a thread that is gone, so its channel is searched', async () => {
    const { outgoing, channel, slack } = await speaking();
    const post = said('hello', { thread: `${channel}/1700000000.000001` });
    expect(await outgoing.find(channel, post)).toBeNull();
    const id = await outgoing.post(channel, { ...said('hello'), outboxId: post.outboxId });
    expect(await outgoing.find(channel, post)).toBe(id);
    expect(slack.read(slack.ids.channel)).toHaveLength(1);
  });

  test('is not reported as missing when the history cannot be read', async () => {
    const { outgoing, channel, slack } = await speaking();
    slack.fail('conversations.history', { kind: 'ratelimited', retryAfterSeconds: 30 });
    await expect(outgoing.find(channel, said('hello'))).rejects.toMatchObject({
      fault: 'limited',
      retryAfterMs: 30_000,
    });
  });

  test('counts as not sent when no server listens', async () => {
    const { slack } = await speaking();
    await slack.close();
    const client = createClient({ token: slack.botToken, apiUrl: slack.apiUrl });
    const { chatError } = await import('../../../src/adapters/slack/client.ts');
    const failure: unknown = await client.apiCall('chat.postMessage', {}).catch((error: unknown) => error);
    expect(chatError(failure, { method: 'chat.postMessage', channel: 'slack:C1' }).fault).toBe('unreachable');
  });

  test("puts neither a proxy's answer nor the token into the error", async () => {
    const { outgoing, channel, slack } = await speaking();
    slack.fail('chat.postMessage', { kind: 'status', status: 500 });
    const failure: unknown = await outgoing.post(channel, said('hello')).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ChatError);
    const told = JSON.stringify([String(failure), failure, (failure as Error).cause ?? null]);
    expect(told).not.toMatch(/<html>|xoxb|hello/);
  });
});

describe('many channels', () => {
  test('row 28: are not delayed by the rate limit of another channel', async () => {
    const world = await speaking();
    const { outgoing, channel, other, slack } = world;
    slack.fail(
      { method: 'chat.postMessage', channel: slack.ids.channel, times: null },
      { kind: 'ratelimited', retryAfterSeconds: 60 },
    );
    const held = outgoing.post(channel, said('held'));
    await expect(held).rejects.toMatchObject({ fault: 'limited', retryAfterMs: 60_000 });
    await outgoing.post(other, said('goes'));
    expect(world.texts(slack.ids.other)).toEqual(['goes']);
  });

  test('get about one message a second each, independently', async () => {
    const world = await speaking();
    const { outgoing, channel, other, time, calls } = world;
    const all = ['a', 'b', 'c'].map((text) => outgoing.post(channel, said(text)));
    await outgoing.post(other, said('x'));
    await Promise.all(all.slice(0, 1));
    await time.advance(900);
    expect(calls('chat.postMessage')).toHaveLength(2);
    await world.over(Promise.all(all));
    expect(world.texts()).toEqual(['a', 'b', 'c']);
    expect(time.clock.now()).toBeGreaterThanOrEqual(1_002_000);
  });
});

describe('a bot token that Slack refuses', () => {
  test.each(['token_revoked', 'account_inactive', 'invalid_auth'])(
    'keeps the posts for the next token: %s',
    async (error) => {
      const world = await speaking();
      world.slack.fail({ method: 'chat.postMessage', times: 3 }, { kind: 'error', error });
      const settlements = await deliver(world, { channel: world.channel });
      expect(settlements.map(({ state }) => state)).toEqual(['retry', 'retry', 'retry', 'confirmed']);
      expect(world.texts()).toEqual(['hello']);
    },
  );
});

describe('a channel that cannot be used', () => {
  test.each([
    ['archived', 'is archived', 'is_archived'],
    ['not in', 'has thrown the app out', 'not_in_channel'],
  ])('row 42: fails a post with the reason "%s" when it %s', async (why) => {
    const world = await speaking();
    if (why === 'archived') world.slack.archive(world.slack.ids.channel);
    else world.slack.kickBot(world.slack.ids.channel);
    const failure: unknown = await world.over(
      world.outgoing.post(world.channel, said('x')).catch((error: unknown) => error),
    );
    expect(channelTrouble(failure)).toContain(why);
  });

  test('is named with the command that invites the app when Slack does not know it', async () => {
    const { outgoing } = await speaking();
    const failure: unknown = await outgoing.post('slack:C0NOWHERE', said('x')).catch((error: unknown) => error);
    expect(channelTrouble(failure)).toBe(
      'Conch is not in the channel, or the channel does not exist. Invite the app: /invite',
    );
  });

  test('T6 gets the delayed posts once it can be used', async () => {
    const world = await speaking();
    world.slack.kickBot(world.slack.ids.channel);
    const delivering = deliver(world, { channel: world.channel });
    await world.until(() => world.calls('chat.postMessage').length > 6, 'refusals', 500);
    expect(world.texts()).toEqual([]);
    world.slack.inviteBot(world.slack.ids.channel);
    const settlements = await delivering;
    expect(settlements.at(-1)).toMatchObject({ state: 'confirmed' });
    expect(world.texts()).toEqual([expect.stringMatching(/^hello\n\(said at \d\d:\d\d UTC/)]);
  });
});

describe('a message that a moderator has deleted', () => {
  test('row 44: is reported as gone by an edit, and gets no receipt and no error', async () => {
    const { outgoing, channel, slack } = await speaking();
    const id = await outgoing.post(channel, said('⏱️ dev turn timed out', { speaker: null, epoch: null }));
    const ts = id.slice(id.indexOf('/') + 1);
    slack.remove(slack.ids.channel, ts);
    await expect(outgoing.edit(channel, id, 'twice')).resolves.toBe('gone');
    await expect(outgoing.receipt(channel, id, 'done')).resolves.toBeUndefined();
  });
});

describe('an announcement that recurs', () => {
  test('is edited and keeps its outbox id', async () => {
    const { outgoing, channel, slack, texts } = await speaking();
    const id = await outgoing.post(channel, said('⚠️ once', { speaker: null, epoch: null, outboxId: 'box-y' }));
    await outgoing.edit(channel, id, '⚠️ once (×2)');
    expect(texts()).toEqual(['⚠️ once (×2)']);
    expect(slack.read(slack.ids.channel)[0]?.metadata).toMatchObject({ event_payload: { outbox_id: 'box-y' } });
  });

  test('is edited by the delivery of its outbox entry', async () => {
    const world = await speaking();
    const id = await world.outgoing.post(world.channel, said('⚠️ once', { speaker: null, epoch: null }));
    const effect = rowOf({ channel: world.channel }).effect;
    await deliver(world, { channel: world.channel, effect, editsId: id, text: 'again' });
    expect(world.texts()).toEqual(['again']);
  });
});
