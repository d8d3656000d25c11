import assert from 'node:assert/strict';
import { describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import type { Ending, InjectOutcome, Report } from '../../../src/agents/backends/backend.ts';
import { CHANNEL, bench, holding } from '../bench.ts';
import { gateThat, person, spoken } from '../backends/conversation.ts';
import type { Time } from '../time.ts';

const LOST = { code: 'AGENT_EXECUTION_ERROR', recoverable: true };
const CONFIRMED = { state: 'confirmed', platformId: null };

describe('an agent that starts', () => {
  test('joins each of its channels once its session is open', async () => {
    const { floors } = await bench();
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
  });

  test("tells its floor that a server's tools are unavailable, and later available", async () => {
    const { floors, sessions } = await bench();
    sessions[0]?.seat?.tellTools?.('github', 'exited with code 3');
    sessions[0]?.seat?.tellTools?.('github', null);
    await expect
      .poll(() => floors.told.slice(1))
      .toEqual([
        { type: 'tellTools', agent: 'dev', server: 'github', why: 'exited with code 3' },
        { type: 'tellTools', agent: 'dev', server: 'github', why: null },
      ]);
  });

  test('does not join while its backend fails to open; it is retried after 2, 4, 8 and 16 s', async () => {
    const { time, floors, failures, sessions, logged, supervisor } = await bench({
      failures: Array.from({ length: 4 }, () => new BackendError('connection refused')),
    });
    expect(supervisor.list()[0]?.state).toBe('CoolingDown (pausing after an error, then tried again)');
    const left: number[] = [];
    for (const ms of [2_000, 4_000, 8_000, 16_000]) {
      await time.advance(ms - 1);
      left.push(failures.length);
      await time.advance(1);
      left.push(failures.length);
    }
    expect(left).toEqual([3, 2, 2, 1, 1, 0, 0, 0]);
    expect(sessions).toHaveLength(1);
    expect(floors.told).toEqual([{ type: 'join', agent: 'dev' }]);
    expect(logged.filter((line) => line === 'warn: agent session failed connection refused')).toHaveLength(4);
  });

  test('is stopped after five failures in a row, and reports it once', async () => {
    const { time, logged, supervisor } = await bench({
      failures: Array.from({ length: 9 }, () => new BackendError('connection refused')),
    });
    await time.advance(600_000);
    expect(logged.filter((line) => line.startsWith('error'))).toEqual(['error: agent stopped connection refused']);
    expect(supervisor.status('dev')?.[1]).toContain('Stopped (until /agent restart): 5 errors in a row');
  });

  test('is stopped after the number of failures that its channel allows', async () => {
    const { time, failures, supervisor } = await bench({
      failures: Array.from({ length: 9 }, () => new BackendError('connection refused')),
      thresholds: { maxConsecutiveErrors: 3, maxTotalErrors: 20 },
    });
    await time.advance(600_000);
    expect(failures).toHaveLength(6);
    expect(supervisor.status('dev')?.[1]).toContain('Stopped (until /agent restart): 3 errors in a row');
  });

  test('is stopped at once by a terminal error', async () => {
    const { time, failures, supervisor } = await bench({
      failures: [new BackendError('no such key', { terminal: true }), new BackendError('never tried')],
    });
    await time.advance(600_000);
    expect(failures).toHaveLength(1);
    expect(supervisor.list()[0]?.state).toBe('Stopped (until /agent restart)');
  });
});

describe('a prompt', () => {
  test('is confirmed when it is passed to the session, not when it is answered', async () => {
    const { prompt, session, supervisor } = await bench();
    expect(await prompt(1)).toEqual(CONFIRMED);
    expect(session().calls).toEqual(['prompt #1 grant']);
    expect(supervisor.list()[0]?.state).toBe('Spawning (beginning its turn)');
  });

  test('has the lines, the messages, the roster and the text', async () => {
    const { prompt, session, floors } = await bench();
    floors.lines = [person(1, 'too old'), person(2, 'Build a clock'), spoken(3, 'pm', 'spec'), person(4, 'too new')];
    floors.view = holding('dev', 1);
    await prompt(1, { uptoLine: 1 });
    floors.view = holding('dev', 2);
    session().ends({ how: 'completed' });
    await prompt(2, { afterLine: 1, uptoLine: 3, messages: ['m2'] });
    const { turn } = session();
    expect(turn?.lines.map(({ line }) => line)).toEqual([2, 3]);
    expect(turn?.messages.map(({ text }) => text)).toEqual(['Build a clock']);
    expect(turn?.roster).toEqual([{ id: 'dev', name: 'Developer', status: 'ACTIVE', description: 'writes code' }]);
    expect(turn?.text).toContain(
      '[from Anna (u1), to answer now]\nBuild a clock\n[from pm (pm)]\nspec\n=== end b0a1f7c2',
    );
  });

  test('of a session that was never prompted has the lines that an earlier session received, too', async () => {
    const { prompt, session, floors } = await bench();
    floors.lines = [person(1, 'Build a clock'), spoken(2, 'dev', 'half of it'), person(3, 'go on')];
    floors.view = holding('dev', 7);
    await prompt(7, { reason: 'resume', afterLine: 2, uptoLine: 3 });
    expect(session().turn?.lines.map(({ line }) => line)).toEqual([1, 2, 3]);
  });

  test("of a resumed turn has the agent's text of that turn, from the floor's record", async () => {
    const { prompt, session, floors } = await bench();
    floors.view = { ...holding('dev', 3), holder: { ...holding('dev', 3).holder!, startedAt: 100 } };
    floors.lines = [
      { ...spoken(1, 'dev', 'an older turn'), at: 99 },
      { ...spoken(2, 'dev', 'first half'), at: 100 },
      { ...spoken(3, 'pm', 'not mine'), at: 101 },
    ];
    await prompt(3, { reason: 'resume', afterLine: 2, uptoLine: 3 });
    expect(session().turn?.saidSoFar).toEqual(['first half']);
  });

  test('that is delivered twice reaches the session once', async () => {
    const { prompt, session } = await bench();
    await prompt(1, {}, 'same');
    session().ends({ how: 'completed' });
    expect(await prompt(1, {}, 'same')).toEqual(CONFIRMED);
    expect(session().calls).toEqual(['prompt #1 grant']);
  });

  test('for a turn that has ended is dropped', async () => {
    const { prompt, session, floors } = await bench();
    floors.view = holding('pm', 2);
    expect(await prompt(1)).toEqual(CONFIRMED);
    expect(session().calls).toEqual([]);
  });

  test('after the interrupt of its own epoch is dropped', async () => {
    const { prompt, interrupt, session } = await bench();
    await interrupt(4);
    await prompt(4);
    expect(session().calls).toEqual([]);
    await prompt(5);
    expect(session().calls).toEqual(['prompt #5 grant']);
  });

  test("during the agent's cool-down is retried a second later", async () => {
    const { prompt, time } = await bench({ failures: [new Error('no')] });
    expect(await prompt(1)).toEqual({ state: 'retry', notBefore: time.clock.now() + 1_000 });
  });

  test('or another effect for an unknown agent fails', async () => {
    const { deliver, prompt } = await bench();
    expect(await prompt(1, { agent: 'ops' })).toMatchObject({ state: 'failed' });
    expect(await deliver({ type: 'observe', agent: 'ops', message: 'm1' })).toMatchObject({ state: 'failed' });
  });

  test('stops the running generation of an older turn', async () => {
    const { prompt, session } = await bench();
    await prompt(1);
    await prompt(2);
    expect(session().calls).toEqual(['prompt #1 grant', 'interrupt 5000', 'prompt #2 grant']);
  });
});

describe('a turn', () => {
  test('streams a draft, and posts the whole text at its end', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    session().report?.text('Hello ');
    session().report?.text('world @pm\n');
    expect(floors.drafts).toEqual(['Hello', 'Hello world @pm']);
    session().ends({ how: 'completed', handTo: 'qa' });
    await time.settle();
    expect(floors.told.slice(1)).toEqual([
      { type: 'work', agent: 'dev', epoch: 1, open: 0 },
      { type: 'say', agent: 'dev', epoch: 1, text: 'Hello world @pm', mentions: [], workedAt: time.clock.now() },
      { type: 'end', agent: 'dev', epoch: 1, outcome: 'completed', signalled: true, handTo: 'qa' },
    ]);
    expect(floors.drafts.at(-1)).toBeNull();
  });

  test('posts one message for each flush', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    session().report?.text('one');
    session().report?.flush();
    session().report?.flush();
    session().report?.text('two');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(floors.told.flatMap((command) => (command.type === 'say' ? [command.text] : []))).toEqual(['one', 'two']);
  });

  test('names the seated agents that its text mentions, never itself', async () => {
    const { prompt, session, floors, time } = await bench();
    floors.view = {
      ...holding('dev', 1),
      seats: ['dev', 'qa'].flatMap((agent) => holding(agent, 1).seats),
    };
    await prompt(1);
    session().report?.text('@dev here. @qa please');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(floors.told).toContainEqual(expect.objectContaining({ type: 'say', mentions: ['qa'] }));
  });

  test('without text completes and posts nothing', async () => {
    const { prompt, session, types, time } = await bench();
    await prompt(1);
    session().report?.text(' \n');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'end']);
  });

  test('that passes posts nothing', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    session().report?.text('I have nothing to add.');
    session().ends({ how: 'passed' });
    await time.settle();
    expect(floors.told.at(-1)).toEqual({ type: 'end', agent: 'dev', epoch: 1, outcome: 'passed', signalled: true });
    expect(floors.told.some(({ type }) => type === 'say')).toBe(false);
  });

  test('that asks a question waits for the answer', async () => {
    const { prompt, session, types, floors, time } = await bench();
    await prompt(1);
    session().report?.text('Postgres or SQLite?');
    session().ends({ how: 'waiting', reason: 'answer' });
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'say', 'wait']);
    expect(floors.told.at(-1)).toMatchObject({ reason: 'answer' });
  });

  test('T15 that ends with a question to another agent waits for its answer', async () => {
    const { prompt, session, types, floors, time } = await bench();
    floors.view = { ...holding('dev', 1), seats: ['dev', 'qa', 'pm'].flatMap((agent) => holding(agent, 1).seats) };
    await prompt(1);
    session().report?.text('It is built. @qa, does it pass?');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'say', 'wait']);
    expect(floors.told.at(-1)).toMatchObject({ type: 'wait', reason: 'answer', of: 'qa' });
  });

  test('T15 that hands over asks no question', async () => {
    const { prompt, session, floors, time } = await bench();
    floors.view = { ...holding('dev', 1), seats: ['dev', 'qa', 'pm'].flatMap((agent) => holding(agent, 1).seats) };
    await prompt(1);
    session().report?.text('@qa, does it pass?');
    session().ends({ how: 'completed', handTo: 'pm' });
    await time.settle();
    expect(floors.told.at(-1)).toMatchObject({ type: 'end', handTo: 'pm' });
  });

  test('T15 that asks an agent who cannot answer completes its turn', async () => {
    const { prompt, session, floors, time } = await bench();
    floors.view = { ...holding('dev', 1), seats: ['dev', 'qa', 'pm'].flatMap((agent) => holding(agent, 1).seats) };
    await prompt(1);
    floors.refuse = ({ type }) => type === 'wait';
    session().report?.text('@qa, does it pass?');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(floors.told.at(-1)).toMatchObject({ type: 'end', outcome: 'completed' });
  });

  test('reports a sign of work at most once a second, and every change of open work at once', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    const { report } = session();
    for (let tenth = 0; tenth < 21; tenth++) {
      report?.text('x');
      await time.advance(100);
    }
    report?.work(1);
    report?.work(0);
    await time.settle();
    const work = floors.told.flatMap((command) => (command.type === 'work' ? [command.open] : []));
    expect(work).toEqual([0, 0, 0, 1, 0]);
  });

  test('reports every sign of work without text, at the latest after a tenth of its time limit', async () => {
    for (const [limitMs, gapMs] of [
      [60_000, 1_000],
      [1_000, 100],
    ] as const) {
      const { prompt, session, floors, time } = await bench();
      const view = holding('dev', 1);
      const deadlineAt = time.clock.now() + limitMs;
      floors.view = { ...view, holder: view.holder && { ...view.holder, deadlineAt } };
      await prompt(1);
      const from = time.clock.now();
      const told: number[] = [];
      const seen = (): void => {
        if (floors.told.filter(({ type }) => type === 'work').length > told.length) told.push(time.clock.now() - from);
      };
      session().report?.work(0);
      await time.settle();
      seen();
      for (const lateMs of [gapMs * 0.9, gapMs, gapMs * 0.3]) {
        await time.advance(lateMs);
        seen();
        session().report?.work(0);
        await time.settle();
        seen();
      }
      await time.advance(gapMs);
      seen();
      await time.advance(10 * gapMs);
      expect(floors.told.filter(({ type }) => type === 'work')).toHaveLength(told.length);
      expect(told).toEqual([0, gapMs * 1.9, gapMs * 3.2]);
    }
  });

  test('records its usage', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    const use = {
      backend: 'fake',
      model: 'm-1',
      input: 10,
      output: 2,
      cached: null,
      source: 'computed',
      ms: 5,
    } as const;
    session().report?.usage({ tokens: 12, costMicros: 3, use: { ...use, outcome: 'answered' } });
    session().report?.text('PASS');
    session().report?.usage({ tokens: 12, costMicros: 3, use: { ...use, outcome: 'answered' } });
    await time.settle();
    const spent = { type: 'spend', agent: 'dev', epoch: 1, tokens: 12, costMicros: 3 };
    expect(floors.told).toContainEqual({ ...spent, use: { ...use, outcome: 'answered' } });
    expect(floors.told).toContainEqual({ ...spent, use: { ...use, outcome: 'passed' } });
  });

  test('posts its message when no text follows for 5 s', async () => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    session().report?.text('one ');
    await time.advance(4_000);
    session().report?.text('two');
    await time.advance(4_999);
    expect(floors.told.some(({ type }) => type === 'say')).toBe(false);
    await time.advance(1);
    const workedAt = time.clock.now() - 5_000;
    expect(floors.told).toContainEqual(expect.objectContaining({ type: 'say', text: 'one two', workedAt }));
  });

  test('hands out its unposted text once, with an open code block closed', async () => {
    const { prompt, session, supervisor, floors, time } = await bench();
    await prompt(1);
    session().report?.text('See:\n```ts\nconst a =');
    const draft = {
      agent: 'dev',
      epoch: 1,
      text: 'See:\n```ts\nconst a =\n```',
      mentions: [],
      workedAt: time.clock.now(),
    };
    expect(supervisor.takeDraft(CHANNEL)).toEqual(draft);
    expect(supervisor.takeDraft(CHANNEL)).toBeNull();
    expect(floors.drafts.at(-1)).toBeNull();
    session().ends({ how: 'completed' });
    await time.settle();
    expect(floors.told.some(({ type }) => type === 'say')).toBe(false);
  });

  test.each([
    ['See:\n```ts', 'See:'],
    ['See:\n\n~~~ \n', 'See:'],
    ['```\na\n```\nand\n```', '```\na\n```\nand'],
  ])('T10 hands out no empty code block after %j', async (written, said) => {
    const { prompt, session, supervisor } = await bench();
    await prompt(1);
    session().report?.text(written);
    expect(supervisor.takeDraft(CHANNEL)?.text).toBe(said);
  });

  test('T10 posts nothing when it has only an empty code block', async () => {
    const { prompt, session, supervisor } = await bench();
    await prompt(1);
    session().report?.text('```ts\n');
    expect(supervisor.takeDraft(CHANNEL)).toBeNull();
  });

  test('raises the session number by one with each generation', async () => {
    const { prompt, session, supervisor, time } = await bench();
    for (const epoch of [1, 2]) {
      await prompt(epoch);
      session().ends({ how: 'completed' });
      await time.settle();
    }
    expect(supervisor.status('dev')?.[1]).toBe(
      'console:demo: BuildingPrompt (ready), session 3, 0 errors in a row, 0 in all',
    );
  });

  test('drops commands that the floor refuses, and continues', async () => {
    const { prompt, session, floors, types, time } = await bench();
    floors.refuse = ({ type }) => type === 'say';
    await prompt(1);
    session().report?.text('too late');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'end']);
  });

  test('has its commands delivered in order once the floor can be written', async () => {
    const { prompt, session, floors, types, time } = await bench();
    await prompt(1);
    floors.broken = 1;
    session().report?.text('important');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(types()).toEqual(['join']);
    await time.advance(10_000);
    expect(types()).toEqual(['join', 'work', 'say', 'end']);
  });

  test('whose message could not be written at all is followed by a prompt that says the answer was cut', async () => {
    const { prompt, session, floors, time } = await bench();
    session().history = 'own';
    await prompt(1);
    floors.broken = Infinity;
    session().report?.text('important');
    session().ends({ how: 'completed' });
    await time.advance(7_200_000);
    floors.broken = 0;
    await prompt(2);
    expect(session().turn?.text).toContain('Your last answer was cut off: nothing more of it was posted.');
  });
});

