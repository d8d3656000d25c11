import { randomBytes } from 'node:crypto';
import { ChannelType, PermissionFlagsBits } from 'discord.js';

/** A JSON object on the wire. */
export type Json = Record<string, unknown>;

export type User = { readonly id: string; name: string; globalName: string | null; readonly bot: boolean };
export type Role = {
  readonly id: string;
  name: string;
  permissions: bigint;
  mentionable: boolean;
  position: number;
  color?: number;
};
export type Member = { readonly user: string; nick: string | null; roles: string[]; readonly joinedAt: number };
export type Overwrite = { readonly id: string; readonly type: 0 | 1; allow: bigint; deny: bigint };

export type Guild = {
  readonly id: string;
  name: string;
  readonly owner: string;
  readonly roles: Map<string, Role>;
  readonly members: Map<string, Member>;
  commands: Command[];
  /** True while the bot is a member. */
  joined: boolean;
};

export type Channel = {
  readonly id: string;
  readonly guild: string;
  readonly type: ChannelType;
  name: string;
  /** The id of a thread's channel; `null` for a channel. */
  readonly parent: string | null;
  readonly owner: string | null;
  overwrites: Overwrite[];
  archived: boolean;
  locked: boolean;
  archivedAt: number;
  /** Oldest first. */
  readonly messages: Message[];
  lastMessage: string | null;
};

export type Attachment = {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly content: Buffer;
  /** The size that Discord reports. A test can set a wrong size. */
  readonly size: number;
  readonly url: string;
};

/** The people whom a message notifies. */
export type Pings = {
  readonly everyone: boolean;
  readonly users: readonly string[];
  readonly roles: readonly string[];
};

export type Message = {
  readonly id: string;
  readonly channel: string;
  /** The id of a user or of a webhook. */
  readonly author: string;
  readonly webhook: {
    readonly name: string;
    readonly avatar: string | null;
    readonly application: string | null;
  } | null;
  readonly type: number;
  readonly at: number;
  readonly nonce: string | number | null;
  readonly replyTo: string | null;
  /** The interaction that the message answers; `null`: none. */
  readonly interaction: string | null;
  content: string;
  editedAt: number | null;
  embeds: readonly Json[];
  components: readonly Json[];
  attachments: readonly Attachment[];
  mentions: Pings;
  /** Everyone whom the message or one of its edits notifies. */
  pings: Pings;
  flags: number;
  pinned: boolean;
  thread: string | null;
  /** Ids of users with a reaction, by emoji. */
  readonly reactions: Map<string, string[]>;
};

export type Webhook = {
  readonly id: string;
  token: string;
  name: string;
  readonly channel: string;
  readonly guild: string;
  /** The id of the program that created the webhook; `null`: a person created it. */
  readonly application: string | null;
  readonly creator: string;
};

export type CommandOption = {
  readonly type: number;
  readonly name: string;
  readonly required?: boolean | undefined;
  readonly autocomplete?: boolean | undefined;
  readonly choices?: readonly { readonly name: string; readonly value: string | number }[] | undefined;
  readonly options?: readonly CommandOption[] | undefined;
};
export type Command = {
  readonly id: string;
  readonly name: string;
  readonly options: readonly CommandOption[];
  /** The registered command in Discord's form. */
  readonly wire: Json;
};

/** Whether a program sees message content. Without the intent, it sees empty texts. */
export type Sight = { readonly content: boolean };

/** An event for the gateway. An event with `intent` 0 goes to every session. */
export type Event = {
  readonly t: string;
  readonly intent: number;
  readonly guild?: string;
  /** Sent only to sessions whose bot may view this channel. */
  readonly channel?: string;
  readonly render: (sight: Sight) => unknown;
};

export type WorldOptions = {
  /** Permissions of the bot's own role. */
  readonly permissions: bigint;
  /** Whether this privileged intent is switched on for the application. */
  readonly messageContent: boolean;
  readonly membersIntent: boolean;
  /** How far Discord's clock is ahead of this machine's. */
  readonly clockSkewMs: number;
  /** How long a nonce is remembered. */
  readonly nonceMs: number;
};

