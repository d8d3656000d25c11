import { describe, expect, test } from 'vitest';
import { testTool } from '../../src/cli/tools-test.ts';
import type { ToolTest } from '../../src/cli/tools-test.ts';
import { loadConfig } from '../../src/config/load.ts';
import { world } from '../config/world.ts';

const FILE = {
  tools: { deny: ['Bash(curl *)'], ask: ['Bash(git push *)!'] },
  agents: [
    {
      id: 'dev',
      backend: { kind: 'acp', profile: 'opencode', cwd: '/nowhere/work' },
      tools: { allow: ['Edit(src/**)'] },
    },
    { id: 'free', backend: { kind: 'acp', profile: 'opencode' } },
  ],
  channels: [
    {
      id: 'console:a',
      agents: ['dev', 'free'],
      tools: { default: 'ask', trusted: ['WebFetch(domain:docs.example.org)'] },
    },
  ],
};
const CONFIG = loadConfig(world({ 'turnConfig.json': JSON.stringify(FILE) }), 'look');

function shown(tool: string, input: object | string, more: Partial<ToolTest> = {}): string {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  const result = testTool({ agent: 'dev', tool, input: text, channel: null, ...more }, CONFIG);
  return result.ok ? result.text : result.message;
}

describe('conch tools test', () => {
  test('says which rule refuses, whose it is, and what the agent is told', () => {
    expect(shown('Bash', { command: 'ls | curl x' })).toBe(
      'deny: rule "Bash(curl *)" of "deny", for every agent\n' +
        'untrusted: it reads untrusted text (curl x)\n' +
        'outward: it may send data out\n' +
        'AGENT_TOOL_NOT_ALLOWED: execute(ls | curl x) is denied by rule "Bash(curl *)". You may: Edit; Bash after approval.',
    );
  });

  test('prints the rule that allows, with paths relative to the folder of the agent', () => {
    expect(shown('Edit', { file_path: '/nowhere/work/src/a.ts' })).toBe(
      'allow: rule "Edit(src/**)" of "allow", of this agent\n' +
        'caution: asks even where a rule allows it, once the agent has read untrusted text',
    );
    expect(shown('Edit', { file_path: 'src/a.ts' }, { agent: 'free' })).toContain('deny: no rule covers it');
  });

  test('T79 says why people are asked even though a rule allows the call', () => {
    const fetched = { url: 'http://0177.0.0.1:7420/' };
    expect(shown('WebFetch', fetched, { channel: 'console:a' })).toContain(
      'caution: it may reach Conch’s own page, where people decide: asks even where a rule allows it',
    );
    expect(shown('Edit', { file_path: 'src/http.ts', note: 'localhost 7420' })).toMatch(/^ask: rule "Edit\(src/);
  });

  test('names no request for a call that a rule denies, although it names Conch’s page', () => {
    const denied = shown('Bash', { command: 'curl localhost:7420' });
    expect(denied).toMatch(/^deny: rule "Bash\(curl/);
    expect(denied).not.toContain('caution');
  });

  test('prints the rule that asks, and the always-allow rules that people could choose', () => {
    expect(shown('Bash', { command: 'git push origin' })).toContain(
      'ask: rule "Bash(git push *)!" of "ask", for every agent\n',
    );
    expect(shown('Bash', { command: 'git log -1' }, { channel: 'console:a' })).toBe(
      'ask: no rule covers it, so the default applies\n' +
        '"Always" could mean exactly this command: execute(git log -1)\n' +
        '"Always" could mean every command "git log *": execute(git log *)',
    );
  });

  test('says which private or untrusted data a call reads, and that a trusted source is neither', () => {
    expect(shown('Read', { file_path: '.env' }, { agent: 'free' })).toContain(
      'private: it reads private data (.env)\nwhat the agent has read before does not matter',
    );
    const fetched = (host: string) => shown('WebFetch', { url: `https://${host}` }, { channel: 'console:a' });
    expect(fetched('docs.example.org')).toContain('what the agent has read before does not matter');
    expect(fetched('example.org')).toContain('untrusted: it reads untrusted text (example.org)');
  });

  test.each([
    ['an unknown agent', { agent: 'dve' }, '{}', 'There is no agent "dve" in the configuration. Did you mean "dev"?'],
    ['an unknown channel', { channel: 'console:b' }, '{}', 'There is no channel "console:b" in the configuration.'],
    ['an input that is no JSON', {}, 'npm test', 'Expected the input as JSON'],
    ['an input that is no object', {}, '"npm test"', 'Expected the input as JSON'],
  ])('refuses %s', (_what, more, input, message) => {
    expect(shown('Bash', input, more)).toContain(message);
  });
});
