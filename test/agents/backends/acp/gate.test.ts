import { describe, expect, test } from 'vitest';
import { AcpGeneration } from '../../../../src/agents/backends/acp/acp-generation.ts';
import { toolRequestsOf } from '../../../../src/agents/backends/acp/acp-permission.ts';
import { permissionRequest, sessionUpdate } from '../../../../src/agents/backends/acp/acp-wire.ts';
import type { GateVerdict, ToolGate } from '../../../../src/agents/tools/tool-gate.ts';
import { toolUse } from '../../../../src/rules/tool-use.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import { prompt, recorder } from '../conversation.ts';

const ONCE = { optionId: 'once', name: 'Allow once', kind: 'allow_once' };
const NO = { optionId: 'no', name: 'No', kind: 'reject_once' };

/** Starts a generation whose gate gives `verdict` to all requests. `told`: the calls to the gate, in order. */
function generation(verdict: GateVerdict | Promise<GateVerdict> = { verdict: 'go' }) {
  let standing: ReturnType<ToolGate['standing']> = null;
  const stands = () => void (standing = new Promise(() => undefined));
  const told: string[] = [];
  const programs = new Set<string | undefined>();
  const gate: ToolGate = {
    step: async () => (told.push('step'), 'go'),
    ask: async (call) => {
      programs.add(call.program);
      told.push(`ask ${call.tool} ${JSON.stringify(call.input)}`);
      if (call.caution !== null) told.push(`⚠ ${call.caution}`);
      return verdict;
    },
    spent: async () => 'stop',
    standing: () => standing,
    unfinished: async () => null,
    settled: async ({ id }, { status, output }) => void told.push(`settled ${id} ${status} ${output}`),
    reported: async ({ id, tool, program: by }, { status }) => {
      programs.add(by);
      told.push(`reported ${id} ${tool} ${status}`);
    },
    close: async () => {},
  };
  const program = 'codex 2.6.0';
  const seat = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '', program };
  const report = { ...recorder().report, gate };
  const run = new AcpGeneration(seat, prompt({ text: 'Clean up' }), report, {
    timers: systemTimers,
    cancel: () => void told.push('cancel'),
  });
  const update = (fields: object) => run.update(sessionUpdate.parse({ sessionId: 's1', update: fields }).update);
  const asks = async (toolCallId: string, options: readonly object[] = [ONCE, NO], kind = 'execute') => {
    const toolCall = { toolCallId, title: 'Test', kind, rawInput: { command: 'npm test' } };
    const request = permissionRequest.parse({ sessionId: 's1', toolCall, options });
    const outcome = await run.permission({ ...request, isOwn: false }, new AbortController().signal);
    return outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome;
  };
  const says = (text: string) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text }, messageId: 'm1' });
  return { told, update, asks, says, run, programs, stands };
}

const toolCallOf = (call: object) => permissionRequest.parse({ sessionId: 's1', toolCall: call, options: [] }).toolCall;

