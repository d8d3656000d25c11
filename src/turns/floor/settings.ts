import { z } from 'zod';
import { INTERRUPT_MODES, ORDERS } from './policies.ts';

/** An agent's id in the configuration. Never a display name. */
export type AgentId = string & { readonly brand?: 'AgentId' };
/** A channel's id, `<adapter>:<platform id>`. The prefix keeps ids of two platforms apart. */
export type ChannelId = string & { readonly brand?: 'ChannelId' };
/** The platform's id of a message that a person or a program wrote. */
export type MessageId = string & { readonly brand?: 'MessageId' };

/** The decisions about a request: allow or deny. */
export const CHOICES = ['allow', 'reject'] as const;
export type Choice = (typeof CHOICES)[number];

const PAUSES = ['turn_limit', 'confirmation'] as const;

/** One field of a form that an MCP server sends for people to fill in. */
const formFieldSchema = z.strictObject({
  /** The field's name in `/answer`. */
  name: z.string(),
  label: z.string(),
  /** The server's description of the field; '' for none. */
  hint: z.string(),
  /** `one` and `some` choose among the options. `some` without options takes free texts. */
  kind: z.enum(['text', 'number', 'integer', 'boolean', 'one', 'some']),
  required: z.boolean(),
  options: z.array(z.strictObject({ value: z.string(), label: z.string() }).readonly()).readonly(),
  /** Lower and upper bound: of a text's length, of a number, or of the number of chosen values. */
  least: z.number().exactOptional(),
  most: z.number().exactOptional(),
  format: z.enum(['email', 'uri', 'date', 'date-time']).exactOptional(),
  /** The default value, as people would write it. */
  initial: z.string().exactOptional(),
});

export type FormField = Readonly<z.infer<typeof formFieldSchema>>;

/** What people must know about a tool call besides its input. */
export const aboutSchema = z.strictObject({
  run: z.string().exactOptional(),
  /** The step that makes the call. `steps`: the run's limit of steps. */
  step: z.number(),
  steps: z.number(),
  /** The kind, with the tool's name if that differs, or an MCP tool and its server: `execute (Bash)`, `find (docs)`. */
  tool: z.string(),
  /** The call in short, such as `edit notes/b.txt`, if a short form is known. */
  call: z.string().exactOptional(),
  /** The agent's working folder; `null` when unknown. */
  folder: z.string().nullable(),
  /** Why people must decide about the call, as a clause. */
  why: z.string(),
  says: z.string().nullable(),
  /** Who is allowed to decide, if not every operator. */
  who: z.string().exactOptional(),
  /** Set when the session has read untrusted text, and the call could send private data or a secret out. */
  danger: z.literal(true).exactOptional(),
  /** An example of an answer, for a request that is answered in words. */
  answer: z.string().exactOptional(),
  form: z.array(formFieldSchema.readonly()).readonly().exactOptional(),
  /** Set when the channel shows what a person fills into the form. Answers without a form are always shown. */
  showsAnswer: z.literal(true).exactOptional(),
  /** Set when the agent runs the call itself and learns only that it was denied, not why. */
  denyOnly: z.literal(true).exactOptional(),
  /**
   * Number of the agent's open requests, if more than one; equal requests can count once. This request is the first of
   * them.
   */
  questions: z.number().exactOptional(),
  /** How often the agent made exactly this request, if more than once. One decision counts for all. */
  times: z.number().exactOptional(),
});

export type AboutCall = Readonly<z.infer<typeof aboutSchema>>;

/** An agent's request for approval, in words for people. */
export const approvalRequestSchema = z.strictObject({
  title: z.string(),
  /**
   * The whole input of the tool call in words; can be '' when nobody can be asked. For a paused run: the input of a
   * repeated call, if any, and what each decision does.
   */
  detail: z.string(),
  about: aboutSchema.exactOptional(),
  /** Id of the approval in the run. Absent when the run itself is paused. */
  id: z.string().exactOptional(),
  /** Set when the run is paused: allow continues it, deny ends it. */
  pause: z.enum(PAUSES).exactOptional(),
  /**
   * Set when the request outlives a restart. `true`: the tool call itself survives. `answer`: only the decision counts,
   * for an equal call later.
   */
  lasting: z.literal([true, 'answer']).exactOptional(),
  /** Set when the agent was restarted after its request. The decision then counts once, for an equal request. */
  restarted: z.literal(true).exactOptional(),
  /** Always-allow rules on offer, narrowest first. */
  always: z
    .array(z.strictObject({ rule: z.string(), words: z.string() }).readonly())
    .readonly()
    .exactOptional(),
});

/** An open request for approval. */
export const questionSchema = z.strictObject({
  /** The request's number, unique in its channel. People name the request by it. */
  question: z.number(),
  /** A random key, unique in all databases, for the request's buttons. Absent: no button answers the request. */
  key: z.string().exactOptional(),
  /** True when the whole request is shown in the channel. Before that it cannot be allowed. */
  shown: z.boolean(),
  ...approvalRequestSchema.omit({ id: true }).shape,
  approval: approvalRequestSchema.shape.id,
});

/**
 * The end of a request, as it is announced. `choice`: `null` when the request ended without a decision; `reject` also
 * when the request could not be shown, with `by: null`.
 */
