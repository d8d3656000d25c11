import { z } from 'zod';
import type { Attachment, HumanMessage, MessageChange } from '../../engine/port.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import { addressedIn } from '../../turns/text/recognition.ts';
import { floorOf, deliveryFlags, typedCommand } from '../delivery/inbound.ts';
import type { Author, MessageLocation } from '../delivery/inbound.ts';
import type { FloorQueries, Thread } from '../port.ts';
import { channelId, messageId } from './client.ts';
import type { People, Self } from './client.ts';

/** A channel, or the thread under the message whose `ts` is `thread`, in Slack's own ids. */
export type SlackLocation = {
  readonly channel: string;
  readonly thread: string | null;
  /** True for a thread's message that is also shown in the channel. */
  readonly broadcast: boolean;
};

/** A message that Conch did not write, in Slack's markup. */
export type ReceivedMessage = SlackLocation & {
  readonly ts: string;
  readonly author: Author;
  /** The user's id; without a user, the bot's id; without both, "webhook". */
  readonly by: string;
  /** The name that the message gives its author; `null` for none. */
  readonly name: string | null;
  /** The author's own words. Without words, the text of attachments that are not forwarded messages. */
  readonly text: string;
  /** The text of messages that the author forwarded; empty for none. */
  readonly forwarded: string;
  readonly files: readonly SlackFile[];
  /** The `ts` of the last edit; `null` for none. */
  readonly editedTs: string | null;
};

const fileSchema = z.looseObject({
  name: z.string().nullish(),
  title: z.string().nullish(),
  mimetype: z.string().nullish(),
  size: z.number().nullish(),
  url_private: z.string().nullish(),
  permalink: z.string().nullish(),
});

const filesSchema = z.array(fileSchema).nullish().catch(null);

type SlackFile = z.output<typeof fileSchema>;

/** Slack's id of a message in its channel: the time in seconds since 1970, with a number after the point. */
export const tsSchema = z.string().regex(/^\d{1,15}\.\d{1,9}$/);
/** The id of a channel, a user, a bot or an app. */
export const idSchema = z.string().min(1).max(64);

/** A message in an event or a history. Some optional fields in an unexpected form are left out. */
export const messageSchema = z.looseObject({
  ts: tsSchema,
  thread_ts: tsSchema.nullish(),
  subtype: z.string().nullish(),
  user: idSchema.nullish(),
  bot_id: idSchema.nullish(),
  app_id: idSchema.nullish(),
  bot_profile: z.looseObject({ app_id: z.string().nullish(), name: z.string().nullish() }).nullish(),
  username: z.string().nullish(),
  text: z.string().nullish(),
  attachments: z
    .array(
      z.looseObject({
        text: z.string().nullish(),
        fallback: z.string().nullish(),
        is_share: z.boolean().nullish().catch(null),
        files: filesSchema,
      }),
    )
    .nullish()
    .catch(null),
  files: filesSchema,
  edited: z.looseObject({ ts: tsSchema }).nullish(),
  latest_reply: tsSchema.nullish().catch(null),
  metadata: z.looseObject({ event_type: z.string().nullish() }).nullish().catch(null),
});
type SlackMessage = z.output<typeof messageSchema>;

/**
 * Parses a message of a channel's history. Returns `null` for Conch's own messages, notices, unexpected forms, and
 * messages without an author.
 */
export function parseMessage(channel: string, message: unknown, self: Self): ReceivedMessage | null {
  const parsed = messageSchema.safeParse(message);
  if (!parsed.success || !SUBTYPES.has(parsed.data.subtype ?? '') || isOwn(parsed.data, self)) return null;
  return toReceived({ ...parsed.data, channel });
}

/** Returns the `ts` of a history's message and of the newest reply under it. Returns `null` for an unexpected form. */
export function timesIn(message: unknown): { readonly ts: string; readonly latestReply: string | null } | null {
  const parsed = messageSchema.safeParse(message);
  return parsed.success ? { ts: parsed.data.ts, latestReply: parsed.data.latest_reply ?? null } : null;
}

/** Returns the time of a `ts`, in milliseconds since 1970. */
export function sentAt(slackTs: string): number {
  return Math.round(Number(slackTs) * 1_000);
}

/** The subtypes of messages that somebody wrote; "" is no subtype. Other subtypes are notices, edits and deletions. */
export const SUBTYPES: ReadonlySet<string> = new Set([
  '',
  'file_share',
  'thread_broadcast',
  'me_message',
  'bot_message',
]);

/**
 * Whether Conch wrote a message. Any app can write Conch's metadata, so metadata decides only when the message has no
 * id of a user, bot or app.
 */
export function isOwn(message: SlackMessage, self: Self): boolean {
  const { user, bot_id: bot } = message;
  const app = message.app_id ?? message.bot_profile?.app_id ?? null;
  if (user === self.userId || bot === self.botId || (app !== null && app === self.appId)) return true;
  const isAnonymous = !user && !bot && app === null;
  return isAnonymous && (message.metadata?.event_type ?? '').startsWith('conch_');
}

