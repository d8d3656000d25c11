import { z } from 'zod';
import { hasTagOf, taggedUnion } from '../../lib/tagged.ts';
import {
  LABELS,
  MOST_TURNS,
  PAUSE_REASONS,
  approvalSchema,
  closedApprovalSchema,
  openCallSchema,
  runErrorSchema,
} from './run.ts';
import type { Frozen, Tagged } from '../../lib/tagged.ts';

const text = z.string();
const words = text.exactOptional();
const id = z.string().min(1).max(500);
const by = text.nullable();
const turns = z.int().min(1).max(MOST_TURNS);
/** Id of the fact in another machine that caused the command. */
const cause = id.exactOptional();
const session = id;

/** A requested tool call with the verdict of the rules. */
const requestedCallSchema = z.strictObject({
  ...openCallSchema.omit({ status: true, cleared: true, approved: true, approval: true, verdict: true }).shape,
  verdict: z.enum(['allow', 'ask', 'deny']),
  /**
   * Text of the rule behind the verdict. `null`: the default decided, or a restriction such as that of reviewers; or
   * the agent is no longer configured. `unasked`: the agent ran the call without asking.
   */
  rule: text.nullable(),
  /** Why the call is denied, for people. */
  why: text.exactOptional(),
  /** Id of the always-allow rule that decided. */
  remembered: id.exactOptional(),
});

const started = {
  runType: z.enum(['task', 'conversational', 'background']),
  prompt: z.string().min(1),
  session,
  /** Id of the person who started the run; `null` when a turn did. */
  by,
  requestedBy: text.exactOptional(),
  waitMs: z.number().nullable(),
  allowedTools: z.array(text).nullable(),
  model: text.exactOptional(),
};

/** Labels that a call brings to the session, each with its source. */
const brings = z.partialRecord(z.enum(LABELS), text);

const settled = {
  call: id,
  status: z.enum(['complete', 'error']),
  output: text.nullable(),
  /** In milliseconds, without the time of approvals; `null` when unknown, or when the call did not run. */
  duration: z.number().nullable(),
};

/** Name of the person who continues a run. `completes`: the run ends at once with its results so far. */
const resumedBy = z.strictObject({ name: text, completes: z.literal(true).exactOptional() }).exactOptional();

/** Commands of a run: the specification's seven events, and our own, such as those about calls and approvals. */
const COMMANDS = {
  START: {
    cause,
    ...started,
    maxTurns: turns.exactOptional(),
    /** The task of the run, with its column, `backlog` or `in_progress`. Other columns and `null` are refused. */
    task: z.strictObject({ id, column: text }).nullable(),
  },
  STEP: { cause, session, turn: z.int().min(1), toolCalls: z.array(requestedCallSchema), output: words },
  /**
   * Stores a step so that the run can continue after a restart: the conversation since the step before, and the calls.
   */
  KEEP: { cause, session, said: text, calls: text },
  PAUSE: { cause, reason: z.enum(PAUSE_REASONS), context: words },
  RESUME: {
    cause,
    by,
    feedback: words,
    /** Number of steps to add at the step limit. Absent: the step limit with which the run started. */
    more: z.int().exactOptional(),
    told: resumedBy,
  },
  ERROR: { cause, session, error: runErrorSchema },
  COMPLETE: {
    cause,
    session,
    result: text,
    /** Id of the operator who completed the run with its results so far; absent or `null` when no operator did. */
    by: by.exactOptional(),
  },
  ABORT: {
    cause,
    reason: text,
    by,
    /** Set: aborts only a run in this state. */
    while: z.enum(['paused', 'running']).exactOptional(),
  },
  /** Requests tool calls in a step. A call with `waits` waits until the calls before it are decided. */
  REQUEST: { cause, session, calls: z.array(requestedCallSchema) },
  /** Claims a call right before it starts, under the rules in force. A call is claimed at most once. */
  CLAIM: { cause, call: id, digest: text, verdict: z.enum(['allow', 'ask', 'deny']), brings: brings.exactOptional() },
  SETTLE: { cause, ...settled, code: text.nullable() },
  /** Reports a call that an agent ran without asking. The run may be paused or over. */
  REPORT: {
    cause,
    session,
    call: requestedCallSchema,
    result: z.strictObject({ ...settled, code: text.nullable() }).omit({ call: true }),
    brings: brings.exactOptional(),
  },
  /** Marks the seat's session as having read text with this label. Default label: untrusted. */
  TAINT: { cause, from: text, label: z.enum(LABELS).exactOptional() },
  /** Clears the labels of what the session read, because the session's memory is lost. */
  CLEANSE: { cause },
  /** Withdraws a call that has not started, and closes its request. */
  WITHDRAW: { cause, call: id },
  DECIDE: {
    cause,
    approval: id,
    /** Digest of the request that people saw. Absent: the open one. */
    digest: words,
    choice: z.enum(['allow', 'deny']),
    /** Id of the person who decided; `null` when nobody could be asked. */
    by,
    via: text,
    reason: words,
    /** Text of the always-allow rule that the decision adds. */
    always: words,
    /**
     * Until when the decision counts for equal calls. Absent: until the deadline of the request. Ignored when the
     * decision counts only for the requested call.
     */
    until: z.number().exactOptional(),
  },
  /** Revokes an always-allow rule. `name`: name of the person, for the announcement. */
  REVOKE: { cause, id, by: text, name: text },
  /** Binds the run to another session of the agent. Open calls that depend on the earlier session are dropped. */
  ATTACH: { cause, session },
  /** Reports that the agent was lost while its run is paused. */
  LOST: { cause, session, error: runErrorSchema },
  /** Reports that the process restarted. Calls that were running get an unknown outcome. */
  RECOVER: { cause },
  /** Delays the deadlines for people's decisions by the time for which Conch's process stood still, in milliseconds. */
  STANDSTILL: { cause, ms: z.number() },
  /** Skips run numbers after a backup was restored, so that no run id is used twice. */
  SKIP_NUMBERS: { cause, by: z.number() },
  TICK: { cause },
};

