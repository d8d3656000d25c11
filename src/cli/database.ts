import { resolve } from 'node:path';
import type { CommandLine } from './arguments.ts';
import { costCsv, costText, costsBy } from './cost.ts';
import { restore } from '../engine/sqlite/backup.ts';
import { databaseProblems, readJournals } from '../engine/sqlite/check.ts';
import { readLedger } from '../engine/sqlite/ledger.ts';
import { MACHINES, databaseIn } from '../runtime/data-folder.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import type { Instant } from '../lib/time.ts';
import { quoted } from '../turns/commands/parse.ts';
import { runOnFloor, seatOfRuns } from '../work/runs/floor-binding.ts';
import { toolCallRows } from '../work/runs/call-record.ts';
import { callWords } from '../turns/tool-calls.ts';

/** What is done to the database in a data folder by the command line alone. */
export type DatabaseCall = Extract<CommandLine, { verb: 'verify' | 'audit' | 'cost' | 'restore' }>;

/** What came of it: a text for people, to be said or complained of. */
export type Done = { readonly ok: boolean; readonly text: string; readonly code: ExitCode };

/** Does it. Rejects with a `StoreError` that says what to do when the database cannot be used. */
export async function runOnDatabase(call: DatabaseCall, dataDir: string, now: Instant): Promise<Done> {
  const path = resolve(databaseIn(dataDir));
  if (call.verb === 'restore') return restored(resolve(call.file), path);
  if (call.verb === 'audit') return audited(path, call, now);
  if (call.verb === 'cost') return costed(path, call, now);
  const file = call.file === null ? path : resolve(call.file);
  const problems = databaseProblems(file, call.background ? [] : MACHINES);
  const code = problems.length === 0 ? EXIT_CODES.ok : EXIT_CODES.databaseUnreadable;
  if (call.json) return { ok: true, text: JSON.stringify({ problems }), code };
  return { ok: problems.length === 0, text: verdictOf(file, problems), code };
}

/** Every tool call since then, oldest first: a line each, for people or as JSON. */
function audited(path: string, { since, json }: Extract<DatabaseCall, { verb: 'audit' }>, now: Instant): Done {
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

/** The calls of models since then, summed. */
function costed(path: string, { by, since, format }: Extract<DatabaseCall, { verb: 'cost' }>, now: Instant): Done {
  const from = sinceOf(since, now);
  if (from === null) return notSince(since);
  const costs = costsBy(by, readLedger(path, from));
  const text = format === 'json' ? JSON.stringify(costs) : format === 'csv' ? costCsv(costs) : costText(costs);
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
  if (problems.length === 0) return `✓ ${file} is whole: every row is what was written, and every journal is unbroken.`;
  const lines = problems.map((problem) => `  ${problem}`);
  return [`✗ ${file} is damaged:`, ...lines, 'End Conch and restore the last backup: conch restore <file>'].join('\n');
}

async function restored(file: string, path: string): Promise<Done> {
  const aside = await restore(file, path);
  const kept = aside === null ? '' : ` What was there is kept as ${aside}.`;
  const next =
    'At the next start the number of every turn jumps ahead, and posts still owed are looked for before they are sent.';
  return { ok: true, text: `${file} is now ${path}.${kept} ${next}`, code: EXIT_CODES.ok };
}
