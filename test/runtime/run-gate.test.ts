import { describe, expect, test } from 'vitest';
import type { CallResult, GatedCall, ToolGate } from '../../src/agents/tools/tool-gate.ts';
import { createRunGates } from '../../src/runtime/runs/run-gate.ts';
import { LONGEST_DETAIL } from '../../src/runtime/runs/tool-judge.ts';
import type { CallJudgement } from '../../src/runtime/runs/tool-judge.ts';
import { openQuestion } from '../../src/turns/floor/seats.ts';
import { runKeyOf } from '../../src/work/runs/floor-binding.ts';
import { toolCallRows } from '../../src/work/runs/call-record.ts';
import { Bound, HALL, SEAT, by } from '../work/runs/bound.ts';

const OFFER = { rule: 'execute(npm test)', words: 'exactly this command' };
const never = new AbortController().signal;
const DONE: CallResult = { status: 'complete', output: 'all green', code: null, durationMs: 5 };

type Rules = (call: GatedCall) => Partial<CallJudgement>;

/** The tool gate of pm, which holds the floor and has no run yet. `rules` judge each call; the default is "ask". */
async function gated(rules: Rules = () => ({}), maxTurns?: number) {
  const bound = await new Bound().granted();
  const asked: (readonly string[])[] = [];
  const gates = createRunGates({
    runs: bound.runs,
    manager: { apply: (channel, command) => bound.store.floors.apply(channel, command, bound.at) },
    clock: { now: () => bound.at },
    clean: (text) => text.replaceAll('s3cret', '«TOKEN»'),
    maxTurns: () => maxTurns,
    requestedBy: () => 'bob',
    prompt: () => 'Run the tests, s3cret.',
    isEnding: () => false,
    judge: (_seat, one, remembered) => {
      asked.push(remembered.map(({ rule }) => rule));
      const isKnown = remembered.some(({ rule }) => rule === OFFER.rule);
      const words = `AGENT_TOOL_NOT_ALLOWED: ${one.tool} is refused`;
      const about = { tool: 'execute', folder: '/srv/app', why: 'no rule covers it' };
      return {
        verdict: isKnown ? 'allow' : 'ask',
        about,
        rule: null,
        remembered: remembered.find(({ rule }) => rule === OFFER.rule)?.id ?? null,
        words,
        offers: [OFFER],
        caution: null,
        brings: {},
        ...rules(one),
      };
    },
    failed: (error) => {
      throw error;
    },
  });
  return { bound, asked, gate: gates(SEAT, 1), gates };
}

function call(id: string, more: Partial<GatedCall> = {}): GatedCall {
  const input = { command: 'npm test' };
  return {
    id,
    tool: 'execute',
    input,
    definition: null,
    repeatable: false,
    detail: 'npm test',
    caution: null,
    ...more,
  };
}

/** Resolves with the number of the open request, when there is one. */
async function question(bound: Bound): Promise<number> {
  for (;;) {
    const asked = openQuestion(bound.hall);
    if (asked !== null) return asked.question;
    await new Promise((resolve) => void setImmediate(resolve));
  }
}

async function until(is: () => boolean): Promise<void> {
  while (!is()) await new Promise((resolve) => void setImmediate(resolve));
}

/** The stored calls, each as its input, decision and status. */
function onRecord(bound: Bound): readonly string[] {
  return toolCallRows(bound.runs.journal(runKeyOf(SEAT), 100)).map(
    ({ input, decision, status }) => `${Object.values(input).join(' ')} ${decision} ${status}`,
  );
}

async function asks(bound: Bound, gate: ToolGate, one = call('a')) {
  const answer = gate.ask(one, never);
  await question(bound);
  return answer;
}

function rowsOf(bound: Bound, type: string) {
  return bound.runs.journal(runKeyOf(SEAT), 100).flatMap(({ fact }) => (fact.type === type ? [fact] : []));
}