describe('T16 a pass word', () => {
  test('is not posted, however long the agent is silent after it', async () => {
    const { prompt, session, supervisor, floors, time, types } = await bench();
    await prompt(1);
    session().report?.text('[PA');
    session().report?.text('SS]');
    await time.advance(20_000);
    expect([supervisor.takeDraft('console:demo'), floors.drafts]).toEqual([null, []]);
    session().ends(COMPLETED);
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'end']);
    expect(floors.told.at(-1)).toMatchObject({ type: 'end', outcome: 'passed' });
  });

  test('is shown as soon as more text follows', async () => {
    const { prompt, session, floors } = await bench();
    await prompt(1);
    session().report?.text('Pass');
    session().report?.text(' me the salt');
    expect(floors.drafts.at(-1)).toContain('Pass me the salt');
  });
});

/** Runs one turn of dev on a floor that also seats qa. Returns the posts, the end, the drafts and the prompt. */
async function performed(
  needsSignal: boolean,
  act: (report: Report, time: Time) => unknown,
  ending: Ending = COMPLETED,
) {
  const { prompt, session, floors, time } = await bench({ needsSignal });
  floors.view = { ...holding('dev', 1), seats: ['dev', 'qa'].flatMap((agent) => holding(agent, 1).seats) };
  await prompt(1);
  await act(session().report!, time);
  session().ends(ending);
  await time.settle();
  const said = floors.told.flatMap((command) => (command.type === 'say' ? [command.text] : []));
  const end = floors.told.find(({ type }) => type === 'end' || type === 'wait');
  return { said, end, drafts: floors.drafts, prompted: session().turn?.text ?? '' };
}

