import { z } from 'zod';
import {
  LABELS,
  MOST_TURNS,
  PAUSE_REASONS,
  approvalSchema,
  closedApprovalSchema,
  openCallSchema,
  runErrorSchema,
} from './run.ts';

const text = z.string();
const id = z.string().min(1).max(500);
const by = text.nullable();
const turns = z.int().min(1).max(MOST_TURNS);
/** Id of the fact in another machine that caused the command. A second delivery with the same id changes nothing. */
const cause = id.exactOptional();
const session = id;

/** A requested tool call with the verdict of the rules. */
const requestedCallSchema = z.strictObject({
  ...openCallSchema.omit({ status: true, cleared: true, approved: true, approval: true, verdict: true }).shape,
  verdict: z.enum(['allow', 'ask', 'deny']),
  /** Text of the rule that decided; `null` when no rule covers the call. */
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
  /** Id of the person whose request caused the run; absent when unknown. */
  requestedBy: text.exactOptional(),
  waitMs: z.number().nullable(),
  allowedTools: z.array(text).nullable(),
  /** Model of the run. Absent: the agent's model. */
  model: text.exactOptional(),
};

/** Labels of the text that the agent reads by a call, each with its source. */
const brings = z.partialRecord(z.enum(LABELS), text);

const settled = {
  call: id,
  status: z.enum(['complete', 'error']),
  output: text.nullable(),
  /** Duration in milliseconds, without the time of approvals; `null` when unknown. */
  duration: z.number().nullable(),
};

/** Name of the person who continues a run. `completes`: the run ends at once with its results so far. */
const resumedBy = z.strictObject({ name: text, completes: z.literal(true).exactOptional() }).exactOptional();

/** Commands of a run: the specification's seven events, then those about calls, approvals, lost agents and restarts. */
export const runCommandSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('START'),
    cause,
    ...started,
    maxTurns: turns.exactOptional(),
    /** The ticket of the run; `null` for none. */
    task: z.strictObject({ id, column: text }).nullable(),
  }),
  z.strictObject({
    type: z.literal('STEP'),
    cause,
    session,
    turn: z.int().min(1),
    toolCalls: z.array(requestedCallSchema),
    output: text.exactOptional(),
  }),
  /**
   * Stores a step so that the run can continue after a restart: the conversation since the step before, and the calls.
   */
  z.strictObject({ type: z.literal('KEEP'), cause, session, said: text, calls: text }),
  z.strictObject({ type: z.literal('PAUSE'), cause, reason: z.enum(PAUSE_REASONS), context: text.exactOptional() }),
  z.strictObject({
    type: z.literal('RESUME'),
    cause,
    by,
    feedback: text.exactOptional(),
    input: text.exactOptional(),
    /** Number of steps to add at the limit. Absent: as many as the limit was. */
    more: z.int().exactOptional(),
    told: resumedBy,
  }),
  z.strictObject({ type: z.literal('ERROR'), cause, session, error: runErrorSchema }),
  z.strictObject({
    type: z.literal('COMPLETE'),
    cause,
    session,
    result: text,
    diff: text.exactOptional(),
    /** Number of steps of the run. Absent: as many as were counted. */
    turnCount: z.int().min(1).exactOptional(),
    /** Id of the operator who completed the run with its results so far; `null` when the agent finished. */
    by: by.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('ABORT'),
    cause,
    reason: text,
    by,
    /** Set: aborts only a paused run. A failed run stays failed. */
    while: z.literal('paused').exactOptional(),
  }),
  /** Requests calls in a step: the first call, and calls that wait for its decision. */
  z.strictObject({ type: z.literal('REQUEST'), cause, session, calls: z.array(requestedCallSchema) }),
  /** Claims a call right before it starts, under the rules in force. A call is claimed once, or not started. */
  z.strictObject({
    type: z.literal('CLAIM'),
    cause,
    call: id,
    digest: text,
    verdict: z.enum(['allow', 'ask', 'deny']),
    brings: brings.exactOptional(),
  }),
  z.strictObject({ type: z.literal('SETTLE'), cause, ...settled, code: text.nullable() }),
  /** Reports a call that an agent ran without asking. The run may be paused or over. */
  z.strictObject({
    type: z.literal('REPORT'),
    cause,
    session,
    call: requestedCallSchema,
    result: z.strictObject({ ...settled, code: text.nullable() }).omit({ call: true }),
    brings: brings.exactOptional(),
  }),
  /** Marks the seat's session as having read text with this label. Default label: untrusted. */
  z.strictObject({ type: z.literal('TAINT'), cause, from: text, label: z.enum(LABELS).exactOptional() }),
  /** Clears the labels of what the session read, because another session begins. */
  z.strictObject({ type: z.literal('CLEANSE'), cause }),
  /** Withdraws the request of a call that has not started. */
  z.strictObject({ type: z.literal('WITHDRAW'), cause, call: id }),
  z.strictObject({
    type: z.literal('DECIDE'),
    cause,
    approval: id,
    /** Digest of the request that people saw. Absent: the open one. */
    digest: text.exactOptional(),
    choice: z.enum(['allow', 'deny']),
    /** Id of the person who decided; `null` when nobody could be asked. */
    by,
    via: text,
    reason: text.exactOptional(),
    /** Text of the always-allow rule that the decision adds. */
    always: text.exactOptional(),
    /** For a call whose agent is gone: deadline until which the decision counts for the same call. */
    until: z.number().exactOptional(),
  }),
  /** Revokes an always-allow rule. `name`: name of the person, for the announcement. */
  z.strictObject({ type: z.literal('REVOKE'), cause, id, by: text, name: text }),
  /** Continues the run in another session of the agent. */
  z.strictObject({ type: z.literal('ATTACH'), cause, session }),
  /** Reports that the agent was lost while its run is paused. */
  z.strictObject({ type: z.literal('LOST'), cause, session, error: runErrorSchema }),
  /** Reports that the process restarted: running calls and open requests of agents are lost. */
  z.strictObject({ type: z.literal('RECOVER'), cause }),
  /** Moves all deadlines by a standstill of the process, in milliseconds. */
  z.strictObject({ type: z.literal('STANDSTILL'), cause, ms: z.number() }),
  /** Skips run numbers after a backup was restored, so that no run id is used twice. */
  z.strictObject({ type: z.literal('SKIP_NUMBERS'), cause, by: z.number() }),
  z.strictObject({ type: z.literal('TICK'), cause }),
]);

