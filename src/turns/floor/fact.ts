import { z } from 'zod';
import { REFUSALS } from './refusals.ts';
import type { Refusal } from './refusals.ts';
import { BUDGETS, STATUSES, heldSchema, linedSchema } from './floor.ts';
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
import { announcementSchema, trustAnswered, trustAsked } from './announcement.ts';
import { ASIDE_ENDS, TRANSITIONS } from './seats.ts';
import type { Instant } from '../../lib/time.ts';

const agent = z.string();
const message = z.string();
const instant = z.number();
const number = z.number();
const fromProgram = z.literal(true).exactOptional();
const outcome = z.enum(['completed', 'passed', 'lapsed', 'expired', 'forfeited', 'revoked']);

const fateSchema = z.discriminatedUnion('state', [
  /** `to` was given it: with a prompt, in the middle of a turn, or there as something for all to see. */
  z.strictObject({
    state: z.literal('delivered'),
    to: z.array(agent),
    via: z.enum(['prompt', 'inject', 'interrupt', 'observe']),
  }),
  z.strictObject({ state: z.literal('held'), until: heldSchema.shape.until }),
  z.strictObject({ state: z.literal('unrouted'), why: z.string() }),
  z.strictObject({ state: z.literal('ignored'), rule: z.string() }),
]);

/** The lines that a prompt gives, and the messages to be answered with it. */
const prompted = { agent, epoch: number, afterLine: number, uptoLine: number, messages: z.array(message) };
const act = { agent, epoch: number };
const answered = {
  question: number,
  key: questionSchema.shape.key,
  choice: z.enum(['allow', 'reject']).nullable(),
  by: z.string().nullable(),
  /** What the answer is for, as the question has it. */
  approval: z.string().exactOptional(),
  /** Why, in the words of whoever decided. */
  reason: z.string().exactOptional(),
  /** The rule that is remembered from now on. */
  always: z.string().exactOptional(),
  /** Whoever asked is gone: until when it counts for the same request. */
  until: instant.exactOptional(),
};

