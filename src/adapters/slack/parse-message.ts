import { z } from 'zod';
import type { Author } from '../delivery/inbound.ts';

/** Who Conch is on Slack: its bot user, its bot and its app. */
export type Ourselves = { readonly userId: string; readonly botId: string; readonly appId: string | null };

/** Where something was written: a channel, or the thread under the message with this `ts`. */
export type Spot = {
  readonly channel: string;
  readonly thread: string | null;
  /** A message of a thread that is shown in the channel as well. */
  readonly broadcast: boolean;
};

/** A message by somebody else, in Slack's own markup. */
export type Said = Spot & {
  readonly ts: string;
  readonly author: Author;
  /** The user, or the bot where there is none. */
  readonly by: string;
  /** What it calls itself, if it does; people are looked up. */
  readonly name: string | null;
  readonly text: string;
  readonly files: readonly SlackFile[];
  /** When it was last edited, as Slack counts. */
  readonly editedTs: string | null;
};

/** What an event of Slack means to Conch. */
export type SlackEvent =
  | { readonly kind: 'said'; readonly said: Said }
  | { readonly kind: 'edited'; readonly said: Said }
  | { readonly kind: 'deleted'; readonly at: Spot; readonly ts: string }
  /** Conch was taken out of the channel, or the channel is closed. */
  | { readonly kind: 'gone'; readonly channel: string; readonly why: string }
  | { readonly kind: 'again'; readonly channel: string }
  /** Slack's own Stop button. */
  | { readonly kind: 'stopped'; readonly at: Spot; readonly user: string }
  /** The app was removed or its tokens were taken back. */
  | { readonly kind: 'broken'; readonly why: string }
  /** Nothing that concerns a floor: our own echo, a notice, something unknown. */
  | { readonly kind: 'nothing' };

const fileSchema = z.looseObject({
  name: z.string().nullish(),
  title: z.string().nullish(),
  mimetype: z.string().nullish(),
  size: z.number().nullish(),
  url_private: z.string().nullish(),
  permalink: z.string().nullish(),
});

/** A file as Slack describes it. */
export type SlackFile = z.output<typeof fileSchema>;

const ts = z.string().regex(/^\d{1,15}\.\d{1,9}$/);
const id = z.string().min(1).max(64);

const messageSchema = z.looseObject({
  ts,
  channel: id.optional(),
  thread_ts: ts.nullish(),
  subtype: z.string().nullish(),
  user: id.nullish(),
  bot_id: id.nullish(),
  app_id: id.nullish(),
  bot_profile: z.looseObject({ app_id: z.string().nullish(), name: z.string().nullish() }).nullish(),
  username: z.string().nullish(),
  text: z.string().nullish(),
  attachments: z
    .array(z.looseObject({ text: z.string().nullish(), fallback: z.string().nullish() }))
    .nullish()
    .catch(null),
  files: z.array(fileSchema).nullish().catch(null),
  edited: z.looseObject({ ts }).nullish(),
  latest_reply: ts.nullish().catch(null),
  metadata: z.looseObject({ event_type: z.string().nullish() }).nullish().catch(null),
});
type SlackMessage = z.output<typeof messageSchema>;

const changedSchema = z.looseObject({
  channel: id,
  message: messageSchema,
  previous_message: messageSchema.nullish().catch(null),
});
const deletedSchema = z.looseObject({
  channel: id,
  deleted_ts: ts,
  previous_message: messageSchema.nullish().catch(null),
});
const typeSchema = z.looseObject({ type: z.string(), subtype: z.string().nullish() });
const memberSchema = z.looseObject({ user: id, channel: id });
const channelSchema = z.looseObject({
  channel: z.union([id, z.looseObject({ id }).transform((channel) => channel.id)]),
});
const stoppedSchema = z.looseObject({ user: id, channel: id, thread_ts: ts.nullish().catch(null) });
const revokedSchema = z.looseObject({ tokens: z.looseObject({ bot: z.array(z.string()).nullish() }) });

