import { z } from 'zod';
import { INTERRUPT_MODES, ORDERS } from './policies.ts';
import { hasTagOf } from '../../lib/tagged.ts';
import type { Tagged } from '../../lib/tagged.ts';
import {
  approvalRequestSchema,
  callOutcomeSchema,
  CHOICES,
  feedbackSchema,
  floorSettingsSchema,
  modelUseSchema,
  seatSettingsSchema,
} from './settings.ts';
import { taskReport, taskProgress } from './announcement.ts';
import { taskPartsSchema, taskTurnShape } from './floor.ts';

const agent = z.string();
const message = z.string();
const instant = z.number();
const by = z.string();
/** The epoch that the command's button was drawn under. The command of an outdated button is refused. */
const buttonEpoch = { epoch: z.number().exactOptional() };
/**
 * Fields of an agent's act: the agent, and the epoch of its turn. Under an older epoch, all acts but `spend` are
 * refused.
 */
const act = { agent, epoch: z.number() };

/**
 * The person who continued a paused run, or (`completes`) completed the run. `by`: the person's id. `name`: the name
 * for people.
 */
const runDecider = z.strictObject({ by, name: z.string(), completes: z.literal(true).exactOptional() }).exactOptional();

/**
 * Fields of a request for approval. `unaskable`: why nobody can be asked. `key`: the request's random key, added by the
 * store.
 */
const requestFields = {
  approval: approvalRequestSchema,
  unaskable: z.string().exactOptional(),
  key: z.string().exactOptional(),
};

const PERSON = {
  receive: {
    id: message,
    addressed: z.array(agent),
    /** The message's sort key on its platform. The shorter key sorts first; keys of equal length sort as text. */
    order: z.string().exactOptional(),
    /** The rule that keeps the message from agents. Such a message is only recorded. */
    ignore: z.string().exactOptional(),
    /** A program wrote the message. Such a message resets no usage, and ends neither a stop nor a reached limit. */
    fromProgram: z.boolean().exactOptional(),
  },
  edit: { id: message },
  delete: { id: message },
};

const OPERATOR = {
  stop: { by, ...buttonEpoch },
  start: { by },
  /** `feedback`: the name and words of a person who retries a failed run, for the prompt of the turn. */
  grant: { by, agent, feedback: feedbackSchema.exactOptional() },
  skip: { by, agent: agent.exactOptional(), ...buttonEpoch },
  extend: { by, ms: z.number(), ...buttonEpoch },
  /** Decides the request whose number is `question`. `key`: the request's key, if a button decided. */
  decide: {
    by,
    name: z.string().exactOptional(),
    choice: z.enum(CHOICES),
    question: z.number(),
    key: z.string().exactOptional(),
    /** The operator's reason, or the answer to a request that is answered in words. */
    reason: z.string().exactOptional(),
    always: z.string().exactOptional(),
  },
  /** Announces that the person `name` revoked a rule of the agent. */
  tellRevoked: { name: z.string(), agent, rule: z.string() },
  pause: { by, ...buttonEpoch },
  resume: { by, ...buttonEpoch },
  order: { by, order: z.enum(ORDERS), queue: z.array(agent).exactOptional() },
  mode: { by, mode: z.enum(INTERRUPT_MODES) },
  /** `seat`: settings of an agent that the channel's configuration does not name. */
  add: { by, agent, seat: seatSettingsSchema.exactOptional() },
  remove: { by, agent },
  enable: { by, agent },
  disable: { by, agent },
};

const AGENT = {
  join: { agent },
  /** An agent disconnected. `error`: the code of the session's failure, and whether another session opens by itself. */
  leave: {
    agent,
    cause: z.string(),
    error: z.strictObject({ code: z.string(), recoverable: z.boolean() }).exactOptional(),
  },
  /**
   * Posts a text of the holder. `workedAt`: the agent's last sign of work, when Conch posts the rest of the agent's
   * text. Default: now.
   */
  say: { ...act, text: z.string(), mentions: z.array(agent), workedAt: instant.exactOptional() },
  /**
   * A sign of work. `open`: number of open tool calls, permissions and streams. `limitMs`: the longest duration of the
   * open work from now on, in milliseconds.
   */
  work: { ...act, open: z.number(), limitMs: z.number().exactOptional() },
  /** Reports usage of tokens and money, also after the end of the turn. */
  spend: { ...act, tokens: z.number(), costMicros: z.number(), use: modelUseSchema.exactOptional() },
  /** Ends the holder's turn. `signalled`: whether the agent gave the turn signal, or needs none. */
  end: {
    ...act,
    outcome: z.enum(['completed', 'passed']),
    signalled: z.boolean(),
    handTo: agent.exactOptional(),
  },
  /** Pauses the holder's turn until a message answers, or until the next turn of the agent `of` answers. */
  wait: { ...act, reason: z.literal('answer'), of: agent.exactOptional() },
  /** Begins a run in the holder's turn. `requestedBy`: the person or program that caused the run. */
  use: {
    ...act,
    maxTurns: z.number().exactOptional(),
    requestedBy: by.exactOptional(),
    /** The text of the messages that the turn answers. */
    prompt: z.string().exactOptional(),
    /** The text of the model's first step, if known and not empty. */
    output: z.string().exactOptional(),
  },
  request: { ...act, ...requestFields },
  /**
   * The holder's request is closed without an answer. `decided`: the person who continued or completed the run. Absent:
   * the request was withdrawn.
   */
  withdraw: { ...act, decided: runDecider },
  /** The outcome of one injected message, or (`no-room`) of a message that did not fit into the prompt. */
  injected: { ...act, id: message, outcome: z.enum(['injected', 'next-prompt', 'refused', 'no-room']) },
  interrupted: act,
  /**
   * Announces that the tools of an agent's MCP server are unavailable, and why. `why` is `null`: they are available
   * again.
   */
  tellTools: { agent, server: z.string(), why: z.string().nullable() },
  /**
   * The facilitator's choice of the next speaker (`next`); `null` for no choice. `ask`: the number of the question to
   * the facilitator.
   */
  choose: { agent, ask: z.number(), next: agent.nullable() },
};

