import { describe, expect, test } from 'vitest';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';
import { PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import { openQuestion } from '../../../src/turns/floor/seats.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { AT, call, settle } from './fixture.ts';
import { Bound, HALL, SEAT, by } from './bound.ts';

describe('a turn that uses tools', () => {
  test('has a run from its first tool call on, which completes with the turn', async () => {
    const bound = await new Bound().begins();
    expect(bound.both).toBe('running · pm #1 active');
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    expect(bound.both).toBe('completed · dev #2 active');
    expect(bound.state.totals).toMatchObject({ runs: 1, completed: 1, steps: 1 });
  });

  test('starts one run, even when it reports its first tool call again', async () => {
    const bound = await new Bound().begins();
    const again = await bound.store.floors.apply(HALL, { type: 'use', agent: 'pm', epoch: 1 }, AT);
    expect([again.ok, bound.state.totals.runs]).toEqual([false, 1]);
  });

  test('has no run when it uses no tool', async () => {
    const bound = new Bound();
    await bound.begins();
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    await bound.floor({ type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: true });
    expect(bound.runs.state(runKeyOf({ ...SEAT, agent: 'dev' }))).toBeNull();
  });

  test.each([
    ['a stop', { type: 'stop', by }],
    ['a skip', { type: 'skip', by }],
    ['a removal', { type: 'remove', by, agent: 'pm' }],
    ['a disable', { type: 'disable', by, agent: 'pm' }],
  ] as const)('%s aborts its run and drops its open calls', async (_, command) => {
    const bound = await new Bound().begins();
    await bound.requests('a');
    await bound.floor(command);
    expect([bound.state.status, bound.calls]).toEqual(['idle', []]);
    expect(bound.state.closed).toMatchObject([{ state: 'void', by: null }]);
  });

  test('whose request nobody decides in time ends with its run', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a');
    bound.at = AT + PLAIN_SETTINGS.waitTimeoutMs;
    await bound.floor({ type: 'tick' });
    expect(bound.both).toBe('idle · dev #2 active');
  });

  test("that is lost leaves its run in error, until its agent's next turn", async () => {
    const bound = await new Bound().begins();
    await bound.floor({ type: 'leave', agent: 'pm', cause: 'exited' });
    expect([bound.state.status, bound.state.run?.lastError]).toMatchObject(['error', { recoverable: true }]);
    await bound.floor(
      { type: 'join', agent: 'pm' },
      { type: 'add', by, agent: 'pm' },
      { type: 'grant', by, agent: 'pm' },
    );
    await bound.floor({ type: 'end', agent: 'dev', epoch: 2, outcome: 'completed', signalled: true });
    await bound.floor({ type: 'use', agent: 'pm', epoch: 3 });
    expect(bound.both).toBe('running · pm #3 active');
  });

  test('T60 that is lost leaves its run with the code and message of the failure', async () => {
    const bound = await new Bound().begins();
    const error = { code: 'HTTP_500', recoverable: true };
    await bound.floor({ type: 'leave', agent: 'pm', cause: "the model's service failed (500): busy", error });
    expect([bound.state.status, bound.state.run?.lastError]).toEqual([
      'error',
      { code: 'HTTP_500', message: "the model's service failed (500): busy", recoverable: true },
    ]);
  });

  test('T60 that is lost for good ends its run, which has nothing to retry (row 9)', async () => {
    const bound = await new Bound().begins();
    const error = { code: 'HTTP_401', recoverable: false };
    await bound.floor({ type: 'leave', agent: 'pm', cause: 'API key rejected (401)', error });
    expect([bound.state.status, bound.state.run?.lastError]).toEqual([
      'idle',
      { code: 'HTTP_401', message: 'API key rejected (401)', recoverable: false },
    ]);
    expect(await bound.run({ type: 'RESUME', by })).toBe('AGENT_NOT_RUNNING');
  });

  test('that a person interrupts pauses its run, which continues under the new epoch', async () => {
    const bound = await new Bound().begins();
    await bound.floor({ type: 'mode', by, mode: 'interrupt' });
    await bound.requests('a', { verdict: 'allow' });
    await bound.store.accept(message('m1'));
    await bound.floor({ type: 'receive', id: 'm1', addressed: [] });
    expect(bound.both).toBe('paused user_input · pm #1 human');
    await bound.floor({ type: 'interrupted', agent: 'pm', epoch: 1 });
    expect([bound.both, bound.calls]).toEqual(['running · pm #2 active', []]);
    expect(await bound.requests('b')).toBe('AGENT_NOT_RUNNING');
    expect(await bound.requests('b', {}, '2')).toBeNull();
  });

  test('that waits for an answer pauses its run', async () => {
    const bound = await new Bound().begins();
    await bound.floor({ type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' });
    expect(bound.both).toBe('paused user_input · pm #1 answer');
    await bound.floor({ type: 'grant', by, agent: 'pm' });
    expect(bound.both).toBe('running · pm #2 active');
  });
});

describe('T62 the run of a turn', () => {
  const completed = (bound: Bound) =>
    [...bound.runs.newest(runKeyOf(SEAT))].flatMap(({ fact }) =>
      fact.type === 'runCompleted' ? [fact.result] : [],
    )[0];

  test("has the turn's whole text as its result, also the text before its first tool call", async () => {
    const bound = await new Bound().granted();
    const act = { agent: 'pm', epoch: 1 } as const;
    await bound.floor(
      { type: 'say', ...act, text: 'I look.', mentions: [] },
      { type: 'use', ...act },
      { type: 'say', ...act, text: 'All is well.', mentions: [] },
      { type: 'end', ...act, outcome: 'completed', signalled: true },
    );
    expect(completed(bound)).toBe('I look.\n\nAll is well.');
  });

  test('keeps its result over a restart, and only the end of a very long text', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.floor({ type: 'say', agent: 'pm', epoch: 1, text: `a${'b'.repeat(32_768)}`, mentions: [] });
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    const epoch = bound.hall.turn?.epoch ?? 0;
    await bound.floor(
      { type: 'say', agent: 'pm', epoch, text: 'The end.', mentions: [] },
      { type: 'end', agent: 'pm', epoch, outcome: 'completed', signalled: true },
    );
    const result = completed(bound) ?? '';
    expect([result.length, result.slice(0, 2), result.slice(-10)]).toEqual([32_768, '…b', '\n\nThe end.']);
    await bound.store.close();
  });

  test('has an empty result when the turn wrote nothing', async () => {
    const bound = await new Bound().begins();
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'passed', signalled: true });
    expect(completed(bound)).toBe('');
  });
});

