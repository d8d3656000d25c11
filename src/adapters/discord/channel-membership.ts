import { PermissionFlagsBits, Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import { ChannelAccess } from '../delivery/channel-access.ts';
import type { ChannelAccessPorts } from '../delivery/channel-access.ts';
import type { FloorQueries, Place } from '../port.ts';
import { CODES, rejectionOf, channelId, platformChannel } from './client.ts';
import type { Calls, DiscordSettings, Reader, Self } from './client.ts';
import { memberSchema } from './parse-message.ts';
import { describe, isThread, channelSchema as placeSchema } from './places.ts';
import type { ChannelPayload, Places } from './places.ts';

/** Dependencies of `ChannelMembership`. */
export type ChannelMembershipPorts = Pick<ChannelAccessPorts, 'intake' | 'reopened' | 'timers' | 'signal' | 'log'> & {
  readonly read: Reader;
  readonly places: Places;
  readonly queries: FloorQueries;
  /** Returns the permissions that Conch needs in a channel and lacks. Rejects with a `ChatError`, or when aborted. */
  readonly readMissing: (channel: string, guildAnswers?: GuildAnswers) => Promise<readonly PermissionName[]>;
};

/** Discord's answers about roles and members of guilds, by the route of the request. */
export type GuildAnswers = Map<string, Promise<unknown>>;

type ChangedPlace = { readonly guild: string } | { readonly channel: string };

const CLOSED: ReadonlyMap<number, string> = new Map([
  [CODES.unknownChannel, 'the channel does not exist'],
  [CODES.missingAccess, 'the bot may not see this channel'],
  [CODES.missingPermissions, 'the bot may not write in this channel'],
]);
/**
 * Permissions whose lack is only a warning. Without one, agents post as the bot, or have no roles, receipts or files.
 */
export const OPTIONAL_PERMISSIONS: ReadonlySet<PermissionName> = new Set<PermissionName>([
  'Manage Webhooks',
  'Manage Roles',
  'Add Reactions',
  'Attach Files',
]);

/** Calls `work` for each item. Starts eight calls, and the next eight when all of these have ended. */
export async function eightAtOnce<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let first = 0; first < items.length; first += 8) await Promise.all(items.slice(first, first + 8).map(work));
}

/** Tracks which channels and threads the bot can use, and suspends or restores their floors. */
export class ChannelMembership extends ChannelAccess {
  readonly #places: Places;
  readonly #floors: () => readonly Place[];
  readonly #reopened: (channel: ChannelId) => void;
  readonly #sharedAnswers: SharedAnswers;

  constructor(ports: ChannelMembershipPorts) {
    const sharedAnswers: SharedAnswers = { guildAnswers: null };
    super({
      ...ports,
      ask: (channel) => ask(ports, channel, sharedAnswers.guildAnswers),
      whyClosed,
      floorsOf: (channel) => [channel],
    });
    this.#sharedAnswers = sharedAnswers;
    this.#places = ports.places;
    this.#reopened = ports.reopened;
    this.#floors = () => ports.queries.channels();
  }

