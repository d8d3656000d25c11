import { z } from 'zod';
import type { Frozen } from '../../lib/tagged.ts';
import {
  answerSchema,
  configSchemas,
  decidedSchema,
  feedbackSchema,
  questionSchema,
  seatSettingsSchema,
} from './settings.ts';
import type { ChannelId, FloorSettings } from './settings.ts';

/** The names of the limits that a channel can reach. */
export const BUDGETS = [
  'turns',
  'tokens',
  'cost',
  'minutes',
  'tokens a day',
  'cost a day',
  'minutes a day',
  'held messages',
] as const;

/** The five states of a seat, as the specification names them. */
export const STATUSES = ['OFFLINE', 'IDLE', 'QUEUED', 'ACTIVE', 'WAITING'] as const;

/** One of the five states of a seat. */
export type Status = (typeof STATUSES)[number];

const instant = z.number();
const agent = z.string();
const message = z.string();

/** An agent's place at this floor. */
const seatSchema = z.strictObject({
  ...seatSettingsSchema.shape,
  status: z.enum(STATUSES),
  /** True when the agent joins the queue as soon as it is online. */
  assigned: z.boolean(),
  disabled: z.boolean(),
  present: z.boolean(),
  /** Lines of the conversation after this one count as new for the agent. */
  seenLine: z.number(),
  /**
   * Rounds of the exchange that the agent has used up. Turns that another agent or a task asked for use none, nor do
   * failed turns marked `uncounted`.
   */
  taken: z.number(),
  /**
   * Set when the configuration added the agent during this exchange. Such an agent joins the queue behind the others.
   */
  added: z.literal(true).exactOptional(),
});

const fromProgram = z.literal(true).exactOptional();

/** A message of the conversation, and agents that it names or calls. `line`: the message's line, or a later one. */
export const linedSchema = z.strictObject({ id: message, line: z.number(), addressed: z.array(agent), fromProgram });

/**
 * A message given to this turn's agent that no complete generation has answered. The prompt of a resumed turn repeats
 * the message. `begun`: the agent said something after it got the message.
 */
const givenMessageSchema = z.strictObject({
  id: message,
  begun: z.boolean(),
  addressed: linedSchema.shape.addressed.exactOptional(),
  fromProgram,
});

/** An allowed tool call whose outcome the floor does not know yet. */
const allowedCall = z.strictObject({ approval: z.string(), answer: answerSchema });
const allowedCalls = z.array(allowedCall).exactOptional();

const ran = z.literal(true).exactOptional();

const waiting = {
  deadlineAt: instant,
  /** True when the wait is over and the turn has not resumed yet. */
  ready: z.boolean(),
  /** Messages for the prompt of the resumed turn. */
  answers: z.array(linedSchema),
};

const waitSchema = z.discriminatedUnion('reason', [
  /**
   * A wait for an answer. `of`: the agent whose next turn is the answer; absent when a message is the answer. That turn
   * is not granted yet (`asked`), in progress (`granted`), or over with text (`answered`) or without (`silent`).
   */
  z.strictObject({
    reason: z.literal('answer'),
    ...waiting,
    of: z.strictObject({ agent, is: z.enum(['asked', 'granted', 'answered', 'silent']) }).optional(),
  }),
  /**
   * A message interrupted the turn. `graceEndAt`: deadline for the generation to stop; `null` once none has to stop.
   */
  z.strictObject({ reason: z.literal('human'), ...waiting, graceEndAt: instant.nullable() }),
  z.strictObject({
    reason: z.literal('approval'),
    ...waiting,
    question: questionSchema,
    /** Set when a restart ended the generation that made a lasting request. */
    cut: z.literal(true).exactOptional(),
    /** The decision about a request from before the agent's restart, for the agent's next prompt. */
    decided: decidedSchema.exactOptional(),
  }),
]);

/** A task's order for a turn: the agent's instructions, and how the agent is prompted. */
export const taskTurnShape = {
  /** The instructions. Empty: the task's own machine gives them when the agent is prompted. */
  brief: z.string(),
  /** The agent gets a new session for the turn. */
  fresh: z.literal(true).exactOptional(),
  /** The prompt leaves out what the task's primary agent wrote since the task began. */
  apart: z.literal(true).exactOptional(),
};

