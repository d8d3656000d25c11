import { afterEach, describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import { runOnFloor } from '../../../src/work/runs/floor-binding.ts';
import { CHANNEL, openStage, played, until } from './stage.ts';
import type { Answers, StageOptions } from './stage.ts';

let stage: Awaited<ReturnType<typeof openStage>> | null = null;

afterEach(async () => {
  await stage?.stop();
  stage = null;
});

async function open(options: StageOptions) {
  stage = await openStage(options);
  return stage;
}

/** An agent that records its prompts and answers each turn with the next text. `during`: called in each turn. */
function noting(texts: readonly string[], during: (turn: number) => unknown = () => undefined) {
  const prompts: string[] = [];
  const answers: Answers = async ({ text }) => {
    prompts.push(text);
    await during(prompts.length);
    return texts[Math.min(prompts.length, texts.length) - 1] ?? '';
  };
  return { prompts, answers };
}

describe("a person's message in a review", () => {
  test('goes to the agent that works next, or to the agent that it names, and the review goes on', async () => {
    const qa = noting(['[major] One\nREVISE', '[major] One\nREVISE', 'PASS']);
    const dev = noting(['One.', 'Two.\nF1: fixed', 'Three.\nF1: fixed'], async (turn) => {
      if (turn === 1) await room.write('Mind the umlauts.');
      if (turn === 2) await room.write('@dev use tabs.');
    });
    const room = await open({
      agents: { dev: dev.answers, qa: qa.answers },
      turnConfig: { humanInterruptMode: 'queue' },
    });
    await room.command('/review start dev qa write it');
    expect((await room.over()).outcome?.kind).toBe('passed');
    const with_ = (prompts: readonly string[], words: string) => prompts.findIndex((each) => each.includes(words));
    expect([with_(qa.prompts, 'Mind the umlauts.'), with_(dev.prompts, '@dev use tabs.')]).toEqual([0, 2]);
    expect(room.review.iteration).toBe(3);
  });

  test('to an agent outside the review gives this agent a turn, which does not count in the review', async () => {
    const pm = noting(['I am here.\nPASS']);
    const dev = noting(['One.'], () => room.write('@pm are you there?'));
    const room = await open({
      agents: { dev: dev.answers, qa: noting(['PASS']).answers, pm: pm.answers },
      turnConfig: { humanInterruptMode: 'queue' },
    });
    await room.command('/review start dev qa write it');
    const review = await room.over();
    await until(() => room.posts.includes('pm: I am here.\nPASS'));
    expect([review.outcome?.kind, review.iteration, review.usage.turns]).toEqual(['passed', 1, 2]);
    expect(pm.prompts).toHaveLength(1);
  });
});

describe('the floor of a review', () => {
  test('grants turns to its two agents only, also beyond maxTurns and rounds, and ignores mentions of other agents', async () => {
    const pm = noting(['I was called.']);
    const dev = noting(['One. @pm', 'Two.\nF1: fixed', 'Three.\nF1: fixed']);
    const qa = noting(['[major] One\nREVISE', '[major] One\nREVISE', 'PASS']);
    const room = await open({
      agents: { dev: dev.answers, qa: qa.answers, pm: pm.answers },
      turnConfig: { maxTurns: 2, rounds: 1 },
    });
    await room.command('/review start dev qa write it');
    expect([(await room.over()).outcome?.kind, room.review.usage.turns, pm.prompts]).toEqual(['passed', 6, []]);
    for (const prompt of [dev.prompts[0], qa.prompts[0]]) {
      expect(prompt).toContain('A review chooses who is next, so naming another agent calls nobody.');
      expect(prompt).toContain('pass: your whole answer is the one word SKIP.');
    }
  });

  test('lets a budget pause the review, which goes on when a person resumes the floor', async () => {
    const dev: Answers = (_turn, _tools, report) => {
      const of = { backend: 'fake', model: null, input: 600, output: 0, cached: null, ms: 1 } as const;
      const use = { ...of, source: 'reported', outcome: 'answered' } as const;
      report.usage({ tokens: 600, costMicros: 1_500, use });
      return 'One.';
    };
    const room = await open({
      agents: { dev, qa: noting(['PASS']).answers },
      channel: { budgets: { exchange: { tokens: 500 } } },
    });
    await room.command('/review start dev qa write it');
    await until(() => room.review.waiting?.for === 'budget');
    expect(room.review).toMatchObject({ status: 'reviewing', iteration: 1, outcome: null });
    expect(await room.command('/review status')).toMatchObject({
      text: expect.stringContaining('waits: the limit of'),
    });
    await room.command('/floor resume');
    expect([(await room.over()).outcome?.kind, room.review.iteration]).toEqual(['passed', 1]);
    expect(room.posts.at(-1)).toMatch(
      /^Conch: ✅ Review passed after 1 iteration, \S+ minutes, 600 tokens, \$0.0015\n/,
    );
  });

  test('makes each turn in which a tool is used a run with the id of the review as its task', async () => {
    const dev: Answers = async (_turn, _tools, report) => {
      const call = { id: 'd1', tool: 'Read', input: {}, definition: null, repeatable: true, detail: '', caution: null };
      await report.gate.step({ text: '', checkpoint: null });
      const { verdict } = await report.gate.ask(call, new AbortController().signal);
      const outcome = { status: 'complete', output: '', code: null, durationMs: 1 } as const;
      if (verdict === 'go') await report.gate.settled(call, outcome);
      return 'One.';
    };
    const room = await open({ agents: { dev, qa: noting(['PASS']).answers }, tools: { allow: ['Read'] } });
    await room.command('/review start dev qa write it');
    await room.over();
    const tasks = [...room.store.journals(runOnFloor)].flatMap(([, facts]) =>
      [...facts].flatMap(({ fact }) => (fact.type === 'runStarted' ? [fact.task] : [])),
    );
    expect(tasks).toEqual([room.review.id]);
  });

  test.each([
    ['another agent', 'ask', { agent: 'pm', question: 'Tabs or spaces?' }],
    ['people', 'wait_for', { question: 'Tabs or spaces?' }],
  ] as const)('lets an agent of the review ask %s and answer within the same iteration', async (_whom, tool, input) => {
    const prompts: string[] = [];
    const dev: Answers = ({ text }, tools) => {
      prompts.push(text);
      return prompts.length === 1 ? tools.apply(tool, input) : 'One, with tabs.';
    };
    const room = await open({
      agents: { dev, qa: noting(['PASS']).answers, pm: noting(['Tabs, please.']).answers },
    });
    await room.command('/review start dev qa write it');
    await until(() => room.posts.some((post) => post.includes('Tabs or spaces?')));
    if (tool === 'wait_for') {
      await until(() => room.store.floors.state(CHANNEL)?.seats.some(({ status }) => status === 'WAITING') === true);
      await room.write('Tabs, please.');
    }
    const review = await room.over();
    expect([review.outcome?.kind, review.iteration, review.usage.turns]).toEqual(['passed', 1, 2]);
    expect(prompts.at(-1)).toContain('Tabs, please.');
    expect(room.posts.indexOf('dev: One, with tabs.')).toBeLessThan(room.posts.indexOf('qa: PASS'));
  });

  test('tells what the reviewer asked for last when the review reaches its limit', async () => {
    const room = await open({ agents: { dev: noting(['One.']).answers, qa: noting(['Add tests.\nREVISE']).answers } });
    await room.command('/review start dev qa 1 write it');
    expect((await room.over()).outcome?.kind).toBe('limit');
    const reports = room.posts.filter((post) => post.startsWith('Conch: ⏹ Review reached its limit'));
    expect(reports).toEqual([expect.stringContaining('qa asked last: Add tests.')]);
  });

  test.each([
    ['m1', 'm1', ' · both use openai-compatible m1'],
    ['m1', 'm2', ''],
  ])('says on the card when both agents use one model: %s, %s', async (first, second, words) => {
    const room = await open({
      agents: { dev: noting(['One.']).answers, qa: noting(['PASS']).answers },
      configured: (id) => ({
        kind: 'llm',
        provider: 'openai-compatible',
        baseUrl: 'http://127.0.0.1:1/v1',
        model: id === 'dev' ? first : second,
      }),
    });
    await room.command('/review start dev qa write it');
    await room.over();
    expect(await room.command('/review status')).toMatchObject({
      text: expect.stringContaining(`🔁 1 of 10 · passed: ${words}\n`),
    });
    // The work of a model without tools is its text, even when Conch was started in a repository.
    expect(room.review.work?.tree).toMatch(/^text:/);
  });

  test('logs a signal that only the other role may give, and reads it as text', async () => {
    const logged: string[] = [];
    const room = await open({
      agents: { dev: noting(['One.\nPASS', 'Two.\nPASS']).answers, qa: noting(['REVISE', 'Good.\nPASS']).answers },
      logged: (line) => logged.push(line),
    });
    await room.command('/review start dev qa write it');
    expect([(await room.over()).outcome?.why, room.review.iteration]).toEqual(['Good.', 2]);
    const lines = logged.filter((line) => line.includes('a signal of another role was read as text'));
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      expect.objectContaining({ level: 'info', channel: CHANNEL, agent: 'dev', signal: 'PASS' }),
      expect.objectContaining({ agent: 'dev', signal: 'PASS' }),
    ]);
  });

  test('reads a verdict that stands before the turn signal', async () => {
    const room = await open({
      agents: { dev: noting(['One.']).answers, qa: noting(['Good.\nPASS\nTURN_COMPLETE']).answers },
      turnConfig: { turnCompleteSignal: 'TURN_COMPLETE' },
    });
    await room.command('/review start dev qa write it');
    expect([(await room.over()).outcome?.why, room.review.iteration]).toEqual(['Good.', 1]);
  });
});

