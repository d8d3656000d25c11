import { PermissionFlagsBits } from 'discord.js';
import type { z } from 'zod';
import { guildOf, may } from './state-permissions.ts';
import type { allowedMentions } from './rest-body.ts';
import type { Channel, Pings, User, World } from './state.ts';

export type AllowedMentions = z.output<typeof allowedMentions>;

/** The author of a text with mentions. A webhook may ping @everyone and all roles. */
export type Voice = { readonly user: string; readonly webhook: boolean };

export const NO_PINGS: Pings = { everyone: false, users: [], roles: [] };

/** Returns everyone whom a text mentions, limited by `allowed_mentions` and the author's permissions. */
export function mentioned(
  world: World,
  channel: Channel,
  said: {
    readonly text: string;
    readonly allowed: AllowedMentions | undefined;
    readonly voice: Voice;
    readonly repliedTo: User | null;
  },
): Pings {
  const { text, allowed, voice, repliedTo } = said;
  const guild = guildOf(world, channel);
  const mighty =
    voice.webhook || may(world, channel, { user: voice.user, permission: PermissionFlagsBits.MentionEveryone });
  const passes = (kind: 'users' | 'roles', id: string) =>
    allowed === undefined || (allowed.parse?.includes(kind) ?? false) || (allowed[kind]?.includes(id) ?? false);
  const all = allowed === undefined || (allowed.parse?.includes('everyone') ?? false);
  const users = ids(text, /<@!?(\d+)>/gu).filter((id) => world.users.has(id) && passes('users', id));
  const roles = ids(text, /<@&(\d+)>/gu).filter(
    (id) => passes('roles', id) && guild.roles.has(id) && (mighty || guild.roles.get(id)?.mentionable === true),
  );
  const replied = repliedTo !== null && (allowed === undefined || allowed.replied_user === true) ? [repliedTo.id] : [];
  return {
    everyone: all && mighty && /@(?:everyone|here)/u.test(text),
    users: [...new Set([...users, ...replied])],
    roles,
  };
}

/** Returns the text without code, because Discord ignores mentions in code. */
export function withoutCode(text: string): string {
  return text.replaceAll(/```[\s\S]*?```|`[^`\n]+`/gu, ' ');
}

export function both(a: Pings, b: Pings): Pings {
  return {
    everyone: a.everyone || b.everyone,
    users: [...new Set([...a.users, ...b.users])],
    roles: [...new Set([...a.roles, ...b.roles])],
  };
}

function ids(text: string, pattern: RegExp): readonly string[] {
  return [...new Set([...text.matchAll(pattern)].flatMap(([, id]) => (id === undefined ? [] : [id])))];
}
