import { RequestError } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import type { AcpProfile } from './acp-profiles.ts';
import { BackendError } from '../backend.ts';

/** Whether an agent answered that somebody has to sign in first. */
export function wantsSignIn(error: unknown): boolean {
  return error instanceof RequestError && error.code === SIGN_IN;
}

/** An agent's own "no" as a failure of its session, with the reason that it gave; a rejected key or account is terminal. */
export function acpFailure(error: unknown, profile: AcpProfile): BackendError {
  if (error instanceof BackendError) return error;
  if (!(error instanceof RequestError)) return new BackendError(String(error), { cause: error });
  if (error.code === SIGN_IN) {
    const way = profile.signIn === undefined ? '' : `, or set ${profile.signIn.when.join(' or ')}`;
    const words = `${profile.name} is not signed in: sign in with its own program${way}`;
    return new BackendError(words, { terminal: true, cause: error });
  }
  const words = reasonOf(error);
  const terminal = REJECTED.test(words);
  return new BackendError(words, { terminal, retryAfterMs: terminal ? null : waitOf(words), cause: error });
}

/** Agents pass on in words what their model's service said, some with how long to wait. */
function waitOf(words: string): number | null {
  const [, after, unit] = /(?:retry|try again)[^.]{0,20}?(\d+(?:\.\d+)?) ?(ms|s)/i.exec(words) ?? [];
  if (!BUSY.test(words)) return null;
  return after === undefined ? 0 : Number(after) * (unit === 'ms' ? 1 : 1_000);
}

const SIGN_IN = -32_000;
const BUSY =
  /\b429\b|\b5(?:0[0234]|29)\b|too many requests|rate.?limit|overloaded|unavailable|ECONN|ETIMEDOUT|socket|fetch failed|connection (?:error|closed|reset|refused)|network error/i;
const REJECTED =
  /\b401\b|\b403\b|invalid.{0,12}(?:api.?key|x-api-key|token)|api.?key.{0,24}(?:invalid|not valid|rejected)|unauthori[sz]ed|authentication.{0,12}(?:failed|error)|insufficient.{0,12}(?:quota|credit)|credit balance/i;

const reasons = z.union([
  z.string(),
  z.object({ details: z.string() }).transform(({ details }) => details),
  z.object({ message: z.string() }).transform(({ message }) => message),
  z.object({ error: z.string() }).transform(({ error }) => error),
]);

/** Agents put the reason beside a message that only says "Internal error". */
function reasonOf(error: RequestError): string {
  const reason = reasons.safeParse(error.data);
  if (!reason.success || error.message.includes(reason.data)) return error.message;
  return `${error.message}: ${reason.data}`;
}
