import { delimiter, resolve } from 'node:path';
import { z } from 'zod';
import { isUnsafeVariable } from '../../lib/unsafe-variables.ts';
import { startedDraft, unasking } from './asking.ts';
import { backendSchema } from '../backends.ts';
import type { Found } from '../error.ts';
import type { Env } from '../references.ts';
import type { ConfigFile } from '../schema.ts';
import type { World } from '../world.ts';

/** What backends are checked against: the variables of the environment and of `.env`, and the machine. */
export type Around = { readonly env: Env; readonly world: World; readonly purpose: 'start' | 'check' | 'look' };

/**
 * Checks what runs each agent, as far as the file, the environment and the programs on this machine tell: addresses, keys,
 * models, commands, folders, variables. It passes over backends that the schema does not take.
 */
export const checkBackends = (file: unknown, around: Around): readonly Found[] => {
  const draft = draftSchema.safeParse(file);
  return (draft.data?.agents ?? []).flatMap(({ backend, started }, index): readonly Found[] => {
    const path = ['agents', index, 'backend'];
    const found = backend === null ? [] : faultsOf(backend, around);
    return [...unasking(started, path), ...found.map((each) => ({ ...each, path: [...path, ...each.path] }))];
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
type Started = Extract<Backend, { kind: 'acp' | 'command' }>;

const draftSchema = z.object({
  agents: z
    .array(
      z
        .object({ backend: z.unknown() })
        .catch({ backend: null })
        .transform(({ backend }) => ({
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
      return [...program(backend, around), ...folder(backend, around), ...variables(backend)];
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

const SHELL_TALK = /(?:^|\s)(?:[|<>&;]|\d?>&?\d?)|&&|\|\||\$\(|`|;\s/;
const SHELLS = /(?:^|[\\/])(?:ba|z|da|k|fi)?sh(?:\.exe)?$/;

const program = (backend: Started, around: Around): readonly Found[] => {
  const { command, args = [] } = backend;
  const path = ['command'];
  if (command === undefined) {
    return backend.kind === 'acp' && backend.profile === 'generic'
      ? [{ path, message: 'The profile "generic" has no program of its own: add one, or name another profile' }]
      : [];
  }
  if (SHELL_TALK.test(command)) {
    const message = `No shell is involved: put this into a script and name that, or write "sh" here and ["-c", …] into args`;
    return [{ path, message }];
  }
  if (/^[~$]/.test(command)) return [{ path, message: whole(command) }];
  const [first = '', ...words] = command.trim().split(/\s+/);
  if (words.length > 0 && !/[\\/]/.test(first))
    return [
      { path, message: `Only the program stands here: write "${first}", and ${JSON.stringify(words)} into args` },
    ];
  return [...absent(backend, command, around), ...(SHELLS.test(command) ? [] : args.flatMap(shellWord))];
};

const shellWord = (word: string, index: number): readonly Found[] =>
  /^(?:\||\|\||&&|;|>>?|<|2>&1)$/.test(word)
    ? [
        {
          path: ['args', index],
          weight: 'unwise',
          message: `No shell is involved: the program is given "${word}" as a word`,
        },
      ]
    : [];

/** A program that is not there now: it may be installed while Conch runs. */
const absent = (backend: Started, command: string, { env, world, purpose }: Around): readonly Found[] => {
  const { machine, cwd: own } = world;
  if (purpose === 'look' || machine === undefined) return [];
  const cwd = resolve(own, backend.cwd ?? '.');
  const searched = backend.set['PATH'] ?? env['PATH'] ?? '';
  const places = /[\\/]/.test(command) ? [cwd] : searched.split(delimiter).filter(Boolean);
  if (places.some((place) => machine.isProgram(resolve(cwd, place, command)))) return [];
  const where = /[\\/]/.test(command) ? ` in ${cwd}` : ' on the PATH';
  return [
    {
      path: ['command'],
      weight: 'absent',
      message: `There is no program "${command}"${where}: install it, or correct the name`,
    },
  ];
};

const folder = ({ cwd }: Started, { world, purpose }: Around): readonly Found[] => {
  const path = ['cwd'];
  if (cwd === undefined) return [];
  if (/^[~$]/.test(cwd)) return [{ path, message: whole(cwd) }];
  const place = resolve(world.cwd, cwd);
  if (purpose === 'look' || world.machine === undefined || world.machine.isFolder(place)) return [];
  return [{ path, weight: 'absent', message: `There is no folder ${place}: make it, or correct the path` }];
};

const whole = (path: string): string =>
  `No shell is involved: "${/^[~$]\w*/.exec(path)?.[0]}" stands for nothing here; write the whole path, or "\${HOME}/…"`;

const variables = ({ env, set }: Started): readonly Found[] => {
  const named = env.map((name, index) => ({ name, path: ['env', index] }));
  const all = [...named, ...Object.keys(set).map((name) => ({ name, path: ['set', name] }))];
  return all.flatMap(({ name, path }): readonly Found[] => {
    if (isUnsafeVariable(name))
      return [{ path, message: `No agent is given ${name}, which changes how programs run: take it away` }];
    if (/^\w+$/.test(name)) return [];
    const [, before, value] = /^\$?\{?(\w+)\}?(?:=(.*))?$/s.exec(name) ?? [];
    if (before === undefined)
      return [{ path, message: `Expected the name of a variable, got ${JSON.stringify(name)}` }];
    const instead = value === undefined ? `"${before}"` : `${JSON.stringify({ [before]: value })} into \`set\``;
    return [{ path, message: `Only the name of a variable stands here: write ${instead}` }];
  });
};