describe('a call that needs an approval', () => {
  test('makes the turn wait in the same transaction in which the run pauses, with the whole request', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a', { words: { title: 'write a', detail: 'a: whole' } });
    expect(bound.both).toBe('paused approval_required · pm #1 approval');
    const approval = bound.state.run?.pause?.approval?.id;
    expect(openQuestion(bound.hall)).toEqual({
      question: 1,
      key: expect.stringMatching(/^[\w-]{11}$/),
      title: 'write a',
      detail: 'a: whole',
      shown: false,
      approval,
      lasting: 'answer',
    });
  });

  test('of an agent that runs it itself is marked denyOnly: the agent does not read a reason', async () => {
    const about = { tool: 'edit', folder: null, why: 'x', says: null };
    const words = { title: 'w', detail: '', about };
    const told = async (more: Parameters<Bound['requests']>[1]) => {
      const bound = await new Bound().begins();
      await bound.requests('a', { words, ...more });
      return openQuestion(bound.hall)?.about;
    };
    expect(await told({ source: 'agent' })).toHaveProperty('denyOnly', true);
    expect(await told({ source: 'conch' })).not.toHaveProperty('denyOnly');
    expect(await told({ words: { ...words, about: { ...about, answer: 'done' } } })).not.toHaveProperty('denyOnly');
  });

  test('counts the calls that wait behind it, also one that needs approval after an unknown outcome', async () => {
    const bound = await new Bound().begins();
    const words = { title: 'w', detail: '', about: { tool: 'edit', folder: null, why: 'x', says: null } };
    const same = { digest: 'same', verdict: 'allow', words } as const;
    await bound.requests('a', same);
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'same', verdict: 'allow' });
    await bound.run({ type: 'SETTLE', call: 'a', status: 'error', output: null, duration: null, code: 'UNKNOWN' });
    await bound.requests('b', { words });
    await bound.requests('c', { ...same, waits: true });
    await bound.requests('d', { words, verdict: 'allow', waits: true });
    await bound.answers('reject');
    await bound.requests('e', { words });
    expect(openQuestion(bound.hall)?.about).toMatchObject({ questions: 2 });
  });

  test("runs after a person's approval, and its turn continues", async () => {
    const bound = await new Bound().begins();
    await bound.requests('a');
    await bound.answers('allow');
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', ['a cleared']]);
    expect(bound.state.closed).toMatchObject([{ state: 'allowed', by }]);
  });

  test('ends with a denial, whose reason is stored', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a');
    await bound.answers('reject', { reason: 'use b.txt' });
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', []]);
    const [closed] = bound.runs
      .journal(runKeyOf(SEAT), 20)
      .flatMap(({ fact }) => (fact.type === 'approvalClosed' ? [fact] : []));
    expect(closed).toMatchObject({ state: 'denied', by, reason: 'use b.txt' });
  });

  test('is denied at once when nobody can be asked, and the turn continues', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a', { words: { title: 'write a', detail: 'a', unaskable: 'too long' } });
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', []]);
    expect(bound.state.closed).toMatchObject([{ state: 'denied', by: null }]);
  });

  test('closes its request when its agent withdraws it', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a');
    expect(await bound.run({ type: 'WITHDRAW', call: 'a' })).toBeNull();
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', []]);
    expect(openQuestion(bound.hall)).toBeNull();
  });

  test('gets its own request, after the call before it', async () => {
    const bound = await new Bound().begins();
    await bound.run({
      type: 'STEP',
      session: '1',
      turn: 2,
      toolCalls: [call('a', { verdict: 'ask' }), call('b', { verdict: 'ask' })],
    });
    await bound.answers('reject');
    expect([bound.both, openQuestion(bound.hall)?.question]).toEqual(['paused approval_required · pm #1 approval', 2]);
    await bound.answers('allow');
    expect(bound.calls).toEqual(['b cleared']);
  });

  test('of an agent keeps its request over a restart: the channel learns of the restart', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { words: { title: 'tidy up', detail: 'rm -r build' } });
    await bound.dies();
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect([bound.both, bound.calls]).toEqual(['paused approval_required · pm #1 approval', []]);
    expect(asked(bound)).toEqual([
      ['approval', 1, undefined, 1],
      ['approval', 1, true, 2],
    ]);
    await bound.store.close();
  });

  test.each([
    ['allow', 'runs once, and needs an approval the next time', ['a2 cleared']],
    ['reject', 'is denied once, and needs an approval the next time', []],
  ] as const)('of an agent that got "%s" after a restart %s', async (choice, _, calls) => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { words: { title: 'tidy up', detail: 'rm -r build' } });
    await bound.dies();
    await bound.answers(choice, { reason: 'as you like' });
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect([bound.both, resumed(bound)]).toEqual([
      'running · pm #2 active',
      [{ title: 'tidy up', choice, reason: 'as you like' }],
    ]);
    await bound.requests('a2', { digest: 'd-a' }, '2');
    expect([bound.both, bound.calls]).toEqual(['running · pm #2 active', calls]);
    const claimed = await bound.run({ type: 'CLAIM', call: 'a2', digest: 'd-a', verdict: 'ask' });
    await bound.run(settle('a2'));
    expect([claimed === null, asked(bound).at(-1)?.[2]]).toEqual(
      choice === 'allow' ? [true, 'complete'] : [false, undefined],
    );
    await bound.requests('a3', { digest: 'd-a' }, '2');
    expect(bound.both).toBe('paused approval_required · pm #2 approval');
    await bound.store.close();
  });

  test.each([
    ['its last millisecond', -1, 'running · pm #2 active'],
    ['its end', 0, 'paused approval_required · pm #2 approval'],
  ])('of an agent is allowed by a decision after a restart until %s', async (_, more, both) => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a');
    await bound.dies();
    await bound.answers('allow');
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    bound.at = AT + PLAIN_SETTINGS.waitTimeoutMs + more;
    await bound.requests('a2', { digest: 'd-a' }, '2');
    expect(bound.both).toBe(both);
    await bound.store.close();
  });

  test('whose request nobody decides after a restart ends its turn at the original deadline', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a');
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    bound.at = AT + PLAIN_SETTINGS.waitTimeoutMs;
    await bound.floor({ type: 'tick' });
    expect([bound.state.status, bound.state.closed, asked(bound).at(-1)]).toMatchObject([
      'idle',
      [{ state: 'void' }],
      ['answered', 1, undefined, 2],
    ]);
    await bound.store.close();
  });

  test('of Conch keeps its request over a restart, and an approval runs the call in the continued turn', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { source: 'conch' });
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect([bound.both, openQuestion(bound.hall)?.question]).toEqual(['paused approval_required · pm #1 approval', 1]);
    await bound.answers('allow');
    expect([bound.both, bound.calls]).toEqual(['running · pm #2 active', ['a cleared']]);
    expect(await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'ask' })).toBeNull();
    expect(await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'ask' })).toBe('CALL_NOT_PENDING');
    await bound.store.close();
  });

  test('of Conch can be decided before its agent is back, and the turn then continues with it', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { source: 'conch' });
    await bound.dies();
    await bound.answers('allow');
    expect([bound.both, bound.calls]).toEqual(['paused user_input · pm #1 approval', ['a pending']]);
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect([bound.both, bound.calls]).toEqual(['running · pm #2 active', ['a cleared']]);
    await bound.store.close();
  });

  test('of Conch that was approved but not started before a crash can start in the continued turn', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { source: 'conch' });
    await bound.answers('allow');
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect([bound.both, bound.calls]).toEqual(['running · pm #2 active', ['a cleared']]);
    expect(await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'ask' })).toBeNull();
    await bound.store.close();
  });

  test('that was running at a crash needs an approval the next time, even if allowed', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { verdict: 'allow' });
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    await bound.requests('a2', { verdict: 'allow', digest: 'd-a' }, '2');
    expect(bound.both).toBe('paused approval_required · pm #2 approval');
    await bound.store.close();
  });
});

