import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ServerFrame } from '../../src/adapters/console/protocol.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { FloorView } from '../../src/turns/view.ts';
import { Ledger } from './ledger.ts';
import { folder } from '../engine/sqlite/fixture.ts';
import { Bound } from '../work/runs/bound.ts';
import { settle } from '../work/runs/fixture.ts';
import { runKillLoop } from './loop.ts';
import { verifyAnswers, verifyReports, verifyTools } from './tools.ts';

const { faults: NOTHING } = new Ledger();

describe('a program that is killed under load', () => {
  test('loses nothing, says nothing twice and has at most one holder per floor', async () => {
    const { faults, messages, recoveriesMs, mostAtOnce } = await runKillLoop({
      cycles: 3,
      seed: 20,
      burst: 60,
    });
    expect(faults).toEqual(NOTHING);
    expect(messages).toBeGreaterThan(20);
    expect(mostAtOnce).toBeGreaterThan(50);
    expect(recoveriesMs.length).toBeGreaterThan(1);
  }, 300_000);
});

describe('the check of tool calls', () => {
  /** Faults of pm's run with one claimed call. `lines`: the log of the server. `more`: further steps of the run. */
  const found = async (lines: readonly object[], more: (bound: Bound) => Promise<unknown> = async () => undefined) => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    const tool = { tool: 'mcp__scratch__write_file', source: 'conch' } as const;
    await bound.requests('a', { ...tool, verdict: 'allow' });
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
    await more(bound);
    await bound.store.close();
    const file = join(dirname(place.file()), 'effects');
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const ledger = new Ledger();
    verifyTools(place.file(), file, ledger);
    const counts = Object.entries(ledger.faults).map(([kind, faults]) => [kind, faults.length] as const);
    return Object.fromEntries(counts.filter(([, count]) => count > 0));
  };
  const done = { tool: 'write_file', 'conch/call': 'one' };

  test('finds no fault in a call that is stored with its outcome', async () => {
    expect(await found([done], (bound) => bound.run(settle('a')))).toEqual({});
  });

  test('reports a call that is left open', async () => {
    expect(await found([done])).toEqual({ unknownUnmarked: 1 });
  });

  test('reports a call that reached its server twice, and calls that nobody claimed', async () => {
    expect(await found([done, done], (bound) => bound.run(settle('a')))).toEqual({ effectsTwice: 2 });
    const other = { ...done, 'conch/call': 'two' };
    expect(await found([done, other], (bound) => bound.run(settle('a')))).toEqual({ effectsTwice: 1 });
  });

  test('reports a form that is not stored, and an answer that its form does not allow', async () => {
    const filled = { tool: 'form', page: 2 };
    const asks = async (bound: Bound): Promise<void> => {
      await bound.run(settle('a'));
      const tool = { tool: 'mcp__scratch__write_file', source: 'conch', verdict: 'allow' } as const;
      await bound.requests('b', { ...tool, input: { message: 'Which page?', requestedSchema: {} } });
      await bound.run({ type: 'CLAIM', call: 'b', digest: 'd-b', verdict: 'allow' });
      await bound.run({ type: 'SETTLE', call: 'b', status: 'complete', output: '{"page":2}', duration: 0, code: null });
    };
    expect(await found([done, filled], asks)).toEqual({});
    expect(await found([done, filled, filled], asks)).toEqual({ effectsTwice: 1 });
    expect(await found([done, { ...filled, page: 4 }], asks)).toEqual({ other: 1 });
  });

  test('reports a call that is stored as complete and never reached its server', async () => {
    expect(await found([], (bound) => bound.run(settle('a')))).toEqual({ other: 1 });
  });

  test('reports a question without an end, and an answer that is not stored', async () => {
    const asks = async (bound: Bound): Promise<void> => {
      await bound.run(settle('a'));
      await bound.requests('b', { tool: 'mcp__scratch__write_file' });
    };
    expect(await found([done], asks)).toEqual({ approvalsLost: 1, unknownUnmarked: 1 });
    const ledger = new Ledger();
    ledger.answered.push({ channel: 'console:hall', question: 1, choice: 'allow' });
    verifyAnswers(new Map([['console:hall', []]]), ledger);
    expect(ledger.faults.approvalsLost).toEqual(['allow to question 1 of console:hall is not on record']);
  });
});

describe('the check of reports from background runs', () => {
  const told = (ended: readonly string[], facts: readonly Fact[]) => {
    const ledger = new Ledger();
    verifyReports(new Map([['console:hall', ended]]), new Map([['console:hall', facts]]), ledger);
    return [ledger.faults.lost.length, ledger.faults.twice.length];
  };
  const due: Fact = { type: 'asideEnded', agent: 'pm', report: 'Two links are dead.' };
  const said: Fact = { type: 'reported', agent: 'pm', line: 1, text: 'Two links are dead.' };

  test('finds no fault when each report is said once', () => {
    expect(told(['Two links are dead.'], [due, said])).toEqual([0, 0]);
  });

  test('reports a report that never reached its floor, was never said, or was said twice', () => {
    expect(told(['Two links are dead.'], [])).toEqual([1, 0]);
    expect(told(['Two links are dead.'], [due])).toEqual([1, 0]);
    expect(told(['Two links are dead.'], [due, said, said])).toEqual([0, 1]);
  });
});

describe('the check of what pages show', () => {
  const seat = (agent: string, status: 'ACTIVE' | 'QUEUED') => ({ agent, status, disabled: false, waitUntil: null });
  const shown = (epoch: number, holder: string | null, active: readonly string[]): ServerFrame => {
    const held = {
      epoch,
      status: 'ACTIVE',
      startedAt: 0,
      deadlineAt: null,
      waitingFor: null,
      working: false,
      approval: null,
    } as const;
    const view: FloorView = {
      channel: 'console:demo',
      store: 'x',
      condition: 'open',
      mode: 'inject',
      order: 'round-robin',
      epoch,
      holder: holder === null ? null : { agent: holder, ...held },
      seats: ['pm', 'dev'].map((agent) => seat(agent, active.includes(agent) ? 'ACTIVE' : 'QUEUED')),
      next: [],
      held: [],
      turns: null,
      obstacles: [],
    };
    return { type: 'batch', now: 0, channel: 'console:demo', messages: [], changed: [], view, turns: [] };
  };

  test.each([
    ['two agents ACTIVE at once', [shown(1, 'pm', ['pm', 'dev'])]],
    ['an ACTIVE agent who does not hold', [shown(1, 'pm', ['dev'])]],
    ['an epoch with two holders', [shown(1, 'pm', ['pm']), shown(1, 'dev', ['dev'])]],
  ])('reports a double holder for %s', (_what, frames) => {
    const ledger = new Ledger();
    for (const frame of frames) ledger.look('page', frame);
    expect(ledger.faults.doubleHolders).toHaveLength(1);
  });

  test('reports an epoch that goes backwards as lost', () => {
    const ledger = new Ledger();
    for (const epoch of [4, 5, 4]) ledger.look('page', shown(epoch, null, []));
    expect(ledger.faults).toEqual({ ...NOTHING, lost: ['page saw epoch 5 of console:demo, then 4'] });
  });
});
