import { restore } from '../engine/sqlite/backup.ts';
import { databaseProblems, readJournals } from '../engine/sqlite/check.ts';
import { readLedger } from '../engine/sqlite/ledger.ts';
import type { LedgerRow } from '../engine/machine-uses.ts';
import { MACHINES } from '../runtime/machines.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import type { Instant } from '../lib/time.ts';
import { quoted } from '../turns/commands/parse.ts';
import { runOnFloor, seatOfRuns } from '../work/runs/floor-binding.ts';
import { toolCallRows } from '../work/runs/call-record.ts';
import { callWords } from '../turns/tool-calls.ts';

/** The groups by which costs can be summed. */
export const COST_GROUPS = ['agent', 'channel', 'person', 'model'] as const;
type CostGroup = (typeof COST_GROUPS)[number];

/** The result of a command: a text for standard output or, if not `ok`, for standard error. */
export type Done = { readonly ok: boolean; readonly text: string; readonly code: ExitCode };

/**
 * Checks a database or a backup. `background` skips the replay of journals. Throws a `StoreError` that says what to do
 * when the file cannot be used.
 */
export function verified(
  file: string,
  { json, background }: { readonly json: boolean; readonly background: boolean },
): Done {
  const problems = databaseProblems(file, background ? [] : MACHINES);
  const code = problems.length === 0 ? EXIT_CODES.ok : EXIT_CODES.databaseUnreadable;
  if (json) return { ok: true, text: JSON.stringify({ problems }), code };
  return { ok: problems.length === 0, text: verdictOf(file, problems), code };
}

/** Lists every tool call since a time, oldest first: one line each, for people or as JSON. */
export function audited(
  path: string,
  { since, json }: { readonly since: string | null; readonly json: boolean },
  now: Instant,
): Done {
  const from = sinceOf(since, now);
  if (from === null) return notSince(since);
  const rows = [...readJournals(path, runOnFloor)].flatMap(([key, entries]) =>
    toolCallRows(entries).map((row) => ({ ...seatOfRuns(key), ...row })),
  );
  const wanted = rows.filter(({ askedAt }) => askedAt >= from).toSorted((a, b) => a.askedAt - b.askedAt);
  const lines = wanted.map((row) =>
    json
      ? JSON.stringify(row)
      : `${new Date(row.askedAt).toISOString()}  ${row.channel} ${row.agent}  ${callWords(row, LONGEST_INPUT)}`,
  );
  return { ok: true, text: lines.join('\n') || (json ? '' : 'No tool calls.'), code: EXIT_CODES.ok };
}

const LONGEST_INPUT = 200;
const UNIT_MS = { h: 3_600_000, d: 86_400_000 } as const;

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

function notSince(since: string | null): Done {
  const text = `Expected a day or how long ago after --since, as 2026-11-22, 7d or 2h, got ${quoted(since ?? '')}.`;
  return { ok: false, text, code: EXIT_CODES.usage };
}

function sinceOf(text: string | null, now: Instant): Instant | null {
  if (text === null) return 0;
  const [, count, unit] = /^(\d{1,5})([hd])$/.exec(text) ?? [];
  if (count !== undefined) return now - Number(count) * UNIT_MS[unit === 'h' ? 'h' : 'd'];
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? null : at;
}

function verdictOf(file: string, problems: readonly string[]): string {
  if (problems.length === 0)
    return `✓ ${file} is intact: every row matches its checksum and every journal is complete.`;
  const lines = problems.map((problem) => `  ${problem}`);
  return [`✗ ${file} is damaged:`, ...lines, 'Stop Conch and restore the last backup: conch restore <file>'].join('\n');
}

/** Replaces the database at `path` by a backup. */
export async function restored(file: string, path: string): Promise<Done> {
  const aside = await restore(file, path);
  const kept = aside === null ? '' : ` The former database is kept as ${aside}.`;
  const next =
    'At the next start turn numbers jump ahead, and pending posts are searched for in the channel before they are sent.';
  return { ok: true, text: `${path} was restored from ${file}.${kept} ${next}`, code: EXIT_CODES.ok };
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
  const first = (one: CostSum, other: CostSum): number =>
    other.costMicros - one.costMicros || other.tokens - one.tokens;
  return { by, groups: groups.toSorted(first), total: sumOf(rows) };
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
