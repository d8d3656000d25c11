import { REST, DiscordAPIError, HTTPError, RateLimitError } from 'discord.js';
import type { RawFile } from 'discord.js';
import type { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { retry } from '../../lib/retry.ts';
import type { WaitPorts } from '../../lib/retry.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import { ChatError, AdapterError } from '../port.ts';
import { defined } from '../../lib/defined.ts';
import { networkFailure } from '../delivery/connect-retry.ts';
import type { Judgement } from '../delivery/connect-retry.ts';

/** The bot, as Discord calls it. */
export type Self = { readonly userId: string; readonly applicationId: string };

/** What of Discord's abilities is used. */
export type DiscordSettings = {
  /** Agents speak under their own names. */
  readonly webhooks: boolean;
  /** Agents have roles that people can mention. */
  readonly roles: boolean;
  /** What agents write is shown while they write it. */
  readonly streaming: boolean;
  readonly cards: boolean;
  readonly typing: boolean;
};

/** How long Discord may take to begin an answer. */
const TIMEOUT_MS = 15_000;

/**
 * Discord's REST interface without hidden retries or waits: a rate limit is an error at once, and what is tried again is
 * decided by the outbox. `apiUrl` without a version, as in "http://127.0.0.1:8080/api"; `null` is Discord's own.
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

/** One request to Discord. */
export type Call = {
  readonly method: 'get' | 'post' | 'patch' | 'put' | 'delete';
  readonly route: `/${string}`;
  readonly channel: ChannelId;
  /** What it is for, in one word: errors carry it, and a refusal closes this use of the channel for a while. */
  readonly what: string;
  /** A refusal does not close this use: whoever asks waits itself before it asks again. */
  readonly isTriedAgain?: boolean;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly files?: readonly RawFile[];
};

/** Discord's REST interface as the sending side uses it. Everything rejects with a `ChatError`. */
export type Calls = {
  /** Resolves with the parsed answer; one that cannot be understood is unclear. */
  ask<T>(call: Call, answer: z.ZodType<T>): Promise<T>;
  /** For calls whose answer does not matter. */
  tell(call: Call): Promise<void>;
  /** What was refused in a channel may be asked again: permissions have changed. */
  reopen(channel: ChannelId): void;
};

/** Ten thousand answers of 401, 403 or 429 in ten minutes lock a machine out: what was refused is not asked for a while. */
const REFUSED_MS = 600_000;
/** An answer that has begun must also end. */
const WHOLE_MS = 25_000;
const REFUSALS_KEPT = 1_000;

/** Calls of one bot, with a memory of what it may not do. */
export function createCalls(ports: { readonly rest: REST; readonly clock: Clock }): Calls {
  const { rest, clock } = ports;
  const closed = new Map<string, { readonly channel: ChannelId; readonly until: Instant; readonly error: ChatError }>();
  const send = async (call: Call): Promise<unknown> => {
    const key = `${call.what} ${call.channel}`;
    const refusal = closed.get(key);
    if (refusal !== undefined && clock.now() < refusal.until) throw refusal.error;
    closed.delete(key);
    try {
      return await rest[call.method](call.route, optionsOf(call));
    } catch (error) {
      const failed = chatError(error, { method: call.what, channel: call.channel });
      if (closes(call, failed)) {
        if (closed.size >= REFUSALS_KEPT) closed.clear();
        closed.set(key, { channel: call.channel, until: clock.now() + REFUSED_MS, error: failed });
      }
      throw failed;
    }
  };
  return {
    async ask(call, answer) {
      const parsed = answer.safeParse(await send(call));
      if (parsed.success) return parsed.data;
      const { what: method, channel } = call;
      throw new ChatError(`Discord's answer to ${method} was not understood`, { method, channel, fault: 'unclear' });
    },
    async tell(call) {
      await send(call);
    },
    reopen(channel) {
      for (const [key, refusal] of closed) if (refusal.channel === channel) closed.delete(key);
    },
  };
}

/** Something to be read from Discord, and what for. */
type ReadCall = Pick<Call, 'route' | 'channel' | 'what' | 'query'>;

/** Reads from Discord, for at most about a minute. Rejects with a `ChatError`, or with the reason why everything ends. */
export type Reader = <T>(question: ReadCall, answer: z.ZodType<T>) => Promise<T>;

/** Reads again while Discord limits calls or cannot be reached: reading twice does no harm, and a gap in the history does. */
export function createReader(calls: Calls, ports: WaitPorts): Reader {
  return (question, answer) =>
    insisting(() => calls.ask({ ...question, method: 'get', isTriedAgain: true }, answer), ports);
}

/** Does something that is only reading again until it works, is refused, or was tried often enough. */
export function insisting<T>(work: () => Promise<T>, ports: WaitPorts): Promise<T> {
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

/** Webhooks have tokens of their own; a refused one says nothing about the bot. */
function isWebhookCall(call: Call): boolean {
  return call.route.startsWith('/webhooks/');
}

function closes(call: Call, error: ChatError): boolean {
  const answer = rejectionOf(error);
  if (answer === null || call.isTriedAgain === true || isWebhookCall(call) || answer.code === CODES.reactionBlocked)
    return false;
  return answer.status === 401 || answer.status === 403;
}

/** The id of a Discord channel or thread as the rest of Conch knows it. */
export function channelId(snowflake: string): ChannelId {
  return `discord:${snowflake}`;
}

/** Discord's own id of a channel or thread. */
export function platformChannel(channel: ChannelId): string {
  return channel.slice(channel.indexOf(':') + 1);
}

/** When something was made, by its id. */
export function timeOf(snowflake: string): Instant {
  return Number(BigInt(snowflake) >> 22n) + DISCORD_EPOCH_MS;
}

/** The smallest id of a moment. */
export function snowflakeAt(at: Instant): string {
  return (BigInt(Math.max(0, at - DISCORD_EPOCH_MS)) << 22n).toString();
}

const DISCORD_EPOCH_MS = 1_420_070_400_000;

/** Discord's numbers for what is wrong, as far as Conch tells them apart. */
export const CODES = {
  unknownChannel: 10_003,
  unknownMessage: 10_008,
  unknownEmoji: 10_014,
  tooManyWebhooks: 30_007,
  tooManyReactions: 30_010,
  missingAccess: 50_001,
  missingPermissions: 50_013,
  reactionBlocked: 90_001,
} as const;

/** What Discord answered, without the request: addresses of webhooks are secrets, and bodies do not belong in logs. */
class Rejection extends Error {
  override readonly name = 'Rejection';
  readonly status: number;
  /** One of Discord's own numbers; `null` when it gave none. */
  readonly code: number | null;

  constructor(message: string, answer: { readonly status: number; readonly code: number | null }) {
    super(message);
    this.status = answer.status;
    this.code = answer.code;
  }
}

type Where = { readonly method: string; readonly channel: ChannelId };

/** Anything that a call of Discord's REST interface throws as a `ChatError` that says whether it was executed. */
export function chatError(error: unknown, where: Where): ChatError {
  if (error instanceof ChatError) return error;
  if (error instanceof RateLimitError) return limited(error, where);
  if (error instanceof DiscordAPIError) return refused(error, where);
  const { method } = where;
  if (error instanceof HTTPError) {
    const cause = new Rejection(error.message, { status: error.status, code: null });
    return new ChatError(`Discord failed at ${method} (${error.status})`, { ...where, fault: 'unclear', cause });
  }
  const said = error instanceof Error ? error.message : String(error);
  if (said.startsWith('Expected token to be set')) {
    return new ChatError(`Discord does not take the bot's token (${method})`, { ...where, fault: 'refused' });
  }
  const network = networkFailure(error);
  if (network?.isUnsent === true) {
    return new ChatError(`Discord cannot be reached (${network.code}): ${method}`, { ...where, fault: 'unreachable' });
  }
  return new ChatError(`No answer from Discord to ${method} (${brief(said)})`, { ...where, fault: 'unclear' });
}

/** Discord's own answer behind an error; `null` when there was none. */
export function rejectionOf(error: unknown): Rejection | null {
  return error instanceof ChatError && error.cause instanceof Rejection ? error.cause : null;
}

/** Whether Discord said that the message is not there any more. */
export function isUnknownMessage(error: unknown): boolean {
  return rejectionOf(error)?.code === CODES.unknownMessage;
}

/** An error in a few words for the log: never the error itself, whose parts may hold secrets. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? brief(error.message) : 'an unknown error';
}

/** How Discord is waited for: not at all when it does not take the token, or refuses. */
export const untilDiscord: Judgement = (error) => {
  const failed = chatError(error, { method: 'connect', channel: 'discord' });
  const status = error instanceof DiscordAPIError ? error.status : rejectionOf(failed)?.status;
  if (status === 401) return tokenRefused();
  return failed.fault === 'refused' ? failed : (failed.retryAfterMs ?? 0);
};

/** The error for a token that Discord does not take. */
export function tokenRefused(): AdapterError {
  const todo =
    'Copy it anew from the Bot page of your application at discord.com/developers, into the environment or .env.';
  return new AdapterError(`Discord does not accept DISCORD_TOKEN. ${todo}`, { adapter: 'discord' });
}

const MESSAGE_LENGTH = 200;
/** Permissions may be given again. */
const CLOSED_MS = 60_000;

function limited(error: RateLimitError, where: Where): ChatError {
  const waits = [Math.max(error.retryAfter, error.sublimitTimeout), error.timeToReset];
  const wait = waits.find((ms) => Number.isFinite(ms) && ms > 0);
  return new ChatError(`Discord limits ${where.method}`, {
    ...where,
    fault: 'limited',
    ...(wait === undefined ? {} : { retryAfterMs: Math.ceil(wait) }),
  });
}

function refused(error: DiscordAPIError, where: Where): ChatError {
  const { status } = error;
  const code = typeof error.code === 'number' ? error.code : null;
  const said = brief(error.message);
  const cause = new Rejection(said, { status, code });
  const number = code === null || code === 0 ? `${status}` : `${status}, code ${code}`;
  const fault = status === 408 ? 'unclear' : status === 429 ? 'limited' : 'refused';
  const isPassing = code === CODES.missingAccess || code === CODES.missingPermissions;
  return new ChatError(`Discord refused ${where.method}: ${said} (${number})`, {
    ...where,
    fault,
    cause,
    ...(isPassing ? { retryAfterMs: CLOSED_MS } : {}),
    ...(code === CODES.unknownChannel ? { channelIsGone: true } : {}),
  });
}

function brief(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').replaceAll(/\/webhooks\/\d+\/[^\s/?]+/g, '/webhooks/…');
  return line.length > MESSAGE_LENGTH ? `${line.slice(0, MESSAGE_LENGTH)}…` : line;
}
