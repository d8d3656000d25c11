import {
  LogLevel,
  WebClient,
  WebAPIHTTPError,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebAPIRequestError,
} from '@slack/web-api';
import type { WebClientOptions } from '@slack/web-api';
import type { Logger } from 'pino';
import { z } from 'zod';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { networkFailure, reasonOf } from '../delivery/connect-retry.ts';
import { ChatError, AdapterError } from '../port.ts';
import { defined } from '../../lib/defined.ts';
import type { Judgement } from '../delivery/connect-retry.ts';
import { LATE, withinMs } from '../../lib/retry.ts';
import type { Config } from '../../config/config.ts';

/** The ids of Conch's bot user, bot and app at Slack. */
export type Self = {
  readonly userId: string;
  readonly botId: string;
  readonly appId: string | null;
  /** The address of the workspace, ends in "/"; absent when Slack did not tell it. */
  readonly url?: string;
};

/** Switches for the Slack features that Conch uses. */
export type SlackSettings = Pick<Config['adapters']['slack'], 'streaming' | 'cards' | 'status' | 'agentSessions'>;

/** The time limit of one request to Slack, in milliseconds. After it, the outcome of the request is unknown. */
const CALL_TIMEOUT_MS = 15_000;

type ClientOptions = {
  readonly token: string;
  /** Base URL of Slack's Web API, ends in `/api/`; `null` for Slack itself. */
  readonly apiUrl: string | null;
  readonly fetch?: NonNullable<WebClientOptions['fetch']>;
};

/** Returns Slack's Web API client without its own retries, waits for rate limits, and logs. */
export function createClient({ token, apiUrl, fetch }: ClientOptions): WebClient {
  return new WebClient(token, {
    ...clientOptions(apiUrl),
    ...defined({ fetch }),
    allowAbsoluteUrls: false,
    logger: slackLogger(),
  });
}

/** Returns the options of a Slack client: the address, a time limit, no retries and no waits for rate limits. */
export function clientOptions(apiUrl: ClientOptions['apiUrl']): WebClientOptions {
  return {
    ...(apiUrl === null ? {} : { slackApiUrl: apiUrl }),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    timeout: CALL_TIMEOUT_MS,
  };
}

/** One call of Slack's Web API for a channel, with the schema of its answer. */
export type Call<Answer> = {
  readonly method: string;
  readonly channel: ChannelId;
  readonly args: Readonly<Record<string, unknown>>;
  readonly answer: z.ZodType<Answer>;
};

/**
 * Calls Slack's Web API once. Rejects with a `ChatError` when the call fails; an answer that does not match the schema
 * has the fault `unclear`. An error that shows a bug in this program, such as a `TypeError`, stays as it is.
 */
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

/** Accepts any answer, for calls whose answer is not needed. */
export const ANY_ANSWER = z.looseObject({});

/**
 * Returns a logger for Slack's clients. Drops debug messages: they hold whole payloads. `tell` gets the other messages.
 */
export function slackLogger(tell: (words: unknown) => void = () => undefined): NonNullable<WebClientOptions['logger']> {
  const drop = (): void => undefined;
  const getLevel = (): LogLevel => LogLevel.INFO;
  return { debug: drop, info: tell, warn: tell, error: tell, setLevel: drop, getLevel, setName: drop };
}

/** Slack's own ids of a floor. `thread`: the `ts` of the thread's root message; `null` for the channel itself. */
type SlackPlace = { readonly channel: string; readonly thread: string | null };

/** Returns Conch's id of a Slack channel, or of the thread under the message with this `ts`. */
export function channelId(channel: string, thread: string | null = null): ChannelId {
  return thread === null ? `slack:${channel}` : `slack:${channel}/${thread}`;
}

/** Returns Slack's own ids of a channel or thread. */
export function platformChannel(channel: ChannelId): SlackPlace {
  const [slackChannel = '', thread] = channel.slice(channel.indexOf(':') + 1).split('/', 2);
  return { channel: slackChannel, thread: thread ?? null };
}

