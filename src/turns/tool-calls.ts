import type { Instant } from '../lib/time.ts';
import { clockWords, excerpt } from './commands/clock-words.ts';
import type { AgentId, ChannelId } from './floor/settings.ts';

/** How a tool call was decided, in words for people. */
export const DECISIONS = {
  rule: 'allowed by rule',
  remembered: 'allowed by always-allow rule',
  once: 'allowed once',
  always: 'always allowed',
  grant: 'decided before',
  'denied-rule': 'denied by rule',
  'denied-person': 'denied',
  expired: 'nobody answered',
  void: 'no longer needed',
  unasked: 'run by the agent without asking',
  open: 'waiting for a decision',
} as const;

export type CallDecision = keyof typeof DECISIONS;

/** Whether a text names a way in which a tool call was decided. */
export function isDecision(text: string): text is CallDecision {
  return Object.hasOwn(DECISIONS, text);
}

/** One tool call with its whole history. */
export type ToolCallRow = {
  /** Sequence number of the request in its seat's journal. */
  readonly seq: number;
  readonly run: string;
  /** The task of the run: the id of its review, or words for its turn or its background task. */
  readonly task: string;
  /**
   * Id of the person or program that caused the run; '' when unknown. `null` when an operator caused the turn, or the
   * start of the run was pruned.
   */
  readonly requestedBy: string | null;
  readonly step: number;
  readonly call: string;
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** Who runs the call: Conch or the agent. */
  readonly source: 'conch' | 'agent';
  /** Name and version of the agent's program; `null` when unknown, or when Conch ran the call. */
  readonly program: string | null;
  /** The agent's session: a turn's epoch, or the number of a session of a background run. */
  readonly session: string;
  /** The id that the agent gave the call; `null` for none. */
  readonly agentCall: string | null;
  /** Digest of tool, definition and input; for a call that the agent carries out, also of the request's text. */
  readonly digest: string;
  /** Digest of the server's definition of the tool; `null` for a server's question to people, and without a server. */
  readonly definition: string | null;
  /** The id of the approval by which people decide or decided about the call; `null` for none. */
  readonly approval: string | null;
  readonly decision: CallDecision;
  /**
   * Text of the rule that matched the call, or of the always-allow rule that the decision added; `null` for none. The
   * text `unasked` means that the agent ran the call without asking.
   */
  readonly rule: string | null;
  /** Id of the always-allow rule that allowed the call; `null` for none. */
  readonly remembered: string | null;
  readonly decidedBy: string | null;
  readonly reason: string | null;
  /** The untrusted source that the session had read before; `null` for none. */
  readonly taint: string | null;
  readonly status: 'pending' | 'running' | 'complete' | 'error';
  readonly outcome: 'known' | 'unknown';
  readonly askedAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  /** Time that the call waited for people, in milliseconds. */
  readonly waitMs: number;
  /** Duration without `waitMs`, in milliseconds; `null` while unknown. */
  readonly durationMs: number | null;
  readonly output: string | null;
  readonly code: string | null;
};

/** A tool call with its seat, as `conch audit --json` prints it. */
export type AuditRow = ToolCallRow & { readonly channel: ChannelId; readonly agent: AgentId; readonly aside?: true };

/** The outcome of a call. `open`: not ended. `unknown`: whether the call worked is not known, as after a restart. */
export const CALL_ENDINGS = ['open', 'complete', 'error', 'unknown'] as const;

type CallEnding = (typeof CALL_ENDINGS)[number];

/** A filter for tool calls. All given fields must match. */
export type AuditWanted = {
  readonly channel?: ChannelId | undefined;
  readonly agent?: AgentId | undefined;
  /**
   * `people`: calls that needed a person's decision, also undecided ones. Calls under an earlier decision are left out.
   */
  readonly decision?: CallDecision | 'people' | undefined;
  readonly outcome?: CallEnding | undefined;
  /** Part of a tool's name, in any letter case. */
  readonly tool?: string | undefined;
  /** Calls requested at or after this instant. */
  readonly since?: Instant | undefined;
};