const anyTurn = {
  agent,
  epoch: z.number(),
  startedAt: instant,
  said: z.boolean(),
  /** Text said in the turn, at most 32,768 UTF-16 units: the beginning of a longer text is cut. */
  words: z.string().exactOptional(),
  /** Agents mentioned in the last text since the turn was granted or resumed. */
  mentions: z.array(agent),
  /** Injected messages whose outcome is not reported yet. */
  injecting: z.array(linedSchema),
  /** Messages that the agent has not got: they were not injected, or the prompt had no room. */
  unseen: z.array(linedSchema),
  given: z.array(givenMessageSchema),
  /** Messages given to an earlier generation of this turn, which completed. They count as answered. */
  answered: z.array(message),
  reprompts: z.number(),
  /** Time during the turn in which Conch's process stood still, in milliseconds. Budgets of minutes leave it out. */
  stoodStillMs: z.number().exactOptional(),
  /** An operator extended the turn until this instant. */
  extendedTo: instant.exactOptional(),
  /** How often the announcement was made, shown or not, that the turn goes on after a restart. Absent: never. */
  recovered: z.number().exactOptional(),
  /** The agent's place in the queue after the turn; `null` for the end of the queue. */
  place: z.number().nullable(),
  /** Set when the turn has a run. */
  run: ran,
  feedback: feedbackSchema.exactOptional(),
  /** Set on a turn that the open task asked for: what the agent has to do in it. */
  brief: z.string().exactOptional(),
  fresh: taskTurnShape.fresh,
  apart: taskTurnShape.apart,
  /** The newest allowed tool call of the turn's run without a known outcome. `alsoAllowed`: the older ones. */
  allowed: allowedCall.exactOptional(),
  alsoAllowed: allowedCalls,
};

/** A turn: the time from a grant of the floor to its end, also while the turn waits without the floor. */
const turnSchema = z.discriminatedUnion('status', [
  z.strictObject({
    status: z.literal('active'),
    ...anyTurn,
    /**
     * When the turn times out without a sign of work. While work is open, the latest end of that work; `null` when
     * unknown.
     */
    deadlineAt: instant.nullable(),
    /** When the turn ends whatever its agent does. */
    hardEndAt: instant,
    /** When silence ends the turn, in channels that detect ends by silence. */
    silenceAt: instant.nullable(),
    /** Number of open tool calls, permissions and streams. */
    openWork: z.number(),
  }),
  z.strictObject({
    status: z.literal('waiting'),
    ...anyTurn,
    /** Time left until the hard end, in milliseconds. */
    leftMs: z.number(),
    wait: waitSchema,
  }),
  /**
   * A turn that a restart interrupted. After the channel's history is read, it resumes when its agent is back, or is
   * forfeited if `onRestart` says so.
   */
  z.strictObject({
    status: z.literal('suspended'),
    ...anyTurn,
    deadlineAt: instant,
    hardEndAt: instant,
    leftMs: z.number(),
  }),
]);

/** A held message of a person or a program. */
export const heldSchema = z.strictObject({
  id: message,
  addressed: z.array(agent),
  /** The platform's sort key, or ''. Held messages are released in this order, those with '' first. */
  order: z.string(),
  /**
   * `turn`: held until a turn is granted. `prompt`: until a turn is granted or resumed, or the holder's request is
   * closed. `next`: until a turn is granted or resumed, but opens no exchange, because an agent got the message and
   * said nothing after. `exchange`: until an agent observes the message; `prompt` after the exchange closes. `agent`:
   * until an agent is available. `start`: until the channel's history is read.
   */
  until: z.enum(['turn', 'prompt', 'next', 'exchange', 'agent', 'start']),
  /** The message's line in the conversation, or a later one; `null` while the message is not in the conversation. */
  line: z.number().nullable(),
  fromProgram,
});

const exchangeSchema = z.strictObject({
  /**
   * The start of the exchange, or the last reset of usage in it; later by the time that Conch's process stood still
   * since.
   */
  openedAt: instant,
  /** Turns in a row in which nothing was said, since the last reset. Turns marked `uncounted` are left out. */
  silent: z.number(),
  /** The floor's epoch when the exchange began. */
  since: z.number(),
});

