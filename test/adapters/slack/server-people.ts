import { change, emit, publish, takeAway, tell } from './events-publish.ts';
import { rendered, actionsIn, isObject } from './state-text.ts';
import { blankMessage, channelOf, messageOf, must, nextId, nextTs, replies, timeline } from './state.ts';
import type { Channel, Ephemeral, Json, Message, StoredFile } from './state.ts';
import type { Slack } from './web.ts';

export type GivenFile = { readonly name: string; readonly content: string; readonly mimetype?: string };

export type Writing = {
  readonly thread?: string;
  readonly files?: readonly GivenFile[];
  /** True for a reply that the channel also shows. */
  readonly broadcast?: boolean;
  readonly subtype?: 'me_message';
  readonly blocks?: readonly Json[];
};

/** A post of another app. */
export type BotWriting = Writing & {
  readonly name?: string;
  readonly botId?: string;
  readonly appId?: string;
  readonly metadata?: Json;
  /** The user of a post without its own name. Such a post has no subtype. */
  readonly user?: string;
};

/** A message as a person sees it. */
export type Seen = {
  readonly ts: string;
  /** The shown name. */
  readonly author: string;
  readonly user: string | null;
  readonly botId: string | null;
  /** True for a message of the app under test. */
  readonly own: boolean;
  readonly icon: string | null;
  readonly text: string;
  /** The fallback text, which notifications show. */
  readonly plain: string;
  readonly blocks: readonly Json[];
  readonly buttons: readonly Button[];
  readonly reactions: Readonly<Record<string, readonly string[]>>;
  readonly edited: boolean;
  readonly metadata: Json | null;
  readonly pings: readonly string[];
  readonly thread: string | null;
  readonly replies: number;
  readonly files: readonly { readonly name: string; readonly content: string }[];
  readonly streaming: Message['streaming'];
};

export type Button = {
  readonly actionId: string;
  readonly text: string;
  readonly value: string | null;
  readonly style: string | null;
};

/** Actions of people, other apps and administrators. Ids are Slack's own; a message's id is its `ts`. */
export type People = {
  write(user: string, channel: string, text: string, how?: Writing): string;
  bot(channel: string, text: string, how?: BotWriting): string;
  edit(channel: string, ts: string, text: string): void;
  remove(channel: string, ts: string): void;
  react(user: string, channel: string, ts: string, name: string): void;
  /** Returns the channel's messages, or a message and its replies, oldest first. */
  read(channel: string, thread?: string): readonly Seen[];
  ephemerals(user: string): readonly Ephemeral[];
  /** Presses Slack's own Stop button. */
  sessionStopped(user: string, channel: string, thread?: string): void;
  archive(channel: string): void;
  unarchive(channel: string): void;
  kickBot(channel: string): void;
  inviteBot(channel: string): void;
  join(user: string, channel: string): void;
  leave(user: string, channel: string): void;
  /** Makes every later call fail with this error. With `announce`, an event is sent first. */
  revokeTokens(how?: { readonly error?: string; readonly announce?: boolean; readonly uninstall?: boolean }): void;
};

export function createPeople(slack: Slack): People {
  const { world } = slack;
  return {
    write(user, id, text, how = {}) {
      const channel = channelOf(world, id);
      const message = { ...written(slack, channel, how), user, text, subtype: subtypeOf(how) };
      if (channel.archived) throw new Error(`nobody can write in ${id}: it is archived`);
      publish(slack, channel, { ...message, files: filesOf(slack, user, how) });
      return message.ts;
    },
    bot(id, text, how = {}) {
      const channel = channelOf(world, id);
      const user = how.user ?? null;
      const names = {
        botId: how.botId ?? 'B0FOREIGN01',
        appId: how.appId ?? 'A0FOREIGN01',
        username: how.name ?? 'foreign app',
      };
      const message = {
        ...written(slack, channel, how),
        ...names,
        user,
        text,
        subtype: user === null ? 'bot_message' : null,
      };
      publish(slack, channel, { ...message, metadata: how.metadata ?? null });
      return message.ts;
    },
    edit(id, ts, text) {
      const message = messageOf(world, id, ts);
      const edited = { user: message.user ?? '', ts: nextTs(world) };
      change(slack, channelOf(world, id), message, { apply: () => Object.assign(message, { text, edited }) });
    },
    remove: (id, ts) => takeAway(slack, channelOf(world, id), messageOf(world, id, ts)),
    react(user, id, ts, name) {
      const { reactions } = messageOf(world, id, ts);
      reactions.set(name, [...(reactions.get(name) ?? []), user]);
      const item = { type: 'message', channel: id, ts };
      emit(slack, { type: 'reaction_added', user, reaction: name, item, item_user: messageOf(world, id, ts).user });
    },
    read: (id, thread) => read(slack, channelOf(world, id), thread),
    ephemerals: (user) => world.ephemerals.filter((one) => one.user === user),
    sessionStopped(user, channel, thread = '') {
      const streams = [...channelOf(world, channel).messages.values()].filter(
        ({ streaming }) => streaming === 'in_progress',
      );
      emit(slack, {
        type: 'agent_session_stopped',
        channel,
        user,
        thread_ts: thread,
        streaming_message_ts: streams.map(({ ts }) => ts),
      });
    },
    ...createAdministration(slack),
  };
}

