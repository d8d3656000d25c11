import { z } from 'zod';
import { REFUSALS } from './refusals.ts';
import type { Refusal } from './refusals.ts';
import { BUDGETS, STATUSES, heldSchema, linedSchema, taskPartsSchema, taskTurnShape } from './floor.ts';
import type { Floor } from './floor.ts';
import { taggedUnion } from '../../lib/tagged.ts';
import type { Frozen, Tagged } from '../../lib/tagged.ts';
import {
  configSchemas,
  decidedSchema,
  feedbackSchema,
  modelUseSchema,
  questionSchema,
  seatSettingsSchema,
} from './settings.ts';
import { announcementSchema, trustAnswerFields, trustQuestionFields } from './announcement.ts';
import { BACKGROUND_RUN_ENDS, TRANSITIONS } from './seats.ts';
import type { Instant } from '../../lib/time.ts';

const agent = z.string();
const message = z.string();
const instant = z.number();
const number = z.number();
const fromProgram = z.literal(true).exactOptional();
const outcome = z.enum(['completed', 'passed', 'lapsed', 'expired', 'forfeited', 'revoked']);

const fateSchema = z.discriminatedUnion('state', [
  /**
   * The message went to the agents `to`. `via`: with a prompt, mid-turn, by interrupting the turn, or only to observe.
   */
  z.strictObject({
    state: z.literal('delivered'),
    to: z.array(agent),
    via: z.enum(['prompt', 'inject', 'interrupt', 'observe']),
  }),
  z.strictObject({ state: z.literal('held'), until: heldSchema.shape.until }),
  z.strictObject({ state: z.literal('unrouted'), why: z.string() }),
  z.strictObject({ state: z.literal('ignored'), rule: z.string() }),
]);

/** The new messages of an agent's turn that name or call agents, or that programs wrote. */
const headers = z.array(linedSchema.omit({ line: true })).exactOptional();

/**
 * Fields of a fact that prompts an agent. Lines after `afterLine`, up to `uptoLine`, count as new for the agent.
 * `messages`: the messages that the prompt asks to answer.
 */
const promptFields = { agent, epoch: number, afterLine: number, uptoLine: number, messages: z.array(message), headers };
const act = { agent, epoch: number };
const answerFields = {
  question: number,
  key: questionSchema.shape.key,
  choice: z.enum(['allow', 'reject']).nullable(),
  by: z.string().nullable(),
  approval: z.string().exactOptional(),
  /** The person's reason, or the answer to a request that is answered in words. */
  reason: z.string().exactOptional(),
  always: z.string().exactOptional(),
  /** Deadline until which the decision counts. Set when a turn's request from before a restart is decided. */
  until: instant.exactOptional(),
};

