import { WebAPIHTTPError, WebAPIPlatformError, WebAPIRateLimitedError, WebAPIRequestError } from '@slack/web-api';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Judgement } from '../delivery/connect-retry.ts';
import { AdapterError, ChatError } from '../port.ts';
import { defined } from '../../lib/defined.ts';

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
/** No connection was made, so nothing was sent. */
const UNREACHABLE =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOST(?:UNREACH|DOWN)|ENET(?:UNREACH|DOWN)|UND_ERR_CONNECT_TIMEOUT|\w*CERT\w*|UNABLE_TO_\w+)$/;
const BUSY_MS = 30_000;
const DEPTH = 5;

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
  const code = networkCode(error instanceof WebAPIRequestError ? error.original : error);
  if (code !== null && UNREACHABLE.test(code)) return { fault: 'unreachable', why: code };
  return { fault: 'unclear', why: code ?? (isTimeout(error) ? 'no answer in time' : 'the connection broke') };
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
  return isProgram && networkCode(error) === null && !isTimeout(error) && error.message !== 'fetch failed';
}

function wordIn(error: unknown): string | null {
  return typeof error === 'string' && /^[a-z][\w.:-]{0,80}$/.test(error) ? error : null;
}

function networkCode(error: unknown, depth = 0): string | null {
  if (!(error instanceof Error) || depth === DEPTH) return null;
  if ('code' in error && typeof error.code === 'string' && /^[A-Z][A-Z\d_]+$/.test(error.code)) return error.code;
  return networkCode(error.cause, depth + 1);
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
