import { PermissionFlagsBits } from 'discord.js';
import { guildOf } from './state-permissions.ts';
import type { Attachment, Channel, Json, Member, Message, Role, Sight, User, Webhook, World } from './state.ts';

/** Returns whether a channel is a thread. */
export function isThread(channel: Channel): boolean {
  return channel.parent !== null && [10, 11, 12].includes(channel.type);
}

export function wireUser(user: User): Json {
  return {
    id: user.id,
    username: user.name,
    discriminator: user.bot ? '0001' : '0',
    global_name: user.globalName,
    avatar: null,
    bot: user.bot,
    system: false,
    public_flags: 0,
    flags: 0,
  };
}

export function wireRole(role: Role): Json {
  return {
    id: role.id,
    name: role.name,
    color: role.color ?? 0,
    colors: { primary_color: 0, secondary_color: null, tertiary_color: null },
    hoist: false,
    icon: null,
    unicode_emoji: null,
    position: role.position,
    permissions: role.permissions.toString(),
    managed: false,
    mentionable: role.mentionable,
    flags: 0,
  };
}

export function wireMember(world: World, member: Member, withUser = true): Json {
  const user = world.users.get(member.user);
  return {
    ...(withUser && user !== undefined ? { user: wireUser(user) } : {}),
    nick: member.nick,
    avatar: null,
    banner: null,
    roles: member.roles,
    joined_at: new Date(member.joinedAt).toISOString(),
    premium_since: null,
    deaf: false,
    mute: false,
    flags: 0,
    pending: false,
    communication_disabled_until: null,
  };
}

export function wireChannel(channel: Channel): Json {
  const common = {
    id: channel.id,
    guild_id: channel.guild,
    type: channel.type,
    name: channel.name,
    parent_id: channel.parent,
    last_message_id: channel.lastMessage,
    rate_limit_per_user: 0,
    flags: 0,
  };
  if (!isThread(channel)) {
    const permission_overwrites = channel.overwrites.map(({ id, type, allow, deny }) => ({
      id,
      type,
      allow: allow.toString(),
      deny: deny.toString(),
    }));
    return { ...common, position: 0, topic: null, nsfw: false, permission_overwrites };
  }
  return {
    ...common,
    owner_id: channel.owner,
    message_count: channel.messages.length,
    total_message_sent: channel.messages.length,
    member_count: 1,
    thread_metadata: {
      archived: channel.archived,
      auto_archive_duration: 1440,
      archive_timestamp: new Date(channel.archivedAt).toISOString(),
      locked: channel.locked,
      create_timestamp: new Date(channel.archivedAt).toISOString(),
    },
  };
}

export function wireWebhook(world: World, webhook: Webhook): Json {
  const creator = world.users.get(webhook.creator);
  return {
    id: webhook.id,
    type: 1,
    guild_id: webhook.guild,
    channel_id: webhook.channel,
    name: webhook.name,
    avatar: null,
    application_id: webhook.application,
    ...(creator === undefined ? {} : { user: wireUser(creator) }),
    // Shows the tokens of webhooks that a person or this bot created, and not those of other programs.
    ...(webhook.application === null || webhook.application === world.application ? { token: webhook.token } : {}),
    url: `${world.origin}/api/webhooks/${webhook.id}/${webhook.token}`,
  };
}

export function wireAttachment(attachment: Attachment): Json {
  return {
    id: attachment.id,
    filename: attachment.name,
    size: attachment.size,
    url: attachment.url,
    proxy_url: attachment.url,
    content_type: attachment.type,
  };
}

