import { z } from 'zod';
import { INTERRUPT_MODES, ORDERS } from './policies.ts';

/** Names of agents, channels and messages are strings of the platform or the configuration; never display names. */
export type AgentId = string & { readonly brand?: 'AgentId' };
/** A channel's id, `<adapter>:<platform id>`, so that ids of two platforms never meet. */
export type ChannelId = string & { readonly brand?: 'ChannelId' };
/** A human message's id as the platform gave it. */
export type MessageId = string & { readonly brand?: 'MessageId' };

/** What may be decided about a request for permission: a yes for this once, or a no. */
export const CHOICES = ['allow', 'reject'] as const;
export type Choice = (typeof CHOICES)[number];

/** Why a run stands still until people decide: its steps are used up, or somebody has to say that it is meant. */
export const PAUSES = ['turn_limit', 'confirmation'] as const;

/** One field of a form that a server of tools asks people to fill in. */
const askedFieldSchema = z.strictObject({
  /** By which answers in words name it. */
  name: z.string(),
  label: z.string(),
  /** What its server says of it; empty: nothing. */
  hint: z.string(),
  /** `one` and `some` are choices among its options; `some` without options are texts of one's own. */
  kind: z.enum(['text', 'number', 'integer', 'boolean', 'one', 'some']),
  required: z.boolean(),
  options: z.array(z.strictObject({ value: z.string(), label: z.string() }).readonly()).readonly(),
  /** The least and the most: characters of a text, of a number itself, how many of some. */
  least: z.number().exactOptional(),
  most: z.number().exactOptional(),
  format: z.enum(['email', 'uri', 'date', 'date-time']).exactOptional(),
  /** What counts if it is left out, as people would write it. */
  initial: z.string().exactOptional(),
});

export type AskedField = Readonly<z.infer<typeof askedFieldSchema>>;

/** What people must know of a call beside what would run. Its texts are spelled out as `visible` does it. */
export const aboutSchema = z.strictObject({
  /** Its run, by its id. */
  run: z.string().exactOptional(),
  /** Which step of that it stands in, and of how many. */
  step: z.number(),
  steps: z.number(),
  /** Its class and its tool: `edit`, `execute (Bash)`, `write_file of files`. */
  tool: z.string(),
  /** What it does, as short as that is true: `edit notes/b.txt`; absent: nothing but its tool is known. */
  call: z.string().exactOptional(),
  /** Where its agent works; `null` when nobody knows. */
  folder: z.string().nullable(),
  /** Why people are asked, as the end of "asked because". */
  why: z.string(),
  /** What the agent itself says about it; `null`: nothing. */
  says: z.string().nullable(),
  /** Who may decide, when that is not every operator. */
  who: z.string().exactOptional(),
  /** It could carry away what should not leave, in words that somebody else chose. */
  danger: z.literal(true).exactOptional(),
  /** It is answered in words, such as these. */
  answer: z.string().exactOptional(),
  /** What such words have to fill in. */
  form: z.array(askedFieldSchema.readonly()).readonly().exactOptional(),
  /** The channel is shown what people fill in. */
  showsAnswer: z.literal(true).exactOptional(),
  /** Its agent carries it out itself, and hears of an answer whether it is a yes, and nothing else. */
  bare: z.literal(true).exactOptional(),
  /** How many questions of its agent there are with this one, if more than one: the others come after it. */
  questions: z.number().exactOptional(),
  /** How often the very same is asked for at once, if more than once: the answer counts for each. */
  times: z.number().exactOptional(),
});

export type AboutCall = Readonly<z.infer<typeof aboutSchema>>;

/** What an agent requests, in words for people. */
export const askedApprovalSchema = z.strictObject({
  title: z.string(),
  /** Everything that is known of what would run. */
  detail: z.string(),
  about: aboutSchema.exactOptional(),
  /** The approval's id in its run. Absent: the run itself stands still until somebody decides. */
  id: z.string().exactOptional(),
  /** The run stands still: a yes lets it go on, a no ends it. */
  pause: z.enum(PAUSES).exactOptional(),
  /** It stays open over a restart: what it is about outlives the generation that asks, or (`answer`) only what people say of it does. */
  lasting: z.literal([true, 'answer']).exactOptional(),
  /** Whoever asked is gone: what people say counts for the same request, once. */
  gone: z.literal(true).exactOptional(),
  /** The rules by which the same may be allowed from now on, the narrowest first. */
  always: z
    .array(z.strictObject({ rule: z.string(), words: z.string() }).readonly())
    .readonly()
    .exactOptional(),
});

export type Approval = Readonly<z.infer<typeof askedApprovalSchema>>;