  /** Checks every channel with a floor: whether it exists, and which permissions the bot lacks. Never rejects. */
  async checkAll(): Promise<void> {
    const floors = this.#floors();
    const guildAnswers: GuildAnswers = new Map();
    this.#sharedAnswers.guildAnswers = guildAnswers;
    await eightAtOnce(floors, ({ id }) => this.check(id));
    if (this.#sharedAnswers.guildAnswers === guildAnswers) this.#sharedAnswers.guildAnswers = null;
  }

  /** Closes every channel for which `matches` returns true: suspends its floor. `why` is shown to people. */
  closeAll(matches: (channel: ChannelId, parent: ChannelId | null) => boolean, why: string): void {
    for (const { id, parent } of this.#floors()) if (matches(id, parent)) this.close(id, why);
  }

  /**
   * Called when permissions may have changed. Checks closed channels again; in the others, refused calls can be tried
   * again.
   */
  changed(at: ChangedPlace): void {
    this.#sharedAnswers.guildAnswers = null;
    for (const floor of this.#floors().filter((each) => isAt(at, each, this.#places))) {
      if (this.isClosed(floor.id)) void this.check(floor.id);
      else this.#reopened(floor.id);
    }
  }
}

type SharedAnswers = { guildAnswers: GuildAnswers | null };

async function ask(
  { read, places, readMissing, log }: ChannelMembershipPorts,
  channel: ChannelId,
  guildAnswers: GuildAnswers | null,
): Promise<string | null> {
  const payload = await describe(read, platformChannel(channel));
  places.learn(payload);
  const lacks = await readMissing(platformChannel(channel), guildAnswers ?? undefined);
  if (lacks.length > 0) {
    const level = lacks.every((name) => OPTIONAL_PERMISSIONS.has(name)) ? 'warn' : 'error';
    log[level]({ channel, missing: lacks }, 'the bot lacks permissions in this channel');
  }
  return isClosedThread(payload) ? 'the thread was closed' : whyWithout(lacks, payload);
}

function isAt(
  at: ChangedPlace,
  { id, parent }: { readonly id: ChannelId; readonly parent: ChannelId | null },
  places: Places,
): boolean {
  if ('guild' in at) return places.guildOf(platformChannel(parent ?? id)) === at.guild;
  return [id, parent].includes(channelId(at.channel)) || places.parentOf(platformChannel(id)) === at.channel;
}

function whyClosed(error: unknown): string | null {
  if (!(error instanceof ChatError) || error.fault !== 'refused') return null;
  return CLOSED.get(rejectionOf(error)?.code ?? 0) ?? null;
}

function whyWithout(missing: readonly PermissionName[], place: ChannelPayload): string | null {
  const lacks = missing.filter((name) => name === 'View Channels' || name === writing(place));
  return lacks.length === 0 ? null : `the bot lacks the permission ${lacks.map((name) => `"${name}"`).join(' and ')}`;
}

/** Returns the permission to write in a place. "Send Messages" has no effect in threads. */
function writing(place: ChannelPayload): PermissionName {
  return isThread(place) ? 'Send Messages in Threads' : 'Send Messages';
}

function isClosedThread({ thread_metadata: state }: ChannelPayload): boolean {
  return state?.archived === true && state.locked;
}

/** The name of a permission, as Discord's own pages show it. */
export type PermissionName = keyof typeof PERMISSIONS;

/** The permissions that Conch uses, with their bits. */
export const PERMISSIONS = {
  'View Channels': PermissionFlagsBits.ViewChannel,
  'Send Messages': PermissionFlagsBits.SendMessages,
  'Send Messages in Threads': PermissionFlagsBits.SendMessagesInThreads,
  'Read Message History': PermissionFlagsBits.ReadMessageHistory,
  'Add Reactions': PermissionFlagsBits.AddReactions,
  'Attach Files': PermissionFlagsBits.AttachFiles,
  'Manage Webhooks': PermissionFlagsBits.ManageWebhooks,
  'Manage Roles': PermissionFlagsBits.ManageRoles,
  'Create Public Threads': PermissionFlagsBits.CreatePublicThreads,
} as const;
const NAMES = Object.keys(PERMISSIONS) as readonly PermissionName[];

/** Settings that need permissions. `crews`: whether a crew opens threads; default: false. */
export type PermissionNeeds = Pick<DiscordSettings, 'webhooks' | 'roles'> & { readonly crews?: boolean };

/** Returns the permissions that the settings need. */
export function neededPermissions({ webhooks, roles, crews = false }: PermissionNeeds): readonly PermissionName[] {
  const isNeeded: Partial<Record<PermissionName, boolean>> = {
    'Manage Webhooks': webhooks,
    'Manage Roles': roles,
    'Create Public Threads': crews,
  };
  return NAMES.filter((name) => isNeeded[name] ?? true);
}

const bits = z.string().regex(/^\d+$/);
const overwriteSchema = z.object({ id: z.string(), allow: bits, deny: bits });
const channelSchema = placeSchema.extend({ permission_overwrites: z.array(overwriteSchema).catch([]) });
const rolesSchema = z.array(z.object({ id: z.string(), permissions: bits }));

type MemberContext = {
  readonly guild: string;
  readonly userId: string;
  readonly roles: readonly string[];
  readonly guildRoles: z.infer<typeof rolesSchema>;
  readonly overwrites: z.infer<typeof channelSchema>['permission_overwrites'];
};

/** Returns the needed permissions that a member lacks in a channel. A member who cannot see the channel lacks all. */
export function missingPermissions(
  member: MemberContext,
  needed: readonly PermissionName[],
): readonly PermissionName[] {
  const allowed = permissionsOf(member);
  if ((allowed & PermissionFlagsBits.Administrator) !== 0n) return [];
  const isHidden = (allowed & PermissionFlagsBits.ViewChannel) === 0n;
  return needed.filter((name) => isHidden || (allowed & PERMISSIONS[name]) === 0n);
}

/** The bot's missing permissions in one channel. `name` is the channel's name, `null` when Discord gives none. */
export type ChannelPermissions = {
  readonly missing: readonly PermissionName[];
  readonly name: string | null;
  /** Discord's number of the channel type. */
  readonly type: number;
};

const NO_FEATURES = { webhooks: false, roles: false };

/**
 * Returns the permissions that the bot lacks in a channel or thread; none outside a guild. A thread has the permissions
 * of its channel. Without `settings`, webhooks and roles count as switched off. `guildAnswers`: earlier answers of Discord to
 * reuse. Rejects with a `ChatError`, whose fault is `refused` when the bot cannot see the channel.
 */
export async function channelPermissions(
  at: { readonly calls: Calls; readonly self: Self },
  channelSnowflake: string,
  settings: PermissionNeeds = NO_FEATURES,
  guildAnswers: GuildAnswers = new Map(),
): Promise<ChannelPermissions> {
  const { calls, self } = at;
  const call = {
    method: 'get',
    channel: channelId(channelSnowflake),
    what: 'read permissions',
    callerRetries: true,
  } as const;
  const get = <T>(route: `/${string}`, answer: z.ZodType<T>): Promise<T> => calls.ask({ ...call, route }, answer);
  const channel = await get(Routes.channel(channelSnowflake), channelSchema);
  const { guild_id: guild, parent_id: parent, type } = channel;
  const name = channel.name ?? null;
  if (typeof guild !== 'string') return { missing: [], name, type };
  const hasParent = isThread(channel) && typeof parent === 'string';
  const rules = hasParent ? await get(Routes.channel(parent), channelSchema) : channel;
  const getOnce = <T>(route: `/${string}`, answer: z.ZodType<T>): Promise<T> => {
    const pending = guildAnswers.get(route) ?? get(route, answer);
    guildAnswers.set(route, pending);
    pending.catch(() => guildAnswers.delete(route));
    return pending.then((value) => answer.parse(value));
  };
  const guildRoles = await getOnce(Routes.guildRoles(guild), rolesSchema);
  const { roles } = await getOnce(Routes.guildMember(guild, self.userId), memberSchema);
  const member = { guild, userId: self.userId, roles, guildRoles, overwrites: rules.permission_overwrites };
  const needed = neededPermissions(settings).filter((each) => each !== 'Send Messages' || each === writing(channel));
  return { missing: missingPermissions(member, needed), name, type };
}

/** Returns the permission bits of a member in a channel. The @everyone role has the id of its guild. */
function permissionsOf({ guild, userId, roles, guildRoles, overwrites }: MemberContext): bigint {
  const memberRoles = new Set([guild, ...roles]);
  let allowed = guildRoles
    .filter(({ id }) => memberRoles.has(id))
    .reduce((sum, role) => sum | BigInt(role.permissions), 0n);
  const steps = [
    overwrites.filter(({ id }) => id === guild),
    overwrites.filter(({ id }) => id !== guild && roles.includes(id)),
    overwrites.filter(({ id }) => id === userId),
  ];
  for (const step of steps) {
    for (const { deny } of step) allowed &= ~BigInt(deny);
    for (const { allow } of step) allowed |= BigInt(allow);
  }
  return allowed;
}
