import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  authorOf,
  commandIn,
  editOf,
  editSchema,
  humanMessage,
  isOwn,
  isSpeech,
  messageSchema,
} from '../../../src/adapters/discord/parse-message.ts';
import { snowflakeAt, timeOf } from '../../../src/adapters/discord/client.ts';
import type { MessagePayload, MessageContext } from '../../../src/adapters/discord/parse-message.ts';
import { createListener, queriesOf } from './listening.ts';

const BOT = '100000000000000001';
const HOOK = '100000000000000002';
const ROLE = '100000000000000003';
const ADA = { id: '100000000000000004', username: 'ada', global_name: 'Ada L' };
const CHANNEL = '100000000000000005';
const AT = Date.UTC(2026, 2, 1, 12);

const BY: MessageContext = {
  self: { userId: BOT, applicationId: BOT },
  identities: {
    isOwnWebhook: (id) => id === HOOK,
    agentOfRole: (id) => (id === ROLE ? 'qa' : null),
    agentOfPost: ({ shownName }) => (shownName === 'dev' ? 'dev' : null),
  },
  agents: () => queriesOf([], createListener()).agents(),
  channelName: () => 'general',
};
const HERE = { channel: `discord:${CHANNEL}`, place: { allowBots: 'off' } } as const;

function payload(change: object = {}): MessagePayload {
  const id = snowflakeAt(AT);
  const base = { id, channel_id: CHANNEL, type: 0, author: ADA, content: 'hello', timestamp: '2026-03-01T12:00:00Z' };
  return messageSchema.parse({ ...base, ...change });
}

const heard = (change: object = {}, allowBots: 'off' | 'mentions' | 'all' = 'off') =>
  humanMessage(payload(change), { ...HERE, place: { allowBots } }, BY);

describe('a message of a person', () => {
  test('keeps all its fields', () => {
    const attachments = [
      { filename: 'a.png', url: 'https://cdn.discordapp.com/a.png', content_type: 'image/png', size: 7 },
    ];
    expect(heard({ attachments })).toEqual({
      id: snowflakeAt(AT),
      channel: HERE.channel,
      author: { id: ADA.id, name: 'Ada L' },
      text: 'hello',
      sentAt: AT,
      order: snowflakeAt(AT),
      addressed: [],
      attachments: [{ name: 'a.png', url: 'https://cdn.discordapp.com/a.png', contentType: 'image/png', bytes: 7 }],
    });
  });

  test.each([
    [`<@${BOT}> dev: build it`, 'dev: build it'],
    [`<@!${BOT}>, @dev build it`, '@dev build it'],
    [`ask <@${BOT}> about it`, 'ask @Conch about it'],
    [`<@${BOT}>`, '@Conch'],
    [`<@${BOT}1> hello`, '@somebody hello'],
  ])('T33 %s is read as %s', (content, said) => {
    expect(heard({ content }).text).toBe(said);
  });

  test('T33 is a command also after a mention of the bot', () => {
    const skip = { content: `<@${BOT}> !floor skip` };
    expect(commandIn(skip, BY)).toBe('!floor skip');
    expect(heard(skip).ignore).toBe('an operator command');
  });

  test('has the name of its author in this server, else the display name, else the user name', () => {
    expect(heard({ member: { nick: 'Countess' } }).author.name).toBe('Countess');
    expect(heard({ member: { nick: null } }).author.name).toBe('Ada L');
    expect(heard({ author: { ...ADA, global_name: null } }).author.name).toBe('ada');
  });

  test('with only a sticker gets an attachment that names the sticker', () => {
    const message = heard({ content: '', sticker_items: [{ id: '77', name: 'wave', format_type: 1 }] });
    expect(message.attachments.map(({ name }) => name)).toEqual(['sticker "wave"']);
  });

  test('that forwards a message quotes the forwarded text', () => {
    const snapshots = [{ message: { content: 'one\ntwo @dev' } }];
    const message = heard({ content: '', message_reference: { type: 1 }, message_snapshots: snapshots });
    expect(message).toMatchObject({ text: '> one\n> two @dev', addressed: [] });
  });

  test('addresses the agent whose role it mentions, and the agent whose post it replies to', () => {
    const post = { author: { id: HOOK, username: 'dev' }, webhook_id: HOOK, content: 'done' };
    const message = heard({
      type: 19,
      mention_roles: [ROLE, '5'],
      referenced_message: post,
      content: `<@&${ROLE}> ok?`,
    });
    expect(message).toMatchObject({ addressed: ['qa', 'dev'], text: '@qa ok?' });
  });

  test('that replies to a stranger with the name of an agent addresses nobody', () => {
    const stranger = { author: { id: '9', username: 'dev' }, webhook_id: '9', content: 'I am dev' };
    expect(heard({ type: 19, referenced_message: stranger }).addressed).toEqual([]);
    expect(heard({ type: 19, referenced_message: null }).addressed).toEqual([]);
  });

  test("that mentions a person with an agent's name does not address the agent", () => {
    const namesake = { id: '9', username: 'x', global_name: 'Dev' };
    expect(heard({ content: '<@9> hi', mentions: [namesake] }).text).toBe('the person Dev hi');
    expect(heard({ content: '<@9> hi', mentions: [ADA, { ...namesake, global_name: 'Eve' }] }).text).toBe('@Eve hi');
  });

  test('that is a command is stored and hidden from agents', () => {
    expect(heard({ content: '!floor skip' }).ignore).toBe('an operator command');
    expect(heard({ content: '!nice' }).ignore).toBeUndefined();
  });

  test('row 46: loses its invalid fields and keeps the others', () => {
    const odd = { attachments: [{ filename: null }], mentions: null, member: { roles: 7 }, referenced_message: 3 };
    expect(heard(odd)).toMatchObject({ text: 'hello', attachments: [], addressed: [] });
    expect(messageSchema.safeParse({ ...payload(), author: null }).success).toBe(false);
  });
});

