import { z } from 'zod';
import { addressedIn } from '../../turns/text/recognition.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Attachment, HumanMessage, MessageChange } from '../../engine/port.ts';
import { defined } from '../../lib/defined.ts';
import { deliveryFlags, typedCommand } from '../delivery/inbound.ts';
import type { Author } from '../delivery/inbound.ts';
import type { FloorQueries, Place } from '../port.ts';
import type { Identities } from './identity.ts';
import { channelId, timeOf } from './client.ts';
import type { Self } from './client.ts';
import { snowflakeSchema } from './places.ts';

/** An author or a mentioned user. For a webhook, `username` is the name that the message shows. */
export const userSchema = z.object({
  id: snowflakeSchema,
  username: z.string(),
  global_name: z.string().nullish().catch(null),
  bot: z.boolean().nullish().catch(null),
});

/** A user's name and roles in a guild. */
export const memberSchema = z.object({
  nick: z.string().nullish().catch(null),
  roles: z.array(snowflakeSchema).catch([]),
});

const attachmentSchema = z.object({
  filename: z.string(),
  url: z.string(),
  content_type: z.string().nullish().catch(null),
  size: z.number().nullish().catch(null),
});

const stickerSchema = z.object({ id: snowflakeSchema, name: z.string() });

const contentSchema = z.object({
  content: z.string().catch(''),
  attachments: z.array(attachmentSchema).catch([]),
  sticker_items: z.array(stickerSchema).catch([]),
});

const writtenSchema = contentSchema.extend({
  author: userSchema,
  webhook_id: snowflakeSchema.nullish().catch(null),
  application_id: snowflakeSchema.nullish().catch(null),
});

const secondarySchema = z.object({
  member: memberSchema.nullish().catch(null),
  edited_timestamp: z.string().nullish().catch(null),
  mentions: z.array(userSchema).catch([]),
  mention_roles: z.array(snowflakeSchema).catch([]),
  referenced_message: writtenSchema.nullish().catch(null),
  message_reference: z
    .object({ type: z.int().nullish(), message_id: snowflakeSchema.nullish().catch(null) })
    .nullish()
    .catch(null),
  message_snapshots: z.array(z.object({ message: contentSchema })).catch([]),
});

/** A message in MESSAGE_CREATE and the history. Invalid optional fields become empty instead of failing the parse. */
export const messageSchema = writtenSchema
  .extend(secondarySchema.shape)
  .extend({ id: snowflakeSchema, channel_id: snowflakeSchema, type: z.int() });

/** A parsed message of Discord. */
export type MessagePayload = z.infer<typeof messageSchema>;

/** A MESSAGE_UPDATE with a time of editing. Discord's own updates of unedited messages, to add embeds, do not match. */
export const editSchema = messageSchema.extend({
  type: z.int().catch(0),
  content: z.string(),
  edited_timestamp: z.string(),
});

/** The payload of MESSAGE_DELETE: one deleted message. */
export const deletedSchema = z.object({ id: snowflakeSchema, channel_id: snowflakeSchema });
/** The payload of MESSAGE_DELETE_BULK: several deleted messages of one channel. */
export const bulkDeletedSchema = z.object({ ids: z.array(snowflakeSchema), channel_id: snowflakeSchema });

/** Facts about the bot and its agents that parsing a message needs. */
export type MessageContext = {
  readonly self: Self;
  readonly identities: Identities;
  readonly agents: FloorQueries['agents'];
  readonly channelName: (channel: string) => string | null;
};

/** Returns whether Conch wrote the message: as the bot, by one of its webhooks, or as the answer to a command. */
export function isOwn(
  message: WrittenMessage,
  { self, identities }: Pick<MessageContext, 'self' | 'identities'>,
): boolean {
  const { author, webhook_id: webhook, application_id: application } = message;
  if (author.id === self.userId || application === self.applicationId) return true;
  return typeof webhook === 'string' && identities.isOwnWebhook(webhook);
}

