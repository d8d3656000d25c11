import { z } from 'zod';
import { startedDraft, unasking, untrusted } from './asking.ts';
import { backendSchema } from '../backends.ts';
import type { Found } from '../error.ts';
import type { ConfigFile } from '../schema.ts';
import { folderFaults, programFaults, variableFaults } from './programs.ts';
import type { Around } from './programs.ts';

/**
 * Checks what runs each agent, as far as the file, the environment and the programs on this machine tell: addresses, keys,
 * models, commands, folders, variables. It passes over backends that the schema does not take.
 */
export const checkBackends = (file: unknown, around: Around): readonly Found[] => {
  const draft = draftSchema.safeParse(file);
  return (draft.data?.agents ?? []).flatMap(({ backend, started, trusted }, index): readonly Found[] => {
    const path = ['agents', index, 'backend'];
    const found = backend === null ? [] : faultsOf(backend, around);
    const own = [...unasking(started, path), ...untrusted(started, { trusted, path })];
    return [...own, ...found.map((each) => ({ ...each, path: [...path, ...each.path] }))];
  });
};

/** Checks that a model's price is known wherever its cost counts in a budget. */
export const checkPrices = ({ agents = [], channels = [], budgets }: ConfigFile): readonly Found[] =>
  agents.flatMap(({ id, backend }, index): readonly Found[] => {
    if (backend.kind !== 'llm') return [];
    const missing = (['inputUsdPerMTok', 'outputUsdPerMTok'] as const).filter((price) => backend[price] === null);
    const [limit] = channels
      .filter((channel) => channel.agents.includes(id))
      .flatMap((channel) => costLimits(channel, budgets).map((scope) => `${scope} of ${channel.id}`));
    if (missing.length === 0 || limit === undefined) return [];
    const message = `Its cost counts in the budget ${limit}: add ${missing.join(' and ')}, 0 if it is free`;
    return [{ path: ['agents', index, 'backend'], message }];
  });

const costLimits = (channel: NonNullable<ConfigFile['channels']>[number], budgets: ConfigFile['budgets']) =>
  (['exchange', 'day'] as const)
    .filter((scope) => ({ ...budgets[scope], ...channel.budgets?.[scope] }).costUsd !== null)
    .map((scope) => `budgets.${scope}.costUsd`);

type Backend = z.output<typeof backendSchema>;
type Llm = Extract<Backend, { kind: 'llm' }>;
type Program = Extract<Backend, { kind: 'acp' | 'command' }>;

const draftSchema = z.object({
  agents: z
    .array(
      z
        .object({ backend: z.unknown(), trusted: z.unknown().optional() })
        .catch({ backend: null, trusted: false })
        .transform(({ backend, trusted }) => ({
          trusted: trusted === true,
          backend: backendSchema.safeParse(backend).data ?? null,
          started: startedDraft.parse(backend),
        })),
    )
    .optional()
    .catch([]),
});

const faultsOf = (backend: Backend, around: Around): readonly Found[] => {
  switch (backend.kind) {
    case 'llm':
      return [...endpoint(backend), ...key(backend, around), ...vendor(backend)];
    case 'acp':
    case 'command':
      return [
        ...program(backend),
        ...programFaults(backend, around),
        ...folderFaults(backend, around),
        ...variables(backend),
      ];
    case 'scripted':
    case 'remote':
      return [];
  }
};

const OLLAMA = 'http://127.0.0.1:11434/v1';
const CALLS = /\/(?:chat\/completions|completions|responses|messages|embeddings|models)\/?$/;
const HOSTS: Readonly<Record<string, Llm['provider']>> = {
  'api.openai.com': 'openai',
  'api.anthropic.com': 'anthropic',
};

const endpoint = ({ provider, baseUrl }: Llm): readonly Found[] => {
  const path = ['baseUrl'];
  if (baseUrl === undefined) {
    if (provider !== 'openai-compatible') return [];
    return [
      { path, message: `"openai-compatible" has no address of its own: add one, such as "${OLLAMA}" for Ollama` },
    ];
  }
  const { host, pathname, search } = new URL(baseUrl);
  const [call] = CALLS.exec(pathname) ?? [];
  if (call !== undefined) return [{ path, message: `Conch adds "${call}" by itself: take it away` }];
  if (search !== '') return [{ path, message: `An address with a query cannot be used: take "${search}" away` }];
  const owner = HOSTS[host];
  if (owner !== undefined && owner !== provider && provider !== 'openai-compatible')
    return [{ path, message: `It is the address of ${owner}: set provider to "${owner}", or take it away` }];
  if (pathname !== '/') return [];
  return [
    {
      path,
      weight: 'unwise',
      message: `Most servers have their API below /v1: write "${new URL('v1', baseUrl).href}"`,
    },
  ];
};

const VARIABLES = { openai: 'OPENAI_API_KEY', anthropic: 'ANTHROPIC_API_KEY' } as const;

const key = ({ provider, apiKey, baseUrl }: Llm, { env, purpose }: Around): readonly Found[] => {
  const path = ['apiKey'];
  const name =
    apiKey === undefined
      ? null
      : /^(?:\$|process\.env\.)?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN))$/.exec(apiKey)?.[1];
  if (name) return [{ path, message: `It is the name of a variable: write "\${${name}}" for its value` }];
  if (provider === 'openai-compatible') return [];
  const variable = VARIABLES[provider];
  const value = apiKey ?? env[variable];
  const from = apiKey === undefined ? `${variable} of the environment` : 'It';
  if (value === undefined && purpose === 'look') return [];
  if (value === undefined)
    return [{ path, message: `There is no key: set ${variable} in the environment or in .env, or add apiKey` }];
  const owner = value.startsWith('sk-ant-') ? 'anthropic' : value.startsWith('sk-') ? 'openai' : provider;
  if (owner === provider || baseUrl !== undefined) return [];
  return [{ path, message: `${from} is a key of ${owner}: set provider to "${owner}", or give it one of ${provider}` }];
};

/** Names by which models of others begin, and whose they are. */
const MODELS: readonly (readonly [RegExp, Llm['provider']])[] = [
  [/^claude\b/i, 'anthropic'],
  [/^(?:gpt-(?!oss)|o\d\b|chatgpt\b|codex\b)/i, 'openai'],
  [
    /^(?:gemini|gemma|llama|mi[sx]tral|codestral|qwen|deepseek|grok|phi|kimi|glm|gpt-oss)|^[\w.-]+\//i,
    'openai-compatible',
  ],
];

const vendor = ({ provider, model, baseUrl }: Llm): readonly Found[] => {
  if (baseUrl !== undefined || provider === 'openai-compatible') return [];
  const owner = MODELS.find(([names]) => names.test(model))?.[1] ?? provider;
  if (owner === provider) return [];
  const instead = owner === 'openai-compatible' ? `"${owner}" with the baseUrl of its server` : `"${owner}"`;
  return [
    { path: ['model'], message: `"${model}" is no model of ${provider}: set provider to ${instead}, or name another` },
  ];
};

const program = (backend: Program): readonly Found[] =>
  backend.command === undefined && backend.kind === 'acp' && backend.profile === 'generic'
    ? [
        {
          path: ['command'],
          message: 'The profile "generic" has no program of its own: add one, or name another profile',
        },
      ]
    : [];

const variables = ({ env, set }: Program): readonly Found[] =>
  variableFaults([
    ...env.map((name, index) => ({ name, path: ['env', index] })),
    ...Object.keys(set).map((name) => ({ name, path: ['set', name] })),
  ]);