const COMPLETED: Ending = { how: 'completed' };
const END = { type: 'end', agent: 'dev', epoch: 1 } as const;
const SIGNALLED = { ...END, outcome: 'completed', signalled: true } as const;

describe.each([
  ['that needs the signal', true],
  ['with an end of its own', false],
])('T14 an output of a backend %s', (_, needsSignal) => {
  const written = (...chunks: readonly string[]) =>
    performed(needsSignal, (report) => chunks.forEach((chunk) => report.text(chunk)));

  test('that ends with the signal never shows it, wherever the stream is split', async () => {
    const text = 'It is done.\n\n TURN_COMPLETE @qa\n';
    const cuts = Array.from(text, (_letter, at) => [text.slice(0, at), text.slice(at)]);
    for (const chunks of [...cuts, Array.from(text)]) {
      const { said, end, drafts } = await written(...chunks);
      assert.deepEqual({ said, end }, { said: ['It is done.'], end: { ...SIGNALLED, handTo: 'qa' } });
      assert.equal(
        drafts.findLast((draft) => draft !== null),
        'It is done.',
      );
      assert(drafts.every((draft) => draft === null || 'It is done.'.startsWith(draft)));
    }
  });

  test.each([
    'So:\n```\nTURN_COMPLETE\n```',
    '> TURN_COMPLETE @qa',
    'End with `TURN_COMPLETE`',
    'done. turn_complete',
    'I say TURN_COMPLETE at the end.',
  ])('that has the signal elsewhere shows it: %j', async (text) => {
    const { said, end } = await written(...Array.from(text));
    expect(said).toEqual([text]);
    expect(end).toEqual({ ...SIGNALLED, signalled: !needsSignal });
  });

  test.each(['TURN_COMPLETE', '\n TURN_COMPLETE \n', 'TURN_COMPLETE @nobody', 'TURN_COMPLETE @dev TURN_COMPLETE'])(
    'of only the signal, without another seated agent, is a pass: %j',
    async (text) => {
      const { said, end } = await written(text);
      expect({ said, end }).toEqual({ said: [], end: { ...SIGNALLED, outcome: 'passed' } });
    },
  );

  test('of only the signal and a seated agent hands over', async () => {
    const { said, end } = await written('TURN_COMPLETE @QA');
    expect({ said, end }).toEqual({ said: [], end: { ...SIGNALLED, handTo: 'qa' } });
  });

  test('in several messages ends with the last one; earlier signals are not shown and do not count', async () => {
    const { said, end } = await performed(needsSignal, (report) => {
      report.text('I look. TURN_COMPLETE @qa');
      report.flush();
      report.text('It is fine.');
      report.flush();
    });
    expect({ said, end }).toEqual({ said: ['I look.', 'It is fine.'], end: { ...SIGNALLED, signalled: !needsSignal } });
  });

  test("in several messages keeps the last one's signal when only white space follows", async () => {
    const { said, end } = await performed(needsSignal, (report) => {
      report.text('It is fine. TURN_COMPLETE @qa');
      report.flush();
      report.text('\n');
    });
    expect({ said, end }).toEqual({ said: ['It is fine.'], end: { ...SIGNALLED, handTo: 'qa' } });
  });

  test('that starts a step after the signal is posted without the signal', async () => {
    const { said, end } = await performed(needsSignal, (report, time) => {
      report.text('I clean up. TURN_COMPLETE');
      void report.gate.step({ text: '', checkpoint: null });
      return time.settle();
    });
    expect({ said, end }).toEqual({ said: ['I clean up.'], end: SIGNALLED });
  });

  test('that continues after a silence shows no part of its final signal', async () => {
    const { said, end } = await performed(needsSignal, async (report, time) => {
      report.text('It is done.\nTURN_');
      await time.advance(6_000);
      report.text('COMPLETE');
      await time.advance(6_000);
    });
    expect({ said, end }).toEqual({ said: ['It is done.'], end: SIGNALLED });
  });

  test('with a hand-over by tool hands over to the agent of the tool', async () => {
    const { end } = await performed(needsSignal, (report) => report.text('Please check. TURN_COMPLETE @dev'), {
      how: 'completed',
      handTo: 'qa',
    });
    expect(end).toEqual({ ...SIGNALLED, handTo: 'qa' });
  });

  test('that ends with a question waits, and shows no signal', async () => {
    const act = (report: Report) => report.text('Which colour? TURN_COMPLETE');
    const { said, end } = await performed(needsSignal, act, { how: 'waiting', reason: 'answer' });
    expect(said).toEqual(['Which colour?']);
    expect(end).toEqual({ type: 'wait', agent: 'dev', epoch: 1, reason: 'answer' });
  });
});

