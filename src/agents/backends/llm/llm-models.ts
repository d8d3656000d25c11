import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModel } from 'ai';
import { BackendError } from '../backend.ts';
import { defined } from '../../../lib/defined.ts';

/** Remarks of the library on a model's abilities are no concern of the operator, and are not in the format of the log. */
globalThis.AI_SDK_LOG_WARNINGS = false;

/** Which model answers, and where. */
export type ModelSettings = {
  /** `openai-compatible`: any endpoint with chat completions (Ollama, vLLM, LM Studio, OpenRouter); it needs `baseUrl`. */
  readonly provider: 'openai' | 'anthropic' | 'openai-compatible';
  readonly model: string;
  /** Absent: the provider's own environment variable; an `openai-compatible` endpoint may need none. */
  readonly apiKey?: string | undefined;
  /** With the version, as in `https://api.openai.com/v1`. Absent: the provider's own. */
  readonly baseUrl?: string | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
};

/** The model that these settings name. Throws a terminal `BackendError` when they name none. */
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
