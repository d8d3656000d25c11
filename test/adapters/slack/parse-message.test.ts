import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  floorAt,
  threadAt,
  toHumanMessage,
  floorLocation,
  parseMessage,
  sentAt,
} from '../../../src/adapters/slack/parse-message.ts';
import type { ReceivedMessage } from '../../../src/adapters/slack/parse-message.ts';
import type { Self } from '../../../src/adapters/slack/client.ts';
import { parseEvent } from '../../../src/adapters/slack/events.ts';
import type { SlackEvent } from '../../../src/adapters/slack/events.ts';
import { placeOf, sights, stand, until } from './listener.ts';
import type { Stand, StandOptions } from './listener.ts';

const SELF: Self = { userId: 'U0', botId: 'B0', appId: 'A0' };
const PLAIN = { type: 'message', channel: 'C1', ts: '1700000000.000100', user: 'U1', text: 'hello' };
const SAID: ReceivedMessage = {
  channel: 'C1',
  thread: null,
  broadcast: false,
  ts: PLAIN.ts,
  author: 'person',
  by: 'U1',
  name: null,
  text: 'hello',
  forwarded: '',
  files: [],
  editedTs: null,
};

function hear(event: object): SlackEvent | null {
  return parseEvent(event, SELF);
}

describe('a message that Conch did not write', () => {
  test('of a person reaches agents', () => {
    expect(hear(PLAIN)).toEqual({ kind: 'said', received: SAID });
    expect(hear({ ...PLAIN, type: 'app_mention' })).toEqual({ kind: 'said', received: SAID });
    expect(hear({ ...PLAIN, subtype: 'me_message' })).toEqual({ kind: 'said', received: SAID });
  });

  test('keeps its files', () => {
    const file = { name: 'a.txt', mimetype: 'text/plain', size: 3, url_private: 'https://files.slack.com/a' };
    const event = hear({ ...PLAIN, subtype: 'file_share', files: [file] });
    expect(event).toMatchObject({ kind: 'said', received: { files: [file] } });
  });

  test("in a thread belongs to it; a thread's first message does not", () => {
    expect(hear({ ...PLAIN, thread_ts: '1600000000.000100' })).toMatchObject({
      received: { thread: '1600000000.000100', broadcast: false },
    });
    expect(hear({ ...PLAIN, thread_ts: PLAIN.ts })).toMatchObject({ received: { thread: null } });
    expect(hear({ ...PLAIN, thread_ts: '1600000000.000100', subtype: 'thread_broadcast' })).toMatchObject({
      received: { thread: '1600000000.000100', broadcast: true },
    });
  });

  test('of a program has the author kind bot or, without a user, webhook', () => {
    expect(hear({ ...PLAIN, bot_id: 'B9' })).toMatchObject({ received: { author: 'bot', by: 'U1' } });
    const { user: _, ...anonymous } = PLAIN;
    expect(hear({ ...anonymous, subtype: 'bot_message', bot_id: 'B9', username: 'dev' })).toMatchObject({
      received: { author: 'webhook', by: 'B9', name: 'dev' },
    });
  });

  test('without a text of its own gets the text of its attachments', () => {
    const attachments = [{ text: 'from elsewhere', fallback: 'x' }, { fallback: 'a picture' }];
    expect(hear({ ...PLAIN, text: '', attachments })).toMatchObject({
      received: { text: 'from elsewhere\na picture' },
    });
  });

  test("keeps a forwarded message apart from the person's own words, with its files", () => {
    const file = { name: 'a.txt', mimetype: 'text/plain', size: 3, url_private: 'https://files.slack.com/a' };
    const attachments = [{ is_share: true, text: 'from elsewhere', files: [file] }, { text: 'a preview' }];
    expect(hear({ ...PLAIN, text: 'dev: look', attachments })).toMatchObject({
      received: { text: 'dev: look', forwarded: 'from elsewhere', files: [file] },
    });
    expect(hear({ ...PLAIN, text: '', attachments: attachments.slice(0, 1) })).toMatchObject({
      received: { text: '', forwarded: 'from elsewhere' },
    });
  });

  test('with a subtype of Slack is a notice, which is ignored', () => {
    for (const subtype of ['channel_join', 'channel_topic', 'message_replied', 'huddle_thread', 'unknown']) {
      expect(hear({ ...PLAIN, subtype })).toEqual({ kind: 'nothing' });
    }
  });
});