const SYSTEM = {
  configure: { settings: floorSettingsSchema, seats: z.array(seatSettingsSchema) },
  /** Conch's process has started. Nothing is granted until `catchUp`. */
  restart: {},
  /** The platform is unreachable. An open turn continues, and nothing is granted until `catchUp`. */
  disconnect: {},
  /**
   * Conch's process stood still for `ms` milliseconds. Deadlines move by that time, and budgets of minutes leave it
   * out.
   */
  standstill: { ms: z.number() },
  /** The channel's history on the platform was read. `gap`: why a part of it could not be read. */
  catchUp: { gap: z.string().exactOptional() },
  /** The channel shows the whole request. With `why`, the channel cannot show it, and the request is denied. */
  shown: { question: z.number(), key: z.string().exactOptional(), why: z.string().exactOptional() },
  forbidden: { agent, title: z.string(), why: z.string() },
  /** The outcome of a tool call that people allowed. `aside`: set for a call of a background run. */
  ran: { agent, approval: z.string(), callOutcome: callOutcomeSchema, aside: z.literal(true).exactOptional() },
  beginAside: { agent, run: z.number(), what: z.string() },
  tellAside: { agent, run: z.number().exactOptional(), what: z.string(), failed: z.literal(true).exactOptional() },
  /** A background run makes a request, or its agent was restarted while its request is open. `until`: the deadline. */
  askAside: { agent, ...requestFields, until: instant.nullable() },
  /**
   * The request of a background run is closed without an answer, or a failed background run is retried. `decided`: the
   * person who continued or completed the run. Absent: the request was withdrawn.
   */
  withdrawAside: { agent, decided: runDecider },
  /** An operator completes the turn with its text so far. Messages that the agent got count as answered. */
  completeTurn: { ...act, by },
  /** A background run has ended. `report`: its result, posted when nobody holds the floor. */
  endAside: { agent, what: z.string(), report: z.string().exactOptional() },
  /**
   * An agent is not started, because files in its folder take effect before anybody is asked. People decide whether to
   * trust the files. `id`: the beginning of their digest. `detail`: their names, effects and beginnings.
   */
  askTrust: { agent, id: z.string(), folder: z.string(), detail: z.string() },
  trustShown: { agent, id: z.string() },
  /**
   * An operator decided, in any channel, whether to trust the files in an agent's folder. `left`: they are not trusted,
   * and Conch does not ask about them again. `id`: the beginning of the files' digest.
   */
  answerTrust: { agent, id: z.string(), choice: z.enum(['trusted', 'left']), by: z.string() },
  /**
   * Withdraws the questions about an agent's files, except the question with the id `keeps` (`null`: withdraws all).
   */
  dropTrust: { agent, keeps: z.string().nullable() },
  /** A review or a ticket begins. Until its end, it replaces the channel's order. */
  beginTask: taskPartsSchema.shape,
  /**
   * The task asks for a turn of an agent. `brief`: the agent's instructions. `fresh`: for the turn, the agent gets a
   * new session, which remembers nothing.
   */
  askTaskTurn: { id: z.string(), agent, ...taskTurnShape },
  /** The task waits until it asks for a turn again. A turn that it asked for is dropped, if not granted yet. */
  holdTask: { id: z.string() },
  setReviewer: { id: z.string(), reviewer: agent },
  tellTask: { announcement: taskProgress },
  /** The task is over. `report`: its result. */
  endTask: { report: taskReport },
  /** The platform refused an agent's text for good. */
  undelivered: { agent, why: z.string() },
  /**
   * Raises the epoch and the number of requests by `by`. Sent once after a backup was restored, so that no epoch and no
   * number is used twice.
   */
  raiseEpoch: { by: z.number() },
  /** Handles the deadlines that have passed. */
  tick: {},
};

export type OperatorCommand = Tagged<'type', typeof OPERATOR>;
export type AgentCommand = Tagged<'type', typeof AGENT>;
export type SystemCommand = Tagged<'type', typeof SYSTEM>;

const COMMANDS = { ...PERSON, ...OPERATOR, ...AGENT, ...SYSTEM };

/** All commands of a floor. */
export type Command = Tagged<'type', typeof COMMANDS>;

/** The commands of the types `T`. */
export type CommandOf<T extends Command['type']> = Extract<Command, { readonly type: T }>;

/** The person who continued a paused run without answering its request, or completed it. */
export type RunDecider = NonNullable<CommandOf<'withdraw'>['decided']>;

/** Returns whether a value is a command of a floor. Checks only the command's type. */
export const isFloorCommand = hasTagOf('type', COMMANDS);

/** Text of the holder that people see while it is generated. A command `say` makes the text final. */
export const draftSchema = z.strictObject({
  agent: z.string(),
  epoch: z.number(),
  text: z.string(),
  mentions: z.array(z.string()).readonly(),
  workedAt: z.number(),
});

export type TurnDraft = Readonly<z.infer<typeof draftSchema>>;