describe('a call that the rules allow', () => {
  test('runs at once, and is stored before it starts and after it ends', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow', rule: 'Bash(npm test)' }));
    expect(await gate.ask(call('a'), never)).toEqual({ verdict: 'go' });
    expect(bound.both).toBe('running · pm #1 active');
    expect(rowsOf(bound, 'callRequested')).toMatchObject([{ call: { tool: 'execute', rule: 'Bash(npm test)' } }]);
    expect(bound.calls).toEqual(['1.1.1 running']);
    await gate.settled(call('a'), DONE);
    expect(rowsOf(bound, 'callSettled')).toMatchObject([{ output: 'all green', duration: 5, outcome: 'known' }]);
  });

  test('needs an approval when a caution says so', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'ask', caution: 'sends the value of TOKEN' }));
    const answer = asks(bound, gate, call('a'));
    await question(bound);
    expect(openQuestion(bound.hall)).toMatchObject({
      detail: 'npm test',
      about: { why: '⚠ sends the value of TOKEN' },
    });
    await bound.answers('allow');
    expect(await answer).toEqual({ verdict: 'go' });
  });

  test('stores the taint that it adds before it runs, and private data after a result with a secret', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow', brings: { untrusted: 'evil.org' } }));
    expect(await gate.ask(call('a'), never)).toEqual({ verdict: 'go' });
    expect([bound.state.taint?.from, bound.state.secret]).toEqual(['evil.org', undefined]);
    await gate.settled(call('a'), { status: 'complete', output: 'it is s3cret', code: null, durationMs: 1 });
    expect(bound.state.secret?.from).toBe('a secret in what execute returned');
  });

  test("is shown with its step, class, folder, the reason of the request, and the model's words", async () => {
    const { bound, gate } = await gated();
    await gate.step({ text: 'Now the tests,\nas you asked.\u200B', checkpoint: null });
    const answer = asks(bound, gate);
    await question(bound);
    expect(openQuestion(bound.hall)?.about).toEqual({
      run: 'console:hall pm#1',
      step: 1,
      steps: 100,
      tool: 'execute',
      folder: '/srv/app',
      why: 'no rule covers it',
      says: String.raw`Now the tests, as you asked.\u{200B}`,
    });
    await bound.answers('allow');
    await answer;
  });

  test('T46 announces its outcome after the decision', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    await bound.answers('allow');
    await answer;
    await gate.settled(call('a'), DONE);
    const told = bound.store.floors
      .journal(HALL, 100)
      .flatMap(({ fact }) => (fact.type === 'announced' && fact.announcement.kind === 'answered' ? [fact] : []));
    expect(told).toMatchObject([
      { key: 'approval:1', announcement: { choice: 'allow', approval: expect.any(String) } },
      { key: 'approval:1', announcement: { choice: 'allow', callOutcome: { status: 'complete', ms: 5 } } },
    ]);
  });

  test('needs a confirmation the third time in a row', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }));
    for (const id of ['a', 'b']) {
      expect(await gate.ask(call(id), never)).toEqual({ verdict: 'go' });
      await gate.settled(call(id), DONE);
    }
    const third = asks(bound, gate, call('c'));
    await question(bound);
    expect(openQuestion(bound.hall)?.title).toBe('the same call a third time: execute');
    await bound.answers('allow');
    expect(await third).toEqual({ verdict: 'go' });
  });
});

describe("a call made for a person's message", () => {
  test('is stored with that person and the turn', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    await bound.answers('allow');
    await answer;
    const [row] = toolCallRows(bound.runs.journal(runKeyOf(SEAT), 100));
    expect(row).toMatchObject({ requestedBy: 'bob', task: `turn #1 of pm in ${HALL}`, decidedBy: by });
    expect(bound.state.run?.requestedBy).toBe('bob');
  });
});

