import { GatewayIntentBits } from 'discord.js';
import { NO_PINGS, both, mentioned, withoutCode } from './state-mentions.ts';
import type { AllowedMentions, Voice } from './state-mentions.ts';
import { gatewayMessage, isThread, wireChannel, wireEmoji, wireMember } from './state-wire.ts';
import { must } from './state.ts';
import type { Attachment, Channel, Event, Json, Message, Webhook, World } from './state.ts';

/** A message to write. The caller checks permissions and limits. */
export type Draft = {
  readonly author: string;
  readonly text: string;
  readonly as?: { readonly hook: Webhook; readonly name: string; readonly avatar: string | null };
  readonly type?: number;
  readonly replyTo?: string | null;
  readonly nonce?: string | number | null;
  readonly embeds?: readonly Json[];
  readonly components?: readonly Json[];
  readonly attachments?: readonly Attachment[];
  readonly allowed?: AllowedMentions | undefined;
  readonly flags?: number;
  readonly interaction?: string | null;
};

/** A change of a message. Missing fields stay unchanged. */
export type Change = {
  readonly text?: string | undefined;
  readonly embeds?: readonly Json[] | undefined;
  readonly components?: readonly Json[] | undefined;
  readonly attachments?: readonly Attachment[] | undefined;
  readonly allowed?: AllowedMentions | undefined;
  readonly flags?: number | undefined;
};

const REPLY = 19;
const EPHEMERAL = 64;

/** Builds a message without sending an event. */
export function composed(world: World, channel: Channel, draft: Draft): Message {
  const replied = draft.replyTo == null ? undefined : find(channel, draft.replyTo);
  const voice: Voice = { user: draft.author, webhook: draft.as !== undefined };
  const repliedTo = (replied === undefined ? undefined : world.users.get(replied.author)) ?? null;
  const said = (text: string) => mentioned(world, channel, { text, allowed: draft.allowed, voice, repliedTo });
  const quiet = ((draft.flags ?? 0) & EPHEMERAL) !== 0;
  return {
    id: world.id(),
    channel: channel.id,
    author: draft.as?.hook.id ?? draft.author,
    webhook:
      draft.as === undefined
        ? draft.interaction == null
          ? null
          : { name: world.bot.name, avatar: null, application: world.application }
        : { name: draft.as.name, avatar: draft.as.avatar, application: draft.as.hook.application },
    type: draft.type ?? (draft.replyTo == null ? 0 : REPLY),
    at: world.now(),
    nonce: draft.nonce ?? null,
    replyTo: draft.replyTo ?? null,
    interaction: draft.interaction ?? null,
    content: draft.text.trim(),
    editedAt: null,
    embeds: draft.embeds ?? [],
    components: draft.components ?? [],
    attachments: draft.attachments ?? [],
    mentions: said(withoutCode(draft.text)),
    pings: quiet ? NO_PINGS : said(draft.text),
    flags: draft.flags ?? 0,
    pinned: false,
    thread: null,
    reactions: new Map(),
  };
}

/** Writes a message into a channel and sends its event. Reopens an archived thread. */
export function post(world: World, channel: Channel, draft: Draft): Message {
  const message = composed(world, channel, draft);
  if (isThread(channel) && channel.archived) setThread(world, channel, { archived: false });
  channel.messages.push(message);
  channel.lastMessage = message.id;
  world.tell({
    ...aboutMessages(channel),
    t: 'MESSAGE_CREATE',
    render: (sight) => gatewayMessage(world, message, sight),
  });
  return message;
}

/** Edits a message as its author and sends the event. */
export function edit(world: World, channel: Channel, message: Message, change: Change): void {
  applyChange(world, channel, message, change);
  message.editedAt = world.now();
  update(world, channel, message);
}

/** Changes a message without sending an event. */
export function applyChange(world: World, channel: Channel, message: Message, change: Change): void {
  const text = change.text?.trim() ?? message.content;
  const voice: Voice = { user: message.author, webhook: message.webhook !== null };
  const said = (words: string) =>
    mentioned(world, channel, { text: words, allowed: change.allowed, voice, repliedTo: null });
  message.content = text;
  message.embeds = change.embeds ?? message.embeds;
  message.components = change.components ?? message.components;
  message.attachments = change.attachments ?? message.attachments;
  message.flags = change.flags ?? message.flags;
  if (change.text === undefined) return;
  message.mentions = said(withoutCode(text));
  if ((message.flags & EPHEMERAL) === 0) message.pings = both(message.pings, said(text));
}