const usageSchema = z.strictObject({
  turns: z.number(),
  tokens: z.number(),
  costMicros: z.number(),
  /** Duration of the exchanges that closed since the last reset, in milliseconds. The open exchange is not included. */
  ms: z.number(),
  /** Failed turns that `turns` leaves out, because their agent said nothing. Absent: none. */
  failed: z.number().exactOptional(),
});

/** The key of announcements about gaps in the channel's history. */
export const GAP_KEY = 'history';

/** Zero usage of a day. `NOTHING_USED`: zero usage of an exchange. */
export const NOTHING_OF_A_DAY = { tokens: 0, costMicros: 0, ms: 0 };
export const NOTHING_USED = { turns: 0, ...NOTHING_OF_A_DAY };

/** Untrusted files in an agent's folder that people decide about. `shown`: the channel shows the whole question. */
const trustSchema = z.strictObject({
  agent,
  id: z.string(),
  folder: z.string(),
  detail: z.string(),
  shown: z.boolean(),
});

/**
 * A task on a floor: a review, or a ticket of a crew. Until its end, it replaces the channel's order. `key`: the key of
 * the task's state machine. `primary`: the agent that works. `reviewer`: the agent that reviews, if any. `signals`: the
 * words with which these agents end their work. `within`: the id of the open task that rests until this task is over.
 */
export const taskPartsSchema = z.strictObject({
  kind: z.enum(['review', 'ticket']),
  id: z.string(),
  key: z.string(),
  primary: agent,
  reviewer: agent.exactOptional(),
  signals: z.strictObject({ done: z.string(), pass: z.string(), fail: z.string() }),
  within: z.string().exactOptional(),
});

const oneTaskSchema = z.strictObject({
  ...taskPartsSchema.shape,
  /** The turn that the task asks for; `null` while it asks for none, or while that turn is under way. */
  next: z.strictObject({ agent, ...taskTurnShape }).nullable(),
  /** Set while the task waits and asks for no turn. */
  held: z.literal(true).exactOptional(),
  /** 1 when the task has asked for a turn, else 0. */
  told: z.number(),
  /** How many lines the conversation had when the task began. Absent: not known. */
  since: z.number().exactOptional(),
});

/** The open task. `outer`: the task that rests meanwhile. */
const openTaskSchema = z.strictObject({ ...oneTaskSchema.shape, outer: oneTaskSchema.exactOptional() });

/** The stored state of a floor, as plain JSON. */
export const floorSchema = z.strictObject({
  channel: z.string(),
  settings: configSchemas.settings,
  /** The last configuration. A new configuration changes only the settings in which it differs from the last. */
  configured: z.strictObject(configSchemas).nullable(),
  condition: z.enum(['resting', 'open', 'paused']),
  /**
   * Grows with each grant and resume, and after a restored backup. A fencing token: an act counts only under the epoch
   * of its agent's turn, except `spend`.
   */
  epoch: z.number(),
  asks: z.number(),
  questions: z.number(),
  lines: z.number(),
  seats: z.array(seatSchema),
  queue: z.array(agent),
  /** Agents that precede the queue, with who named them and the messages that their turns answer. */
  prioritised: z.array(
    z.strictObject({
      agent,
      by: z.enum(['operator', 'person', 'agent']),
      messages: z.array(message),
      feedback: feedbackSchema.exactOptional(),
    }),
  ),
  /** The turn that holds the floor, ACTIVE or WAITING. */
  turn: turnSchema.nullable(),
  /** Turns that wait without the floor. */
  parked: z.array(turnSchema),
  held: z.array(heldSchema),
  /** Agents with a background run, and the runs' requests. */
  asides: z
    .array(
      z.strictObject({
        agent,
        /** The number of the background run, counted from 1 for each seat. */
        run: z.number().exactOptional(),
        /** Set when the run failed. A failed run waits until people retry or discard the run. */
        failed: z.literal(true).exactOptional(),
        question: questionSchema.exactOptional(),
        allowed: allowedCalls,
        /** Deadline for the decision about the open request. */
        until: instant.exactOptional(),
      }),
    )
    .exactOptional(),
  /** Agents that are not started until people decide about files in their folders. */
  trust: z.array(trustSchema).exactOptional(),
  /** Reports of background runs that are not posted yet. */
  reports: z.array(z.strictObject({ agent, text: z.string() })).exactOptional(),
  task: openTaskSchema.exactOptional(),
  exchange: exchangeSchema.nullable(),
  /** Usage since its last reset by a person, an operator or a new task. Budgets of an exchange limit this usage. */
  usageSincePerson: usageSchema,
  facilitation: z.strictObject({ facilitator: agent, ask: z.number(), deadlineAt: instant }).nullable(),
  day: z.strictObject({ startedAt: instant, tokens: z.number(), costMicros: z.number(), ms: z.number() }),
  /** The budget that ended the exchange. `until`: when the limit ends by itself; `null` when it does not. */
  limit: z.strictObject({ budget: z.enum(BUDGETS), until: instant.nullable() }).nullable(),
  /**
   * True after a person, or Conch for a suspended channel, stopped the floor. Held messages wait until a person writes,
   * an operator opens an exchange, or a task begins.
   */
  stopped: z.boolean(),
  /** True from the command `restart` or `disconnect` until the channel's history is read. */
  catchingUp: z.boolean(),
  /** True after the announcement, shown or not, that no agent is available, until an agent is queued. */
  outage: z.boolean(),
  /** Set after the announcement, shown or not, that people must address an agent by name. Cleared by the next grant. */
  toldToName: z.literal(true).exactOptional(),
  /** The gaps in the history that count as one outage: how many were announced, and when the last one was. */
  gap: z.strictObject({ count: z.number(), at: instant }).exactOptional(),
  /**
   * The announcement that the next one with the same key edits: its key, how often it was made, the agents that it
   * calls lost. `null` after a new line of the conversation.
   */
  notice: z.strictObject({ key: z.string(), count: z.number(), lost: z.array(agent).exactOptional() }).nullable(),
});

