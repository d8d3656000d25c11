import { isObject, shownBlocks } from './state-text.ts';
import { nextId, nextTs, replies } from './state.ts';
import type { Channel, Json, Message, StoredFile, World } from './state.ts';

/** Returns a message as the API shows it; `all` includes the payload of its metadata. */
export function messageJson(world: World, message: Message, metadata: 'none' | 'type' | 'all' = 'none'): Json {
  const json: Json = { type: 'message', text: message.text, ts: message.ts, team: world.team.id };
  if (message.subtype !== null) json['subtype'] = message.subtype;
  if (message.user !== null) json['user'] = message.user;
  if (message.botId !== null) Object.assign(json, botPart(world, message));
  if (message.user !== null && message.botId === null) json['client_msg_id'] = `client-${message.ts}`;
  if (message.blocks.length > 0) json['blocks'] = shownBlocks(message.blocks);
  if (message.attachments.length > 0) json['attachments'] = message.attachments;
  if (message.files.length > 0) json['files'] = message.files.map((file) => fileJson(world, file));
  if (message.edited !== null) json['edited'] = message.edited;
  if (message.streaming !== null) json['streaming_state'] = message.streaming;
  if (message.threadTs !== null) json['thread_ts'] = message.threadTs;
  if (message.reactions.size > 0) json['reactions'] = reactionsJson(message);
  if (message.metadata !== null && metadata !== 'none') json['metadata'] = metadataJson(message.metadata, metadata);
  return json;
}

/** Returns a message as a history shows it, with the thread fields of a parent. */
export function listedJson(world: World, message: Message, options: { channel: Channel; all: boolean }): Json {
  const json = messageJson(world, message, options.all ? 'all' : 'type');
  const under = replies(options.channel, message.ts);
  const last = under.at(-1);
  if (last !== undefined) {
    const users = [...new Set(under.map(({ user, botId }) => user ?? botId))];
    Object.assign(json, {
      thread_ts: message.ts,
      reply_count: under.length,
      reply_users: users,
      latest_reply: last.ts,
    });
    Object.assign(json, { reply_users_count: users.length, subscribed: false, is_locked: false });
  }
  const root = message.threadTs === null ? undefined : options.channel.messages.get(message.threadTs);
  if (root?.user !== undefined && root.user !== null) json['parent_user_id'] = root.user;
  if (message.broadcast && root !== undefined) json['root'] = messageJson(world, root);
  return json;
}

/** Returns the inner event of a new message. */
export function messageEvent(world: World, channel: Channel, message: Message): Json {
  const event: Json = {
    ...listedJson(world, message, { channel, all: false }),
    ...where(channel),
    event_ts: message.ts,
  };
  for (const key of ['metadata', 'reply_count', 'reply_users', 'reply_users_count', 'latest_reply']) delete event[key];
  return event;
}

/** Returns the inner event of an edit; `before` is the earlier JSON of the message. */
export function changedEvent(world: World, channel: Channel, change: { message: Message; before: Json }): Json {
  const ts = nextTs(world);
  const message = messageJson(world, change.message);
  const inner = { message, previous_message: change.before, ...where(channel), hidden: true };
  return { type: 'message', subtype: 'message_changed', ...inner, ts, event_ts: ts };
}

/** Returns the inner event of a deletion. */
export function deletedEvent(world: World, channel: Channel, before: Json): Json {
  const ts = nextTs(world);
  const inner = { previous_message: before, deleted_ts: before['ts'], ...where(channel), hidden: true };
  return { type: 'message', subtype: 'message_deleted', ...inner, ts, event_ts: ts };
}

/** Returns the inner event that follows `message` when the app's bot is mentioned. */
export function mentionEvent(world: World, channel: Channel, message: Message): Json {
  const event = { ...messageEvent(world, channel, message), type: 'app_mention' };
  return Object.fromEntries(Object.entries(event).filter(([key]) => key !== 'channel_type'));
}

/** Wraps an inner event into the whole payload. */
export function eventCallback(world: World, event: Json): Json {
  return {
    token: 'verification-token-of-the-loopback-slack',
    team_id: world.team.id,
    api_app_id: world.app.id,
    event,
    type: 'event_callback',
    event_id: nextId(world, 'Ev'),
    event_time: Math.floor(world.now() / 1_000),
    authorizations: [
      {
        enterprise_id: null,
        team_id: world.team.id,
        user_id: world.app.botUser,
        is_bot: true,
        is_enterprise_install: false,
      },
    ],
    is_ext_shared_channel: false,
    event_context: `4-${nextId(world, 'Ctx')}`,
  };
}

export function fileJson(world: World, file: StoredFile): Json {
  return {
    id: file.id,
    name: file.name,
    title: file.name,
    mimetype: file.mimetype,
    filetype: file.name.split('.').at(-1),
    size: file.content.length,
    user: file.user,
    mode: 'hosted',
    is_external: false,
    created: Math.floor(world.now() / 1_000),
    url_private: `${origin.get(world)}/files-pri/${file.id}/${encodeURIComponent(file.name)}`,
    url_private_download: `${origin.get(world)}/files-pri/${file.id}/download/${encodeURIComponent(file.name)}`,
    permalink: `${origin.get(world)}/files/${file.id}`,
  };
}

/** The base URL of a world's server, once it listens. */
export const origin = new WeakMap<World, string>();

export function reactionsJson(message: Message): Json[] {
  return [...message.reactions].map(([name, users]) => ({ name, users: [...users], count: users.length }));
}

function metadataJson(metadata: Json, how: 'type' | 'all'): Json {
  return how === 'all' && isObject(metadata) ? metadata : { event_type: metadata['event_type'] };
}

function botPart(world: World, message: Message): Json {
  const { app } = world;
  const own = message.appId === app.id;
  const profile = { id: message.botId, app_id: message.appId, name: own ? app.name : message.username, deleted: false };
  const part: Json = { bot_id: message.botId, app_id: message.appId };
  if (message.username !== null) part['username'] = message.username;
  if (message.icon !== null)
    part['icons'] = message.icon.startsWith(':') ? { emoji: message.icon } : { image_48: message.icon };
  if (message.user !== null) part['bot_profile'] = { ...profile, team_id: world.team.id, icons: {}, updated: 1 };
  return part;
}

function where(channel: Channel): Json {
  return { channel: channel.id, channel_type: channel.kind };
}