/** A request for permission that is open. */
export const questionSchema = z.strictObject({
  /** Its number, never used twice in a channel: whoever answers names it. */
  question: z.number(),
  /** Random, never used twice in any store: its buttons carry it. Absent in questions of earlier versions, which no button answers. */
  key: z.string().exactOptional(),
  /** All of it stands in the channel. Nobody may say yes before. */
  shown: z.boolean(),
  ...askedApprovalSchema.omit({ id: true }).shape,
  approval: askedApprovalSchema.shape.id,
});

/** What people answered a question, for those who read it: `choice` is `null` when nobody did. */
export const answerSchema = z.strictObject({
  question: z.number(),
  title: z.string(),
  choice: z.enum(CHOICES).nullable(),
  /** The name of whoever answered; `null`: nobody. */
  by: z.string().nullable(),
  /** The rule that is remembered from now on. */
  always: z.string().exactOptional(),
  /** Why, in their words. */
  reason: z.string().exactOptional(),
  /** The run stood still: the answer let it go on, or ended it. */
  pause: z.enum(PAUSES).exactOptional(),
  /** The run that stood still was completed with what was there. */
  completes: z.literal(true).exactOptional(),
  /** It was asked for words. */
  inWords: z.literal(true).exactOptional(),
  at: z.number(),
});

/** What people said to a request whose agent was gone by then; `reason`: why, in their words. */
export const decidedSchema = z.strictObject({
  title: z.string(),
  choice: z.enum(CHOICES),
  reason: z.string().exactOptional(),
});

/** What a person said who had a failed run tried again. */
export const feedbackSchema = z.strictObject({ name: z.string(), words: z.string() });

export type Feedback = Readonly<z.infer<typeof feedbackSchema>>;

export type DecidedRequest = Readonly<z.infer<typeof decidedSchema>>;

/** What came of a call that people had allowed, in milliseconds; `unknown`: nobody knows what it did. */
export const cameSchema = z.strictObject({
  status: z.enum(['complete', 'error', 'unknown']),
  ms: z.number().nullable(),
});

/** One call of a model, or what an agent reports as one: an ACP agent tells of a whole turn. Durations in milliseconds. */
export const modelUseSchema = z.strictObject({
  backend: z.string(),
  /** As its provider names it; `null`: its agent does not say. */
  model: z.string().nullable(),
  input: z.number().nullable(),
  output: z.number().nullable(),
  /** Of the input, what its provider had kept. */
  cached: z.number().nullable(),
  /** How its cost is known: told by its agent, prices times counted tokens, times guessed ones, or not at all, so that it stands as 0. */
  source: z.enum(['reported', 'computed', 'estimated', 'unpriced']),
  /** `retried`: it was cut or refused, and asked again; `stopped`: nobody wanted the rest. */
  outcome: z.enum(['answered', 'passed', 'failed', 'retried', 'stopped']),
  ms: z.number(),
  /** The person who asked for what it was made for. */
  requestedBy: z.string().exactOptional(),
  run: z.string().exactOptional(),
});

export type ModelUse = Readonly<z.infer<typeof modelUseSchema>>;

export type CallEnd = Readonly<z.infer<typeof cameSchema>>;

export type Question = Readonly<z.infer<typeof questionSchema>>;

const spending = z.strictObject({
  tokens: z.number().nullable(),
  costMicros: z.number().nullable(),
  ms: z.number().nullable(),
});

/** What one floor goes by: durations in milliseconds, money in millionths of a dollar, `null` for no limit. */
export const floorSettingsSchema = z.strictObject({
  mode: z.enum(INTERRUPT_MODES),
  order: z.enum(ORDERS),
  /** Turns for every queued agent in one exchange; 0 is without end. */
  rounds: z.number(),
  /** Agent turns since the last human message, in all. */
  maxTurns: z.number(),
  maxTurnMs: z.number(),
  waitTimeoutMs: z.number(),
  waitPolicy: z.enum(['hold', 'release']),
  interruptGraceMs: z.number(),
  interruptResponder: z.string().nullable(),
  facilitator: z.string().nullable(),
  /** Who answers an unaddressed message under the `mention` policy. */
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

/** What one seat goes by; the order of a channel's list is the order of assignment. */
export const seatSettingsSchema = z.strictObject({
  agent: z.string(),
  /** 1 goes before 10. */
  priority: z.number(),
  timeoutMs: z.number(),
  /** Whether an agent that comes back is queued again by itself. */
  rejoin: z.enum(['manual', 'auto']),
});

export type SeatSettings = z.infer<typeof seatSettingsSchema>;

/** Both as floors hold them: what is read from the same object is the same object, so that floors that go by it share it. */
export const configSchemas = { settings: shared(floorSettingsSchema), seats: shared(z.array(seatSettingsSchema)) };

function shared<Value>(schema: { parse(stored: unknown): Value }) {
  const made = new WeakMap<object, Value>();
  return z.unknown().transform((stored): Value => {
    const known = stored instanceof Object ? made.get(stored) : undefined;
    const value = known ?? schema.parse(stored);
    if (stored instanceof Object) made.set(stored, value);
    return value;
  });
}
