import type { Logger } from 'pino';
import { retry } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import { AdapterError } from '../port.ts';

/** Backoff between attempts to connect to a platform. */
export const CONNECT_RETRY = { firstMs: 1_000, longestMs: 60_000 };

type ConnectPorts = { readonly timers: Timers; readonly log: Logger; readonly signal: AbortSignal };

/**
 * Judges a failure. Returns an error when a retry is pointless, else the minimum wait before the retry in milliseconds.
 */
export type Judgement = (error: unknown) => Error | number;

/**
 * Creates a function that repeats work at one platform until the work succeeds, fails with an `AdapterError`, or the
 * judgement returns an error. Waits 1 s, doubling to 60 s, or longer by the judgement. Rejects with the `AdapterError`,
 * the judgement's error, or the signal's reason.
 */
export function createConnectRetry(platform: string, ports: ConnectPorts) {
  return <T>(work: () => Promise<T>, judge: Judgement): Promise<T> =>
    retry(work, CONNECT_RETRY, {
      ...ports,
      judge({ error }) {
        const verdict = error instanceof AdapterError ? error : judge(error);
        if (verdict instanceof Error) throw verdict;
        return { notBeforeMs: verdict };
      },
      waiting({ error, failures, waitMs }) {
        const level = failures < 4 ? 'warn' : 'error';
        ports.log[level](
          { failures, retryInMs: waitMs, why: reasonOf(error) },
          `connecting to ${platform} failed; retried`,
        );
      },
    });
}

/**
 * Returns the message of an error (of its `original`, if set) and of the cause. Leaves out request data. HTTP clients
 * hide the reason in the cause.
 */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'original' in error && error.original instanceof Error ? error.original : error;
  return inner.cause instanceof Error ? `${inner.message}: ${inner.cause.message}` : inner.message;
}

/** Error codes which prove that no request was sent. */
const UNSENT_CODES =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOST(?:UNREACH|DOWN)|ENET(?:UNREACH|DOWN)|UND_ERR_CONNECT_TIMEOUT|\w*CERT\w*|UNABLE_TO_\w+)$/;
const DEPTH = 5;

/**
 * Returns a network error's code, such as ECONNRESET, and whether the code proves that nothing was sent. `null`: no
 * code.
 */
export function networkFailure(error: unknown): { readonly code: string; readonly isUnsent: boolean } | null {
  const codes = networkCodes(error);
  const unsent = codes.find((each) => UNSENT_CODES.test(each));
  const code = unsent ?? codes[0];
  return code === undefined ? null : { code, isUnsent: unsent !== undefined };
}

function networkCodes(error: unknown, depth = 0): readonly string[] {
  if (!(error instanceof Error) || depth > DEPTH) return [];
  const code =
    'code' in error && typeof error.code === 'string' && /^[A-Z][A-Z\d_]+$/.test(error.code) ? error.code : null;
  const isConnecting = code === 'ETIMEDOUT' && 'syscall' in error && error.syscall === 'connect';
  const parts = error instanceof AggregateError ? error.errors : [];
  const inner = [error.cause, ...parts].flatMap((each) => networkCodes(each, depth + 1));
  return [...(code === null ? [] : [code]), ...inner, ...(isConnecting ? ['UND_ERR_CONNECT_TIMEOUT'] : [])];
}
