import { describe, expect, test } from 'vitest';
import { AcpGeneration } from '../../../../src/agents/backends/acp/acp-generation.ts';
import { permissionRequest, sessionUpdate } from '../../../../src/agents/backends/acp/acp-wire.ts';
import type { SeatTaint } from '../../../../src/agents/mcp/taint.ts';
import type { GateVerdict, ToolGate } from '../../../../src/agents/tools/tool-gate.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import { prompt, recorder } from '../conversation.ts';

const ONCE = { optionId: 'once', name: 'Once', kind: 'allow_once' };
const NO = { optionId: 'no', name: 'No', kind: 'reject_once' };

/** A generation whose gate answers everything alike, and what the gate was told, in order. */
function generation(verdict: GateVerdict = { verdict: 'go' }, taint?: SeatTaint) {
  const told: string[] = [];
  const gate: ToolGate = {
    step: async () => (told.push('step'), 'go'),
    ask: async (call) => {
      told.push(`ask ${call.tool} ${JSON.stringify(call.input)}`);
      if (call.caution !== null) told.push(`⚠ ${call.caution}`);
      return verdict;
    },
    left: async () => null,
    settled: async ({ id }, { status, output }) => void told.push(`settled ${id} ${status} ${output}`),
    reported: async ({ id, tool }, { status }) => void told.push(`reported ${id} ${tool} ${status}`),
    close: async () => {},
  };
  const seat = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '', ...(taint && { taint }) };
  const report = { ...recorder().report, gate };
  const run = new AcpGeneration(seat, prompt({ text: 'Clean up' }), report, systemTimers);
  const update = (fields: object) => run.update(sessionUpdate.parse({ sessionId: 's1', update: fields }).update);
  const asks = async (toolCallId: string, options: readonly object[] = [ONCE, NO], kind = 'execute') => {
    const toolCall = { toolCallId, title: 'Test', kind, rawInput: { command: 'npm test' } };
    const request = permissionRequest.parse({ sessionId: 's1', toolCall, options });
    const outcome = await run.permission({ ...request, isOwn: false }, new AbortController().signal);
    return outcome.outcome === 'selected' ? outcome.optionId : outcome.outcome;
  };
  const says = (text: string) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text }, messageId: 'm1' });
  return { told, update, asks, says };
}

const begun = { sessionUpdate: 'tool_call', toolCallId: 't1', title: 'Test', kind: 'execute', status: 'pending' };
const content = [{ type: 'content', content: { type: 'text', text: 'all green' } }];
const done = { sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed', content };

describe('a coding agent before a gate', () => {
  test('is let through for once, and what came of it is told when its call is over', async () => {
    const { told, update, asks } = generation();
    update(begun);
    expect(await asks('t1')).toBe('once');
    update(done);
    expect(told).toEqual(['step', 'ask execute {"command":"npm test"}', 'settled t1 complete all green']);
  });

  test.each([
    ['AGENT_TOOL_NOT_ALLOWED', 'no'],
    ['DENIED', 'no'],
    ['CANCELLED', 'cancelled'],
  ] as const)('is answered so when its call is %s: %s', async (code, answer) => {
    const { asks, update, told } = generation({ verdict: 'refused', code, words: 'no' });
    update(begun);
    expect(await asks('t1')).toBe(answer);
    expect(told.some((each) => each.startsWith('settled'))).toBe(false);
  });

  test('that takes no yes for once is put to the gate as one that nobody can be asked about', async () => {
    const { told, asks } = generation({ verdict: 'refused', code: 'DENIED', words: 'no' });
    expect(await asks('t1', [NO])).toBe('no');
    expect(told).toEqual([
      'step',
      'ask execute {"command":"npm test"}',
      '⚠ its agent takes no yes for this once alone',
    ]);
  });

  test('that has read what nobody vouches for is cautioned before it changes something, not before it reads', async () => {
    const taint: SeatTaint = { of: () => ({ since: 0, from: 'web, by way of pm' }), mark() {}, read() {}, forget() {} };
    const { told, asks } = generation({ verdict: 'go' }, taint);
    await asks('t1', [ONCE, NO], 'read');
    await asks('t2');
    expect(told.filter((each) => each.includes('vouches'))).toEqual([
      '⚠ its agent has read what nobody vouches for (web, by way of pm)',
    ]);
    expect(told.at(-1)).toContain('vouches');
  });

  test('has on record what it did unasked', () => {
    const { told, update } = generation();
    update({ ...begun, kind: 'read' });
    update({ ...done, status: 'failed' });
    expect(told).toEqual(['step', 'reported t1 read error']);
  });

  test('takes a step with the first call after each text, however many calls follow', async () => {
    const { told, asks, says } = generation();
    await asks('t1');
    await asks('t2');
    says('And now the other half.');
    await asks('t3');
    expect(told.filter((each) => each === 'step')).toHaveLength(2);
  });
});
