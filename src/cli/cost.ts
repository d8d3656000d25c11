import type { LedgerRow } from '../engine/machine-uses.ts';
import { readLedger } from '../engine/sqlite/ledger.ts';
import type { Instant } from '../lib/time.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import { notSince, sinceOf } from './database.ts';
import type { Done } from './database.ts';

/** The groups by which costs can be summed. */
export const COST_GROUPS = ['agent', 'channel', 'person', 'model'] as const;
type CostGroup = (typeof COST_GROUPS)[number];

type CostOptions = {
  readonly by: CostGroup;
  readonly since: string | null;
  readonly json: boolean;
  readonly csv: boolean;
};

/** Sums the recorded costs of model calls since a time, by agent, channel, person or model. */
export function costed(path: string, { by, since, json, csv }: CostOptions, now: Instant): Done {
  const from = sinceOf(since, now);
  if (from === null) return notSince(since);
  const costs = costsBy(by, readLedger(path, from));
  const text = csv ? costCsv(costs) : json ? JSON.stringify(costs) : costText(costs);
  return { ok: true, text, code: EXIT_CODES.ok };
}

/**
 * What each column of a cost table counts for one model call. A call without an outcome counts as answered. `…Micros`
 * are millionths of a dollar. `unpricedTokens`: tokens with an unknown cost.
 */
const COLUMNS = {
  calls: () => 1,
  answered: ({ outcome }) => Number(outcome === 'answered' || outcome === null),
  passed: ({ outcome }) => Number(outcome === 'passed'),
  failed: ({ outcome }) => Number(outcome === 'failed'),
  retried: ({ outcome }) => Number(outcome === 'retried'),
  stopped: ({ outcome }) => Number(outcome === 'stopped'),
  tokens: ({ tokens }) => tokens,
  input: ({ input }) => input ?? 0,
  output: ({ output }) => output ?? 0,
  cached: ({ cached }) => cached ?? 0,
  costMicros: ({ costMicros }) => costMicros ?? 0,
  reportedMicros: ({ source, costMicros }) => (source === 'reported' ? (costMicros ?? 0) : 0),
  computedMicros: ({ source, costMicros }) => (source === 'computed' ? (costMicros ?? 0) : 0),
  estimatedMicros: ({ source, costMicros }) => (source === 'estimated' ? (costMicros ?? 0) : 0),
  unpricedTokens: ({ source, costMicros, tokens }) => (costMicros === null || source === 'unpriced' ? tokens : 0),
} as const satisfies Readonly<Record<string, (call: LedgerRow) => number>>;

type CostSum = Readonly<Record<keyof typeof COLUMNS, number>>;

/** Costs by group, and in total. `name`: the name of the group; `null` when it is not known. */
type Costs = {
  readonly by: CostGroup;
  readonly groups: readonly (CostSum & { readonly name: string | null })[];
  readonly total: CostSum;
};

/**
 * Sums model calls by group. The group with the highest cost comes first; of groups with equal cost, the one with more
 * tokens.
 */
export function costsBy(by: CostGroup, rows: readonly LedgerRow[]): Costs {
  const groups = [...Map.groupBy(rows, (row) => nameIn(by, row))].map(([name, some]) => ({ name, ...sumOf(some) }));
  const compareCosts = (a: CostSum, b: CostSum): number => b.costMicros - a.costMicros || b.tokens - a.tokens;
  return { by, groups: groups.toSorted(compareCosts), total: sumOf(rows) };
}

function sumOf(rows: readonly LedgerRow[]): CostSum {
  const sums = Object.entries(COLUMNS).map(([column, count]) => [
    column,
    rows.reduce((sum, row) => sum + count(row), 0),
  ]);
  return Object.fromEntries(sums) as CostSum;
}

/** Formats costs as a table. */
export function costText({ by, groups, total }: Costs): string {
  if (total.calls === 0) return 'No model calls are recorded.';
  const lineOf = (name: string, sum: CostSum): readonly string[] => {
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

/** Formats costs as comma-separated values, one line for each group after the line of column names. */
export function costCsv({ by, groups }: Costs): string {
  const lines = groups.map(({ name, ...sum }) => [inQuotes(name ?? ''), ...Object.values(sum)]);
  return [[by, ...Object.keys(COLUMNS)], ...lines].map((line) => line.join(',')).join('\n');
}

function nameIn(by: CostGroup, { agent, key, requestedBy, model, backend }: LedgerRow): string | null {
  const run = model ?? (backend === null ? null : `(${backend})`);
  return { agent, channel: key, person: requestedBy, model: run }[by];
}

/** Formats a cost. Tokens without a price show as "unpriced", not as $0. */
function moneyOf({ calls, costMicros, tokens, unpricedTokens }: CostSum): string {
  const money = `$${(costMicros / 1_000_000).toFixed(4)}`;
  if (unpricedTokens === 0 || calls === 0) return money;
  return unpricedTokens === tokens && costMicros === 0 ? 'unpriced' : `${money} + unpriced`;
}

function sourcesOf(total: CostSum): string {
  const parts = (['reported', 'computed', 'estimated'] as const)
    .filter((source) => total[`${source}Micros`] > 0)
    .map((source) => `$${(total[`${source}Micros`] / 1_000_000).toFixed(4)} ${source}`);
  const { unpricedTokens } = total;
  if (unpricedTokens > 0) parts.push(`${unpricedTokens.toLocaleString('en-US')} tokens unpriced`);
  return parts.length === 0 ? 'All calls were free.' : `Of it ${parts.join(', ')}.`;
}

function inQuotes(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
