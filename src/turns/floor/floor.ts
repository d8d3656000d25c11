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

/** What can be used up. */
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

/** One of the five states of a seat: an agent's place at one floor. */
export type Status = (typeof STATUSES)[number];

const instant = z.number();
const agent = z.string();
const message = z.string();

/** An agent's place at this floor. */
export const seatSchema = z.strictObject({
  ...seatSettingsSchema.shape,
  status: z.enum(STATUSES),
  /** Belongs to this channel's queue as soon as it is online. */
  assigned: z.boolean(),
  /** Switched off by an operator. */
  disabled: z.boolean(),
  /** Connected, as far as the floor was told. */
  present: z.boolean(),
  /** The last line of the conversation that this agent was given. */
  seenLine: z.number(),
  /** Turns it had in this exchange. */
  taken: z.number(),
  /** The configuration added it while this exchange was open: it comes behind all who wait. */
  added: z.literal(true).exactOptional(),
});

/** Set on a message that a program wrote. */
const fromProgram = z.literal(true).exactOptional();

/** A message that is part of the conversation, its line there, and whom it addressed. */
export const linedSchema = z.strictObject({ id: message, line: z.number(), addressed: z.array(agent), fromProgram });

/**
 * A message that stood in a prompt of this turn, or was put into its generation, and that no generation that ended by
 * itself has answered yet: the turn's next prompt holds it again. `begun`: something was said since it was given.
 */
const givenSchema = z.strictObject({ id: message, begun: z.boolean() });

/** Calls that people allowed, until it is told what came of each. */
const allowedCall = z.strictObject({ approval: z.string(), answer: answerSchema });
const allowedCalls = z.array(allowedCall).exactOptional();

/** Set on a turn with which a run goes. */
const ran = z.literal(true).exactOptional();

const waiting = {
  deadlineAt: instant,
  /** What it waited for has come: resumes as soon as the floor is free. */
  ready: z.boolean(),
  /** Messages that the resume will hand over. */
  answers: z.array(linedSchema),
};

const waitSchema = z.discriminatedUnion('reason', [
  /**
   * `of`: the agent whose answer it is, by its next turn. That agent has yet to be granted the floor (`asked`), has been
   * (`granted`), or its turn is over, in which it said something (`answered`) or nothing (`silent`).
   */
  z.strictObject({
    reason: z.literal('answer'),
    ...waiting,
    of: z.strictObject({ agent, is: z.enum(['asked', 'granted', 'answered', 'silent']) }).optional(),
  }),
  /** A person goes first. `graceEndAt`: the generation that was interrupted has not yet stopped; `null` once it has. */
  z.strictObject({ reason: z.literal('human'), ...waiting, graceEndAt: instant.nullable() }),
  /** A tool needs a yes. */
  z.strictObject({
    reason: z.literal('approval'),
    ...waiting,
    question: questionSchema,
    /** The generation that asked was cut by a restart: the turn is prompted anew once there is an answer. */
    cut: z.literal(true).exactOptional(),
    /** What people said meanwhile, which its agent has to be told. */
    decided: decidedSchema.exactOptional(),
  }),
]);

const anyTurn = {
  agent,
  epoch: z.number(),
  startedAt: instant,
  said: z.boolean(),
  /** The text that was said in the turn so far, its last `LONGEST_WORDS` UTF-16 units: the result of its run. */
  words: z.string().exactOptional(),
  /** Seated agents mentioned in what was said last. */
  mentions: z.array(agent),
  /** Injected messages whose outcome the backend has not reported. */
  injecting: z.array(linedSchema),
  /** Injected messages that the backend could not take. */
  unseen: z.array(linedSchema),
  given: z.array(givenSchema),
  /** Messages that stood in a prompt whose generation ended by itself: marked as done at the end of the turn. */
  answered: z.array(message),
  reprompts: z.number(),
  /** How long the process stood still in it, which uses up no minutes. */
  stoodStillMs: z.number().exactOptional(),
  /** An operator gave it time until then, without a sign of work. */
  extendedTo: instant.exactOptional(),
  /** How often people were told that it goes on after a restart; never unless given. */
  recovered: z.number().exactOptional(),
  /** Where the agent returns to in the queue; `null` is the end. */
  place: z.number().nullable(),
  /** It uses tools: a run goes with it. */
  run: ran,
  /** What a person said who had its agent's failed run tried again. */
  feedback: feedbackSchema.exactOptional(),
  /** The call of its run that people allowed last, until it is told what came of it, and those before it. */
  allowed: allowedCall.exactOptional(),
  alsoAllowed: allowedCalls,
};

/** One period of holding the floor. */
const turnSchema = z.discriminatedUnion('status', [
  z.strictObject({
    status: z.literal('active'),
    ...anyTurn,
    /** When it expires without a sign of work; while a tool call is open, when that ends at the latest, `null` if nobody knows. */
    deadlineAt: instant.nullable(),
    /** The hard end. */
    hardEndAt: instant,
    /** When silence ends it, if the channel detects ends by silence. */
    silenceAt: instant.nullable(),
    /** Tool calls, permissions and streams that are open. */
    openWork: z.number(),
  }),
  z.strictObject({
    status: z.literal('waiting'),
    ...anyTurn,
    /** What is left until the hard end. */
    leftMs: z.number(),
    wait: waitSchema,
  }),
  /** Cut by a restart: its agent has not come back. */
  z.strictObject({
    status: z.literal('suspended'),
    ...anyTurn,
    deadlineAt: instant,
    hardEndAt: instant,
    leftMs: z.number(),
  }),
]);

