import { z } from 'zod';
import { REFUSALS } from './refusals.ts';
import type { Refusal } from './refusals.ts';
import { BUDGETS, STATUSES, heldSchema, linedSchema } from './floor.ts';
import type { Floor } from './floor.ts';
import type { Frozen } from '../../lib/tagged.ts';
import {
  answerSchema,
  cameSchema,
  configSchemas,
  decidedSchema,
  feedbackSchema,
  modelUseSchema,
  questionSchema,
  seatSettingsSchema,
} from './settings.ts';
import { ASIDE_ENDS, TRANSITIONS } from './seats.ts';
import type { Instant } from '../../lib/time.ts';

const agent = z.string();
const message = z.string();
const instant = z.number();
const number = z.number();
const fromProgram = z.literal(true).exactOptional();
const limit = z.strictObject({ budget: z.enum(BUDGETS), used: number, max: number });
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

const trustAsked = { agent, id: z.string(), folder: z.string(), detail: z.string() };
const trustAnswered = {
  agent,
  id: z.string(),
  choice: z.enum(['trusted', 'left']).nullable(),
  /** The name of whoever decided; `null`: nobody. */
  by: z.string().nullable(),
};

const announcementSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('timeout'), agent }),
  z.strictObject({ kind: z.literal('waitTimeout'), agent }),
  /** `also`: agents that were lost before, as told by the announcement that this one takes the place of. */
  z.strictObject({ kind: z.literal('disconnect'), agent, cause: z.string(), also: z.array(agent).exactOptional() }),
  /** `lost`: who was the last to go in the middle of a turn, and why. */
  z.strictObject({
    kind: z.literal('nobody'),
    lost: z.strictObject({ agents: z.array(agent), cause: z.string() }).exactOptional(),
  }),
  /** A message names no agent where one must be named, or (`named`) none that can answer; `example` could be. */
  z.strictObject({ kind: z.literal('unaddressed'), named: z.array(agent), example: agent }),
  z.strictObject({ kind: z.literal('limit'), ...limit.shape }),
  z.strictObject({ kind: z.literal('stopped'), agent: agent.nullable(), kept: number }),
  z.strictObject({ kind: z.literal('skipped'), agent }),
  z.strictObject({ kind: z.literal('recovered'), agent }),
  z.strictObject({ kind: z.literal('gap'), why: z.string() }),
  /** Something that the agent said was refused by the platform for good. */
  z.strictObject({ kind: z.literal('undelivered'), agent, why: z.string() }),
  /** What stands in the channel of a question; `until`: when nobody's silence lets its turn go on any longer. */
  z.strictObject({
    kind: z.literal('approval'),
    agent,
    ...questionSchema.omit({ shown: true, approval: true }).shape,
    until: instant.exactOptional(),
  }),
  /** Takes the place of a question; `approval`: what its run asked; `came`: what came of the call, once that is known. */
  z.strictObject({
    kind: z.literal('answered'),
    agent,
    ...answerSchema.shape,
    approval: z.string().exactOptional(),
    /** A background run asked it. */
    aside: z.literal(true).exactOptional(),
    came: cameSchema.exactOptional(),
  }),
  /** A tool needed a yes that nobody could be asked for, so it got a no. */
  z.strictObject({ kind: z.literal('unasked'), agent, title: z.string(), why: z.string() }),
  /** The first tool of a run that the rules refuse. */
  z.strictObject({ kind: z.literal('forbidden'), agent, title: z.string(), why: z.string() }),
  /** The tools of a server that an agent uses are gone; and are there again. */
  z.strictObject({ kind: z.literal('toolsGone'), agent, server: z.string(), why: z.string() }),
  z.strictObject({ kind: z.literal('toolsBack'), agent, server: z.string() }),
  /** A yes that was remembered counts no more; `by`: the name of whoever took it back. */
  z.strictObject({ kind: z.literal('revoked'), agent, rule: z.string(), by: z.string() }),
  /** An agent is not started beside these files, whose names and beginnings stand in `detail`. */
  z.strictObject({ kind: z.literal('trust'), ...trustAsked }),
  /** Takes the place of that question; `choice` is `null` when nobody has to decide any more. */
  z.strictObject({ kind: z.literal('trustAnswered'), ...trustAnswered, at: instant }),
  /** What became of an agent's work beside the floor; `failed`: from now on it stands still, or goes on again. */
  z.strictObject({
    kind: z.literal('aside'),
    agent,
    what: z.string(),
    run: z.number().exactOptional(),
    failed: z.boolean().exactOptional(),
  }),
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

