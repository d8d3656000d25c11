import { APICallError, generateText, tool } from 'ai';
import { z } from 'zod';
import type { CheckResult } from '../adapters/port.ts';
import { BackendError, UntrustedError } from '../agents/backends/backend.ts';
import { standingWords } from '../agents/trust/folder-trust.ts';
import { readChecks } from '../agents/backends/check-record.ts';
import { failureOf } from '../agents/backends/llm/llm-errors.ts';
import { modelOf } from '../agents/backends/llm/llm-models.ts';
import { listAgentTokens } from '../agents/backends/remote/tokens.ts';
import type { AgentConfig, BackendConfig } from '../config/config.ts';
import { nearest } from '../lib/nearest.ts';
import { createBackends } from '../runtime/agent-factory.ts';
import type { Backends, BackendsParts } from '../runtime/agent-factory.ts';
import { LoginStore } from '../agents/mcp/login-store.ts';
import { LoginNeededError, ServerLogins } from '../agents/mcp/server-logins.ts';
import { McpServer } from '../agents/mcp/mcp-server.ts';
import { folderStanding } from './agent-trust.ts';

/**
 * Tries whether each agent that has a seat can start: a model by one short request, a coding agent by a session that is
 * closed at once, a command by looking for its program, an agent from elsewhere by its token. What several agents share is
 * tried once.
 */
export async function tryAgents(parts: BackendsParts): Promise<readonly CheckResult[]> {
  const { agents, channels } = parts.config;
  const seated = agents.filter(({ id }) => channels.some((channel) => channel.agents.includes(id)));
  const backends = await createBackends(parts);
  const known = new Map<string, Trial>();
  const findings: CheckResult[] = [];
  try {
    for (const agent of seated) {
      if (agent.backend.kind === 'scripted') continue;
      const folder = parts.trust === undefined ? null : await folderStanding(agent, parts.trust);
      const shared = `${folder?.decision?.choice} ${JSON.stringify(agent.backend)}`;
      const key = agent.backend.kind === 'remote' ? agent.id : shared;
      const trial = known.get(key) ?? (await tryOne(agent, parts, backends));
      known.set(key, trial);
      findings.push({ what: `${agent.id}: start`, ...trial });
      if (folder?.decision?.choice === 'trusted')
        findings.push({ what: `${agent.id}: folder`, ...good(standingWords(agent.id, folder)) });
    }
  } finally {
    await backends.stop();
  }
  return findings;
}

type Trial = Omit<CheckResult, 'what'>;
type Llm = Extract<BackendConfig, { kind: 'llm' }>;

async function tryOne(agent: AgentConfig, parts: BackendsParts, backends: Backends): Promise<Trial> {
  const { backend, id, name, persona } = agent;
  if (backend.kind === 'llm') return await tryModel(backend, parts);
  if (backend.kind === 'remote') return tokenOf(id, parts.config.dataDir);
  try {
    const session = await backends.backendFor(agent).open({ channel: 'console:doctor', agent: id, name, persona });
    await session.close();
    return started(agent, session.program, parts.config.dataDir);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    if (error instanceof UntrustedError)
      return bad(plain(error.message), `Review these files. An operator decides with: /agent trust ${id}`);
    const todo = `Fix it, then run: conch doctor. docs/agents.md describes each kind of agent.`;
    return bad(plain(error.message), todo);
  }
}

function plain(text: string): string {
  return text.replaceAll(/[\p{C}\s]+/gu, ' ');
}

/** A release that was checked as another one only is a warning; that one never was checked is told elsewhere. */
function started({ id, backend }: AgentConfig, program: string | null | undefined, dataDir: string): Trial {
  if (program === undefined) return good('its program was found');
  const text = `it starts: ${program ?? 'its release is unknown'}`;
  if (backend.kind !== 'acp' || program === null) return good(text);
  const own = readChecks(dataDir).filter(({ agent, profile }) => agent === id && profile === backend.profile);
  if (own.length === 0 || own.some((each) => each.program === program)) return good(text);
  return {
    verdict: 'warning',
    text: `${text}, but only another release was checked`,
    todo: `Run: conch agent check ${id}`,
  };
}

function tokenOf(agent: string, dataDir: string): Trial {
  if (listAgentTokens(dataDir).some((entry) => entry.agent === agent)) return good('it has a token and can connect');
  return bad('it has no token, so it cannot connect', `Run: conch agent add ${agent}`);
}