describe('an agent with several requests at once', () => {
  test('reports an operation that begins during a decision with its limit', async () => {
    const decided = Promise.withResolvers<'go'>();
    const gate = { ...gateThat(() => 'allow'), step: () => decided.promise };
    const { prompt, session, floors, time } = await bench({ gate });
    await prompt(1);
    const { report } = session();
    void report?.gate.step({ text: '', checkpoint: null });
    await time.settle();
    report?.work(1, 'host', 60_000);
    decided.resolve('go');
    await time.settle();
    expect(floors.told.at(-1)).toMatchObject({ type: 'work', open: 1, limitMs: 60_000 });
  });

  test('separates texts that wait for the decisions by a blank line', async () => {
    const decided = Promise.withResolvers<'go'>();
    const gate = { ...gateThat(() => 'allow'), step: () => decided.promise };
    const { prompt, session, floors, time } = await bench({ gate });
    await prompt(1);
    const { report } = session();
    assert(report !== null);
    for (const text of ['I look at the file.', 'Meanwhile I check the tests.', 'Both are done.']) {
      report.text(text);
      void report.gate.step({ text: '', checkpoint: null });
      await time.settle();
    }
    decided.resolve('go');
    await time.settle();
    session().ends({ how: 'completed' });
    await time.settle();
    const said = floors.told.flatMap((command) => (command.type === 'say' ? [command.text] : []));
    expect(said).toEqual(['I look at the file.', 'Meanwhile I check the tests.\n\nBoth are done.']);
  });
});

