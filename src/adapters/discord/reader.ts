import type { REST } from 'discord.js';
import type { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import { chatError } from './errors.ts';
import { pause } from './patience.ts';

/** Something to be read from Discord, and what for. */
export type Question = {
  readonly route: `/${string}`;
  readonly channel: ChannelId;
  /** In one word, for errors. */
  readonly what: string;
  readonly query?: Readonly<Record<string, string>>;
};

/** Reads from Discord, for at most about a minute. Rejects with a `ChatError`, or with the reason why everything ends. */
export type Reader = <T>(question: Question, answer: z.ZodType<T>) => Promise<T>;

export type ReaderPorts = { readonly rest: REST; readonly timers: Timers; readonly signal: AbortSignal };

/** So often something is read before it is given up. */
const ATTEMPTS = 7;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** Reads again while Discord limits calls or cannot be reached: reading twice does no harm, and a gap in the history does. */
export function createReader({ rest, timers, signal }: ReaderPorts): Reader {
  return ({ route, channel, what, query }, answer) =>
    insisting(
      async () => {
        try {
          const got = await rest.get(route, query === undefined ? {} : { query: new URLSearchParams(query) });
          const parsed = answer.safeParse(got);
          if (parsed.success) return parsed.data;
        } catch (error) {
          throw chatError(error, { method: what, channel });
        }
        throw new ChatError(`Discord's answer to ${what} was not understood`, {
          method: what,
          channel,
          fault: 'unclear',
        });
      },
      { timers, signal },
    );
}

/** Does something that is only reading again until it works, is refused, or was tried often enough. */
export async function insisting<T>(work: () => Promise<T>, ports: Omit<ReaderPorts, 'rest'>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault === 'refused' || attempt === ATTEMPTS) throw error;
      const waitMs = error.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1);
      await pause(Math.min(waitMs, LONGEST_PAUSE_MS), ports);
    }
  }
}