/** An open approval. */
export type OpenApproval = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly tool: string;
  readonly askedAt: Instant;
  /** When the approval expires; `null` when its turn's deadline applies. */
  readonly until: Instant | null;
  /** The request's number on its floor; `null` when it is not open there. */
  readonly question: number | null;
};

/** An always-allow rule. */
export type AlwaysAllowRule = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly rule: string;
  readonly by: string;
  readonly at: Instant;
  readonly until: Instant;
  /** Number of calls that the rule allowed, among the newest facts of its seat. */
  readonly uses: number;
  readonly usedAt: Instant | null;
  readonly revoke: string;
};

/** Open approvals and always-allow rules of all channels. */
export type AuditStanding = {
  readonly asked: readonly OpenApproval[];
  readonly remembered: readonly AlwaysAllowRule[];
};

/** Reads the tool calls of all channels. */
export type AuditSource = {
  /**
   * Iterates calls by channel, agent and `since`, newest first. The other fields of `wanted` do not count: callers use
   * `isWanted`. A yielded number counts the journal entries read since the last number.
   */
  calls(wanted: AuditWanted): Iterator<AuditRow | number, void>;
  standing(): AuditStanding;
  /** Registers a listener for changed calls, approvals and rules. */
  onChange(listener: (changed: () => readonly AuditRow[]) => void): void;
  /** The name of a person, or the id when unknown. */
  nameOf(id: string): string;
};

/** The outcome of a call. */
export function endingOf({ status, outcome }: Pick<ToolCallRow, 'status' | 'outcome'>): CallEnding {
  if (status === 'pending' || status === 'running') return 'open';
  return outcome === 'unknown' ? 'unknown' : status;
}

/** Whether a call matches a filter. */
export function isWanted(row: AuditRow, wanted: AuditWanted): boolean {
  const { channel, agent, decision, outcome, tool, since } = wanted;
  return (
    (channel === undefined || row.channel === channel) &&
    (agent === undefined || row.agent === agent) &&
    (decision === undefined || row.decision === decision || (decision === 'people' && FOR_PEOPLE.has(row.decision))) &&
    (outcome === undefined || endingOf(row) === outcome) &&
    (tool === undefined || row.tool.toLowerCase().includes(tool.toLowerCase())) &&
    (since === undefined || row.askedAt >= since)
  );
}

const FOR_PEOPLE: ReadonlySet<CallDecision> = new Set(['once', 'always', 'denied-person', 'expired', 'void', 'open']);

/** How a call was decided. A denial with a reason and without a rule is "denied", not "denied by rule". */
export function decisionWords(row: Pick<ToolCallRow, 'decision' | 'rule' | 'reason'>): string {
  return isDeniedWithoutRule(row) ? DECISIONS['denied-person'] : DECISIONS[row.decision];
}

function isDeniedWithoutRule({ decision, rule, reason }: Pick<ToolCallRow, 'decision' | 'rule' | 'reason'>): boolean {
  return decision === 'denied-rule' && rule === null && reason !== null;
}

/** One tool call in a line: tool, input, decision, outcome. */
export function callWords(row: ToolCallRow, inputLength: number, nameOf = (id: string): string => id): string {
  const who = row.decidedBy === null ? '' : ` by ${nameOf(row.decidedBy)}`;
  const isByRule = row.rule !== null && row.decision !== 'unasked';
  const rule = isByRule ? ` "${row.rule}"` : isDeniedWithoutRule(row) ? `: ${row.reason}` : '';
  const took = row.durationMs === null ? '' : `, ${clockWords(row.durationMs)}`;
  const outcome =
    row.outcome === 'unknown' ? 'error, outcome unknown' : `${row.status}${row.code === null ? '' : ` ${row.code}`}`;
  const about = excerpt(JSON.stringify(row.input), inputLength);
  return `step ${row.step} ${row.tool} ${about} · ${decisionWords(row)}${rule}${who} → ${outcome}${took}`;
}