const begun = { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'Test', kind: 'execute', status: 'pending' };
const content = [{ type: 'content', content: { type: 'text', text: 'all green' } }];
const done = { sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed', content };

describe('a coding agent with a gate', () => {
  test('is allowed once, and the outcome is recorded when its call ends', async () => {
    const { told, update, asks } = generation();
    update(begun);
    expect(await asks('t1')).toBe('once');
    update(done);
    expect(told).toEqual(['step', 'ask execute {"command":"npm test"}', 'settled t1 complete all green']);
  });

  test('is allowed once when always-allow options stand before and after the allow-once option', async () => {
    const always = (optionId: string) => ({ optionId, name: 'Always', kind: 'allow_always' });
    expect(await generation().asks('t1', [always('first'), ONCE, always('last'), NO])).toBe('once');
  });

  test('reports its program and version with each call, asked or not', async () => {
    const { update, asks, programs } = generation();
    update(begun);
    await asks('t1');
    expect([...programs]).toEqual(['codex 2.6.0']);
    programs.clear();
    const other = { toolCallId: 't2', title: 'Look' };
    update({ ...begun, ...other, status: 'in_progress' });
    update({ ...done, ...other });
    await Promise.resolve();
    expect([...programs]).toEqual(['codex 2.6.0']);
  });

  test('T53 has the output of its command recorded, also when it is reported in pieces as by Codex', async () => {
    const { told, update, asks } = generation();
    const terminal = [{ type: 'terminal', terminalId: 'exec-1' }];
    const piece = (data: string) =>
      update({
        sessionUpdate: 'tool_call_update',
        toolCallId: 't1',
        _meta: { terminal_output_delta: { data, terminal_id: 'exec-1' } },
      });
    update({ ...begun, status: 'in_progress', content: terminal });
    await asks('t1');
    piece('all ');
    piece('green\n');
    update({ sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed' });
    expect(told.at(-1)).toBe('settled t1 complete all green\n');
  });

  test.each([
    ['AGENT_TOOL_NOT_ALLOWED', 'no'],
    ['DENIED', 'no'],
    ['CANCELLED', 'cancelled'],
  ] as const)('whose call the gate refuses with %s gets the answer %s', async (code, answer) => {
    const { asks, update, told } = generation({ verdict: 'refused', code, words: 'no' });
    update(begun);
    expect(await asks('t1')).toBe(answer);
    expect(told.some((each) => each.startsWith('settled'))).toBe(false);
  });

  test('that cannot be allowed once is presented to the gate as a request that nobody can decide', async () => {
    const { told, asks } = generation({ verdict: 'refused', code: 'DENIED', words: 'no' });
    expect(await asks('t1', [NO])).toBe('no');
    expect(told).toEqual([
      'step',
      'ask execute {"command":"npm test"}',
      '⚠ its agent cannot allow this call only once',
    ]);
  });

  test('has calls recorded that it ran without asking', () => {
    const { told, update } = generation();
    update({ ...begun, kind: 'read' });
    update({ ...done, status: 'failed' });
    expect(told).toEqual(['step', 'reported t1 read error']);
  });

  test('has calls recorded that ran during a call of a floor tool, and calls without a reported end', () => {
    const { told, update, run } = generation();
    update({ ...begun, kind: 'fetch' });
    run.floorTools.counted();
    update(done);
    update({ ...begun, toolCallId: 't2', kind: 'fetch' });
    run.end();
    expect(told).toEqual(['step', 'reported t1 fetch complete', 'reported t2 fetch error']);
  });

  test('has a denied call reported as run only when the call ran anyway', async () => {
    const { told, update, asks } = generation({ verdict: 'refused', code: 'DENIED', words: 'no' });
    update(begun);
    await asks('t1');
    update({ ...done, status: 'failed' });
    update(begun);
    await asks('t1');
    update(done);
    expect(told.filter((each) => each.startsWith('reported'))).toEqual(['reported t1 execute complete']);
  });

  test.each([
    ['its title', { title: 'Searching the web for: "x"' }],
    ['its id', { toolCallId: 'google_web_search-1' }],
    ['its name', { name: 'web_search' }],
  ])('whose call searches the web, by %s, counts as fetching', (_by, fields) => {
    const told = toolCallOf({ toolCallId: 't', title: 'Look', kind: 'search', rawInput: { query: 'x' }, ...fields });
    const uses = toolRequestsOf([told]).map((request) => toolUse(request, null).parts[0].kind);
    expect(uses).toContain('fetch');
  });

  test.each([['other'], [null]] as const)('of kind %s is not allowed because of a title about the web', (kind) => {
    const told = toolCallOf({ toolCallId: 't', title: 'google it, then deploy', name: 'deploy', kind, rawInput: {} });
    const kinds = toolRequestsOf([told]).map((request) => toolUse(request, null).parts[0].kind);
    expect(kinds).toEqual(['other', 'fetch']);
  });

  test('has a call judged by its whole input when several reports hold parts of the input', () => {
    const told = [{ cwd: '/work' }, { command: 'npm test' }, { command: 'npm publish' }].map((rawInput) =>
      toolCallOf({ toolCallId: 't', title: 'Run', kind: 'execute', rawInput }),
    );
    expect(toolRequestsOf(told).map(({ input }) => input)).toEqual([
      { cwd: '/work', command: 'npm publish' },
      { cwd: '/work', command: 'npm test' },
      { cwd: '/work', command: 'npm publish' },
    ]);
  });

  test('is interrupted once when it continues while its run is paused', async () => {
    const { told, update, stands } = generation();
    update({ ...begun, kind: 'read' });
    update(done);
    await Promise.resolve();
    expect(told).not.toContain('cancel');
    stands();
    for (const toolCallId of ['t2', 't3']) {
      update({ ...begun, toolCallId, kind: 'read' });
      update({ ...done, toolCallId });
      await Promise.resolve();
    }
    expect(told.filter((each) => each === 'cancel')).toHaveLength(1);
  });

  test('is not interrupted while it waits for the decision on a request', async () => {
    const { told, update, asks, stands } = generation(new Promise(() => undefined));
    void asks('t1');
    stands();
    update({ ...begun, toolCallId: 't2', kind: 'read' });
    update({ ...done, toolCallId: 't2' });
    await Promise.resolve();
    expect(told).not.toContain('cancel');
  });

  test('begins a step with the first call after each text, however many calls follow', async () => {
    const { told, asks, says } = generation();
    await asks('t1');
    await asks('t2');
    says('And now the other half.');
    await asks('t3');
    expect(told.filter((each) => each === 'step')).toHaveLength(2);
  });
});
