import { mkdirSync, writeFileSync } from 'node:fs';
import type { AcpBackendOptions } from '../../../src/agents/acp.ts';

/** A coding agent from the npm registry, and how it is pointed at a model's service at `url` with `home` for its own files. */
export type RealAgent = {
  readonly name: string;
  readonly package: string;
  readonly program: string;
  readonly profile: AcpBackendOptions['profile'];
  readonly args: readonly string[];
  readonly environment: (url: string, home: string) => Record<string, string>;
};

export const REAL_AGENTS: readonly RealAgent[] = [
  {
    name: 'OpenCode',
    package: 'opencode-ai',
    program: 'opencode',
    profile: 'opencode',
    args: ['acp'],
    environment: (url) => ({
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        model: 'mock/test-model',
        small_model: 'mock/test-model',
        permission: { bash: 'ask' },
        provider: {
          mock: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: 'k' },
            models: { 'test-model': { name: 'Test' } },
          },
        },
      }),
    }),
  },
  {
    name: 'Claude Code',
    package: '@agentclientprotocol/claude-agent-acp',
    program: 'claude-agent-acp',
    profile: 'claude-code',
    args: [],
    environment: (url) => ({
      ANTHROPIC_API_KEY: 'sk-ant-test',
      ANTHROPIC_BASE_URL: url,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    }),
  },
  {
    name: 'Gemini CLI',
    package: '@google/gemini-cli',
    program: 'gemini',
    profile: 'gemini',
    args: ['--acp'],
    environment: (url, home) => {
      mkdirSync(`${home}/.gemini`, { recursive: true });
      const security = { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } };
      const general = { disableAutoUpdate: true, enableAutoUpdate: false };
      writeFileSync(
        `${home}/.gemini/settings.json`,
        JSON.stringify({ security, general, privacy: { usageStatisticsEnabled: false } }),
      );
      return { GEMINI_API_KEY: 'k', GOOGLE_GEMINI_BASE_URL: url, GEMINI_MODEL: 'gemini-2.5-flash' };
    },
  },
];
