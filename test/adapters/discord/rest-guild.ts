import { GatewayIntentBits, PermissionFlagsBits } from 'discord.js';
import { z } from 'zod';
import { checked } from './rest-body.ts';
import { Refusal, refusals } from './rest-errors.ts';
import { NOTHING, guildAt, ok, param } from './rest-route.ts';
import type { Call, Reply, Route } from './rest-route.ts';
import { guildPermissions } from './state-permissions.ts';
import { shortGuild, wireApplication } from './state-wire-guild.ts';
import { isThread, wireChannel, wireMember, wireRole, wireUser } from './state-wire.ts';
import type { Command, Guild, Json, Role, World } from './state.ts';

const GUILD = '/guilds/:guild';
const COMMANDS = '/applications/:application/guilds/:guild/commands';
const GLOBAL = '/applications/:application/commands';
const MAX_COMMANDS = 100;

export const guildRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/users/@me', act: ({ world }) => ok(wireUser(world.bot)) },
  {
    method: 'GET',
    pattern: '/users/@me/guilds',
    act: ({ world }) => ok(joinedGuilds(world).map((guild) => shortGuild(world, guild))),
  },
  { method: 'GET', pattern: '/users/:user', act: user },
  { method: 'GET', pattern: '/applications/@me', act: ({ world }) => ok(wireApplication(world)) },
  { method: 'GET', pattern: '/oauth2/applications/@me', act: ({ world }) => ok(wireApplication(world)) },
  { method: 'GET', pattern: GUILD, act: (call) => ok(shortGuild(call.world, guildAt(call))) },
  { method: 'GET', pattern: `${GUILD}/channels`, act: (call) => ok(channels(call, false)) },
  {
    method: 'GET',
    pattern: `${GUILD}/threads/active`,
    act: (call) => ok({ threads: channels(call, true), members: [] }),
  },
  { method: 'GET', pattern: `${GUILD}/members/:user`, act: member },
  { method: 'GET', pattern: `${GUILD}/members`, act: members },
  { method: 'GET', pattern: `${GUILD}/roles`, act: (call) => ok([...guildAt(call).roles.values()].map(wireRole)) },
  { method: 'POST', pattern: `${GUILD}/roles`, act: createRole },
  { method: 'PATCH', pattern: `${GUILD}/roles/:role`, act: changeRole },
  { method: 'DELETE', pattern: `${GUILD}/roles/:role`, act: deleteRole },
  { method: 'GET', pattern: COMMANDS, act: (call) => ok(guildAt(call).commands.map(({ wire }) => wire)) },
  { method: 'PUT', pattern: COMMANDS, act: putCommands },
  { method: 'GET', pattern: GLOBAL, act: ({ world }) => ok(world.globalCommands.map(({ wire }) => wire)) },
  { method: 'PUT', pattern: GLOBAL, act: putGlobal },
];

