import type { Instant } from '../lib/time.ts';
import type { AgentId, ChannelId } from './floor/settings.ts';

/** How it was decided that a call may run, or may not, in words. */
export const DECISIONS = {
  rule: 'allowed by rule',
  once: 'allowed once',
  always: 'allowed for always',
  grant: 'allowed before a restart',
  'denied-rule': 'refused by rule',
  'denied-person': 'refused',
  expired: 'nobody answered',
  void: 'question void',
  unasked: 'unasked, by the agent’s own account',
  open: 'asked',
} as const;

export type CallDecision = keyof typeof DECISIONS;

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
  /** Of tool, definition and raw input. */
  readonly digest: string;
  readonly decision: CallDecision;
  readonly rule: string | null;
  readonly decidedBy: string | null;
  readonly reason: string | null;
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
