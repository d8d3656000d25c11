import { z } from 'zod';
import { aboutSchema } from '../../turns/floor/settings.ts';
import type { Frozen } from '../../lib/tagged.ts';

/** The six states of a run, as the specification names them. */
export const RUN_STATUSES = ['idle', 'starting', 'running', 'paused', 'error', 'completed'] as const;

export type RunStatus = (typeof RUN_STATUSES)[number];

/** Kinds of runs with their step limits (the specification's defaults). */
export const TURN_LIMITS = { task: 50, conversational: 100, background: 200 } as const;

/** The largest number of steps with which a run can start, or that one command can add. */
export const MOST_TURNS = 200;

/** Reasons of a pause. The specification has `turn_limit` in its executor and lacks it in its schema. */
export const PAUSE_REASONS = ['user_input', 'approval_required', 'confirmation', 'turn_limit'] as const;

const instant = z.number();
const text = z.string();
const id = z.string().min(1).max(500);

/** A failure, in the fields of the specification. */
export const runErrorSchema = z.strictObject({ code: text, message: text, recoverable: z.boolean() });

/** A tool call without a result. */
export const openCallSchema = z.strictObject({
  id,
  tool: text,
  input: z.record(text, z.unknown()),
  agentCall: text.exactOptional(),
  /** Name and version that the agent's program reports. */
  program: text.exactOptional(),
  /**
   * Digest of the tool, its definition and the raw input; for a call that the agent runs, also of its text for people.
   * Approvals are bound to it.
   */
  digest: text,
  /** Who runs the call: Conch, or the agent itself. */
  source: z.enum(['conch', 'agent']),
  verdict: z.enum(['allow', 'ask']),
  /**
   * True when the tool's server says that the tool changes nothing, and an operator vouches for the server; also for
   * calls that an agent ran by itself. After an unknown outcome, an equal call needs an approval only if the rules ask
   * for one.
   */
  repeatable: z.boolean(),
  status: z.enum(['pending', 'running']),
  /** True when the call may be claimed, or was claimed. */
  cleared: z.boolean(),
  /** Digest of the tool's definition by its server; absent for tools without one. */
  definition: text.exactOptional(),
  /** Set while the call waits until the calls before it are decided. */
  waits: z.literal(true).exactOptional(),
  /** Set when the call is never decided together with equal calls. */
  alone: z.literal(true).exactOptional(),
  approved: z.boolean(),
  approval: id.exactOptional(),
  /** The request in words for people. `unaskable`: why people cannot be asked. */
  words: z
    .strictObject({
      title: text,
      detail: text,
      about: aboutSchema.omit({ run: true, step: true, steps: true, denyOnly: true }).exactOptional(),
      unaskable: text.exactOptional(),
      /** Always-allow rules on offer, narrowest first. */
      offers: z.array(z.strictObject({ rule: text, words: text })).exactOptional(),
    })
    .exactOptional(),
});

/** An open request for approval. */
export const approvalSchema = z.strictObject({
  id,
  call: id,
  tool: text,
  digest: text,
  requestedAt: instant,
  /** Deadline for the decision; `null` when the floor keeps the deadline. */
  expiresAt: instant.nullable(),
  /**
   * True when the call was lost with the agent's session while the request was open. The decision then counts once, for
   * the next call with this digest.
   */
  detached: z.boolean(),
  /**
   * Ids of waiting calls that are equal to the requested one. The decision counts for each, unless it adds an
   * always-allow rule.
   */
  others: z.array(id).exactOptional(),
  /**
   * Set when the request outlives a restart. `true`: the call itself survives. `answer`: only the decision counts, for
   * an equal call.
   */
  lasting: z.literal([true, 'answer']).exactOptional(),
});

/**
 * A decision about a call that was lost with its session, or about one of several equal calls. The decision applies
 * once to an equal call of this run.
 */
const grantSchema = z.strictObject({
  approval: id,
  tool: text,
  digest: text,
  choice: z.enum(['allow', 'deny']),
  by: text.nullable(),
  reason: text.nullable(),
  /** Instant from which the decision no longer counts; `null`: as long as the run. */
  until: instant.nullable(),
  /** Id of the only call that the decision is for; absent: any equal call. */
  call: id.exactOptional(),
});

/** A closed request, so that later clicks get the right answer. */
export const closedApprovalSchema = z.strictObject({
  id,
  state: z.enum(['allowed', 'denied', 'expired', 'void']),
  by: text.nullable(),
});

/** An always-allow rule of this agent in this channel. */
const rememberedSchema = z.strictObject({
  id,
  rule: text,
  /** Digest of the tool's definition. The rule applies only to this definition. */
  definition: text.nullable(),
  by: text,
  at: instant,
  until: instant,
});

