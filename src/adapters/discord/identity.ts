import { createHash } from 'node:crypto';
import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { FloorQueries, Memory, Speaker } from '../port.ts';
import type { Webhooks } from './webhooks.ts';
import type { Calls, Self } from './client.ts';
import { wordsOf } from './errors.ts';

/** Who is who on Discord, by ids; names count only in messages that are known to be Conch's own. */
export type Identities = {
  /** Whether this webhook (or application) is Conch's own, so that its messages are echoes. */
  isOwnWebhook(webhookId: string): boolean;
  /** The agent whose mentionable role this is. */
  agentOfRole(roleId: string): AgentId | null;
  /**
   * The agent that one of Conch's own messages shows as its author: by the shown name (webhook), or by the "**name**: "
   * prefix of a fall-back post. `null` for Conch itself, and when two agents go by that name.
   */
  agentOfPost(post: {
    readonly shownName: string;
    readonly content: string;
    readonly byWebhook: boolean;
  }): AgentId | null;
};

/** What tells identities. */
type IdentityPorts = {
  readonly calls: Calls;
  readonly self: Self;
  readonly queries: Pick<FloorQueries, 'agents'>;
  readonly webhooks: Pick<Webhooks, 'isOwn'>;
  readonly memory: Memory;
  readonly log: Logger;
};

/** The identities of the agents of the configuration. Each has a role that people can mention; nobody has it, and it allows nothing. */
type OwnIdentities = Identities & {
  /** Makes the roles that a guild lacks. Never rejects: a guild where that fails goes without. */
  ensureRoles(guild: string, channel: ChannelId): Promise<void>;
};

const roleSchema = z.object({ id: z.string() });
const listedSchema = z.object({
  id: z.string(),
  name: z.string(),
  color: z.number(),
  permissions: z.string(),
  mentionable: z.boolean(),
  hoist: z.boolean(),
});
type Listed = z.infer<typeof listedSchema>;
const rolesSchema = z.array(z.unknown());

/** Roles are known by the ids that were remembered when they were made, and by their mark, which outlives the data folder. */
export function createIdentities(ports: IdentityPorts): OwnIdentities {
  const { queries, webhooks, log } = ports;
  const agents = new Map<string, AgentId>();
  return {
    isOwnWebhook: (webhookId) => webhooks.isOwn(webhookId),
    agentOfRole: (roleId) => agents.get(roleId) ?? null,
    agentOfPost({ shownName, content, byWebhook }) {
      const fitting = queries
        .agents()
        .filter((agent) => (byWebhook ? sameName(usernameOf(agent), shownName) : content.startsWith(prefixOf(agent))));
      const [only] = fitting;
      return only !== undefined && fitting.length === 1 ? only.id : null;
    },
    async ensureRoles(guild, channel) {
      try {
        const route = Routes.guildRoles(guild);
        const listed = await ports.calls.ask({ method: 'get', route, channel, what: 'list roles' }, rolesSchema);
        const there = listed.flatMap((role) => listedSchema.safeParse(role).data ?? []);
        const where = { guild, channel, mark: markOf(ports.self) };
        for (const agent of queries.agents()) agents.set(await roleOf(ports, where, { agent, there }), agent.id);
        for (const { id, ...role } of there) {
          if (agents.has(id) || !isMarked(role, where.mark)) continue;
          await ports.calls.tell({
            method: 'delete',
            route: Routes.guildRole(guild, id),
            channel,
            what: 'delete a role',
          });
        }
      } catch (error) {
        log.warn({ channel, why: wordsOf(error) }, 'agents have no roles to mention');
      }
    },
  };
}

type Named = NonNullable<Speaker>;

/** The longest name under which a webhook may speak, in UTF-16 units. */
const NAME_LIMIT = 80;
const EMOJI_LENGTH = 16;

/** The name under which an agent speaks: an avatar that is an emoji stands in front, and words that Discord refuses are broken up. */
export function usernameOf(speaker: Named): string {
  const name = speaker.name.replaceAll(/\s+/g, ' ').trim();
  const emoji = isEmoji(speaker.avatar) ? `${speaker.avatar} ` : '';
  const whole = `${emoji}${name === '' ? speaker.id : name}`.toWellFormed();
  const allowed = whole.replaceAll(/disc(?=ord)|cly(?=de)/gi, (word) => `${word}\u200A`);
  return allowed
    .slice(0, NAME_LIMIT)
    .replace(/[\uD800-\uDBFF]$/, '')
    .trim();
}

/** The address of an agent's picture; `null` when it has none that Discord could fetch. */
export function avatarUrlOf(speaker: Named): string | null {
  return speaker.avatar?.startsWith('https://') === true ? speaker.avatar : null;
}

/** What stands before an agent's words when the bot itself must say them. */
export function prefixOf(speaker: Named): string {
  const name = usernameOf(speaker)
    .replaceAll(/[*_~|`\\>]/g, '')
    .trim();
  return `**${name === '' ? speaker.id : name}**:`;
}

/** Whether two shown names are the same: Discord folds white space and what cannot be seen. */
export function sameName(one: string, other: string): boolean {
  return plain(one) === plain(other);
}

function isEmoji(avatar: string | null): avatar is string {
  return avatar !== null && avatar.length <= EMOJI_LENGTH && /\p{Extended_Pictographic}|\p{RI}/u.test(avatar);
}

function plain(name: string): string {
  return name.normalize('NFKC').replaceAll(/[\s\p{Cf}]+/gu, '');
}

type Agent = ReturnType<FloorQueries['agents']>[number];

type Where = { readonly guild: string; readonly channel: ChannelId; readonly mark: number };

/** The role of an agent: the one that was remembered, else a marked one with its name, else a new one. */
async function roleOf(
  ports: IdentityPorts,
  where: Where,
  { agent, there }: { readonly agent: Agent; readonly there: readonly Listed[] },
): Promise<string> {
  const { calls, memory } = ports;
  const { guild, channel, mark: color } = where;
  const name = usernameOf({ ...agent, avatar: null });
  const known = there.find(({ id }) => id === memory.get(keyOf(guild, agent.id)));
  if (known !== undefined) {
    const route = Routes.guildRole(guild, known.id);
    if (known.color !== color)
      await calls.tell({ method: 'patch', route, channel, what: 'mark a role', body: { color } });
    return known.id;
  }
  const body = { name, permissions: '0', mentionable: true, hoist: false, color };
  const call = { method: 'post', route: Routes.guildRoles(guild), channel, what: 'make a role', body } as const;
  const left = there.find((role) => role.name === name && isMarked(role, color));
  const { id } = left ?? (await calls.ask(call, roleSchema));
  await memory.set(keyOf(guild, agent.id), id);
  return id;
}

/** Whether Conch made a role for an agent; it gives nobody any right. */
function isMarked({ color, permissions, mentionable, hoist }: Omit<Listed, 'id'>, mark: number): boolean {
  return color === mark && permissions === '0' && mentionable && !hoist;
}

/** The colour by which one bot knows its roles. */
function markOf({ applicationId }: Self): number {
  return createHash('sha256').update(applicationId).digest().readUIntBE(0, 3) || 1;
}

function keyOf(guild: string, agent: AgentId): string {
  return `role:${guild}:${agent}`;
}
