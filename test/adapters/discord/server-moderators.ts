import { randomBytes } from 'node:crypto';
import { ChannelType, GatewayIntentBits, PermissionFlagsBits } from 'discord.js';
import { addRole } from './rest-guild.ts';
import { addWebhook, dropWebhook } from './rest-webhooks.ts';
import { join, userOf } from './server-people.ts';
import { permissionsIn } from './server-view.ts';
import { setThread } from './state-messages.ts';
import { wireGuild } from './state-wire-guild.ts';
import { wireChannel, wireMember } from './state-wire.ts';
import { addChannel, addGuild, must } from './state.ts';
import type { Channel, Guild, Webhook, World } from './state.ts';

export type PermissionName = keyof typeof PermissionFlagsBits;

/** Actions of owners and moderators in the guild, and changes that Discord makes. */
export function moderators(world: World, home: Guild) {
  const place = (id: string) => must(world.channels.get(id), `channel ${id}`);
  const guildAt = (id: string) => must(world.guilds.get(id), `guild ${id}`);
  return {
    /** Adds a text channel; returns its id. */
    addChannel(name: string, guild: string = home.id): string {
      const channel = addChannel(world, { guild, name });
      tellChannel(world, channel, 'CHANNEL_CREATE');
      return channel.id;
    },
    /** Invites the bot to another guild with one channel. */
    addGuild(name: string): { readonly guild: string; readonly channel: string } {
      const guild = addGuild(world, name);
      const channel = addChannel(world, { guild: guild.id, name: 'general' });
      tellGuild(world, guild);
      return { guild: guild.id, channel: channel.id };
    },
    /** Deletes a channel or thread, with its messages, threads and webhooks. */
    deleteChannel(id: string): void {
      const channel = place(id);
      for (const thread of [...world.channels.values()].filter(({ parent }) => parent === id))
        world.channels.delete(thread.id);
      for (const webhook of [...world.webhooks.values()].filter((one) => one.channel === id))
        world.webhooks.delete(webhook.id);
      const told = { ...wireChannel(channel) };
      tellChannel(world, channel, channel.type === ChannelType.PublicThread ? 'THREAD_DELETE' : 'CHANNEL_DELETE', told);
      world.channels.delete(id);
    },
    archiveThread: (thread: string, on = true): void => setThread(world, place(thread), { archived: on }),
    lockThread: (thread: string, on = true): void => setThread(world, place(thread), { locked: on, archived: on }),
    /** Removes the bot from a guild. */
    kickBot(guild: string = home.id): void {
      const one = guildAt(guild);
      one.joined = false;
      world.tell({ t: 'GUILD_DELETE', intent: GatewayIntentBits.Guilds, guild, render: () => ({ id: guild }) });
    },
    /** Adds the bot to the guild again. */
    inviteBot(guild: string = home.id): void {
      guildAt(guild).joined = true;
      tellGuild(world, guildAt(guild));
    },
    /** Makes the guild unavailable, or available again. The bot stays a member. */
    outage(on: boolean, guild: string = home.id): void {
      const told = { id: guild, unavailable: true };
      if (on) world.tell({ t: 'GUILD_DELETE', intent: GatewayIntentBits.Guilds, guild, render: () => told });
      else tellGuild(world, guildAt(guild));
    },
    /** Allows or denies the bot a permission in one channel, regardless of its role. `null` removes the overwrite. */
    permit(channel: string, permission: PermissionName, to: 'allow' | 'deny' | null): void {
      overwrite(world, place(channel), { permission, to });
    },
    /** Moves a webhook to another channel, as people can in the webhook's settings. */
    moveWebhook: (id: string, channel: string): unknown =>
      world.webhooks.set(id, { ...must(world.webhooks.get(id), 'webhook'), channel }),
    /** Denies the bot READ_MESSAGE_HISTORY in one channel. Message lists are then empty, without an error. */
    hideHistory(channel: string, on = true): void {
      overwrite(world, place(channel), { permission: 'ReadMessageHistory', to: on ? 'deny' : null });
    },
    /** Returns the names of the bot's permissions in a channel. */
    permissions: (channel: string): readonly string[] => permissionsIn(world, place(channel), world.bot.id),
    /** Adds a role for people; returns its id. */
    role(
      name: string,
      how: { readonly permissions?: readonly PermissionName[]; readonly mentionable?: boolean } = {},
    ): string {
      const permissions = (how.permissions ?? []).reduce((all, one) => all | PermissionFlagsBits[one], 0n);
      return addRole(world, home, { name, permissions, mentionable: how.mentionable ?? false }).id;
    },
    renameRole: (id: string, name: string): unknown => Object.assign(must(home.roles.get(id), 'role'), { name }),
    giveRole: (user: string, role: string): void =>
      setRoles(world, home, { user, change: (roles) => [...new Set([...roles, role])] }),
    takeRole: (user: string, role: string): void =>
      setRoles(world, home, { user, change: (roles) => roles.filter((one) => one !== role) }),
    /** Returns the ids of the guild's roles by name. */
    roles: (): Readonly<Record<string, string>> =>
      Object.fromEntries([...home.roles.values()].map(({ name, id }) => [name, id])),
    /** Creates a webhook as a person does for another program; returns its id. */
    foreignWebhook: (channel: string, name: string): string =>
      addWebhook(world, place(channel), { name, application: null, creator: home.owner }).id,
    webhooks: (channel: string): readonly Webhook[] =>
      [...world.webhooks.values()].filter((one) => one.channel === channel),
    deleteWebhook: (id: string): void => dropWebhook(world, must(world.webhooks.get(id), 'webhook')),
    /** Changes the webhook's token. */
    rotateWebhook(id: string): void {
      must(world.webhooks.get(id), 'webhook').token = randomBytes(34).toString('base64url');
    },
    /** Forgets all nonces, as Discord does after some minutes. */
    forgetNonces: (): void => world.nonces.clear(),
  };
}

