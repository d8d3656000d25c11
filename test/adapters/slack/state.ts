/** Any JSON object of Slack's API: a block, an attachment, a view. */
export type Json = Record<string, unknown>;

export type User = { readonly id: string; name: string; readonly bot: boolean; deleted: boolean };

export type UserGroup = { readonly id: string; readonly handle: string; users: string[] };

export type Channel = {
  readonly id: string;
  readonly name: string;
  readonly kind: 'channel' | 'group' | 'im';
  readonly members: Set<string>;
  archived: boolean;
  /** By `ts`, oldest first. */
  readonly messages: Map<string, Message>;
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
  /** The name and icon of the post, when they differ from the poster's own. */
  readonly username: string | null;
  readonly icon: string | null;
  text: string;
  blocks: Json[];
  attachments: Json[];
  readonly files: StoredFile[];
  readonly threadTs: string | null;
  /** True for a reply that the channel also shows. */
  readonly broadcast: boolean;
  edited: { readonly user: string; readonly ts: string } | null;
  metadata: Json | null;
  readonly reactions: Map<string, string[]>;
  /** Everyone whom any version notified: 'channel', 'here', 'everyone', 'user:U…', 'subteam:S…'. */
  readonly pings: Set<string>;
  streaming: 'in_progress' | 'completed' | null;
};

/** A message that only one person sees, until they reload. */
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

/** The app under test: its bot, tokens and permissions. */
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
  /** The error of every call after the tokens were revoked; `null`: they are valid. */
  revoked: string | null;
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
  /** `assistant.threads.setStatus`, by channel and thread. A removed status is deleted. */
  readonly statuses: Map<string, Json>;
  /** `agents.sessions.setStatus`, by channel and thread. */
  readonly sessions: Map<string, Json>;
  readonly now: () => number;
  /** The last new `ts`, in microseconds. */
  lastMicros: number;
  lastId: number;
};

/** Returns a new `ts`: the time in seconds with six decimals, later than all before. */
export function nextTs(world: World): string {
  world.lastMicros = Math.max(world.now() * 1_000, world.lastMicros + 100);
  const micros = String(world.lastMicros).padStart(16, '0');
  return `${micros.slice(0, -6)}.${micros.slice(-6)}`;
}

/** Returns an id in Slack's form: one or two capital letters and ten more characters. */
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

/** Returns a new message with default values. */
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

/** Returns the channel's messages, oldest first. Includes broadcast replies, but no other replies. */
export function timeline(channel: Channel): Message[] {
  return [...channel.messages.values()].filter((one) => one.threadTs === null || one.broadcast);
}

/** Returns the replies to a message, oldest first. */
export function replies(channel: Channel, thread: string): Message[] {
  return [...channel.messages.values()].filter((one) => one.threadTs === thread);
}

/** Returns the value. Throws with the name `what` when it is undefined. */
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

/** Returns the key of a status or session. */
export function placeKey(channel: string, thread: string | null): string {
  return thread === null || thread === '' ? channel : `${channel}/${thread}`;
}
