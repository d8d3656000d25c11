import { PermissionFlagsBits } from 'discord.js';
import { z } from 'zod';
import { checked, checkedMessage, isEmpty, store } from './rest-body.ts';
import type { Body, MessageBody } from './rest-body.ts';
import { Refusal, invalid, refusals } from './rest-errors.ts';
import { NOTHING, can, channelAt, messageAt, need, needVoice, ok, param, restSight } from './rest-route.ts';
import type { Call, Reply, Route } from './rest-route.ts';
import { edit, find, post, purge, remove } from './state-messages.ts';
import type { Change } from './state-messages.ts';
import { wireMessage } from './state-wire.ts';
import type { Attachment, Channel, Message, World } from './state.ts';

const PATH = '/channels/:channel/messages';

export const messageRoutes: readonly Route[] = [
  { method: 'GET', pattern: PATH, act: list },
  { method: 'POST', pattern: PATH, act: create },
  { method: 'GET', pattern: `${PATH}/:message`, act: get },
  { method: 'PATCH', pattern: `${PATH}/:message`, act: change },
  { method: 'DELETE', pattern: `${PATH}/:message`, act: destroy },
  { method: 'POST', pattern: `${PATH}/bulk-delete`, act: destroyMany },
];

/** Returns status 200 with the message as the bot sees it. */
export function shows(world: World, message: Message): Reply {
  return ok(wireMessage(world, message, restSight(world)));
}

/** Returns the change that an edit requests. `attachments` of the body lists files to keep; without it, all stay. */
export function changeOf(world: World, message: Message, body: Body): Change {
  const wanted = checkedMessage(body);
  const kept = wanted.attachments?.map(({ id }) => String(id));
  const added = store(world, message.channel, body.files);
  const attachments: readonly Attachment[] = [
    ...message.attachments.filter(({ id }) => kept === undefined || kept.includes(id)),
    ...added,
  ];
  return {
    text: wanted.text,
    embeds: wanted.embeds === null ? [] : wanted.embeds,
    components: wanted.components === null ? [] : wanted.components,
    attachments,
    allowed: wanted.allowed_mentions ?? undefined,
    flags: wanted.flags ?? undefined,
  };
}

function list(call: Call): Reply {
  const { world, query } = call;
  const channel = channelAt(call);
  const limit = Number(query.get('limit') ?? 50);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) {
    throw invalid('limit', 'NUMBER_TYPE_MAX', 'int value should be between 1 and 100.');
  }
  if (!can(world, channel, PermissionFlagsBits.ReadMessageHistory)) return ok([]);
  const picked = pick(channel.messages, query, limit);
  return ok(picked.toReversed().map((message) => wireMessage(world, message, restSight(world))));
}

/** Returns a snowflake of the query; `null` when absent. Refuses other text. */
function snowflake(query: URLSearchParams, key: string): bigint | null {
  const text = query.get(key);
  if (text !== null && !/^\d{1,20}$/u.test(text))
    throw invalid(key, 'NUMBER_TYPE_COERCE', `Value "${text}" is not snowflake.`);
  return text === null ? null : BigInt(text);
}

function pick(messages: readonly Message[], query: URLSearchParams, limit: number): readonly Message[] {
  const [after, before, around] = [snowflake(query, 'after'), snowflake(query, 'before'), snowflake(query, 'around')];
  if (after !== null) return messages.filter(({ id }) => BigInt(id) > after).slice(0, limit);
  if (before !== null) return messages.filter(({ id }) => BigInt(id) < before).slice(-limit);
  if (around === null) return messages.slice(-limit);
  const at = messages.findIndex(({ id }) => BigInt(id) >= around);
  const from = Math.max(0, (at === -1 ? messages.length : at) - Math.floor(limit / 2));
  return messages.slice(from, from + limit);
}

function create(call: Call): Reply {
  const { world, body } = call;
  const channel = channelAt(call);
  const wanted = checkedMessage(body);
  needVoice(world, channel, { files: body.files.length > 0, embeds: (wanted.embeds?.length ?? 0) > 0 });
  if (isEmpty(wanted, body.files.length)) throw refusals.empty();
  const key = wanted.nonce != null && wanted.enforce_nonce === true ? `${channel.id} ${wanted.nonce}` : null;
  const first = key === null ? undefined : world.nonces.get(key);
  if (first !== undefined && world.now() - first.at < world.options.nonceMs) {
    const message = find(channel, first.message);
    if (message === undefined) throw refusals.unknownMessage();
    return shows(world, message);
  }
  const message = post(world, channel, {
    author: world.bot.id,
    text: wanted.text ?? '',
    nonce: wanted.nonce ?? null,
    embeds: wanted.embeds ?? [],
    components: wanted.components ?? [],
    attachments: store(world, channel.id, body.files),
    allowed: wanted.allowed_mentions ?? undefined,
    flags: wanted.flags ?? 0,
    replyTo: replyOf(world, channel, wanted),
  });
  if (key !== null) world.nonces.set(key, { message: message.id, at: world.now() });
  return shows(world, message);
}

function replyOf(world: World, channel: Channel, wanted: MessageBody): string | null {
  const reference = wanted.message_reference;
  if (reference == null) return null;
  if (!can(world, channel, PermissionFlagsBits.ReadMessageHistory)) {
    throw new Refusal(400, 160_002, 'Cannot reply without permission to read message history');
  }
  if (find(channel, reference.message_id) !== undefined) return reference.message_id;
  if (reference.fail_if_not_exists === false) return null;
  throw invalid('message_reference', 'REPLIES_UNKNOWN_MESSAGE', 'Unknown message');
}

function get(call: Call): Reply {
  const channel = channelAt(call);
  if (!can(call.world, channel, PermissionFlagsBits.ReadMessageHistory)) throw refusals.missingAccess();
  return shows(call.world, messageAt(call, channel));
}

function change(call: Call): Reply {
  const { world, body } = call;
  const channel = channelAt(call);
  const message = messageAt(call, channel);
  if (message.author !== world.bot.id) throw refusals.notTheAuthor();
  if (channel.archived) throw refusals.archived();
  const wanted = changeOf(world, message, body);
  const after = { content: wanted.text ?? message.content, embeds: [...(wanted.embeds ?? message.embeds)] };
  const components = (wanted.components ?? message.components).length;
  if (after.content === '' && after.embeds.length === 0 && components === 0 && wanted.attachments?.length === 0)
    throw refusals.empty();
  edit(world, channel, message, wanted);
  return shows(world, message);
}

function destroy(call: Call): Reply {
  const { world } = call;
  const channel = channelAt(call);
  const message = messageAt(call, channel);
  if (message.author !== world.bot.id) need(world, channel, PermissionFlagsBits.ManageMessages);
  if (channel.archived) throw refusals.archived();
  remove(world, channel, message);
  return NOTHING;
}

function destroyMany(call: Call): Reply {
  const { world, body } = call;
  const channel = channelAt(call);
  need(world, channel, PermissionFlagsBits.ManageMessages);
  const { messages } = checked(z.looseObject({ messages: z.array(z.string()).min(2).max(100) }), body.json);
  purge(
    world,
    channel,
    channel.messages.filter(({ id }) => messages.includes(id)),
  );
  return NOTHING;
}

/** Returns the message in the path. Refuses a message of another author. */
export function messageIn(call: Call, channel: Channel, author: string): Message {
  const message = find(channel, param(call, 'message'));
  if (message === undefined || message.author !== author) throw refusals.unknownMessage();
  return message;
}
