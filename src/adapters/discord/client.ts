import { REST } from 'discord.js';

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
