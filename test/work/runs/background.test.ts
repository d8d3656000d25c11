import { describe, expect, test } from 'vitest';
import { findBackgroundRun } from '../../../src/turns/floor/seats.ts';
import { PLAIN_SETTINGS } from '../../../src/turns/floor/floor.ts';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';
import { BackgroundRuns } from '../../../src/work/runs/background-work.ts';
import type { BackgroundReports } from '../../../src/work/runs/background-work.ts';
import type { RunCommand } from '../../../src/work/runs/run-events.ts';
import { seatOf } from '../../turns/floor/stage.ts';
import { BESIDE, Bound, HALL, by } from './bound.ts';
import { cardOf } from '../../../src/adapters/delivery/card.ts';
import { forTurn } from '../../../src/turns/drawn-for.ts';
import { viewOf } from '../../../src/turns/view.ts';
import { AT, WAIT_MS, claim, error, settle, start, step } from './fixture.ts';

const told = (bound: Bound): readonly string[] =>
  bound.store.floors
    .journal(HALL, 1_000)
    .flatMap(({ fact }) =>
      fact.type === 'announced' && fact.announcement.kind === 'aside' ? [fact.announcement.what] : [],
    );

/** The announcements of requests: number, whether the session that asked has ended, and repeat count. */
const notices = (bound: Bound): readonly unknown[] =>
  bound.store.floors
    .journal(HALL, 1_000)
    .flatMap(({ fact }) =>
      fact.type === 'announced' && fact.announcement.kind === 'approval'
        ? [[fact.announcement.question, fact.announcement.restarted, fact.repeat]]
        : [],
    );

const said = (bound: Bound): readonly string[] =>
  bound.store.lines(HALL, 0, 1_000).map(({ author, text }) => `${author.id}: ${text}`);

const ends = { type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true } as const;
const done = { type: 'COMPLETE', session: '1', result: 'Two links are dead.' } as const;

async function asking(): Promise<Bound> {
  return (await new Bound().granted()).besideAsking();
}

describe('T84 a standstill of the process', () => {
  test("does not count toward a request of a background run, nor toward its channel's minutes", async () => {
    const bound = await (await new Bound().granted()).besideAsking();
    const until = () => [
      bound.runs.state(runKeyOf(BESIDE))?.run?.pause?.until,
      bound.runs.state(runKeyOf(BESIDE))?.run?.pause?.approval?.expiresAt,
      bound.hall.asides?.[0]?.until,
    ];
    expect(until()).toEqual([AT + WAIT_MS, AT + WAIT_MS, AT + WAIT_MS]);
    const { openedAt = 0 } = bound.hall.exchange ?? {};
    bound.at += 40_000;
    await bound.floor({ type: 'standstill', ms: 40_000 });
    const later = AT + WAIT_MS + 40_000;
    expect([until(), bound.hall.exchange?.openedAt]).toEqual([[later, later, later], openedAt + 40_000]);
    bound.at = later - 1;
    expect(await bound.beside({ type: 'TICK' })).toEqual(['NOT_DUE']);
    bound.at = later;
    expect(await bound.beside({ type: 'TICK' })).toEqual([null]);
    expect(bound.aside).toBe('idle · nothing');
  });

  test('does not count toward the minutes of the day', async () => {
    const bound = await new Bound().granted();
    bound.at += 60_000;
    await bound.floor(
      { type: 'standstill', ms: 40_000 },
      { type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true },
    );
    expect(bound.hall.day.ms).toBe(20_000);
  });

  test('does not count toward the time that a failed background run waits for a retry', async () => {
    const bound = await new Bound().granted();
    const given = { runType: 'background', waitMs: WAIT_MS, session: '1', prompt: 'look' } as const;
    await bound.beside(start(given), step(1, [], '1'), {
      type: 'ERROR',
      session: '1',
      error: { code: 'AGENT_EXECUTION_ERROR', message: 'it fell over', recoverable: true },
    });
    const until = () => bound.runs.state(runKeyOf(BESIDE))?.run?.errorUntil;
    const before = until() ?? 0;
    await bound.floor({ type: 'standstill', ms: 40_000 });
    expect(until()).toBe(before + 40_000);
  });
});

