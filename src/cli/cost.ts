import type { LedgerRow } from '../engine/sqlite/ledger.ts';

/** By what the calls of models can be summed. */
export const COST_GROUPS = ['agent', 'channel', 'person', 'model'] as const;

export type CostGroup = (typeof COST_GROUPS)[number];

/**
 * What some calls came to, in tokens and millionths of a dollar: all that is known of their cost, and how much of it was reported by
 * their agent, computed, or estimated. Of `unpricedTokens` nobody knows what they cost.
 */
type CostSum = ReturnType<typeof nothing>;

/** What calls came to, in all and by somebody or something; `name`: `null` when that is not known. */
type Costs = {
  readonly by: CostGroup;
  readonly groups: readonly (Readonly<CostSum> & { readonly name: string | null })[];
  readonly total: Readonly<CostSum>;
};

/** Sums calls; what has cost most comes first, then what used most. */
export function costsBy(by: CostGroup, rows: readonly LedgerRow[]): Costs {
  const groups = new Map<string | null, CostSum>();
  const total = nothing();
  for (const row of rows) {
    const name = nameIn(by, row);
    const sum = groups.get(name) ?? nothing();
    groups.set(name, sum);
    add(sum, row);
    add(total, row);
  }
  const all = [...groups].map(([name, sum]) => ({ name, ...sum }));
  const first = (one: CostSum, other: CostSum): number =>
    other.costMicros - one.costMicros || other.tokens - one.tokens;
  return { by, groups: all.toSorted(first), total };
}

/** As a table for people. */
export function costText({ by, groups, total }: Costs): string {
  if (total.calls === 0) return 'No call of a model is on record.';
  const lineOf = (name: string, sum: Readonly<CostSum>): readonly string[] => {
    const counts = [sum.calls, sum.passed, sum.failed, sum.retried, sum.tokens];
    return [name, ...counts.map((each) => each.toLocaleString('en-US')), moneyOf(sum)];
  };
  const lines = [
    [by, 'calls', 'passed', 'failed', 'retried', 'tokens', 'cost'],
    ...groups.map((sum) => lineOf(sum.name ?? 'not known', sum)),
    lineOf('total', total),
  ];
  const width = (column: number): number => Math.max(...lines.map((line) => line[column]?.length ?? 0));
  const table = lines.map(([name = '', ...rest]) =>
    [name.padEnd(width(0)), ...rest.map((text, index) => text.padStart(width(index + 1)))].join('  '),
  );
  return [...table, sourcesOf(total)].join('\n');
}

/** As comma-separated values with a line for each group; what is in millionths of a dollar says so. */
export function costCsv({ by, groups }: Costs): string {
  const columns = Object.keys(nothing());
  const lines = groups.map(({ name, ...sum }) => [inQuotes(name ?? ''), ...Object.values({ ...nothing(), ...sum })]);
  return [[by, ...columns], ...lines].map((line) => line.join(',')).join('\n');
}

function nothing() {
  return {
    calls: 0,
    answered: 0,
    passed: 0,
    failed: 0,
    retried: 0,
    stopped: 0,
    tokens: 0,
    input: 0,
    output: 0,
    cached: 0,
    costMicros: 0,
    reportedMicros: 0,
    computedMicros: 0,
    estimatedMicros: 0,
    unpricedTokens: 0,
  };
}

const OUTCOMES = ['answered', 'passed', 'failed', 'retried', 'stopped'] as const;

function add(sum: CostSum, { tokens, input, output, cached, costMicros, source, outcome }: LedgerRow): void {
  sum.calls += 1;
  // What was written before outcomes were had an answer.
  const came = OUTCOMES.find((each) => each === outcome) ?? 'answered';
  sum[came] += 1;
  sum.tokens += tokens;
  sum.input += input ?? 0;
  sum.output += output ?? 0;
  sum.cached += cached ?? 0;
  sum.costMicros += costMicros ?? 0;
  if (costMicros === null || source === 'unpriced') sum.unpricedTokens += tokens;
  else sum[`${source}Micros`] += costMicros;
}

function nameIn(by: CostGroup, { agent, key, requestedBy, model, backend }: LedgerRow): string | null {
  const names = {
    agent,
    channel: key,
    person: requestedBy,
    model: model ?? (backend === null ? null : `(${backend})`),
  };
  return names[by];
}

/** Never "$0" for what has no price. */
function moneyOf({ calls, costMicros, tokens, unpricedTokens }: Readonly<CostSum>): string {
  const money = `$${(costMicros / 1_000_000).toFixed(4)}`;
  if (unpricedTokens === 0 || calls === 0) return money;
  return unpricedTokens === tokens && costMicros === 0 ? 'unpriced' : `${money} + unpriced`;
}

function sourcesOf(total: Readonly<CostSum>): string {
  const parts = (['reported', 'computed', 'estimated'] as const)
    .filter((source) => total[`${source}Micros`] > 0)
    .map((source) => `$${(total[`${source}Micros`] / 1_000_000).toFixed(4)} ${source}`);
  const { unpricedTokens } = total;
  if (unpricedTokens > 0) parts.push(`${unpricedTokens.toLocaleString('en-US')} tokens unpriced`);
  return parts.length === 0 ? 'Nothing of it had a price above zero.' : `Of it ${parts.join(', ')}.`;
}

function inQuotes(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