describe('a call that the rules deny', () => {
  test('does not run, is stored, and the agent learns why', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'deny', rule: 'Bash(curl *)' }));
    const words = 'AGENT_TOOL_NOT_ALLOWED: execute is refused';
    expect(await gate.ask(call('a'), never)).toEqual({ verdict: 'refused', code: 'AGENT_TOOL_NOT_ALLOWED', words });
    expect(rowsOf(bound, 'callSettled')).toMatchObject([{ code: 'AGENT_TOOL_NOT_ALLOWED' }]);
    expect(bound.both).toBe('running · pm #1 active');
  });
});

describe('a call that needs an approval', () => {
  test('runs once after a person allowed it', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    expect(bound.both).toBe('paused approval_required · pm #1 approval');
    await bound.answers('allow');
    expect(await answer).toEqual({ verdict: 'go' });
  });

  test("is denied with the person's reason", async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    await bound.answers('reject', { reason: 'use b.txt' });
    expect(await answer).toMatchObject({
      verdict: 'refused',
      code: 'DENIED',
      words: expect.stringContaining('use b.txt'),
    });
  });

  test('is allowed without a request by an always-allow rule, until the rule is revoked', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    await bound.answers('allow', { always: OFFER.rule });
    await answer;
    await gate.settled(call('a'), DONE);
    expect(await gate.ask(call('b'), never)).toEqual({ verdict: 'go' });
    await gate.settled(call('b'), DONE);
    const [yes] = bound.state.remembered;
    const rows = toolCallRows(bound.runs.journal(runKeyOf(SEAT), 99));
    expect(rows.map(({ decision, remembered }) => [decision, remembered])).toEqual([
      ['always', null],
      ['remembered', yes?.id],
    ]);
    expect(yes).toMatchObject({ rule: OFFER.rule, by, until: bound.at + 30 * 86_400_000 });
    await bound.run({ type: 'REVOKE', id: yes?.id ?? '', by, name: 'Ann' });
    const third = asks(bound, gate, call('c', { input: { command: 'npm test -- x' } }));
    expect(await question(bound)).toBe(2);
    await bound.answers('reject');
    await third;
  });

  test('cannot be allowed by a rule that was not offered', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate);
    await question(bound);
    const approval = bound.state.run?.pause?.approval?.id ?? '';
    const wider = { type: 'DECIDE', approval, choice: 'allow', by, via: 'page', always: 'execute' } as const;
    expect(await bound.run(wider)).toBe('RULE_NOT_OFFERED');
    await bound.answers('reject');
    await answer;
  });

  test('is judged again before it starts, and is denied when the rules deny it by then', async () => {
    let verdict: CallJudgement['verdict'] = 'ask';
    const { bound, gate } = await gated(() => ({ verdict }));
    const answer = asks(bound, gate);
    await question(bound);
    verdict = 'deny';
    await bound.answers('allow');
    expect(await answer).toMatchObject({ verdict: 'refused', code: 'AGENT_TOOL_NOT_ALLOWED' });
    const last = bound.store.floors.journal(HALL, 100).findLast(({ fact }) => fact.type === 'announced');
    expect(last?.fact).toMatchObject({ announcement: { choice: 'allow', callOutcome: { status: 'unrun' } } });
  });

  test('T53 is denied when its text is too long to show, and shown at exactly the limit', async () => {
    const { bound, gate } = await gated();
    const whole = asks(bound, gate, call('a', { detail: 'x'.repeat(LONGEST_DETAIL) }));
    await question(bound);
    await bound.answers('reject');
    expect(await whole).toMatchObject({ words: expect.stringContaining('People denied it') });
    const answer = await gate.ask(call('b', { detail: 'x'.repeat(LONGEST_DETAIL + 1) }), never);
    expect(answer).toMatchObject({ code: 'DENIED', words: expect.stringContaining('Nobody could be asked') });
    expect(bound.both).toBe('running · pm #1 active');
  });

  test('is shown without secrets and with invisible characters spelled out', async () => {
    const { bound, gate } = await gated();
    const answer = asks(bound, gate, call('a', { detail: 'curl s3cret\u200B', input: { command: 'curl s3cret' } }));
    await question(bound);
    // No always-allow rule is offered, because the rule would contain the secret.
    expect(openQuestion(bound.hall)).toMatchObject({ detail: String.raw`curl «TOKEN»\u{200B}` });
    expect(openQuestion(bound.hall)?.always).toBeUndefined();
    expect(JSON.stringify(bound.state)).not.toContain('s3cret');
    await bound.answers('reject');
    await answer;
  });

  test('closes its request when its agent withdraws it', async () => {
    const { bound, gate } = await gated();
    const withdrawn = new AbortController();
    const answer = gate.ask(call('a'), withdrawn.signal);
    await question(bound);
    withdrawn.abort();
    expect(await answer).toMatchObject({ code: 'CANCELLED' });
    expect([bound.both, openQuestion(bound.hall)]).toEqual(['running · pm #1 active', null]);
  });

  test('is announced as not run when its agent withdraws it after a person allowed it', async () => {
    const { bound, gate } = await gated();
    const withdrawn = new AbortController();
    const answer = gate.ask(call('a'), withdrawn.signal);
    await question(bound);
    bound.runs.onChange(({ facts }) => {
      if (facts.some(({ type }) => type === 'callCleared')) withdrawn.abort();
    });
    await bound.answers('allow');
    expect(await answer).toMatchObject({ code: 'CANCELLED' });
    const last = bound.store.floors.journal(HALL, 100).findLast(({ fact }) => fact.type === 'announced');
    expect(last?.fact).toMatchObject({ announcement: { choice: 'allow', callOutcome: { status: 'unrun', ms: null } } });
    expect(onRecord(bound)).toEqual(['npm test once error']);
  });

  test('is cancelled when the turn is stopped', async () => {
    const { bound, gate } = await gated();
    const answer = gate.ask(call('a'), never);
    await question(bound);
    await bound.floor({ type: 'stop', by });
    expect(await answer).toMatchObject({ code: 'CANCELLED' });
  });

  test('waits until the call before it is decided', async () => {
    const { bound, gate } = await gated();
    const first = gate.ask(call('a', { accounts: [] }), never);
    const second = gate.ask(call('b', { input: { command: 'ls' }, accounts: [] }), never);
    await question(bound);
    await bound.answers('allow');
    expect(await first).toEqual({ verdict: 'go' });
    expect(await question(bound)).toBe(2);
    await bound.answers('reject');
    expect(await second).toMatchObject({ code: 'DENIED' });
  });
});