/** The stored fields of each type of fact. */
export const FACTS = {
  /**
   * `settings`: in effect from now on, with operators' changes. `configuration`: compared with the next configuration.
   */
  configured: { ...configSchemas, configuration: z.strictObject(configSchemas) },
  settingsChanged: {
    settings: configSchemas.settings,
    /** The whole new queue, if the operator named its first agents. */
    queue: z.array(agent).exactOptional(),
    by: z.string(),
  },
  seatMoved: {
    agent,
    from: z.enum(STATUSES),
    to: z.enum(STATUSES),
    trigger: z.enum(TRANSITIONS.map(({ trigger }) => trigger)),
    place: number.exactOptional(),
    cause: z.string().exactOptional(),
  },
  seatMarked: {
    agent,
    mark: z.enum(['assigned', 'disabled', 'present']),
    on: z.boolean(),
    by: z.string().exactOptional(),
  },
  seatDropped: { agent },
  /** An operator added an agent that the channel's configuration does not name. */
  seatCreated: { seat: seatSettingsSchema, by: z.string() },
  /**
   * An exchange began, or the rounds of the open exchange began anew. `limited`: set when a reached limit stays, because
   * only a turn that waited goes on.
   */
  exchangeOpened: { limited: z.literal(true).exactOptional() },
  /**
   * Usage counts from zero again, except for `midnight`. `person`: a person wrote, or a task began. `operator`: an
   * operator started or resumed the floor, or granted a turn. `more`: an operator resumed the floor after a limit;
   * after a day's limit, the day's usage also counts from zero. `midnight`: only the day's limit ends.
   */
  usageReset: { why: z.enum(['person', 'operator', 'more', 'midnight']), by: z.string().exactOptional() },
  exchangeClosed: {
    reason: z.enum(['done', 'silent', 'limit', 'stopped']),
    until: instant.nullable().exactOptional(),
    budget: z.enum(BUDGETS).exactOptional(),
    by: z.string().exactOptional(),
  },
  /** An operator, or Conch for a suspended channel, paused grants (`on`), or let them continue. */
  floorPaused: { on: z.boolean(), by: z.string() },
  /** An agent was called ahead of the queue. `message`: the message that its turn has to answer. */
  prioritised: {
    agent,
    by: z.enum(['operator', 'person', 'agent']),
    message: message.exactOptional(),
    feedback: feedbackSchema.exactOptional(),
  },
  facilitatorAsked: { facilitator: agent, ask: number, deadlineAt: instant, candidates: z.array(agent) },
  facilitatorAnswered: {
    next: agent.nullable(),
    why: z.enum(['answered', 'named nobody queued', 'no answer', 'left', 'overtaken']),
  },
  turnGranted: {
    ...promptFields,
    keepsPlace: z.boolean(),
    /** The agent that asked this turn's agent and waits for its text. */
    askedBy: agent.exactOptional(),
    feedback: feedbackSchema.exactOptional(),
    /** Set when the open task asked for this turn. The turn counts neither as a turn of the exchange nor as a round. */
    forTask: z.literal(true).exactOptional(),
  },
  turnContinued: promptFields,
  turnWaited: {
    ...act,
    /** The reason and the deadline of the wait. An interrupted generation has until `graceEndAt` to stop. */
    wait: z.discriminatedUnion('reason', [
      z.strictObject({ reason: z.literal('answer'), deadlineAt: instant, of: agent.exactOptional() }),
      z.strictObject({ reason: z.literal('human'), deadlineAt: instant, graceEndAt: instant }),
      z.strictObject({ reason: z.literal('approval'), deadlineAt: instant, question: questionSchema }),
    ]),
    /** Set when the turn gives up the floor while it waits. */
    parked: z.literal(true).exactOptional(),
  },
  /** The channel shows the whole request. From now on people can allow the request. */
  questionShown: { ...act, question: number },
  /**
   * A request was closed. `by` is `null` when nobody could be asked, or when the channel could not show the whole
   * request. `choice` is `null` when the request was withdrawn, or when a person continued or completed the run without
   * answering the request.
   */
  questionClosed: { ...act, ...answerFields },
  /** A run begins in the holder's turn. `requestedBy`: the person or program that caused the run, if known. */
  runBegun: {
    ...act,
    maxTurns: number.exactOptional(),
    requestedBy: z.string().exactOptional(),
    /** The text of the messages that the turn answers. */
    prompt: z.string().exactOptional(),
    /** The text of the model's first step, if known and not empty. */
    output: z.string().exactOptional(),
  },
  /** The turn of a run has ended. */
  runLeft: {
    ...act,
    outcome,
    /** The text said in the turn, at most 32,768 UTF-16 units: the beginning of a longer text is cut. */
    result: z.string().exactOptional(),
    error: z.strictObject({ code: z.string(), message: z.string(), recoverable: z.boolean() }).exactOptional(),
  },
  asideBegun: { agent, run: number.exactOptional() },
  /** A background run made a request, or its agent was restarted while its request was open. */
  asideAsked: { agent, question: questionSchema, until: number.exactOptional() },
  asideShown: { agent, question: number },
  /**
   * A request of a background run was closed. `by` is `null` when nobody could be asked, or when the channel could not
   * show the whole request. `choice` is `null` when the request was withdrawn, or when a person continued or completed
   * the run without answering the request.
   */
  asideAnswered: { agent, ...answerFields },
  /** A background run was stopped, by a person or by Conch (`by` is `null`, or `conch` for a suspended channel). */
  asideStopped: { agent, by: z.string().nullable(), why: z.enum(BACKGROUND_RUN_ENDS).exactOptional() },
  /** A background run ended. `report`: its result, posted when nobody holds the floor. */
  asideEnded: { agent, report: z.string().exactOptional() },
  /** The report of a background run was posted, while nobody held the floor. */
  reported: { agent, line: number, text: z.string() },
  /** People are asked whether to trust files in an agent's folder. Until they decide, the agent is not started. */
  trustAsked: trustQuestionFields,
  trustShown: { agent, id: z.string() },
  /** People decided whether to trust an agent's files, or the question was withdrawn. */
  trustAnswered: trustAnswerFields,
  taskBegun: taskPartsSchema.shape,
  taskTurnAsked: { agent, ...taskTurnShape },
  reviewerSet: { reviewer: agent },
  /** The task waits, and asks for no turn meanwhile. */
  taskHeld: {},
  taskOver: { id: z.string() },
  /** An interrupted generation stopped by itself, or (`forced`) is stopped by force, because its grace is over. */
  turnStopped: { ...act, forced: z.boolean() },
  waitAnswered: {
    agent,
    messages: z.array(linedSchema),
    ready: z.boolean(),
    parked: z.literal(true).exactOptional(),
  },
  /**
   * An operator gave a turn or its wait `ms` milliseconds more. `until`: the timeout of an active turn is not before
   * this instant. Absent for any other turn, and while work without a known end is open.
   */
  turnExtended: { agent, ms: number, until: instant.exactOptional(), by: z.string() },
  turnResumed: {
    ...promptFields,
    /** The part of `messages` that the agent already got in this turn, and that no complete generation answered. */
    open: z.array(message),
    why: z.enum(['answered', 'interrupt', 'restart', 'operator']),
    /** The agent whose answer this turn waited for. `answered`: that agent said something, and its turn is over. */
    asked: z.strictObject({ agent, answered: z.boolean() }).exactOptional(),
    decided: decidedSchema.exactOptional(),
    /**
     * Set when the turn resumes after messages of programs, or after its wait for another agent, without a new message
     * of a person. The turn then counts once more, up to the limit of turns.
     */
    fromProgram,
  },
  turnEnded: {
    ...act,
    outcome,
    signalled: z.boolean(),
    said: z.boolean(),
    answered: z.array(message),
    /** Messages that are held again: the agent got them, said nothing after, and they do not count as answered. */
    returned: z.array(message),
    /** The operator who completed the turn. */
    by: z.string().exactOptional(),
    /** Messages that the agent had begun to answer when the turn was cut short. */
    cut: z.array(message).exactOptional(),
    /**
     * Set when the turn was forfeited before its agent said anything. Neither the exchange nor the agent's rounds count
     * the turn. Absent once the number of failed turns has reached the exchange's limit of turns.
     */
    uncounted: z.literal(true).exactOptional(),
    /** Set when the agent gave no sign of work before the timeout. */
    hung: z.literal(true).exactOptional(),
  },
  said: {
    ...act,
    line: number,
    text: z.string(),
    mentions: z.array(agent),
    /** The instant of the agent's last sign of work. Set when Conch itself posted the rest of the text, later. */
    workedAt: instant.exactOptional(),
  },
  worked: { ...act, open: number, limitMs: number.exactOptional() },
  spent: { ...act, tokens: number, costMicros: number, use: modelUseSchema.exactOptional() },
  /** The fate of a message was decided. `line`: set when the message joined the conversation with this fact. */
  messageRouted: {
    id: message,
    fate: fateSchema,
    line: number.nullable(),
    addressed: z.array(agent),
    order: z.string(),
    fromProgram,
    /** Set when the message was routed to a free floor, and an agent was prompted with the message at once. */
    opens: z.literal(true).exactOptional(),
    /** The turn that was active at this time; `null` for none, and while the turn waits or is suspended. */
    holder: z.strictObject(act).nullable(),
  },
  injectReported: { ...act, id: message, outcome: z.enum(['injected', 'next-prompt', 'refused', 'no-room']), headers },
  messageAmended: {
    id: message,
    change: z.enum(['edited', 'deleted']),
    line: number.nullable(),
    holder: agent.nullable(),
    epoch: number,
  },
  announced: {
    announcement: announcementSchema,
    key: z.string(),
    repeat: number,
    shown: z.boolean(),
  },
  /**
   * The epoch and the number of requests were raised after a backup was restored, so that no epoch and no number is
   * used twice.
   */
  epochRaised: { by: number },
  /**
   * The connection to the platform was lost, or (`restart`) Conch restarted, which interrupts an open turn. `leftMs`:
   * set when work was open at the restart; the milliseconds that the holder's turn has left. Absent in journals of
   * earlier versions: the time left then counts from the turn's start.
   */
  disconnected: { restart: z.boolean(), leftMs: number.exactOptional() },
  /**
   * Conch's process stood still for `ms` milliseconds. The deadlines of turns, requests and the facilitator move by
   * that time, and no budget of minutes counts that time. `extensions`: operators' extensions move too. Absent when no
   * turn was extended, and in journals of earlier versions.
   */
  stoodStill: { ms: number, extensions: z.literal(true).exactOptional() },
  caughtUp: { gap: z.string().nullable() },
  /** An agent's act that was refused. The fact changes nothing on the floor. */
  actRefused: {
    act: z.string(),
    agent,
    epoch: number.nullable(),
    refusal: z.enum(Object.keys(REFUSALS) as Refusal[]),
    text: z.string().exactOptional(),
  },
};

/** Parses a fact. Throws for an unknown type or field. */
export const factSchema = taggedUnion('type', FACTS);

/** How a turn ended. */
export type Outcome = z.infer<typeof outcome>;

/** Why an agent is prompted. `again`: at the end of its turn, it may lack some messages. */
export type PromptReason = 'grant' | 'resume' | 'again';

/** The fate of a message of a person or a program: delivered, held, unrouted or ignored. */
export type Fate = Frozen<z.infer<typeof fateSchema>>;

/** A fact of a channel, in the past tense. Folding all facts of a channel gives its floor. */
export type Fact = Tagged<'type', typeof FACTS>;

/** The facts of the types `T`. */
export type FactOf<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;

/** For each type of fact, the function that returns the floor after it. */
export type Evolution = {
  readonly [T in Fact['type']]: (floor: Floor, fact: FactOf<T>, at: Instant) => Floor;
};
