import { join } from 'node:path';
import { programBeside } from '../lib/installation.ts';

/**
 * The agents of a configuration without agents: a product manager, a developer and a tester. They play scripts, unless
 * `demoModel` finds a model in the environment and the packages for models are installed.
 */
export const DEMO_AGENTS = [
  {
    id: 'pm',
    name: 'pm',
    backend: { kind: 'scripted', script: 'pm' },
    persona: 'You are a product manager. You turn wishes into a short specification and hand it to the developer.',
    description: 'Product manager: turns a wish into a short specification',
    avatar: '🧭',
  },
  {
    id: 'dev',
    name: 'dev',
    backend: { kind: 'scripted', script: 'dev' },
    persona: 'You are a developer. You build what the specification says and show the code.',
    description: 'Developer: writes the code',
    avatar: '🛠️',
  },
  {
    id: 'qa',
    name: 'qa',
    backend: { kind: 'scripted', script: 'qa' },
    persona: 'You are a tester. You check what the developer built and say what you found.',
    description: 'Tester: checks what was built',
    avatar: '🔎',
  },
] as const;

/** The model that the demo's agents speak through. */
export type DemoModel = {
  readonly provider: 'openai' | 'anthropic' | 'openai-compatible';
  readonly model: string;
  readonly baseUrl?: string;
};

/**
 * Returns the model of the first of these variables that is set: OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY;
 * `null` for none. CONCH_MODEL overrides the default model.
 */
export const demoModel = (env: Readonly<Record<string, string | undefined>>): DemoModel | null => {
  const { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: openai, ANTHROPIC_API_KEY: anthropic, CONCH_MODEL: model } = env;
  if (baseUrl !== undefined) return { provider: 'openai-compatible', model: model ?? 'gpt-5-mini', baseUrl };
  if (openai !== undefined) return { provider: 'openai', model: model ?? 'gpt-5-mini' };
  return anthropic === undefined ? null : { provider: 'anthropic', model: model ?? 'claude-sonnet-4-5' };
};

/** Tool rules of the demo's agents. */
export const DEMO_TOOLS = {
  allow: ['mcp__scratch__list_files', 'mcp__scratch__read_file'],
  deny: ['mcp__scratch__delete_file'],
  default: 'ask',
} as const;

/** The demo's tool server: notes in a folder of its own. */
export const demoServers = (dataDir: string): object => ({
  scratch: { command: process.execPath, args: [SCRATCH_SERVER, join(dataDir, 'scratch')], trusted: true },
});

const SCRATCH_SERVER = programBeside('../agents/backends/scripted/scratch-server', import.meta.url);

/** The channel of a configuration without channels. */
export const DEMO_CHANNEL = { id: 'console:demo', name: 'demo' } as const;