describe('a call that the rules deny', () => {
  test('is announced in the channel, the first one of a run', async () => {
    const bound = await new Bound().begins();
    await bound.requests('a', { verdict: 'deny', tool: 'execute', rule: 'Bash(curl *)' });
    await bound.requests('b', { verdict: 'deny' });
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    const told = bound.store.floors
      .journal(HALL, 50)
      .flatMap(({ fact }) => (fact.type === 'announced' ? [fact.announcement] : []));
    expect(told).toEqual([{ kind: 'forbidden', agent: 'pm', title: 'execute', why: 'rule "Bash(curl *)"' }]);
  });

  test('is announced with the reason of its verdict, for turns and background runs', async () => {
    const why = 'a reviewer may not change the work';
    const bound = await new Bound().begins();
    await bound.requests('a', { verdict: 'deny', tool: 'edit', why });
    await bound.besideAsking({ verdict: 'deny', tool: 'edit', why });
    const told = bound.store.floors
      .journal(HALL, 50)
      .flatMap(({ fact }) => (fact.type === 'announced' ? [fact.announcement] : []));
    expect(told.filter(({ kind }) => kind === 'forbidden')).toEqual(
      Array.from({ length: 2 }, () => ({ kind: 'forbidden', agent: 'pm', title: 'edit', why })),
    );
    await bound.store.close();
  });
});