export const answerSchema = z.strictObject({
  question: z.number(),
  title: z.string(),
  choice: z.enum(CHOICES).nullable(),
  /** The name of the person who decided; `null` for nobody. */
  by: z.string().nullable(),
  /** The always-allow rule that the decision added. */
  always: z.string().exactOptional(),
  /**
   * The person's reason, or the answer to a request that is answered in words. With `reject` by nobody: why the request
   * could not be shown.
   */
  reason: z.string().exactOptional(),
  /** Set when the request was about a paused run. */
  pause: z.enum(PAUSES).exactOptional(),
  /** Set when the paused run was completed with its results so far. */
  completes: z.literal(true).exactOptional(),
  /** Set when the request was a question to answer in words, also if it was declined or withdrawn. */
  inWords: z.literal(true).exactOptional(),
  at: z.number(),
});

/** The decision about a request that an agent made before its restart. `reason`: the deciding person's words. */
export const decidedSchema = z.strictObject({
  title: z.string(),
  choice: z.enum(CHOICES),
  reason: z.string().exactOptional(),
});

/** The name and words of the person who retried a failed run. */
export const feedbackSchema = z.strictObject({ name: z.string(), words: z.string() });

export type Feedback = Readonly<z.infer<typeof feedbackSchema>>;

export type DecidedRequest = Readonly<z.infer<typeof decidedSchema>>;

/**
 * The outcome of an allowed tool call. `ms`: its duration; `null` when unknown. `unrun`: the call did not start.
 * `unknown`: whether the call worked is not known, as after a restart.
 */
export const callOutcomeSchema = z.strictObject({
  status: z.enum(['complete', 'error', 'unrun', 'unknown']),
  ms: z.number().nullable(),
});

/** The usage of one model call, or of one report of an agent. Durations are in milliseconds. */
export const modelUseSchema = z.strictObject({
  backend: z.string(),
  /** The provider's name of the model; `null` when unknown. */
  model: z.string().nullable(),
  input: z.number().nullable(),
  output: z.number().nullable(),
  /** Input tokens that the provider had cached. */
  cached: z.number().nullable(),
  /**
   * Where the cost comes from: the agent's report, prices times counted tokens, prices times estimated tokens, or
   * nowhere (0).
   */
  source: z.enum(['reported', 'computed', 'estimated', 'unpriced']),
  /** `retried`: the model call failed and was repeated. `stopped`: the rest of the answer was not wanted. */
  outcome: z.enum(['answered', 'passed', 'failed', 'retried', 'stopped']),
  ms: z.number(),
  /** Id of the person or program that caused the model call. Absent when unknown. */
  requestedBy: z.string().exactOptional(),
  run: z.string().exactOptional(),
});

export type ModelUse = Readonly<z.infer<typeof modelUseSchema>>;

export type Question = Readonly<z.infer<typeof questionSchema>>;

const spending = z.strictObject({
  tokens: z.number().nullable(),
  costMicros: z.number().nullable(),
  ms: z.number().nullable(),
});

/** Settings of one floor. Durations in milliseconds, money in millionths of a dollar. `null` in a budget: no limit. */
export const floorSettingsSchema = z.strictObject({
  mode: z.enum(INTERRUPT_MODES),
  order: z.enum(ORDERS),
  /** Turns of each queued agent in one exchange; 0 for no limit. */
  rounds: z.number(),
  /** Limit of turns since usage was last reset. Turns for a task and turns marked `uncounted` do not count. */
  maxTurns: z.number(),
  maxTurnMs: z.number(),
  waitTimeoutMs: z.number(),
  waitPolicy: z.enum(['hold', 'release']),
  interruptGraceMs: z.number(),
  interruptResponder: z.string().nullable(),
  facilitator: z.string().nullable(),
  /** Under the `mention` policy, the agent that answers messages that address no available agent; `null` for none. */
  defaultAgent: z.string().nullable(),
  autoDetectTurnEnd: z.boolean(),
  autoDetectSilenceMs: z.number(),
  onRestart: z.enum(['resume', 'forfeit']),
  maxHeld: z.number(),
  announceTimeouts: z.boolean(),
  announceDisconnects: z.boolean(),
  announceLimits: z.boolean(),
  announceNobody: z.boolean(),
  announceRecovery: z.boolean(),
  receipts: z.boolean(),
  exchangeBudget: spending,
  dayBudget: spending,
});

export type FloorSettings = z.infer<typeof floorSettingsSchema>;

/** Settings of one seat. */
export const seatSettingsSchema = z.strictObject({
  agent: z.string(),
  /** Under the order `priority`, agents with smaller numbers speak first. */
  priority: z.number(),
  timeoutMs: z.number(),
  /** Whether an agent that reconnects joins the queue by itself. */
  rejoin: z.enum(['manual', 'auto']),
});

export type SeatSettings = z.infer<typeof seatSettingsSchema>;

/** Schemas of settings and of seats. Parsing one stored object twice returns the same parsed object. */
export const configSchemas = { settings: shared(floorSettingsSchema), seats: shared(z.array(seatSettingsSchema)) };

function shared<Value>(schema: { parse(stored: unknown): Value }) {
  const parsedValues = new WeakMap<object, Value>();
  return z.unknown().transform((stored): Value => {
    const known = stored instanceof Object ? parsedValues.get(stored) : undefined;
    const value = known ?? schema.parse(stored);
    if (stored instanceof Object) parsedValues.set(stored, value);
    return value;
  });
}