/** Returns the kind of author, as Discord authenticates it. Names do not count. */
export function authorOf(message: WrittenMessage): Author {
  if (typeof message.webhook_id === 'string') return 'webhook';
  return message.author.bot === true ? 'bot' : 'person';
}

/** Returns whether the message is an ordinary message or a reply, unlike joins, pins and boosts. */
export function isSpeech(message: Pick<MessagePayload, 'type'>): boolean {
  return message.type === DEFAULT || message.type === REPLY;
}

/** Converts a message to the intake's form. */
export function humanMessage(
  message: MessagePayload,
  at: { readonly channel: ChannelId; readonly place: Pick<Place, 'allowBots'> },
  by: MessageContext,
): HumanMessage {
  const { member, message_reference: about } = message;
  const replyTo = about?.type === FORWARD ? undefined : (about?.message_id ?? undefined);
  const ownChannel = channelId(message.channel_id);
  const speech = { text: textOf(message, by), addressed: addressedBy(message, by) };
  const [author, isCommand] = [authorOf(message), commandIn(message, by) !== null];
  return {
    id: message.id,
    channel: at.channel,
    ...(ownChannel === at.channel ? {} : { thread: ownChannel }),
    author: { id: message.author.id, name: writerName(message), ...(member ? { roles: member.roles } : {}) },
    ...speech,
    sentAt: timeOf(message.id),
    order: message.id,
    attachments: attachmentsOf(message),
    ...defined({ replyTo }),
    ...deliveryFlags(speech, { author, place: at.place, agents: by.agents(), isCommand }),
  };
}

/**
 * Returns the edit of a message, ordered by Discord's time of editing. `null`: not edited, or no ordinary message or
 * reply.
 */
export function editOf(message: MessagePayload, channel: ChannelId, by: MessageContext): MessageChange | null {
  const version = message.edited_timestamp ?? null;
  if (version === null || !isSpeech(message)) return null;
  return { change: 'edited', id: message.id, channel, text: textOf(message, by), version };
}

/** Returns the author's name: the name in this guild, else the display name, else the user name. */
export function writerName(message: Pick<MessagePayload, 'author' | 'member'>): string {
  return message.member?.nick ?? message.author.global_name ?? message.author.username;
}

type WrittenMessage = z.infer<typeof writtenSchema>;

const DEFAULT = 0;
const REPLY = 19;
const FORWARD = 1;

/** Returns the command line in a message; `null` when the message is not a command. */
export function commandIn(
  { content }: Pick<MessagePayload, 'content'>,
  { self }: Pick<MessageContext, 'self'>,
): string | null {
  return typedCommand(withoutBot(content, self));
}

/**
 * Removes mentions of the bot from the start of a message. A message of nothing but mentions of the bot stays
 * unchanged.
 */
function withoutBot(content: string, { userId }: Self): string {
  const rest = content.replace(new RegExp(`^(?:\\s*<@!?${userId}>[\\s,:]*)+`), '');
  return rest === '' ? content : rest;
}

function textOf(message: MessagePayload, by: MessageContext): string {
  const agents = by.agents();
  const lookups = {
    user: (id: string) => {
      const user = message.mentions.find((each) => each.id === id);
      if (id === by.self.userId) return `@${user?.username ?? 'Conch'}`;
      return user === undefined ? null : mentionOf(user.global_name ?? user.username, agents);
    },
    role: (id: string) => by.identities.agentOfRole(id),
    channel: by.channelName,
  };
  const forwarded = message.message_reference?.type === FORWARD ? message.message_snapshots : [];
  const quotes = forwarded.map((each) => quote(each.message.content)).filter((text) => text !== '');
  return plainText([withoutBot(message.content, by.self), ...quotes].filter((text) => text !== '').join('\n'), lookups);
}

