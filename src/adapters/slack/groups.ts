import type { Logger } from 'pino';
import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { Clock, Instant } from '../../lib/time.ts';

/** The user groups of a workspace: Slack's roles. */
export type Groups = {
  /** The ids of the groups that a user is in; `fresh` asks Slack anew. None when Slack does not say. Never rejects. */
  rolesOf(user: string, fresh: boolean): Promise<readonly string[]>;
};

/** So old may be what is known of a group. */
const REMEMBERED_MS = 60_000;

const ids = z.array(z.string());
const groupsSchema = z.looseObject({
  usergroups: z.array(
    z.looseObject({ id: z.string(), users: ids.nullish().catch(null), user_count: z.coerce.number().nullish() }),
  ),
});
const usersSchema = z.looseObject({ users: ids });

type Members = ReadonlyMap<string, readonly string[]>;

/** Membership by `usergroups.list`. Anything that Slack refuses is a missing role, never an assumed one. */
export function createGroups(ports: { readonly web: WebClient; readonly clock: Clock; readonly log: Logger }): Groups {
  let known: { readonly members: Members; readonly at: Instant } | null = null;
  let reading: Promise<Members> | null = null;

  async function read(): Promise<Members> {
    try {
      const members = await membersOf(ports.web);
      known = { members, at: ports.clock.now() };
      return members;
    } finally {
      reading = null;
    }
  }

  return {
    async rolesOf(user, fresh) {
      const isRecent = known !== null && ports.clock.now() - known.at < REMEMBERED_MS;
      try {
        const members = !fresh && isRecent && known !== null ? known.members : await (reading ??= read());
        return [...members].filter(([, users]) => users.includes(user)).map(([group]) => group);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        ports.log.warn({ why }, 'the user groups of Slack could not be read: nobody has a role by them now');
        return [];
      }
    },
  };
}

async function membersOf(web: WebClient): Promise<Members> {
  const { usergroups } = groupsSchema.parse(await web.usergroups.list({ include_users: true }));
  const members = new Map<string, readonly string[]>();
  for (const { id, users, user_count: count } of usergroups) {
    if (users) members.set(id, users);
    else if (count !== 0) members.set(id, usersSchema.parse(await web.usergroups.users.list({ usergroup: id })).users);
  }
  return members;
}
