import { describe, expect, test } from 'vitest';
import { parseLine } from '../../../src/turns/commands/parse.ts';
import type { RunVerb } from '../../../src/turns/commands/context.ts';
import { turnRecords, viewOf } from '../../../src/turns/view.ts';
import { answerText } from '../../../src/turns/text/words.ts';
import { createRunCommands } from '../../../src/work/runs/run-commands.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { WAIT_MS, call, settle, start } from './fixture.ts';
import { BESIDE, Bound, HALL, SEAT, by } from './bound.ts';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';

const ANN = { id: 'ann', name: 'Ann', roles: [] };

/** The /run commands. `type` runs a line that the operator Ann typed. */
function commandsOver(bound: Bound, approvers: 'other' | readonly string[] | null = null) {
  const { store } = bound;
  const commands = createRunCommands({
    runs: bound.runs,
    floors: {
      apply: (channel, command) => store.floors.apply(channel, command, bound.at),
      view: () => viewOf(bound.hall, bound.at, bound.store.id),
      keep: () => ({ text: '', durable: Promise.resolve() }),
      turns: (channel, limit) => turnRecords(store.floors.journal(channel, 200)).slice(-limit),
    },
    clock: { now: () => bound.at },
    nameOf: (id) => ({ ann: 'Ann', bob: 'Bob' })[id] ?? id,
    closed: (_, named) => ('question' in named && named.question === 1 ? { choice: 'allow', by: 'bob' } : null),
    approvers: () => approvers,
    settable: () => ({ backend: 'llm', options: ['model', 'steps', 'tools'] }),
    readTools: (text) => ({ ok: true, rules: [text] }),
    requesters: () => ['carol'],
    written: () => 'One link is dead.',
    work: () => ({ steps: undefined, waitMs: WAIT_MS }),
  });
  const type = async (line: string, epoch?: number) => {
    const parsed = parseLine(line);
    if (!parsed.ok) throw new Error(parsed.message);
    const { path, values } = parsed.invocation;
    const verb = VERBS.find((each) => `run ${each}` === path);
    if (verb === undefined) throw new Error(`${line} is about no run`);
    return commands.run(verb, values.agent?.replace('+', '') ?? null, {
      channel: HALL,
      person: ANN,
      values,
      ...(epoch === undefined ? {} : { drawnFor: { of: 'turn', store: store.id, epoch } as const }),
    });
  };
  return { commands, type };
}

const VERBS: readonly RunVerb[] = [
  'start',
  'status',
  'log',
  'approvals',
  'revoke',
  'pause',
  'resume',
  'continue',
  'complete',
  'abort',
  'retry',
];

async function atWork(maxTurns?: number) {
  const bound = await new Bound().begins(maxTurns);
  return { bound, ...commandsOver(bound) };
}

const offers = [{ rule: 'execute(npm test)', words: 'exactly this command' }];

describe('T87 a restored backup', () => {
  test('gives no run an id that a run since the backup may have had', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.beside(start({ runType: 'background', session: '1', prompt: 'look' }), {
      type: 'ABORT',
      reason: 'enough',
      by,
    });
    await bound.store.backupTo(place.file('copy.db'));
    await bound.store.close();
    const restored = await new Bound(place.file('copy.db')).recovers();
    const { type } = commandsOver(restored);
    expect((await type('/run start pm look again')).ok).toBe(true);
    const { run, totals } = restored.runs.state(runKeyOf(BESIDE)) ?? {};
    expect(run).toMatchObject({ id: `${HALL} pm+#1000002`, task: `task #1000002 of pm+ in ${HALL}` });
    expect(totals).toMatchObject({ runs: 2 });
    expect((await type('/run abort pm+', 2)).ok).toBe(false);
    expect((await type('/run abort pm+', 1_000_002)).ok).toBe(true);
    await restored.store.close();
  });
});

describe('a button that ends a run', () => {
  test('ends only the run of the turn that it was drawn for', async () => {
    const { bound, type } = await atWork();
    expect(await type('/run complete', 2)).toMatchObject({
      ok: false,
      text: expect.stringContaining('That run is over'),
    });
    expect(bound.both).toBe('running · pm #1 active');
    expect((await type('/run complete', 1)).ok).toBe(true);
  });

  test('ends only the background run that it was drawn for', async () => {
    const bound = await (await new Bound().granted()).besideAsking();
    const { type } = commandsOver(bound);
    await type('/run abort pm+');
    await type('/run start pm again');
    expect((await type('/run abort pm+', 1)).ok).toBe(false);
    expect(bound.aside).toBe('starting · at work');
    expect((await type('/run abort pm+', 2)).ok).toBe(true);
    expect(bound.aside).toBe('idle · nothing');
  });
});