/** Returns Conch's id of a message. The id includes the channel, because a `ts` is unique only in its channel. */
export function messageId(channel: string, ts: string): MessageId {
  return `${channel}/${ts}`;
}

/** Returns Slack's own ids of a message. */
export function platformMessage(message: MessageId): { readonly channel: string; readonly ts: string } {
  const [channel = '', ts = ''] = message.split('/', 2);
  return { channel, ts };
}

/** Whether the channel is a direct message between the app and one person. */
export function isDirect(channel: ChannelId): boolean {
  return platformChannel(channel).channel.startsWith('D');
}

/** Looks up the names of Slack's users, and which of them are bots. */
export type People = {
  /**
   * Returns a user's name, the display name first. When Slack fails or takes over 1.5 s: the cached name, else the id.
   * Returns the id for ids that are not of users, such as a bot's. Never rejects.
   */
  readonly name: (user: string) => Promise<string>;
  /** Returns a name from the cache, however old; `null` when the cache lacks the user. */
  readonly cachedName: (user: string) => string | null;
  /** Whether the user is a bot, after `name` looked up the user. False when Slack did not tell. */
  readonly isBot: (user: string) => boolean;
};

const REMEMBERED = 5_000;
const FRESH_MS = 3_600_000;
/** The longest wait for a name, in milliseconds. Slack wants every message acknowledged within 3 s. */
const PATIENCE_MS = 1_500;
const FAILED_FRESH_MS = 60_000;

const text = z.string().nullish().catch(null);
const answerSchema = z.looseObject({
  user: z.looseObject({
    name: text,
    real_name: text,
    is_bot: z.boolean().nullish().catch(null),
    profile: z.looseObject({ display_name: text, real_name: text }).nullish().catch(null),
  }),
});

/** Looks up names by `users.info`. Caches each name for an hour, and each failure for a minute. */
export function createPeople(ports: {
  readonly web: WebClient;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}): People {
  const cache = new BoundedMap<string, { readonly name: string; readonly isBot: boolean; readonly until: Instant }>(
    REMEMBERED,
  );
  const pendingLookups = new Map<string, Promise<string>>();

  function remember(user: string, person: { readonly name: string; readonly isBot: boolean }, forMs: number): string {
    cache.set(user, { ...person, until: ports.clock.now() + forMs });
    return person.name;
  }

  async function ask(user: string): Promise<string> {
    try {
      const answer = answerSchema.parse(await ports.web.users.info({ user })).user;
      const names = [answer.profile?.display_name, answer.profile?.real_name, answer.real_name, answer.name];
      return remember(user, { name: names.find(Boolean) ?? user, isBot: answer.is_bot === true }, FRESH_MS);
    } catch (error) {
      ports.log.debug({ user, why: reasonOf(error) }, 'a name was not found');
      return remember(user, cache.get(user) ?? { name: user, isBot: false }, FAILED_FRESH_MS);
    } finally {
      pendingLookups.delete(user);
    }
  }

  return {
    async name(user) {
      if (!/^[UW]/.test(user)) return user;
      const cached = cache.get(user);
      if (cached !== undefined && cached.until > ports.clock.now()) return cached.name;
      const answer = pendingLookups.get(user) ?? ask(user);
      pendingLookups.set(user, answer);
      const name = await withinMs(PATIENCE_MS, answer, ports.timers);
      return name === LATE ? (cached?.name ?? user) : name;
    },
    cachedName: (user) => cache.get(user)?.name ?? null,
    isBot: (user) => cache.get(user)?.isBot === true,
  };
}

/** Slack's error code ("channel_not_found") as the message, without the request and the answer. */
class SlackRefusal extends Error {
  override readonly name = 'SlackRefusal';
}

/**
 * Converts an error of Slack or the network to a `ChatError` without request and answer. Throws an error that is a bug
 * of this program.
 */
