import { ChannelType, GatewayIntentBits, PermissionFlagsBits } from 'discord.js';
import { z } from 'zod';
import { checked } from './rest-body.ts';
import { Refusal, refusals } from './rest-errors.ts';
import { NOTHING, can, channelAt, messageAt, need, needVoice, ok, param } from './rest-route.ts';
import type { Call, Reply, Route } from './rest-route.ts';
import { clearReactions, post, react, setThread, update } from './state-messages.ts';
import { isThread, wireChannel, wireMember, wireMessage, wireUser } from './state-wire.ts';
import { addChannel, must } from './state.ts';
import type { Channel, Message, World } from './state.ts';

const { AddReactions, ManageMessages, ReadMessageHistory, ManageThreads, ManageChannels, PinMessages } =
  PermissionFlagsBits;
const CHANNEL = '/channels/:channel';
const MESSAGE = `${CHANNEL}/messages/:message`;
const REACTIONS = `${MESSAGE}/reactions`;
const MAX_REACTIONS = 20;
const PINNED = 6;
const THREAD_CREATED = 18;
const THREAD_STARTER = 21;

export const channelRoutes: readonly Route[] = [
  { method: 'GET', pattern: CHANNEL, act: (call) => ok(wireChannel(channelAt(call))) },
  { method: 'PATCH', pattern: CHANNEL, act: change },
  { method: 'POST', pattern: `${CHANNEL}/typing`, act: typing },
  { method: 'PUT', pattern: `${REACTIONS}/:emoji/@me`, act: addReaction },
  { method: 'DELETE', pattern: `${REACTIONS}/:emoji/@me`, act: takeReaction },
  { method: 'DELETE', pattern: `${REACTIONS}/:emoji/:user`, act: takeReaction },
  { method: 'DELETE', pattern: `${REACTIONS}/:emoji`, act: clear },
  { method: 'DELETE', pattern: REACTIONS, act: clear },
  { method: 'GET', pattern: `${REACTIONS}/:emoji`, act: whoReacted },
  { method: 'GET', pattern: `${CHANNEL}/messages/pins`, act: pins },
  { method: 'PUT', pattern: `${CHANNEL}/messages/pins/:message`, act: (call) => pin(call, true) },
  { method: 'DELETE', pattern: `${CHANNEL}/messages/pins/:message`, act: (call) => pin(call, false) },
  { method: 'GET', pattern: `${CHANNEL}/pins`, act: oldPins },
  { method: 'PUT', pattern: `${CHANNEL}/pins/:message`, act: (call) => pin(call, true) },
  { method: 'DELETE', pattern: `${CHANNEL}/pins/:message`, act: (call) => pin(call, false) },
  { method: 'POST', pattern: `${CHANNEL}/threads`, act: startThread },
  { method: 'GET', pattern: `${CHANNEL}/threads/archived/public`, act: archivedThreads },
  { method: 'POST', pattern: `${MESSAGE}/threads`, act: startThread },
  { method: 'PUT', pattern: `${CHANNEL}/thread-members/@me`, act: (call) => joined(channelAt(call)) },
];

/** Opens a thread and sends its event. A thread on a message has that message's id. */
export function openThread(
  world: World,
  parent: Channel,
  how: { readonly name: string; readonly owner: string; readonly on?: Message | undefined },
): Channel {
  const { name, owner, on } = how;
  const type = ChannelType.PublicThread;
  const thread = addChannel(world, {
    guild: parent.guild,
    name,
    type,
    parent: parent.id,
    owner,
    ...(on === undefined ? {} : { id: on.id }),
  });
  const wire = { ...wireChannel(thread), newly_created: true };
  world.tell({
    guild: parent.guild,
    channel: thread.id,
    intent: GatewayIntentBits.Guilds,
    t: 'THREAD_CREATE',
    render: () => wire,
  });
  if (on === undefined) {
    post(world, parent, { author: owner, text: name, type: THREAD_CREATED });
  } else {
    on.thread = thread.id;
    update(world, parent, on);
    post(world, thread, { author: owner, text: '', type: THREAD_STARTER, replyTo: on.id });
  }
  return thread;
}

/** Lists the archived threads of a channel, last archived first. */
function archivedThreads(call: Call): Reply {
  const { world } = call;
  const { id } = channelAt(call);
  need(world, channelAt(call), ReadMessageHistory);
  const threads = [...world.channels.values()]
    .filter((thread) => isThread(thread) && thread.parent === id && thread.archived)
    .toSorted((one, other) => other.archivedAt - one.archivedAt);
  return ok({ threads: threads.map(wireChannel), members: [], has_more: false });
}

const channelChange = z.looseObject({
  name: z.string().optional(),
  archived: z.boolean().optional(),
  locked: z.boolean().optional(),
});