/** Returns a message with its author and text; `null` when it names no author and has not the subtype `bot_message`. */
export function toReceived(message: SlackMessage & { readonly channel: string }): ReceivedMessage | null {
  const { user, bot_id: bot } = message;
  const by = user ?? bot ?? (message.subtype === 'bot_message' ? 'webhook' : null);
  if (by === null) return null;
  const attachments = message.attachments ?? [];
  const shares = attachments.filter(({ is_share: isShare }) => isShare === true);
  return {
    ...locationOf(message),
    ts: message.ts,
    author: authorOf(message),
    by,
    name: message.username ?? message.bot_profile?.name ?? null,
    text: message.text || textOf(attachments.filter((attachment) => !shares.includes(attachment))),
    forwarded: textOf(shares),
    files: [message, ...shares].flatMap(({ files }) => files ?? []),
    editedTs: message.edited?.ts ?? null,
  };
}

/**
 * Returns the kind of author. A program that posts with a person's token has a user's and a bot's id, and counts as a
 * bot.
 */
function authorOf({ user, bot_id: bot, subtype }: SlackMessage): Author {
  if (!bot && subtype !== 'bot_message') return 'person';
  return user ? 'bot' : 'webhook';
}

function textOf(attachments: NonNullable<SlackMessage['attachments']>): string {
  const lines = attachments.map(({ text, fallback }) => text ?? fallback ?? '');
  return lines.filter((line) => line !== '').join('\n');
}

type LocatedMessage = Pick<SlackMessage, 'ts' | 'thread_ts' | 'subtype'> & { readonly channel: string };

/** Returns Slack's ids of the place of a message. */
export function locationOf({ channel, ts: ownTs, thread_ts: thread, subtype }: LocatedMessage): SlackLocation {
  const isReply = thread !== undefined && thread !== null && thread !== ownTs;
  return { channel, thread: isReply ? thread : null, broadcast: isReply && subtype === 'thread_broadcast' };
}

/** Dependencies of reading Slack's messages. */
export type MessageContext = {
  readonly self: Self;
  readonly queries: FloorQueries;
  readonly people: People;
  readonly userGroups: Readonly<Record<string, AgentId>>;
};

/**
 * Returns the floor of a channel or thread; `null` for none. A reply that is also shown in the channel falls back to
 * the channel's floor.
 */
export function floorLocation(queries: FloorQueries, at: SlackLocation): MessageLocation | null {
  const ownFloor = floorOf(queries, channelId(at.channel), null);
  if (at.thread === null) return ownFloor;
  const inThread = floorOf(queries, channelId(at.channel, at.thread), channelId(at.channel));
  return inThread ?? (at.broadcast ? ownFloor : null);
}

/** Returns the thread whose floor must be opened before the intake gets the message; `null` for none. */
export function threadAt(at: SlackLocation, { channel, opens }: MessageLocation): Thread | null {
  if (opens === null || at.thread === null) return null;
  const since = { id: messageId(at.channel, at.thread), order: at.thread };
  return { id: channel, parent: opens.id, name: `${opens.name} › ${at.thread}`, since };
}

/**
 * Returns the floor for a button or command at a place; `null` for none. A thread whose floor is not open yet has the
 * channel's floor. Ignored threads have none.
 */
export function floorAt(queries: FloorQueries, at: SlackLocation): ChannelId | null {
  const location = floorLocation(queries, at);
  return location === null ? null : (location.opens?.id ?? location.channel);
}

/** Converts a message to the form of the engine. `line`: the command line, if a person wrote one. */
export async function toHumanMessage(
  message: ReceivedMessage,
  { channel, place }: MessageLocation,
  by: MessageContext,
): Promise<{ readonly human: HumanMessage; readonly line: string | null }> {
  const { author } = message;
  const ownText = await readable(message.text, by);
  const text = await withForwarded(ownText, message, by);
  const addressed = [...new Set(groupsIn(message.text).flatMap((group) => agentOf(group, by) ?? []))];
  const line = author === 'person' ? typedCommand(ownText) : null;
  const human: HumanMessage = {
    id: messageId(message.channel, message.ts),
    channel,
    ...(place.threads !== 'parent' || message.thread === null
      ? {}
      : { thread: channelId(message.channel, message.thread) }),
    author: { id: message.by, name: message.name ?? (await by.people.name(message.by)) },
    text,
    sentAt: sentAt(message.ts),
    order: message.ts,
    addressed,
    attachments: message.files.map(attachmentOf),
    ...(message.editedTs === null ? {} : { version: message.editedTs }),
    ...deliveryFlags({ text, addressed }, { author, place, agents: by.queries.agents(), isCommand: line !== null }),
  };
  return { human, line };
}

/** Converts an edited message to the form of the engine. */
export async function toChange(message: ReceivedMessage, floor: ChannelId, by: MessageContext): Promise<MessageChange> {
  return {
    change: 'edited',
    id: messageId(message.channel, message.ts),
    channel: floor,
    text: await withForwarded(await readable(message.text, by), message, by),
    ...(message.editedTs === null ? {} : { version: message.editedTs }),
  };
}

