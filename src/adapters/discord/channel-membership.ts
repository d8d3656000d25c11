import type { Logger } from 'pino';
import { PermissionFlagsBits, Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { delay } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import type { FloorQueries, Intake, Place } from '../port.ts';
import { CODES, rejectionOf, wordsOf } from './errors.ts';
import { channelId, platformChannel } from './client.ts';
import type { Calls, DiscordSettings, Reader, Self } from './client.ts';
import { describe } from './places.ts';
import type { ChannelPayload, Places } from './places.ts';

/** What watching over membership in channels needs. */
export type ChannelMembershipPorts = {
  readonly read: Reader;
  readonly places: Places;
  readonly queries: FloorQueries;
  readonly intake: Pick<Intake, 'suspend' | 'restore'>;
  /** The permissions that Conch needs in a channel and does not have. Rejects with a `ChatError`. */
  readonly missing: (channel: string) => Promise<readonly PermissionName[]>;
  /** The channel can be used again: what was refused there may be tried again. */
  readonly reopened: (channel: ChannelId) => void;
  readonly timers: Timers;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/** Where in Discord something changed. */
export type Whereat = { readonly guild: string } | { readonly channel: string };

/** Changes of permissions are not always told: a channel that refused the bot is looked at again after so long. */
export const LOOK_AGAIN_MS = 660_000;

const MISSING_ACCESS = 50_001;
const MISSING_PERMISSIONS = 50_013;
const CLOSED: ReadonlyMap<number, string> = new Map([
  [CODES.unknownChannel, 'the channel is not there'],
  [MISSING_ACCESS, 'the bot may not see this channel'],
  [MISSING_PERMISSIONS, 'the bot may not write in this channel'],
]);
/** Without these there is no floor; without others there is a lesser one. */
const NEEDED: ReadonlySet<PermissionName> = new Set<PermissionName>(['View Channels', 'Send Messages']);

/** Without these agents speak as the bot, or cannot be mentioned with @. */
const OPTIONAL: ReadonlySet<PermissionName> = new Set<PermissionName>(['Manage Webhooks', 'Manage Roles']);

/**
 * Knows which channels the bot can use. One that it cannot use is suspended until that changes. Watches over the configured
 * channels and their threads.
 */
export class ChannelMembership {
  readonly #ports: ChannelMembershipPorts;
  readonly #closed = new Set<ChannelId>();
  /** Channels that are looked at again after a while. */
  readonly #awaited = new Set<ChannelId>();

  constructor(ports: ChannelMembershipPorts) {
    this.#ports = ports;
  }

  /** Looks at every channel with a floor: whether it is there, and what the bot lacks. Never rejects. */
  async check(): Promise<void> {
    for (const { id } of this.#floors()) await this.#look(id);
  }

  /** Suspends the channels that a test names, and says why. */
  close(is: (channel: ChannelId, parent: ChannelId | null) => boolean, why: string): void {
    for (const { id, parent } of this.#floors()) if (is(id, parent)) this.#suspend(id, why);
  }

  /** A call for the channel failed: if that means that it is closed to the bot, it is suspended. */
  failed(channel: ChannelId, error: unknown): void {
    const why = whyClosed(error);
    if (why === null) return;
    this.#suspend(channel, why);
    this.#lookLater(channel);
  }

  /** What the bot may do there may have changed: channels that are suspended are looked at again. */
  changed(at: Whereat): void {
    for (const floor of this.#floors()) {
      if (this.#closed.has(floor.id) && isAt(at, floor, this.#ports.places)) void this.#look(floor.id);
    }
  }

  #floors(): readonly Place[] {
    return this.#ports.queries.channels();
  }

  #suspend(channel: ChannelId, why: string): void {
    this.#closed.add(channel);
    this.#ports.intake.suspend(channel, why);
  }

  async #look(channel: ChannelId): Promise<void> {
    const { read, places, missing, reopened, intake, log } = this.#ports;
    try {
      const found = await describe(read, platformChannel(channel));
      places.learn(found);
      const lacks = await missing(platformChannel(channel));
      if (lacks.length > 0) {
        const level = lacks.every((name) => OPTIONAL.has(name)) ? 'warn' : 'error';
        log[level]({ channel, missing: lacks }, 'the bot lacks permissions in this channel');
      }
      const why = isClosedThread(found) ? 'the thread was closed' : whyWithout(lacks);
      if (why === null) {
        if (this.#closed.delete(channel)) reopened(channel);
        return intake.restore(channel);
      }
      this.#suspend(channel, why);
    } catch (error) {
      this.failed(channel, error);
      log.warn({ channel, why: wordsOf(error) }, 'a channel could not be looked at');
    }
    this.#lookLater(channel);
  }

  #lookLater(channel: ChannelId): void {
    if (this.#awaited.has(channel)) return;
    this.#awaited.add(channel);
    const again = async (): Promise<void> => {
      await delay(LOOK_AGAIN_MS, this.#ports);
      this.#awaited.delete(channel);
      if (this.#closed.has(channel)) await this.#look(channel);
    };
    again().catch(() => this.#awaited.delete(channel));
  }
}

function isAt(
  at: Whereat,
  { id, parent }: { readonly id: ChannelId; readonly parent: ChannelId | null },
  places: Places,
): boolean {
  if ('guild' in at) return places.guildOf(platformChannel(parent ?? id)) === at.guild;
  return [id, parent].includes(channelId(at.channel));
}

function whyClosed(error: unknown): string | null {
  if (!(error instanceof ChatError) || error.fault !== 'refused') return null;
  return CLOSED.get(rejectionOf(error)?.code ?? 0) ?? null;
}

function whyWithout(missing: readonly PermissionName[]): string | null {
  const lacks = missing.filter((name) => NEEDED.has(name));
  return lacks.length === 0 ? null : `the bot lacks the permission ${lacks.map((name) => `"${name}"`).join(' and ')}`;
}

function isClosedThread({ thread_metadata: state }: ChannelPayload): boolean {
  return state?.archived === true && state.locked;
}

/** Permissions by the names that Discord's own pages show. */
export type PermissionName = keyof typeof PERMISSIONS;

/** Every permission that Conch can use, and its bit. */
export const PERMISSIONS = {
  'View Channels': PermissionFlagsBits.ViewChannel,
  'Send Messages': PermissionFlagsBits.SendMessages,
  'Send Messages in Threads': PermissionFlagsBits.SendMessagesInThreads,
  'Read Message History': PermissionFlagsBits.ReadMessageHistory,
  'Add Reactions': PermissionFlagsBits.AddReactions,
  'Attach Files': PermissionFlagsBits.AttachFiles,
  'Manage Webhooks': PermissionFlagsBits.ManageWebhooks,
  'Manage Roles': PermissionFlagsBits.ManageRoles,
} as const;

/** Which permissions the settings need: the least with which everything that is switched on works. */
export function neededPermissions(settings: Pick<DiscordSettings, 'webhooks' | 'roles'>): readonly PermissionName[] {
  const always = [
    'View Channels',
    'Send Messages',
    'Send Messages in Threads',
    'Read Message History',
    'Add Reactions',
    'Attach Files',
  ] as const;
  return [
    ...always,
    ...(settings.webhooks ? ['Manage Webhooks' as const] : []),
    ...(settings.roles ? ['Manage Roles' as const] : []),
  ];
}

/** What Discord says of a channel, as far as it decides about permissions. */
export type ChannelRules = z.infer<typeof channelSchema>;

const bits = z.string().regex(/^\d+$/);
const overwriteSchema = z.object({ id: z.string(), allow: bits, deny: bits });
const channelSchema = z.object({
  id: z.string(),
  type: z.number(),
  name: z.string().nullish(),
  guild_id: z.string().nullish(),
  parent_id: z.string().nullish(),
  permission_overwrites: z.array(overwriteSchema).catch([]),
});
const rolesSchema = z.array(z.object({ id: z.string(), permissions: bits }));
const memberSchema = z.object({ roles: z.array(z.string()) });

/** What a member may do in a channel. */
export type MemberContext = {
  readonly guild: string;
  readonly userId: string;
  /** The member's own roles. */
  readonly roles: readonly string[];
  readonly guildRoles: z.infer<typeof rolesSchema>;
  readonly overwrites: ChannelRules['permission_overwrites'];
};

/** Which of the needed permissions a member lacks in a channel, computed as Discord does. */
export function missingPermissions(
  member: MemberContext,
  needed: readonly PermissionName[],
): readonly PermissionName[] {
  const allowed = computed(member);
  if ((allowed & PermissionFlagsBits.Administrator) !== 0n) return [];
  const isHidden = (allowed & PermissionFlagsBits.ViewChannel) === 0n;
  return needed.filter((name) => isHidden || (allowed & PERMISSIONS[name]) === 0n);
}

/** What one channel lacks, and what it is called; `name` is `null` when Discord does not tell. */
export type ChannelPermissions = {
  readonly missing: readonly PermissionName[];
  readonly name: string | null;
  /** Discord's number for what kind of channel it is. */
  readonly type: number;
};

const THREADS: ReadonlySet<number> = new Set([10, 11, 12]);
const BARE = { webhooks: false, roles: false };

/**
 * What the bot lacks in a channel or thread; a thread has the permissions of its channel. Without settings only what no
 * setting can do without. Rejects with a `ChatError`, `refused` when the bot cannot see the channel at all.
 */
export async function channelPermissions(
  at: { readonly calls: Calls; readonly self: Self },
  channelSnowflake: string,
  settings: Pick<DiscordSettings, 'webhooks' | 'roles'> = BARE,
): Promise<ChannelPermissions> {
  const { calls, self } = at;
  const call = {
    method: 'get',
    channel: channelId(channelSnowflake),
    what: 'read permissions',
    isTriedAgain: true,
  } as const;
  const get = <T>(route: `/${string}`, answer: z.ZodType<T>): Promise<T> => calls.ask({ ...call, route }, answer);
  const channel = await get(Routes.channel(channelSnowflake), channelSchema);
  const { guild_id: guild, parent_id: parent, type } = channel;
  const name = channel.name ?? null;
  if (typeof guild !== 'string') return { missing: [], name, type };
  const isThread = THREADS.has(type) && typeof parent === 'string';
  const rules = isThread ? await get(Routes.channel(parent), channelSchema) : channel;
  const guildRoles = await get(Routes.guildRoles(guild), rolesSchema);
  const { roles } = await get(Routes.guildMember(guild, self.userId), memberSchema);
  const member = { guild, userId: self.userId, roles, guildRoles, overwrites: rules.permission_overwrites };
  return { missing: missingPermissions(member, neededPermissions(settings)), name, type };
}

/** The role of everybody has the id of its guild. */
function computed({ guild, userId, roles, guildRoles, overwrites }: MemberContext): bigint {
  const own = new Set([guild, ...roles]);
  let allowed = guildRoles.filter(({ id }) => own.has(id)).reduce((sum, role) => sum | BigInt(role.permissions), 0n);
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
