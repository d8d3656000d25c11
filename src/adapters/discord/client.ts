import { REST } from 'discord.js';
import type { RawFile } from 'discord.js';
import type { z } from 'zod';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { retry } from '../../lib/retry.ts';
import type { WaitPorts } from '../../lib/retry.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import { CODES, chatError, rejectionOf } from './errors.ts';
import { defined } from '../../lib/defined.ts';

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

/** The id of a message: Discord's are unique in all of Discord. */
export function messageId(snowflake: string): MessageId {
  return snowflake;
}

/** Discord's own id of a message. */
export function platformMessage(message: MessageId): string {
  return message;
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