describe('a paused run', () => {
  test('at its limit asks people, and continues with as many steps again', async () => {
    const bound = await new Bound().begins(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [call('a')] });
    expect(bound.both).toBe('paused turn_limit · pm #1 approval');
    expect(openQuestion(bound.hall)?.title).toBe('used 2 of 2 steps');
    await bound.answers('allow');
    expect([bound.both, bound.state.run?.maxTurns, bound.calls]).toEqual(['running · pm #1 active', 4, ['a cleared']]);
  });

  test('ends its turn when people deny more steps', async () => {
    const bound = await new Bound().begins(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
    await bound.answers('reject');
    expect(bound.both).toBe('idle · dev #2 active');
  });

  test('resumes by a command, too, and its request closes', async () => {
    const bound = await new Bound().begins(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
    expect(await bound.run({ type: 'RESUME', by, more: 20 })).toBeNull();
    expect([bound.both, bound.state.run?.maxTurns]).toEqual(['running · pm #1 active', 22]);
  });

  test('asks again after a restart, and its earlier request closes', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
    await bound.dies();
    await bound.floor({ type: 'catchUp' }, { type: 'join', agent: 'pm' });
    expect(bound.both).toBe('paused turn_limit · pm #2 approval');
    expect(asked(bound).map(([kind, question]) => [kind, question])).toEqual([
      ['approval', 1],
      ['answered', 1],
      ['approval', 2],
    ]);
    await bound.answers('allow');
    expect(bound.both).toBe('running · pm #2 active');
    await bound.store.close();
  });

  test('with an equal call a third time asks people to confirm it', async () => {
    const bound = await new Bound().begins();
    for (const id of ['a', 'b', 'c']) {
      await bound.requests(id, { verdict: 'allow', digest: 'same' });
      if (id === 'c') break;
      await bound.run({ type: 'CLAIM', call: id, digest: 'same', verdict: 'allow' });
      await bound.run(settle(id));
    }
    expect(bound.both).toBe('paused confirmation · pm #1 approval');
    await bound.answers('allow');
    expect([bound.both, bound.calls]).toEqual(['running · pm #1 active', ['c cleared']]);
  });
});