describe('a background run', () => {
  test('leaves the floor to its holder, and asks people meanwhile', async () => {
    const bound = await asking();
    expect([bound.aside, bound.hall.turn?.agent, bound.hall.turn?.status]).toEqual([
      'paused approval_required · mcp__files__write',
      'pm',
      'active',
    ]);
    expect(told(bound)).toEqual(['starts: look for dead links']);
  });

  test('continues after an approval, once the channel shows the whole request', async () => {
    const bound = await asking();
    const decide = { type: 'decide', by, choice: 'allow', question: 1 } as const;
    await expect(bound.floor(decide)).rejects.toThrow('not-shown');
    await bound.floor({ type: 'shown', question: 1 }, decide);
    expect(bound.aside).toBe('running · at work');
    expect(await bound.beside(claim('a'), settle('a'))).toEqual([null, null]);
    await expect(bound.floor(decide)).rejects.toThrow('stale-question');
  });

  test('can have an open request while a turn has one, each with its own number', async () => {
    const bound = await asking();
    await bound.floor({ type: 'use', agent: 'pm', epoch: 1 });
    await bound.requests('b');
    await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'reject', question: 1 });
    expect([bound.aside, bound.both]).toEqual(['running · at work', 'paused approval_required · pm #1 approval']);
    await bound.floor({ type: 'shown', question: 2 }, { type: 'decide', by, choice: 'allow', question: 2 });
    expect(bound.both).toBe('running · pm #1 active');
  });

  test('posts its report when nobody holds the floor, never during a turn', async () => {
    const bound = await asking();
    await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'reject', question: 1 });
    await bound.beside(done);
    expect([bound.aside, said(bound)]).toEqual(['completed · nothing', []]);
    await bound.floor({ type: 'say', agent: 'pm', epoch: 1, text: 'Hello.', mentions: [] }, ends);
    expect([said(bound), bound.hall.turn?.agent]).toEqual([['pm: Hello.', 'pm: Two links are dead.'], 'dev']);
    expect(bound.hall).not.toHaveProperty('reports');
  });

  test('posts its report at once on a resting floor', async () => {
    const bound = await asking();
    await bound.floor({ type: 'decide', by, choice: 'reject', question: 1 }, ends);
    await bound.floor({ type: 'end', agent: 'dev', epoch: 2, outcome: 'passed', signalled: true });
    await bound.beside(done);
    expect([bound.hall.turn, said(bound)]).toEqual([null, ['pm: Two links are dead.']]);
    expect(told(bound).at(-1)).toBe('completed after 1 step');
  });

  test('keeps its report when an operator pauses it in the moment in which its agent ends', async () => {
    const bound = await new Bound().granted();
    let reports: BackgroundReports | null = null;
    const asides = new BackgroundRuns({
      runs: bound.runs,
      clock: { now: () => bound.at },
      timers: { after: () => ({ cancel: () => {} }) },
      open(_task, given) {
        reports = given;
        return { written: () => '', stop: async () => {} };
      },
      timeoutMs: () => 60_000,
      tell: () => {},
      failed: (why) => {
        throw why;
      },
    });
    await asides.begin();
    await bound.beside(start({ runType: 'background', waitMs: WAIT_MS, session: '1' }), step(1, [], '1'));
    const paused = bound.beside({ type: 'PAUSE', reason: 'confirmation', context: 'wait' });
    (reports as BackgroundReports | null)?.done('Two links are dead.');
    expect(await paused).toEqual([null]);
    await new Promise(setImmediate);
    expect(bound.aside).toBe('paused confirmation · wait');
    await bound.beside({ type: 'RESUME', by });
    await bound.floor(ends);
    expect(said(bound)).toEqual(['pm: Two links are dead.']);
    await asides.stop();
  });

  test('is one at a time per agent', async () => {
    const bound = await asking();
    const [refusal] = await bound.beside({
      type: 'START',
      runType: 'background',
      prompt: 'x',
      session: '1',
      by,
      waitMs: 1,
      allowedTools: null,
      task: { id: 't', column: 'in_progress' },
    });
    expect(refusal).toBe('AGENT_ALREADY_RUNNING');
  });

  test('is aborted and announced when nobody decides its request in time', async () => {
    const bound = await asking();
    bound.at += WAIT_MS;
    await bound.beside({ type: 'TICK' });
    expect([bound.aside, told(bound).at(-1)]).toEqual(['idle · nothing', 'was aborted: nobody answered in time']);
  });

  test('ends with /stop, as a turn does', async () => {
    const bound = await asking();
    await bound.floor({ type: 'stop', by });
    expect([bound.aside, bound.hall.turn, bound.hall.condition]).toEqual(['idle · nothing', null, 'resting']);
  });

  test('ends with /stop in a channel where 100 agents have one, and each is delayed by a standstill', async () => {
    const agents = Array.from({ length: 100 }, (_, index) => `a${index}`);
    const bound = new Bound();
    await bound.floor({ type: 'configure', settings: PLAIN_SETTINGS, seats: agents.map((agent) => seatOf(agent)) });
    const keys = agents.map((agent) => runKeyOf({ channel: HALL, agent, isBackground: true }));
    const work = [start({ runType: 'background', waitMs: WAIT_MS, session: '1' }), step(1, [], '1')];
    for (const key of keys) await bound.runs.applyAll(key, work, bound.at);
    await bound.floor({ type: 'standstill', ms: 40_000 }, { type: 'stop', by });
    expect(new Set(keys.map((key) => bound.runs.state(key)?.status))).toEqual(new Set(['idle']));
    expect(bound.hall.asides ?? []).toEqual([]);
  });

  test.each([
    ['switched off', { type: 'disable', agent: 'pm', by }, 'its agent was disabled', by],
    ['taken out of the channel', { type: 'remove', agent: 'pm', by }, 'its agent was removed from the channel', by],
    [
      'no longer configured',
      { type: 'configure', settings: PLAIN_SETTINGS, seats: [seatOf('dev')] },
      'the configuration has no seat for its agent',
      null,
    ],
  ] as const)('ends when its agent is %s, and names who did it', async (_, command, why, who) => {
    const bound = await asking();
    await bound.floor(command);
    expect([bound.aside, told(bound).at(-1)]).toEqual(['idle · nothing', `was stopped: ${why}`]);
    const ended = bound.runs.journal(runKeyOf(BESIDE), 100).at(-1)?.fact;
    expect(ended).toMatchObject({ type: 'aborted', by: who, reason: why });
  });

  test('ends when its agent, which has no seat in the queue, is removed from the channel', async () => {
    const bound = await new Bound().granted();
    await bound.floor({ type: 'remove', agent: 'pm', by });
    await bound.besideAsking();
    await bound.floor({ type: 'remove', agent: 'pm', by });
    expect(bound.aside).toBe('idle · nothing');
    await expect(bound.floor({ type: 'remove', agent: 'pm', by })).rejects.toThrow('already');
  });

  test('can be stopped when no turn is active', async () => {
    const bound = await asking();
    await bound.floor(ends, { type: 'end', agent: 'dev', epoch: 2, outcome: 'passed', signalled: true });
    await bound.floor({ type: 'stop', by });
    expect([bound.aside, bound.hall.stopped]).toEqual(['idle · nothing', false]);
    await expect(bound.floor({ type: 'stop', by })).rejects.toThrow('nothing-to-stop');
  });

  test('waits after a failure until people retry or abort it', async () => {
    const bound = await asking();
    await bound.floor({ type: 'decide', by, choice: 'reject', question: 1 });
    await bound.beside({ ...error(true), session: '1' } as ReturnType<typeof error>);
    expect([bound.aside, told(bound).at(-1)]).toEqual([
      'error · at work',
      'failed: it fell over. /run retry pm+ or /run abort pm+',
    ]);
    expect(await bound.beside({ type: 'RESUME', by: null })).toEqual(['AGENT_EXECUTION_ERROR']);
    expect(await bound.beside({ type: 'RESUME', by })).toEqual([null]);
    expect(bound.aside).toBe('running · at work');
  });

  test('pauses at its limit until a person continues it', async () => {
    const bound = await asking();
    await bound.floor({ type: 'decide', by, choice: 'reject', question: 1 });
    for (let turn = 2; turn <= 50; turn += 1) await bound.beside({ type: 'STEP', session: '1', turn, toolCalls: [] });
    const limit = 200;
    for (let turn = 51; turn <= limit; turn += 1)
      await bound.beside({ type: 'STEP', session: '1', turn, toolCalls: [] });
    expect(bound.aside).toBe('paused turn_limit · used 200 of 200 steps');
    expect(findBackgroundRun(bound.hall, 'pm')?.question?.detail).toBe(
      'Continue (/allow): run pm+#1 continues with 200 more. Abort (/reject): ends it; /run complete pm+ ends it with the result so far.',
    );
    expect(await bound.beside({ type: 'RESUME', by: null })).toEqual(['APPROVAL_OPEN']);
    const { question = 0 } = findBackgroundRun(bound.hall, 'pm')?.question ?? {};
    await bound.floor({ type: 'shown', question }, { type: 'decide', by, choice: 'allow', question });
    expect(bound.aside).toBe('running · at work');
  });

  test('cut by a restart continues in another session, and a call that was running has an unknown outcome', async () => {
    const bound = await asking();
    await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'allow', question: 1 });
    await bound.beside(claim('a'));
    expect(await bound.beside({ type: 'RECOVER' })).toEqual([null]);
    expect([bound.aside, bound.runs.state(runKeyOf(BESIDE))?.unknown]).toEqual([
      'paused user_input · at work',
      ['d-a'],
    ]);
    expect(await bound.beside({ type: 'RESUME', by })).toEqual(['AGENT_NOT_RUNNING']);
    await bound.beside({ type: 'ATTACH', session: '2' }, { type: 'RESUME', by: null });
    expect(bound.aside).toBe('running · at work');
    expect(await bound.beside({ type: 'REQUEST', session: '1', calls: [CALL] })).toEqual(['AGENT_NOT_RUNNING']);
  });

  test.each([
    ['agent', 'RECOVER'],
    ['conch', 'RECOVER'],
    ['agent', 'LOST'],
  ] as const)(
    'keeps its request when the session that asked has ended (%s, %s), and a decision counts once',
    async (source, how) => {
      const bound = await (await new Bound().granted()).besideAsking({ source, tool: 'execute' });
      const gone = how === 'RECOVER' ? ({ type: how } as const) : { ...error(true, 'LOST'), session: '1' };
      expect(await bound.beside(gone as RunCommand)).toEqual([null]);
      expect(await bound.beside({ type: 'ATTACH', session: '2' }, { type: 'RESUME', by: null })).toEqual([
        null,
        'APPROVAL_OPEN',
      ]);
      expect(findBackgroundRun(bound.hall, 'pm')?.question).toMatchObject({
        question: 1,
        title: 'execute',
        restarted: true,
      });
      expect(notices(bound)).toEqual([
        [1, undefined, 1],
        [1, true, 2],
      ]);
      await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'allow', question: 1 });
      if (how === 'LOST') await bound.beside({ type: 'RESUME', by });
      const again = { ...CALL, source, tool: 'execute', digest: 'd-a' };
      expect(await bound.beside({ type: 'REQUEST', session: '2', calls: [again] })).toEqual([null]);
      expect(bound.aside).toBe('running · at work');
      await bound.beside(claim('c', { digest: 'd-a', verdict: 'ask' }), settle('c'));
      await bound.beside({ type: 'REQUEST', session: '2', calls: [{ ...again, id: 'e' }] });
      expect(bound.aside).toBe('paused approval_required · execute');
    },
  );
});