/** All data of the fake Discord. */
export type World = {
  readonly options: WorldOptions;
  token: string;
  /** The base URL; empty before the server listens. */
  origin: string;
  readonly bot: User;
  readonly application: string;
  readonly users: Map<string, User>;
  readonly guilds: Map<string, Guild>;
  readonly channels: Map<string, Channel>;
  readonly webhooks: Map<string, Webhook>;
  readonly attachments: Map<string, Attachment>;
  readonly nonces: Map<string, { readonly message: string; readonly at: number }>;
  globalCommands: Command[];
  tell: (event: Event) => void;
  readonly now: () => number;
  /** Returns a new snowflake, greater than all before. */
  readonly id: () => string;
};

/** The permissions of the role @everyone. */
export const EVERYONE =
  PermissionFlagsBits.ViewChannel |
  PermissionFlagsBits.SendMessages |
  PermissionFlagsBits.ReadMessageHistory |
  PermissionFlagsBits.AddReactions |
  PermissionFlagsBits.CreatePublicThreads |
  PermissionFlagsBits.SendMessagesInThreads |
  PermissionFlagsBits.UseApplicationCommands |
  PermissionFlagsBits.AttachFiles |
  PermissionFlagsBits.EmbedLinks;

/** Discord's epoch: 2015-01-01 UTC. */
const EPOCH_MS = 1_420_070_400_000;

/** Returns a Discord without guilds. */
export function newWorld(options: WorldOptions): World {
  const now = () => Date.now() + options.clockSkewMs;
  const id = snowflakes(now);
  const application = id();
  const bot: User = { id: application, name: 'conch', globalName: null, bot: true };
  return {
    options,
    token: `${Buffer.from(application).toString('base64url')}.${randomBytes(4).toString('base64url')}.${randomBytes(20).toString('base64url')}`,
    origin: '',
    bot,
    application,
    users: new Map([[bot.id, bot]]),
    guilds: new Map(),
    channels: new Map(),
    webhooks: new Map(),
    attachments: new Map(),
    nonces: new Map(),
    globalCommands: [],
    tell: () => undefined,
    now,
    id,
  };
}

/** Adds a guild with its owner and the bot, which has its own role. */
export function addGuild(world: World, name: string): Guild {
  const id = world.id();
  const owner = addUser(world, `${name}-owner`, false);
  const everyone: Role = { id, name: '@everyone', permissions: EVERYONE, mentionable: false, position: 0 };
  const botRole = world.id();
  const own: Role = {
    id: botRole,
    name: 'conch',
    permissions: world.options.permissions,
    mentionable: false,
    position: 1,
  };
  const joinedAt = world.now();
  const guild: Guild = {
    id,
    name,
    owner: owner.id,
    roles: new Map([everyone, own].map((role) => [role.id, role])),
    members: new Map([
      [owner.id, { user: owner.id, nick: null, roles: [], joinedAt }],
      [world.bot.id, { user: world.bot.id, nick: null, roles: [botRole], joinedAt }],
    ]),
    commands: [],
    joined: true,
  };
  world.guilds.set(id, guild);
  return guild;
}

export function addUser(world: World, name: string, bot: boolean): User {
  const user: User = { id: world.id(), name, globalName: null, bot };
  world.users.set(user.id, user);
  return user;
}

export function addChannel(
  world: World,
  where: {
    readonly guild: string;
    readonly name: string;
    readonly type?: ChannelType;
    readonly parent?: string;
    readonly owner?: string;
    readonly id?: string;
  },
): Channel {
  const channel: Channel = {
    id: where.id ?? world.id(),
    guild: where.guild,
    type: where.type ?? ChannelType.GuildText,
    name: where.name,
    parent: where.parent ?? null,
    owner: where.owner ?? null,
    overwrites: [],
    archived: false,
    locked: false,
    archivedAt: world.now(),
    messages: [],
    lastMessage: null,
  };
  world.channels.set(channel.id, channel);
  return channel;
}

/** Returns the value. Throws when the value is null or undefined: the test names a missing thing. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`no such ${what} in the loopback Discord`);
  return value;
}

function snowflakes(now: () => number): () => string {
  let lastMs = 0;
  let count = 0;
  return () => {
    const ms = Math.max(now() - EPOCH_MS, lastMs);
    count = ms === lastMs ? count + 1 : 0;
    lastMs = count > 0xfff ? ms + 1 : ms;
    if (count > 0xfff) count = 0;
    return ((BigInt(lastMs) << 22n) | BigInt(count)).toString();
  };
}