/** The fields of each fact, as it is stored. */
export const FACTS = {
  /** What the floor goes by from now on, and what the configuration said, kept to find the next one's differences. */
  configured: { ...configSchemas, configuration: z.strictObject(configSchemas) },
  settingsChanged: {
    settings: configSchemas.settings,
    /** The queue, if it was ordered. */
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
  /** Assigned to the channel, disabled by an operator, present: or no longer. */
  seatMarked: {
    agent,
    mark: z.enum(['assigned', 'disabled', 'present']),
    on: z.boolean(),
    by: z.string().exactOptional(),
  },
  seatDropped: { agent },
  /** An operator let in an agent that the configuration does not name here. */
  seatCreated: { seat: seatSettingsSchema, by: z.string() },
  /** Everybody's rounds begin, or begin anew while an exchange is open. */
  exchangeOpened: {},
  /**
   * What agents may use without a person is theirs again: a `person` wrote, an `operator` gave the floor, or one allowed
   * `more` after a limit, of the day's budget too if that was it. At `midnight` the limit of a day is over, and nothing else.
   */
  usageReset: { why: z.enum(['person', 'operator', 'more', 'midnight']), by: z.string().exactOptional() },
  exchangeClosed: {
    reason: z.enum(['done', 'silent', 'limit', 'stopped']),
    until: instant.nullable().exactOptional(),
    budget: z.enum(BUDGETS).exactOptional(),
  },
  /** Nothing further is granted, or (`on` is false) it is again. */
  floorPaused: { on: z.boolean(), by: z.string() },
  /** `message` is what called it, to be answered in the turn that it earns. */
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
    ...prompted,
    keepsPlace: z.boolean(),
    /** Who waits for what it says in this turn. */
    askedBy: agent.exactOptional(),
    /** What a person said who has its failed run tried again. */
    feedback: feedbackSchema.exactOptional(),
  },
  turnContinued: prompted,
  turnWaited: {
    ...act,
    /** What it waits for, and until when; a generation that is interrupted has until `graceEndAt` to stop. */
    wait: z.discriminatedUnion('reason', [
      z.strictObject({ reason: z.literal('answer'), deadlineAt: instant, of: agent.exactOptional() }),
      z.strictObject({ reason: z.literal('human'), deadlineAt: instant, graceEndAt: instant }),
      z.strictObject({ reason: z.literal('approval'), deadlineAt: instant, question: questionSchema }),
    ]),
    /** It gives the floor to others meanwhile, and waits without it. */
    parked: z.literal(true).exactOptional(),
  },
  /** All of the question stands in the channel: from now on it may be allowed. */
  questionShown: { ...act, question: number },
  /**
   * Somebody said yes or no, or (`by` is `null`) nobody could be asked, or (`choice` is) the agent no longer asks: the
   * generation goes on, under the same epoch.
   */
  questionClosed: { ...act, ...answered },
  /** The holder uses tools: its run begins, with so many steps at most and by this person's word if that was told. */
  runBegun: {
    ...act,
    maxTurns: number.exactOptional(),
    requestedBy: z.string().exactOptional(),
    /** The text of the messages that the turn answers. */
    prompt: z.string().exactOptional(),
    /** The text of the model's first step. */
    output: z.string().exactOptional(),
  },
  /** The turn is over with which the run went. */
  runLeft: {
    ...act,
    outcome,
    /** The text that was said in it. */
    result: z.string().exactOptional(),
    /** Why its agent was lost. */
    error: z.strictObject({ code: z.string(), message: z.string(), recoverable: z.boolean() }).exactOptional(),
  },
  /** An agent works beside the floor. */
  asideBegun: { agent, run: number.exactOptional() },
  /** That work asks people something. */
  asideAsked: { agent, question: questionSchema, until: number.exactOptional() },
  /** All of it stands in the channel. */
  asideShown: { agent, question: number },
  /** As for the question of a turn. */
  asideAnswered: { agent, ...answered },
  /** A person stopped it, or (`by` is `null`) nobody did: its agent may not work here any more. */
  asideStopped: { agent, by: z.string().nullable(), why: z.enum(ASIDE_ENDS).exactOptional() },
  /** It is over, and this is to be said of it. */
  asideEnded: { agent, report: z.string().exactOptional() },
  /** What an agent had to say of it was said: nobody had the floor. */
  reported: { agent, line: number, text: z.string() },
  /** An agent is not started: people are asked about files in its folder, in place of any that they were asked about. */
  trustAsked: trustAsked,
  trustShown: { agent, id: z.string() },
  /** Nobody is asked about these files any more. */
  trustAnswered: trustAnswered,
  /** The generation that was interrupted is over: by itself, or by force. */
  turnStopped: { ...act, forced: z.boolean() },
  waitAnswered: {
    agent,
    messages: z.array(linedSchema),
    ready: z.boolean(),
    parked: z.literal(true).exactOptional(),
  },
  /** It has so much longer for its work, or to wait. `until`: no sign of work ends the turn before it; absent when its end does not hang on signs of work now, or told before it was kept. */
  turnExtended: { agent, ms: number, until: instant.exactOptional(), by: z.string() },
  turnResumed: {
    ...prompted,
    /** Of the messages, the ones that an earlier prompt of this turn held and no generation has answered. */
    open: z.array(message),
    why: z.enum(['answered', 'interrupt', 'restart', 'operator']),
    /** The agent that it had asked, and whether that one said something. */
    asked: z.strictObject({ agent, answered: z.boolean() }).exactOptional(),
    /** What people said to what it had asked them before a restart. */
    decided: decidedSchema.exactOptional(),
    /** It goes on with nothing that a person wrote, and so counts as one more turn without one. */
    fromProgram,
  },
  turnEnded: {
    ...act,
    outcome,
    signalled: z.boolean(),
    said: z.boolean(),
    /** What stood in a prompt whose generation ended by itself: done. */
    answered: z.array(message),
    /** What it was given and said nothing to since: the next one gets it. */
    returned: z.array(message),
    /** The operator who had it end with what was there: its generation is stopped. */
    by: z.string().exactOptional(),
    /** What it had begun to answer. */
    cut: z.array(message).exactOptional(),
    /** Its agent failed before it said anything: it uses up no turn, neither of the exchange nor of the agent's rounds. */
    uncounted: z.literal(true).exactOptional(),
    /** Its agent gave no sign of work until its time was up: its session is ended and counts an error. */
    hung: z.literal(true).exactOptional(),
  },
  said: {
    ...act,
    line: number,
    text: z.string(),
    mentions: z.array(agent),
    /** The last sign of its agent's own work, when that was earlier: Conch said by itself what stood there. */
    workedAt: instant.exactOptional(),
  },
  worked: { ...act, open: number, limitMs: number.exactOptional() },
  spent: { ...act, tokens: number, costMicros: number, use: modelUseSchema.exactOptional() },
  /** A message's fate changed; `line` is set when it became part of the conversation with this fact. */
  messageRouted: {
    id: message,
    fate: fateSchema,
    line: number.nullable(),
    addressed: z.array(agent),
    order: z.string(),
    /** A program wrote it. */
    fromProgram,
    /** It begins a turn, and was not held before. */
    opens: z.literal(true).exactOptional(),
    /** Who held the floor, ACTIVE, when it was routed. */
    holder: z.strictObject(act).nullable(),
  },
  injectReported: { ...act, id: message, outcome: z.enum(['injected', 'next-prompt', 'refused', 'no-room']) },
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
  /** Epochs jump, so that none is used twice after a backup was restored. */
  epochRaised: { by: number },
  /** The platform cannot be heard, or nothing was for a while: the program started anew, and cut the turn that was open. */
  disconnected: { restart: z.boolean() },
  /**
   * The process stood still for `ms`: the deadlines of the floor's turns, its facilitator and its background runs are later by as
   * much, and no budget of minutes counts that time.
   */
  stoodStill: { ms: number },
  caughtUp: { gap: z.string().nullable() },
  /** An agent's act that had no effect, kept for whoever asks why. */
  actRefused: {
    act: z.string(),
    agent,
    epoch: number.nullable(),
    refusal: z.enum(Object.keys(REFUSALS) as Refusal[]),
    /** What was refused, when it was text. */
    text: z.string().exactOptional(),
  },
};

/** Reads a fact: what is no fact of this version is refused. */
export const factSchema = taggedUnion('type', FACTS);

/** How a turn ended. */
export type Outcome = z.infer<typeof outcome>;

/** Why an agent is prompted now. */
export type PromptReason = 'grant' | 'resume' | 'again';

/** What became of a human message. */
export type Fate = Frozen<z.infer<typeof fateSchema>>;

/** What happened, in the past tense. Folding a channel's facts gives its floor. */
export type Fact = Tagged<'type', typeof FACTS>;

/** The facts of some types. */
export type FactOf<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;

/** What becomes of a floor with each fact. */
export type Evolution = {
  readonly [T in Fact['type']]: (floor: Floor, fact: FactOf<T>, at: Instant) => Floor;
};