/** Returns a message as a program sees it. `nested` leaves out the message that it replies to. */
export function wireMessage(world: World, message: Message, sight: Sight, nested = false): Json {
  const mine = message.author === world.bot.id || message.webhook?.application === world.application;
  const seen = sight.content || mine || message.mentions.users.includes(world.bot.id);
  return {
    id: message.id,
    channel_id: message.channel,
    type: message.type,
    author: wireAuthor(world, message),
    content: seen ? message.content : '',
    timestamp: new Date(message.at).toISOString(),
    edited_timestamp: message.editedAt === null ? null : new Date(message.editedAt).toISOString(),
    tts: false,
    mention_everyone: message.mentions.everyone,
    mentions: message.mentions.users.flatMap((id) => {
      const user = world.users.get(id);
      return user === undefined ? [] : [wireUser(user)];
    }),
    mention_roles: message.mentions.roles,
    attachments: seen ? message.attachments.map(wireAttachment) : [],
    embeds: seen ? message.embeds : [],
    components: seen ? message.components : [],
    pinned: message.pinned,
    flags: message.flags,
    ...reactionsOf(world, message),
    ...(message.nonce === null ? {} : { nonce: message.nonce }),
    ...(message.webhook === null ? {} : webhookOf(message)),
    ...(nested ? {} : replyOf(world, message, sight)),
    ...(message.thread === null ? {} : threadOf(world, message.thread)),
  };
}

/** Returns a message as the gateway sends it, with its guild and its author's membership. */
export function gatewayMessage(world: World, message: Message, sight: Sight): Json {
  const channel = world.channels.get(message.channel);
  if (channel === undefined) return wireMessage(world, message, sight);
  const member = guildOf(world, channel).members.get(message.author);
  return {
    ...wireMessage(world, message, sight),
    guild_id: channel.guild,
    ...(message.webhook === null && member !== undefined ? { member: wireMember(world, member, false) } : {}),
  };
}

/** Returns the names of permissions, for tests that print them. */
export function permissionNames(bits: bigint): readonly string[] {
  return Object.entries(PermissionFlagsBits).flatMap(([name, bit]) => ((bits & bit) === 0n ? [] : [name]));
}

function wireAuthor(world: World, message: Message): Json {
  if (message.webhook === null) {
    const user = world.users.get(message.author);
    return user === undefined
      ? { id: message.author, username: 'Deleted User', discriminator: '0', avatar: null }
      : wireUser(user);
  }
  if (message.author === world.bot.id) return wireUser(world.bot);
  return {
    id: message.author,
    bot: true,
    username: message.webhook.name,
    discriminator: '0000',
    avatar: null,
    global_name: null,
    public_flags: 0,
    flags: 0,
  };
}

function webhookOf(message: Message): Json {
  const application = message.webhook?.application ?? null;
  return { webhook_id: message.author, ...(application === null ? {} : { application_id: application }) };
}

function threadOf(world: World, id: string): Json {
  const thread = world.channels.get(id);
  return thread === undefined ? {} : { thread: wireChannel(thread) };
}

function replyOf(world: World, message: Message, sight: Sight): Json {
  if (message.replyTo === null) return {};
  const here = world.channels.get(message.channel);
  // A thread's first message refers to the message that the thread was opened on, in the parent channel.
  const channel = message.replyTo === here?.id ? world.channels.get(here.parent ?? '') : here;
  const first = channel?.messages.find(({ id }) => id === message.replyTo);
  return {
    message_reference: { type: 0, message_id: message.replyTo, channel_id: channel?.id, guild_id: channel?.guild },
    referenced_message: first === undefined ? null : wireMessage(world, first, sight, true),
  };
}

function reactionsOf(world: World, message: Message): Json {
  if (message.reactions.size === 0) return {};
  const reactions = [...message.reactions].map(([emoji, users]) => ({
    count: users.length,
    count_details: { burst: 0, normal: users.length },
    me: users.includes(world.bot.id),
    me_burst: false,
    burst_colors: [],
    emoji: wireEmoji(emoji),
  }));
  return { reactions };
}

/** Returns the emoji object for a Unicode emoji, or for "name:id", an emoji of a guild. */
export function wireEmoji(emoji: string): Json {
  const [name, id] = emoji.split(':');
  return { id: id ?? null, name: name ?? null };
}
