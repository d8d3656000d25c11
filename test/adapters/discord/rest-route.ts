import { PermissionFlagsBits } from 'discord.js';
import { refusals } from './rest-errors.ts';
import type { Body } from './rest-body.ts';
import { find } from './state-messages.ts';
import { channelPermissions, guildOf } from './state-permissions.ts';
import { isThread } from './state-wire.ts';
import type { Channel, Guild, Message, Sight, World } from './state.ts';

/** A request on its way to its route. */
export type Call = {
  readonly world: World;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Body;
};

export type Reply = { readonly status: number; readonly json?: unknown };

export type Route = {
  readonly method: string;
  /** "/channels/:channel/messages" */ readonly pattern: string;
  /** Works without the bot's token: the address itself is the secret. */ readonly open?: boolean;
  readonly act: (call: Call) => Reply;
};

export const NOTHING: Reply = { status: 204 };

export function ok(json: unknown): Reply {
  return { status: 200, json };
}

/** One part of the path by its name in the pattern. */
export function param(call: Call, name: string): string {
  return call.params[name] ?? '';
}

/** What REST shows of messages: by the application's privileged intent, whatever the gateway session asked for. */
export function restSight(world: World): Sight {
  return { content: world.options.messageContent };
}

/** The channel of the path, which the bot must be able to view. */
export function channelAt(call: Call, name = 'channel'): Channel {
  const { world } = call;
  const channel = world.channels.get(param(call, name));
  if (channel === undefined) throw refusals.unknownChannel();
  if (!guildOf(world, channel).joined || channelPermissions(world, channel, world.bot.id) === 0n)
    throw refusals.missingAccess();
  return channel;
}

/** The guild of the path, which the bot must have joined. */
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

/** Refuses unless the bot may do this in the channel. */
export function need(world: World, channel: Channel, permission: bigint): void {
  if (!can(world, channel, permission)) throw refusals.missingPermissions();
}

export function can(world: World, channel: Channel, permission: bigint): boolean {
  return (channelPermissions(world, channel, world.bot.id) & permission) === permission;
}

/** Refuses unless the bot may speak here, with files and embeds if there are any. */
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