describe('parallel calls of an agent', () => {
  test('get one request at a time, and equal calls share one request and one decision', async () => {
    const { bound, gate } = await gated();
    const own = { accounts: [] };
    const answers = [
      gate.ask(call('a', own), never),
      gate.ask(call('b', own), never),
      gate.ask(call('c', { ...own, input: { command: 'ls' }, detail: 'ls' }), never),
    ];
    const first = await question(bound);
    expect(openQuestion(bound.hall)?.about).toMatchObject({ questions: 2, times: 2 });
    await bound.answers('allow');
    const [a, b] = await Promise.all(answers.slice(0, 2));
    expect([a?.verdict, b?.verdict]).toEqual(['go', 'go']);
    expect(await question(bound)).toBe(first + 1);
    expect(openQuestion(bound.hall)?.about).not.toHaveProperty('questions');
    expect(
      toolCallRows(bound.runs.journal(runKeyOf(SEAT), 100)).map(({ decision, decidedBy }) => [decision, decidedBy]),
    ).toEqual([
      ['once', 'ann'],
      ['grant', 'ann'],
      ['open', null],
    ]);
  });

  test('are stored while they wait, one row each, in the order of their requests', async () => {
    const { bound, gate } = await gated(({ id }) => (id === 'b' ? { verdict: 'allow', rule: 'Bash(ls)' } : {}));
    const own = { accounts: [] };
    const late = { ...own, input: { command: 'late' } };
    const answers = [gate.ask(call('a', own), never), gate.ask(call('b', { ...own, input: { command: 'ls' } }), never)];
    await question(bound);
    answers.push(gate.ask(call('c', late), never));
    await until(() => onRecord(bound).length === 3);
    expect(onRecord(bound)).toEqual(['npm test open pending', 'ls rule pending', 'late open pending']);
    expect(openQuestion(bound.hall)?.about).not.toHaveProperty('questions');
    bound.at += 5_000;
    await bound.answers('allow');
    expect([(await answers[0])?.verdict, (await answers[1])?.verdict]).toEqual(['go', 'go']);
    await until(() => openQuestion(bound.hall)?.question === 2);
    expect(onRecord(bound)).toEqual(['npm test once running', 'ls rule running', 'late open pending']);
    const asked = toolCallRows(bound.runs.journal(runKeyOf(SEAT), 100)).map(({ askedAt }) => bound.at - askedAt);
    expect(asked).toEqual([5_000, 5_000, 5_000]);
    await bound.answers('reject');
    expect(await answers[2]).toMatchObject({ code: 'DENIED' });
  });

  test('do not count in the number of equal requests when the rules deny them', async () => {
    const { bound, gate } = await gated(({ id }) => (id === 'b' ? { verdict: 'deny' } : {}));
    const own = { accounts: [] };
    const first = gate.ask(call('a', own), never);
    const second = gate.ask(call('b', own), never);
    await question(bound);
    expect([openQuestion(bound.hall)?.about?.times, onRecord(bound)]).toEqual([undefined, ['npm test open pending']]);
    await bound.answers('allow');
    expect([(await first).verdict, await second]).toMatchObject(['go', { code: 'AGENT_TOOL_NOT_ALLOWED' }]);
    expect(onRecord(bound)).toEqual(['npm test once running', 'npm test denied-rule error']);
  });

  test('are stored once each when none has to wait', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }));
    const ids = ['a', 'b', 'c'];
    await Promise.all(ids.map((id) => gate.ask(call(id, { accounts: [], input: { id } }), never)));
    expect(rowsOf(bound, 'callRequested')).toHaveLength(3);
  });

  test('are stored while they wait at the step limit', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }), 2);
    await gate.step({ text: '', checkpoint: null });
    const second = gate.step({ text: '', checkpoint: null });
    await question(bound);
    const waiting = gate.ask(call('a', { accounts: [] }), never);
    await until(() => onRecord(bound).length === 1);
    expect(onRecord(bound)).toEqual(['npm test rule pending']);
    await bound.answers('allow');
    expect([await second, (await waiting).verdict, onRecord(bound)]).toEqual(['go', 'go', ['npm test rule running']]);
  });

  test('are judged again when their turn comes, by rules and taints added since', async () => {
    const read = { tainted: false };
    const tainted = { verdict: 'ask', offers: [], caution: 'its agent has read evil.org' } as const;
    const { bound, gate } = await gated(({ id }) => (read.tainted && id === 'c' ? tainted : {}));
    const own = { accounts: [] };
    const answers = ['a', 'b', 'c'].map((id) => gate.ask(call(id, { ...own, input: { id } }), never));
    await question(bound);
    expect(openQuestion(bound.hall)?.about).toMatchObject({ questions: 3 });
    read.tainted = true;
    await bound.answers('allow', { always: OFFER.rule });
    expect([(await answers[0])?.verdict, (await answers[1])?.verdict]).toEqual(['go', 'go']);
    await until(() => openQuestion(bound.hall)?.question === 2);
    expect(openQuestion(bound.hall)?.about).toMatchObject({ why: '⚠ its agent has read evil.org' });
    expect(openQuestion(bound.hall)).not.toHaveProperty('always');
    await bound.answers('reject');
    expect(await answers[2]).toMatchObject({ code: 'DENIED' });
    expect(onRecord(bound)).toEqual(['a always running', 'b remembered running', 'c denied-person error']);
  });

  test('end at once when withdrawn while they wait, and get no request', async () => {
    const { bound, gate } = await gated();
    const back = new AbortController();
    const own = { accounts: [] };
    const first = gate.ask(call('a', own), never);
    const second = gate.ask(call('b', own), back.signal);
    await question(bound);
    expect(openQuestion(bound.hall)?.about).toMatchObject({ times: 2 });
    back.abort();
    await until(() => onRecord(bound).at(-1)?.endsWith('error') === true);
    expect(onRecord(bound)).toEqual(['npm test open pending', 'npm test void error']);
    await bound.answers('allow');
    expect([(await first).verdict, await second]).toMatchObject(['go', { code: 'CANCELLED' }]);
    expect(bound.state.run?.grants).toEqual([]);
  });

  test('end with their turn, in each way in which a turn ends, and with the program', async () => {
    const ends: readonly ((bound: Bound) => Promise<unknown>)[] = [
      (bound) => bound.floor({ type: 'stop', by }),
      (bound) => bound.floor({ type: 'skip', by }),
      async (bound) => {
        bound.at += 10 * 60_000;
        await bound.floor({ type: 'tick' });
      },
      (bound) => bound.floor({ type: 'restart' }),
    ];
    for (const end of ends) {
      const { bound, gate } = await gated();
      const own = { accounts: [] };
      void gate.ask(call('a', { ...own, input: { command: 'ls' } }), never);
      void gate.ask(call('b', own), never);
      await question(bound);
      await end(bound);
      expect(onRecord(bound).at(-1)).toBe('npm test void error');
      expect(bound.state.run?.calls).toEqual([]);
    }
  });

  test('get a request each when they are dangerous', async () => {
    const about = { tool: 'fetch', folder: null, why: 'x', danger: true } as const;
    const { bound, gate } = await gated(() => ({ about, offers: [] }));
    const answers = [gate.ask(call('a', { accounts: [] }), never), gate.ask(call('b', { accounts: [] }), never)];
    const first = await question(bound);
    expect(openQuestion(bound.hall)?.about).toMatchObject({ questions: 2 });
    expect(openQuestion(bound.hall)?.about).not.toHaveProperty('times');
    await bound.answers('allow');
    expect((await answers[0])?.verdict).toBe('go');
    expect(await question(bound)).toBe(first + 1);
  });
});

