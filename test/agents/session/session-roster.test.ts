import { expect, test } from 'vitest';
import { createRoster } from '../../../src/agents/session/session-roster.ts';
import { puppetry } from '../bench.ts';

test('T52 an agent that does not promise to ask is marked wherever operators look', () => {
  const { backend } = puppetry();
  const dev = { id: 'dev', name: 'Developer', description: 'writes code', persona: '' };
  const roster = (promisesToAsk: boolean) =>
    createRoster({
      agents: () => [{ ...dev, backend: { ...backend, kind: 'acp', promisesToAsk } }],
      seated: () => [],
      seatsOf: () => [],
      isDisabled: () => false,
    });
  const shown = (promises: boolean) => [roster(promises).list()[0]?.backend, roster(promises).status('dev')?.[0]];
  expect(shown(true)).toEqual(['acp', 'Developer (dev) · acp · writes code']);
  expect(shown(false)).toEqual([
    'acp (⚠ does not promise to ask)',
    'Developer (dev) · acp (⚠ does not promise to ask) · writes code',
  ]);
});

test('T73 an agent that is known to act unasked is marked with what it does', () => {
  const { backend } = puppetry();
  const dev = { id: 'dev', name: 'Developer', description: '', persona: '' };
  const actsUnasked = 'writes files of a Git repository without asking';
  const roster = createRoster({
    agents: () => [{ ...dev, backend: { ...backend, kind: 'acp', actsUnasked } }],
    seated: () => [],
    seatsOf: () => [],
    isDisabled: () => false,
  });
  const words = 'acp (⚠ writes files of a Git repository without asking)';
  expect([roster.list()[0]?.backend, roster.status('dev')?.[0]]).toEqual([words, `Developer (dev) · ${words}`]);
});
