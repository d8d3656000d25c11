import { LogLevel, WebClient } from '@slack/web-api';
import type { WebClientOptions } from '@slack/web-api';
import { z } from 'zod';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import { chatError } from './errors.ts';

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
export type ClientOptions = {
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
    ...(fetch === undefined ? {} : { fetch }),
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
export type SlackPlace = { readonly channel: string; readonly thread: string | null };

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
