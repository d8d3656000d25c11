import { restore } from '../engine/sqlite/backup.ts';
import { databaseProblems, readJournals } from '../engine/sqlite/check.ts';
import { MACHINES } from '../runtime/machines.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import type { Instant } from '../lib/time.ts';
import { quoted } from '../turns/commands/parse.ts';
import { runOnFloor } from '../work/runs/floor-binding.ts';
import { toolCallRows } from '../work/runs/call-record.ts';
import { auditRow } from '../work/runs/run-audit.ts';
import { callWords } from '../turns/tool-calls.ts';

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
    toolCallRows(entries).map((row) => auditRow(key, row)),
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

/** Says that the value after `--since` is not a time. */
export function notSince(since: string | null): Done {
  const text = `Expected a day or how long ago after --since, as 2026-11-22, 7d or 2h, got ${quoted(since ?? '')}.`;
  return { ok: false, text, code: EXIT_CODES.usage };
}

/** Returns the instant that a value after `--since` names: 0 without a value; `null` when it is not a time. */
export function sinceOf(text: string | null, now: Instant): Instant | null {
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
  const formerFile = await restore(file, path);
  const formerNote = formerFile === null ? '' : ` The former database is kept as ${formerFile}.`;
  const next =
    'At the next start turn numbers jump ahead, and pending posts are searched for in the channel before they are sent.';
  return { ok: true, text: `${path} was restored from ${file}.${formerNote} ${next}`, code: EXIT_CODES.ok };
}