function change(call: Call): Reply {
  const { world, body } = call;
  const channel = channelAt(call);
  const wanted = checked(channelChange, body.json);
  const own = isThread(channel) && channel.owner === world.bot.id && wanted.locked === undefined;
  if (!own) need(world, channel, isThread(channel) ? ManageThreads : ManageChannels);
  channel.name = wanted.name ?? channel.name;
  if (isThread(channel)) {
    setThread(world, channel, wanted);
  } else {
    const wire = wireChannel(channel);
    world.tell({
      guild: channel.guild,
      channel: channel.id,
      intent: GatewayIntentBits.Guilds,
      t: 'CHANNEL_UPDATE',
      render: () => wire,
    });
  }
  return ok(wireChannel(channel));
}

function typing(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  needVoice(world, channel, { files: false, embeds: false });
  const member = must(world.guilds.get(channel.guild)?.members.get(world.bot.id), 'member');
  const told = {
    channel_id: channel.id,
    guild_id: channel.guild,
    user_id: world.bot.id,
    timestamp: Math.floor(world.now() / 1000),
    member: wireMember(world, member),
  };
  const where = { guild: channel.guild, channel: channel.id, intent: GatewayIntentBits.GuildMessageTyping };
  world.tell({ ...where, t: 'TYPING_START', render: () => told });
  return NOTHING;
}

function addReaction(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  need(world, channel, ReadMessageHistory);
  const message = messageAt(call, channel);
  const emoji = emojiAt(call);
  if (channel.archived) throw refusals.archived();
  if (!message.reactions.has(emoji)) {
    need(world, channel, AddReactions);
    if (message.reactions.size >= MAX_REACTIONS)
      throw new Refusal(400, 30_010, 'Maximum number of reactions reached (20)');
  }
  react(world, message, { user: world.bot.id, emoji, on: true });
  return NOTHING;
}

function takeReaction(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  const message = messageAt(call, channel);
  const user = call.params['user'] ?? world.bot.id;
  if (user !== world.bot.id) need(world, channel, ManageMessages);
  if (channel.archived) throw refusals.archived();
  react(world, message, { user, emoji: emojiAt(call), on: false });
  return NOTHING;
}

function clear(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  need(world, channel, ManageMessages);
  clearReactions(world, messageAt(call, channel), call.params['emoji'] === undefined ? null : emojiAt(call));
  return NOTHING;
}

function whoReacted(call: Call): Reply {
  const { world } = call;
  const message = messageAt(call, channelAt(call));
  const users = (message.reactions.get(emojiAt(call)) ?? []).flatMap((id) => world.users.get(id) ?? []);
  return ok(users.map(wireUser));
}

/** Returns the emoji in the path: a Unicode emoji or "name:id". Refuses plain words. */
function emojiAt(call: Call): string {
  const emoji = param(call, 'emoji');
  if (!/^\w+:\d+$/u.test(emoji) && !/\p{Extended_Pictographic}|\p{Regional_Indicator}|\u20E3/u.test(emoji))
    throw refusals.unknownEmoji();
  return emoji;
}

function pins(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  const items = channel.messages.filter(({ pinned }) => pinned).toReversed();
  const shown = items.map((message) => ({
    pinned_at: new Date(message.at).toISOString(),
    message: wireMessage(world, message, { content: world.options.messageContent }),
  }));
  return ok({ items: shown, has_more: false });
}

function oldPins(call: Call): Reply {
  const { world } = call;
  const items = channelAt(call)
    .messages.filter(({ pinned }) => pinned)
    .toReversed();
  return ok(items.map((message) => wireMessage(world, message, { content: world.options.messageContent })));
}

/** Pins or unpins a message. Needs its own permission since 2026. Pinning posts a notice in the channel. */
function pin(call: Call, on: boolean): Reply {
  const { world } = call;
  const channel = channelAt(call);
  need(world, channel, PinMessages);
  const message = messageAt(call, channel);
  if (message.pinned === on) return NOTHING;
  if (on && channel.messages.filter(({ pinned }) => pinned).length >= 250) {
    throw new Refusal(400, 30_003, 'Maximum number of pins reached (250)');
  }
  message.pinned = on;
  update(world, channel, message);
  const told = {
    channel_id: channel.id,
    guild_id: channel.guild,
    last_pin_timestamp: new Date(world.now()).toISOString(),
  };
  world.tell({
    guild: channel.guild,
    channel: channel.id,
    intent: GatewayIntentBits.Guilds,
    t: 'CHANNEL_PINS_UPDATE',
    render: () => told,
  });
  if (on) post(world, channel, { author: world.bot.id, text: '', type: PINNED });
  return NOTHING;
}

function startThread(call: Call): Reply {
  const { world, body } = call;
  const parent = channelAt(call);
  if (isThread(parent)) throw refusals.wrongChannelType();
  if (!can(world, parent, PermissionFlagsBits.CreatePublicThreads)) throw refusals.missingPermissions();
  const { name } = checked(z.looseObject({ name: z.string().min(1).max(100) }), body.json);
  const on = call.params['message'] === undefined ? undefined : messageAt(call, parent);
  if (on?.thread != null) throw new Refusal(400, 160_004, 'A thread has already been created for this message');
  return { status: 201, json: wireChannel(openThread(world, parent, { name, owner: world.bot.id, on })) };
}

function joined(channel: Channel): Reply {
  if (!isThread(channel)) throw refusals.wrongChannelType();
  return NOTHING;
}
