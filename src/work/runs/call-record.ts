import { createHash } from 'node:crypto';
import { canonical } from '../../engine/canonical.ts';
import type { StoredFact } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import type { ToolCallRow } from '../../turns/tool-calls.ts';
import type { RunCommand, RunFact } from './run-events.ts';

/** Returns a digest of parts of a tool call. Calls with the same digest count as equal. */
export function callDigest(parts: readonly unknown[]): string {
  const plain: unknown = JSON.parse(JSON.stringify(parts));
  return createHash('sha256').update(canonical(plain)).digest('base64url');
}

/** Returns the input as it is recorded: `clean` redacts secrets in its keys and texts. */
export function redactedInput(
  input: Readonly<Record<string, unknown>>,
  clean: (text: string) => string,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(input).map(([key, value]) => [clean(key), redact(value, clean)]));
}

function redact(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === 'string') return clean(value);
  if (Array.isArray(value)) return value.map((each: unknown) => redact(each, clean));
  return typeof value === 'object' && value !== null ? redactedInput({ ...value }, clean) : value;
}

/** Returns the commands that record a call that an agent ran by itself, with secrets in the output redacted. */
export function reported(
  about: Pick<Extract<RunCommand, { type: 'REPORT' }>, 'session' | 'call' | 'brings'>,
  result: SettledCall,
  clean: (text: string) => string,
): readonly RunCommand[] {
  const [{ type: _type, call: _call, ...settled }, ...marks] = settlement(about.call, result, clean);
  return [{ type: 'REPORT', ...about, result: settled }, ...marks];
}

/**
 * Returns the commands that record a call's outcome, with secrets redacted. Output with a secret marks the session as
 * having read private data.
 */
export function settlement(
  call: { readonly id: string; readonly tool: string },
  { output, durationMs, status, code }: SettledCall,
  clean: (text: string) => string,
): readonly [Extract<RunCommand, { type: 'SETTLE' }>, ...RunCommand[]] {
  const shown = clean(output);
  const ended = { status, output: cutOutput(shown), duration: durationMs, code };
  const settled = { type: 'SETTLE', call: call.id, ...ended } as const;
  const secret: RunCommand = { type: 'TAINT', from: `a secret in what ${call.tool} returned`, label: 'private' };
  return [settled, ...(shown === output ? [] : [secret])];
}

type SettledCall = Pick<Extract<RunCommand, { type: 'SETTLE' }>, 'status' | 'code'> & {
  readonly output: string;
  readonly durationMs: number | null;
};

function cutOutput(output: string): string {
  if (output.length <= LONGEST_OUTPUT) return output;
  const digest = createHash('sha256').update(output).digest('hex');
  return `${output.slice(0, LONGEST_OUTPUT).toWellFormed()}\n… (${Buffer.byteLength(output)} bytes in all, sha256 ${digest})`;
}

const LONGEST_OUTPUT = 65_536;

/** Returns the tool calls in a part of a seat's journal, oldest first. Calls requested before the part are left out. */
export function toolCallRows(entries: readonly Entry[]): readonly ToolCallRow[] {
  const rows: ToolCallRow[] = [];
  const open = new Map<string, number>();
  const place: Place = { run: '', session: '', task: '', requestedBy: null, step: 0, pausedCall: null, pausedAt: 0 };
  for (const entry of entries) {
    follow(place, entry);
    if (entry.fact.type === 'callRequested') {
      addRow(rows, open, requested(place, entry, entry.fact));
      continue;
    }
    const call = callOf(entry.fact, place);
    const index = call === null ? undefined : open.get(call);
    const row = index === undefined ? undefined : rows[index];
    if (call === null || index === undefined || row === undefined) continue;
    rows[index] = withFact(row, entry, place);
    if (entry.fact.type === 'callSettled') open.delete(call);
  }
  return rows;
}

/** Adds a call. A call that waited and is requested again keeps the place, number and time of its first request. */
function addRow(rows: ToolCallRow[], open: Map<string, number>, row: ToolCallRow): void {
  const index = open.get(row.call) ?? rows.length;
  const { seq, askedAt } = rows[index] ?? row;
  open.set(row.call, index);
  rows[index] = { ...row, seq, askedAt };
}

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;

type Place = {
  run: string;
  session: string;
  task: string;
  requestedBy: string | null;
  step: number;
  pausedCall: string | null;
  pausedAt: Instant;
};

function follow(place: Place, { fact, at }: Entry): void {
  if (fact.type === 'runStarted')
    Object.assign(place, { run: fact.run, task: fact.task, requestedBy: fact.requestedBy ?? null, step: 0 });
  if (fact.type === 'runStarted' || fact.type === 'attached') place.session = fact.session;
  if (fact.type === 'stepped') place.step = fact.turn;
  if (fact.type === 'paused') Object.assign(place, { pausedCall: fact.approval?.call ?? null, pausedAt: at });
}

function callOf(fact: RunFact, { pausedCall }: Place): string | null {
  switch (fact.type) {
    case 'callClaimed':
    case 'callSettled':
    case 'grantUsed':
      return fact.call;
    case 'paused':
      return fact.approval?.call ?? null;
    case 'approvalClosed':
      return pausedCall;
    default:
      return null;
  }
}

type FactRequested = Extract<RunFact, { type: 'callRequested' }>;

function requested(
  { pausedCall: _pausedCall, pausedAt: _pausedAt, ...place }: Place,
  { seq, at }: Pick<Entry, 'seq' | 'at'>,
  { call, taint }: FactRequested,
): ToolCallRow {
  const { id, tool, input, source, digest, rule, verdict, program = null, remembered = null } = call;
  const { agentCall = null, definition = null, why = null } = call;
  const made = { tool, input, source, program, agentCall, digest, definition, rule, remembered };
  const allowed = remembered === null ? 'rule' : 'remembered';
  const decision =
    rule === 'unasked' ? 'unasked' : verdict === 'allow' ? allowed : verdict === 'deny' ? 'denied-rule' : 'open';
  return {
    seq,
    ...place,
    call: id,
    ...made,
    approval: null,
    decision,
    decidedBy: null,
    // A row with a rule shows the rule in place of a reason.
    reason: rule === null ? why : null,
    taint: taint ?? null,
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

function withFact(row: ToolCallRow, { fact, at }: Entry, { pausedCall, pausedAt }: Place): ToolCallRow {
  switch (fact.type) {
    case 'paused':
      return { ...row, approval: fact.approval?.id ?? row.approval };
    case 'approvalClosed': {
      const { state, by, reason, always } = fact;
      const decisions = { denied: 'denied-person', expired: 'expired', void: 'void' } as const;
      const decision = state === 'allowed' ? (always === null ? 'once' : 'always') : decisions[state];
      return {
        ...row,
        decision,
        rule: always ?? row.rule,
        decidedBy: by,
        reason,
        waitMs: row.waitMs + (at - pausedAt),
      };
    }
    case 'grantUsed': {
      const { approval, by, reason } = fact.said;
      return { ...row, decision: 'grant', approval, decidedBy: by, reason };
    }
    case 'callClaimed':
      return { ...row, status: 'running', startedAt: at };
    case 'callSettled': {
      const { status, outcome, duration, output, code } = fact;
      const tookMs = duration ?? (row.startedAt === null ? null : at - row.startedAt);
      // A call that ends undecided is void, unless people were asked about this call last.
      const decision = row.decision === 'open' && row.call !== pausedCall ? 'void' : row.decision;
      return { ...row, decision, status, outcome, endedAt: at, durationMs: tookMs, output, code };
    }
    default:
      return row;
  }
}
