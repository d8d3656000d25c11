import { REST, DiscordAPIError, HTTPError, RateLimitError, Routes } from 'discord.js';
import type { RawFile } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { retry } from '../../lib/retry.ts';
import type { WaitPorts } from '../../lib/retry.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import { ChatError, AdapterError } from '../port.ts';
import { defined, errorMessage } from '../../lib/defined.ts';
import { networkFailure } from '../delivery/connect-retry.ts';
import type { Judgement } from '../delivery/connect-retry.ts';
import type { Config } from '../../config/config.ts';

/** The bot's ids at Discord. */
export type Self = { readonly userId: string; readonly applicationId: string };

const userSchema = z.object({ id: z.string(), username: z.string() });
const applicationSchema = z.object({ id: z.string(), flags: z.number().catch(0) });

/**
 * Asks Discord for the bot's ids, its name, and the flags of its application. Does not convert errors to a
 * `ChatError`.
 */
export async function whoAmI(
  rest: REST,
): Promise<{ readonly self: Self; readonly name: string; readonly flags: number }> {
  const user = userSchema.parse(await rest.get(Routes.user()));
  const application = applicationSchema.parse(await rest.get(Routes.currentApplication()));
  return { self: { userId: user.id, applicationId: application.id }, name: user.username, flags: application.flags };
}

/** Switches for the Discord features that Conch uses. */
export type DiscordSettings = Config['adapters']['discord'];

/** How long Discord may take until an answer begins, in milliseconds. */
const TIMEOUT_MS = 15_000;

/**
 * Returns discord.js's REST client without its retries and its waits for rate limits. A rate limit is an error at once.
 * `apiUrl` has no version: "http://127.0.0.1:8080/api"; `null`: Discord's own.
 */
export function createClient(options: {
  readonly token: string;
  readonly apiUrl: string | null;
  readonly timeoutMs?: number;
}): REST {
  const { token, apiUrl, timeoutMs = TIMEOUT_MS } = options;
  return new REST({
    version: '10',
    retries: 0,
    rejectOnRateLimit: () => true,
    timeout: timeoutMs,
    ...(apiUrl === null ? {} : { api: apiUrl.replace(/\/+$/, '') }),
  }).setToken(token);
}

/** One request to Discord for a channel. */
export type Call = {
  readonly method: 'get' | 'post' | 'patch' | 'put' | 'delete';
  readonly route: `/${string}`;
  readonly channel: ChannelId;
  /**
   * The purpose of the request in a few words, which error messages contain. After Discord refused a request
   * with 401 or 403, except for a blocked reaction, later requests with this purpose in this channel fail for up to 10
   * minutes. Requests by webhook neither cause this nor fail by it.
   */
  readonly what: string;
  /** True: a 401 or 403 for this request does not block later requests. */
  readonly callerRetries?: boolean;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly files?: readonly RawFile[];
};

/** Discord's REST interface. `ask` and `tell` reject with a `ChatError`. */
export type Calls = {
  /** Resolves with the parsed answer. An answer that does not match the schema rejects with the fault `unclear`. */
  ask<T>(call: Call, answer: z.ZodType<T>): Promise<T>;
  tell(call: Call): Promise<void>;
  /** Called when permissions may have changed: unblocks the refused calls of a channel. */
  reopen(channel: ChannelId): void;
};

/**
 * How long calls refused for lack of rights are not repeated. Discord blocks an address after 10,000 answers of 401,
 * 403 or 429 in 10 minutes.
 */
const REFUSED_MS = 600_000;
/** The time limit of a whole request, in milliseconds. */
const WHOLE_MS = 25_000;
const REFUSALS_KEPT = 1_000;

/**
 * Returns the interface for one bot's requests to Discord. Remembers at most 1,000 refusals, then forgets all of them.
 */
