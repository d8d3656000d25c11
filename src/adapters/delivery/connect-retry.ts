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

/** Codes of connections that were never made: no request left this machine. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOST(?:UNREACH|DOWN)|ENET(?:UNREACH|DOWN)|UND_ERR_CONNECT_TIMEOUT|\w*CERT\w*|UNABLE_TO_\w+)$/;
const DEPTH = 5;

/** The network's code for an error, and whether that code proves that nothing was sent; `null` when there is no code. */
export function networkFailure(error: unknown): { readonly code: string; readonly isUnsent: boolean } | null {
  const codes = networkCodes(error);
  const unsent = codes.find((each) => NOT_SENT.test(each));
  const code = unsent ?? codes[0];
  return code === undefined ? null : { code, isUnsent: unsent !== undefined };
}

/** The codes of an error, of its cause, and of the attempts that it sums up. */
function networkCodes(error: unknown, depth = 0): readonly string[] {
  if (!(error instanceof Error) || depth > DEPTH) return [];
  const code =
    'code' in error && typeof error.code === 'string' && /^[A-Z][A-Z\d_]+$/.test(error.code) ? error.code : null;
  const isConnecting = code === 'ETIMEDOUT' && 'syscall' in error && error.syscall === 'connect';
  const parts = error instanceof AggregateError ? error.errors : [];
  const inner = [error.cause, ...parts].flatMap((each) => networkCodes(each, depth + 1));
  return [...(code === null ? [] : [code]), ...inner, ...(isConnecting ? ['UND_ERR_CONNECT_TIMEOUT'] : [])];
}
