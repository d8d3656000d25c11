import { PermissionFlagsBits } from 'discord.js';
import { must } from './state.ts';
import type { Channel, Guild, World } from './state.ts';

const ALL = Object.values(PermissionFlagsBits).reduce((all, bit) => all | bit, 0n);

/** Returns the guild of a channel. */
export function guildOf(world: World, channel: Channel): Guild {
  return must(world.guilds.get(channel.guild), 'guild');
}

/** Returns a user's permissions in the whole guild; none for a non-member. */
export function guildPermissions(guild: Guild, user: string): bigint {
  const member = guild.members.get(user);
  if (member === undefined) return 0n;
  if (guild.owner === user) return ALL;
  const roles = [guild.id, ...member.roles].map((id) => guild.roles.get(id)?.permissions ?? 0n);
  const sum = roles.reduce((all, one) => all | one, 0n);
  return (sum & PermissionFlagsBits.Administrator) === 0n ? sum : ALL;
}

/** Returns a user's permissions in a channel or thread, with all overwrites; none when they cannot view it. */
export function channelPermissions(world: World, channel: Channel, user: string): bigint {
  const guild = guildOf(world, channel);
  const base = guildPermissions(guild, user);
  if (base === ALL || base === 0n) return base;
  const place = channel.parent === null ? channel : must(world.channels.get(channel.parent), 'parent channel');
  const roles = guild.members.get(user)?.roles ?? [];
  const everyone = place.overwrites.filter(({ id }) => id === guild.id);
  const ofRoles = place.overwrites.filter(({ id, type }) => type === 0 && roles.includes(id));
  const own = place.overwrites.filter(({ id, type }) => type === 1 && id === user);
  const result = [everyone, ofRoles, own].reduce((permissions, layer) => {
    const deny = layer.reduce((all, one) => all | one.deny, 0n);
    const allow = layer.reduce((all, one) => all | one.allow, 0n);
    return (permissions & ~deny) | allow;
  }, base);
  return (result & PermissionFlagsBits.ViewChannel) === 0n ? 0n : result;
}

/** Returns whether a member has a permission in a channel. */
export function may(
  world: World,
  channel: Channel,
  who: { readonly user: string; readonly permission: bigint },
): boolean {
  return (channelPermissions(world, channel, who.user) & who.permission) === who.permission;
}
