import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Memory, FloorQueries } from '../port.ts';
import type { Calls } from './calls.ts';
import { wordsOf } from './errors.ts';
import { usernameOf } from './names.ts';

/** A role for each agent that people can mention; nobody has it, and it allows nothing. */
export type Roles = {
  /** Makes what is missing in a guild. Never rejects: a guild where that fails goes without. */
  ensure(guild: string, channel: ChannelId): Promise<void>;
  agentOf(roleId: string): AgentId | null;
};

export type RolesPorts = {
  readonly calls: Calls;
  readonly queries: Pick<FloorQueries, 'agents'>;
  readonly memory: Memory;
  readonly log: Logger;
};

const roleSchema = z.object({ id: z.string() });
const rolesSchema = z.array(roleSchema);

/** The roles of one bot's agents, known by the ids that were remembered when they were made. */
export function createRoles(ports: RolesPorts): Roles {
  const { queries, log } = ports;
  const agents = new Map<string, AgentId>();
  return {
    async ensure(guild, channel) {
      try {
        const route = Routes.guildRoles(guild);
        const listed = await ports.calls.ask({ method: 'get', route, channel, what: 'list roles' }, rolesSchema);
        const there = new Set(listed.map(({ id }) => id));
        for (const agent of queries.agents()) {
          const known = ports.memory.get(keyOf(guild, agent.id));
          const role = known !== null && there.has(known) ? known : await make(ports, { guild, channel }, agent);
          agents.set(role, agent.id);
        }
      } catch (error) {
        log.warn({ channel, why: wordsOf(error) }, 'agents have no roles to mention');
      }
    },
    agentOf: (roleId) => agents.get(roleId) ?? null,
  };
}

type Agent = ReturnType<FloorQueries['agents']>[number];

async function make(
  { calls, memory }: RolesPorts,
  where: { readonly guild: string; readonly channel: ChannelId },
  agent: Agent,
): Promise<string> {
  const { guild, channel } = where;
  const body = { name: usernameOf({ ...agent, avatar: null }), permissions: '0', mentionable: true, hoist: false };
  const route = Routes.guildRoles(guild);
  const { id } = await calls.ask({ method: 'post', route, channel, what: 'make a role', body }, roleSchema);
  await memory.set(keyOf(guild, agent.id), id);
  return id;
}

function keyOf(guild: string, agent: AgentId): string {
  return `role:${guild}:${agent}`;
}
