import { z } from 'zod';
import { INTERRUPT_MODES, ORDERS } from './policies.ts';
import { taggedUnion } from '../../lib/tagged.ts';
import type { Tagged } from '../../lib/tagged.ts';
import {
  askedApprovalSchema,
  cameSchema,
  CHOICES,
  feedbackSchema,
  floorSettingsSchema,
  modelUseSchema,
  seatSettingsSchema,
} from './settings.ts';

const agent = z.string();
const message = z.string();
const instant = z.number();
/** Who did it: a platform's user id for a person, or the program itself. */
const by = z.string();
/** The turn that a button was drawn for: an older one is refused. */
const drawn = { epoch: z.number().exactOptional() };
/** An epoch that is not the holder's is refused and recorded. */
const act = { agent, epoch: z.number() };

/** Who let a run go on that stood still, or (`completes`) had it end with what is there: an id, and the name for people. */
const decided = z.strictObject({ by, name: z.string(), completes: z.literal(true).exactOptional() }).exactOptional();

/** A question to people. `unaskable` says why nobody can be asked. `key`: the random key of the question, which the store gives. */
const asking = {
  approval: askedApprovalSchema,
  unaskable: z.string().exactOptional(),
  key: z.string().exactOptional(),
};

/** What people do by writing. Text stays in the inbox; the floor needs only ids. */
const PERSON = {
  receive: {
    id: message,
    /** Seated agents that the text addresses, in the order in which it names them. */
    addressed: z.array(agent),
    /** The platform's sort key; digits of equal length sort as text. */
    order: z.string().exactOptional(),
    /** Set when the message is not for agents: the rule that says so. It is recorded and goes no further. */
    ignore: z.string().exactOptional(),
    /** A program wrote it: it goes the way of a person's message, but renews no budget and lifts no stop. */
    fromProgram: z.boolean().exactOptional(),
  },
  edit: { id: message },
  delete: { id: message },
};

/** What operators do. */
const OPERATOR = {
  stop: { by, ...drawn },
  start: { by },
  /** `feedback`: of the person who has a failed run tried again; it stands in the prompt of the turn. */
  grant: { by, agent, feedback: feedbackSchema.exactOptional() },
  skip: { by, agent: agent.exactOptional(), ...drawn },
  extend: { by, ms: z.number(), ...drawn },
  /** Allows or rejects the question with this number; `key`: and only if it is the question that the button was drawn for. */
  decide: {
    by,
    /** Their name, for people. */
    name: z.string().exactOptional(),
    choice: z.enum(CHOICES),
    question: z.number(),
    key: z.string().exactOptional(),
    /** Why, for its agent to read. */
    reason: z.string().exactOptional(),
    /** The rule by which the same is allowed from now on. */
    always: z.string().exactOptional(),
  },
  /** A rule was revoked by whoever has that name: people are told. */
  tellRevoked: { name: z.string(), agent, rule: z.string() },
  pause: { by, ...drawn },
  resume: { by, ...drawn },
  order: { by, order: z.enum(ORDERS), queue: z.array(agent).exactOptional() },
  mode: { by, mode: z.enum(INTERRUPT_MODES) },
  /** `seat` lets an agent in that the channel's configuration does not name. */
  add: { by, agent, seat: seatSettingsSchema.exactOptional() },
  remove: { by, agent },
  enable: { by, agent },
  disable: { by, agent },
};

/** What an agent's session reports. */
const AGENT = {
  join: { agent },
  /** `error`: its session failed, by which code, and whether another one is opened by itself. */
  leave: {
    agent,
    cause: z.string(),
    error: z.strictObject({ code: z.string(), recoverable: z.boolean() }).exactOptional(),
  },
  /** `workedAt`: when its agent last gave a sign of work, because Conch may say by itself what an agent left standing; now unless given. */
  say: { ...act, text: z.string(), mentions: z.array(agent), workedAt: instant.exactOptional() },
  /** A sign of work: `open` is how many tool calls, permissions and streams are open now, `limitMs` when what has begun ends at the latest. */
  work: { ...act, open: z.number(), limitMs: z.number().exactOptional() },
  /** What was used; also counted after the end of the turn. */
  spend: { ...act, tokens: z.number(), costMicros: z.number(), use: modelUseSchema.exactOptional() },
  /** `signalled`: whether the signal or the protocol's own end said so. */
  end: {
    ...act,
    outcome: z.enum(['completed', 'passed']),
    signalled: z.boolean(),
    handTo: agent.exactOptional(),
  },
  /** Waits for an answer of people, or of the agent named: that one has the floor for a turn, and its turn is the answer. */
  wait: { ...act, reason: z.literal('answer'), of: agent.exactOptional() },
  /** The holder uses tools: a run goes with its turn from now on, with so many steps at most, and by this person's word. */
  use: {
    ...act,
    maxTurns: z.number().exactOptional(),
    requestedBy: by.exactOptional(),
    /** The text of the messages that the turn answers. */
    prompt: z.string().exactOptional(),
    /** The text of the model's first step. */
    output: z.string().exactOptional(),
  },
  /** A tool of the holder needs approval; its generation stands still meanwhile. One that nobody can be asked for is rejected at once. */
  request: { ...act, ...asking },
  /** The holder no longer asks what it asks; `decided`: a person said so in another way than by answering. */
  withdraw: { ...act, decided },
  /** The truth about one injected message; `no-room`: about one to answer that did not fit into the prompt. */
  injected: { ...act, id: message, outcome: z.enum(['injected', 'next-prompt', 'refused', 'no-room']) },
  /** The interrupted generation has stopped. */
  interrupted: act,
  /** The tools of a server that its agent uses are gone, and why, or (`null`) are back: people are told. */
  tellTools: { agent, server: z.string(), why: z.string().nullable() },
  /** A facilitator's answer; `null` when it named nobody. */
  choose: { agent, ask: z.number(), next: agent.nullable() },
};