/** A human message that waits. */
export const heldSchema = z.strictObject({
  id: message,
  addressed: z.array(agent),
  /** The platform's sort key: held messages are released in the platform's order. */
  order: z.string(),
  /** `turn`: until the turn ends; `prompt`: until any agent is prompted; `next`: the same, but it
   * opens no exchange, for an agent was prompted with it before and said nothing; `exchange`: until an
   * agent has seen it, in the conversation, as something to observe; what nobody has seen when the exchange ends opens another; `agent`: until one is online; `start`: until the channel's history is read. */
  until: z.enum(['turn', 'prompt', 'next', 'exchange', 'agent', 'start']),
  /** `null` while it is not part of the conversation; else its line, or the last one by which it stood there. */
  line: z.number().nullable(),
  fromProgram,
});

const exchangeSchema = z.strictObject({
  /** When it began, or the last person spoke in it. */
  openedAt: instant,
  /** Turns in a row in which nothing was said. */
  silent: z.number(),
  /** The epoch of the last grant before it. */
  since: z.number(),
});

const usageSchema = z.strictObject({
  turns: z.number(),
  tokens: z.number(),
  costMicros: z.number(),
  /** For how long exchanges were open; the one that is open is not counted yet. */
  ms: z.number(),
  /** Turns that failed before their agent said anything, which are not among `turns`; none unless given. */
  failed: z.number().exactOptional(),
});

/** Under what gaps in the history are told. Those that were told as `gap`, before they were counted, count for nothing. */
export const GAP_KEY = 'history';

/** Nothing was used. */
export const NOTHING_USED = { turns: 0, tokens: 0, costMicros: 0, ms: 0 };

/** Files in the folder of an agent about which people are asked; `shown`: all of the question stands in the channel. */
const trustSchema = z.strictObject({
  agent,
  id: z.string(),
  folder: z.string(),
  detail: z.string(),
  shown: z.boolean(),
});

/** What remains to be known of a floor; the stored row, plain JSON, equal after a round trip. */
export const floorSchema = z.strictObject({
  channel: z.string(),
  /** What it goes by now; operators may have changed it since it was configured. */
  settings: configSchemas.settings,
  /** What the configuration said last, so that only its differences are applied next time. */
  configured: z.strictObject(configSchemas).nullable(),
  condition: z.enum(['resting', 'open', 'paused']),
  /** The number of the last grant: the fencing token. */
  epoch: z.number(),
  /** The number of the last question to a facilitator. */
  asks: z.number(),
  /** The number of the last request for permission. */
  questions: z.number(),
  /** How many lines the conversation has. */
  lines: z.number(),
  seats: z.array(seatSchema),
  queue: z.array(agent),
  /** Who goes before the queue, who said so, and the messages to be answered in the turn that it earned. */
  prioritised: z.array(
    z.strictObject({
      agent,
      by: z.enum(['operator', 'person', 'agent']),
      messages: z.array(message),
      feedback: feedbackSchema.exactOptional(),
    }),
  ),
  /** Who has the floor: ACTIVE, or WAITING and keeping it. */
  turn: turnSchema.nullable(),
  /** Turns that wait without the floor. */
  parked: z.array(turnSchema),
  held: z.array(heldSchema),
  /** Who works beside the floor, and what that asks people. */
  asides: z
    .array(
      z.strictObject({
        agent,
        /** Which of the seat's runs beside the floor it is, counted from 1. */
        run: z.number().exactOptional(),
        /** It failed, and stands still until people retry or discard it. */
        failed: z.literal(true).exactOptional(),
        question: questionSchema.exactOptional(),
        /** Calls that people allowed, until it is told what came of them. */
        allowed: allowedCalls,
        /** Until when people may answer. */
        until: instant.exactOptional(),
      }),
    )
    .exactOptional(),
  /** Agents that are not started, and the files in their folders about which people are asked. */
  trust: z.array(trustSchema).exactOptional(),
  /** What agents have to say of such work, and could not yet. */
  reports: z.array(z.strictObject({ agent, text: z.string() })).exactOptional(),
  exchange: exchangeSchema.nullable(),
  /** What agents used since a person or an operator last spoke, whatever exchanges there were: budgets are measured by it. */
  usageSincePerson: usageSchema,
  /** A facilitator is being asked who is next. */
  facilitation: z.strictObject({ facilitator: agent, ask: z.number(), deadlineAt: instant }).nullable(),
  day: z.strictObject({ startedAt: instant, tokens: z.number(), costMicros: z.number(), ms: z.number() }),
  /** A budget ended the exchange; `until` is when it is lifted by itself. */
  limit: z.strictObject({ budget: z.enum(BUDGETS), until: instant.nullable() }).nullable(),
  /** Stopped by a person: held messages wait for the next one. */
  stopped: z.boolean(),
  /** After a start, or when the platform could not be heard, until its history has been read. */
  catchingUp: z.boolean(),
  /** People were told that nobody is available. */
  outage: z.boolean(),
  /** People were told that a message must name an agent; until one had a turn. */
  toldToName: z.literal(true).exactOptional(),
  /** The last gap that people were told of, how often it recurred, and when it did last. */
  gap: z.strictObject({ count: z.number(), at: instant }).exactOptional(),
  /** The announcement that stands last in the channel, how often it recurred, and whom it calls lost. */
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
export type Aside = Frozen<NonNullable<z.infer<typeof floorSchema>['asides']>[number]>;
export type Floor = Frozen<z.infer<typeof floorSchema>>;

/** The floor of a channel in which nothing has happened. */
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
    day: { startedAt: 0, tokens: 0, costMicros: 0, ms: 0 },
    limit: null,
    stopped: false,
    catchingUp: false,
    outage: false,
    notice: null,
  };
}

const NO_LIMIT = { tokens: null, costMicros: null, ms: null };

/** The defaults of the specification and of the configuration, as the core counts them. */
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
