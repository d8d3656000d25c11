/** A block, an attachment, a view: whatever JSON object Slack takes and shows. */
export type Json = Record<string, unknown>;

export type User = { readonly id: string; name: string; readonly bot: boolean; deleted: boolean };

export type UserGroup = { readonly id: string; readonly handle: string; users: string[] };

export type Channel = {
  readonly id: string;
  readonly name: string;
  readonly kind: 'channel' | 'group' | 'im';
  readonly members: Set<string>;
  archived: boolean;
  /** By `ts`, oldest first. */ readonly messages: Map<string, Message>;
};

export type StoredFile = {
  readonly id: string;
  readonly name: string;
  readonly mimetype: string;
  readonly user: string;
  content: Buffer;
};

export type Message = {
  readonly ts: string;
  readonly channel: string;
  subtype: string | null;
  user: string | null;
  readonly botId: string | null;
  readonly appId: string | null;
  /** The name and the icon that it was posted under, when they are not the poster's own. */
  readonly username: string | null;
  readonly icon: string | null;
  text: string;
  blocks: Json[];
  attachments: Json[];
  readonly files: StoredFile[];
  readonly threadTs: string | null;
  /** A reply that the channel shows as well. */ readonly broadcast: boolean;
  edited: { readonly user: string; readonly ts: string } | null;
  metadata: Json | null;
  readonly reactions: Map<string, string[]>;
  /** Whom it notified, in any version: 'channel', 'here', 'everyone', 'user:U…', 'subteam:S…'. */
  readonly pings: Set<string>;
  streaming: 'in_progress' | 'completed' | null;
};

/** What only one person sees, until they reload. */
export type Ephemeral = {
  readonly ts: string;
  readonly channel: string;
  readonly user: string;
  readonly threadTs: string | null;
  text: string;
  blocks: Json[];
  readonly via: 'ack' | 'response_url' | 'ephemeral';
  readonly at: number;
};

export type View = { readonly id: string; hash: string; readonly user: string; view: Json; open: boolean };

/** The app that the tests run: its bot, its tokens and what it may do. */
export type App = {
  readonly id: string;
  readonly name: string;
  readonly botId: string;
  readonly botUser: string;
  readonly botToken: string;
  readonly appToken: string;
  readonly signingSecret: string;
  botScopes: string[];
  appScopes: string[];
  /** The error that every call with its tokens gets, once they are revoked. */ revoked: string | null;
  socketMode: boolean;
};

export type World = {
  readonly team: { readonly id: string; readonly name: string; readonly domain: string };
  readonly app: App;
  readonly users: Map<string, User>;
  readonly groups: Map<string, UserGroup>;
  readonly channels: Map<string, Channel>;
  readonly files: Map<string, StoredFile>;
  readonly ephemerals: Ephemeral[];
  readonly views: Map<string, View>;
  /** `assistant.threads.setStatus`, by channel and thread; what is gone is not in it. */
  readonly statuses: Map<string, Json>;
  /** `agents.sessions.setStatus`, by channel and thread. */ readonly sessions: Map<string, Json>;
  readonly now: () => number;
  /** The last `ts` given out, in microseconds. */ lastMicros: number;
  lastId: number;
};

/** A `ts` that no message has: the time in seconds, with six digits behind the point, always later than the one before. */
export function nextTs(world: World): string {
  world.lastMicros = Math.max(world.now() * 1_000, world.lastMicros + 100);
  const micros = String(world.lastMicros).padStart(16, '0');
  return `${micros.slice(0, -6)}.${micros.slice(-6)}`;
}

/** An id of Slack's form: a capital letter or two and ten more characters. */
export function nextId(world: World, prefix: string): string {
  world.lastId += 1;
  return `${prefix}0${world.lastId.toString(36).toUpperCase().padStart(9, '0')}`;
}

export function addUser(world: World, name: string, bot = false): User {
  const user: User = { id: nextId(world, 'U'), name, bot, deleted: false };
  world.users.set(user.id, user);
  return user;
}

export function addChannel(world: World, name: string, kind: Channel['kind'] = 'channel'): Channel {
  const id = nextId(world, kind === 'im' ? 'D' : 'C');
  const channel: Channel = { id, name, kind, members: new Set(), archived: false, messages: new Map() };
  world.channels.set(id, channel);
  return channel;
}

export function addGroup(world: World, handle: string, users: readonly string[]): UserGroup {
  const group: UserGroup = { id: nextId(world, 'S'), handle, users: [...users] };
  world.groups.set(group.id, group);
  return group;
}

/** What a new message is unless its maker says otherwise. */
export function blankMessage(world: World, channel: Channel): Message {
  return {
    ts: nextTs(world),
    channel: channel.id,
    subtype: null,
    user: null,
    botId: null,
    appId: null,
    username: null,
    icon: null,
    text: '',
    blocks: [],
    attachments: [],
    files: [],
    threadTs: null,
    broadcast: false,
    edited: null,
    metadata: null,
    reactions: new Map(),
    pings: new Set(),
    streaming: null,
  };
}

/** The channel's own messages, oldest first: no replies but those that were broadcast. */
export function timeline(channel: Channel): Message[] {
  return [...channel.messages.values()].filter((one) => one.threadTs === null || one.broadcast);
}

/** The replies under a message, oldest first. */
export function replies(channel: Channel, thread: string): Message[] {
  return [...channel.messages.values()].filter((one) => one.threadTs === thread);
}

/** A test's own mistake: a person or a channel that is not there. */
export function must<T>(found: T | undefined, what: string): T {
  if (found === undefined) throw new Error(`the loopback Slack has no ${what}`);
  return found;
}

export function channelOf(world: World, id: string): Channel {
  return must(world.channels.get(id), `channel ${id}`);
}

export function messageOf(world: World, channel: string, ts: string): Message {
  return must(channelOf(world, channel).messages.get(ts), `message ${ts} in ${channel}`);
}

/** The key of a status or a session. */
export function placeKey(channel: string, thread: string | null): string {
  return thread === null || thread === '' ? channel : `${channel}/${thread}`;
}
