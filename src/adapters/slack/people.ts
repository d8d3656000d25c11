import type { Logger } from 'pino';
import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import { reasonOf } from '../delivery/connect-retry.ts';

/** The names of Slack's users. */
export type People = {
  /** The name that a user goes by; the id when Slack does not say it soon enough. Never rejects. */
  readonly name: (user: string) => Promise<string>;
  /** A name that was looked up before. */
  readonly known: (user: string) => string | null;
};

const REMEMBERED = 5_000;
const FRESH_MS = 3_600_000;
/** A message must be acknowledged within 3 s: it is not kept waiting for a name. */
const PATIENCE_MS = 1_500;
const FAILED_FRESH_MS = 60_000;

const text = z.string().nullish().catch(null);
const answerSchema = z.looseObject({
  user: z.looseObject({
    name: text,
    real_name: text,
    profile: z.looseObject({ display_name: text, real_name: text }).nullish().catch(null),
  }),
});

/** Names by `users.info`, each asked for once an hour. */
export function createPeople(ports: {
  readonly web: WebClient;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}): People {
  const found = new BoundedMap<string, { readonly name: string; readonly until: Instant }>(REMEMBERED);
  const asking = new Map<string, Promise<string>>();

  const fresh = (user: string): string | null => {
    const entry = found.get(user);
    return entry !== undefined && entry.until > ports.clock.now() ? entry.name : null;
  };

  function remember(user: string, name: string, forMs: number): string {
    found.set(user, { name, until: ports.clock.now() + forMs });
    return name;
  }

  async function ask(user: string): Promise<string> {
    try {
      const answer = answerSchema.parse(await ports.web.users.info({ user })).user;
      const names = [answer.profile?.display_name, answer.profile?.real_name, answer.real_name, answer.name];
      return remember(user, names.find(Boolean) ?? user, FRESH_MS);
    } catch (error) {
      ports.log.debug({ user, why: reasonOf(error) }, 'a name was not found');
      return remember(user, found.get(user)?.name ?? user, FAILED_FRESH_MS);
    } finally {
      asking.delete(user);
    }
  }

  return {
    async name(user) {
      if (!/^[UW]/.test(user)) return user;
      const known = fresh(user);
      if (known !== null) return known;
      const answer = asking.get(user) ?? ask(user);
      asking.set(user, answer);
      return Promise.race([answer, later(ports.timers, found.get(user)?.name ?? user)]);
    },
    known: (user) => found.get(user)?.name ?? null,
  };
}

async function later(timers: Timers, name: string): Promise<string> {
  return new Promise((resolve) => void timers.after(PATIENCE_MS, () => resolve(name)));
}

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
        ports.log.warn(
          { why: reasonOf(error) },
          'the user groups of Slack could not be read: nobody has a role by them now',
        );
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