describe('the people who may decide a request', () => {
  const asking = async (approvers: 'other' | readonly string[] | null) => {
    const bound = await new Bound().granted();
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1, requestedBy: 'dora' });
    await bound.requests('a');
    return commandsOver(bound, approvers).commands;
  };

  test('are all operators unless the configuration names others', async () => {
    expect((await asking(null)).approvers(HALL, 1)).toBeNull();
    expect((await asking(['ann'])).approvers(HALL, 1)).toEqual({ only: ['ann'] });
  });

  test('exclude the person who started the work, when others must decide', async () => {
    expect((await asking('other')).approvers(HALL, 1)).toEqual({ not: ['carol', 'dora'] });
  });

  test('are not restricted for other questions, nor for the question whether a run continues', async () => {
    expect((await asking('other')).approvers(HALL, 2)).toBeNull();
    const bound = await new Bound().begins();
    await bound.run({ type: 'PAUSE', reason: 'confirmation' });
    expect(commandsOver(bound, ['ann']).commands.approvers(HALL, 1)).toBeNull();
  });
});

describe('/run', () => {
  test('status shows what an agent works on and what it waits for', async () => {
    const { bound, type } = await atWork();
    expect((await type('/run status')).text).toBe(
      'pm: running · step 1 of 100 · 1 run, 0 completed, 1 step, 0 tool calls',
    );
    await bound.requests('a');
    expect((await type('/run status pm')).text).toBe(
      'pm: paused (approval_required) · step 1 of 100 · open: mcp__files__write pending · 1 run, 0 completed, 1 step, 0 tool calls',
    );
  });

  test("status counts an agent's steps and tools, of turns and background runs", async () => {
    const { bound, commands } = await atWork();
    expect(commands.totals('dev')).toBeNull();
    await bound.requests('a');
    await bound.answers('allow');
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
    await bound.besideAsking();
    expect(commands.totals('pm')).toBe(
      '2 runs, 0 completed, 2 steps, 1 tool call in all; conch cost --by agent shows tokens and money',
    );
  });

  test('log shows who allowed each call, and its outcome', async () => {
    const { bound, type } = await atWork();
    await bound.requests('a');
    bound.at += 61_000;
    await bound.answers('allow');
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
    await bound.run(settle('a'));
    await bound.requests('b', { verdict: 'deny', rule: 'mcp__files__*' });
    await bound.requests('c');
    await bound.answers('reject', { reason: 'use b.txt' });
    const lines = (await type('/run log pm')).text.split('\n');
    expect(lines.map((line) => line.replace(/^\S+ UTC +/, ''))).toEqual([
      'step 1 mcp__files__write {"path":"a"} · allowed once by Ann → complete, 0:01',
      'step 1 mcp__files__write {"path":"b"} · denied by rule "mcp__files__*" → error AGENT_TOOL_NOT_ALLOWED',
      'step 1 mcp__files__write {"path":"c"} · denied by Ann → error DENIED',
    ]);
    expect((await type('/run log pm 1')).text.split('\n')).toHaveLength(1);
    const all = (await type('/run log')).text.split('\n');
    expect(all.map((line) => line.replace(/^\S+ UTC +/, ''))).toEqual(
      lines.map((line) => line.replace(/^\S+ UTC +/, 'pm: ')),
    );
  });

  test('log shows the calls of a background run when the agent has no others, also after its end', async () => {
    const bound = await (await new Bound().granted()).besideAsking();
    const { type } = commandsOver(bound, ['ann']);
    await bound.beside({ type: 'ABORT', reason: 'enough', by: 'ann' });
    expect((await type('/run log pm')).text).toContain('mcp__files__write {"path":"a"} · no longer needed');
  });

  test('approvals lists requests and always-allow rules, and revoke deletes a rule', async () => {
    const { bound, type } = await atWork();
    await bound.requests('a', { words: { title: 'test', detail: 'npm test', offers } });
    expect((await type('/run approvals')).text).toContain('pm waits for approval: mcp__files__write');
    await bound.answers('allow', { always: 'execute(npm test)' });
    expect((await type('/run approvals pm')).text).toMatch(
      /^pm 1\. execute\(npm test\) · by Ann .* \/run revoke pm 1$/,
    );
    expect((await type('/run revoke pm 2')).ok).toBe(false);
    expect((await type('/run revoke pm 1')).ok).toBe(true);
    expect((await type('/run approvals')).text).toBe('No open requests, no rules.');
  });

  test('revoke by a button deletes the rule that the button was drawn for, even if the number of the rule has changed', async () => {
    const { bound, type } = await atWork();
    for (const [id, rule] of [
      ['a', 'execute(npm test)'],
      ['b', 'execute(npm run lint)'],
    ] as const) {
      await bound.requests(id, { words: { title: id, detail: id, offers: [{ rule, words: rule }] } });
      await bound.answers('allow', { always: rule });
      await bound.run({ type: 'CLAIM', call: id, digest: `d-${id}`, verdict: 'allow' });
      await bound.run(settle(id));
    }
    const [first, second] = bound.state.remembered.map(({ id }) => id.slice(id.lastIndexOf('#')));
    expect((await type(`/run revoke pm ${first}`)).text).toBe(
      'Revoked: execute(npm test). Such calls need approval again.',
    );
    expect((await type(`/run revoke pm ${first}`)).ok).toBe(false);
    expect((await type(`/run revoke pm+ ${second}`)).ok).toBe(false);
    expect((await type(`/run revoke pm ${second}`)).ok).toBe(true);
    expect(bound.state.remembered).toEqual([]);
    const told = [...bound.store.floors.journal(HALL, 100)].flatMap(({ fact }) =>
      fact.type === 'announced' && fact.announcement.kind === 'revoked' ? [fact] : [],
    );
    expect(told.map(({ announcement, repeat }) => [announcement, repeat])).toEqual([
      [{ kind: 'revoked', agent: 'pm', rule: 'execute(npm test)', by: 'Ann' }, 1],
      [{ kind: 'revoked', agent: 'pm', rule: 'execute(npm run lint)', by: 'Ann' }, 1],
    ]);
  });

  test('approvals lists repeated requests, with the narrowest rule that would allow them', async () => {
    const { bound, type } = await atWork();
    for (const id of ['a', 'b', 'c']) {
      expect((await type('/run approvals pm')).text).not.toContain('allowed 3 times');
      await bound.requests(id, { digest: id, words: { title: 'test', detail: 'npm test', offers } });
      await bound.answers('allow');
      await bound.runs.apply(runKeyOf(SEAT), { type: 'CLAIM', call: id, digest: id, verdict: 'ask' }, bound.at);
      await bound.runs.apply(runKeyOf(SEAT), settle(id), bound.at);
    }
    expect((await type('/run approvals pm')).text).toBe(
      'pm was allowed such a call 3 times. To allow these calls without a request: "allow": ["execute(npm test)"] in turnConfig.json, or /allow with "always" next time',
    );
  });

  test('pause makes the turn wait, and resume continues it', async () => {
    const { bound, type } = await atWork();
    await type('/run pause');
    expect(bound.both).toBe('paused confirmation · pm #1 approval');
    expect((await type('/run resume')).text).toBe('The run continues: step 1 of 100.');
    expect(bound.both).toBe('running · pm #1 active');
  });

  test('resume continues a turn that waits for an answer', async () => {
    const { bound, type } = await atWork();
    await bound.floor({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' });
    expect((await type('/run resume pm')).ok).toBe(true);
    expect(bound.both).toBe('running · pm #2 active');
  });

  test.each([
    ['/run continue', 4],
    ['/run continue pm', 4],
    ['/run continue 20', 22],
    ['/run continue 200 pm', 202],
  ])('%s at the limit gives the run more steps', async (line, limit) => {
    const { bound, type } = await atWork(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [call('a')] });
    expect((await type('/run status')).text).toContain(
      'AGENT_TURN_LIMIT_EXCEEDED: all steps are used. /run continue pm, ',
    );
    expect((await type(line)).text).toBe(`The run continues: step 2 of ${limit}.`);
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', ['a cleared']]);
  });

  test("T57 complete at the limit marks the turn's messages as answered, and no agent gets them again", async () => {
    const bound = await new Bound().granted();
    await bound.floor({ type: 'stop', by: 'ann' });
    await bound.hears('5', 'carol');
    const { agent, epoch } = bound.hall.turn ?? { agent: '', epoch: 0 };
    await bound.floor({ type: 'use', agent, epoch, maxTurns: 2 });
    await bound.runs.apply(
      runKeyOf({ channel: HALL, agent }),
      { type: 'STEP', session: `${epoch}`, turn: 2, toolCalls: [] },
      bound.at,
    );
    const { type } = commandsOver(bound);
    expect((await type(`/run complete ${agent}`)).ok).toBe(true);
    const facts = bound.store.floors.journal(HALL, 1_000).map(({ fact }) => fact);
    const ended = facts.findLast((fact) => fact.type === 'turnEnded');
    expect(ended).toMatchObject({ agent, outcome: 'completed', answered: ['5'], returned: [], by: 'ann' });
    expect(facts.findLast((fact) => fact.type === 'turnGranted')).toMatchObject({ messages: [] });
    expect(bound.hall.held).toEqual([]);
    const told = facts.flatMap((fact) => (fact.type === 'announced' ? [fact.announcement] : []));
    expect(told.at(-1)).toMatchObject({ kind: 'answered', choice: 'allow', by: 'Ann', completes: true });
    expect(told.some(({ kind }) => kind === 'skipped')).toBe(false);
  });

  test('T57 continue answers with the same text as the button', async () => {
    const line = async (byButton: boolean): Promise<string> => {
      const { bound, type } = await atWork(2);
      await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
      if (byButton)
        await bound.floor(
          { type: 'shown', question: 1 },
          { type: 'decide', by: 'ann', name: 'Ann', choice: 'allow', question: 1 },
        );
      else await type('/run continue pm');
      const told = bound.store.floors
        .journal(HALL, 1_000)
        .flatMap(({ fact }) =>
          fact.type === 'announced' && fact.announcement.kind === 'answered' ? [fact.announcement] : [],
        );
      return told.map((notice) => answerText(notice, String)).join();
    };
    expect(await line(false)).toBe(await line(true));
    expect(await line(false)).toMatch(/^▶️ Ann continued pm’s run/u);
  });

  test('complete ends a run at its limit with the result so far, and its turn', async () => {
    const { bound, type } = await atWork(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
    expect(await type('/run complete')).toEqual({ ok: true, text: 'The run is completed with the result so far.' });
    expect(bound.both).toBe('completed · dev #2 active');
  });

  test('abort ends a run and its turn, also while a request is open', async () => {
    const { bound, type } = await atWork();
    await bound.requests('a');
    await type('/run abort pm not needed');
    expect([bound.both, bound.state.closed[0]?.state]).toEqual(['idle · dev #2 active', 'void']);
  });

  test('retry gives the next turn to an agent whose run failed', async () => {
    const { bound, type } = await atWork();
    expect((await type('/run retry pm')).text).toContain('AGENT_NOT_RUNNING');
    await bound.floor({ type: 'leave', agent: 'pm', cause: 'exited' });
    expect((await type('/run status pm')).text).toContain('AGENT_EXECUTION_ERROR');
    await bound.floor({ type: 'join', agent: 'pm' }, { type: 'add', by: 'ann', agent: 'pm' });
    expect((await type('/run retry pm')).ok).toBe(true);
    await bound.floor({ type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: true });
    await bound.floor({ type: 'use', agent: 'pm', epoch: 3 });
    expect(bound.both).toBe('running · pm #3 active');
  });

  test.each([
    ['/run complete pm', 'AGENT_NO_AVAILABLE_TASK'],
    ['/run pause pm', 'AGENT_NOT_RUNNING'],
    ['/run resume pm', 'AGENT_NOT_RUNNING'],
    ['/run abort pm', 'AGENT_NOT_RUNNING'],
  ])('%s is refused with the code of its reason when no run is active', async (line, code) => {
    const { bound, type } = await atWork();
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    const answer = await type(line);
    expect([answer.ok, answer.text.split(':')[0]]).toEqual([false, code]);
  });

  test('continue is refused while a request is open', async () => {
    const { bound, type } = await atWork();
    await bound.requests('a');
    expect((await type('/run continue')).text).toContain('APPROVAL_OPEN');
    expect(bound.both).toBe('paused approval_required · pm #1 approval');
  });

  test('reports who decided a closed request', async () => {
    const { commands } = await atWork();
    expect(commands.answered(HALL, { question: 1 })).toBe('That request is closed: already allowed by Bob.');
    expect(commands.answered(HALL, { question: 2 })).toBeNull();
  });
});
