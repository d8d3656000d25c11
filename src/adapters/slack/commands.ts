import type { Logger } from 'pino';
import type { WebClient } from '@slack/web-api';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { parseLine } from '../../turns/commands/parse.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import type { Answer } from '../../turns/commands/context.ts';
import { failedText } from '../port.ts';
import type { AdapterParts, Principal } from '../port.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import { whyLine } from '../delivery/inbound.ts';
import type { Deduplicator } from '../delivery/inbound.ts';
import { messageId } from './client.ts';
import type { People } from './client.ts';
import type { Spot } from './parse-message.ts';
import { escaped, inSlackWords } from './content.ts';

/** What commands, buttons and forms need. */
export type CommandPorts = Pick<AdapterParts, 'intake' | 'queries' | 'timers' | 'log'> & {
  readonly web: WebClient;
  readonly people: People;
  readonly groups: Groups;
  readonly deduplicator: Deduplicator;
};

/** Whom an answer goes to, and where it is shown: only that person sees it. */
export type Recipient = {
  readonly user: string;
  readonly at: Pick<Spot, 'channel' | 'thread'>;
  /** Slack's address for answers to this one question. */
  readonly responseUrl: string | null;
};

/** Tells Slack that a payload has arrived, with what it is to show. */
export type Ack = (reply?: object) => Promise<void>;

/** One command line for a floor; `drawnFor`: the word that its button carries. */
export type Order = { readonly floor: ChannelId; readonly line: string; readonly drawnFor?: string };

/** Runs a line in somebody's name and shows them the answer. */
export async function command(ports: CommandPorts, asker: Recipient, order: Order): Promise<void> {
  const line = withMessageIds(order.line, asker.at);
  await answer(ports, asker, await obey(ports, asker.user, { ...order, line }));
}

/** A command line in which links to messages and their time stamps are the messages' ids; "!why" in a thread is about its root. */
function withMessageIds(line: string, { channel, thread }: Recipient['at']): string {
  const named = line
    .replaceAll(PERMALINK, (_link, where: string, seconds: string, rest: string) =>
      messageId(where, `${seconds}.${rest}`),
    )
    .replaceAll(TIME_STAMP, (ts: string) => messageId(channel, ts));
  return whyLine(named, thread === null ? null : messageId(channel, thread));
}

const PERMALINK = /<?https?:\/\/[\w.-]+\/archives\/(\w{1,30})\/p(\d{10})(\d{6})(?:\?[^\s<>]*)?>?/g;
const TIME_STAMP = /(?<=\s)\d{10}\.\d{6}(?=\s|$)/g;

/** Runs a line in somebody's name. */
export async function obey(ports: CommandPorts, user: string, { floor, line, drawnFor }: Order): Promise<Answer> {
  try {
    return await ports.intake.command(floor, await principal(ports, user, line), line, drawnFor);
  } catch (error) {
    ports.log.error({ channel: floor, err: error }, 'a command failed');
    return { ok: false, text: failedText(error, 'Nothing was changed.') };
  }
}

/** Why somebody may not have this line run, told before a form opens for it; `null`: they may, or that is not known. */
export async function commandRefusal(
  ports: CommandPorts,
  user: string,
  { floor, line, drawnFor }: Order,
): Promise<Answer | null> {
  try {
    const text = ports.intake.refusal(floor, await principal(ports, user, line), line, drawnFor);
    return text === null ? null : { ok: false, text };
  } catch (error) {
    ports.log.warn({ channel: floor, err: error }, 'whether somebody may answer could not be found out');
    return null;
  }
}

/** Shows somebody an answer that nobody else sees. Never rejects. */
export async function answer(
  ports: Pick<CommandPorts, 'web' | 'log'>,
  asker: Recipient,
  { text }: Answer,
): Promise<void> {
  const words = inSlackWords(text, asker.at.thread !== null);
  const shown = escaped(words.length > ANSWER_LIMIT ? `${words.slice(0, ANSWER_LIMIT)}…` : words);
  try {
    if (asker.responseUrl !== null && (await respond(asker.responseUrl, shown))) return;
    const { channel, thread } = asker.at;
    await ports.web.chat.postEphemeral({
      channel,
      user: asker.user,
      text: shown,
      ...(thread === null ? {} : { thread_ts: thread }),
    });
  } catch (error) {
    ports.log.warn({ channel: asker.at.channel, why: reasonOf(error) }, 'an answer could not be shown');
  }
}

/** Acknowledges what was sent as soon as it is done, with what is wrong beside its fields; resolves with what came too late for that. */
export async function toldInTime(
  ports: Pick<CommandPorts, 'timers'>,
  ack: Ack,
  sent: { readonly running: Promise<void>; readonly errors: Readonly<Record<string, string>> },
): Promise<readonly string[]> {
  const late = Promise.withResolvers<'late'>();
  const timer = ports.timers.after(ACK_WITHIN_MS, () => late.resolve('late'));
  const outcome = await Promise.race([sent.running, late.promise]);
  timer.cancel();
  const isRefused = Object.keys(sent.errors).length > 0;
  await ack(isRefused ? { response_action: 'errors', errors: { ...sent.errors } } : undefined);
  if (outcome !== 'late' || isRefused) return [];
  await sent.running;
  return Object.values(sent.errors);
}

const ACK_WITHIN_MS = 2_300;
/** What Slack shows of an error beside a field. */
export const ERROR_LIMIT = 300;

/** The line that opens the form with a floor's settings. */
export const SETTINGS = '/settings';
const ANSWER_LIMIT = 3_500;
const RESPONSE_TIMEOUT_MS = 10_000;
/** What is answered where there is no floor. */
export const NO_FLOOR: Answer = {
  ok: false,
  text: 'Conch has no floor in this channel. An administrator of Conch can add the channel to turnConfig.json.',
};

/** The command line that somebody typed behind `/conch`; help when there is none. */
export function lineOf(text: string): string {
  const line = text.trim().replace(/^[/!]\s*/, '');
  return `/${line === '' ? 'help' : line}`;
}

/** Roles are read anew for whatever changes a floor. */
async function principal({ people, groups }: CommandPorts, user: string, line: string): Promise<Principal> {
  const parsed = parseLine(line);
  const fresh = parsed.ok && parsed.invocation.needs === 'operate';
  const [name, roles] = await Promise.all([people.name(user), groups.rolesOf(user, fresh)]);
  return { id: user, name, roles };
}

async function respond(url: string, text: string): Promise<boolean> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ response_type: 'ephemeral', replace_original: false, text }),
      redirect: 'error',
      signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
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
