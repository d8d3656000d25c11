import { PermissionFlagsBits } from 'discord.js';
import { refusals } from './rest-errors.ts';
import type { Body } from './rest-body.ts';
import { find } from './state-messages.ts';
import { channelPermissions, guildOf } from './state-permissions.ts';
import { isThread } from './state-wire.ts';
import type { Channel, Guild, Message, Sight, World } from './state.ts';

/** A request that matched a route. */
export type Call = {
  readonly world: World;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Body;
};

export type Reply = { readonly status: number; readonly json?: unknown };

export type Route = {
  readonly method: string;
  /** The path, for example "/channels/:channel/messages". */
  readonly pattern: string;
  /** True for a route without the bot's token. Most of these URLs hold a secret instead. */
  readonly open?: boolean;
  readonly act: (call: Call) => Reply;
};

export const NOTHING: Reply = { status: 204 };

export function ok(json: unknown): Reply {
  return { status: 200, json };
}

/** Returns a part of the path by its name in the pattern. */
export function param(call: Call, name: string): string {
  return call.params[name] ?? '';
}

/** Returns whether REST shows message content. The application's intent decides, not the gateway session. */
export function restSight(world: World): Sight {
  return { content: world.options.messageContent };
}

/** Returns the channel in the path. Refuses an unknown channel and a channel that the bot cannot view. */
export function channelAt(call: Call, name = 'channel'): Channel {
  const { world } = call;
  const channel = world.channels.get(param(call, name));
  if (channel === undefined) throw refusals.unknownChannel();
  if (!guildOf(world, channel).joined || channelPermissions(world, channel, world.bot.id) === 0n)
    throw refusals.missingAccess();
  return channel;
}

/** Returns the guild in the path. Refuses a guild that the bot has not joined. */
export function guildAt(call: Call): Guild {
  const guild = call.world.guilds.get(param(call, 'guild'));
  if (guild === undefined || !guild.joined) throw refusals.unknownGuild();
  return guild;
}

export function messageAt(call: Call, channel: Channel): Message {
  const message = find(channel, param(call, 'message'));
  if (message === undefined) throw refusals.unknownMessage();
  return message;
}

/** Refuses when the bot lacks the permission in the channel. */
export function need(world: World, channel: Channel, permission: bigint): void {
  if (!can(world, channel, permission)) throw refusals.missingPermissions();
}

export function can(world: World, channel: Channel, permission: bigint): boolean {
  return (channelPermissions(world, channel, world.bot.id) & permission) === permission;
}

/** Refuses when the bot may not post in the channel, or may not send the wanted files or embeds. */
export function needVoice(
  world: World,
  channel: Channel,
  wants: { readonly files: boolean; readonly embeds: boolean },
): void {
  const { SendMessages, SendMessagesInThreads, ManageThreads, AttachFiles, EmbedLinks } = PermissionFlagsBits;
  need(world, channel, isThread(channel) ? SendMessagesInThreads : SendMessages);
  if (channel.locked && !can(world, channel, ManageThreads)) throw refusals.locked();
  if (wants.files) need(world, channel, AttachFiles);
  if (wants.embeds) need(world, channel, EmbedLinks);
}