describe('an agent whose run is paused', () => {
  /** Runs a turn whose agent writes and ends while its run is paused. `decide` lets people continue the run. */
  async function ended() {
    let standing: Promise<'go'> | null = null;
    const decided = Promise.withResolvers<'go'>();
    const gate = { ...gateThat(() => 'allow'), standing: () => standing };
    const rig = await bench({ gate });
    await rig.prompt(1);
    const { report } = rig.session();
    assert(report !== null);
    await report.gate.step({ text: '', checkpoint: null });
    standing = decided.promise;
    void report.gate.standing();
    report.text('All is well.');
    rig.session().ends({ how: 'completed' });
    await rig.time.settle();
    const decide = async () => {
      standing = null;
      decided.resolve('go');
      await rig.time.settle();
    };
    return { ...rig, decide };
  }

  test('posts its text and ends its turn only when people continue the run', async () => {
    const { types, decide } = await ended();
    expect(types()).toEqual(['join', 'work']);
    await decide();
    expect(types()).toEqual(['join', 'work', 'say', 'end']);
  });

  test('and that is interrupted ends no turn, and can be prompted again before the decision', async () => {
    const { types, interrupt, prompt, session } = await ended();
    await interrupt(1);
    await prompt(2);
    expect(session().turn?.epoch).toBe(2);
    expect(types()).not.toContain('end');
  });
});

describe('T14 the prompt', () => {
  test('demands the signal only from agents that need it', async () => {
    const prompts = await Promise.all([true, false].map((needs) => performed(needs, () => {})));
    expect(prompts.map(({ prompted }) => prompted.includes('End your turn with TURN_COMPLETE'))).toEqual([true, false]);
  });
});

describe('a message injected into a turn', () => {
  test('of a burst is injected half a second after the first message, in order, each with its own outcome', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a'), person(2, 'b')];
    await prompt(1);
    expect(await inject(1, 'm1')).toEqual(CONFIRMED);
    await time.advance(300);
    await inject(1, 'm2');
    await time.advance(199);
    expect(session().calls).toEqual(['prompt #1 grant']);
    await time.advance(1);
    expect(session().calls).toEqual(['prompt #1 grant', 'inject m1', 'inject m2']);
    expect(floors.told.slice(1)).toEqual([
      { type: 'injected', agent: 'dev', epoch: 1, id: 'm1', outcome: 'injected' },
      { type: 'injected', agent: 'dev', epoch: 1, id: 'm2', outcome: 'injected' },
    ]);
  });

  test('that is delivered twice reaches the session once', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    await inject(1, 'm1', {}, 'one');
    await inject(1, 'm1', {}, 'one');
    await inject(1, 'm1', {}, 'other');
    await time.advance(500);
    expect(session().calls.filter((call) => call === 'inject m1')).toHaveLength(1);
    expect(floors.told.filter(({ type }) => type === 'injected')).toHaveLength(1);
  });

  test('for an idle session or another epoch waits for the next prompt', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a'), person(2, 'b')];
    await inject(1, 'm1');
    await prompt(2);
    await inject(1, 'm2');
    await time.advance(500);
    expect(session().calls).toEqual(['prompt #2 grant']);
    expect(floors.told.slice(1).map((command) => 'outcome' in command && command.outcome)).toEqual([
      'next-prompt',
      'next-prompt',
    ]);
  });

  test('that is not yet injected when the generation ends is reported for the next prompt, before the end', async () => {
    const { prompt, inject, session, floors, types, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    await inject(1, 'm1');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(types()).toEqual(['join', 'injected', 'end']);
    expect(floors.told[1]).toMatchObject({ outcome: 'next-prompt' });
    expect(session().calls).toEqual(['prompt #1 grant']);
  });

  test('without an outcome 5 s after the end counts as not injected', async () => {
    const { prompt, inject, session, floors, types, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    session().injectOutcome = new Promise<InjectOutcome>(() => {});
    await inject(1, 'm1');
    await time.advance(60_000);
    session().ends({ how: 'completed' });
    await time.advance(4_999);
    expect(types()).toEqual(['join']);
    await time.advance(1);
    expect(types()).toEqual(['join', 'injected', 'end']);
    expect(floors.told[1]).toMatchObject({ outcome: 'next-prompt' });
  });

  test('that the session fails to take goes with the next prompt', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    session().injectOutcome = new Error('not now');
    await inject(1, 'm1');
    await time.advance(500);
    expect(floors.told.at(-1)).toMatchObject({ type: 'injected', outcome: 'next-prompt' });
  });

  test('T4 that is only to be observed is reported if it is injected, and passed to `observe` if it is not', async () => {
    const { prompt, inject, session, floors, types, time } = await bench();
    floors.lines = [person(1, 'a'), person(2, 'b')];
    await prompt(1);
    await inject(1, 'm1', { observed: true });
    await time.advance(500);
    session().injectOutcome = 'next-prompt';
    await inject(1, 'm2', { observed: true });
    await time.advance(500);
    expect(session().calls.slice(1)).toEqual(['inject m1 observed', 'inject m2 observed', 'observe m2']);
    expect(types()).toEqual(['join', 'injected']);
    expect(floors.told.at(-1)).toMatchObject({ id: 'm1', outcome: 'injected' });
  });

  test('reaches the session again with every edit, and with its deletion', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    await inject(1, 'm1');
    await time.advance(500);
    await inject(1, 'm1', { observed: true, change: 'edited' });
    await time.advance(500);
    await inject(1, 'm1', { observed: true, change: 'deleted' });
    await time.advance(500);
    expect(session().calls.slice(1)).toEqual(['inject m1', 'inject m1 edited observed', 'inject m1 deleted observed']);
  });

  test('T55 is dropped when it is deleted before it is injected, and the agent is not told of it', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    await inject(1, 'm1');
    await inject(1, 'm1', { observed: true, change: 'deleted' });
    await time.advance(500);
    expect(session().calls.slice(1)).toEqual([]);
  });

  test('is injected once, with its latest text, when it is edited before it is injected', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    await prompt(1);
    const read: unknown[] = [];
    session().inject = async ({ text }, observed) => {
      read.push(text, observed);
      return 'injected';
    };
    for (const [text, change] of [['Build it'], ['Build them', 'edited'], ['Build all', 'edited']] as const) {
      floors.lines = [person(1, text, { change: change ?? null })];
      await inject(1, 'm1', change === undefined ? {} : { observed: true, change });
    }
    await time.advance(500);
    expect(read).toEqual(['Build all', false]);
    expect(floors.told.slice(1)).toMatchObject([{ type: 'injected', id: 'm1', outcome: 'injected' }]);
  });

  test('of two edits after its injection is corrected once', async () => {
    const { prompt, inject, session, floors, time } = await bench();
    floors.lines = [person(1, 'a')];
    await prompt(1);
    await inject(1, 'm1');
    await time.advance(500);
    await inject(1, 'm1', { observed: true, change: 'edited' });
    await inject(1, 'm1', { observed: true, change: 'edited' });
    await time.advance(500);
    expect(session().calls.slice(1)).toEqual(['inject m1', 'inject m1 edited observed']);
  });
});

