import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { judgeCall, reachesServer } from '../../src/runtime/tool-judge.ts';
import type { RunSeat } from '../../src/work/runs/floor-binding.ts';
import { world } from '../config/world.ts';

const FILE = {
  tools: { deny: ['Bash(curl *)'] },
  agents: [
    {
      id: 'dev',
      backend: { kind: 'acp', profile: 'opencode', cwd: '/nowhere/work' },
      tools: { allow: ['Edit(src/**)', 'Bash'] },
    },
    {
      id: 'scout',
      backend: { kind: 'remote' },
      tools: { allow: ['Edit(src/**)', 'Bash'], default: 'ask' },
      approvers: ['ann', '42'],
    },
  ],
  channels: [
    { id: 'console:a', agents: ['dev', 'scout'] },
    { id: 'console:b', agents: ['dev'], tools: { ask: ['Bash(npm publish *)'] } },
    { id: 'console:c', agents: ['dev'], tools: { members: 'same' } },
  ],
};
const CONFIG = loadConfig(world({ 'turnConfig.json': JSON.stringify(FILE) }), 'look');

function verdict(agent: string, channel: string, tool: string, input: Readonly<Record<string, unknown>>): string {
  const call = { id: 'a', tool, input, definition: null, repeatable: false, detail: '', caution: null };
  return judgeCall(CONFIG, { agent, channel }, call, { at: 0, remembered: [], member: null }).verdict;
}

describe('a call that a member of the channel asked for', () => {
  const bob = { id: 'bob', name: 'Bob' };
  const judged = (member: typeof bob | null, seat: RunSeat = { agent: 'dev', channel: 'console:a' }) => {
    const input = { command: 'npm test' };
    const call = { id: 'c', tool: 'Bash', input, definition: null, repeatable: false, detail: 'npm test' };
    return judgeCall(CONFIG, seat, { ...call, caution: null }, { at: 0, remembered: [], member });
  };

  test('is asked about although a rule allows it, says why, and can be remembered by none', () => {
    expect(judged(null)).toMatchObject({ verdict: 'allow' });
    const about = { why: '⚠ Bob asked for it, who is no operator' };
    expect(judged(bob)).toMatchObject({ verdict: 'ask', about, offers: [] });
  });

  test('says who may decide when that is not every operator', () => {
    const scout = { agent: 'scout', channel: 'console:a' };
    expect([judged(bob).about?.who, judged(bob, scout).about?.who]).toEqual([undefined, 'ann, 42']);
  });

  test('is judged as any other where the configuration makes no difference', () => {
    expect(judged(bob, { agent: 'dev', channel: 'console:c' })).toMatchObject({ verdict: 'allow' });
  });
});

describe('a tool call of an agent in a channel', () => {
  test('is judged by the rules for all, of the agent and of the channel', () => {
    expect([
      verdict('dev', 'console:a', 'Bash', { command: 'curl x' }),
      verdict('dev', 'console:a', 'Bash', { command: 'npm publish' }),
      verdict('dev', 'console:b', 'Bash', { command: 'npm publish' }),
      verdict('dev', 'console:a', 'WebFetch', { url: 'https://a.org' }),
    ]).toEqual(['deny', 'allow', 'ask', 'deny']);
  });

  test('is judged in the folder of the agent; of an agent on another machine no path is known', () => {
    const edit = { file_path: '/nowhere/work/src/a.ts' };
    expect([verdict('dev', 'console:a', 'Edit', edit), verdict('scout', 'console:a', 'Edit', edit)]).toEqual([
      'allow',
      'ask',
    ]);
  });

  test('reaches the servers that the rules of its agent let it use', () => {
    const reached = (agent: string) => reachesServer(CONFIG, { agent, channel: 'console:a' }, 'files', null);
    expect([reached('dev'), reached('scout'), reached('gone')]).toEqual([false, true, false]);
  });

  test('of an agent that is not in the configuration asks', () => {
    expect(verdict('gone', 'console:a', 'Bash', { command: 'ls' })).toBe('ask');
  });
});
