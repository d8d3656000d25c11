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

/** The word by which Slack names an error ("channel_not_found"), without the answer around it. */
class SlackRefusal extends Error {
  override readonly name = 'SlackRefusal';
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/**
 * Slack's or the network's error as a ChatError, which holds neither the request nor the answer. A word of Slack's own is
 * `refused`, except for those that say that it is busy (`limited`) or does not know itself (`unclear`). A connection that
 * was never made is `unreachable`; whatever broke later is `unclear`. Throws what is neither Slack's nor the network's.
 */
export function chatError(error: unknown, where: { readonly method: string; readonly channel: ChannelId }): ChatError {
  if (error instanceof ChatError) return error;
  if (isBug(error)) throw error;
  const { fault, why, retryAfterMs, code } = verdictOn(error);
  return new ChatError(`${WORDS[fault]} ${where.method}: ${why}`, {
    ...where,
    fault,
    ...defined({ retryAfterMs }),
    ...(code === undefined ? {} : { cause: new SlackRefusal(code) }),
  });
}

/** Slack's word for an error, from what the client or `chatError` made of it; `null` when Slack did not give one. */
export function slackCode(error: unknown): string | null {
  if (error instanceof WebAPIPlatformError) return wordIn(error.data.error);
  if (error instanceof ChatError && error.cause instanceof SlackRefusal) return error.cause.code;
  return null;
}

/** Why nothing can be said in a channel any more, if that is what the error means; `null` for every other error. */
export function channelTrouble(error: unknown): string | null {
  const code = slackCode(error);
  return code === null ? null : (CHANNEL_TROUBLES.get(code) ?? null);
}

/** The tokens that Slack may not take. */
type TokenName = 'SLACK_BOT_TOKEN' | 'SLACK_APP_TOKEN';

/** How Slack is waited for: not at all when it will never take the token. */
export function untilSlack(token: TokenName): Judgement {
  return (error) => brokenBy(error, token) ?? (error instanceof WebAPIRateLimitedError ? error.retryAfter * 1_000 : 0);
}

/** What ends the program, if the error says that Slack will never take a token; else `null`. */
export function brokenBy(error: unknown, token: TokenName): AdapterError | null {
  const code = slackCode(error);
  const todo = code === null ? undefined : REMEDIES[token].get(code);
  if (code === null || todo === undefined) return null;
  return new AdapterError(`Slack does not take ${token} (${code}). ${todo}`, { adapter: 'slack' });
}

type Verdict = {
  readonly fault: ChatError['fault'];
  readonly why: string;
  readonly retryAfterMs?: number;
  readonly code?: string;
};

const WORDS = {
  refused: 'Slack refused',
  limited: 'Slack is too busy for',
  unclear: 'It is not known whether Slack carried out',
  unreachable: 'Slack could not be reached for',
} as const;

/** Another time the channel may take it. */
const CLOSED_MS = 60_000;
const CHANNEL_TROUBLES = new Map([
  ['channel_not_found', 'Slack does not know the channel, or Conch is not in it'],
  ['not_in_channel', 'Conch is not in the channel'],
  ['is_archived', 'the channel is archived'],
  ['is_inactive', 'the channel is not in use any more'],
  ['channel_is_archived', 'the channel is archived'],
  ['restricted_action_read_only_channel', 'Conch may not write in the channel'],
  ['restricted_action_thread_locked', 'the thread is locked'],
  ['restricted_action_thread_only_channel', 'the channel takes only replies in threads'],
  ['thread_not_found', 'the thread is gone'],
]);

/** Slack says of these that a part may have been carried out. */
const UNCLEAR = new Set(['fatal_error', 'internal_error', 'service_unavailable']);
/** Not carried out, and another time it may be. */
const LIMITED = new Set([
  'ratelimited',
  'rate_limited',
  'request_timeout',
  'team_added_to_org',
  'message_limit_exceeded',
]);
const BUSY_MS = 30_000;

function verdictOn(error: unknown): Verdict {
  if (error instanceof WebAPIRateLimitedError) {
    return { fault: 'limited', why: 'too many requests', retryAfterMs: error.retryAfter * 1_000 };
  }
  if (error instanceof WebAPIPlatformError) return verdictOnWord(wordIn(error.data.error));
  if (error instanceof WebAPIHTTPError) return verdictOnStatus(error.statusCode);
  // The client's own words for a 429 that does not say how long to wait.
  if (error instanceof Error && error.message.startsWith('Retry header did not contain')) {
    return { fault: 'limited', why: 'too many requests', retryAfterMs: BUSY_MS };
  }
  const network = networkFailure(error instanceof WebAPIRequestError ? error.original : error);
  if (network?.isUnsent === true) return { fault: 'unreachable', why: network.code };
  return { fault: 'unclear', why: network?.code ?? (isTimeout(error) ? 'no answer in time' : 'the connection broke') };
}

/** An answer without a word that can be read was cut off or comes from something that is not Slack. */
function verdictOnWord(code: string | null): Verdict {
  if (code === null) return { fault: 'unclear', why: 'the answer could not be read' };
  if (UNCLEAR.has(code)) return { fault: 'unclear', why: code, code };
  if (LIMITED.has(code)) return { fault: 'limited', why: code, code, retryAfterMs: BUSY_MS };
  return { fault: 'refused', why: code, code, ...(CHANNEL_TROUBLES.has(code) ? { retryAfterMs: CLOSED_MS } : {}) };
}

function verdictOnStatus(status: number): Verdict {
  const why = `HTTP ${status}`;
  return status >= 500 || status === 408 ? { fault: 'unclear', why } : { fault: 'refused', why };
}

/** Networks hide their code below their error; a fault of the program has none. */
function isBug(error: unknown): boolean {
  const isProgram = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return isProgram && networkFailure(error) === null && !isTimeout(error) && error.message !== 'fetch failed';
}

function wordIn(error: unknown): string | null {
  return typeof error === 'string' && /^[a-z][\w.:-]{0,80}$/.test(error) ? error : null;
}

function isTimeout(error: unknown): boolean {
  const inner = error instanceof WebAPIRequestError ? error.original : error;
  return inner instanceof Error && (inner.name === 'TimeoutError' || inner.name === 'AbortError');
}

const NEW_BOT_TOKEN =
  'Copy the Bot User OAuth Token from the page "OAuth & Permissions" of your app into SLACK_BOT_TOKEN; if there is none, install the app to the workspace first.';
const NEW_APP_TOKEN =
  'Make an app-level token with the scope connections:write on the page "Basic Information" of your app and put it into SLACK_APP_TOKEN.';

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
const REMEDIES: Readonly<Record<TokenName, ReadonlyMap<string, string>>> = {
  SLACK_BOT_TOKEN: new Map(INVALID.map((code) => [code, NEW_BOT_TOKEN])),
  SLACK_APP_TOKEN: new Map([...INVALID, 'missing_scope'].map((code) => [code, NEW_APP_TOKEN])),
};
