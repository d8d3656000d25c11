import { describe, expect, test } from 'vitest';
import type { StoredFact } from '../../../src/engine/port.ts';
import type { AuditRow } from '../../../src/turns/tool-calls.ts';
import { viewOf } from '../../../src/turns/view.ts';
import { runKeyOf } from '../../../src/work/runs/floor-binding.ts';
import { toolCallRows } from '../../../src/work/runs/call-record.ts';
import { createAudit, newestCalls } from '../../../src/work/runs/run-audit.ts';
import type { RunFact } from '../../../src/work/runs/run-events.ts';
import { defined } from '../../../src/lib/defined.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { BESIDE, Bound, SEAT } from './bound.ts';
import { RunBench, abort, asking, call, claim, decide, settle, start, step } from './fixture.ts';

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;

/** The journal of a seat with several runs: calls that were allowed, requested, denied, cut off and left open. */
function busy(offset: number, runs: number): readonly Entry[] {
  const bench = new RunBench();
  bench.at += offset;
  for (let run = 0; run < runs; run += 1) {
    bench.do(start({ requestedBy: `u${run}` }), step(1, [call(`${run}.a`), asking(`${run}.b`)]));
    bench.at += 1_000;
    bench.do(claim(`${run}.a`), settle(`${run}.a`));
    bench.at += 1_000;
    if (bench.approval !== null) bench.do(decide(bench, run % 2 === 0 ? 'allow' : 'deny'));
    if (run % 2 === 0) bench.do(claim(`${run}.b`));
    bench.do(run % 4 === 0 ? settle(`${run}.b`) : abort, abort);
    bench.at += 1_000;
  }
  return bench.journal.map(({ at, fact }, index) => ({ seq: index + 1, at, fact }));
}

const SEATS = new Map([
  ['console:hall pm', busy(0, 9)],
  ['console:hall dev+', busy(500, 7)],
  ['discord:7 dev', busy(1_700, 5)],
]);
const KEYS = [...SEATS.keys()];

/** Reads the journal of a seat, newest entry first, and counts the entries that were read. */
function reader(): { readonly newest: (key: string) => Iterable<Entry>; read: number } {
  const counted = {
    read: 0,
    *newest(key: string) {
      for (const entry of SEATS.get(key)?.toReversed() ?? []) {
        counted.read += 1;
        yield entry;
      }
    },
  };
  return counted;
}

function rowsOf(calls: Iterable<AuditRow | number>): readonly AuditRow[] {
  return [...calls].filter((each) => typeof each !== 'number');
}

const keyOf = ({ channel, agent, aside }: AuditRow) =>
  runKeyOf({ channel, agent, ...defined({ isBackground: aside }) });

describe("the list of all seats' calls", () => {
  test('has the calls of all journals, newest first', () => {
    const rows = rowsOf(newestCalls(KEYS, reader().newest));
    expect(rows.map(({ askedAt }) => askedAt)).toEqual(rows.map(({ askedAt }) => askedAt).toSorted((a, b) => b - a));
    const ofSeat = (key: string) => rows.filter((row) => keyOf(row) === key).toReversed();
    for (const [key, entries] of SEATS) {
      const told = ofSeat(key).map(({ channel: _channel, agent: _agent, aside: _aside, ...row }) => row);
      expect(told).toEqual(toolCallRows(entries));
    }
    expect(rows).toHaveLength(2 * (9 + 7 + 5));
  });

  test('reads no more journal entries than it needs', () => {
    const from = reader();
    const calls = newestCalls(KEYS, from.newest);
    while (typeof calls.next().value === 'number');
    const all = [...SEATS.values()].reduce((sum, { length }) => sum + length, 0);
    expect(from.read).toBeLessThan(all / 4);
  });

  test('stops at the given start time instead of reading all older entries', () => {
    const since = Math.max(...[...SEATS.values()].flatMap((entries) => entries.map(({ at }) => at))) - 4_000;
    const from = reader();
    const rows = rowsOf(newestCalls(KEYS, from.newest, since)).filter(({ askedAt }) => askedAt >= since);
    expect(rows).toEqual(rowsOf(newestCalls(KEYS, reader().newest)).filter(({ askedAt }) => askedAt >= since));
    expect(from.read).toBeLessThan(SEATS.get('console:hall pm')?.length ?? 0);
  });
});

const offers = [{ rule: 'execute(npm test)', words: 'run exactly npm test' }];