describe("an event about Conch's own message", () => {
  const { user: _, ...nobody } = PLAIN;
  const own = [
    { ...PLAIN, user: 'U0' },
    { ...nobody, bot_id: 'B0', subtype: 'bot_message' },
    { ...nobody, bot_id: 'B1', app_id: 'A0', subtype: 'bot_message' },
    { ...PLAIN, user: 'U7', bot_id: 'B7', bot_profile: { app_id: 'A0', name: 'Conch' } },
    { ...nobody, subtype: 'bot_message', metadata: { event_type: 'conch_post' } },
  ];

  test.each(own)('is ignored, whether new, changed, deleted or from a history (%#)', (message) => {
    expect(hear(message)).toEqual({ kind: 'nothing' });
    const changed = { ...message, text: 'new', edited: { ts: '1700000001.000000' } };
    const wrap = { type: 'message', channel: 'C1', ts: '1700000002.000000' };
    const edit = { ...wrap, subtype: 'message_changed', message: changed, previous_message: message };
    expect(hear(edit)).toEqual({ kind: 'nothing' });
    const deletion = { ...wrap, subtype: 'message_deleted', deleted_ts: PLAIN.ts, previous_message: message };
    expect(hear(deletion)).toEqual({ kind: 'nothing' });
    expect(parseMessage('C1', message, SELF)).toBeNull();
  });

  test("row 74: another app's message with Conch's metadata is not taken for Conch's", () => {
    const forged = { ...nobody, bot_id: 'B9', subtype: 'bot_message', metadata: { event_type: 'conch_post' } };
    expect(hear(forged)).toMatchObject({ kind: 'said', received: { author: 'webhook' } });
  });
});

describe('a change', () => {
  const wrap = { type: 'message', channel: 'C1', ts: '1700000002.000000' };
  const edited = { ...PLAIN, text: 'hello!', edited: { user: 'U1', ts: '1700000001.000000' } };

  test("of the text is an edit with Slack's version", () => {
    const event = { ...wrap, subtype: 'message_changed', message: edited, previous_message: PLAIN };
    expect(hear(event)).toEqual({
      kind: 'edited',
      received: { ...SAID, text: 'hello!', editedTs: '1700000001.000000' },
    });
  });

  test('that only adds a preview or a reply count is no edit', () => {
    const preview = { ...PLAIN, attachments: [{ fallback: 'a page' }] };
    expect(hear({ ...wrap, subtype: 'message_changed', message: preview, previous_message: PLAIN })).toEqual({
      kind: 'nothing',
    });
    const again = { ...edited, reply_count: 2 };
    expect(hear({ ...wrap, subtype: 'message_changed', message: again, previous_message: edited })).toEqual({
      kind: 'nothing',
    });
  });

  test('that removes the message is a deletion, also when its thread stays', () => {
    const at = { channel: 'C1', thread: null, broadcast: false };
    const deletion = { ...wrap, subtype: 'message_deleted', deleted_ts: PLAIN.ts, previous_message: PLAIN };
    expect(hear(deletion)).toEqual({ kind: 'deleted', at, ts: PLAIN.ts });
    const tombstone = { ...PLAIN, subtype: 'tombstone', user: 'USLACKBOT', text: 'This message was deleted.' };
    const stays = { ...wrap, subtype: 'message_changed', message: tombstone, previous_message: PLAIN };
    expect(hear(stays)).toEqual({ kind: 'deleted', at, ts: PLAIN.ts });
  });
});