/**
 * Returns the text for a mentioned person. A person with an agent's name is marked, so that it is not taken for the
 * agent.
 */
function mentionOf(name: string, agents: Parameters<typeof addressedIn>[1]): string {
  return addressedIn(`@${name}`, agents).length === 0 ? `@${name}` : `the person ${name}`;
}

function quote(text: string): string {
  return text === '' ? '' : text.replaceAll(/^/gm, '> ');
}

function addressedBy(message: MessagePayload, by: MessageContext): readonly AgentId[] {
  const roles = message.mention_roles.map((role) => by.identities.agentOfRole(role));
  const agents = [...roles, repliedTo(message, by)].filter((agent) => agent !== null);
  return [...new Set(agents)];
}

function repliedTo({ type, referenced_message: original }: MessagePayload, by: MessageContext): AgentId | null {
  if (type !== REPLY || original === null || original === undefined || !isOwn(original, by)) return null;
  const { content, author } = original;
  return by.identities.agentOfPost({
    shownName: author.username,
    content,
    byWebhook: typeof original.webhook_id === 'string',
  });
}

function attachmentsOf(message: MessagePayload): readonly Attachment[] {
  const forwarded = message.message_snapshots.map((each) => each.message);
  return [message, ...forwarded].flatMap(({ attachments, sticker_items: stickers }) =>
    attachments.map(fileOf).concat(stickers.map(stickerOf)),
  );
}

function fileOf(file: z.infer<typeof attachmentSchema>): Attachment {
  const { filename: name, url, content_type: contentType = null, size: bytes = null } = file;
  return { name, url, contentType, bytes };
}

function stickerOf({ id, name }: z.infer<typeof stickerSchema>): Attachment {
  const url = `https://media.discordapp.net/stickers/${id}.png`;
  return { name: `sticker "${name}"`, url, contentType: null, bytes: null };
}

/** Names for the mentions in a Discord text; `null` when the id is unknown. */
export type Lookups = {
  readonly user: (id: string) => string | null;
  /** Returns the id of the agent with this role. */
  readonly role: (id: string) => string | null;
  readonly channel: (id: string) => string | null;
};

const MARK =
  /<(?:@!?(?<user>\d{1,20})|@&(?<role>\d{1,20})|#(?<channel>\d{1,20})|a?:(?<emoji>\w{1,32}):\d{1,20}|t:(?<time>-?\d{1,13})(?::[a-zA-Z])?|\/(?<command>[^:<>\n]{1,100}):\d{1,20}|id:(?<place>[a-z]{1,20}))>/g;

/** Converts Discord's markup for people, roles, channels, emojis, times, commands and `<id:…>` pages to words. */
export function plainText(content: string, lookups: Lookups): string {
  return content.replaceAll(MARK, (mark, ...rest: unknown[]) => wordsFor(mark, marksIn(rest.at(-1)), lookups));
}

type Marks = Readonly<Partial<Record<'user' | 'role' | 'channel' | 'emoji' | 'time' | 'command' | 'place', string>>>;

function marksIn(groups: unknown): Marks {
  return typeof groups === 'object' && groups !== null ? groups : {};
}

function wordsFor(mark: string, marks: Marks, lookups: Lookups): string {
  const { user, role, channel, emoji, time, command, place } = marks;
  if (user !== undefined) return lookups.user(user) ?? '@somebody';
  if (role !== undefined) return `@${lookups.role(role) ?? 'role'}`;
  if (channel !== undefined) return `#${lookups.channel(channel) ?? 'channel'}`;
  if (emoji !== undefined) return `:${emoji}:`;
  if (time !== undefined) return timeWords(Number(time)) ?? mark;
  if (command !== undefined) return `/${command}`;
  return place === undefined ? mark : `#${place}`;
}

function timeWords(seconds: number): string | null {
  const at = new Date(seconds * 1_000);
  return Number.isNaN(at.getTime()) ? null : `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