/** Returns whether a value is a command of a run. Checks its type only. */
export const isRunCommand = hasTagOf('type', COMMANDS);

/** Facts of runs. */
export const RUN_FACTS = {
  runStarted: { run: id, task: id, ...started, maxTurns: z.number() },
  stepped: { turn: z.number(), output: text.nullable() },
  stepKept: { said: text, calls: text },
  paused: {
    reason: z.enum(PAUSE_REASONS),
    context: text.nullable(),
    until: z.number().nullable(),
    approval: approvalSchema.nullable(),
    muted: z.literal(true).exactOptional(),
  },
  resumed: { by, feedback: text.nullable(), input: text.nullable(), maxTurns: z.number(), told: resumedBy },
  attached: { session },
  errored: { error: runErrorSchema, until: z.number().nullable() },
  lost: { error: runErrorSchema },
  runCompleted: { result: text, diff: text.nullable(), turnCount: z.number(), by: by.exactOptional() },
  aborted: { reason: text, by },
  /** `taint`: source of untrusted text that the session had read. */
  callRequested: { call: requestedCallSchema, taint: words },
  callCleared: { call: id },
  callClaimed: { call: id },
  /**
   * A call ended. `outcome` is `unknown` when the call may have had its effect. `refused`: true for a call that the
   * agent wanted to run itself and that never began, while the agent waits for the answer. False for a withdrawn call,
   * and for a call of a lost agent.
   */
  callSettled: {
    tool: text,
    ...settled,
    code: text.nullable(),
    outcome: z.enum(['known', 'unknown']),
    refused: z.boolean(),
    approval: id.exactOptional(),
  },
  approvalClosed: {
    ...closedApprovalSchema.shape,
    via: text.nullable(),
    reason: text.nullable(),
    always: text.nullable(),
    /**
     * Set for a decision about a call that was lost with its session; and about one of several equal calls, if the
     * decision adds no always-allow rule. The decision counts for equal calls until this instant. `null`: until the run
     * ends.
     */
    until: z.number().nullable().exactOptional(),
  },
  approvalDetached: { id },
  /** `told`: what the channel is told, with the person's name. */
  ruleRevoked: { id, by: text, told: z.strictObject({ rule: text, name: text }).exactOptional() },
  tainted: { from: text, label: z.literal('private').exactOptional() },
  cleansed: {},
  /**
   * The decision about an equal call counts for this call, too. The equal call was lost with its session, or was
   * requested together with this call.
   */
  grantUsed: {
    call: id,
    digest: text,
    said: z.strictObject({ approval: id, choice: z.enum(['allow', 'deny']), by, reason: text.nullable() }),
  },
  delayed: { ms: z.number() },
  numbersSkipped: { by: z.number() },
  causeNoted: { cause: id },
} as const;

/** Schema of the facts of runs. */
export const runFactSchema = taggedUnion('type', RUN_FACTS);

export type RequestedCall = Frozen<z.output<typeof requestedCallSchema>>;
export type RunCommand = Tagged<'type', typeof COMMANDS>;
export type RunFact = z.output<typeof runFactSchema>;

/** Refusals of commands: the specification's codes, and our own for commands that the specification does not have. */
export type RunRefusal =
  | 'TASK_NOT_FOUND'
  | 'AGENT_ALREADY_RUNNING'
  | 'AGENT_TURN_LIMIT_EXCEEDED'
  | 'AGENT_EXECUTION_ERROR'
  | 'AGENT_NOT_RUNNING'
  | 'AGENT_NO_AVAILABLE_TASK'
  | 'STEP_OUT_OF_ORDER'
  | 'CALL_OPEN'
  | 'CALL_REPEATED'
  | 'CALL_UNKNOWN'
  | 'CALL_NOT_PENDING'
  | 'APPROVAL_OPEN'
  | 'APPROVAL_UNKNOWN'
  | 'APPROVAL_DECIDED'
  | 'APPROVAL_EXPIRED'
  | 'APPROVAL_CHANGED'
  | 'RULE_NOT_OFFERED'
  | 'RULE_UNKNOWN'
  | 'NOT_DUE'
  | 'UNCHANGED'
  | 'REPEATED';