describe('a review that cannot work', () => {
  test('fails and names the agent that cannot be started, and why', async () => {
    const answers = { dev: noting(['One.']).answers, qa: noting(['PASS']).answers };
    const room = await open({
      agents: answers,
      turnConfig: { waitTimeoutSeconds: 1 },
      backendFor: (id) => {
        const backend = played(id, answers[id as 'dev' | 'qa']);
        const failing = () => Promise.reject(new BackendError('no such program: reviewer'));
        return id === 'qa' ? { ...backend, open: failing } : backend;
      },
      allSeated: false,
    });
    await room.command('/review start dev qa write it');
    const { outcome, iteration } = await room.over();
    expect([outcome?.kind, iteration, outcome?.why]).toEqual([
      'failed',
      0,
      expect.stringMatching(/^qa: .*no such program: reviewer/),
    ]);
    expect(room.posts.filter((post) => post.includes('Review failed'))).toHaveLength(1);
    expect(room.posts.filter((post) => post.includes('🔁'))).toEqual([]);
  });

  test('keeps the first 100,000 characters of a task of 1 MB', async () => {
    const room = await open({
      agents: { dev: noting(['One.']).answers, qa: noting(['PASS']).answers },
      channel: { order: 'review', review: { primary: 'dev', reviewer: 'qa' } },
    });
    await room.write(`Write it ${'x'.repeat(1_000_000)}`);
    expect((await room.over()).outcome?.kind).toBe('passed');
    expect([room.review.task.length, room.review.task.slice(0, 10)]).toEqual([100_000, 'Write it x']);
  });

  test('refuses impossible commands with the next step, and leaves the open review unchanged', async () => {
    const room = await open({
      agents: { dev: () => new Promise<string>(() => {}), qa: noting(['PASS']).answers },
      channel: { agents: ['dev', 'qa'] },
    });
    const said = async (line: string) => (await room.command(line)).text;
    expect(await said('/review start dev dev write it')).toBe('One agent cannot review its own work. Name two agents.');
    expect(await said('/review accept')).toBe('No review is open here. To start one: /review start.');
    await room.command('/review start dev qa write it');
    await until(() => room.review.turn?.epoch !== null);
    const before = room.review;
    expect(await said('/review start qa dev other')).toBe(
      'A review is open here. To see it: /review status. To end it: /review cancel.',
    );
    expect(await said('/review uphold')).toContain('The review does not wait for a decision');
    expect(await said('/review more 100')).toBe('A review has at most 100 iterations.');
    expect(room.review).toEqual(before);
    expect(room.store.floors.state(CHANNEL)?.task?.id).toBe(before.id);
    await room.command('/review cancel enough');
    expect(room.review.outcome).toMatchObject({ kind: 'cancelled', why: 'enough' });
    expect(await said('/review accept')).toBe(
      'The last review here is over. To start one: /review start. (InvalidTransition: failed to complete)',
    );
  });
});