function overwrite(
  world: World,
  channel: Channel,
  how: { readonly permission: PermissionName; readonly to: 'allow' | 'deny' | null },
): void {
  const bit = PermissionFlagsBits[how.permission];
  const known = channel.overwrites.find(({ id }) => id === world.bot.id);
  const own = known ?? { id: world.bot.id, type: 1, allow: 0n, deny: 0n };
  own.allow = how.to === 'allow' ? own.allow | bit : own.allow & ~bit;
  own.deny = how.to === 'deny' ? own.deny | bit : own.deny & ~bit;
  if (known === undefined) channel.overwrites.push(own);
  const wire = wireChannel(channel);
  // Without `channel`: the bot receives this event even when it can no longer view the channel.
  world.tell({ t: 'CHANNEL_UPDATE', intent: GatewayIntentBits.Guilds, guild: channel.guild, render: () => wire });
}

function setRoles(
  world: World,
  guild: Guild,
  how: { readonly user: string; readonly change: (roles: readonly string[]) => string[] },
): void {
  const user = userOf(world, how.user, false);
  const channel = [...world.channels.values()].find((one) => one.guild === guild.id);
  if (channel !== undefined) join(world, channel, user);
  const member = must(guild.members.get(user.id), 'member');
  member.roles = how.change(member.roles);
  const told = { guild_id: guild.id, ...wireMember(world, member) };
  world.tell({ t: 'GUILD_MEMBER_UPDATE', intent: GatewayIntentBits.GuildMembers, guild: guild.id, render: () => told });
}

function tellChannel(world: World, channel: Channel, t: string, told: unknown = wireChannel(channel)): void {
  world.tell({ t, intent: GatewayIntentBits.Guilds, guild: channel.guild, channel: channel.id, render: () => told });
}

function tellGuild(world: World, guild: Guild): void {
  const wire = wireGuild(world, guild);
  world.tell({ t: 'GUILD_CREATE', intent: GatewayIntentBits.Guilds, guild: guild.id, render: () => wire });
}