describe('any other event', () => {
  test('is reported when it concerns Conch, its channel or a reaction, and ignored otherwise', () => {
    expect(hear({ type: 'member_left_channel', user: 'U1', channel: 'C1' })).toEqual({ kind: 'nothing' });
    expect(hear({ type: 'member_left_channel', user: 'U0', channel: 'C1' })).toMatchObject({ kind: 'closed' });
    expect(hear({ type: 'member_joined_channel', user: 'U0', channel: 'C1' })).toEqual({
      kind: 'reopened',
      channel: 'C1',
    });
    expect(hear({ type: 'channel_archive', channel: 'C1' })).toMatchObject({
      kind: 'closed',
      why: 'the channel was archived',
    });
    expect(hear({ type: 'channel_deleted', channel: 'C1' })).toMatchObject({
      kind: 'closed',
      why: 'the channel was deleted',
    });
    expect(hear({ type: 'tokens_revoked', tokens: { oauth: ['U1'] } })).toEqual({ kind: 'nothing' });
    expect(hear({ type: 'reaction_removed' })).toEqual({ kind: 'nothing' });
    const reaction = {
      type: 'reaction_added',
      user: 'U1',
      reaction: 'ticket',
      item: { type: 'message', channel: 'C1' },
    };
    expect(hear(reaction)).toEqual({ kind: 'nothing' });
    expect(hear({ ...reaction, item: { ...reaction.item, ts: PLAIN.ts } })).toEqual({
      kind: 'reacted',
      channel: 'C1',
      ts: PLAIN.ts,
      user: 'U1',
      meaning: 'ticket',
    });
  });

  test('row 46: of any shape is parsed without an exception', () => {
    const types = [
      'message',
      'app_mention',
      'member_left_channel',
      'channel_left',
      'tokens_revoked',
      'reaction_added',
      '__proto__',
      'x',
    ];
    const subtypes = ['message_changed', 'message_deleted', 'bot_message', 'tombstone', undefined, 7];
    const odd = fc.oneof(fc.anything(), fc.constantFrom(PLAIN, { ...PLAIN, ts: 'x' }, { ...PLAIN, user: null }));
    const event = fc.record({
      type: fc.constantFrom(...types),
      subtype: fc.constantFrom(...subtypes),
      channel: fc.oneof(fc.constant('C1'), fc.anything()),
      ts: fc.oneof(fc.constant(PLAIN.ts), fc.anything()),
      user: fc.oneof(fc.constant('U1'), fc.anything()),
      message: odd,
      previous_message: odd,
      deleted_ts: fc.oneof(fc.constant(PLAIN.ts), fc.anything()),
      files: fc.anything(),
      attachments: fc.anything(),
      tokens: fc.anything(),
      reaction: fc.oneof(fc.constant('ticket'), fc.anything()),
      item: fc.anything(),
    });
    fc.assert(
      fc.property(fc.oneof(event, fc.anything()), (given) => {
        const found = parseEvent(given, SELF);
        expect(found === null || typeof found.kind === 'string').toBe(true);
        expect(parseMessage('C1', given, SELF)?.channel ?? 'C1').toBe('C1');
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('the floor of a message', () => {
  const reply = { channel: 'C1', thread: '1700000000.000100', broadcast: false };

  test('a reply opens its thread with a name and a first message', () => {
    const own = sights([placeOf('C1', { threads: 'own' })]);
    const found = floorLocation(own, reply);
    expect(found && threadAt(reply, found)).toEqual({
      id: 'slack:C1/1700000000.000100',
      parent: 'slack:C1',
      name: 'general › 1700000000.000100',
      since: { id: 'C1/1700000000.000100', order: '1700000000.000100' },
    });
    const top = { channel: 'C1', thread: null, broadcast: false };
    expect(floorLocation(own, top)).toMatchObject({ channel: 'slack:C1', opens: null });
  });

  test('a reply that the channel also shows belongs to the channel where threads are ignored', () => {
    const ignore = sights([placeOf('C1', { threads: 'ignore' })]);
    expect(floorLocation(ignore, reply)).toBeNull();
    expect(floorLocation(ignore, { ...reply, broadcast: true })).toMatchObject({ channel: 'slack:C1' });
  });

  test('a command in a thread without a floor goes to the channel', () => {
    const threads = [{ id: 'slack:C1/1700000000.000100', parent: 'slack:C1', name: 'x' }];
    expect(floorAt(sights([placeOf('C1')]), reply)).toBe('slack:C1');
    expect(floorAt(sights([placeOf('C1')], threads), reply)).toBe('slack:C1/1700000000.000100');
  });
});

describe('a message for the intake', () => {
  const people = { name: async (id: string) => (id === 'U1' ? 'Ann' : id), cachedName: () => null, isBot: () => false };
  const self = { userId: 'UAPP', botId: 'BAPP', appId: 'A0' };
  const reading = { self, queries: sights([placeOf('C1')]), people, userGroups: { S1: 'dev' } };

  async function human(said: Partial<ReceivedMessage>, allowBots: 'off' | 'mentions' | 'all' = 'off') {
    const place = placeOf('C1', { allowBots });
    return toHumanMessage({ ...SAID, ...said }, { channel: place.id, place, opens: null }, reading);
  }

  test('has its author, time, text and order', async () => {
    expect((await human({})).human).toEqual({
      id: 'C1/1700000000.000100',
      channel: 'slack:C1',
      author: { id: 'U1', name: 'Ann' },
      text: 'hello',
      sentAt: sentAt('1700000000.000100'),
      order: '1700000000.000100',
      addressed: [],
      attachments: [],
    });
  });

  test('is addressed to the agents whose user groups it mentions', async () => {
    const { human: message } = await human({ text: '<!subteam^S1> and <!subteam^S9|@others>: go' });
    expect(message).toMatchObject({ addressed: ['dev'], text: '@dev and @others: go' });
  });

  test.each([
    ['<@UAPP> dev: build it', 'dev: build it'],
    ['<@UAPP|conch>, @dev build it', '@dev build it'],
    ['  <@UAPP>: <@UAPP> build it', 'build it'],
    ['ask <@UAPP> about it', 'ask @UAPP about it'],
    ['<@UAPP>', '@UAPP'],
    ['<@UAPPX> hello', '@UAPPX hello'],
  ])('T33 %s reaches agents as %s', async (text, said) => {
    expect((await human({ text })).human.text).toBe(said);
  });

  test('T33 is a command also after a mention of the app', async () => {
    expect((await human({ text: '<@UAPP> !floor skip' })).line).toBe('!floor skip');
  });

  test('quotes a forwarded message, which is no command and addresses no agent', async () => {
    const { human: message, line } = await human({ text: '', forwarded: '!floor skip\n&lt;now&gt;' });
    expect(line).toBeNull();
    expect(message).toMatchObject({ text: '> !floor skip\n> <now>', addressed: [] });
    expect(message.ignore).toBeUndefined();
    expect((await human({ text: 'dev: do this', forwarded: 'build it' })).human.text).toBe('dev: do this\n> build it');
    expect((await human({ text: '!stop', forwarded: 'build it' })).line).toBe('!stop');
  });

  test("names a mentioned person who has an agent's name as a person", async () => {
    expect((await human({ text: 'ask <@U7|dev> and <@U8|bob>' })).human.text).toBe('ask the person dev and @bob');
  });

  test("of a program is ignored under its rule, or reaches agents as a program's message", async () => {
    const program = { author: 'bot', by: 'U8', name: 'ci' } as const;
    expect((await human(program)).human).toMatchObject({ ignore: 'bots are ignored in this channel' });
    expect((await human(program, 'all')).human).toMatchObject({ bot: true });
    expect((await human(program, 'mentions')).human.ignore).toBeDefined();
    expect((await human({ ...program, text: '@dev look' }, 'mentions')).human).toMatchObject({ bot: true });
  });

  test("row 74: of a program with an agent's name is no command and no agent's message", async () => {
    const forged = { author: 'webhook', by: 'B9', name: 'dev', text: '!stop' } as const;
    const { human: message, line } = await human(forged, 'all');
    expect(line).toBeNull();
    expect(message).toMatchObject({ bot: true, author: { id: 'B9' } });
  });

  test('that is a command is stored and hidden from agents; "!nice" is a message', async () => {
    expect(await human({ text: '!floor skip' })).toMatchObject({
      line: '!floor skip',
      human: { ignore: 'an operator command' },
    });
    const nice = await human({ text: '!nice' });
    expect(nice.line).toBeNull();
    expect(nice.human.ignore).toBeUndefined();
  });
});

describe('a channel on Slack', () => {
  async function hearing<Result>(options: StandOptions, work: (here: Stand) => Promise<Result>): Promise<void> {
    const here = await stand(options);
    await work(here);
    await here.close();
  }

  test('row 42: that is archived or removes Conch is suspended with its threads, and restored when it can be used', async () => {
    await hearing({}, async ({ slack, ears, floor }) => {
      const root = slack.write(slack.ids.ann, slack.ids.channel, 'root');
      slack.write(slack.ids.ann, slack.ids.channel, 'reply', { thread: root });
      await until('the thread', () => ears.threads.length === 1);
      slack.archive(slack.ids.channel);
      await until('suspended', () => ears.told.length === 2);
      expect(ears.told).toEqual([
        `suspend ${floor}: the channel is archived`,
        `suspend ${floor}/${root}: the channel is archived`,
      ]);
      slack.unarchive(slack.ids.channel);
      await until('restored', () => ears.told.length === 4);
      slack.kickBot(slack.ids.channel);
      await until('suspended', () => ears.told.length >= 6);
      expect(ears.told[4]).toBe(`suspend ${floor}: Conch is not in the channel`);
      slack.inviteBot(slack.ids.channel);
      await until(
        'restored',
        () => ears.told.includes(`restore ${floor}/${root}`) && ears.told.at(-1)?.startsWith('restore') === true,
      );
    });
  });

  test('row 42: that removed Conch without an event is suspended by the first refusal, and restored when Conch is a member again', async () => {
    await hearing({}, async ({ slack, ears, adapter, floor }) => {
      const post = { outboxId: '1', speaker: null, text: 'own', afterId: null, epoch: null };
      await adapter.catchUp(floor, null);
      slack.events.drop(10);
      slack.kickBot(slack.ids.channel);
      ears.told.length = 0;
      await expect(adapter.post(floor, post)).rejects.toMatchObject({ fault: 'refused' });
      await until('suspended', () => ears.told.length > 0);
      expect(ears.told).toEqual([`suspend ${floor}: Conch is not in the channel`]);
      slack.inviteBot(slack.ids.channel);
      await adapter.catchUp(floor, null);
      expect(ears.told.at(-1)).toBe(`restore ${floor}`);
    });
  });

  test.each(['not_in_channel', 'is_archived', 'channel_not_found'])(
    'T36 that answers %s once, although Conch can use it, is not suspended',
    async (error) => {
      await hearing({}, async ({ slack, ears, adapter, floor }) => {
        const post = { outboxId: '1', speaker: null, text: 'own', afterId: null, epoch: null };
        const asked = (): number => slack.requests.filter(({ method }) => method === 'conversations.info').length;
        await adapter.catchUp(floor, null);
        ears.told.length = 0;
        const before = asked();
        slack.fail('chat.postMessage', { kind: 'error', error });
        await expect(adapter.post(floor, post)).rejects.toMatchObject({ fault: 'refused', retryAfterMs: 60_000 });
        await until('asked', () => asked() > before);
        await adapter.post(floor, post);
        expect(ears.told.filter((each) => each.startsWith('suspend'))).toEqual([]);
      });
    },
  );

  test.each([
    ['channel_is_archived', ''],
    ['is_inactive', ''],
    ['restricted_action_read_only_channel', ''],
    ['restricted_action_thread_locked', '/thread'],
  ])('that answers %s in a thread is suspended, or only the thread, by the error', async (error, of) => {
    await hearing({}, async ({ slack, ears, adapter, floor }) => {
      const root = slack.write(slack.ids.ann, slack.ids.channel, 'root');
      slack.write(slack.ids.ann, slack.ids.channel, 'reply', { thread: root });
      await until('the thread', () => ears.threads.length === 1);
      const thread = `${floor}/${root}`;
      slack.fail({ method: 'chat.postMessage', times: null }, { kind: 'error', error });
      for (let tries = 0; tries < 3; tries += 1) {
        const post = { outboxId: `${tries}`, speaker: null, text: 'own', afterId: null, epoch: null };
        await expect(adapter.post(thread, post)).rejects.toMatchObject({ fault: 'refused' });
      }
      await until('suspended', () => ears.told.some((each) => each.startsWith('suspend')));
      const closed = of === '' ? [floor, thread] : [thread];
      expect(ears.told.flatMap((each) => /^suspend (\S+):/.exec(each)?.[1] ?? [])).toEqual(closed);
    });
  });

  test('row 42: that was archived while Conch was disconnected is suspended by the catch-up', async () => {
    const first: StandOptions['first'] = (slack) => slack.archive(slack.ids.channel);
    await hearing({ first, slack: { retryDelaysMs: [] } }, async ({ ears, adapter, floor }) => {
      await adapter.catchUp(floor, null);
      expect(ears.told).toContain(`suspend ${floor}: the channel is archived`);
    });
  });

  test("delivers edits and deletions of people's messages, and none of Conch's", async () => {
    await hearing({}, async ({ slack, ears, adapter, floor }) => {
      const ts = slack.write(slack.ids.ann, slack.ids.channel, 'hello');
      const post = { outboxId: '1', speaker: null, text: 'own', afterId: null, epoch: null };
      const id = await adapter.post(floor, post);
      await adapter.edit?.(floor, id, 'own words');
      await until('the message', () => ears.messages.length === 1);
      slack.edit(slack.ids.channel, ts, 'hello there');
      await until('the edit', () => ears.changes.length === 1);
      slack.remove(slack.ids.channel, ts);
      await until('the deletion', () => ears.changes.length === 2);
      expect(ears.changes).toMatchObject([
        { change: 'edited', id: `${slack.ids.channel}/${ts}`, channel: floor, text: 'hello there' },
        { change: 'deleted', id: `${slack.ids.channel}/${ts}`, channel: floor },
      ]);
      expect(ears.texts()).toEqual(['hello']);
    });
  });

  test('row 35: applies an edit that comes before its message', async () => {
    await hearing({}, async ({ slack, ears }) => {
      slack.events.reorder();
      const ts = slack.write(slack.ids.ann, slack.ids.channel, 'helo');
      slack.edit(slack.ids.channel, ts, 'hello');
      await slack.events.settled();
      expect(ears.messages).toMatchObject([{ text: 'hello', order: ts }]);
      expect(ears.changes).toMatchObject([{ change: 'edited', text: 'hello', version: ears.messages[0]?.version }]);
    });
  });

  test('row 35: drops a message whose deletion comes before it', async () => {
    await hearing({ adapter: { connection: { mode: 'socket', connections: 1 } } }, async ({ slack, ears }) => {
      slack.events.reorder();
      const ts = slack.write(slack.ids.ann, slack.ids.channel, 'oops');
      slack.remove(slack.ids.channel, ts);
      await slack.events.settled();
      expect(ears.messages).toEqual([]);
      expect(ears.changes).toMatchObject([{ change: 'deleted' }]);
    });
  });

  test("delivers files and names, and other apps' messages under their rule", async () => {
    await hearing({ place: { allowBots: 'mentions' } }, async ({ slack, ears }) => {
      const files = [{ name: 'plan.txt', content: 'a plan' }];
      slack.write(slack.ids.bob, slack.ids.channel, `<@${slack.ids.ann}> look`, { files });
      slack.bot(slack.ids.channel, 'built', { name: 'ci' });
      slack.bot(slack.ids.channel, '@dev it is red', { name: 'ci' });
      await until('all', () => ears.messages.length === 3);
      expect(ears.messages).toMatchObject([
        { text: '@Ann look', author: { name: 'Bob' }, attachments: [{ name: 'plan.txt', bytes: 6 }] },
        { text: 'built', ignore: 'webhooks are ignored unless they mention an agent' },
        { text: '@dev it is red', bot: true, author: { name: 'ci' } },
      ]);
    });
  });

  test('opens a floor for a thread before its first message', async () => {
    await hearing({}, async ({ slack, ears, floor }) => {
      const root = slack.write(slack.ids.ann, slack.ids.channel, 'root');
      slack.write(slack.ids.bob, slack.ids.channel, 'reply', { thread: root });
      await until('both', () => ears.messages.length === 2);
      expect(ears.threads).toMatchObject([{ id: `${floor}/${root}`, parent: floor }]);
      expect(ears.messages.map(({ channel }) => channel)).toEqual([floor, `${floor}/${root}`]);
    });
  });

  test('shows the user id when Slack does not give the name', async () => {
    const first: StandOptions['first'] = (slack) =>
      slack.fail({ method: 'users.info', times: null }, { kind: 'hang-before' });
    await hearing({ first, slack: { ackMs: 3_000 } }, async ({ slack, ears }) => {
      slack.write(slack.ids.ann, slack.ids.channel, 'hello');
      await until('it comes', () => ears.messages.length === 1);
      expect(ears.messages[0]?.author).toEqual({ id: slack.ids.ann, name: slack.ids.ann });
      await slack.events.settled();
      expect(slack.attempts).toHaveLength(1);
    });
  });
});
