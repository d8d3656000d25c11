import { APICallError, RetryError } from 'ai';
import { BackendError } from '../backend.ts';

/**
 * What a model's failure means: a rejected key, a missing model or a used-up quota is terminal, everything else may pass.
 * The cause is one line with the provider's own reason, never with the key.
 */
export function failureOf(error: unknown, model: string): BackendError {
  if (error instanceof BackendError) return error;
  if (RetryError.isInstance(error)) return failureOf(error.lastError, model);
  if (APICallError.isInstance(error)) return ofCall(error, model);
  const words = oneLine(reasonOf(error));
  return new BackendError(`the model failed: ${words}`, { cause: error, retryAfterMs: isPassing(error) ? 0 : null });
}

/** The model did not answer in time. */
export function stepTimedOut(ms: number): BackendError {
  return new BackendError(`the model did not answer within ${Math.round(ms / 100) / 10} s`);
}

/** Whether a service said no because of the tools that it was offered. */
export function takesNoTools(error: unknown): boolean {
  if (!APICallError.isInstance(error) || ![400, 404, 422, 501].includes(error.statusCode ?? 0)) return false;
  const said = `${error.message} ${error.responseBody ?? ''}`;
  return /\b(?:tools?|tool_choice|function.?call\w*|functions)\b/i.test(said) && NOT_TAKEN.test(said);
}

function ofCall(error: APICallError, model: string): BackendError {
  const { statusCode: status } = error;
  const reason = oneLine(error.message);
  const failure = (what: string, terminal: boolean, retryAfterMs: number | null = null) =>
    new BackendError(what, { terminal, retryAfterMs, cause: error });
  if (status === undefined) return failure(`the model cannot be reached: ${oneLine(innermost(error))}`, false, 0);
  if (status < 400) return failure(`the connection to the model broke: ${oneLine(innermost(error))}`, false, 0);
  if (status === 401) return failure('API key rejected (401)', true);
  if (status === 403) return failure(`access refused (403): ${reason}`, true);
  if (status === 404) return failure(`no model "${model}" (404): ${reason}`, true);
  if (status === 402 || isQuota(error)) return failure(`quota used up (${status}): ${reason}`, true);
  if (isTooLong(error)) return failure(`the conversation is too long for the model (${status}): ${reason}`, false);
  if (status === 429) return failure(`too many requests (429): ${reason}`, false, waitOf(error));
  if (status >= 500) return failure(`the model's service failed (${status}): ${reason}`, false, waitOf(error));
  return failure(`the request was refused (${status}): ${reason}`, false);
}

/** A connection that broke, and what a provider reports in the middle of an answer. */
function isPassing(error: unknown): boolean {
  if (error instanceof Error)
    return error instanceof TypeError || BROKEN.test(`${error.name} ${error.message} ${innermost(error)}`);
  return BUSY.test(JSON.stringify(error) ?? '');
}

/** What the provider asks for in Retry-After, in milliseconds: seconds, or the instant of a date. */
function waitOf({ responseHeaders = {} }: APICallError): number {
  const { 'retry-after-ms': ms, 'retry-after': after } = responseHeaders;
  if (ms !== undefined && Number(ms) >= 0) return Number(ms);
  if (after === undefined) return 0;
  if (Number(after) >= 0) return Number(after) * 1_000;
  const { date = '' } = responseHeaders;
  const waitMs = Date.parse(after) - Date.parse(date);
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : 0;
}

function isQuota({ responseBody, statusCode }: APICallError): boolean {
  return statusCode === 429 && /insufficient_quota|billing_hard_limit/.test(responseBody ?? '');
}

function isTooLong({ message, responseBody, statusCode }: APICallError): boolean {
  const said = `${message} ${responseBody ?? ''}`;
  return (
    statusCode === 413 ||
    (statusCode === 400 && /context[_ ](?:length|window)|prompt is too long|too many tokens/i.test(said))
  );
}

function innermost(error: unknown): string {
  let inner = error;
  for (let depth = 0; depth < DEEPEST && inner instanceof Error && inner.cause !== undefined; depth += 1)
    inner = inner.cause;
  if (inner instanceof AggregateError && inner.errors.length > 0) return reasonOf(inner.errors[0]);
  return reasonOf(inner);
}

function reasonOf(error: unknown): string {
  if (typeof error === 'string') return error;
  if (typeof error === 'object' && error !== null) {
    if ('message' in error && typeof error.message === 'string' && error.message !== '') return error.message;
    if ('error' in error) return reasonOf(error.error);
    if ('code' in error && typeof error.code === 'string') return error.code;
  }
  return 'no reason was given';
}

function oneLine(text: string): string {
  const plain = text.replaceAll(KEY, '[key]').replace(/\s+/g, ' ').trim();
  return plain.length > LONGEST ? `${plain.slice(0, LONGEST)}…` : plain;
}

const NOT_TAKEN =
  /not (?:\w+ ){0,2}support|unsupported|no endpoints? found|not allowed|not permitted|not available|unknown|unrecognized|extra/i;
const BROKEN = /ECONN|EPIPE|ETIMEDOUT|UND_ERR|socket|terminated|aborted|network|No ?Output/i;
const BUSY = /overloaded|server_error|api_error|internal|rate_limit|unavailable|timeout/i;
const KEY = /\b(?:sk|key|pk)-[\w*-]{4,}/g;
const LONGEST = 200;
const DEEPEST = 5;