/** Sends the update event of a message: for an edit, a link preview, a pin or a thread. */
export function update(world: World, channel: Channel, message: Message): void {
  world.tell({
    ...aboutMessages(channel),
    t: 'MESSAGE_UPDATE',
    render: (sight) => gatewayMessage(world, message, sight),
  });
}

/** Deletes a message. */
export function remove(world: World, channel: Channel, message: Message): void {
  channel.messages.splice(channel.messages.indexOf(message), 1);
  const gone = { id: message.id, channel_id: channel.id, guild_id: channel.guild };
  world.tell({ ...aboutMessages(channel), t: 'MESSAGE_DELETE', render: () => gone });
}

/** Deletes several messages at once, as a moderator does. */
export function purge(world: World, channel: Channel, messages: readonly Message[]): void {
  for (const message of messages) channel.messages.splice(channel.messages.indexOf(message), 1);
  const gone = { ids: messages.map(({ id }) => id), channel_id: channel.id, guild_id: channel.guild };
  world.tell({ ...aboutMessages(channel), t: 'MESSAGE_DELETE_BULK', render: () => gone });
}

/** Adds or removes one reaction. No effect when the reaction exists, or is missing, already. */
export function react(
  world: World,
  message: Message,
  how: { readonly user: string; readonly emoji: string; readonly on: boolean },
): void {
  const channel = must(world.channels.get(message.channel), 'channel');
  const users = message.reactions.get(how.emoji) ?? [];
  if (users.includes(how.user) === how.on) return;
  const left = how.on ? [...users, how.user] : users.filter((one) => one !== how.user);
  if (left.length === 0) message.reactions.delete(how.emoji);
  else message.reactions.set(how.emoji, left);
  const member = world.guilds.get(channel.guild)?.members.get(how.user);
  const told = {
    user_id: how.user,
    channel_id: channel.id,
    message_id: message.id,
    guild_id: channel.guild,
    emoji: wireEmoji(how.emoji),
    burst: false,
    type: 0,
    ...(how.on && member !== undefined ? { member: wireMember(world, member), message_author_id: message.author } : {}),
  };
  const t = how.on ? 'MESSAGE_REACTION_ADD' : 'MESSAGE_REACTION_REMOVE';
  const where = { guild: channel.guild, channel: channel.id, intent: GatewayIntentBits.GuildMessageReactions };
  world.tell({ ...where, t, render: () => told });
}

/** Removes all reactions, or those of one emoji. */
export function clearReactions(world: World, message: Message, emoji: string | null): void {
  const channel = must(world.channels.get(message.channel), 'channel');
  if (emoji === null) message.reactions.clear();
  else message.reactions.delete(emoji);
  const told = { channel_id: channel.id, message_id: message.id, guild_id: channel.guild };
  const where = { guild: channel.guild, channel: channel.id, intent: GatewayIntentBits.GuildMessageReactions };
  if (emoji === null) world.tell({ ...where, t: 'MESSAGE_REACTION_REMOVE_ALL', render: () => told });
  else
    world.tell({ ...where, t: 'MESSAGE_REACTION_REMOVE_EMOJI', render: () => ({ ...told, emoji: wireEmoji(emoji) }) });
}

/** Archives, reopens, locks or unlocks a thread. */
export function setThread(
  world: World,
  thread: Channel,
  to: { readonly archived?: boolean | undefined; readonly locked?: boolean | undefined },
): void {
  thread.archived = to.archived ?? thread.archived;
  thread.locked = to.locked ?? thread.locked;
  thread.archivedAt = world.now();
  const wire = wireChannel(thread);
  world.tell({
    guild: thread.guild,
    channel: thread.id,
    intent: GatewayIntentBits.Guilds,
    t: 'THREAD_UPDATE',
    render: () => wire,
  });
}

export function find(channel: Channel, id: string): Message | undefined {
  return channel.messages.find((message) => message.id === id);
}

function aboutMessages(channel: Channel): Pick<Event, 'guild' | 'channel' | 'intent'> {
  return { guild: channel.guild, channel: channel.id, intent: GatewayIntentBits.GuildMessages };
}
