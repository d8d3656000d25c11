import { describe, expect, test } from 'vitest';
import { AcpGeneration } from '../../../../src/agents/backends/acp/acp-generation.ts';
import { permissionRequest, sessionUpdate } from '../../../../src/agents/backends/acp/acp-wire.ts';
import type { ToolLists } from '../../../../src/rules/verdict.ts';
import { judgeCall } from '../../../../src/runtime/runs/tool-judge.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import { load } from '../../../config/world.ts';
import { gateThat, prompt, recorder } from '../conversation.ts';

const OPTIONS = [
  { optionId: 'always', name: 'Always', kind: 'allow_always' },
  { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
];
const DEV = { id: 'dev', backend: { kind: 'acp', profile: 'opencode', cwd: '/work' } };
const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

type Told = { readonly updates?: readonly object[]; readonly options?: readonly object[]; readonly isOwn?: boolean };

/** Returns the id of the option sent to the agent, after "asked, " if people were asked. People allow everything. */
async function answered(
  lists: ToolLists,
  toolCall: object,
  { updates = [], options = OPTIONS, isOwn = false }: Told = {},
) {
  let asked = 0;
  const tools = Object.keys(lists).length === 0 ? {} : { tools: lists };
  const config = load({ ...tools, agents: [DEV], channels: [{ id: SEAT.channel, agents: ['dev'] }] });
  const gate = gateThat((call) => {
    const { verdict } = judgeCall(config, SEAT, call, { at: 0, remembered: [], member: null });
    if (verdict === 'deny') return 'reject';
    asked += verdict === 'ask' || call.caution !== null ? 1 : 0;
    return 'allow';
  });
  const report = { ...recorder().report, gate };
  const run = new AcpGeneration(SEAT, prompt({ text: 'Clean up' }), report, {
    timers: systemTimers,
    cancel: () => undefined,
  });
  for (const update of updates) run.update(sessionUpdate.parse({ sessionId: 's1', update }).update);
  const request = permissionRequest.parse({ sessionId: 's1', toolCall: { toolCallId: 't1', ...toolCall }, options });
  const outcome = await run.permission({ ...request, isOwn }, new AbortController().signal);
  const chosen = outcome.outcome === 'selected' ? outcome.optionId : 'cancelled';
  return asked === 0 ? chosen : `asked, ${chosen}`;
}

const bash = (command: string) => ({ kind: 'execute', rawInput: { command } });

describe('a coding agent that asks', () => {
  test('is allowed once when the rules allow it, without asking people', async () => {
    expect(await answered({ allow: ['Bash(npm test)'] }, bash('npm test'))).toBe('once');
  });

  test('is denied when the rules deny it', async () => {
    expect(await answered({ deny: ['Bash(curl *)'], default: 'allow' }, bash('ls | curl x'))).toBe('no');
    expect(await answered({ allow: ['Read'] }, bash('npm test'))).toBe('no');
  });

  test('asks people when the rules ask', async () => {
    expect(await answered({ ask: ['Bash'] }, bash('npm test'))).toBe('asked, once');
    expect(await answered({}, { kind: 'edit', rawInput: { path: '/work/a' } })).toBe('asked, once');
  });

  test('may read in its folder without any rule', async () => {
    expect(await answered({}, { kind: 'read', locations: [{ path: '/work/src/a.ts' }] })).toBe('once');
    expect(await answered({}, { kind: 'read', locations: [{ path: '/etc/passwd' }] })).toBe('asked, once');
  });

  test('asks people when it cannot be allowed once', async () => {
    const options = OPTIONS.filter(({ optionId }) => optionId !== 'once');
    expect(await answered({ allow: ['Bash'] }, bash('ls'), { options })).toContain('asked');
  });

  test('has its request cancelled when it offers no denial', async () => {
    const options = OPTIONS.filter(({ optionId }) => optionId !== 'no');
    expect(await answered({ deny: ['Bash'] }, bash('ls'), { options })).toBe('cancelled');
  });

  test("uses the floor's tools whatever the rules say", async () => {
    expect(await answered({ deny: ['*'] }, { kind: 'other', name: 'say' }, { isOwn: true })).toBe('once');
  });
});

describe('a request is judged by', () => {
  test('never its title', async () => {
    expect(await answered({ allow: ['Bash(npm test)'] }, { ...bash('rm x'), title: 'npm test' })).toBe('no');
    expect(await answered({ allow: ['mcp__files__read'] }, { kind: 'other', title: 'mcp__files__read' })).toBe('no');
  });

  test('the name that the agent gives the tool', async () => {
    const named = { kind: 'read', _meta: { claudeCode: { toolName: 'mcp__files__write' } }, rawInput: { path: 'a' } };
    expect(await answered({ allow: ['mcp__files__write'] }, named)).toBe('once');
    expect(await answered({ allow: ['read'] }, named)).toBe('no');
  });

  test('every name and every kind of the tool', async () => {
    const two = { kind: 'read', name: 'Read', _meta: { toolName: 'Bash' }, rawInput: { path: '/work/a' } };
    expect(await answered({ allow: ['read'] }, two)).toBe('no');
    const update = { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'x', kind: 'execute' };
    const toolCall = { kind: 'read', rawInput: { path: '/work/a' } };
    expect(await answered({ deny: ['execute'], allow: ['read'] }, toolCall, { updates: [update] })).toBe('no');
  });

  test('all that was reported about it: a command that the request shortens is judged completely', async () => {
    const update = { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'x', ...bash('npm test && rm -rf x') };
    expect(await answered({ allow: ['Bash(npm test)'] }, bash('npm test'), { updates: [update] })).toBe('no');
    const bare = { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'x', kind: 'execute' };
    expect(await answered({ allow: ['Bash(npm test)'] }, bash('npm test'), { updates: [bare] })).toBe('once');
  });

  test('the paths of its diffs, too', async () => {
    const edit = (path: string) => ({ kind: 'edit', content: [{ type: 'diff', path, oldText: '', newText: 'x' }] });
    expect(await answered({ allow: ['Edit(src/**)'] }, edit('/work/src/a'))).toBe('once');
    expect(await answered({ allow: ['Edit(src/**)'] }, edit('/work/b'))).toBe('no');
  });

  test('a plain text as a command', async () => {
    expect(await answered({ allow: ['Bash(ls)'] }, { kind: 'execute', rawInput: 'ls' })).toBe('once');
  });
});
