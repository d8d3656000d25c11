import type { z } from 'zod';
import { agentsAndCrews } from '../config.ts';
import { API_KEYS } from '../environment.ts';
import { below } from '../error.ts';
import type { Tell } from '../error.ts';
import type { ConfigFile, backendSchema } from '../schema.ts';
import type { AgentDraft, Draft } from './draft.ts';
import { checkProgram, checkVariable } from './programs.ts';
import type { Around } from './programs.ts';

type Backend = z.output<typeof backendSchema>;
type Llm = Extract<Backend, { kind: 'llm' }>;
type Program = Extract<Backend, { kind: 'acp' | 'command' }>;

/**
 * Checks the backend of each agent and crew against the file, the environment and this machine: addresses, keys,
 * models, commands, folders, variables. Reports approvers who cannot approve. Of a backend that the schema refuses,
 * checks only settings that keep an agent from asking for approval.
 */
export const checkAgents = (draft: Draft, around: Around, tell: Tell): void => {
  const { agents = [], operators } = draft;
  const ids = agents.map(({ id }) => id);
  const canApprove = operators.users.length + operators.roles.length > 0;
  for (const [index, agent] of agents.entries())
    checkApprovers(agent, { ids, canApprove }, below(tell, 'agents', index, 'approvers'));
  for (const agent of agentsAndCrews(draft)) {
    const { whole } = agent.backend;
    const backend = below(tell, ...agent.place, 'backend');
    const isOfCrew = agent.place[0] === 'crews';
    checkAsking(agent, isOfCrew ? 'crew' : 'agent', backend);
    if (whole?.kind === 'llm') checkModel(whole, around, backend);
    // Workers of a crew start in the worktree of their ticket, whatever `cwd` says.
    if (whole?.kind === 'acp' || whole?.kind === 'command')
      checkStarted(whole, { ...around, isMadeLater: isOfCrew }, backend);
  }
};

const checkApprovers = (
  { approvers = [] }: AgentDraft,
  { ids, canApprove }: { readonly ids: readonly AgentDraft['id'][]; readonly canApprove: boolean },
  tell: Tell,
): void => {
  if (approvers === 'other') {
    const message =
      '"operators" is empty, so nobody else can approve a request made on the page of this machine: add operators';
    if (!canApprove) tell([], message, 'unwise');
    return;
  }
  for (const [index, id] of approvers.entries())
    if (ids.includes(id)) tell([index], `"${id}" is an agent, and agents cannot approve: remove it`);
};

/**
 * By profile: what the configuration must not contain, because with it the agent could act without an approval.
 * `variables`: variables that Conch sets. `switches`: arguments and other variables.
 */
const KEPT: Readonly<
  Record<string, { readonly variables?: readonly string[]; readonly switches?: readonly string[] }>
> = {
  opencode: { variables: ['OPENCODE_PERMISSION', 'OPENCODE_DISABLE_PROJECT_CONFIG'] },
  codex: { variables: ['INITIAL_AGENT_MODE'] },
  gemini: { switches: ['--yolo', '--approval-mode', '--admin-policy', '--allowed-tools'] },
  qwen: { variables: ['QWEN_CODE_SYSTEM_SETTINGS_PATH'], switches: ['--yolo', '--approval-mode', '--allowed-tools'] },
  copilot: {
    switches: ['COPILOT_ALLOW_ALL', '--allow-all-tools', '--allow-all', '--yolo', '--allow-tool', '--autopilot'],
  },
  kimi: { switches: ['--yolo', '--auto-approve', '--auto'] },
};

/** By profile: what its agents do without an approval, as the predicate of a sentence. */
export const ACTS_UNASKED = { kimi: 'writes files of a Git repository without asking' } as const;

const unaskedActs: ReadonlyMap<string, string> = new Map(Object.entries(ACTS_UNASKED));

const checkAsking = (
  { backend: { started }, trusted = false }: Pick<AgentDraft, 'backend' | 'trusted'>,
  owner: 'agent' | 'crew',
  tell: Tell,
): void => {
  if (started === null) return;
  const { profile, args, env, set } = started;
  const { variables = [], switches = [] } = KEPT[profile] ?? {};
  const instead = `remove it, or use the profile "generic", which does not promise to ask`;
  const check = (word: string, path: readonly PropertyKey[]) => {
    if (variables.includes(word)) tell(path, `Conch sets ${word} itself, so that ${profile} asks: ${instead}`);
    if (switches.includes(word.split('=')[0] ?? '')) tell(path, `With ${word} ${profile} would not ask: ${instead}`);
  };
  for (const name of Object.keys(set)) check(name, ['set', name]);
  for (const [index, name] of env.entries()) check(name, ['env', index]);
  for (const [index, arg] of args.entries()) check(arg, ['args', index]);
  const words = unaskedActs.get(profile);
  if (words === undefined) return;
  const problem = `${profile} ${words}, and cannot be made to ask`;
  const message = trusted
    ? `${problem}: Conch starts it because "trusted" is true`
    : `${problem}: Conch does not start it. Set "trusted": true at this ${owner} to use it anyway, or choose another program`;
  tell([], message, 'unwise');
};

