import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModel, LanguageModelUsage } from 'ai';
import { BackendError } from '../backend.ts';
import { defined } from '../../../lib/defined.ts';
import { APICallError, RetryError } from 'ai';
import type { Instant } from '../../../lib/time.ts';
import type { Report, Usage } from '../backend.ts';

/** Turns off the warnings of the AI SDK, whose format would break the log. */
globalThis.AI_SDK_LOG_WARNINGS = false;

/** Which model to call, and where. */
export type ModelSettings = {
  /**
   * `openai-compatible`: any endpoint with chat completions (Ollama, vLLM, LM Studio, OpenRouter). It requires
   * `baseUrl`.
   */
  readonly provider: 'openai' | 'anthropic' | 'openai-compatible';
  readonly model: string;
  /** The API key. Default: `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`; for `openai-compatible` no key is sent. */
  readonly apiKey?: string | undefined;
  /**
   * The URL with the version, such as `https://api.openai.com/v1`. Default: `OPENAI_BASE_URL` or `ANTHROPIC_BASE_URL`,
   * else the provider's own.
   */
  readonly baseUrl?: string | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
};

/** Returns the model for the settings. Throws a terminal `BackendError` when the API key or base URL is missing. */
export function modelOf(settings: ModelSettings): LanguageModel {
  const { provider, model, baseUrl, fetch } = settings;
  const apiKey = settings.apiKey ?? process.env[KEYS[provider] ?? ''];
  if (!apiKey && provider in KEYS) throw new BackendError('the API key is missing', { terminal: true });
  const common = { ...(apiKey !== undefined && { apiKey }), ...(fetch && { fetch }) };
  const base = defined({ baseURL: baseUrl });
  switch (provider) {
    case 'openai':
      return createOpenAI({ ...common, ...base }).responses(model);
    case 'anthropic':
      return createAnthropic({ ...common, ...base }).messages(model);
    case 'openai-compatible':
      if (baseUrl === undefined) throw new BackendError('no base URL is set for the model', { terminal: true });
      return createOpenAICompatible({ ...common, name: 'compatible', baseURL: baseUrl, includeUsage: true }).chatModel(
        model,
      );
  }
}

const KEYS: Readonly<Record<string, string>> = { openai: 'OPENAI_API_KEY', anthropic: 'ANTHROPIC_API_KEY' };

/**
 * Converts a model's failure to a `BackendError`; returns a `BackendError` unchanged. A rejected key, refused access, a
 * missing model or a used-up quota is terminal. The message is one line. API keys that begin with "sk-", "pk-" or
 * "key-" are redacted.
 */
export function failureOf(error: unknown, model: string): BackendError {
  if (error instanceof BackendError) return error;
  if (RetryError.isInstance(error)) return failureOf(error.lastError, model);
  if (APICallError.isInstance(error)) return ofCall(error, model);
  const words = oneLine(reasonOf(error));
  return new BackendError(`the model failed: ${words}`, { cause: error, retryAfterMs: isTemporary(error) ? 0 : null });
}

/** Returns the error for a model that did not answer in time. */
export function stepTimedOut(ms: number): BackendError {
  return new BackendError(`the model did not answer within ${Math.round(ms / 100) / 10} s`);
}

