import { z } from 'zod';
import { aboutSchema } from '../../turns/floor/settings.ts';

/** The six states of a run, as the specification names them. */
export const RUN_STATUSES = ['idle', 'starting', 'running', 'paused', 'error', 'completed'] as const;

export type RunStatus = (typeof RUN_STATUSES)[number];

/** A task of a crew, a turn on a floor, work beside the floor; and how many steps each may take (the specification's defaults). */
export const TURN_LIMITS = { task: 50, conversational: 100, background: 200 } as const;

/** The most steps that a run is given at once. */
export const MOST_TURNS = 200;

/** Why a run pauses; `turn_limit` stands in the specification's executor and is missing in its schema. */
export const PAUSE_REASONS = ['user_input', 'approval_required', 'confirmation', 'turn_limit'] as const;

const instant = z.number();
const text = z.string();
const id = z.string().min(1).max(500);

/** A failure, as the specifications have it. */
export const runErrorSchema = z.strictObject({ code: text, message: text, recoverable: z.boolean() });

/** A tool call that a run has not got a result of. */
export const openCallSchema = z.strictObject({
  id,
  tool: text,
  input: z.record(text, z.unknown()),
  /** By what its agent knows it. */
  agentCall: text.exactOptional(),
  /** Its agent, by the name and version that it gives itself. */
  program: text.exactOptional(),
  /** Of the tool, its definition and its raw input: what a yes is bound to. */
  digest: text,
  /** Who runs it: Conch itself, or the agent, which waits for an answer or only says that it did. */
  source: z.enum(['conch', 'agent']),
  /** By the rules; what they deny is never open. */
  verdict: z.enum(['allow', 'ask']),
  /** Changes nothing, by somebody's word: it may run again although nobody knows what came of it. */
  repeatable: z.boolean(),
  status: z.enum(['pending', 'running']),
  /** It may be claimed: it is its turn, and nothing has to be asked. */
  cleared: z.boolean(),
  /** Digest of what the tool's server says it is; absent for tools without one. */
  definition: text.exactOptional(),
  /** It stands behind others: it is asked for once more when it comes to the front, and what the rules say of it then counts. */
  waits: z.literal(true).exactOptional(),
  /** It is asked about by itself: an answer counts for no other call. */
  alone: z.literal(true).exactOptional(),
  /** People said yes to this very call. */
  approved: z.boolean(),
  /** The approval by which they did. */
  approval: id.exactOptional(),
  /** What people are shown when they are asked about it; `unaskable`: why they cannot be. */
  words: z
    .strictObject({
      title: text,
      detail: text,
      about: aboutSchema.omit({ run: true, step: true, steps: true, bare: true }).exactOptional(),
      unaskable: text.exactOptional(),
      /** The rules that may be remembered, the narrowest first. */
      offers: z.array(z.strictObject({ rule: text, words: text })).exactOptional(),
    })
    .exactOptional(),
});

/** A question whether a call may run. */
export const approvalSchema = z.strictObject({
  id,
  call: id,
  tool: text,
  digest: text,
  requestedAt: instant,
  /** `null`: the floor on which the run goes knows when nobody has answered in time. */
  expiresAt: instant.nullable(),
  /** The agent that asked is gone: what people say counts for the next call with this digest, once. */
  detached: z.boolean(),
  /** The calls that wait and are the very same: the answer counts for each. */
  others: z.array(id).exactOptional(),
  /** The question stays open over a restart, for the very call that Conch itself would run, or (`answer`) for the same once more. */
  lasting: z.literal([true, 'answer']).exactOptional(),
});

/** What people said of a call that was gone by then, or of one of several that are the same: it answers the same call of this run once. */
const grantSchema = z.strictObject({
  approval: id,
  tool: text,
  digest: text,
  choice: z.enum(['allow', 'deny']),
  by: text.nullable(),
  /** In their words. */
  reason: text.nullable(),
  /** It counts no more from then on; `null`: as long as its run. */
  until: instant.nullable(),
  /** The one call that it is for; absent: any that is the same. */
  call: id.exactOptional(),
});

/** A question that is over, for whoever clicks late. */
export const closedApprovalSchema = z.strictObject({
  id,
  state: z.enum(['allowed', 'denied', 'expired', 'void']),
  by: text.nullable(),
});

