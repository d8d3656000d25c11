import type { Logger } from 'pino';
import { retry } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';

/** How long to wait before a platform is called again that could not be reached. */
export const CONNECT_RETRY = { firstMs: 1_000, longestMs: 60_000 };

/** What waiting for a platform needs; the signal ends it. */
type ConnectPorts = { readonly timers: Timers; readonly log: Logger; readonly signal: AbortSignal };

/** Makes of a failure why it will never be better, or how long the platform wants to be left alone, in milliseconds. */
export type Judgement = (error: unknown) => Error | number;

/**
 * Makes the patience with one platform: it does work again for as long as the platform cannot be reached, after 1 s, doubling
 * to 60 s, each failure a line in the log. Rejects with what the judgement says will never be better, and with the signal's reason.
 */
export function createConnectRetry(platform: string, ports: ConnectPorts) {
  return <T>(work: () => Promise<T>, judge: Judgement): Promise<T> =>
    retry(work, CONNECT_RETRY, {
      ...ports,
      judge({ error }) {
        const judged = judge(error);
        if (judged instanceof Error) throw judged;
        return { notBeforeMs: judged };
      },
      waiting({ error, failures, waitMs }) {
        const level = failures < 4 ? 'warn' : 'error';
        ports.log[level](
          { failures, retryInMs: waitMs, why: reasonOf(error) },
          `${platform} cannot be reached; it is tried again`,
        );
      },
    });
}

/** What an error says, without what was sent; networks hide their reason below their error. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'original' in error && error.original instanceof Error ? error.original : error;
  return inner.cause instanceof Error ? `${inner.message}: ${inner.cause.message}` : inner.message;
}
