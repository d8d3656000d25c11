import { expect, test } from 'vitest';
import { load } from './world.ts';

const warnings = (agent: object): readonly string[] =>
  load({ agents: [{ id: 'dev', ...agent }] }).warnings.filter((text) => text.includes('cannot be made to ask'));

test('T73 Conch warns of an agent that acts without asking, and says what to do', () => {
  const [words = ''] = warnings({ backend: { kind: 'acp', profile: 'kimi' } });
  expect(words).toContain('kimi writes files of a Git repository without asking');
  expect(words).toContain('Conch does not start it. Set "trusted": true at this agent');
});

test('T73 Conch warns of an agent that acts without asking, even if it is trusted', () => {
  const [words = ''] = warnings({ backend: { kind: 'acp', profile: 'kimi' }, trusted: true });
  expect(words).toContain('Conch starts it because "trusted" is true');
});

test('T73 Conch does not warn of an agent with another profile or backend', () => {
  expect(warnings({ backend: { kind: 'acp', profile: 'qwen' } })).toEqual([]);
  expect(warnings({ backend: { kind: 'remote', profile: 'kimi' } })).toEqual([]);
});
