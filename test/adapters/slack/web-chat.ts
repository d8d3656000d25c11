import { change, publish, takeAway } from './events-publish.ts';
import { messageJson } from './events.ts';
import { blocksProblem, isObject, pingsIn } from './state-text.ts';
import { blankMessage, nextTs, placeKey } from './state.ts';
import type { Channel, Json, Message } from './state.ts';
import { Refusal, flag, joinedChannel, knownChannel, list, needed, text } from './web.ts';
import type { Call, Method } from './web.ts';

const TEXT_LENGTH = 40_000;
const MARKDOWN_LENGTH = 12_000;

export const chatMethods: Readonly<Record<string, Method>> = {
  'chat.postMessage': { scopes: ['chat:write'], run: postMessage },
  'chat.update': { scopes: ['chat:write'], run: update },
  'chat.delete': { scopes: ['chat:write'], run: remove },
  'chat.postEphemeral': { scopes: ['chat:write'], run: postEphemeral },
};

/** Builds the app's message, with the name and icon of the call if the app may set them. */
export function ownMessage(call: Call, channel: Channel): Message {
  const { world } = call.slack;
  const customised = world.app.botScopes.includes('chat:write.customize');
  const username = customised ? text(call.args, 'username') : null;
  const icon = customised ? (text(call.args, 'icon_emoji') ?? text(call.args, 'icon_url')) : null;
  const named = username !== null || icon !== null;
  return {
    ...blankMessage(world, channel),
    subtype: named ? 'bot_message' : null,
    user: named ? null : world.app.botUser,
    botId: world.app.botId,
    appId: world.app.id,
    username,
    icon,
    threadTs: threadOf(call, channel),
    broadcast: flag(call.args, 'reply_broadcast'),
  };
}

/** Returns the message that a call names. Throws `refusal` when the message is not the app's own. */
export function ownedMessage(call: Call, channel: Channel, refusal: string): Message {
  const message = channel.messages.get(needed(call.args, 'ts'));
  if (message === undefined || message.subtype === 'tombstone') throw new Refusal('message_not_found');
  if (message.appId !== call.slack.world.app.id) throw new Refusal(refusal);
  return message;
}

export function metadataOf(args: Json): Json | null | undefined {
  const metadata = args['metadata'];
  if (metadata === undefined || metadata === null || metadata === '') return undefined;
  if (!isObject(metadata)) throw new Refusal('invalid_metadata_format');
  if (Object.keys(metadata).length === 0) return null;
  if (typeof metadata['event_type'] !== 'string' || !isObject(metadata['event_payload']))
    throw new Refusal('invalid_metadata_schema');
  return metadata;
}

export function markdownOf(args: Json): string | null {
  const markdown = text(args, 'markdown_text');
  if (markdown === null) return null;
  if (text(args, 'text') !== null || list(args, 'blocks').length > 0) throw new Refusal('markdown_text_conflict');
  if (markdown.length > MARKDOWN_LENGTH) throw new Refusal('msg_too_long');
  return markdown;
}

/** Returns the channel. Throws when the channel is archived. */
export function writable(channel: Channel): Channel {
  if (channel.archived) throw new Refusal('is_archived');
  return channel;
}

function postMessage(call: Call): Json {
  const { slack, args } = call;
  const known = knownChannel(call);
  const open = slack.world.app.botScopes.includes('chat:write.public') && known.kind === 'channel';
  const channel = writable(open ? known : joinedChannel(call));
  const content = contentOf(args);
  const message = { ...ownMessage(call, channel), ...content, metadata: metadataOf(args) ?? null };
  for (const ping of pingsIn({ ...content, linkNames: linksNames(args) })) message.pings.add(ping);
  publish(slack, channel, message);
  slack.world.statuses.delete(placeKey(channel.id, message.threadTs));
  const warnings = (text(args, 'text') ?? '').length > TEXT_LENGTH ? { warning: 'message_truncated' } : {};
  return { channel: channel.id, ts: message.ts, message: messageJson(slack.world, message, 'all'), ...warnings };
}

function update(call: Call): Json {
  const { slack, args } = call;
  const channel = writable(joinedChannel(call));
  const message = ownedMessage(call, channel, 'cant_update_message');
  if (message.streaming === 'in_progress') throw new Refusal('streaming_state_conflict');
  const { editWindowMs } = slack.options;
  if (editWindowMs !== null && slack.world.now() - Number(message.ts) * 1_000 > editWindowMs)
    throw new Refusal('edit_window_closed');
  if ((text(args, 'text') ?? '').length > TEXT_LENGTH) throw new Refusal('msg_too_long');
  const keeps = args['text'] === undefined && args['markdown_text'] === undefined && args['blocks'] === undefined;
  const metadata = metadataOf(args);
  if (keeps && metadata === undefined) throw new Refusal('no_text');
  const content = keeps ? null : contentOf(args, message);
  change(slack, channel, message, {
    linkNames: linksNames(args),
    apply() {
      if (content !== null) Object.assign(message, content);
      if (content !== null && content.blocks.length === 0)
        message.edited = { user: slack.world.app.botUser, ts: nextTs(slack.world) };
      if (metadata !== undefined) message.metadata = metadata;
    },
  });
  return { channel: channel.id, ts: message.ts, text: message.text, message: messageJson(slack.world, message, 'all') };
}

function remove(call: Call): Json {
  const channel = writable(joinedChannel(call));
  const message = ownedMessage(call, channel, 'cant_delete_message');
  takeAway(call.slack, channel, message);
  return { channel: channel.id, ts: message.ts };
}

function postEphemeral(call: Call): Json {
  const { slack, args } = call;
  const channel = writable(joinedChannel(call));
  const user = needed(args, 'user');
  if (!channel.members.has(user)) throw new Refusal('user_not_in_channel');
  const { text: shown, blocks } = contentOf(args);
  const ts = nextTs(slack.world);
  const threadTs = text(args, 'thread_ts');
  slack.world.ephemerals.push({
    ts,
    channel: channel.id,
    user,
    threadTs,
    text: shown,
    blocks,
    via: 'ephemeral',
    at: slack.world.now(),
  });
  return { message_ts: ts };
}

function contentOf(args: Json, before?: Message): Pick<Message, 'text' | 'blocks' | 'attachments'> {
  if (args['blocks'] !== undefined && !Array.isArray(args['blocks'])) throw new Refusal('invalid_blocks_format');
  const markdown = markdownOf(args);
  const blocks = markdown === null ? list(args, 'blocks') : [{ type: 'markdown', text: markdown }];
  const attachments = args['attachments'] === undefined ? (before?.attachments ?? []) : list(args, 'attachments');
  const problem = blocksProblem(blocks);
  if (problem !== null) throw new Refusal(problem);
  const words = (text(args, 'text') ?? markdown ?? '').slice(0, TEXT_LENGTH);
  if (words === '' && blocks.length === 0 && attachments.length === 0) throw new Refusal('no_text');
  return { text: words, blocks, attachments };
}

function threadOf({ args }: Call, channel: Channel): string | null {
  const thread = text(args, 'thread_ts');
  if (thread === null) return null;
  if (!/^\d+\.\d+$/.test(thread)) throw new Refusal('invalid_thread_ts');
  const root = channel.messages.get(thread);
  if (root === undefined) throw new Refusal('thread_not_found');
  return root.threadTs ?? thread;
}

function linksNames(args: Json): boolean {
  return flag(args, 'link_names') || args['parse'] === 'full';
}
