import { API_KEYS } from './environment.ts';
import type { PartName } from './parts.ts';
import type { MODE_NAMES } from './schema.ts';

/** The answers from which a new configuration is made. */
export type StarterAnswers = {
  readonly platform: (typeof STARTER_PLATFORMS)[number];
  /** The channel's id on its platform; on the page, its name. */
  readonly channel: string;
  readonly agents: (typeof STARTER_AGENTS)[number];
  /** The ids of the agents. */
  readonly names: readonly string[];
  readonly mode: (typeof MODE_NAMES)[number];
};

/** Where people talk with the agents. */
export const STARTER_PLATFORMS = ['page', 'discord', 'slack'] as const;

/** What runs the agents: a script, a model of a provider, or a coding agent. */
export const STARTER_AGENTS = [
  'demo',
  'anthropic',
  'openai',
  'claude-code',
  'codex',
  'gemini',
  'opencode',
  'qwen',
  'copilot',
] as const;

const SCRIPTS = ['pm', 'dev', 'qa'] as const;
const MODELS = { anthropic: 'claude-sonnet-4-5', openai: 'gpt-5-mini' } as const;

/** Returns the default ids of the new configuration's agents. */
export function starterNames(agents: StarterAnswers['agents']): readonly string[] {
  return agents === 'demo' ? SCRIPTS : ['dev', 'qa'];
}

/** Returns the parts of Conch whose packages the new configuration needs. */
export function starterParts({ platform, agents }: StarterAnswers): readonly PartName[] {
  const ofAgents: readonly PartName[] = agents === 'demo' ? [] : agents in MODELS ? ['models'] : ['agents'];
  return platform === 'page' ? ofAgents : [platform, ...ofAgents];
}

/** Returns the environment variables that the new configuration needs, each with the place where its value is found. */
export function starterVariables({ platform, agents }: StarterAnswers): readonly (readonly [string, string])[] {
  const isModel = agents === 'anthropic' || agents === 'openai';
  const ofAgents = isModel ? [[API_KEYS[agents], KEY_PLACES[agents]] as const] : [];
  return [...VARIABLES[platform], ...ofAgents];
}

const KEY_PLACES = { anthropic: 'the console of Anthropic', openai: 'the platform page of OpenAI' } as const;

const VARIABLES: Readonly<Record<StarterAnswers['platform'], readonly (readonly [string, string])[]>> = {
  page: [],
  discord: [['DISCORD_TOKEN', 'docs/discord.md, step 1']],
  slack: [
    ['SLACK_BOT_TOKEN', 'docs/slack.md, step 3'],
    ['SLACK_APP_TOKEN', 'docs/slack.md, step 3'],
  ],
};

/** Returns the text of `turnConfig.json`: JSON with comments. */
export function starterConfig({ platform, channel, agents, names, mode }: StarterAnswers): string {
  const id = `${platform === 'page' ? 'console' : platform}:${channel}`;
  const entries = names.map((name, index) => `    ${spaced({ id: name, backend: backendOf(agents, index) })}`);
  return `// Conch reads this file where it starts, and again whenever the file changes.
// docs/configuration.md describes every setting. Secrets stay in .env.
{
  "turnConfig": {
    // A message while an agent speaks: "inject" tells the agent at once, "queue" waits for the end of the turn,
    // "interrupt" stops the agent, "parallel" shows it to all agents.
    "humanInterruptMode": "${mode}",
    // A turn ends after this many seconds without a sign of work.
    "defaultTimeoutSeconds": ${agents in MODELS || agents === 'demo' ? 60 : 300}
  },
  // The agents. An agent needs an "id"; a "persona" tells it who it is.
  "agents": [
${entries.join(',\n')}
  ],
  // The channels. The agents of a channel take turns in it.
  "channels": [
    ${spaced({ id, agents: names })}
  ],
  // Who may change the floor and decide requests, besides the page of this machine: ids of people on ${LABELS[platform]}.
  "operators": { "users": [] }
}
`;
}

const LABELS = { page: 'Discord or Slack', discord: 'Discord', slack: 'Slack' } as const;

/** Returns the text of `.env` for the variables, without values. */
export function starterVariablesText(variables: readonly (readonly [string, string])[]): string {
  return variables.map(([name, place]) => `# From ${place}:\n${name}=\n`).join('');
}

function backendOf(agents: StarterAnswers['agents'], index: number): object {
  if (agents === 'demo') return { kind: 'scripted', script: SCRIPTS[index % SCRIPTS.length] };
  return agents === 'anthropic' || agents === 'openai'
    ? { kind: 'llm', provider: agents, model: MODELS[agents] }
    : { kind: 'acp', profile: agents, cwd: '.' };
}

/**
 * Returns JSON on one line with spaces for people. Danger: texts with braces, brackets or quotes could get additional
 * spaces.
 */
function spaced(value: object): string {
  return JSON.stringify(value)
    .replaceAll(/":(?=["{[\d])/g, '": ')
    .replaceAll(/,(?=["{[])/g, ', ')
    .replaceAll(/([{]|[}])/g, (brace) => (brace === '{' ? '{ ' : ' }'));
}