function createAdministration(
  slack: Slack,
): Pick<People, 'archive' | 'unarchive' | 'kickBot' | 'inviteBot' | 'join' | 'leave' | 'revokeTokens'> {
  const { world } = slack;
  const boss = () => [...world.users.values()].find(({ bot }) => !bot)?.id ?? '';
  const told = (type: string, channel: string, user: string) =>
    emit(slack, {
      type,
      channel,
      user,
      channel_type: channelOf(world, channel).kind === 'group' ? 'G' : 'C',
      team: world.team.id,
    });

  function comes(user: string, id: string): void {
    const channel = channelOf(world, id);
    channel.members.add(user);
    if (channel.members.has(world.app.botUser)) told('member_joined_channel', id, user);
  }
  function goes(user: string, id: string): void {
    const channel = channelOf(world, id);
    if (channel.members.has(world.app.botUser)) told('member_left_channel', id, user);
    channel.members.delete(user);
  }
  return {
    archive(id) {
      const channel = channelOf(world, id);
      channel.archived = true;
      tell(slack, channel, {
        type: channel.kind === 'group' ? 'group_archive' : 'channel_archive',
        channel: id,
        user: boss(),
      });
    },
    unarchive(id) {
      const channel = channelOf(world, id);
      channel.archived = false;
      tell(slack, channel, {
        type: channel.kind === 'group' ? 'group_unarchive' : 'channel_unarchive',
        channel: id,
        user: boss(),
      });
    },
    kickBot(id) {
      goes(world.app.botUser, id);
      emit(slack, {
        type: channelOf(world, id).kind === 'group' ? 'group_left' : 'channel_left',
        channel: id,
        actor_id: boss(),
      });
    },
    inviteBot: (id) => comes(world.app.botUser, id),
    join: comes,
    leave: goes,
    revokeTokens({ error = 'token_revoked', announce = false, uninstall = false } = {}) {
      if (announce) emit(slack, { type: 'tokens_revoked', tokens: { oauth: [], bot: [world.app.botUser] } });
      if (uninstall) emit(slack, { type: 'app_uninstalled' });
      world.app.revoked = error;
    },
  };
}

function written({ world }: Slack, channel: Channel, how: Writing): Message {
  const blank = blankMessage(world, channel);
  const thread = how.thread ?? null;
  if (thread !== null) must(channel.messages.get(thread), `message ${thread} to reply to`);
  return { ...blank, threadTs: thread, broadcast: how.broadcast === true, blocks: [...(how.blocks ?? [])] };
}

function subtypeOf(how: Writing): string | null {
  if (how.files !== undefined && how.files.length > 0) return 'file_share';
  return how.broadcast === true ? 'thread_broadcast' : (how.subtype ?? null);
}

function filesOf({ world }: Slack, user: string, { files = [] }: Writing): StoredFile[] {
  return files.map(({ name, content, mimetype = 'text/plain' }) => {
    const file: StoredFile = { id: nextId(world, 'F'), name, mimetype, user, content: Buffer.from(content) };
    world.files.set(file.id, file);
    return file;
  });
}

function read(slack: Slack, channel: Channel, thread: string | undefined): readonly Seen[] {
  if (thread === undefined) return timeline(channel).map((message) => seen(slack, channel, message));
  const root = channel.messages.get(thread);
  return [...(root === undefined ? [] : [root]), ...replies(channel, thread)].map((message) =>
    seen(slack, channel, message),
  );
}

function seen({ world }: Slack, channel: Channel, message: Message): Seen {
  const own = message.appId === world.app.id;
  const name = message.username ?? (own ? world.app.name : world.users.get(message.user ?? '')?.name);
  return {
    ts: message.ts,
    author: name ?? message.user ?? 'unknown',
    user: message.user,
    botId: message.botId,
    own,
    icon: message.icon,
    text: rendered(message),
    plain: message.text,
    blocks: message.blocks,
    buttons: buttonsOf(message.blocks),
    reactions: Object.fromEntries(message.reactions),
    edited: message.edited !== null,
    metadata: message.metadata,
    pings: [...message.pings],
    thread: message.threadTs,
    replies: replies(channel, message.ts).length,
    files: message.files.map((file) => ({ name: file.name, content: file.content.toString('utf8') })),
    streaming: message.streaming,
  };
}

function buttonsOf(blocks: readonly Json[]): Button[] {
  return actionsIn(blocks)
    .filter(({ element }) => element['type'] === 'button')
    .map(({ element }) => ({
      actionId: String(element['action_id']),
      text: isObject(element['text']) ? String(element['text']['text']) : '',
      value: typeof element['value'] === 'string' ? element['value'] : null,
      style: typeof element['style'] === 'string' ? element['style'] : null,
    }));
}