/** Appends forwarded messages as quotes, so that they address no agent. */
async function withForwarded(ownText: string, { forwarded }: ReceivedMessage, by: MessageContext): Promise<string> {
  if (forwarded === '') return ownText;
  const quote = (await readable(forwarded, by)).replaceAll(/^/gm, '> ');
  return ownText === '' ? quote : `${ownText}\n${quote}`;
}

async function readable(text: string, by: MessageContext): Promise<string> {
  const { people, queries } = by;
  const words = withoutApp(text, by.self);
  await Promise.all(usersIn(words).slice(0, MENTIONS_LOOKED_UP).map(people.name));
  const plain = plainText(words, {
    user: people.cachedName,
    isAgent: (mention) => addressedIn(mention, queries.agents()).length > 0,
    group: (group) => agentOf(group, by),
    channel: (channel) => queries.channels().find(({ id }) => id === channelId(channel))?.name ?? null,
  });
  return plain.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** Removes mentions of the app from the start of a text, unless nothing else is in the text. */
function withoutApp(text: string, { userId }: Self): string {
  const rest = text.replace(new RegExp(`^(?:\\s*<@${userId}(?:\\|[^<>]*)?>[\\s,:]*)+`), '');
  return rest === '' ? text : rest;
}

/** How many mentioned people of one text are looked up. Others keep a cached name, the mention's label, or their id. */
const MENTIONS_LOOKED_UP = 20;

function agentOf(group: string, { userGroups }: MessageContext): AgentId | null {
  return Object.hasOwn(userGroups, group) ? (userGroups[group] ?? null) : null;
}

function attachmentOf(file: SlackFile): Attachment {
  return {
    name: file.name ?? file.title ?? 'file',
    url: file.url_private ?? file.permalink ?? '',
    contentType: file.mimetype ?? null,
    bytes: file.size ?? null,
  };
}

/** Names of the ids in Slack's text; `null` for an unknown id. */
export type Lookups = {
  readonly user: (id: string) => string | null;
  /** Whether a mention of a person would address an agent with the same name. */
  readonly isAgent: (mention: string) => boolean;
  readonly group: (id: string) => string | null;
  readonly channel: (id: string) => string | null;
};

/** Converts Slack's markup of mentions, channels, links and dates to words, and `&amp; &lt; &gt;` to characters. */
export function plainText(text: string, lookups: Lookups): string {
  return text.replaceAll(MARKED, (whole, inner: string | undefined, entity: string | undefined) => {
    if (entity !== undefined) return ENTITIES[entity] ?? whole;
    return inner === undefined ? whole : readMark(inner, lookups);
  });
}

/** Returns the ids of the people that a text mentions. */
export function usersIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(/<@([UW][A-Z0-9]+)/g)].map((match) => match[1] ?? ''))];
}

/** Returns the ids of the user groups that a text mentions. */
export function groupsIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(/<!subteam\^([A-Z0-9]+)/g)].map((match) => match[1] ?? ''))];
}

const MARKED = /<([^<>\n]+)>|&(amp|lt|gt);/g;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>' };

function readMark(inner: string, lookups: Lookups): string {
  const bar = inner.indexOf('|');
  const target = bar === -1 ? inner : inner.slice(0, bar);
  const label = bar === -1 ? '' : unescaped(inner.slice(bar + 1));
  const rest = target.slice(1);
  switch (target[0]) {
    case '@':
      return personNamed(nameOrLabel('@', lookups.user(rest), label, rest), lookups);
    case '#':
      return nameOrLabel('#', lookups.channel(rest), label, rest);
    case '!':
      return readSpecial(rest, label, lookups);
    default:
      return link(unescaped(target), label);
  }
}

function readSpecial(body: string, label: string, lookups: Lookups): string {
  const [kind = '', id = ''] = body.split('^', 2);
  if (kind === 'subteam') return nameOrLabel('@', lookups.group(id), label, id);
  if (kind === 'date') return label;
  return nameOrLabel('@', null, label, kind);
}

function personNamed(mention: string, { isAgent }: Lookups): string {
  return isAgent(mention) ? `the person ${mention.slice(1)}` : mention;
}

function nameOrLabel(mark: '@' | '#', knownName: string | null, label: string, id: string): string {
  const name = knownName ?? (label === '' ? id : label);
  return name.startsWith(mark) ? name : mark + name;
}

function link(url: string, label: string): string {
  const address = url.replace(/^(?:https?:\/\/|mailto:|tel:)/, '');
  if (label === '') return address === url || url.startsWith('http') ? url : address;
  return label === url || label === address ? label : `${label} (${url})`;
}

function unescaped(text: string): string {
  return text.replaceAll(/&(amp|lt|gt);/g, (whole, entity: string) => ENTITIES[entity] ?? whole);
}