const pauseSchema = z.strictObject({
  reason: z.enum(PAUSE_REASONS),
  /** Words about the pause, such as a person's, or the kind of wait; `null` for none. */
  context: text.nullable(),
  /** Instant at which the run is aborted if nobody decides; `null` for none. */
  until: instant.nullable(),
  approval: approvalSchema.nullable(),
  /**
   * Set when somebody interrupts the turn of the run, or the background run. Until the run resumes, Conch asks people
   * for no further approval of its calls.
   */
  muted: z.literal(true).exactOptional(),
});

const runSchema = z.strictObject({
  id,
  type: z.enum(['task', 'conversational', 'background']),
  task: id,
  /** Id of the person or program that caused the run; '' when unknown. Absent: an operator granted the turn. */
  requestedBy: text.exactOptional(),
  /** Id of the agent's session. Commands of an earlier session are refused. */
  session: id,
  /** Rules of the only tools that the run may use; `null`: no restriction. */
  allowedTools: z.array(text).nullable(),
  /** Model of the run. Absent: the agent's model. */
  model: text.exactOptional(),
  maxTurns: z.number(),
  /** Number of steps that "continue" adds by default. */
  turnsAtOnce: z.number(),
  /** Steps so far: the specification's `currentTurn`. */
  turn: z.number(),
  /** Time for people to decide, in milliseconds; `null` when the turn on the floor has the time limit. */
  waitMs: z.number().nullable(),
  pause: pauseSchema.nullable(),
  /** The last failure. In a paused run: the agent is lost, and the run fails when it continues. */
  lastError: runErrorSchema.nullable(),
  /**
   * Instant at which a failed run is aborted if nobody decides; `null` when the run is not in the state `error`, or has
   * no time limit.
   */
  errorUntil: instant.nullable(),
  calls: z.array(openCallSchema),
  /** The digest of the last call, and how many equal calls in a row count towards a confirmation; `null` for none. */
  repeated: z.strictObject({ digest: text, times: z.number() }).nullable(),
  grants: z.array(grantSchema),
  asked: z.number(),
  /** Id of the first call that the rules denied when it was requested. */
  refused: id.exactOptional(),
});

/** Labels of text that a session has read: from an untrusted source, or private. */
export const LABELS = ['untrusted', 'private'] as const;

const mark = { since: instant, from: text };

/** The runs of one seat: the newest run; of earlier runs, totals, decisions, labels and unknown outcomes. */
export const runStateSchema = z.strictObject({
  key: text,
  status: z.enum(RUN_STATUSES),
  run: runSchema.nullable(),
  closed: z.array(closedApprovalSchema),
  remembered: z.array(rememberedSchema),
  /**
   * Digests of calls with an unknown outcome. An equal call needs an approval, even if a rule allows it, unless the
   * call is `repeatable`.
   */
  unknown: z.array(text),
  /** When the session first read untrusted text, with its source; absent when none is recorded. */
  taint: z.strictObject(mark).exactOptional(),
  /** When the session first read private data, with its source; absent when none is recorded. */
  secret: z.strictObject(mark).exactOptional(),
  /**
   * Time spans in which earlier sessions had read untrusted text or private data. Text that they wrote in a span has
   * its label.
   */
  wrote: z.array(z.strictObject({ ...mark, until: instant, private: z.literal(true).exactOptional() })).exactOptional(),
  /** Ids of facts in other machines whose commands were carried out. */
  causes: z.array(text),
  /** Number of skipped run numbers after restored backups. */
  skipped: z.number().exactOptional(),
  totals: z.strictObject({ runs: z.number(), completed: z.number(), steps: z.number(), tools: z.number() }),
});

export type RunError = Frozen<z.output<typeof runErrorSchema>>;
export type OpenCall = Frozen<z.output<typeof openCallSchema>>;
export type RunApproval = Frozen<z.output<typeof approvalSchema>>;
export type RunGrant = Frozen<z.output<typeof grantSchema>>;
export type Run = Frozen<z.output<typeof runSchema>>;
export type RunState = Frozen<z.output<typeof runStateSchema>>;

/** The last run number that the seat has used or skipped; 0 for none. */
export function lastNumber({ totals, skipped = 0 }: Pick<RunState, 'totals' | 'skipped'>): number {
  return totals.runs + skipped;
}

/** The state of a seat before its first run. */
export function emptyRuns(key: string): RunState {
  return {
    key,
    status: 'idle',
    run: null,
    closed: [],
    remembered: [],
    unknown: [],
    causes: [],
    totals: { runs: 0, completed: 0, steps: 0, tools: 0 },
  };
}