const NOTHING: SlackEvent = { kind: 'nothing' };

/** What the `event` of an Events API payload means; `null` when it has not the shape that Slack promises. */
export function parseEvent(event: unknown, self: Ourselves): SlackEvent | null {
  const typed = typeSchema.safeParse(event);
  if (!typed.success) return null;
  const read = READERS.get(typed.data.type);
  return read === undefined ? NOTHING : read(event, self, typed.data.subtype ?? null);
}

/** A message of the history of a channel; `null` for our own, for notices and for what has not the promised shape. */
export function parseMessage(channel: string, message: unknown, self: Ourselves): Said | null {
  const parsed = messageSchema.safeParse(message);
  if (!parsed.success || !SUBTYPES.has(parsed.data.subtype ?? '') || isOwn(parsed.data, self)) return null;
  return saidOf({ ...parsed.data, channel });
}

/** When a message of a history was written, and when the newest reply in the thread under it; `null` without a `ts`. */
export function timesIn(message: unknown): { readonly ts: string; readonly latestReply: string | null } | null {
  const parsed = messageSchema.safeParse(message);
  return parsed.success ? { ts: parsed.data.ts, latestReply: parsed.data.latest_reply ?? null } : null;
}

/** The instant that a `ts` names, in milliseconds since 1970. */
export function sentAt(slackTs: string): number {
  return Math.round(Number(slackTs) * 1_000);
}

type Reader = (event: unknown, self: Ourselves, subtype: string | null) => SlackEvent | null;

/** The subtypes that are messages of somebody; the rest are notices of Slack's. */
const SUBTYPES: ReadonlySet<string> = new Set(['', 'file_share', 'thread_broadcast', 'me_message', 'bot_message']);

const READERS: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ['message', posted],
  ['app_mention', written],
  ['member_left_channel', (event, self) => member(event, self, 'gone')],
  ['member_joined_channel', (event, self) => member(event, self, 'again')],
  ['channel_left', (event) => closed(event, 'Conch is no longer in it')],
  ['group_left', (event) => closed(event, 'Conch is no longer in it')],
  ['channel_archive', (event) => closed(event, 'it was archived')],
  ['group_archive', (event) => closed(event, 'it was archived')],
  ['channel_deleted', (event) => closed(event, 'it was deleted')],
  ['group_deleted', (event) => closed(event, 'it was deleted')],
  ['channel_unarchive', opened],
  ['group_unarchive', opened],
  ['agent_session_stopped', stopped],
  ['app_uninstalled', () => ({ kind: 'broken', why: 'The app was removed from the workspace' })],
  ['tokens_revoked', revoked],
]);

function posted(event: unknown, self: Ourselves, subtype: string | null): SlackEvent | null {
  if (subtype === 'message_changed') return changed(event, self);
  if (subtype === 'message_deleted') return deleted(event, self);
  return SUBTYPES.has(subtype ?? '') ? written(event, self) : NOTHING;
}

function written(event: unknown, self: Ourselves): SlackEvent | null {
  const parsed = messageSchema.safeParse(event);
  if (!parsed.success || parsed.data.channel === undefined) return null;
  if (isOwn(parsed.data, self)) return NOTHING;
  const said = saidOf({ ...parsed.data, channel: parsed.data.channel });
  return said === null ? null : { kind: 'said', said };
}

/** Only another text is an edit: previews of links and reply counts come as changes as well. */
function changed(event: unknown, self: Ourselves): SlackEvent | null {
  const parsed = changedSchema.safeParse(event);
  if (!parsed.success) return null;
  const { channel, message, previous_message: before } = parsed.data;
  if (isOwn(message, self) || (before && isOwn(before, self))) return NOTHING;
  const at = spotOf({ ...message, channel });
  if (message.subtype === 'tombstone') return { kind: 'deleted', at, ts: message.ts };
  if (!message.edited || (before && before.text === message.text) || !SUBTYPES.has(message.subtype ?? '')) {
    return NOTHING;
  }
  const said = saidOf({ ...message, channel });
  return said === null ? null : { kind: 'edited', said };
}