const checkStarted = (backend: Program, around: Around, tell: Tell): void => {
  if (backend.command === undefined && backend.kind === 'acp' && backend.profile === 'generic')
    tell(['command'], 'The profile "generic" has no default program: add `command`, or choose another profile');
  checkProgram(backend, around, tell);
  for (const [index, name] of backend.env.entries()) checkVariable(name, ['env', index], tell);
  for (const name of Object.keys(backend.set)) checkVariable(name, ['set', name], tell);
};

const checkModel = (backend: Llm, around: Around, tell: Tell): void => {
  checkAddress(backend, tell);
  checkKey(backend, around, tell);
  const { provider, model, baseUrl } = backend;
  if (baseUrl !== undefined || provider === 'openai-compatible') return;
  const owner = MODELS.find(([names]) => names.test(model))?.[1] ?? provider;
  const instead = owner === 'openai-compatible' ? `"${owner}" with the baseUrl of its server` : `"${owner}"`;
  if (owner !== provider)
    tell(['model'], `"${model}" is not a model of ${provider}: set provider to ${instead}, or choose another model`);
};

const MODELS: readonly (readonly [RegExp, Llm['provider']])[] = [
  [/^claude\b/i, 'anthropic'],
  [/^(?:gpt-(?!oss)|o\d\b|chatgpt\b|codex\b)/i, 'openai'],
  [
    /^(?:gemini|gemma|llama|mi[sx]tral|codestral|qwen|deepseek|grok|phi|kimi|glm|gpt-oss)|^[\w.-]+\//i,
    'openai-compatible',
  ],
];

const OLLAMA = 'http://127.0.0.1:11434/v1';
const CALLS = /\/(?:chat\/completions|completions|responses|messages|embeddings|models)\/?$/;
const HOSTS: Readonly<Record<string, Llm['provider']>> = {
  'api.openai.com': 'openai',
  'api.anthropic.com': 'anthropic',
};

const checkAddress = ({ provider, baseUrl }: Llm, tell: Tell): void => {
  const path = ['baseUrl'];
  if (baseUrl === undefined) {
    const message = `"openai-compatible" has no default address: add baseUrl, such as "${OLLAMA}" for Ollama`;
    if (provider === 'openai-compatible') tell(path, message);
    return;
  }
  const { host, pathname, search } = new URL(baseUrl);
  const [call] = CALLS.exec(pathname) ?? [];
  const owner = HOSTS[host];
  if (call !== undefined) tell(path, `Conch adds "${call}" itself: remove it`);
  else if (search !== '') tell(path, `An address cannot have a query: remove "${search}"`);
  else if (owner !== undefined && owner !== provider && provider !== 'openai-compatible')
    tell(path, `This is the address of ${owner}: set provider to "${owner}", or remove it`);
  else if (pathname === '/')
    tell(path, `Most servers have their API below /v1: write "${new URL('v1', baseUrl).href}"`, 'unwise');
};

const VARIABLE = /^(?:\$|process\.env\.)?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN))$/;

const checkKey = ({ provider, apiKey, baseUrl }: Llm, { env, purpose }: Around, tell: Tell): void => {
  const path = ['apiKey'];
  const [, name] = VARIABLE.exec(apiKey ?? '') ?? [];
  if (name !== undefined) return tell(path, `This is the name of a variable: write "\${${name}}" for its value`);
  if (provider === 'openai-compatible') return;
  const variable = API_KEYS[provider];
  const value = apiKey ?? env[variable];
  if (value === undefined) {
    const message = `There is no API key: set ${variable} in the environment or in .env, or add apiKey`;
    if (purpose !== 'look') tell(path, message);
    return;
  }
  const owner = value.startsWith('sk-ant-') ? 'anthropic' : value.startsWith('sk-') ? 'openai' : provider;
  if (owner === provider || baseUrl !== undefined) return;
  const from = apiKey === undefined ? `${variable} of the environment` : 'It';
  tell(path, `${from} is a key of ${owner}: set provider to "${owner}", or use a key of ${provider}`);
};

/** Checks that a model has prices wherever a budget limits its cost. */
export const checkPrices = (file: ConfigFile, tell: Tell): void => {
  const { channels = [], budgets } = file;
  for (const agent of agentsAndCrews(file)) {
    const { id, backend, place } = agent;
    if (backend.kind !== 'llm') continue;
    const missing = (['inputUsdPerMTok', 'outputUsdPerMTok'] as const).filter((price) => backend[price] === null);
    const own =
      'costUsd' in agent ? CREW_LIMITS.filter((key) => agent[key] !== null).map((key) => `${key} of ${id}`) : [];
    const shared = channels
      .filter((channel) => ('costUsd' in agent ? channel.id === agent.channel : channel.agents.includes(id)))
      .flatMap((channel) => costLimits(channel, budgets).map((scope) => `${scope} of ${channel.id}`));
    const [limit] = [...own, ...shared];
    if (missing.length === 0 || limit === undefined) continue;
    const message = `The cost of this model counts towards ${limit}: add ${missing.join(' and ')} (0 if the model is free)`;
    tell([...place, 'backend'], message);
  }
};

const CREW_LIMITS = ['ticketCostUsd', 'dayCostUsd', 'costUsd'] as const;

const costLimits = (channel: NonNullable<ConfigFile['channels']>[number], budgets: ConfigFile['budgets']) =>
  (['exchange', 'day'] as const)
    .filter((scope) => ({ ...budgets[scope], ...channel.budgets?.[scope] }).costUsd !== null)
    .map((scope) => `budgets.${scope}.costUsd`);