describe('an interrupt', () => {
  test('stops the generation, drops later output, and is reported when it has stopped', async () => {
    const { prompt, interrupt, session, floors, types, time, supervisor } = await bench();
    await prompt(1);
    session().report?.text('half a sen');
    session().stopsWhenInterrupted = false;
    floors.view = holding('dev', 1, 'human');
    expect(await interrupt(1)).toEqual(CONFIRMED);
    expect(supervisor.list()[0]?.state).toBe('Interrupting (being interrupted)');
    await time.advance(1_500);
    session().report?.text('tence');
    await time.settle();
    expect(types()).toEqual(['join', 'work']);
    expect(floors.drafts.at(-1)).toBeNull();
    session().ends({ how: 'interrupted' });
    await time.settle();
    expect(floors.told.at(-1)).toEqual({ type: 'interrupted', agent: 'dev', epoch: 1 });
    expect(supervisor.status('dev')?.[1]).toContain('BuildingPrompt');
    expect(types()).toEqual(['join', 'work', 'interrupted']);
  });

  test('repeated with force is passed on, and reported once', async () => {
    const { prompt, interrupt, session, types, time } = await bench();
    await prompt(1);
    session().stopsWhenInterrupted = false;
    await interrupt(1, 5_000);
    await interrupt(1, 0);
    session().ends({ how: 'interrupted' });
    await time.settle();
    expect(session().calls).toEqual(['prompt #1 grant', 'interrupt 5000', 'interrupt 0']);
    expect(types()).toEqual(['join', 'interrupted']);
    expect(time.pending()).toBe(1);
  });

  test('of an ended epoch is confirmed, and reported only if the floor waits for it', async () => {
    const { interrupt, floors, types, time } = await bench();
    floors.view = holding('dev', 3);
    expect(await interrupt(2)).toEqual(CONFIRMED);
    floors.view = holding('dev', 3, 'human');
    expect(await interrupt(3)).toEqual(CONFIRMED);
    await time.settle();
    expect(types()).toEqual(['join', 'interrupted']);
  });

  test('counts no error, even when the session fails because of it; another session is opened', async () => {
    const { prompt, interrupt, session, sessions, types, time, supervisor } = await bench();
    await prompt(1);
    session().stopsWhenInterrupted = false;
    await interrupt(1);
    session().ends(new Error('aborted'));
    await time.settle();
    expect(sessions).toHaveLength(2);
    expect(types()).toEqual(['join', 'interrupted']);
    expect(supervisor.status('dev')?.[1]).toContain('0 errors in a row, 0 in all');
  });

  test('that a session ignores closes the session after the grace; the next prompt goes to a new session', async () => {
    const { prompt, interrupt, session, sessions, time, types } = await bench();
    await prompt(1);
    session().stopsWhenInterrupted = false;
    await interrupt(1, 5_000);
    const waiting = prompt(2);
    await time.advance(5_999);
    expect(sessions).toHaveLength(1);
    await time.advance(1);
    expect(await waiting).toEqual(CONFIRMED);
    expect(sessions.map(({ calls }) => calls)).toEqual([
      ['prompt #1 grant', 'interrupt 5000', 'close'],
      ['prompt #2 grant'],
    ]);
    expect(types()).toEqual(['join', 'interrupted']);
  });
});

describe('a crash', () => {
  test('posts the shown text, leaves with its cause, and joins again after the backoff', async () => {
    const { prompt, session, sessions, floors, time } = await bench();
    await prompt(1);
    session().report?.text('I start, and then');
    session().ends(new BackendError('exited with code 137\nat line 3'));
    await time.settle();
    expect(floors.told.slice(2)).toEqual([
      {
        type: 'say',
        agent: 'dev',
        epoch: 1,
        text: 'I start, and then … (cut off)',
        mentions: [],
        workedAt: time.clock.now(),
      },
      { type: 'leave', agent: 'dev', cause: 'exited with code 137', error: LOST },
    ]);
    expect(sessions[0]?.calls.at(-1)).toBe('close');
    await time.advance(1_999);
    expect(sessions).toHaveLength(1);
    await time.advance(1);
    expect(sessions).toHaveLength(2);
    expect(floors.told.at(-1)).toEqual({ type: 'join', agent: 'dev' });
  });

  test('before the first sign of life counts in a row: the fifth stops the agent', async () => {
    const { prompt, session, sessions, time, logged, types } = await bench();
    for (let epoch = 1; epoch <= 5; epoch++) {
      await prompt(epoch);
      session().ends(new Error('exited with code 1'));
      await time.advance(60_000);
    }
    expect(sessions).toHaveLength(5);
    expect(types().filter((type) => type === 'leave')).toHaveLength(5);
    expect(logged.filter((line) => line.startsWith('error'))).toEqual(['error: agent stopped exited with code 1']);
    expect(await prompt(6)).toMatchObject({ state: 'failed' });
  });
});