export function createCalls(ports: { readonly rest: REST; readonly clock: Clock }): Calls {
  const { rest, clock } = ports;
  const refusals = new Map<
    string,
    { readonly channel: ChannelId; readonly until: Instant; readonly error: ChatError }
  >();
  const send = async (call: Call): Promise<unknown> => {
    const key = `${call.what} ${call.channel}`;
    // A webhook may post where the bot may not.
    const refusal = isWebhookCall(call) ? undefined : refusals.get(key);
    if (refusal !== undefined && clock.now() < refusal.until) throw refusal.error;
    try {
      return await rest[call.method](call.route, optionsOf(call));
    } catch (error) {
      const failed = chatError(error, { method: call.what, channel: call.channel });
      if (isLastingRefusal(call, failed)) {
        if (refusals.size >= REFUSALS_KEPT) refusals.clear();
        refusals.set(key, { channel: call.channel, until: clock.now() + REFUSED_MS, error: failed });
      }
      throw failed;
    }
  };
  return {
    async ask(call, answer) {
      const parsed = answer.safeParse(await send(call));
      if (parsed.success) return parsed.data;
      const failure = { method: call.what, channel: call.channel, fault: 'unclear' } as const;
      throw new ChatError(`Discord's answer to ${call.what} has an unexpected form`, failure);
    },
    async tell(call) {
      await send(call);
    },
    reopen(channel) {
      for (const [key, refusal] of refusals) if (refusal.channel === channel) refusals.delete(key);
    },
  };
}

type ReadCall = Pick<Call, 'route' | 'channel' | 'what' | 'query'>;

/**
 * Reads from Discord, with at most 7 attempts. Rejects with a `ChatError`, or with the abort reason of the signal.
 */
export type Reader = <T>(question: ReadCall, answer: z.ZodType<T>) => Promise<T>;

/** Returns a reader that repeats a failed read unless Discord refused it. */
export function createReader(calls: Calls, ports: WaitPorts): Reader {
  return (question, answer) =>
    retryRead(() => calls.ask({ ...question, method: 'get', callerRetries: true }, answer), ports);
}

/** Retries read-only work after each `ChatError` that is no refusal, up to 7 attempts, until the signal aborts. */
export function retryRead<T>(work: () => Promise<T>, ports: WaitPorts): Promise<T> {
  return retry(work, READ_AGAIN, {
    ...ports,
    judge({ error }) {
      if (!(error instanceof ChatError) || error.fault === 'refused') return 'give-up';
      return { notBeforeMs: Math.min(error.retryAfterMs ?? 0, READ_AGAIN.longestMs) };
    },
  });
}

const READ_AGAIN = { firstMs: 500, longestMs: 30_000, attempts: 7 };

type Options = NonNullable<Parameters<REST['get']>[1]>;

function optionsOf(call: Call): Options {
  return {
    ...(call.query === undefined ? {} : { query: new URLSearchParams(call.query) }),
    ...defined({ body: call.body }),
    ...(call.files === undefined ? {} : { files: [...call.files] }),
    auth: !isWebhookCall(call),
    signal: AbortSignal.timeout(WHOLE_MS),
  };
}

/** A request by webhook carries the webhook's own token. Its refusal says nothing about the bot's permissions. */
function isWebhookCall(call: Call): boolean {
  return call.route.startsWith('/webhooks/');
}

function isLastingRefusal(call: Call, error: ChatError): boolean {
  const answer = rejectionOf(error);
  if (answer === null || answer.code === CODES.reactionBlocked || error.fault !== 'refused') return false;
  return call.callerRetries !== true && !isWebhookCall(call) && [401, 403].includes(answer.status);
}

/** Returns Conch's id of a Discord channel or thread. */
export function channelId(snowflake: string): ChannelId {
  return `discord:${snowflake}`;
}

/** Returns Discord's own id of a channel or thread. */
export function platformChannel(channel: ChannelId): string {
  return channel.slice(channel.indexOf(':') + 1);
}

/** Returns the time when an object was made, from its id. */
export function timeOf(snowflake: string): Instant {
  return Number(BigInt(snowflake) >> 22n) + DISCORD_EPOCH_MS;
}

/** Returns the smallest id that an object made at that time can have. */
export function snowflakeAt(at: Instant): string {
  return (BigInt(Math.max(0, at - DISCORD_EPOCH_MS)) << 22n).toString();
}

const DISCORD_EPOCH_MS = 1_420_070_400_000;

/** The error codes of Discord that Conch tells apart. */
export const CODES = {
  unknownChannel: 10_003,
  unknownMessage: 10_008,
  unknownEmoji: 10_014,
  tooManyWebhooks: 30_007,
  tooManyReactions: 30_010,
  missingAccess: 50_001,
  missingPermissions: 50_013,
  reactionBlocked: 90_001,
  threadExists: 160_004,
} as const;

/** Discord's error answer without the request. Webhook URLs are secrets, and request bodies do not belong in logs. */
class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly status: number;
  readonly code: number | null;

  constructor(message: string, answer: { readonly status: number; readonly code: number | null }) {
    super(message);
    this.status = answer.status;
    this.code = answer.code;
  }
}

type CallContext = { readonly method: string; readonly channel: ChannelId };

