import { describe, expect, test } from 'vitest';
import type { Person } from '../../../src/turns/commands/context.ts';
import { createOperators } from '../../../src/turns/commands/execute.ts';
import { openQuestion } from '../../../src/turns/floor/seats.ts';
import { refusalText } from '../../../src/turns/floor/refusals.ts';
import { viewOf } from '../../../src/turns/view.ts';
import { toolCallRows } from '../../../src/work/runs/call-record.ts';
import { createRunCommands } from '../../../src/work/runs/run-commands.ts';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';
import { AT } from './fixture.ts';
import { Bound, HALL, SEAT } from './bound.ts';

const person = (id: string, roles: readonly string[] = []): Person => ({ id, name: id, roles });
const ANN = person('ann');
const OTHER_HALL = 'console:other';

/** pm waits for an approval in a turn that bob requested. */
async function asking(approvers: 'other' | readonly string[] | null = null) {
  const bound = await new Bound().granted();
  await bound.floor({ type: 'use', agent: 'pm', epoch: 1, requestedBy: 'bob' });
  await bound.requests('a');
  await bound.floor({ type: 'shown', question: 1 });
  return { bound, ...clicking(bound, approvers) };
}

/** Clicks of people as every platform passes them on: each is a command. */
function clicking(bound: Bound, approvers: 'other' | readonly string[] | null) {
  const operators = { users: ['ann', 'bob', 'pm'], roles: ['crew'] };
  const floors = {
    apply: bound.store.floors.apply.bind(bound.store.floors),
    view: (channel: string) => (channel === HALL ? viewOf(bound.hall, bound.at, bound.store.id) : null),
    turns: () => [],
    keep: () => ({ text: '', durable: Promise.resolve() }),
  };
  const closed = (_: string, named: { readonly question: number } | { readonly key: string }) => {
    for (const { fact } of bound.store.floors.journal(HALL, 100))
      if (
        fact.type === 'questionClosed' &&
        ('key' in named ? fact.key === named.key : fact.question === named.question)
      )
        return { choice: fact.choice ?? 'withdrawn', by: fact.by };
    return null;
  };
  const clock = { now: () => bound.at };
  const names = { agent: (id: string) => id, channel: (id: string) => id };
  const seats = ['pm', 'dev'].map((id) => ({ id, name: id, backend: 'llm', state: 'Running', channels: [HALL] }));
  const click = createOperators({
    floors: {
      ...floors,
      apply: (channel, command) => floors.apply(channel, command, bound.at),
      why: () => [],
      message: () => null,
    },
    roster: { list: () => seats, status: () => null, restart: async () => ({ ok: false, text: '' }) },
    operators: () => operators,
    names,
    words: { refusal: refusalText },
    clock,
    runs: createRunCommands({
      runs: bound.runs,
      floors: { ...floors, apply: (channel, command) => floors.apply(channel, command, bound.at) },
      clock,
      nameOf: String,
      closed,
      approvers: () => approvers,
      settable: () => ({ backend: 'llm', options: ['model', 'steps', 'tools'] }),
      readTools: (text) => ({ ok: true, rules: [text] }),
      requesters: () => [],
      written: () => '',
      work: () => ({ steps: undefined, waitMs: 600_000 }),
    }),
  });
  const run = (who: Person, line: string, channel = HALL, drawnFor?: string) => click.run(channel, who, line, drawnFor);
  return { operators, run };
}

/** Who decided the call; empty when the call was not cleared. Fails when it was cleared twice. */
function dispatched({ runs }: Bound): readonly (string | null)[] {
  const journal = runs.journal(runKeyOf(SEAT), 1_000);
  const cleared = journal.filter(({ fact }) => fact.type === 'callCleared');
  const by = toolCallRows(journal).map(({ decidedBy }) => decidedBy);
  expect(cleared.length).toBeLessThanOrEqual(1);
  return cleared.length === 0 ? [] : by;
}