describe('T60 a failure tells its floor its code, and whether another session is opened automatically', () => {
  test.each([
    ['a crash', new Error('exited with code 137'), 'AGENT_EXECUTION_ERROR', true],
    ['a service that fails', new BackendError('failed (503)', { cause: { statusCode: 503 } }), 'HTTP_503', true],
    ['a rejected key', new BackendError('rejected', { terminal: true, cause: { statusCode: 401 } }), 'HTTP_401', false],
    ['a missing program', new BackendError('no "x"', { terminal: true, cause: { code: 'ENOENT' } }), 'ENOENT', false],
  ])('%s', async (_, failure, code, recoverable) => {
    const { prompt, session, floors, time } = await bench();
    await prompt(1);
    session().ends(failure);
    await time.settle();
    const { message: cause } = failure;
    expect(floors.told.at(-1)).toEqual({ type: 'leave', agent: 'dev', cause, error: { code, recoverable } });
  });

  test('the fifth failure in a row', async () => {
    const { prompt, session, floors, time } = await bench();
    for (let epoch = 1; epoch <= 5; epoch += 1) {
      await prompt(epoch);
      session().ends(new Error('exited with code 1'));
      await time.advance(60_000);
    }
    const errors = floors.told.flatMap((command) => (command.type === 'leave' ? [command.error?.recoverable] : []));
    expect(errors).toEqual([true, true, true, true, false]);
  });
});

describe('a session under liveness checks', () => {
  test('is lost after 45 s without an answer', async () => {
    const { session, floors, time } = await bench();
    session().pings = 'silent';
    await time.advance(15_000 + 44_999);
    expect(floors.told).toHaveLength(1);
    await time.advance(1);
    expect(floors.told.slice(1)).toEqual([
      { type: 'leave', agent: 'dev', cause: 'no heartbeat for 45 s', error: LOST },
      { type: 'join', agent: 'dev' },
    ]);
  });

  test('is lost at once when its backend reports it dead', async () => {
    const { session, floors, time } = await bench();
    session().pings = new Error('socket closed');
    await time.advance(15_000);
    expect(floors.told[1]).toEqual({ type: 'leave', agent: 'dev', cause: 'socket closed', error: LOST });
  });

  test('that does not answer in a turn counts a timeout, and cools down', async () => {
    const { prompt, session, supervisor, time } = await bench();
    await prompt(1);
    session().report?.text('x');
    session().pings = 'silent';
    await time.advance(60_000);
    expect(supervisor.status('dev')?.[1]).toMatch(/CoolingDown \([^)]+\), session 1, 1 errors in a row, 1 in all/u);
  });

  test('is not lost because this program slept', async () => {
    const { session, floors, time } = await bench();
    session().pings = 'silent';
    await time.advance(45_000);
    await time.oversleep(300_000);
    await time.advance(44_000);
    expect(floors.told).toHaveLength(1);
    await time.advance(1_000);
    expect(floors.told[1]).toMatchObject({ type: 'leave' });
  });
});

describe('a facilitator', () => {
  test('is asked who is next', async () => {
    const { deliver, session, floors, time } = await bench();
    session().choice = 'qa';
    await deliver({ type: 'ask', agent: 'dev', ask: 7, candidates: ['pm', 'qa'] });
    await time.settle();
    expect(floors.told.at(-1)).toEqual({ type: 'choose', agent: 'dev', ask: 7, next: 'qa' });
  });

  test('that is not connected chooses nobody', async () => {
    const { deliver, floors, time } = await bench({ failures: [new Error('no')] });
    await deliver({ type: 'ask', agent: 'dev', ask: 7, candidates: ['pm', 'qa'] });
    await time.settle();
    expect(floors.told).toEqual([{ type: 'choose', agent: 'dev', ask: 7, next: null }]);
  });
});

describe('the session machine', () => {
  const OPENED = ['BuildingPrompt SessionOpening Spawning OpenSession', 'Spawning SessionOpened BuildingPrompt None'];

  test('treats a failed start as the end of a started session', async () => {
    const { moves, time } = await bench({ failures: [new BackendError('connection refused')] });
    expect(moves).toEqual([
      'Initializing WorktreeReady BuildingPrompt None',
      'BuildingPrompt SessionOpening Spawning OpenSession',
      'Spawning SessionExited(Error) CoolingDown None',
    ]);
    await time.advance(2_000);
    expect(moves.slice(3)).toEqual(['CoolingDown BackoffElapsed BuildingPrompt None', ...OPENED]);
  });

  test('runs a turn from its prompt until the session is ready again', async () => {
    const { moves, prompt, session, time } = await bench();
    await prompt(1);
    session().report?.text('words');
    session().ends({ how: 'completed' });
    await time.settle();
    expect(moves.slice(3)).toEqual([
      'BuildingPrompt PromptReady Spawning StorePrompt',
      'Spawning SessionStarted Running None',
      'Running SessionExited(Success) SessionComplete None',
      'SessionComplete WorktreeReady BuildingPrompt IncrementSession',
    ]);
  });

  test('interrupts a session without an earlier sign of life', async () => {
    const { moves, prompt, interrupt, session, time } = await bench();
    await prompt(1);
    await interrupt(1);
    await time.settle();
    expect(session().calls).toEqual(['prompt #1 grant', 'interrupt 5000']);
    expect(moves.slice(4)).toEqual([
      'Spawning UrgentMessage Interrupting CancelSession',
      'Interrupting SessionExited(Success) BuildingPrompt None',
    ]);
  });

  test('ends a session by force when its grace is over, and opens another', async () => {
    const { moves, prompt, interrupt, session, time } = await bench();
    await prompt(1);
    session().stopsWhenInterrupted = false;
    await interrupt(1);
    await time.advance(6_000);
    expect(moves.slice(5)).toEqual(['Interrupting GraceExceeded BuildingPrompt ForceStopSession', ...OPENED]);
  });

  test('opens another session when one is lost between two prompts', async () => {
    const { moves, session, time } = await bench();
    session().pings = new Error('socket closed');
    await time.advance(15_000);
    expect(moves.slice(3)).toEqual(['BuildingPrompt SessionExited(Error) BuildingPrompt None', ...OPENED]);
  });

  test('gets a restart by an operator, which cancels the running generation', async () => {
    const { moves, prompt, session, sessions, supervisor } = await bench();
    await prompt(1);
    session().report?.text('half');
    await supervisor.restart('dev');
    expect(moves.slice(5)).toEqual([
      'Running OperatorRestart Initializing CancelSession',
      'Initializing WorktreeReady BuildingPrompt None',
      ...OPENED,
    ]);
    expect(sessions[0]?.calls).toEqual(['prompt #1 grant', 'close']);
  });

  test("treats an agent's removal from the configuration as an operator's stop", async () => {
    const { moves, prompt, session, supervisor, time } = await bench();
    await prompt(1);
    session().report?.text('half');
    await supervisor.configure([]);
    await time.advance(600_000);
    expect(moves.slice(5)).toEqual(['Running OperatorStop Stopped CancelSession']);
  });

  test('gets no event when the program ends', async () => {
    const { moves, prompt, session, supervisor, time } = await bench();
    await prompt(1);
    await supervisor.stop();
    session().ends(new Error('exited with code 143'));
    await time.advance(600_000);
    expect(moves).toHaveLength(4);
  });
});