describe('a run that an operator ends', () => {
  test.each([
    ['aborted', { type: 'ABORT', reason: 'not needed', by }, 'idle'],
    ['complete', { type: 'COMPLETE', session: '1', result: '', by }, 'completed'],
  ] as const)('is %s, and its turn ends in the same transaction', async (_, command, status) => {
    const bound = await new Bound().begins();
    expect(await bound.run(command)).toBeNull();
    expect(bound.both).toBe(`${status} · dev #2 active`);
  });
});

describe('an always-allow rule that is revoked', () => {
  test('is announced in the channel in the same transaction, once', async () => {
    const bound = await new Bound().begins();
    const offers = [{ rule: 'execute(npm test)', words: 'exactly this command' }];
    await bound.requests('a', { words: { title: 'run the tests', detail: 'npm test', offers } });
    await bound.answers('allow', { always: 'execute(npm test)' });
    const before = bound.store.floors.journal(HALL, 1_000).length;
    const revoke = { type: 'REVOKE', id: bound.state.remembered[0]?.id ?? '', by, name: 'Ann' } as const;
    expect([await bound.run(revoke), await bound.run(revoke)]).toEqual([null, 'RULE_UNKNOWN']);
    const told = bound.store.floors.journal(HALL, 1_000).slice(before);
    expect(told.map(({ fact }) => fact)).toMatchObject([
      { type: 'announced', announcement: { kind: 'revoked', agent: 'pm', rule: 'execute(npm test)', by: 'Ann' } },
    ]);
  });
});

/** The announcements of requests: kind, number, whether the program restarted or the call's status, repeat count. */
function asked({ store }: Bound): readonly (readonly unknown[])[] {
  const told = store.floors.journal(HALL, 1_000).flatMap(({ fact }) => (fact.type === 'announced' ? [fact] : []));
  return told.flatMap(({ announcement, repeat }): (readonly unknown[])[] => {
    const { kind } = announcement;
    if (kind === 'approval') return [[kind, announcement.question, announcement.restarted, repeat]];
    return kind === 'answered' ? [[kind, announcement.question, announcement.callOutcome?.status, repeat]] : [];
  });
}

/** The decisions of people that each resumed turn received. */
function resumed({ store }: Bound): readonly unknown[] {
  return store.floors.journal(HALL, 1_000).flatMap(({ fact }) => (fact.type === 'turnResumed' ? [fact.decided] : []));
}

function message(id: string) {
  const author = { id: 'u1', name: 'Ann' };
  return { id, channel: HALL, author, text: 'Wait', sentAt: AT, order: '1', addressed: [], attachments: [] };
}
