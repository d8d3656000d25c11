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
  unasked: 'not asked, by the agent’s account',
  open: 'waiting for a decision',
} as const;

export type CallDecision = keyof typeof DECISIONS;

/** Whether a text is a key of `DECISIONS`. */
export function isDecision(text: string): text is CallDecision {
  return Object.hasOwn(DECISIONS, text);
}

/** One tool call as its run's journal tells of it. */
export type ToolCallRow = {
  /** Place of the request in the journal of its seat. */
  readonly seq: number;
  readonly run: string;
  /** What it is part of. */
  readonly task: string;
  /** The person who asked for that; `null`: an operator had it begin. */
  readonly requestedBy: string | null;
  readonly step: number;
  readonly call: string;
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** `agent`: by its own account. */
  readonly source: 'conch' | 'agent';
  /** The agent's program, by the name and version that it gives itself; `null`: it gave none, or Conch ran the call. */
  readonly program: string | null;
  /** Of the agent that asked for it: the number of its turn, or of its work beside the floor. */
  readonly session: string;
  /** By what its agent knows it; `null`: by nothing. */
  readonly agentCall: string | null;
  /** Of tool, definition and raw input. */
  readonly digest: string;
  /** Digest of what its server says that the tool is; `null` for tools without a server. */
  readonly definition: string | null;
  /** The question that people were asked about it; `null`: none. */
  readonly approval: string | null;
  readonly decision: CallDecision;
  readonly rule: string | null;
  /** The remembered yes by which it was allowed, by its id; `null`: none, or told before that was kept. */
  readonly remembered: string | null;
  readonly decidedBy: string | null;
  readonly reason: string | null;
  /** Where text came from that its session had read by then and nobody vouches for. */
  readonly taint: string | null;
  readonly status: 'pending' | 'running' | 'complete' | 'error';
  readonly outcome: 'known' | 'unknown';
  readonly askedAt: Instant;
  readonly startedAt: Instant | null;
  readonly endedAt: Instant | null;
  /** How long people took, in milliseconds. */
  readonly waitMs: number;
  /** Without that, in milliseconds. */
  readonly durationMs: number | null;
  readonly output: string | null;
  readonly code: string | null;
};

/** A tool call with the seat that made it: what `conch audit --json` prints of each. */
export type AuditRow = ToolCallRow & { readonly channel: ChannelId; readonly agent: AgentId; readonly aside?: true };

/** What became of a call; `open`: it has not ended, `unknown`: nobody knows what it did. */
export const CALL_ENDINGS = ['open', 'complete', 'error', 'unknown'] as const;

type CallEnding = (typeof CALL_ENDINGS)[number];

/** Which tool calls are wanted: those to which all of it applies. */
export type AuditWanted = {
  readonly channel?: ChannelId | undefined;
  readonly agent?: AgentId | undefined;
  /** `people`: whatever people were asked, answered or not. */
  readonly decision?: CallDecision | 'people' | undefined;
  readonly outcome?: CallEnding | undefined;
  /** Part of the name of a tool, in any case. */
  readonly tool?: string | undefined;
  /** Asked for then or later. */
  readonly since?: Instant | undefined;
};

/** A yes that is asked for now. */
export type OpenApproval = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly tool: string;
  readonly askedAt: Instant;
  /** When nobody has answered in time; `null`: its turn says. */
  readonly until: Instant | null;
  /** By which it is answered on its floor; `null`: it does not stand there. */
  readonly question: number | null;
};

/** A yes that is remembered. */
export type RememberedYes = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly rule: string;
  readonly by: string;
  readonly at: Instant;
  readonly until: Instant;
  /** The calls that it let through, among the newest of its seat. */
  readonly uses: number;
  readonly usedAt: Instant | null;
  /** The command line that takes it back, and no other. */
  readonly revoke: string;
};

/** What is asked and what is remembered, of all channels. */
export type AuditStanding = {
  readonly asked: readonly OpenApproval[];
  readonly remembered: readonly RememberedYes[];
};

/** Tells of tool calls, for whoever looks into them. */
export type AuditSource = {
  /** The calls that are wanted, the newest first, read no further than is asked; a number: so many entries were read meanwhile. */
  calls(wanted: AuditWanted): Iterator<AuditRow | number, void>;
  standing(): AuditStanding;
  /** Told of every call that something happened to, and of what is asked or remembered. */
  onChange(listener: (changed: () => readonly AuditRow[]) => void): void;
  /** What a person is called, or else their id. */
  nameOf(id: string): string;
};

/** What became of a call. */
export function endingOf({ status, outcome }: Pick<ToolCallRow, 'status' | 'outcome'>): CallEnding {
  if (status === 'pending' || status === 'running') return 'open';
  return outcome === 'unknown' ? 'unknown' : status;
}

/** Whether a call is one that is wanted. */
export function isWanted(row: AuditRow, wanted: AuditWanted): boolean {
  const { channel, agent, decision, outcome, tool, since } = wanted;
  return (
    (channel === undefined || row.channel === channel) &&
    (agent === undefined || row.agent === agent) &&
    (decision === undefined ||
      row.decision === decision ||
      (decision === 'people' && ASKED_PEOPLE.has(row.decision))) &&
    (outcome === undefined || endingOf(row) === outcome) &&
    (tool === undefined || row.tool.toLowerCase().includes(tool.toLowerCase())) &&
    (since === undefined || row.askedAt >= since)
  );
}

const ASKED_PEOPLE: ReadonlySet<CallDecision> = new Set(['once', 'always', 'denied-person', 'expired', 'void', 'open']);

/** One tool call in a line: what was to be done, who let it, what came of it. */
export function callWords(row: ToolCallRow, inputLength: number, nameOf = (id: string): string => id): string {
  const who = row.decidedBy === null ? '' : ` by ${nameOf(row.decidedBy)}`;
  const rule = row.rule === null || row.decision === 'unasked' ? '' : ` "${row.rule}"`;
  const took = row.durationMs === null ? '' : `, ${clockWords(row.durationMs)}`;
  const came =
    row.outcome === 'unknown' ? 'error, outcome unknown' : `${row.status}${row.code === null ? '' : ` ${row.code}`}`;
  const about = excerpt(JSON.stringify(row.input), inputLength);
  return `step ${row.step} ${row.tool} ${about} · ${DECISIONS[row.decision]}${rule}${who} → ${came}${took}`;
}
