import { PermissionFlagsBits, Routes } from 'discord.js';
import { z } from 'zod';
import { channelId } from './ids.ts';
import type { Calls } from './calls.ts';
import type { DiscordSettings, Self } from './client.ts';

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
