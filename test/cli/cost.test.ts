import { describe, expect, test } from 'vitest';
import { parseCall } from '../../src/cli/arguments.ts';
import { COST_GROUPS, costCsv, costText, costed, costsBy } from '../../src/cli/cost.ts';
import { callOf } from './call.ts';
import type { LedgerRow } from '../../src/engine/machine-uses.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { AT, folder, open, seat } from '../engine/sqlite/fixture.ts';
import * as fc from 'fast-check';

const CALL: LedgerRow = {
  key: 'test:one',
  at: AT,
  agent: 'pm',
  epoch: 1,
  run: null,
  requestedBy: 'u1',
  backend: 'llm/openai',
  model: 'big-1',
  tokens: 1_100,
  input: 1_000,
  output: 100,
  cached: 900,
  costMicros: 3_500,
  source: 'computed',
  outcome: 'answered',
  ms: 40,
};

const UNPRICED = { costMicros: null, source: 'unpriced' } as const;

const calls = fc.array(
  fc
    .record({
      agent: fc.constantFrom('pm', 'dev', 'qa'),
      key: fc.constantFrom('test:one', 'test:two, "quoted"'),
      requestedBy: fc.constantFrom('u1', 'u2', null),
      model: fc.constantFrom('big-1', null),
      outcome: fc.constantFrom('answered', 'passed', 'failed', 'retried', 'stopped', null),
      tokens: fc.nat(1_000_000),
      cost: fc.oneof(
        fc.constant(UNPRICED),
        fc.record({ costMicros: fc.nat(5_000_000), source: fc.constantFrom('reported', 'computed', 'estimated') }),
      ),
    })
    .map(({ cost, ...call }): LedgerRow => ({ ...CALL, ...call, ...cost })),
  { maxLength: 60, size: 'max' },
);

const sumIn = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0);

describe('the cost of model calls', () => {
  test('has the same total for every grouping: the sum of the rows', () => {
    fc.assert(
      fc.property(calls, (rows) => {
        for (const by of COST_GROUPS) {
          const { groups, total } = costsBy(by, rows);
          expect(total.costMicros).toBe(sumIn(rows.map(({ costMicros }) => costMicros ?? 0)));
          expect(total.tokens).toBe(sumIn(rows.map(({ tokens }) => tokens)));
          expect(total.calls).toBe(rows.length);
          for (const [key, sum] of Object.entries(total))
            expect([key, sumIn(groups.map((group) => Number(Reflect.get(group, key))))]).toEqual([key, sum]);
          const { reportedMicros, computedMicros, estimatedMicros, answered, passed, failed, retried, stopped } = total;
          expect(reportedMicros + computedMicros + estimatedMicros).toBe(total.costMicros);
          expect(answered + passed + failed + retried + stopped).toBe(rows.length);
          const [head = '', ...lines] = costCsv({ by, groups, total }).split('\n');
          const column = head.split(',').indexOf('costMicros') - head.split(',').length;
          expect(sumIn(lines.map((line) => Number(line.split(',').at(column))))).toBe(total.costMicros);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('is "unpriced" without a price, and names the computed and estimated parts', () => {
    const rows: readonly LedgerRow[] = [
      CALL,
      { ...CALL, outcome: 'passed', source: 'estimated', costMicros: 100 },
      { ...CALL, agent: 'dev', ...UNPRICED, outcome: 'failed', tokens: 7 },
      { ...CALL, agent: 'qa', costMicros: 0, outcome: 'retried' },
    ];
    expect(costText(costsBy('agent', rows)).split('\n')).toEqual([
      'agent  calls  passed  failed  retried  tokens                cost',
      'pm         2       1       0        0   2,200             $0.0036',
      'qa         1       0       0        1   1,100             $0.0000',
      'dev        1       0       1        0       7            unpriced',
      'total      4       1       1        1   3,307  $0.0036 + unpriced',
      'Of it $0.0035 computed, $0.0001 estimated, 7 tokens unpriced.',
    ]);
    expect(costText(costsBy('model', []))).toBe('No model calls are recorded.');
  });

  test('is grouped under the backend when the model is unknown, and under null when the person is', () => {
    const rows = [
      { ...CALL, model: null, requestedBy: null },
      { ...CALL, model: null, backend: null },
    ];
    expect(costsBy('model', rows).groups.map(({ name }) => name)).toEqual(['(llm/openai)', null]);
    expect(costsBy('person', rows).groups.map(({ name }) => name)).toEqual([null, 'u1']);
    expect(costsBy('channel', rows).groups.map(({ name }) => name)).toEqual(['test:one']);
    expect(costCsv(costsBy('channel', [{ ...CALL, key: 'a,"b"' }])).split('\n')[1]).toMatch(/^"a,""b""",1,1,/);
  });
});

describe('conch cost', () => {
  const DAY_MS = 86_400_000;

  async function cost(path: string, words: readonly string[]) {
    return costed(path, callOf(['cost', ...words]).options, AT + 2 * DAY_MS);
  }

  test('sums the calls since a time, while Conch uses the database', async () => {
    using place = folder();
    const store = open(place.file());
    await seat(store);
    const spend = { type: 'spend', agent: 'pm', epoch: 1, tokens: 50, costMicros: 9 } as const;
    await store.floors.apply('test:one', spend, AT);
    await store.floors.apply('test:one', { ...spend, agent: 'dev', tokens: 70 }, AT + DAY_MS);
    const all = JSON.parse((await cost(place.file(), ['--json'])).text) as unknown;
    expect(all).toMatchObject({ by: 'agent', groups: [{ name: 'dev' }, { name: 'pm' }], total: { tokens: 120 } });
    const since = (await cost(place.file(), ['--since', '36h', '--csv', '--by', 'channel'])).text.split('\n');
    expect(since).toEqual([
      expect.stringMatching(/^channel,calls,/),
      expect.stringMatching(/^test:one,1,1,0,0,0,0,70,/),
    ]);
    expect((await cost(place.file(), [])).text).toContain('total');
    expect(await cost(place.file(), ['--since', 'soon'])).toMatchObject({ ok: false, code: EXIT_CODES.usage });
    await store.close();
  });

  test('lists the allowed groupings when --by is invalid', () => {
    expect(parseCall(['cost', '--by', 'colour'])).toMatchObject({
      ok: false,
      message: expect.stringContaining("'colour' is invalid. Allowed choices are agent, channel, person, model."),
    });
  });
});