describe('the gate of a turn', () => {
  test('cancels calls that an agent requests after its turn has ended', async () => {
    const { bound, gate, gates } = await gated(() => ({ verdict: 'allow' }));
    await gate.ask(call('a'), never);
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    expect(await gate.ask(call('b'), never)).toMatchObject({ code: 'CANCELLED' });
    expect(await gates({ channel: HALL, agent: 'pm' }, 1).step({ text: '', checkpoint: null })).toBe('stop');
  });

  test("T62 stores the task of the run and the model's text of each step, without secrets", async () => {
    const { bound, gate } = await gated();
    await gate.step({ text: 'I look, s3cret.', checkpoint: null });
    await gate.step({ text: 'I run them.', checkpoint: null });
    const facts = [...bound.runs.newest(runKeyOf(SEAT))].map(({ fact }) => fact).toReversed();
    expect(facts).toMatchObject([
      { type: 'runStarted', task: `turn #1 of pm in ${HALL}`, prompt: 'Run the tests, «TOKEN».' },
      { type: 'stepped', turn: 1, output: 'I look, «TOKEN».' },
      { type: 'stepped', turn: 2, output: 'I run them.' },
    ]);
  });

  test('leaves no open call when it closes: a call without a result gets an unknown outcome', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }));
    await gate.ask(call('a'), never);
    await gate.close();
    expect([bound.calls, bound.state.unknown.length]).toEqual([[], 1]);
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    expect(bound.state.status).toBe('completed');
  });
});