async function tryModel(backend: Llm, parts: BackendsParts): Promise<Trial> {
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
    return good(`${backend.model} answers (${placeOf(backend)})`);
  } catch (error) {
    if (limit.signal.aborted) return bad(`no answer within ${LIMIT_MS / 1_000} s from ${placeOf(backend)}`, LATER);
    const failure = failureOf(error, backend.model);
    return bad(`${failure.message} (${placeOf(backend)})`, await remedyFor(failure, backend, parts));
  } finally {
    timer.cancel();
  }
}

const LIMIT_MS = 30_000;
const LATER = 'Check that the service is running, and try again.';
const KEYS = { openai: 'OPENAI_API_KEY', anthropic: 'ANTHROPIC_API_KEY', 'openai-compatible': null } as const;

/** What to do about a model that does not answer; the demo's model is named by variables. */
async function remedyFor(failure: BackendError, backend: Llm, { config }: BackendsParts): Promise<string> {
  const { cause } = failure;
  const isDemo = config.demoModel !== null;
  const names = isDemo
    ? { model: 'CONCH_MODEL', baseUrl: 'OPENAI_BASE_URL' }
    : { model: 'its key model', baseUrl: 'its key baseUrl' };
  const variable = KEYS[backend.provider] ?? (isDemo ? 'OPENAI_API_KEY' : null);
  const key = variable === null ? 'its key apiKey' : `${variable} in the environment or in .env`;
  if (!APICallError.isInstance(cause)) return `Set ${key}.`;
  const said = `${cause.message} ${cause.responseBody ?? ''}`;
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
      if (backend.tools && /\btools?\b/i.test(said)) return 'This model does not support tools: set `tools` to false.';
      return LATER;
  }
}

type Names = { readonly model: string; readonly baseUrl: string };

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/** A 404 is said of models and of addresses: the list of models tells which it was. */
async function remedyForMissing({ baseUrl, apiKey, model }: Llm, names: Names): Promise<string> {
  if (baseUrl === undefined) return `Set ${names.model} to a model that your key may use.`;
  const here = baseUrl.replace(/\/+$/, '');
  const models = await modelsAt(here, apiKey);
  if (models !== null && models.length > 0) {
    const meant = nearest(model, models);
    const guess = meant === null ? '' : ` Did you mean "${meant}"?`;
    const some = models.slice(0, SHOWN_MODELS).join(', ');
    return `Set ${names.model} to one that is there: ${some}${models.length > SHOWN_MODELS ? ', …' : ''}.${guess}`;
  }
  if (models !== null) return `The service has no models: install "${model}" there, or set ${names.model} to another.`;
  const below = `${here}/v1`;
  if ((await modelsAt(below, apiKey)) !== null) return `Set ${names.baseUrl} to "${below}".`;
  return `Correct ${names.baseUrl}: it ends with the version, as in "${below}"; or set ${names.model} to a model that is there.`;
}

const SHOWN_MODELS = 8;
const LIST_LIMIT_MS = 10_000;

/** The models of an endpoint; `null` when there is no list. */
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

function good(text: string): Trial {
  return { verdict: 'good', text, todo: null };
}

function bad(text: string, todo: string): Trial {
  return { verdict: 'bad', text, todo };
}

/** Tries whether each server of tools can be used: it is started, or reached, asked for its tools, and ended. */
export async function tryServers({ config, ...parts }: BackendsParts): Promise<readonly CheckResult[]> {
  const logins = new ServerLogins(new LoginStore(config.dataDir), parts);
  const ports = { ...parts, logins };
  return await Promise.all(
    Object.entries(config.mcp).map(async ([id, settings]): Promise<CheckResult> => {
      const server = new McpServer(id, settings, ports);
      const what = `${id}: tools`;
      try {
        const tools = await server.tools();
        const text = `it has ${tools.length}: ${namesOf(tools)}`;
        const [lack] = logins.waiting({ [id]: settings });
        if (lack === undefined) return { what, verdict: 'good', text, todo: null };
        return { what, verdict: 'warning', text: `${text}; ${lack.why}`, todo: `Run: conch mcp login ${id}` };
      } catch (error) {
        const text = (error instanceof Error ? error.message : String(error)).replaceAll(/[\p{C}\s]+/gu, ' ');
        const isLogin = error instanceof LoginNeededError;
        const todo = isLogin ? `Run: conch mcp login ${id}` : `Fix "${id}" under "mcp", then run: conch doctor`;
        return { what, verdict: 'bad', text, todo };
      } finally {
        await server.close();
      }
    }),
  );
}

const SHOWN_TOOLS = 8;

function namesOf(tools: readonly { readonly name: string }[]): string {
  const names = tools.slice(0, SHOWN_TOOLS).map(({ name }) => name);
  return [...names, ...(tools.length > SHOWN_TOOLS ? ['…'] : [])].join(', ') || 'none';
}