const CALL = {
  id: 'c',
  tool: 'mcp__files__write',
  input: {},
  digest: 'd-c',
  rule: null,
  source: 'agent',
  verdict: 'ask',
  repeatable: false,
} as const;

describe('the channel messages of background runs', () => {
  /** The announcements with their repeat counts. A count of 2 or more edits the message that was posted last. */
  const lines = (bound: Bound): readonly string[] =>
    bound.store.floors
      .journal(HALL, 1_000)
      .flatMap(({ fact }) =>
        fact.type === 'announced' && fact.announcement.kind === 'aside'
          ? [`${fact.announcement.what} ×${fact.repeat}`]
          : [],
      );
  const starts = (prompt: string, session = '1'): RunCommand => ({
    ...start({ runType: 'background', waitMs: WAIT_MS, session, prompt }),
  });

  test('T56 announce each event of a background run in its own message', async () => {
    const bound = await new Bound().granted();
    await bound.beside(starts('look for dead links'), step(1, [], '1'), done);
    await bound.beside(starts('look again'), step(1, [], '1'), { type: 'ABORT', reason: 'not needed', by });
    expect(lines(bound)).toEqual([
      'starts: look for dead links ×1',
      'completed after 1 step ×1',
      'starts: look again ×1',
      'was aborted: not needed ×1',
    ]);
  });

  test('T56 are not edited for the same event of another run', async () => {
    const bound = await new Bound().granted();
    for (const _ of [1, 2]) await bound.beside(starts('look'), { type: 'ABORT', reason: 'not needed', by });
    expect(lines(bound).filter((line) => !line.endsWith('×1'))).toEqual([]);
  });

  test('T56 offer a button to retry a failed run until people retry it', async () => {
    const lost = { code: 'AGENT_EXECUTION_ERROR', message: 'exited with code 137', recoverable: true };
    const failing = { type: 'ERROR', session: '1', error: lost } as const;
    const bound = await new Bound().granted();
    await bound.beside(starts('look'), step(1, [], '1'), failing);
    expect(findBackgroundRun(bound.hall, 'pm')?.failed).toBe(true);
    const failed = cardOf(viewOf(bound.hall, bound.at, bound.store.id), String, String).buttons.find(({ label }) =>
      label.startsWith('Retry'),
    );
    expect(failed).toMatchObject({ label: 'Retry pm+', line: '/run retry pm+', drawnFor: forTurn(bound.store.id, 1) });
    await bound.beside({ type: 'RESUME', by });
    expect(findBackgroundRun(bound.hall, 'pm')?.failed).toBeUndefined();
    expect(lines(bound).at(-1)).toBe('is retried ×1');
  });

  test('T58 announce the outcome of an approved call of a background run', async () => {
    const bound = await asking();
    await bound.floor({ type: 'shown', question: 1 }, { type: 'decide', by, choice: 'allow', question: 1 });
    await bound.beside(claim('a'), settle('a'));
    const came = bound.store.floors
      .journal(HALL, 1_000)
      .flatMap(({ fact }) =>
        fact.type === 'announced' && fact.announcement.kind === 'answered'
          ? [fact.announcement.callOutcome?.status]
          : [],
      );
    expect(came).toEqual([undefined, 'complete']);
  });
});
