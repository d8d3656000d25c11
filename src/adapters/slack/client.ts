import { LogLevel, WebClient } from '@slack/web-api';
import type { WebClientOptions } from '@slack/web-api';
import type { Logger } from 'pino';
import { z } from 'zod';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import { ChatError } from '../port.ts';
import { chatError } from './errors.ts';
import { defined } from '../../lib/defined.ts';

/** Who Conch is on Slack: its bot user, its bot and its app. */
export type Self = {
  readonly userId: string;
  readonly botId: string;
  readonly appId: string | null;
};

/** What of Slack is used, as the configuration says. */
export type SlackSettings = {
  readonly streaming: boolean;
  readonly cards: boolean;
  readonly status: boolean;
  readonly agentSessions: boolean;
};

/** How long a call may take, in milliseconds. */
export const CALL_TIMEOUT_MS = 15_000;

/** Where calls go and as whom. */
type ClientOptions = {
  readonly token: string;
  /** Ends in `/api/`; `null` is Slack itself. */
  readonly apiUrl: string | null;
  /** After so long the outcome of a call is not known, in milliseconds; `CALL_TIMEOUT_MS` if left out. */
  readonly timeoutMs?: number;
  /** In place of this machine's own. */
  readonly fetch?: NonNullable<WebClientOptions['fetch']>;
};

/** A client that does what it is told once: it neither retries nor waits by itself, and it logs nothing. */
export function createClient({ token, apiUrl, fetch, timeoutMs }: ClientOptions): WebClient {
  return new WebClient(token, {
    ...(apiUrl === null ? {} : { slackApiUrl: apiUrl }),
    ...defined({ fetch }),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    timeout: timeoutMs ?? CALL_TIMEOUT_MS,
    allowAbsoluteUrls: false,
    logger: QUIET,
  });
}

/** One call for a channel, and the shape of the answer that is needed. */
export type Call<Answer> = {
  readonly method: string;
  readonly channel: ChannelId;
  readonly args: Readonly<Record<string, unknown>>;
  readonly answer: z.ZodType<Answer>;
};

/** Calls Slack; rejects with a ChatError. An answer of another shape is `unclear`: something was carried out, but not what. */
export async function call<Answer>(web: WebClient, request: Call<Answer>): Promise<Answer> {
  const { method, channel, args, answer } = request;
  try {
    const parsed = answer.safeParse(await web.apiCall(method, { ...args }));
    if (parsed.success) return parsed.data;
  } catch (error) {
    throw chatError(error, { method, channel });
  }
  throw new ChatError(`Slack's answer to ${method} could not be read`, { method, channel, fault: 'unclear' });
}

/** The shape of an answer in which only that it came matters. */
export const ANY_ANSWER = z.looseObject({});

const QUIET: NonNullable<WebClientOptions['logger']> = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  setLevel: () => undefined,
  getLevel: () => LogLevel.ERROR,
  setName: () => undefined,
};

/** Where a floor is on Slack: a channel, or a thread in it. */
type SlackPlace = { readonly channel: string; readonly thread: string | null };

/** The id of a channel, or of the thread under the message with this `ts`, as the rest of Conch knows it. */
export function channelId(channel: string, thread: string | null = null): ChannelId {
  return thread === null ? `slack:${channel}` : `slack:${channel}/${thread}`;
}

/** Slack's own names for it. */
export function platformChannel(channel: ChannelId): SlackPlace {
  const [own = '', thread] = channel.slice(channel.indexOf(':') + 1).split('/', 2);
  return { channel: own, thread: thread ?? null };
}

/** The id of a message: a `ts` is unique only in its channel. */
export function messageId(channel: string, ts: string): MessageId {
  return `${channel}/${ts}`;
}

/** Slack's own names for a message. */
export function platformMessage(message: MessageId): { readonly channel: string; readonly ts: string } {
  const [channel = '', ts = ''] = message.split('/', 2);
  return { channel, ts };
}

/** A channel between the app and one person. */
export function isDirect(channel: ChannelId): boolean {
  return platformChannel(channel).channel.startsWith('D');
}

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