/** A yes for more than once: the rule by which it is given from now on, in this channel and to this agent. */
const rememberedSchema = z.strictObject({
  id,
  rule: text,
  /** It is over when the tool is another one. */
  definition: text.nullable(),
  by: text,
  at: instant,
  until: instant,
});

const pauseSchema = z.strictObject({
  reason: z.enum(PAUSE_REASONS),
  /** In whose words it stands still, if somebody's. */
  context: text.nullable(),
  /** Then it is aborted: nobody's silence lets a run go on. `null`: the floor's turn ends then, and with it the run. */
  until: instant.nullable(),
  approval: approvalSchema.nullable(),
  /** Nobody is asked: its turn was cut by a restart, and has not come back. */
  muted: z.literal(true).exactOptional(),
});

/** One agent carrying out one piece of work. */
const runSchema = z.strictObject({
  id,
  type: z.enum(['task', 'conversational', 'background']),
  task: id,
  /** The person who asked for it; absent: an operator had it begin, or nobody is known. */
  requestedBy: text.exactOptional(),
  /** Of the agent; what an earlier one sends is refused. */
  session: id,
  /** The tools that it may use, if not all that are allowed. */
  allowedTools: z.array(text).nullable(),
  /** The model that does it, if not that of its agent. */
  model: text.exactOptional(),
  maxTurns: z.number(),
  /** How many steps "continue" adds. */
  turnsAtOnce: z.number(),
  /** Steps so far; the specification's `currentTurn`. */
  turn: z.number(),
  /** How long people may take to answer; `null`: as long as the floor on which it goes lets its turn wait. */
  waitMs: z.number().nullable(),
  pause: pauseSchema.nullable(),
  /** The last failure; while paused: the agent is gone, which counts as soon as the run goes on. */
  lastError: runErrorSchema.nullable(),
  /** When an error nobody decides about is an abort. */
  errorUntil: instant.nullable(),
  calls: z.array(openCallSchema),
  /** How often the last call was asked for in a row. */
  repeated: z.strictObject({ digest: text, times: z.number() }).nullable(),
  /** What was said that still counts for calls to come. */
  grants: z.array(grantSchema),
  asked: z.number(),
  /** The first call that the rules refused. */
  refused: id.exactOptional(),
});

/** What a session reads by which it is another one: text that nobody vouches for, or what should not leave. */
export const LABELS = ['untrusted', 'private'] as const;

const mark = { since: instant, from: text };

/** All runs of one seat, one after the other; only the newest is kept. */
export const runStateSchema = z.strictObject({
  key: text,
  status: z.enum(RUN_STATUSES),
  run: runSchema.nullable(),
  closed: z.array(closedApprovalSchema),
  remembered: z.array(rememberedSchema),
  /** Digests of calls of which nobody knows what they did: the same is asked even if it is allowed. */
  unknown: z.array(text),
  /** Since when its session has read text that nobody vouches for, and where that came from; absent: it has not. */
  taint: z.strictObject(mark).exactOptional(),
  /** The same of what should not leave. */
  secret: z.strictObject(mark).exactOptional(),
  /** When sessions before it had: what they wrote then is such text, too. */
  wrote: z.array(z.strictObject({ ...mark, until: instant, private: z.literal(true).exactOptional() })).exactOptional(),
  /** Facts of other machines whose commands were carried out. */
  causes: z.array(text),
  /** How many numbers of runs were left out, because runs since the copy that was restored may have had them. */
  skipped: z.number().exactOptional(),
  totals: z.strictObject({ runs: z.number(), completed: z.number(), steps: z.number(), tools: z.number() }),
});

export type RunError = z.output<typeof runErrorSchema>;
export type OpenCall = z.output<typeof openCallSchema>;
export type RunApproval = z.output<typeof approvalSchema>;
export type RunGrant = z.output<typeof grantSchema>;
export type Run = z.output<typeof runSchema>;
export type RunState = z.output<typeof runStateSchema>;

/** The number of a seat's last run, which stands in its name; 0 before the first. */
export function lastNumber({ totals, skipped = 0 }: Pick<RunState, 'totals' | 'skipped'>): number {
  return totals.runs + skipped;
}

/** A seat before its first run. */
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
