import type { AgentId } from '../../turns/floor/settings.ts';
import type { FloorQueries } from '../port.ts';
import { prefixOf, sameName, usernameOf } from './names.ts';
import type { Roles } from './roles.ts';
import type { Webhooks } from './webhooks.ts';

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
export type IdentityPorts = {
  readonly queries: Pick<FloorQueries, 'agents'>;
  readonly webhooks: Pick<Webhooks, 'isOwn'>;
  readonly roles: Pick<Roles, 'agentOf'>;
};

/** The identities of the agents of the configuration. */
export function createIdentities({ queries, webhooks, roles }: IdentityPorts): Identities {
  return {
    isOwnWebhook: (webhookId) => webhooks.isOwn(webhookId),
    agentOfRole: (roleId) => roles.agentOf(roleId),
    agentOfPost({ shownName, content, byWebhook }) {
      const fitting = queries
        .agents()
        .filter((agent) => (byWebhook ? sameName(usernameOf(agent), shownName) : content.startsWith(prefixOf(agent))));
      const [only] = fitting;
      return only !== undefined && fitting.length === 1 ? only.id : null;
    },
  };
}
