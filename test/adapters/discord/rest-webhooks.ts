import { randomBytes } from 'node:crypto';
import { GatewayIntentBits, PermissionFlagsBits } from 'discord.js';
import { z } from 'zod';
import { checked, checkedMessage, isEmpty, store } from './rest-body.ts';
import { invalid, refusals } from './rest-errors.ts';
import { changeOf, messageIn, shows } from './rest-messages.ts';
import { NOTHING, channelAt, guildAt, need, ok, param } from './rest-route.ts';
import type { Call, Reply, Route } from './rest-route.ts';
import { edit, post, remove } from './state-messages.ts';
import { guildPermissions } from './state-permissions.ts';
import { isThread, wireWebhook } from './state-wire.ts';
import { must } from './state.ts';
import type { Channel, Webhook, World } from './state.ts';

const MAX_WEBHOOKS = 15;
const OF_CHANNEL = '/channels/:channel/webhooks';
const WITH_TOKEN = '/webhooks/:webhook/:token';

export const webhookRoutes: readonly Route[] = [
  { method: 'POST', pattern: OF_CHANNEL, act: create },
  { method: 'GET', pattern: OF_CHANNEL, act: listOfChannel },
  { method: 'GET', pattern: '/guilds/:guild/webhooks', act: listOfGuild },
  { method: 'GET', pattern: '/webhooks/:webhook', act: get },
  { method: 'DELETE', pattern: '/webhooks/:webhook', act: destroy },
  { method: 'GET', pattern: WITH_TOKEN, open: true, act: (call) => ok(wireWebhook(call.world, known(call))) },
  { method: 'DELETE', pattern: WITH_TOKEN, open: true, act: (call) => gone(call.world, known(call)) },
  { method: 'POST', pattern: WITH_TOKEN, open: true, act: execute },
  { method: 'GET', pattern: `${WITH_TOKEN}/messages/:message`, open: true, act: getMessage },
  { method: 'PATCH', pattern: `${WITH_TOKEN}/messages/:message`, open: true, act: changeMessage },
  { method: 'DELETE', pattern: `${WITH_TOKEN}/messages/:message`, open: true, act: destroyMessage },
];

/** Creates a webhook and sends its event. `application` is `null` when a person creates it. */
export function addWebhook(
  world: World,
  channel: Channel,
  made: { readonly name: string; readonly application: string | null; readonly creator: string },
): Webhook {
  const webhook: Webhook = {
    id: world.id(),
    token: randomBytes(34).toString('base64url'),
    name: made.name,
    channel: channel.id,
    guild: channel.guild,
    application: made.application,
    creator: made.creator,
  };
  world.webhooks.set(webhook.id, webhook);
  tellChange(world, webhook);
  return webhook;
}

/** Deletes a webhook and sends its event. */
export function dropWebhook(world: World, webhook: Webhook): void {
  world.webhooks.delete(webhook.id);
  tellChange(world, webhook);
}

function create(call: Call): Reply {
  const { world, body } = call;
  const channel = channelAt(call);
  if (isThread(channel)) throw refusals.wrongChannelType();
  need(world, channel, PermissionFlagsBits.ManageWebhooks);
  const { name } = checked(z.looseObject({ name: z.string().trim().min(1).max(80) }), body.json);
  checkName('name', name);
  if (ofChannel(world, channel).length >= MAX_WEBHOOKS) throw refusals.tooManyWebhooks();
  const webhook = addWebhook(world, channel, { name, application: world.application, creator: world.bot.id });
  return ok(wireWebhook(world, webhook));
}

function listOfChannel(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  need(world, channel, PermissionFlagsBits.ManageWebhooks);
  return ok(ofChannel(world, channel).map((webhook) => wireWebhook(world, webhook)));
}

function listOfGuild(call: Call): Reply {
  const { world } = call;
  const guild = guildAt(call);
  if ((guildPermissions(guild, world.bot.id) & PermissionFlagsBits.ManageWebhooks) === 0n)
    throw refusals.missingPermissions();
  const all = [...world.webhooks.values()].filter((webhook) => webhook.guild === guild.id);
  return ok(all.map((webhook) => wireWebhook(world, webhook)));
}