/** What happened, as it is stored, each kind by its `type`: what is no fact of this version is not read. */
export const factSchema = z.discriminatedUnion('type', [
  /** What the floor goes by from now on, and what the configuration said, kept to find the next one's differences. */
  z.strictObject({ type: z.literal('configured'), ...configSchemas, configuration: z.strictObject(configSchemas) }),
  z.strictObject({
    type: z.literal('settingsChanged'),
    settings: configSchemas.settings,
    /** The queue, if it was ordered. */
    queue: z.array(agent).exactOptional(),
    by: z.string(),
  }),
  z.strictObject({
    type: z.literal('seatMoved'),
    agent,
    from: z.enum(STATUSES),
    to: z.enum(STATUSES),
    trigger: z.enum(TRANSITIONS.map(({ trigger }) => trigger)),
    place: number.exactOptional(),
    cause: z.string().exactOptional(),
  }),
  /** Assigned to the channel, disabled by an operator, present: or no longer. */
  z.strictObject({
    type: z.literal('seatMarked'),
    agent,
    mark: z.enum(['assigned', 'disabled', 'present']),
    on: z.boolean(),
    by: z.string().exactOptional(),
  }),
  z.strictObject({ type: z.literal('seatDropped'), agent }),
  /** An operator let in an agent that the configuration does not name here. */
  z.strictObject({ type: z.literal('seatCreated'), seat: seatSettingsSchema, by: z.string() }),
  /** Everybody's rounds begin, or begin anew while an exchange is open. */
  z.strictObject({ type: z.literal('exchangeOpened') }),
  /**
   * What agents may use without a person is theirs again: a `person` wrote, an `operator` gave the floor, or one allowed
   * `more` after a limit, of the day's budget too if that was it. At `midnight` the limit of a day is over, and nothing else.
   */
  z.strictObject({
    type: z.literal('usageReset'),
    why: z.enum(['person', 'operator', 'more', 'midnight']),
    by: z.string().exactOptional(),
  }),
  z.strictObject({
    type: z.literal('exchangeClosed'),
    reason: z.enum(['done', 'silent', 'limit', 'stopped']),
    until: instant.nullable().exactOptional(),
    budget: z.enum(BUDGETS).exactOptional(),
  }),
  /** Nothing further is granted, or (`on` is false) it is again. */
  z.strictObject({ type: z.literal('floorPaused'), on: z.boolean(), by: z.string() }),
  /** `message` is what called it, to be answered in the turn that it earns. */
  z.strictObject({
    type: z.literal('prioritised'),
    agent,
    by: z.enum(['operator', 'person', 'agent']),
    message: message.exactOptional(),
    feedback: feedbackSchema.exactOptional(),
  }),
  z.strictObject({
    type: z.literal('facilitatorAsked'),
    facilitator: agent,
    ask: number,
    deadlineAt: instant,
    candidates: z.array(agent),
  }),
  z.strictObject({
    type: z.literal('facilitatorAnswered'),
    next: agent.nullable(),
    why: z.enum(['answered', 'named nobody queued', 'no answer', 'left', 'overtaken']),
  }),
  z.strictObject({
    type: z.literal('turnGranted'),
    ...prompted,
    keepsPlace: z.boolean(),
    /** Who waits for what it says in this turn. */
    askedBy: agent.exactOptional(),
    /** What a person said who has its failed run tried again. */
    feedback: feedbackSchema.exactOptional(),
  }),
  z.strictObject({ type: z.literal('turnContinued'), ...prompted }),
  z.strictObject({
    type: z.literal('turnWaited'),
    ...act,
    /** What it waits for, and until when; a generation that is interrupted has until `graceEndAt` to stop. */
    wait: z.discriminatedUnion('reason', [
      z.strictObject({ reason: z.literal('answer'), deadlineAt: instant, of: agent.exactOptional() }),
      z.strictObject({ reason: z.literal('human'), deadlineAt: instant, graceEndAt: instant }),
      z.strictObject({ reason: z.literal('approval'), deadlineAt: instant, question: questionSchema }),
    ]),
    /** It gives the floor to others meanwhile, and waits without it. */
    parked: z.literal(true).exactOptional(),
  }),
  /** All of the question stands in the channel: from now on it may be allowed. */
  z.strictObject({ type: z.literal('questionShown'), ...act, question: number }),
  /**
   * Somebody said yes or no, or (`by` is `null`) nobody could be asked, or (`choice` is) the agent no longer asks: the
   * generation goes on, under the same epoch.
   */
  z.strictObject({
    type: z.literal('questionClosed'),
    ...act,
    ...answered,
  }),
  /** The holder uses tools: its run begins, with so many steps at most and by this person's word if that was told. */
  z.strictObject({
    type: z.literal('runBegun'),
    ...act,
    maxTurns: number.exactOptional(),
    requestedBy: z.string().exactOptional(),
    /** The text of the messages that the turn answers. */
    prompt: z.string().exactOptional(),
    /** The text of the model's first step. */
    output: z.string().exactOptional(),
  }),
  /** The turn is over with which the run went. */
  z.strictObject({
    type: z.literal('runLeft'),
    ...act,
    outcome,
    /** The text that was said in it. */
    result: z.string().exactOptional(),
    /** Why its agent was lost. */
    error: z.strictObject({ code: z.string(), message: z.string(), recoverable: z.boolean() }).exactOptional(),
  }),
  /** An agent works beside the floor. */
  z.strictObject({ type: z.literal('asideBegun'), agent, run: number.exactOptional() }),
  /** That work asks people something. */
  z.strictObject({ type: z.literal('asideAsked'), agent, question: questionSchema, until: number.exactOptional() }),
  /** All of it stands in the channel. */
  z.strictObject({ type: z.literal('asideShown'), agent, question: number }),
  /** As for the question of a turn. */
  z.strictObject({ type: z.literal('asideAnswered'), agent, ...answered }),
  /** A person stopped it, or (`by` is `null`) nobody did: its agent may not work here any more. */
  z.strictObject({
    type: z.literal('asideStopped'),
    agent,
    by: z.string().nullable(),
    why: z.enum(ASIDE_ENDS).exactOptional(),
  }),
  /** It is over, and this is to be said of it. */
  z.strictObject({ type: z.literal('asideEnded'), agent, report: z.string().exactOptional() }),
  /** What an agent had to say of it was said: nobody had the floor. */
  z.strictObject({ type: z.literal('reported'), agent, line: number, text: z.string() }),
  /** An agent is not started: people are asked about files in its folder, in place of any that they were asked about. */
  z.strictObject({ type: z.literal('trustAsked'), ...trustAsked }),
  z.strictObject({ type: z.literal('trustShown'), agent, id: z.string() }),
  /** Nobody is asked about these files any more. */
  z.strictObject({ type: z.literal('trustAnswered'), ...trustAnswered }),
  /** The generation that was interrupted is over: by itself, or by force. */
  z.strictObject({ type: z.literal('turnStopped'), ...act, forced: z.boolean() }),
  z.strictObject({
    type: z.literal('waitAnswered'),
    agent,
    messages: z.array(linedSchema),
    ready: z.boolean(),
    parked: z.literal(true).exactOptional(),
  }),
  /** It has so much longer for its work, or to wait. */
  /** `until`: no sign of work ends the turn before it; absent when its end does not hang on signs of work now, or told before it was kept. */
  z.strictObject({
    type: z.literal('turnExtended'),
    agent,
    ms: number,
    until: instant.exactOptional(),
    by: z.string(),
  }),
  z.strictObject({
    type: z.literal('turnResumed'),
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
  }),
  z.strictObject({
    type: z.literal('turnEnded'),
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
  }),
  z.strictObject({
    type: z.literal('said'),
    ...act,
    line: number,
    text: z.string(),
    mentions: z.array(agent),
    /** The last sign of its agent's own work, when that was earlier: Conch said by itself what stood there. */
    workedAt: instant.exactOptional(),
  }),
  z.strictObject({ type: z.literal('worked'), ...act, open: number, limitMs: number.exactOptional() }),
  z.strictObject({
    type: z.literal('spent'),
    ...act,
    tokens: number,
    costMicros: number,
    use: modelUseSchema.exactOptional(),
  }),
  /** A message's fate changed; `line` is set when it became part of the conversation with this fact. */
  z.strictObject({
    type: z.literal('messageRouted'),
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
  }),
  z.strictObject({
    type: z.literal('injectReported'),
    ...act,
    id: message,
    outcome: z.enum(['injected', 'next-prompt', 'refused', 'no-room']),
  }),
  z.strictObject({
    type: z.literal('messageAmended'),
    id: message,
    change: z.enum(['edited', 'deleted']),
    line: number.nullable(),
    holder: agent.nullable(),
    epoch: number,
  }),
  z.strictObject({
    type: z.literal('announced'),
    announcement: announcementSchema,
    key: z.string(),
    repeat: number,
    shown: z.boolean(),
  }),
  /** Epochs jump, so that none is used twice after a backup was restored. */
  z.strictObject({ type: z.literal('epochRaised'), by: number }),
  /** The platform cannot be heard, or nothing was for a while: the program started anew, and cut the turn that was open. */
  z.strictObject({ type: z.literal('disconnected'), restart: z.boolean() }),
  /**
   * The process stood still for `ms`: the deadlines of the floor's turns, its facilitator and its background runs are later by as
   * much, and no budget of minutes counts that time.
   */
  z.strictObject({ type: z.literal('stoodStill'), ms: number }),
  z.strictObject({ type: z.literal('caughtUp'), gap: z.string().nullable() }),
  /** An agent's act that had no effect, kept for whoever asks why. */
  z.strictObject({
    type: z.literal('actRefused'),
    act: z.string(),
    agent,
    epoch: number.nullable(),
    refusal: z.custom<Refusal>((refusal) => typeof refusal === 'string' && Object.hasOwn(REFUSALS, refusal)),
    /** What was refused, when it was text. */
    text: z.string().exactOptional(),
  }),
]);

/** How a turn ended. */
export type Outcome = z.infer<typeof outcome>;

/** Why an agent is prompted now. */
export type PromptReason = 'grant' | 'resume' | 'again';

/** What became of a human message. */
export type Fate = Frozen<z.infer<typeof fateSchema>>;

/** Which budget ended an exchange, and its numbers. */
export type Limit = Frozen<z.infer<typeof limit>>;

/** What people are told, as data; the words are templates of the configuration. */
export type Announcement = Frozen<z.infer<typeof announcementSchema>>;

/** What happened, in the past tense. Folding a channel's facts gives its floor. */
export type Fact = Frozen<z.infer<typeof factSchema>>;

/** The facts of some types. */
export type FactOf<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;

/** What becomes of a floor with each fact. */
export type Evolution = {
  readonly [T in Fact['type']]: (floor: Floor, fact: FactOf<T>, at: Instant) => Floor;
};