/** Returns whether the service refused the request because the request offers tools. */
export function takesNoTools(error: unknown): boolean {
  if (!APICallError.isInstance(error) || ![400, 404, 422, 501].includes(error.statusCode ?? 0)) return false;
  const answer = `${error.message} ${error.responseBody ?? ''}`;
  return /\b(?:tools?|tool_choice|function.?call\w*|functions)\b/i.test(answer) && NOT_TAKEN.test(answer);
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

function isTemporary(error: unknown): boolean {
  if (error instanceof Error)
    return error instanceof TypeError || BROKEN.test(`${error.name} ${error.message} ${innermost(error)}`);
  return BUSY.test(JSON.stringify(error) ?? '');
}

/**
 * Returns the wait that Retry-After-Ms or Retry-After asks for, in milliseconds. A date counts from the answer's Date
 * header. 0 when neither header names a valid wait.
 */
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
  const answer = `${message} ${responseBody ?? ''}`;
  return (
    statusCode === 413 ||
    (statusCode === 400 && /context[_ ](?:length|window)|prompt is too long|too many tokens/i.test(answer))
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
const BROKEN = /ECONN|EPIPE|ETIMEDOUT|UND_ERR|socket|terminated|aborted|network|No ?Output|without a finish reason/i;
const BUSY = /overloaded|server_error|api_error|internal|rate_limit|unavailable|timeout/i;
const KEY = /\b(?:sk|key|pk)-[\w*-]{4,}/g;
const LONGEST = 200;
const DEEPEST = 5;

/** Provider, model and prices used to record calls. */
export type LlmPrices = {
  readonly provider: string;
  readonly modelName: string;
  readonly prices: ModelPrices;
};

/** Prices in US dollars per million tokens. */
export type ModelPrices = {
  readonly inputUsdPerMTok?: number | undefined;
  readonly outputUsdPerMTok?: number | undefined;
  /** Price of input read from the provider's cache. Default: `inputUsdPerMTok`. */
  readonly cachedInputUsdPerMTok?: number | undefined;
  /** Price of input written to the provider's cache. Default: `inputUsdPerMTok`. */
  readonly cacheWriteUsdPerMTok?: number | undefined;
};

/** Length of request and answer in characters. Used to estimate tokens that the provider does not report. */
export type CallSize = { readonly request: number; readonly answer: number };

/** The size of a model call that failed before any text: no usage. */
export const NO_USAGE: CallSize = { request: 0, answer: 0 };

/** Reports the usage of each model call once, however the call ended. */
export class LlmCall {
  readonly #prices: LlmPrices;
  readonly #report: Pick<Report, 'usage' | 'now'>;
  /** When the running call began. `null`: no call is running. */
  #beganAt: Instant | null = null;

  constructor(prices: LlmPrices, report: Pick<Report, 'usage' | 'now'>) {
    this.#prices = prices;
    this.#report = report;
  }

  begin(): void {
    this.#beganAt = this.#report.now();
  }

  /**
   * Ends the running call and reports its usage; does nothing when no call is running. Estimates 1 token per 4
   * characters unless the provider reports both input and output tokens.
   */
  end(outcome: Usage['use']['outcome'], counted: LanguageModelUsage | null, { request, answer }: CallSize): void {
    if (this.#beganAt === null) return;
    const ms = this.#report.now() - this.#beganAt;
    this.#beganAt = null;
    const { provider, modelName: model, prices } = this.#prices;
    const isCounted = counted?.inputTokens !== undefined && counted.outputTokens !== undefined;
    const input = (isCounted ? counted.inputTokens : undefined) ?? Math.ceil(request / 4);
    const output = (isCounted ? counted.outputTokens : undefined) ?? Math.ceil(answer / 4);
    const { cacheReadTokens: cached = null, cacheWriteTokens: cacheWrite } = counted?.inputTokenDetails ?? {};
    const ofCache = isCounted
      ? { cacheRead: cached ?? 0, cacheWrite: cacheWrite ?? 0 }
      : { cacheRead: 0, cacheWrite: 0 };
    const cost = costOf({ input, output, ...ofCache }, prices);
    const source = cost === null ? 'unpriced' : isCounted ? 'computed' : 'estimated';
    const use = { backend: `llm/${provider}`, model, input, output, cached, source, outcome, ms } as const;
    this.#report.usage({ tokens: input + output, costMicros: Math.round(cost ?? 0), use });
  }
}

type Counted = {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
};

/** Returns the cost in millionths of a dollar. `null`: the price of input or output is not configured. */
function costOf({ input, output, cacheRead, cacheWrite }: Counted, prices: ModelPrices): number | null {
  const { inputUsdPerMTok: plain, outputUsdPerMTok: outputPrice } = prices;
  if (plain === undefined || outputPrice === undefined) return null;
  const { cachedInputUsdPerMTok = plain, cacheWriteUsdPerMTok = plain } = prices;
  const rest = Math.max(0, input - cacheRead - cacheWrite);
  return rest * plain + cacheRead * cachedInputUsdPerMTok + cacheWrite * cacheWriteUsdPerMTok + output * outputPrice;
}