describe('a call that an agent ran without a request', () => {
  const read = (id: string) => call(id, { tool: 'read', accounts: [] });
  const rows = (bound: Bound) =>
    toolCallRows(bound.runs.journal(runKeyOf(SEAT), 100)).map(({ decision, status }) => `${decision} ${status}`);
  const taken = 'unasked complete';

  test('is stored in one commit, without a request', async () => {
    const { bound, gate } = await gated();
    await gate.reported(call('r', { tool: 'read', accounts: [] }), DONE);
    expect(rowsOf(bound, 'callRequested')).toMatchObject([{ call: { source: 'agent', rule: 'unasked' } }]);
    expect([bound.calls, bound.both]).toEqual([[], 'running · pm #1 active']);
  });

  test('is stored the third time in a row, too, and then people must confirm', async () => {
    const { bound, gate } = await gated();
    for (const id of ['r1', 'r2', 'r3']) await gate.reported(read(id), DONE);
    expect([rows(bound), bound.calls]).toEqual([[taken, taken, taken], []]);
    expect(openQuestion(bound.hall)?.title).toBe('the same call a third time: read');
    await bound.answers('allow');
    await gate.step({ text: '', checkpoint: null });
    expect(bound.state.run?.turn).toBe(2);
  });

  test('is stored at once while a request for another call is open', async () => {
    const { bound, gate } = await gated();
    const asking = gate.ask(call('a', { accounts: [] }), never);
    await question(bound);
    void gate.reported(read('r1'), DONE);
    await until(() => rows(bound).length === 2);
    expect(rows(bound)).toEqual(['open pending', taken]);
    await bound.answers('reject');
    expect(await asking).toMatchObject({ code: 'DENIED' });
  });

  test('is stored while the run is paused at its limit, and when people end the run there', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }), 2);
    await gate.reported(read('r1'), DONE);
    const second = gate.step({ text: '', checkpoint: null });
    await question(bound);
    await gate.reported(read('r2'), DONE);
    expect(rows(bound)).toEqual([taken, taken]);
    await bound.answers('reject');
    expect(await second).toBe('stop');
    await gate.reported(read('r3'), DONE);
    expect(rows(bound)).toEqual([taken, taken, taken]);
  });
});