describe('the roster', () => {
  test('lists every agent with its backend, state and channels', async () => {
    const { supervisor } = await bench();
    expect(supervisor.list()).toEqual([
      { id: 'dev', name: 'Developer', backend: 'puppet', state: 'BuildingPrompt (ready)', channels: [CHANNEL] },
    ]);
    expect(supervisor.status('nobody')).toBeNull();
  });

  test('shows an agent that was lost while idle as connecting, not as ready', async () => {
    const { supervisor, session, hold, time } = await bench();
    const open = hold();
    session().pings = new Error('socket closed');
    await time.advance(15_000);
    expect(supervisor.list()[0]?.state).toBe('Spawning (connecting)');
    open();
    await time.settle();
    expect(supervisor.list()[0]?.state).toBe('BuildingPrompt (ready)');
  });

  test('restarts an agent: it leaves, and comes back with its counters at zero', async () => {
    const { prompt, supervisor, session, sessions, types, time } = await bench();
    await prompt(1);
    session().report?.text('half');
    expect(await supervisor.restart('dev')).toEqual({ ok: true, text: 'dev is restarted.' });
    await time.settle();
    expect(types()).toEqual(['join', 'work', 'say', 'leave', 'join']);
    expect(sessions).toHaveLength(2);
    expect(await supervisor.restart('nobody')).toMatchObject({ ok: false });
  });

  test('shows why an agent does not start, and starts one that was stopped', async () => {
    const { supervisor, failures } = await bench({ failures: [new BackendError('no such key', { terminal: true })] });
    failures.push(new BackendError('still no such key', { terminal: true }));
    expect(await supervisor.restart('dev')).toEqual({ ok: false, text: 'dev does not start: still no such key' });
    expect(await supervisor.restart('dev')).toMatchObject({ ok: true });
  });
});

describe('a supervisor with a new configuration', () => {
  test('closes removed agents, opens new ones, and does not touch the others', async () => {
    const { supervisor, dev, sessions, floors } = await bench();
    floors.seats.push('console:other');
    await supervisor.configure([{ ...dev }]);
    await supervisor.seat('console:other');
    expect(sessions).toHaveLength(2);
    await supervisor.configure([]);
    expect(floors.told.map(({ type }) => type)).toEqual(['join', 'join', 'leave', 'leave']);
    expect(sessions.map(({ calls }) => calls)).toEqual([['close'], ['close']]);
  });
});

describe('a backend that hangs', () => {
  test('while opening counts as failed after a minute, and a session that opens later is closed', async () => {
    const { time, supervisor, floors, sessions, hold } = await bench();
    const open = hold();
    const restarted = supervisor.restart('dev');
    await time.advance(60_000);
    expect(await restarted).toEqual({ ok: false, text: 'dev does not start: did not start within 60 s' });
    open();
    await time.settle();
    expect(sessions.map(({ calls }) => calls)).toEqual([['close'], ['close']]);
    await time.advance(2_000);
    expect(floors.told.map(({ type }) => type)).toEqual(['join', 'leave', 'join']);
  });

  test('while closing is waited for 5 s, and only then another session is opened', async () => {
    const { time, supervisor, session, sessions } = await bench();
    session().closes = false;
    const restarted = supervisor.restart('dev');
    await time.advance(4_999);
    expect(sessions).toHaveLength(1);
    await time.advance(1);
    expect(sessions).toHaveLength(2);
    expect(await restarted).toMatchObject({ ok: true });
  });
});

describe('a supervisor that stops', () => {
  test('posts the shown text, closes every session, and leaves no timer behind', async () => {
    const { prompt, supervisor, session, types, time } = await bench();
    await prompt(1);
    session().report?.text('half');
    await supervisor.stop();
    expect(types()).toEqual(['join', 'work', 'say']);
    expect(session().calls.at(-1)).toBe('close');
    expect(time.pending()).toBe(0);
  });

  test('does not wait for a floor that cannot be written', async () => {
    const { prompt, supervisor, session, floors, time } = await bench();
    await prompt(1);
    floors.broken = Infinity;
    session().report?.text('half');
    await time.settle();
    await supervisor.stop();
    expect(time.pending()).toBe(0);
  });

  async function stopsWhileOpening() {
    const rig = await bench({ failures: [new Error('no')] });
    const open = rig.hold();
    await rig.time.advance(2_000);
    const { supervisor, sessions } = rig;
    const stopped = supervisor.stop().then(() => sessions.map(({ calls }) => calls.join()));
    const isStopped = async () => (await Promise.race([stopped, rig.time.settle().then(() => null)])) !== null;
    return { ...rig, open, stopped, isStopped };
  }

  test('waits for a session that is being opened, and closes it', async () => {
    const { open, stopped, isStopped, types, time } = await stopsWhileOpening();
    expect(await isStopped()).toBe(false);
    open();
    expect(await stopped).toEqual(['close']);
    expect(types()).toEqual([]);
    expect(time.pending()).toBe(0);
  });

  test('waits for such a session 5 s at most, and closes it when it opens later', async () => {
    const { open, stopped, isStopped, sessions, time } = await stopsWhileOpening();
    await time.advance(4_999);
    expect(await isStopped()).toBe(false);
    await time.advance(1);
    expect(await stopped).toEqual([]);
    open();
    await time.settle();
    expect(sessions.map(({ calls }) => calls)).toEqual([['close']]);
  });
});