/** Converts any error of a REST call to a `ChatError` whose fault says whether the call may have been executed. */
export function chatError(error: unknown, context: CallContext): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof RateLimitError) return limitError(error, context);
  if (error instanceof DiscordAPIError) return refusalError(error, context);
  const { method } = context;
  if (error instanceof HTTPError) {
    const cause = new Rejection(error.message, { status: error.status, code: null });
    return new ChatError(`Discord failed at ${method} (${error.status})`, { ...context, fault: 'unclear', cause });
  }
  const message = errorMessage(error);
  if (message.startsWith('Expected token to be set')) {
    const why = `Discord does not accept the bot's token (${method})`;
    return new ChatError(why, { ...context, fault: 'refused', retryAfterMs: CLOSED_MS });
  }
  const network = networkFailure(error);
  if (network?.isUnsent === true) {
    return new ChatError(`Discord cannot be reached (${network.code}): ${method}`, {
      ...context,
      fault: 'unreachable',
    });
  }
  return new ChatError(`No answer from Discord to ${method} (${shorten(message)})`, { ...context, fault: 'unclear' });
}

/** Returns Discord's answer behind a `ChatError`; `null` when there is none, and for other errors. */
export function rejectionOf(error: unknown): Rejection | null {
  return error instanceof ChatError && error.cause instanceof Rejection ? error.cause : null;
}

/** Returns whether Discord answered that it does not know the message, such as a deleted one. */
export function isUnknownMessage(error: unknown): boolean {
  return rejectionOf(error)?.code === CODES.unknownMessage;
}

/** Returns a short text of an error for the log. The error object itself may hold secrets. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? shorten(error.message) : 'an unknown error';
}

/**
 * Judges an error while connecting. Returns an error when a retry is pointless: Discord refuses the token or the
 * request. Otherwise returns the wait that Discord asks for in milliseconds, or 0.
 */
export const untilDiscord: Judgement = (error) => {
  const failed = chatError(error, { method: 'connect', channel: 'discord' });
  const status = error instanceof DiscordAPIError ? error.status : rejectionOf(failed)?.status;
  if (status === 401) return tokenRefused();
  return failed.fault === 'refused' ? failed : (failed.retryAfterMs ?? 0);
};

/** Returns the error for a token that Discord refuses. */
export function tokenRefused(): AdapterError {
  const todo =
    'Copy it again from the Bot page of your application at discord.com/developers, into the environment or .env.';
  return new AdapterError(`Discord does not accept DISCORD_TOKEN. ${todo}`, { adapter: 'discord' });
}

const MESSAGE_LENGTH = 200;
/**
 * The `retryAfterMs` of refusals that can be temporary: a permission can be granted again, and the next start can have
 * another token. The outbox retries such posts with its own backoff.
 */
const CLOSED_MS = 60_000;

function limitError(error: RateLimitError, context: CallContext): ChatError {
  const waits = [Math.max(error.retryAfter, error.sublimitTimeout), error.timeToReset];
  const wait = waits.find((ms) => Number.isFinite(ms) && ms > 0);
  return new ChatError(`Discord's rate limit delays ${context.method}`, {
    ...context,
    fault: 'limited',
    ...(wait === undefined ? {} : { retryAfterMs: Math.ceil(wait) }),
  });
}

function refusalError(error: DiscordAPIError, context: CallContext): ChatError {
  const { status } = error;
  const code = typeof error.code === 'number' ? error.code : null;
  const message = shorten(error.message);
  const cause = new Rejection(message, { status, code });
  const number = code === null || code === 0 ? `${status}` : `${status}, code ${code}`;
  // Discord's own answers have a code. A 403 without a code is from a proxy, and says nothing about permissions.
  const isForeign = status === 403 && code === null;
  const fault = isForeign ? 'unreachable' : status === 408 ? 'unclear' : status === 429 ? 'limited' : 'refused';
  const isPassing = status === 401 || code === CODES.missingAccess || code === CODES.missingPermissions;
  return new ChatError(`Discord refused ${context.method}: ${message} (${number})`, {
    ...context,
    fault,
    cause,
    ...(isPassing ? { retryAfterMs: CLOSED_MS } : {}),
    ...(code === CODES.unknownChannel ? { channelIsGone: true } : {}),
  });
}

function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').replaceAll(/\/webhooks\/\d+\/[^\s/?]+/g, '/webhooks/…');
  return line.length > MESSAGE_LENGTH ? `${line.slice(0, MESSAGE_LENGTH)}…` : line;
}