export function chatError(error: unknown, where: { readonly method: string; readonly channel: ChannelId }): ChatError {
  if (error instanceof ChatError) return error;
  if (isBug(error)) throw error;
  const { fault, why, retryAfterMs, code } = judgeError(error);
  return new ChatError(`${FAULT_WORDS[fault]} ${where.method}: ${why}`, {
    ...where,
    fault,
    ...defined({ retryAfterMs }),
    ...(code === undefined ? {} : { cause: new SlackRefusal(code) }),
    ...(code === 'thread_not_found' ? { channelIsGone: true } : {}),
  });
}

/** Returns the error code that Slack answered ("channel_not_found"); `null` when Slack gave none. */
export function slackCode(error: unknown): string | null {
  if (error instanceof WebAPIPlatformError) return wordIn(error.data.error);
  if (error instanceof ChatError && error.cause instanceof SlackRefusal) return error.cause.message;
  return null;
}

/** Returns why Conch cannot write in the channel or thread; `null` for errors that have another reason. */
export function channelTrouble(error: unknown): string | null {
  const code = slackCode(error);
  return code === null ? null : (CHANNEL_TROUBLES.get(code) ?? null);
}

type TokenName = 'SLACK_BOT_TOKEN' | 'SLACK_APP_TOKEN';

/**
 * Returns the judge of errors while connecting. The judge returns the fatal error when Slack refuses the token for
 * good. Otherwise the judge returns the wait that Slack wants in milliseconds, or 0.
 */
export function untilSlack(token: TokenName): Judgement {
  return (error) => brokenBy(error, token) ?? (error instanceof WebAPIRateLimitedError ? error.retryAfter * 1_000 : 0);
}

/** Returns the fatal error when Slack refuses a token for good; else `null`. */
export function brokenBy(error: unknown, token: TokenName): AdapterError | null {
  const code = slackCode(error);
  if (code === null || !REFUSED[token].has(code)) return null;
  return slackError(`Slack refuses ${token} (${code})`, NEW_SECRET[token]);
}

/** Returns the error that ends the program: what is wrong with the setup, and what to do. */
export function slackError(what: string, todo: string, cause?: Error): AdapterError {
  return new AdapterError(`${what}. ${todo}`, { adapter: 'slack', cause });
}

type Verdict = {
  readonly fault: ChatError['fault'];
  readonly why: string;
  readonly retryAfterMs?: number;
  readonly code?: string;
};

const FAULT_WORDS = {
  refused: 'Slack refused',
  limited: 'Slack is too busy for',
  unclear: 'It is not known whether Slack carried out',
  unreachable: 'Slack could not be reached for',
} as const;

/** The `retryAfterMs` of refusals that can be temporary. The outbox retries such posts with its own backoff. */
const CLOSED_MS = 60_000;
const CHANNEL_TROUBLES = new Map([
  ['channel_not_found', 'Conch is not in the channel, or the channel does not exist. Invite the app: /invite'],
  ['not_in_channel', 'Conch is not in the channel'],
  ['is_archived', 'the channel is archived'],
  ['is_inactive', 'the channel is not in use any more'],
  ['channel_is_archived', 'the channel is archived'],
  ['restricted_action_read_only_channel', 'Conch may not write in the channel'],
  ['restricted_action_thread_locked', 'the thread is locked'],
  ['restricted_action_thread_only_channel', 'the channel takes only replies in threads'],
  ['thread_not_found', 'the thread is gone'],
]);

/** After these error codes, Slack may have executed part of the call. */
const UNCLEAR = new Set(['fatal_error', 'internal_error', 'service_unavailable']);
/** Error codes of calls that Slack did not execute and can accept later. */
const LIMITED = new Set([
  'ratelimited',
  'rate_limited',
  'request_timeout',
  'team_added_to_org',
  'message_limit_exceeded',
]);
const BUSY_MS = 30_000;