export type Seat = Frozen<z.infer<typeof seatSchema>>;
export type Wait = Frozen<z.infer<typeof waitSchema>>;
export type Turn = Frozen<z.infer<typeof turnSchema>>;
export type ActiveTurn = Extract<Turn, { readonly status: 'active' }>;
export type WaitingTurn = Extract<Turn, { readonly status: 'waiting' }>;
export type Held = Frozen<z.infer<typeof heldSchema>>;
export type Exchange = Frozen<z.infer<typeof exchangeSchema>>;
export type TrustQuestion = Frozen<z.infer<typeof trustSchema>>;
export type TaskParts = Frozen<z.infer<typeof taskPartsSchema>>;
export type FloorTask = Frozen<z.infer<typeof openTaskSchema>>;
export type BackgroundRun = Frozen<NonNullable<z.infer<typeof floorSchema>['asides']>[number]>;
export type Floor = Frozen<z.infer<typeof floorSchema>>;

/** The state of a floor before anything happened. */
export function emptyFloor(channel: ChannelId): Floor {
  return {
    channel,
    settings: PLAIN_SETTINGS,
    configured: null,
    condition: 'resting',
    epoch: 0,
    asks: 0,
    questions: 0,
    lines: 0,
    seats: [],
    queue: [],
    prioritised: [],
    turn: null,
    parked: [],
    held: [],
    exchange: null,
    usageSincePerson: NOTHING_USED,
    facilitation: null,
    day: { startedAt: 0, ...NOTHING_OF_A_DAY },
    limit: null,
    stopped: false,
    catchingUp: false,
    outage: false,
    notice: null,
  };
}

const NO_LIMIT = { tokens: null, costMicros: null, ms: null };

/** Settings of a floor before its first configuration. Durations in milliseconds. */
export const PLAIN_SETTINGS: FloorSettings = {
  mode: 'inject',
  order: 'round-robin',
  rounds: 1,
  maxTurns: 12,
  maxTurnMs: 900_000,
  waitTimeoutMs: 600_000,
  waitPolicy: 'hold',
  interruptGraceMs: 5_000,
  interruptResponder: null,
  facilitator: null,
  defaultAgent: null,
  autoDetectTurnEnd: false,
  autoDetectSilenceMs: 10_000,
  onRestart: 'resume',
  maxHeld: 500,
  announceTimeouts: true,
  announceDisconnects: true,
  announceLimits: true,
  announceNobody: true,
  announceRecovery: true,
  receipts: true,
  exchangeBudget: NO_LIMIT,
  dayBudget: NO_LIMIT,
};
