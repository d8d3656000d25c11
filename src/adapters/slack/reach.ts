import type { Logger } from 'pino';
import { WebAPIRateLimitedError } from '@slack/web-api';
import type { Timers } from '../../lib/time.ts';
import { AdapterError } from '../port.ts';
import { slackCode } from './errors.ts';

/** The tokens that Slack may not take. */
export type TokenName = 'SLACK_BOT_TOKEN' | 'SLACK_APP_TOKEN';

/** Patience with a network that is not there. */
export type Reach = {
  /**
   * The answer to a call, asked for again for as long as Slack cannot be reached: after 1 s, doubling to 60 s. Rejects with
   * an `AdapterError` when Slack does not take the token, and with `Stopped` after `stop`.
   */
  answer<Result>(token: TokenName, work: () => Promise<Result>): Promise<Result>;
  /** Resolves after so many milliseconds, or at once when stopped. */
  pause(ms: number): Promise<void>;
  stop(): void;
  readonly isStopped: boolean;
};

/** The adapter was stopped while it waited. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** How long to wait after so many failures in a row, in milliseconds. */
export function pauseAfter(failures: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LONGEST_PAUSE_MS);
}

export function createReach({ timers, log }: { readonly timers: Timers; readonly log: Logger }): Reach {
  const stopping = Promise.withResolvers<void>();
  const state = { isStopped: false };

  async function pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = timers.after(ms, over.resolve);
    await Promise.race([over.promise, stopping.promise]);
    timer.cancel();
  }

  return {
    pause,
    async answer(token, work) {
      for (let failures = 1; !state.isStopped; failures += 1) {
        try {
          const answer = await work();
          if (!state.isStopped) return answer;
        } catch (error) {
          const broken = brokenBy(error, token);
          if (broken !== null) throw broken;
          const limitMs = error instanceof WebAPIRateLimitedError ? error.retryAfter * 1_000 : 0;
          const pauseMs = Math.max(pauseAfter(failures), limitMs);
          const level = failures < 4 ? 'warn' : 'error';
          log[level]({ failures, pauseMs, why: wordsOf(error) }, 'Slack cannot be reached; it is tried again');
          await pause(pauseMs);
        }
      }
      throw new Stopped('stopped before Slack answered');
    },
    get isStopped() {
      return state.isStopped;
    },
    stop() {
      state.isStopped = true;
      stopping.resolve();
    },
  };
}

/** What ends the program, if the error says that Slack will never take a token; else `null`. */
export function brokenBy(error: unknown, token: TokenName): AdapterError | null {
  const code = slackCode(error);
  const todo = code === null ? undefined : REMEDIES[token].get(code);
  if (code === null || todo === undefined) return null;
  return new AdapterError(`Slack does not take ${token} (${code}). ${todo}`, { adapter: 'slack' });
}

/** What an error says, without what was sent; networks hide their reason below their error. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'original' in error && error.original instanceof Error ? error.original : error;
  return inner.cause instanceof Error ? `${inner.message}: ${inner.cause.message}` : inner.message;
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