function judgeError(error: unknown): Verdict {
  if (error instanceof WebAPIRateLimitedError) {
    return { fault: 'limited', why: 'too many requests', retryAfterMs: error.retryAfter * 1_000 };
  }
  if (error instanceof WebAPIPlatformError) return judgeCode(wordIn(error.data.error));
  if (error instanceof WebAPIHTTPError) return judgeStatus(error.statusCode);
  // Slack's client throws this error for a 429 answer without a `Retry-After` header.
  if (error instanceof Error && error.message.startsWith('Retry header did not contain')) {
    return { fault: 'limited', why: 'too many requests', retryAfterMs: BUSY_MS };
  }
  const cause = error instanceof WebAPIRequestError ? error.original : error;
  const network = networkFailure(cause);
  if (network?.isUnsent === true) return { fault: 'unreachable', why: network.code };
  return { fault: 'unclear', why: network?.code ?? (isTimeout(cause) ? 'no answer in time' : 'the connection broke') };
}

/**
 * Judges an answer by its error code. An answer without a readable code was cut off, or did not come from Slack.
 * Refusals of a channel or of the token have `retryAfterMs`: they end when somebody mends the channel or the setup.
 */
function judgeCode(code: string | null): Verdict {
  if (code === null) return { fault: 'unclear', why: 'the answer could not be read' };
  if (UNCLEAR.has(code)) return { fault: 'unclear', why: code, code };
  if (LIMITED.has(code)) return { fault: 'limited', why: code, code, retryAfterMs: BUSY_MS };
  const isPassing = CHANNEL_TROUBLES.has(code) || REFUSED.SLACK_BOT_TOKEN.has(code);
  return { fault: 'refused', why: code, code, ...(isPassing ? { retryAfterMs: CLOSED_MS } : {}) };
}

/**
 * Judges an answer by its HTTP status. Slack's own refusals have status 200. A 403 is from a proxy: the call did not
 * reach Slack.
 */
function judgeStatus(status: number): Verdict {
  const why = `HTTP ${status}`;
  if (status === 403) return { fault: 'unreachable', why };
  return status >= 500 || status === 408 ? { fault: 'unclear', why } : { fault: 'refused', why };
}

/**
 * Returns whether an error is a bug of this program. Network errors are TypeErrors, too, but carry a network code or
 * the message "fetch failed".
 */
function isBug(error: unknown): boolean {
  const isProgram = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return isProgram && networkFailure(error) === null && !isTimeout(error) && error.message !== 'fetch failed';
}

function wordIn(error: unknown): string | null {
  return typeof error === 'string' && /^[a-z][\w.:-]{0,80}$/.test(error) ? error : null;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === 'TimeoutError' || error.name === 'AbortError');
}

/** What to do about a secret that is missing, or that Slack refuses. */
export const NEW_SECRET = {
  SLACK_BOT_TOKEN:
    'Copy the Bot User OAuth Token (xoxb-…) from the page "OAuth & Permissions" of your app into SLACK_BOT_TOKEN. If there is none, install the app to the workspace first.',
  SLACK_APP_TOKEN:
    'Make an app-level token with the scope connections:write on the page "Basic Information" of your app and put it into SLACK_APP_TOKEN.',
  SLACK_SIGNING_SECRET:
    'Copy the Signing Secret from the page "Basic Information" of your app into SLACK_SIGNING_SECRET.',
} as const;

const INVALID = [
  'not_authed',
  'invalid_auth',
  'account_inactive',
  'token_revoked',
  'token_expired',
  'not_allowed_token_type',
  'user_removed_from_team',
  'team_disabled',
  'no_permission',
  'access_denied',
];
/** Error codes after which a connection with this token is not retried. */
const REFUSED: Readonly<Record<TokenName, ReadonlySet<string>>> = {
  SLACK_BOT_TOKEN: new Set(INVALID),
  SLACK_APP_TOKEN: new Set([...INVALID, 'missing_scope']),
};