describe('the audit of a store', () => {
  const opened = async () => {
    const bound = await new Bound().begins();
    const audit = createAudit({
      runs: bound.runs,
      view: () => viewOf(bound.hall, bound.at, bound.store.id),
      nameOf: (id) => id,
    });
    return { bound, audit, rows: () => rowsOf({ [Symbol.iterator]: () => audit.calls({}) }) };
  };

  test('lists open requests with their numbers, of turns and background runs', async () => {
    const { bound, audit } = await opened();
    await bound.requests('a');
    await bound.besideAsking();
    expect(audit.standing().asked).toMatchObject([
      { agent: 'pm', channel: 'console:hall', tool: 'mcp__files__write', question: 1 },
      { agent: 'pm', channel: 'console:hall', tool: 'mcp__files__write', question: 2 },
    ]);
    await bound.answers('reject');
    expect(audit.standing().asked).toHaveLength(1);
  });

  test('lists always-allow rules with agent, author, expiry, number of uses and how to revoke them', async () => {
    const { bound, audit, rows } = await opened();
    await bound.requests('a', { words: { title: 'test', detail: 'npm test', offers } });
    await bound.answers('allow', { always: 'execute(npm test)' });
    await bound.run(claim('a'));
    await bound.run(settle('a'));
    expect(audit.standing().remembered).toMatchObject([
      { agent: 'pm', rule: 'execute(npm test)', by: 'ann', uses: 0, usedAt: null, revoke: '/run revoke pm #1.1' },
    ]);
    bound.at += 5_000;
    const yes = bound.state.remembered[0]?.id ?? '';
    await bound.requests('b', { verdict: 'allow', rule: 'execute(npm test)', remembered: yes });
    await bound.requests('c', { verdict: 'allow', rule: 'execute(npm test)' });
    expect(audit.standing().remembered).toMatchObject([{ uses: 1, usedAt: bound.at }]);
    expect(rows().map(({ decision, remembered }) => [decision, remembered])).toEqual([
      ['rule', null],
      ['remembered', yes],
      ['always', null],
    ]);
    await bound.run({ type: 'REVOKE', id: yes, by: 'ann', name: 'Ann' });
    expect(audit.standing().remembered).toEqual([]);
  });

  test('loads the states only of seats that work, worked just before, or have an always-allow rule', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    await bound.requests('a', { words: { title: 'test', detail: 'npm test', offers } });
    await bound.answers('allow', { always: 'execute(npm test)' });
    await bound.floor({ type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true });
    for (let n = 1; n <= 20; n += 1)
      await bound.runs.applyAll(`console:hall dev${n}`, [start(), step(1, []), abort], bound.at);
    await bound.besideAsking();
    await bound.dies();
    const loaded: string[] = [];
    const runs: Parameters<typeof createAudit>[0]['runs'] = {
      state: (key) => (loaded.push(key), bound.runs.state(key)),
      keys: () => bound.runs.keys(),
      awake: () => bound.runs.awake(),
      newest: (key) => bound.runs.newest(key),
      onChange: () => undefined,
    };
    const audit = createAudit({ runs, view: () => null, nameOf: (id) => id });
    const { asked, remembered } = audit.standing();
    expect([asked.length, remembered.length]).toEqual([1, 1]);
    expect(loaded.toSorted()).toEqual(['console:hall pm', 'console:hall pm+']);
  });

  test('reports a call whenever it changes, and no other call', async () => {
    const { bound, audit } = await opened();
    const told: string[] = [];
    audit.onChange((changed) =>
      told.push(
        changed()
          .map((row) => `${row.call} ${row.decision} ${row.status}`)
          .join(),
      ),
    );
    await bound.requests('a');
    await bound.answers('allow');
    await bound.run(claim('a'));
    await bound.run(settle('a'));
    await bound.requests('b', { verdict: 'deny', rule: 'Bash' });
    expect(told).toEqual([
      'a open pending',
      'a once pending',
      'a once running',
      'a once complete',
      'b denied-rule error',
    ]);
  });

  test('shows the taint that a session had when it made the request', async () => {
    const { bound, rows } = await opened();
    await bound.requests('a');
    await bound.answers('allow');
    await bound.run({
      type: 'CLAIM',
      call: 'a',
      digest: 'd-a',
      verdict: 'allow',
      brings: { untrusted: 'example.org' },
    });
    const done = { status: 'complete', output: 'ok', duration: 5, code: null } as const;
    await bound.run({ type: 'SETTLE', call: 'a', ...done });
    await bound.requests('b');
    expect(rows().map(({ call: id, taint }) => [id, taint])).toEqual([
      ['b', 'example.org'],
      ['a', null],
    ]);
  });

  test("shows the turn, request and definition of each call, and the agent's own id for it", async () => {
    const { bound, rows } = await opened();
    await bound.requests('a', { agentCall: 'toolu_1', definition: 'def-1' });
    const known = { session: '1', agentCall: 'toolu_1', definition: 'def-1' };
    const approval = bound.state.run?.pause?.approval?.id;
    expect(approval).toBeDefined();
    expect(rows()).toMatchObject([{ ...known, approval }]);
    await bound.answers('allow');
    await bound.requests('b', { verdict: 'allow' });
    expect(rows()).toMatchObject([
      { agentCall: null, definition: null, approval: null },
      { ...known, approval, decision: 'once' },
    ]);
  });

  test('shows the same after a restart, also for background runs', async () => {
    const { bound, rows } = await opened();
    await bound.requests('a');
    await bound.besideAsking();
    const before = rows();
    expect(before.map(keyOf).toSorted()).toEqual([runKeyOf(SEAT), runKeyOf(BESIDE)].toSorted());
    const again = createAudit({ runs: bound.runs, view: () => null, nameOf: (id) => id });
    expect(rowsOf({ [Symbol.iterator]: () => again.calls({}) })).toEqual(before);
    expect(rowsOf({ [Symbol.iterator]: () => again.calls({ agent: 'dev' }) })).toEqual([]);
  });
});
