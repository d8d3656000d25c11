import { DiscordAPIError, HTTPError, RateLimitError } from 'discord.js';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Judgement } from '../delivery/connect-retry.ts';
import { AdapterError, ChatError } from '../port.ts';

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
  const code = codesOf(error).find((each) => NOT_SENT.has(each));
  if (code !== undefined) {
    return new ChatError(`Discord cannot be reached (${code}): ${method}`, { ...where, fault: 'unreachable' });
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

/** What says that no request left this machine. */
const NOT_SENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

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

/** The codes of an error, of what caused it, and of the attempts that it sums up. */
function codesOf(error: unknown, depth = 0): readonly string[] {
  if (!(error instanceof Error) || depth > 3) return [];
  const own = 'code' in error && typeof error.code === 'string' ? [error.code] : [];
  const connecting = own.includes('ETIMEDOUT') && 'syscall' in error && error.syscall === 'connect';
  const parts = error instanceof AggregateError ? error.errors : [];
  const inner = [error.cause, ...parts].flatMap((each) => codesOf(each, depth + 1));
  return [...own, ...inner, ...(connecting ? ['UND_ERR_CONNECT_TIMEOUT'] : [])];
}