describe('the steps of a turn', () => {
  test('are counted, and at the limit the agent waits until people allow more', async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }), 2);
    expect(await gate.step({ text: '', checkpoint: null })).toBe('go');
    const second = gate.step({ text: '', checkpoint: null });
    await question(bound);
    const waiting = gate.ask(call('a'), never);
    await bound.answers('allow');
    expect([await second, await waiting]).toEqual(['go', { verdict: 'go' }]);
    expect(bound.state.run).toMatchObject({ turn: 2, maxTurns: 4 });
  });

  test("limited by the agent's own settings lead to a request, and an approval adds as many again", async () => {
    const { bound, gate } = await gated(() => ({ verdict: 'allow' }), 2);
    expect(gate.standing()).toBeNull();
    const spent = gate.spent();
    await question(bound);
    expect(openQuestion(bound.hall)).toMatchObject({
      title: 'used up the steps that its own settings allow',
      pause: 'turn_limit',
    });
    const standing = gate.standing();
    await bound.answers('allow');
    expect([await spent, await standing, gate.standing()]).toEqual(['go', 'go', null]);
    expect(bound.state.run).toMatchObject({ turn: 1, maxTurns: 4 });
  });

  test('do not pause an agent that waits for an approval', async () => {
    const { bound, gate } = await gated();
    void gate.ask(call('a'), never);
    await question(bound);
    expect(gate.standing()).toBeNull();
  });

  test('end the generation when people deny more steps', async () => {
    const { bound, gate } = await gated(() => ({}), 2);
    await gate.step({ text: '', checkpoint: null });
    const second = gate.step({ text: '', checkpoint: null });
    await question(bound);
    await bound.answers('reject');
    expect(await second).toBe('stop');
  });
});
