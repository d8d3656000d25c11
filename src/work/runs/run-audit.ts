import type { StoredFact } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import type { ToolCallRow } from '../../turns/tool-calls.ts';
import type { RunFact } from './run-events.ts';

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;
type Place = {
  run: string;
  task: string;
  requestedBy: string | null;
  step: number;
  asked: string | null;
  askedAt: Instant;
};

/** The tool calls that a stretch of a seat's journal tells of, oldest first; what was asked for before it is left out. */
export function toolCallRows(entries: readonly Entry[]): readonly ToolCallRow[] {
  const rows: ToolCallRow[] = [];
  const open = new Map<string, number>();
  const place: Place = { run: '', task: '', requestedBy: null, step: 0, asked: null, askedAt: 0 };
  for (const entry of entries) {
    follow(place, entry);
    if (entry.fact.type === 'callRequested') {
      open.set(entry.fact.call.id, rows.length);
      rows.push(requested(place, entry, entry.fact.call));
      continue;
    }
    const call = callOf(entry.fact, place);
    const index = call === null ? undefined : open.get(call);
    const row = index === undefined ? undefined : rows[index];
    if (call === null || index === undefined || row === undefined) continue;
    rows[index] = told(row, entry, place);
    if (entry.fact.type === 'callSettled') open.delete(call);
  }
  return rows;
}

/** The narrowest rules that the questions offered which people allowed three times and more, and how often; those that are remembered are left out. */
export function habits(
  entries: readonly Entry[],
  remembered: readonly { readonly rule: string }[],
): readonly (readonly [rule: string, times: number])[] {
  const offered = new Map<string, string>();
  const times = new Map<string, number>();
  let asked = '';
  for (const { fact } of entries) {
    if (fact.type === 'callRequested') offered.set(fact.call.id, fact.call.words?.offers?.[0]?.rule ?? '');
    if (fact.type === 'paused') asked = fact.approval?.call ?? '';
    const rule = offered.get(asked) ?? '';
    if (fact.type === 'approvalClosed' && fact.state === 'allowed' && rule !== '')
      times.set(rule, (times.get(rule) ?? 0) + 1);
  }
  return [...times].filter(([rule, count]) => count >= HABIT && !remembered.some((yes) => yes.rule === rule));
}

const HABIT = 3;

function follow(place: Place, { fact, at }: Entry): void {
  if (fact.type === 'runStarted')
    Object.assign(place, { run: fact.run, task: fact.task, requestedBy: fact.requestedBy ?? null, step: 0 });
  if (fact.type === 'stepped') place.step = fact.turn;
  if (fact.type === 'paused') Object.assign(place, { asked: fact.approval?.call ?? null, askedAt: at });
}

function callOf(fact: RunFact, { asked }: Place): string | null {
  switch (fact.type) {
    case 'callClaimed':
    case 'callSettled':
    case 'grantUsed':
      return fact.call;
    case 'approvalClosed':
      return asked;
    default:
      return null;
  }
}

type Requested = Extract<RunFact, { type: 'callRequested' }>['call'];

function requested({ run, task, requestedBy, step }: Place, { seq, at }: Entry, call: Requested): ToolCallRow {
  const { id, tool, input, source, digest, rule, verdict } = call;
  const decision =
    rule === 'unasked' ? 'unasked' : verdict === 'allow' ? 'rule' : verdict === 'deny' ? 'denied-rule' : 'open';
  return {
    seq,
    run,
    task,
    requestedBy,
    step,
    call: id,
    tool,
    input,
    source,
    digest,
    decision,
    rule,
    decidedBy: null,
    reason: null,
    status: 'pending',
    outcome: 'known',
    askedAt: at,
    startedAt: null,
    endedAt: null,
    waitMs: 0,
    durationMs: null,
    output: null,
    code: null,
  };
}

function told(row: ToolCallRow, { fact, at }: Entry, { askedAt }: Place): ToolCallRow {
  switch (fact.type) {
    case 'approvalClosed': {
      const { state, by, reason, always } = fact;
      const decisions = { denied: 'denied-person', expired: 'expired', void: 'void' } as const;
      const decision = state === 'allowed' ? (always === null ? 'once' : 'always') : decisions[state];
      return { ...row, decision, rule: always ?? row.rule, decidedBy: by, reason, waitMs: row.waitMs + (at - askedAt) };
    }
    case 'grantUsed':
      return { ...row, decision: 'grant' };
    case 'callClaimed':
      return { ...row, status: 'running', startedAt: at };
    case 'callSettled': {
      const { status, outcome, duration, output, code } = fact;
      const tookMs = duration ?? (row.startedAt === null ? null : at - row.startedAt);
      return { ...row, status, outcome, endedAt: at, durationMs: tookMs, output, code };
    }
    default:
      return row;
  }
}