describe('a click on a request', () => {
  test('counts once, and a second one learns of the first', async () => {
    const { bound, run } = await asking();
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: true });
    expect(await run(ANN, '/allow 1')).toEqual({
      ok: false,
      text: 'That request is closed: already allowed by ann.',
    });
    expect(dispatched(bound)).toEqual(['ann']);
  });

  test('decides as the first of fifty at once, and forty-nine learn who decided', async () => {
    const { bound, run } = await asking();
    const words = ['/allow 1', '/reject 1', '/allow 1 once'];
    const clicks = Array.from({ length: 50 }, (_, nth) => run(nth % 2 ? person('bob') : ANN, words[nth % 3] ?? ''));
    const answers = await Promise.all(clicks);
    expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
    const told = answers.filter(({ text }) => /^That request is closed: already \w+ by \w+\.$/.test(text));
    expect(told).toHaveLength(49);
    expect(dispatched(bound)).toEqual(['ann']);
  });

  test('on the card of an older request decides no newer one', async () => {
    const { bound, run } = await asking();
    await run(ANN, '/reject 1');
    await bound.requests('b');
    await bound.floor({ type: 'shown', question: 2 });
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: false });
    expect([openQuestion(bound.hall)?.question, dispatched(bound)]).toEqual([2, []]);
  });

  test('after a restart starts no call: it counts once for the next equal call, without an always-allow rule', async () => {
    const { bound, run } = await asking();
    await bound.floor({ type: 'restart' });
    expect(await run(ANN, '/allow 1 always')).toMatchObject({ ok: false });
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: true });
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: false });
    expect([dispatched(bound), bound.state.run?.grants]).toMatchObject([[], [{ choice: 'allow', by: 'ann' }]]);
  });

  test('by a person who is no operator any more counts for nothing', async () => {
    const { bound, operators, run } = await asking();
    operators.users = ['bob'];
    expect((await run(ANN, '/allow 1')).text).toContain('Only operators may use /allow');
    expect(dispatched(bound)).toEqual([]);
  });

  test.each([
    ['from another channel', ANN, '/allow 1', OTHER_HALL],
    ['by a program', { ...ANN, bot: true }, '/allow 1', HALL],
    ['by an agent', person('pm'), '/allow 1', HALL],
    ['with an unknown number', ANN, '/allow 99', HALL],
    ['with a negative number', ANN, '/allow -1', HALL],
    ['with two numbers', ANN, '/allow 1 2', HALL],
    ['that asks for more than was offered', ANN, '/allow 1 always', HALL],
  ])('%s counts for nothing', async (_, who, line, channel) => {
    const { bound, run } = await asking();
    expect(await run(who, line, channel)).toMatchObject({ ok: false });
    expect([openQuestion(bound.hall)?.question, dispatched(bound)]).toEqual([1, []]);
  });

  test('does not count before the channel shows the whole request', async () => {
    const { bound, run } = await asking();
    await run(ANN, '/reject 1');
    await bound.requests('b');
    expect((await run(ANN, '/allow 2')).text).toBe(
      'Not yet: the channel does not show the whole request. Try again in a moment.',
    );
    expect(dispatched(bound)).toEqual([]);
  });

  test('after the deadline counts for nothing', async () => {
    const { bound, run } = await asking();
    bound.at = AT + bound.hall.settings.waitTimeoutMs;
    await bound.floor({ type: 'tick' });
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: false });
    expect(dispatched(bound)).toEqual([]);
  });
});

describe('a request that only some people may decide', () => {
  test('is decided by them alone, not by other operators', async () => {
    const { bound, run } = await asking(['carol', 'reviewers']);
    expect(await run(ANN, '/allow 1')).toEqual({
      ok: false,
      text: 'Only these people or roles may decide this request: carol, reviewers.',
    });
    expect((await run(ANN, '/reject 1')).ok).toBe(false);
    expect(await run(person('dora', ['reviewers']), '/allow 1')).toMatchObject({ ok: true });
    expect(dispatched(bound)).toEqual(['dora']);
  });

  test('is decided by no program and no agent, even if listed', async () => {
    const { bound, run } = await asking(['pm', 'ann']);
    expect([(await run(person('pm'), '/allow 1')).ok, (await run({ ...ANN, bot: true }, '/allow 1')).ok]).toEqual([
      false,
      false,
    ]);
    expect(dispatched(bound)).toEqual([]);
  });

  test('is not decided by the operator who started the work, when another must decide', async () => {
    const { bound, run } = await asking('other');
    expect(await run(person('bob'), '/allow 1')).toEqual({
      ok: false,
      text: 'Another operator must decide this request, because your message started the run.',
    });
    expect((await run(person('carol'), '/allow 1')).text).toContain('Only operators may use /allow');
    expect(await run(ANN, '/allow 1')).toMatchObject({ ok: true });
    expect(dispatched(bound)).toEqual(['ann']);
  });

  test('tells a person who comes late who decided it, operator or not', async () => {
    const { run } = await asking(['carol']);
    await run(person('carol'), '/allow 1');
    expect((await run(person('carol'), '/reject 1')).text).toBe('That request is closed: already allowed by carol.');
  });

  test('leaves /stop to every operator', async () => {
    const { bound, run } = await asking(['carol']);
    expect(await run(ANN, '/stop')).toMatchObject({ ok: true });
    expect([bound.state.status, dispatched(bound)]).toEqual(['idle', []]);
  });
});

describe('the limit of a run', () => {
  const atLimit = async () => {
    const bound = await new Bound().begins(2);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [] });
    return { bound, ...clicking(bound, null) };
  };
  const STILL = ['paused turn_limit · pm #1 approval', 2];

  test.each(['/run continue 999999', '/run continue 201', '/run continue 0', '/run continue 2.5'])(
    'is not raised by %s',
    async (line) => {
      const { bound, run } = await atLimit();
      expect(await run(ANN, line)).toMatchObject({ ok: false });
      expect([bound.both, bound.state.run?.maxTurns]).toEqual(STILL);
    },
  );

  test('is raised by no text of an agent, and by nobody who is no operator', async () => {
    const { bound, run } = await atLimit();
    await expect(bound.floor({ type: 'use', agent: 'pm', epoch: 1, maxTurns: 200 })).rejects.toThrow('refused');
    expect(await bound.run({ type: 'STEP', session: '1', turn: 3, toolCalls: [] })).toBe('AGENT_NOT_RUNNING');
    for (const who of [person('carol'), person('pm'), { ...ANN, bot: true }])
      for (const line of ['/run continue', '/run resume', '/allow 1'])
        expect((await run(who, line)).text).toContain('Only operators may use');
    expect([bound.both, bound.state.run?.maxTurns]).toEqual(STILL);
  });

  test('is raised by an operator, by as many steps again', async () => {
    const { bound, run } = await atLimit();
    expect(await run(ANN, '/run continue')).toEqual({ ok: true, text: 'The run continues: step 2 of 4.' });
    expect(bound.both).toBe('running · pm #1 active');
  });
});