describe('a message of a program', () => {
  const bot = { author: { ...ADA, bot: true } };
  const webhook = { author: { id: '9', username: 'dev', bot: true }, webhook_id: '9' };

  test("row 74: a webhook with an agent's name is still a webhook", () => {
    expect(authorOf(payload(webhook))).toBe('webhook');
    expect(heard(webhook)).toMatchObject({ ignore: 'webhooks are ignored in this channel', author: { id: '9' } });
    expect(isOwn(payload(webhook), BY)).toBe(false);
  });

  test("reaches agents as a program's message where the channel allows programs", () => {
    expect(heard(bot).ignore).toBe('bots are ignored in this channel');
    expect(heard(bot, 'mentions').ignore).toBe('bots are ignored unless they mention an agent');
    expect(heard({ ...bot, content: 'hello @dev' }, 'mentions')).toMatchObject({ bot: true });
    expect(heard({ ...bot, content: 'hello @dev' }, 'mentions').ignore).toBeUndefined();
    expect(heard(bot, 'all')).toMatchObject({ bot: true });
  });

  test("counts as Conch's own by the bot's id, by its webhook or by its application", () => {
    expect(isOwn(payload({ author: { id: BOT, username: 'conch' } }), BY)).toBe(true);
    expect(isOwn(payload({ ...webhook, webhook_id: HOOK }), BY)).toBe(true);
    expect(isOwn(payload({ ...webhook, application_id: BOT }), BY)).toBe(true);
    expect(isOwn(payload({ author: { id: '9', username: 'conch' } }), BY)).toBe(false);
  });
});

describe('events that are no messages', () => {
  test('joins, pins and boosts are not speech', () => {
    expect([0, 19, 6, 7, 8, 21].map((type) => isSpeech({ type }))).toEqual([true, true, false, false, false, false]);
  });

  test('an update with `edited_timestamp` is an edit; an update without, such as a link preview, is no edit', () => {
    const edited = payload({ content: 'better', edited_timestamp: '2026-03-01T12:01:00.000000+00:00' });
    expect(editOf(edited, HERE.channel, BY)).toEqual({
      change: 'edited',
      id: snowflakeAt(AT),
      channel: HERE.channel,
      text: 'better',
      version: '2026-03-01T12:01:00.000000+00:00',
    });
    expect(editOf(payload(), HERE.channel, BY)).toBeNull();
    expect(editSchema.safeParse({ ...payload(), content: undefined }).success).toBe(false);
    expect(editSchema.safeParse({ ...payload(), edited_timestamp: null }).success).toBe(false);
  });
});

describe('an id', () => {
  test('made from a time gives that time again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1_420_070_400_000, max: 4_102_444_800_000 }), (at) => {
        expect(timeOf(snowflakeAt(at))).toBe(at);
      }),
    );
    expect(timeOf('175928847299117063')).toBe(1_462_015_105_796);
  });
});