const option = z.looseObject({
  type: z.int().min(1).max(11),
  name: z.string().regex(/^[-_'\p{L}\p{N}]{1,32}$/u),
  description: z.string().min(1).max(100),
  required: z.boolean().optional(),
  autocomplete: z.boolean().optional(),
  choices: z
    .array(z.looseObject({ name: z.string().min(1).max(100), value: z.union([z.string().max(100), z.number()]) }))
    .max(25)
    .optional(),
  get options() {
    return z.array(option).max(25).optional();
  },
});
const command = z.looseObject({
  name: z.string().regex(/^[-_'\p{L}\p{N}]{1,32}$/u),
  description: z.string().min(1).max(100),
  type: z.literal(1).optional(),
  options: z.array(option).max(25).optional(),
  default_member_permissions: z.string().nullish(),
});

/** Creates a role and sends its event. */
export function addRole(
  world: World,
  guild: Guild,
  wanted: Pick<Role, 'name' | 'permissions' | 'mentionable' | 'color'>,
): Role {
  const role: Role = { id: world.id(), ...wanted, position: 1 };
  guild.roles.set(role.id, role);
  tellRole(world, guild, 'GUILD_ROLE_CREATE', { guild_id: guild.id, role: wireRole(role) });
  return role;
}

function joinedGuilds(world: World): readonly Guild[] {
  return [...world.guilds.values()].filter(({ joined }) => joined);
}

function user(call: Call): Reply {
  const known = call.world.users.get(param(call, 'user'));
  if (known === undefined) throw refusals.unknownUser();
  return ok(wireUser(known));
}

function channels(call: Call, threads: boolean): readonly Json[] {
  const guild = guildAt(call);
  const all = [...call.world.channels.values()].filter((channel) => channel.guild === guild.id);
  return all.filter((channel) => isThread(channel) === threads && !channel.archived).map(wireChannel);
}

function member(call: Call): Reply {
  const guild = guildAt(call);
  const id = param(call, 'user') === '@me' ? call.world.bot.id : param(call, 'user');
  if (!call.world.users.has(id)) throw refusals.unknownUser();
  const known = guild.members.get(id);
  if (known === undefined) throw refusals.unknownMember();
  return ok(wireMember(call.world, known));
}

function members(call: Call): Reply {
  if (!call.world.options.membersIntent) throw refusals.missingAccess();
  return ok([...guildAt(call).members.values()].map((one) => wireMember(call.world, one)));
}

const roleBody = z.looseObject({
  name: z.string().max(100).optional(),
  permissions: z.string().regex(/^\d+$/u).optional(),
  mentionable: z.boolean().optional(),
  color: z.int().min(0).max(0xffffff).optional(),
});

function createRole(call: Call): Reply {
  const { world, body } = call;
  const guild = guildAt(call);
  needRoles(world, guild);
  const { name = 'new role', permissions, mentionable = false, color = 0 } = checked(roleBody, body.json);
  const everyone = guild.roles.get(guild.id)?.permissions ?? 0n;
  const wanted = permissions === undefined ? everyone : BigInt(permissions);
  const own = guildPermissions(guild, world.bot.id);
  if ((wanted & ~own & ~everyone) !== 0n) throw refusals.missingPermissions();
  return ok(wireRole(addRole(world, guild, { name, permissions: wanted, mentionable, color })));
}

function changeRole(call: Call): Reply {
  const { world, body } = call;
  const guild = guildAt(call);
  needRoles(world, guild);
  const role = guild.roles.get(param(call, 'role'));
  if (role === undefined) throw refusals.unknownRole();
  const wanted = checked(roleBody, body.json);
  role.name = wanted.name ?? role.name;
  role.mentionable = wanted.mentionable ?? role.mentionable;
  role.color = wanted.color ?? role.color ?? 0;
  role.permissions = wanted.permissions === undefined ? role.permissions : BigInt(wanted.permissions);
  tellRole(world, guild, 'GUILD_ROLE_UPDATE', { guild_id: guild.id, role: wireRole(role) });
  return ok(wireRole(role));
}

function deleteRole(call: Call): Reply {
  const { world } = call;
  const guild = guildAt(call);
  needRoles(world, guild);
  const id = param(call, 'role');
  if (!guild.roles.delete(id)) throw refusals.unknownRole();
  for (const one of guild.members.values()) one.roles = one.roles.filter((role) => role !== id);
  tellRole(world, guild, 'GUILD_ROLE_DELETE', { guild_id: guild.id, role_id: id });
  return NOTHING;
}

function needRoles(world: World, guild: Guild): void {
  if ((guildPermissions(guild, world.bot.id) & PermissionFlagsBits.ManageRoles) === 0n)
    throw refusals.missingPermissions();
}

function tellRole(world: World, guild: Guild, t: string, told: Json): void {
  world.tell({ guild: guild.id, intent: GatewayIntentBits.Guilds, t, render: () => told });
}

function putCommands(call: Call): Reply {
  const guild = guildAt(call);
  if (param(call, 'application') !== call.world.application)
    throw new Refusal(403, 20_012, 'You are not authorized to perform this action on this application');
  guild.commands = registered(call, guild.commands, guild.id);
  return ok(guild.commands.map(({ wire }) => wire));
}

function putGlobal(call: Call): Reply {
  call.world.globalCommands = registered(call, call.world.globalCommands, null);
  return ok(call.world.globalCommands.map(({ wire }) => wire));
}

/** Returns the commands of the body, which replace `before`. A command with the same name keeps its id. */
function registered(call: Call, before: readonly Command[], guild: string | null): Command[] {
  const { world } = call;
  const wanted = checked(z.array(command).max(MAX_COMMANDS), call.body.json);
  return wanted.map((one) => {
    const id = before.find(({ name }) => name === one.name)?.id ?? world.id();
    const wire: Json = {
      ...one,
      id,
      type: 1,
      version: world.id(),
      application_id: world.application,
      default_member_permissions: one.default_member_permissions ?? null,
      ...(guild === null ? {} : { guild_id: guild }),
    };
    return { id, name: one.name, options: one.options ?? [], wire };
  });
}
