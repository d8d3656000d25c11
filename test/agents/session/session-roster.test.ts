import { expect, test } from 'vitest';
import { rosterEntry, statusLines } from '../../../src/agents/session/session-roster.ts';
import { puppetry } from '../bench.ts';

const NOWHERE = { channels: [], disabled: [], seated: [] };

test('T52 an agent that does not promise to ask is marked in every list for operators', () => {
  const { backend } = puppetry();
  const dev = { id: 'dev', name: 'Developer', description: 'writes code', persona: '' };
  const shown = (promisesToAsk: boolean) => {
    const spec = { ...dev, backend: { ...backend, kind: 'acp', promisesToAsk } };
    return [rosterEntry(spec, NOWHERE).backend, statusLines(spec, NOWHERE)[0]];
  };
  expect(shown(true)).toEqual(['acp', 'Developer (dev) · acp · writes code']);
  expect(shown(false)).toEqual([
    'acp (⚠ does not promise to ask)',
    'Developer (dev) · acp (⚠ does not promise to ask) · writes code',
  ]);
});

test('T73 an agent known to act without asking is marked with what it does', () => {
  const { backend } = puppetry();
  const dev = { id: 'dev', name: 'Developer', description: '', persona: '' };
  const actsUnasked = 'writes files of a Git repository without asking';
  const spec = { ...dev, backend: { ...backend, kind: 'acp', actsUnasked } };
  const words = 'acp (⚠ writes files of a Git repository without asking)';
  expect([rosterEntry(spec, NOWHERE).backend, statusLines(spec, NOWHERE)[0]]).toEqual([
    words,
    `Developer (dev) · ${words}`,
  ]);
});