/** Facts of runs. */
export const runFactSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('runStarted'), run: id, task: id, ...started, maxTurns: z.number() }),
  z.strictObject({ type: z.literal('stepped'), turn: z.number(), output: text.nullable() }),
  z.strictObject({ type: z.literal('stepKept'), said: text, calls: text }),
  z.strictObject({
    type: z.literal('paused'),
    reason: z.enum(PAUSE_REASONS),
    context: text.nullable(),
    until: z.number().nullable(),
    approval: approvalSchema.nullable(),
    muted: z.literal(true).exactOptional(),
  }),
  z.strictObject({
    type: z.literal('resumed'),
    by,
    feedback: text.nullable(),
    input: text.nullable(),
    maxTurns: z.number(),
    told: resumedBy,
  }),
  z.strictObject({ type: z.literal('attached'), session }),
  z.strictObject({ type: z.literal('errored'), error: runErrorSchema, until: z.number().nullable() }),
  z.strictObject({ type: z.literal('lost'), error: runErrorSchema }),
  z.strictObject({
    type: z.literal('runCompleted'),
    result: text,
    diff: text.nullable(),
    turnCount: z.number(),
    by: by.exactOptional(),
  }),
  z.strictObject({ type: z.literal('aborted'), reason: text, by }),
  /** `taint`: source of untrusted text that the session had read. */
  z.strictObject({ type: z.literal('callRequested'), call: requestedCallSchema, taint: text.exactOptional() }),
  /** The call may start, once. */
  z.strictObject({ type: z.literal('callCleared'), call: id }),
  z.strictObject({ type: z.literal('callClaimed'), call: id }),
  /** `outcome` is `unknown` when the call may have had its effect. `refused`: the agent waits for the refusal. */
  z.strictObject({
    type: z.literal('callSettled'),
    tool: text,
    ...settled,
    code: text.nullable(),
    outcome: z.enum(['known', 'unknown']),
    refused: z.boolean(),
    /** Id of the approval that allowed the call. */
    approval: id.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('approvalClosed'),
    ...closedApprovalSchema.shape,
    via: text.nullable(),
    reason: text.nullable(),
    always: text.nullable(),
    /**
     * For a call that is gone, or one of several equal calls: the decision counts for those until this instant.
     * `null`: as long as the run.
     */
    until: z.number().nullable().exactOptional(),
  }),
  z.strictObject({ type: z.literal('approvalDetached'), id }),
  /** `told`: what the channel is told, with the person's name. */
  z.strictObject({
    type: z.literal('ruleRevoked'),
    id,
    by: text,
    told: z.strictObject({ rule: text, name: text }).exactOptional(),
  }),
  z.strictObject({ type: z.literal('tainted'), from: text, label: z.literal('private').exactOptional() }),
  z.strictObject({ type: z.literal('cleansed') }),
  /**
   * The decision about an equal call counts for this call, too. That call is gone, or was requested together with this
   * one.
   */
  z.strictObject({
    type: z.literal('grantUsed'),
    call: id,
    digest: text,
    said: z.strictObject({ approval: id, choice: z.enum(['allow', 'deny']), by, reason: text.nullable() }),
  }),
  z.strictObject({ type: z.literal('delayed'), ms: z.number() }),
  z.strictObject({ type: z.literal('numbersSkipped'), by: z.number() }),
  z.strictObject({ type: z.literal('causeNoted'), cause: id }),
]);

export type RequestedCall = z.output<typeof requestedCallSchema>;
export type RunCommand = z.output<typeof runCommandSchema>;
export type RunFact = z.output<typeof runFactSchema>;

/** Refusals of commands: the specification's codes, and our own for commands that the specification does not have. */
export type RunRefusal =
  | 'TASK_NOT_FOUND'
  | 'AGENT_ALREADY_RUNNING'
  | 'AGENT_TOOL_NOT_ALLOWED'
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
