import { DiscordAPIError } from 'discord.js';
import type { Logger } from 'pino';
import type { Timers } from '../../lib/time.ts';
import { AdapterError } from '../port.ts';
import type { ChatError } from '../port.ts';
import { chatError, rejectionOf } from './errors.ts';

/** What waiting for Discord needs; the signal ends the waiting. */
export type PatiencePorts = { readonly timers: Timers; readonly log: Logger; readonly signal: AbortSignal };

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** How long to wait before a further attempt: 1 s, doubling to 60 s. */
export function pauseMs(attempt: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
}

/**
 * Does something again until Discord answers; each failure is a line in the log. Rejects with an `AdapterError` when the
 * token is not accepted, with a `ChatError` when Discord refuses, and with the signal's reason when that ends it.
 */
export async function patiently<T>(what: string, work: () => Promise<T>, ports: PatiencePorts): Promise<T> {
  const { timers, log, signal } = ports;
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      const failed = chatError(error, { method: what, channel: 'discord' });
      if (isTokenRefused(error, failed)) throw tokenRefused();
      if (failed.fault === 'refused') throw failed;
      const waitMs = failed.retryAfterMs ?? pauseMs(attempt);
      log.warn(
        { attempt: attempt + 1, retryInMs: waitMs, why: failed.message },
        'Discord cannot be reached; trying again',
      );
      await pause(waitMs, { timers, signal });
    }
  }
}

/** Resolves after so many milliseconds; rejects with the signal's reason when that comes first. */
export async function pause(ms: number, { timers, signal }: Omit<PatiencePorts, 'log'>): Promise<void> {
  signal.throwIfAborted();
  const over = Promise.withResolvers<void>();
  const ended = (): void => over.reject(signal.reason);
  signal.addEventListener('abort', ended, { once: true });
  const timer = timers.after(ms, over.resolve);
  try {
    await over.promise;
  } finally {
    timer.cancel();
    signal.removeEventListener('abort', ended);
  }
}

/** The error for a token that Discord does not take. */
export function tokenRefused(): AdapterError {
  const todo =
    'Copy it anew from the Bot page of your application at discord.com/developers, into the environment or .env.';
  return new AdapterError(`Discord does not accept DISCORD_TOKEN. ${todo}`, { adapter: 'discord' });
}

function isTokenRefused(error: unknown, failed: ChatError): boolean {
  return (error instanceof DiscordAPIError && error.status === 401) || rejectionOf(failed)?.status === 401;
}