/** What the program does by itself. */
const SYSTEM = {
  configure: { settings: floorSettingsSchema, seats: z.array(seatSettingsSchema) },
  /** The program started: nothing is granted in this channel until `catchUp`. */
  restart: {},
  /** The platform cannot be heard: the turn under way goes on, and nothing further is granted until `catchUp`. */
  disconnect: {},
  /** This process stood still for so long: that time counts against nobody. */
  standstill: { ms: z.number() },
  /** The platform's history was read, or could not be (`gap` says why). */
  catchUp: { gap: z.string().exactOptional() },
  /** All of a question stands in the channel, or (`why`) never will: it is rejected then. */
  shown: { question: z.number(), key: z.string().exactOptional(), why: z.string().exactOptional() },
  /** The rules refused a tool to an agent: people are told. */
  forbidden: { agent, title: z.string(), why: z.string() },
  /** How a call of a run (`aside`: of a background run) ended that people had allowed. */
  ran: { agent, approval: z.string(), came: cameSchema, aside: z.literal(true).exactOptional() },
  /** An agent begins a background run: it need not have the floor for it, and posts nothing before it has ended. */
  beginAside: { agent, run: z.number(), what: z.string() },
  /** People are told what became of a background run. */
  tellAside: { agent, run: z.number().exactOptional(), what: z.string(), failed: z.literal(true).exactOptional() },
  /** A background run asks people something; until then they may answer. */
  askAside: { agent, ...asking, until: instant.nullable() },
  /** A background run no longer asks, or no longer stands failed. */
  withdrawAside: { agent, decided },
  /** An operator has a turn end with what is there: it is completed, and its messages are answered. */
  completeTurn: { ...act, by },
  /** A background run is over. `report`: what its agent says of it, as soon as nobody has the floor. */
  endAside: { agent, what: z.string(), report: z.string().exactOptional() },
  /**
   * An agent is not started: files in its folder act before anybody is asked. People are asked whether these are trusted. `id` names
   * the files with their contents. `detail`: the names of the files, what they can do, and how they begin.
   */
  askTrust: { agent, id: z.string(), folder: z.string(), detail: z.string() },
  /** The whole question stands in the channel. */
  trustShown: { agent, id: z.string() },
  /** An operator, with this name, decided about these files, here or elsewhere. */
  answerTrust: { agent, id: z.string(), choice: z.enum(['trusted', 'left']), by: z.string() },
  /** Nobody has to decide any more about other files of an agent than these (`null`: about any). */
  dropTrust: { agent, keeps: z.string().nullable() },
  /** The platform refused for good what an agent said. */
  undelivered: { agent, why: z.string() },
  /** Called once after a backup was restored, so that no epoch is used twice. */
  raiseEpoch: { by: z.number() },
  /** A deadline may have passed. */
  tick: {},
};

export type OperatorCommand = Tagged<'type', typeof OPERATOR>;
export type AgentCommand = Tagged<'type', typeof AGENT>;
export type SystemCommand = Tagged<'type', typeof SYSTEM>;

const COMMANDS = { ...PERSON, ...OPERATOR, ...AGENT, ...SYSTEM };

/** Everything that can be asked of a floor. */
export type Command = Tagged<'type', typeof COMMANDS>;

/** The commands of some types. */
export type CommandOf<T extends Command['type']> = Extract<Command, { readonly type: T }>;

/** Who let a run go on without answering its question, or had it end. */
export type DecidedBeside = NonNullable<CommandOf<'withdraw'>['decided']>;

/** Reads a command that another machine sends. */
export const commandSchema = taggedUnion('type', COMMANDS);

/** Text of a holder that people have seen as it was generated, and that is not yet said: a `say` says it. */
export const draftSchema = z.strictObject({
  agent: z.string(),
  epoch: z.number(),
  text: z.string(),
  mentions: z.array(z.string()).readonly(),
  /** When its agent last gave a sign of work. */
  workedAt: z.number(),
});

export type TurnDraft = Readonly<z.infer<typeof draftSchema>>;
