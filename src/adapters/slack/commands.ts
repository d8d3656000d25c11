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
import { answerParts, whyLine } from '../delivery/inbound.ts';
import type { Deduplicator } from '../delivery/inbound.ts';
import { messageId } from './client.ts';
import type { People } from './client.ts';
import type { SlackLocation } from './parse-message.ts';
import { escaped, inSlackWords } from './content.ts';
import { LATE, withinMs } from '../../lib/retry.ts';

/** Dependencies of commands, buttons and forms. */
export type CommandPorts = Pick<AdapterParts, 'intake' | 'queries' | 'timers' | 'log'> & {
  readonly web: WebClient;
  readonly people: People;
  readonly groups: Groups;
  readonly deduplicator: Deduplicator;
};

/** The person who gets an answer, and where. Only that person sees the answer. */
export type Recipient = {
  readonly user: string;
  readonly at: Pick<SlackLocation, 'channel' | 'thread'>;
  /** Slack's URL for answers to one command or click; `null` for none. */
  readonly responseUrl: string | null;
};

/** Acknowledges a payload of Slack. `reply` is the answer that Slack shows. */
export type Ack = (reply?: object) => Promise<void>;

/** A command line for a floor. `drawnFor`: names the turn or question of the button, form or reaction that sent it. */
export type Order = { readonly floor: ChannelId; readonly line: string; readonly drawnFor?: string };

/** Runs a command line for a person and shows them the answer. Resolves when the command is stored or has failed. */
export async function command(ports: CommandPorts, asker: Recipient, order: Order): Promise<void> {
  const line = withMessageIds(order.line, asker.at);
  void answer(ports, asker, await obey(ports, asker.user, { ...order, line }));
}

/**
 * Replaces links to messages, and Slack's ids of messages, by Conch's ids. In a thread, "!why" without an id is about
 * the root message.
 */
function withMessageIds(line: string, { channel, thread }: Recipient['at']): string {
  const withIds = line
    .replaceAll(PERMALINK, (_link, slackChannel: string, seconds: string, rest: string) =>
      messageId(slackChannel, `${seconds}.${rest}`),
    )
    .replaceAll(TIME_STAMP, (ts: string) => messageId(channel, ts));
  return whyLine(withIds, thread === null ? null : messageId(channel, thread));
}

const PERMALINK = /<?https?:\/\/[\w.-]+\/archives\/(\w{1,30})\/p(\d{10})(\d{6})(?:\?[^\s<>]*)?>?/g;
const TIME_STAMP = /(?<=\s)\d{10}\.\d{6}(?=\s|$)/g;

/** Runs a command line for a person and returns the answer. Never rejects. */
export async function obey(ports: CommandPorts, user: string, { floor, line, drawnFor }: Order): Promise<Answer> {
  try {
    return await ports.intake.command(floor, await principal(ports, user, line), line, drawnFor);
  } catch (error) {
    ports.log.error({ channel: floor, err: error }, 'a command failed');
    return { ok: false, text: failedText(error, 'Nothing was changed.') };
  }
}

/** Returns why a person's command line or button is refused. `null`: no refusal, or the check failed. */
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

/** Shows a person an answer that nobody else sees. Never rejects. */
export async function answer(
  ports: Pick<CommandPorts, 'web' | 'log'>,
  asker: Recipient,
  { text }: Answer,
): Promise<void> {
  const { channel, thread } = asker.at;
  try {
    for (const part of answerParts(inSlackWords(text, thread !== null), ANSWER_LIMIT))
      await showPart(ports, asker, escaped(part));
  } catch (error) {
    ports.log.warn({ channel, why: reasonOf(error) }, 'an answer could not be shown');
  }
}

async function showPart({ web }: Pick<CommandPorts, 'web'>, asker: Recipient, text: string): Promise<void> {
  const { user, responseUrl } = asker;
  const { channel, thread } = asker.at;
  if (responseUrl !== null && (await respond(responseUrl, text))) return;
  await web.chat.postEphemeral({ channel, user, text, ...(thread === null ? {} : { thread_ts: thread }) });
}

/**
 * Acknowledges a sent form when its commands have run (`running`), or after 2.3 s. Errors known by then appear beside
 * their fields. Then waits for `running` and returns the later errors.
 */
export async function acknowledgeInTime(
  ports: Pick<CommandPorts, 'timers'>,
  ack: Ack,
  submission: { readonly running: Promise<void>; readonly errors: Readonly<Record<string, string>> },
): Promise<readonly string[]> {
  const outcome = await withinMs(ACK_WITHIN_MS, submission.running, ports.timers);
  const shownErrors = { ...submission.errors };
  await ack(Object.keys(shownErrors).length > 0 ? { response_action: 'errors', errors: shownErrors } : undefined);
  if (outcome !== LATE) return [];
  await submission.running;
  return Object.entries(submission.errors).flatMap(([field, why]) => (field in shownErrors ? [] : [why]));
}

const ACK_WITHIN_MS = 2_300;

/** The line that opens the form with a floor's settings. */
export const SETTINGS = '/settings';
/** The longest message of an answer, in UTF-16 units. */
const ANSWER_LIMIT = 3_500;
const RESPONSE_TIMEOUT_MS = 10_000;
/** The answer in a channel without a floor. */
export const NO_FLOOR: Answer = {
  ok: false,
  text: 'Conch has no floor in this channel. An administrator of Conch can add the channel to turnConfig.json.',
};

/** Returns the command line of the text after `/conch`; `/help` for an empty text. */
export function lineOf(text: string): string {
  const line = text.trim().replace(/^[/!]\s*/, '');
  return `/${line === '' ? 'help' : line}`;
}

/** Returns the person who runs a line. For a command that only operators may run, reads the roles from Slack again. */
async function principal({ people, groups }: CommandPorts, user: string, line: string): Promise<Principal> {
  const parsed = parseLine(line);
  const isFresh = parsed.ok && parsed.invocation.needs === 'operate';
  const [name, roles] = await Promise.all([people.name(user), groups.rolesOf(user, isFresh)]);
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

/** The user groups of a workspace. They are Slack's roles. */
export type Groups = {
  /** Returns the ids of a user's groups. `isFresh` skips the cache. Returns none when Slack fails. Never rejects. */
  rolesOf(user: string, isFresh: boolean): Promise<readonly string[]>;
};

const REMEMBERED_MS = 60_000;

const ids = z.array(z.string());
const groupsSchema = z.looseObject({
  usergroups: z.array(
    z.looseObject({ id: z.string(), users: ids.nullish().catch(null), user_count: z.coerce.number().nullish() }),
  ),
});
const usersSchema = z.looseObject({ users: ids });

type Members = ReadonlyMap<string, readonly string[]>;

/** Creates the reader of user groups. Caches the members for a minute. */
export function createGroups(ports: { readonly web: WebClient; readonly clock: Clock; readonly log: Logger }): Groups {
  let cached: { readonly members: Members; readonly at: Instant } | null = null;
  let reading: Promise<Members> | null = null;

  async function read(): Promise<Members> {
    try {
      const members = await membersOf(ports.web);
      cached = { members, at: ports.clock.now() };
      return members;
    } finally {
      reading = null;
    }
  }

  return {
    async rolesOf(user, isFresh) {
      const isRecent = cached !== null && ports.clock.now() - cached.at < REMEMBERED_MS;
      try {
        const members = !isFresh && isRecent && cached !== null ? cached.members : await (reading ??= read());
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