function deleted(event: unknown, self: Ourselves): SlackEvent | null {
  const parsed = deletedSchema.safeParse(event);
  if (!parsed.success) return null;
  const { channel, deleted_ts: gone, previous_message: before } = parsed.data;
  if (before && isOwn(before, self)) return NOTHING;
  return { kind: 'deleted', at: spotOf({ ts: gone, ...before, channel }), ts: gone };
}

function member(event: unknown, self: Ourselves, kind: 'gone' | 'again'): SlackEvent | null {
  const parsed = memberSchema.safeParse(event);
  if (!parsed.success) return null;
  const { user, channel } = parsed.data;
  if (user !== self.userId) return NOTHING;
  return kind === 'gone' ? { kind, channel, why: 'Conch is no longer in it' } : { kind, channel };
}

function closed(event: unknown, why: string): SlackEvent | null {
  const parsed = channelSchema.safeParse(event);
  return parsed.success ? { kind: 'gone', channel: parsed.data.channel, why } : null;
}

function opened(event: unknown): SlackEvent | null {
  const parsed = channelSchema.safeParse(event);
  return parsed.success ? { kind: 'again', channel: parsed.data.channel } : null;
}

function stopped(event: unknown): SlackEvent | null {
  const parsed = stoppedSchema.safeParse(event);
  if (!parsed.success) return null;
  const { user, channel, thread_ts: thread } = parsed.data;
  return { kind: 'stopped', user, at: { channel, thread: thread ?? null, broadcast: false } };
}

function revoked(event: unknown): SlackEvent | null {
  const parsed = revokedSchema.safeParse(event);
  if (!parsed.success) return null;
  const isOurs = (parsed.data.tokens.bot ?? []).length > 0;
  return isOurs ? { kind: 'broken', why: 'The bot token of the app was taken back' } : NOTHING;
}

/** Metadata can be written by any app: it tells only where nothing else does. */
function isOwn(message: SlackMessage, self: Ourselves): boolean {
  const { user, bot_id: bot } = message;
  const app = message.app_id ?? message.bot_profile?.app_id ?? null;
  if (user === self.userId || bot === self.botId || (app !== null && app === self.appId)) return true;
  const isAnonymous = !user && !bot && app === null;
  return isAnonymous && (message.metadata?.event_type ?? '').startsWith('conch_');
}

function saidOf(message: SlackMessage & { readonly channel: string }): Said | null {
  const { user, bot_id: bot } = message;
  const by = user ?? bot ?? (message.subtype === 'bot_message' ? 'webhook' : null);
  if (by === null) return null;
  return {
    ...spotOf(message),
    ts: message.ts,
    author: authorOf(message),
    by,
    name: message.username ?? message.bot_profile?.name ?? null,
    text: textOf(message),
    files: message.files ?? [],
    editedTs: message.edited?.ts ?? null,
  };
}

/** A program that posts with a person's token has both ids: it is a program. */
function authorOf({ user, bot_id: bot, subtype }: SlackMessage): Author {
  if (!bot && subtype !== 'bot_message') return 'person';
  return user ? 'bot' : 'webhook';
}

/** What was passed on from elsewhere stands in attachments, with no text of its own. */
function textOf({ text, attachments }: SlackMessage): string {
  if (text) return text;
  const lines = (attachments ?? []).map((attachment) => attachment.text ?? attachment.fallback ?? '');
  return lines.filter((line) => line !== '').join('\n');
}

type Placed = Pick<SlackMessage, 'ts' | 'thread_ts' | 'subtype'> & { readonly channel: string };

function spotOf({ channel, ts: own, thread_ts: thread, subtype }: Placed): Spot {
  const isReply = thread !== undefined && thread !== null && thread !== own;
  return { channel, thread: isReply ? thread : null, broadcast: isReply && subtype === 'thread_broadcast' };
}
