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
/** The fact of another machine that caused a command: a second delivery changes nothing. */
const cause = id.exactOptional();
const session = id;

/** A tool call as a step asks for it, with what the rules say. */
const requestedCallSchema = z.strictObject({
  ...openCallSchema.omit({ status: true, cleared: true, approved: true, approval: true, verdict: true }).shape,
  verdict: z.enum(['allow', 'ask', 'deny']),
  /** The rule that decided. */
  rule: text.nullable(),
  /** The remembered yes that the rule is of, by its id. */
  remembered: id.exactOptional(),
});

const started = {
  runType: z.enum(['task', 'conversational', 'background']),
  prompt: z.string().min(1),
  session,
  /** Who had it start; `null`: a turn did. */
  by,
  /** The person who asked for it, if that is known. */
  requestedBy: text.exactOptional(),
  waitMs: z.number().nullable(),
  allowedTools: z.array(text).nullable(),
  /** The model that does it; absent: that of its agent. */
  model: text.exactOptional(),
};

/** What an agent reads by a call, each by where that comes from. */
const brings = z.partialRecord(z.enum(LABELS), text);

const settled = {
  call: id,
  status: z.enum(['complete', 'error']),
  output: text.nullable(),
  /** Without the time that people took. */
  duration: z.number().nullable(),
};

/** The name of the person who has a run go on. `completes`: the run is completed at once with what is there. */
const resumedBy = z.strictObject({ name: text, completes: z.literal(true).exactOptional() }).exactOptional();

/** The specification's seven events, then what becomes of tool calls and approvals, and of a run whose agent or process is gone. */
export const runCommandSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('START'),
    cause,
    ...started,
    maxTurns: turns.exactOptional(),
    /** `null`: there is no such task. */
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
  /** What an agent needs to go on from a step after a restart: what was said since the one before, and the calls of this one. */
  z.strictObject({ type: z.literal('KEEP'), cause, session, said: text, calls: text }),
  z.strictObject({ type: z.literal('PAUSE'), cause, reason: z.enum(PAUSE_REASONS), context: text.exactOptional() }),
  z.strictObject({
    type: z.literal('RESUME'),
    cause,
    by,
    feedback: text.exactOptional(),
    input: text.exactOptional(),
    /** Steps that are added at the limit; as many again without it. */
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
    /** As many as were counted, unless told. */
    turnCount: z.int().min(1).exactOptional(),
    /** Who had it end with what is there; `null`: its agent is done. */
    by: by.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('ABORT'),
    cause,
    reason: text,
    by,
    /** Only a run that stands still is meant: one that had failed before stays so. */
    while: z.literal('paused').exactOptional(),
  }),
  /** An agent asks for calls in the middle of a step: for one, and for those that wait until it is decided about. */
  z.strictObject({ type: z.literal('REQUEST'), cause, session, calls: z.array(requestedCallSchema) }),
  /** Right before a call starts, with what holds now: a call is claimed once, or not started. */
  z.strictObject({
    type: z.literal('CLAIM'),
    cause,
    call: id,
    digest: text,
    verdict: z.enum(['allow', 'ask', 'deny']),
    brings: brings.exactOptional(),
  }),
  z.strictObject({ type: z.literal('SETTLE'), cause, ...settled, code: text.nullable() }),
  /** An agent carried out a call that it asked nobody about; its run may stand still by now, or be over. */
  z.strictObject({
    type: z.literal('REPORT'),
    cause,
    session,
    call: requestedCallSchema,
    result: z.strictObject({ ...settled, code: text.nullable() }).omit({ call: true }),
    brings: brings.exactOptional(),
  }),
  /** The session of the seat has read something; text that nobody vouches for unless told otherwise. */
  z.strictObject({ type: z.literal('TAINT'), cause, from: text, label: z.enum(LABELS).exactOptional() }),
  /** Another session begins, which has read nothing. */
  z.strictObject({ type: z.literal('CLEANSE'), cause }),
  /** The agent no longer asks for a call that has not begun. */
  z.strictObject({ type: z.literal('WITHDRAW'), cause, call: id }),
  z.strictObject({
    type: z.literal('DECIDE'),
    cause,
    approval: id,
    /** Of what was shown; whoever shows no other than what is asked need not say it. */
    digest: text.exactOptional(),
    choice: z.enum(['allow', 'deny']),
    /** `null`: nobody could be asked. */
    by,
    via: text,
    reason: text.exactOptional(),
    /** The rule that is remembered from now on. */
    always: text.exactOptional(),
    /** Until when it counts for the same call once more, if the call is gone. */
    until: z.number().exactOptional(),
  }),
  /** A yes that was remembered counts no more; `name`: of whoever took it back, for the channel to read. */
  z.strictObject({ type: z.literal('REVOKE'), cause, id, by: text, name: text }),
  /** Another session of the agent goes on with the run. */
  z.strictObject({ type: z.literal('ATTACH'), cause, session }),
  /** The agent is gone while its run is paused. */
  z.strictObject({ type: z.literal('LOST'), cause, session, error: runErrorSchema }),
  /** The process is gone, and with it every call that was running and every request of an agent. */
  z.strictObject({ type: z.literal('RECOVER'), cause }),
  /** The process stood still for so long: nobody could answer meanwhile. */
  z.strictObject({ type: z.literal('STANDSTILL'), cause, ms: z.number() }),
  /** A backup was restored: no run since it was made has its name used twice. */
  z.strictObject({ type: z.literal('SKIP_NUMBERS'), cause, by: z.number() }),
  z.strictObject({ type: z.literal('TICK'), cause }),
]);

/** What happened to a run. */
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
  /** `taint`: where text came from that its session had read by then and nobody vouches for. */
  z.strictObject({ type: z.literal('callRequested'), call: requestedCallSchema, taint: text.exactOptional() }),
  /** It may start now, and is claimed once for that. */
  z.strictObject({ type: z.literal('callCleared'), call: id }),
  z.strictObject({ type: z.literal('callClaimed'), call: id }),
  /** `outcome` is unknown when the call may have done what it was to do; `refused`: whoever asked for it waits for a no. */
  z.strictObject({
    type: z.literal('callSettled'),
    tool: text,
    ...settled,
    code: text.nullable(),
    outcome: z.enum(['known', 'unknown']),
    refused: z.boolean(),
    /** The approval that had let it through. */
    approval: id.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('approvalClosed'),
    ...closedApprovalSchema.shape,
    via: text.nullable(),
    reason: text.nullable(),
    always: text.nullable(),
    /** The call is gone, or one of several that are the same: this counts for those, until then or (`null`) as long as the run. */
    until: z.number().nullable().exactOptional(),
  }),
  z.strictObject({ type: z.literal('approvalDetached'), id }),
  /** `told`: what its channel is told of it, by whose name. */
  z.strictObject({
    type: z.literal('yesRevoked'),
    id,
    by: text,
    told: z.strictObject({ rule: text, name: text }).exactOptional(),
  }),
  z.strictObject({ type: z.literal('tainted'), from: text, label: z.literal('private').exactOptional() }),
  z.strictObject({ type: z.literal('cleansed') }),
  /** The answer to an equal call, which is gone or was asked for at once with this one, counts for this call, too. */
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

/** Why a command changed nothing: the specification's codes, and ours for what the specification does not speak of. */
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
