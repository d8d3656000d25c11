import { APICallError, generateText, tool } from 'ai';
import { z } from 'zod';
import type { BackendError } from '../agents/backends/backend.ts';
import { failureOf, modelOf } from '../agents/backends/llm/llm-models.ts';
import { bad, good } from '../adapters/port.ts';
import type { CheckResult } from '../adapters/port.ts';
import type { BackendConfig } from '../config/config.ts';
import { API_KEYS } from '../config/environment.ts';
import { nearest } from '../lib/nearest.ts';
import type { BackendsParts } from '../runtime/agent-factory.ts';

type Llm = Extract<BackendConfig, { kind: 'llm' }>;

/** Sends a model one short prompt. The finding says whether the model answers and, if not, what to do. */
export async function checkModel(backend: Llm, parts: BackendsParts): Promise<CheckResult> {
  const limit = new AbortController();
  const timer = parts.timers.after(LIMIT_MS, () => limit.abort());
  try {
    const model = modelOf(backend);
    const tools = { pass: tool({ description: 'Say nothing.', inputSchema: z.object({}), execute: () => 'done' }) };
    await generateText({
      model,
      prompt: 'Answer with the word OK.',
      maxOutputTokens: 16,
      maxRetries: 0,
      abortSignal: limit.signal,
      ...(backend.tools && { tools }),
    });
    return good('start', `${backend.model} answers (${placeOf(backend)})`);
  } catch (error) {
    if (limit.signal.aborted)
      return bad('start', `no answer within ${LIMIT_MS / 1_000} s from ${placeOf(backend)}`, LATER);
    const failure = failureOf(error, backend.model);
    return bad('start', `${failure.message} (${placeOf(backend)})`, await remedyFor(failure, backend, parts));
  } finally {
    timer.cancel();
  }
}

const LIMIT_MS = 30_000;
const LATER = 'Check that the service is running, and try again.';

/**
 * Returns what to do after a failure of a model. The demo's model is set by environment variables, so they are named.
 */
async function remedyFor(failure: BackendError, backend: Llm, { config }: BackendsParts): Promise<string> {
  const { cause } = failure;
  const isDemo = config.demoModel !== null;
  const names = isDemo
    ? { model: 'CONCH_MODEL', baseUrl: 'OPENAI_BASE_URL' }
    : { model: '"model" of this agent', baseUrl: '"baseUrl" of this agent' };
  const { provider } = backend;
  const own = provider === 'openai-compatible' ? null : API_KEYS[provider];
  const variable = own ?? (isDemo ? API_KEYS.openai : null);
  const key = variable === null ? '"apiKey" of this agent' : `${variable} in the environment or in .env`;
  if (!APICallError.isInstance(cause)) return `Set ${key}.`;
  const errorText = `${cause.message} ${cause.responseBody ?? ''}`;
  switch (cause.statusCode) {
    case undefined:
      return `Start the service, or correct ${names.baseUrl}.`;
    case 401:
    case 403:
      return `Copy the key again from the provider, and set ${key}.`;
    case 402:
    case 429:
      return "Check the account's credit and limits at the provider, and try again.";
    case 404:
      return await remedyForMissing(backend, names);
    default:
      if (backend.tools && /\btools?\b/i.test(errorText))
        return 'This model does not support tools: set `tools` to false.';
      return LATER;
  }
}

type Names = { readonly model: string; readonly baseUrl: string };

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/** Returns what to do after HTTP 404: the model or the address is wrong. The service's list of models tells which. */
async function remedyForMissing({ baseUrl, apiKey, model }: Llm, names: Names): Promise<string> {
  if (baseUrl === undefined) return `Set ${names.model} to a model that your key may use.`;
  const address = baseUrl.replace(/\/+$/, '');
  const models = await modelsAt(address, apiKey);
  if (models !== null && models.length > 0) {
    const meant = nearest(model, models);
    const guess = meant === null ? '' : ` Did you mean "${meant}"?`;
    const some = models.slice(0, SHOWN_MODELS).join(', ');
    return `Set ${names.model} to one that is there: ${some}${models.length > SHOWN_MODELS ? ', …' : ''}.${guess}`;
  }
  if (models !== null) return `The service has no models: install "${model}" there, or set ${names.model} to another.`;
  const below = `${address}/v1`;
  if ((await modelsAt(below, apiKey)) !== null) return `Set ${names.baseUrl} to "${below}".`;
  return `Correct ${names.baseUrl}: it ends with the version, as in "${below}"; or set ${names.model} to a model that is there.`;
}

const SHOWN_MODELS = 8;
const LIST_LIMIT_MS = 10_000;

async function modelsAt(baseUrl: string, apiKey: string | undefined): Promise<readonly string[] | null> {
  try {
    const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    const response = await fetch(`${baseUrl}/models`, { headers, signal: AbortSignal.timeout(LIST_LIMIT_MS) });
    return response.ok ? listSchema.parse(await response.json()).data.map(({ id }) => id) : null;
  } catch {
    return null;
  }
}

function placeOf({ baseUrl, provider }: Llm): string {
  return baseUrl ?? provider;
}