function get(call: Call): Reply {
  const { world } = call;
  return ok(wireWebhook(world, managed(call)));
}

function destroy(call: Call): Reply {
  return gone(call.world, managed(call));
}

function gone(world: World, webhook: Webhook): Reply {
  dropWebhook(world, webhook);
  return NOTHING;
}

function execute(call: Call): Reply {
  const { world, body, query } = call;
  const webhook = known(call);
  const channel = target(call, webhook);
  const wanted = checkedMessage(body);
  if (wanted.username != null) checkName('username', wanted.username);
  if (isEmpty(wanted, body.files.length)) throw refusals.empty();
  const message = post(world, channel, {
    author: webhook.id,
    as: { hook: webhook, name: wanted.username ?? webhook.name, avatar: wanted.avatar_url ?? null },
    text: wanted.text ?? '',
    embeds: wanted.embeds ?? [],
    components: wanted.components ?? [],
    attachments: store(world, channel.id, body.files),
    allowed: wanted.allowed_mentions ?? undefined,
    flags: wanted.flags ?? 0,
  });
  return query.get('wait') === 'true' ? shows(world, message) : NOTHING;
}

function getMessage(call: Call): Reply {
  const webhook = known(call);
  return shows(call.world, messageIn(call, target(call, webhook), webhook.id));
}

function changeMessage(call: Call): Reply {
  const { world, body } = call;
  const webhook = known(call);
  const channel = target(call, webhook);
  const message = messageIn(call, channel, webhook.id);
  if (channel.archived) throw refusals.archived();
  edit(world, channel, message, changeOf(world, message, body));
  return shows(world, message);
}

function destroyMessage(call: Call): Reply {
  const webhook = known(call);
  const channel = target(call, webhook);
  remove(call.world, channel, messageIn(call, channel, webhook.id));
  return NOTHING;
}

/** Returns the webhook in the path. Refuses an unknown webhook and a wrong token. */
function known(call: Call): Webhook {
  const webhook = call.world.webhooks.get(param(call, 'webhook'));
  if (webhook === undefined) throw refusals.unknownWebhook();
  if (webhook.token !== param(call, 'token')) throw refusals.invalidWebhookToken();
  return webhook;
}

function managed(call: Call): Webhook {
  const { world } = call;
  const webhook = world.webhooks.get(param(call, 'webhook'));
  if (webhook === undefined) throw refusals.unknownWebhook();
  need(world, must(world.channels.get(webhook.channel), 'channel'), PermissionFlagsBits.ManageWebhooks);
  return webhook;
}

/** Returns the channel or thread in which a webhook posts. Refuses a locked thread or a thread elsewhere. */
function target(call: Call, webhook: Webhook): Channel {
  const { world, query } = call;
  const thread = query.get('thread_id');
  const channel = world.channels.get(thread ?? webhook.channel);
  if (channel === undefined) throw refusals.unknownChannel();
  if (thread !== null && channel.parent !== webhook.channel) throw refusals.unknownChannel();
  if (channel.locked) throw refusals.locked();
  return channel;
}

function checkName(field: string, name: string): void {
  const word = ['discord', 'clyde'].find((one) => name.toLowerCase().includes(one));
  if (word !== undefined) throw invalid(field, 'USERNAME_INVALID_CONTAINS', `Username cannot contain "${word}"`);
}

function ofChannel(world: World, channel: Channel): readonly Webhook[] {
  return [...world.webhooks.values()].filter((webhook) => webhook.channel === channel.id);
}

function tellChange(world: World, webhook: Webhook): void {
  const where = { guild: webhook.guild, channel: webhook.channel, intent: GatewayIntentBits.GuildWebhooks };
  const told = { guild_id: webhook.guild, channel_id: webhook.channel };
  world.tell({ ...where, t: 'WEBHOOKS_UPDATE', render: () => told });
}
