import type { Fact, Fate } from '../floor/fact.ts';
import { announcementNote, trustNote } from '../text/announcement-values.ts';
import { BACKGROUND_RUN_END_WORDS } from '../floor/seats.ts';
import { pricedMicros } from '../floor/gate.ts';
import type { MessageId } from '../floor/settings.ts';
import { clockWords, counted, excerpt } from './clock-words.ts';

/** Returns an agent's display name. */
export type NameOf = (agent: string) => string;

/** Returns a fact in words, without time and channel. */
export function factWords(fact: Fact, name: NameOf = plain): string {
  return wordsFor(fact.type, fact, name);
}

/** Returns the fate of a message in words: "held until the turn ends", "delivered to dev mid-turn". */
export function fateWords(fate: Fate, name: NameOf = plain): string {
  if (fate.state === 'held') return HELD[fate.until];
  if (fate.state === 'unrouted') return `reached no agent: ${fate.why}`;
  if (fate.state === 'ignored') return `not for agents: ${fate.rule}`;
  return `delivered to ${list(fate.to, name)} ${VIA[fate.via]}`;
}

/** Returns the names separated by commas, or "nobody". */
export function list(agents: readonly string[], name: NameOf): string {
  return agents.length === 0 ? 'nobody' : agents.map((agent) => name(agent)).join(', ');
}

/** What a waiting agent waits for, as words after "waits for". */
export const WAITS_FOR = {
  answer: 'an answer',
  human: 'the answer to a message that interrupted it',
  approval: 'approval',
} as const;

type FactOfType<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;
type Words = { readonly [T in Fact['type']]: (fact: FactOfType<T>, name: NameOf) => string };

const VIA = {
  prompt: 'with its prompt',
  inject: 'mid-turn',
  interrupt: 'by interrupting the turn',
  observe: 'to observe',
} as const;

const HELD = {
  turn: 'held until the turn ends',
  prompt: 'held until an agent is prompted',
  next: 'held until another agent is prompted',
  exchange: 'held for all agents’ next prompts',
  agent: 'held until an agent is online',
  start: 'held until the history is read',
} as const;

const RESET = {
  person: 'the turn count was reset',
  operator: 'an operator reset the turn count',
  midnight: 'the daily limit was reset',
} as const;

const CLOSED = {
  done: 'no agent is next',
  silent: 'nobody had anything to say',
  limit: 'a limit was reached',
  stopped: 'stopped',
} as const;

const INJECTED = {
  injected: 'received',
  'next-prompt': 'will receive with its next prompt',
  refused: 'did not accept',
  'no-room': 'had no room and will receive with its next prompt',
} as const;

const MARKED = {
  assigned: (agent: string, on: boolean) => `${agent} ${on ? '' : 'no longer '}assigned to the channel`,
  disabled: (agent: string, on: boolean, by: string) => `${by} ${on ? 'disabled' : 'enabled'} ${agent}`,
  present: (agent: string, on: boolean) => `${agent} ${on ? 'connected' : 'not connected'}`,
};

const WORDS: Words = {
  configured: ({ settings, seats }) =>
    `configured: mode ${settings.mode}, order ${settings.order}, ${counted(seats.length, 'seat')}`,
  settingsChanged: ({ settings, queue, by }, name) =>
    `${name(by)} set mode ${settings.mode}, order ${settings.order}${queue === undefined ? '' : `, queue ${list(queue, name)}`}`,
  seatMoved: ({ agent, from, to, trigger, cause }, name) =>
    `${name(agent)} ${from} → ${to} (${trigger})${cause === undefined ? '' : `: ${cause}`}`,
  seatMarked: ({ agent, mark, on, by }, name) => MARKED[mark](name(agent), on, name(by ?? 'Conch')),
  seatDropped: ({ agent }, name) => `${name(agent)} no longer in the channel's configuration`,
  seatCreated: ({ seat, by }, name) => `${name(by)} added ${name(seat.agent)} to the channel`,
  exchangeOpened: () => 'exchange opened',
  usageReset: ({ why, by }, name) => (why === 'more' ? `${name(by ?? 'an operator')} allowed more turns` : RESET[why]),
  exchangeClosed: ({ reason, budget }) =>
    `exchange closed: ${CLOSED[reason]}${budget === undefined ? '' : ` (${budget})`}`,
  floorPaused: ({ on, by }, name) => `${name(by)} ${on ? 'paused' : 'resumed'} the floor`,
  prioritised: ({ agent, by }, name) =>
    `${by === 'person' ? 'a person' : `an ${by}`} moved ${name(agent)} to the head of the queue`,
  facilitatorAsked: ({ facilitator, candidates }, name) =>
    `asked ${name(facilitator)} who is next: ${list(candidates, name)}`,
  facilitatorAnswered: ({ next, why }, name) => `facilitator: ${next === null ? why : `${name(next)} is next`}`,
  turnGranted: ({ agent, epoch, messages, askedBy }, name) =>
    `turn granted to ${name(agent)} #${epoch}${askedBy === undefined ? '' : `, whom ${name(askedBy)} asked`}${withMessages(messages)}`,
  turnContinued: ({ agent, epoch, messages }, name) =>
    `${name(agent)} #${epoch} prompted again${withMessages(messages)}`,
  turnWaited: ({ agent, epoch, wait, parked }, name) =>
    `${name(agent)} #${epoch} waits for ${WAITS_FOR[wait.reason]}${wait.reason === 'answer' && wait.of !== undefined ? ` of ${name(wait.of)}` : ''}${lent(parked)}`,
  runBegun: ({ agent, epoch }, name) => `${name(agent)} #${epoch} uses tools`,
  runLeft: ({ agent, epoch, outcome }, name) => `the run of ${name(agent)} #${epoch} ended with its turn: ${outcome}`,
  questionShown: ({ question }) => `the channel shows request ${question}`,
  questionClosed: ({ agent, question, choice, by, reason }, name) =>
    choice === null
      ? by === null || by === agent
        ? `${name(agent)} withdrew request ${question}`
        : `request ${question} of ${name(agent)} was closed: ${name(by)} decided about the run`
      : `${name(by ?? 'Conch')} ${choice === 'allow' ? 'allowed' : 'denied'} request ${question} of ${name(agent)}${reason === undefined || choice === 'allow' ? '' : `: ${excerpt(reason)}`}`,
  trustAsked: ({ agent, id }, name) => `${name(agent)} is not started: its folder has the files ${id}`,
  trustShown: ({ agent, id }, name) => `the channel shows the question about the files ${id} of ${name(agent)}`,
  trustAnswered: trustNote,
  asideBegun: ({ agent }, name) => `${name(agent)} starts a background run`,
  asideAsked: ({ agent, question }, name) => `${name(agent)}'s background run makes request ${question.question}`,
  asideShown: ({ question }) => `the channel shows request ${question}`,
  asideAnswered: (fact, name) => WORDS.questionClosed({ ...fact, type: 'questionClosed', epoch: 0 }, name),
  asideStopped: ({ agent, by, why }, name) => {
    const stopped =
      by === null
        ? `${name(agent)}'s background run was stopped`
        : `${name(by)} stopped ${name(agent)}'s background run`;
    return why === undefined ? stopped : `${stopped}: ${BACKGROUND_RUN_END_WORDS[why]}`;
  },
  asideEnded: ({ agent }, name) => `${name(agent)}'s background run ended`,
  reported: ({ agent, text }, name) => `${name(agent)} reported: ${excerpt(text)}`,
  taskBegun: ({ kind, primary, reviewer }, name) =>
    `a ${kind} began: ${name(primary)} works${reviewer === undefined ? '' : `, ${name(reviewer)} reviews`}`,
  taskTurnAsked: ({ agent }, name) => `the task asks for a turn of ${name(agent)}`,
  reviewerSet: ({ reviewer }, name) => `${name(reviewer)} reviews from now on`,
  taskHeld: () => 'the task waits',
  taskOver: ({ id }) => `task ${id} is over`,
  turnStopped: ({ agent, epoch, forced }, name) =>
    `${name(agent)} #${epoch} ${forced ? 'was stopped by force' : 'has stopped'}`,
  waitAnswered: ({ agent, messages, parked }, name) =>
    `${name(agent)}'s wait is answered${withMessages(messages)}${lent(parked)}`,
  turnExtended: ({ agent, ms, by }, name) => `${name(by)} gave ${name(agent)} ${clockWords(ms)} more`,
  turnResumed: ({ agent, epoch, why, messages }, name) =>
    `turn resumed as ${name(agent)} #${epoch} (${why})${withMessages(messages)}`,
  turnEnded: ({ agent, epoch, outcome, said, signalled, cut = [] }, name) =>
    `turn of ${name(agent)} #${epoch} ${outcome}${said ? '' : ', nothing said'}${
      signalled || outcome !== 'completed' ? '' : ', without its signal'
    }${cut.length === 0 ? '' : `, its answer to ${cut.join(', ')} was cut short`}`,
  said: ({ agent, epoch, text }, name) => `${name(agent)} #${epoch} said: ${excerpt(text)}`,
  worked: ({ agent, open }, name) =>
    open === 0 ? `${name(agent)} is at work` : `${name(agent)} has ${counted(open, 'piece')} of work open`,
  spent: (fact, name) => {
    const { agent, tokens, use } = fact;
    const micros = pricedMicros(fact);
    const price = micros === null ? 'unpriced' : `$${(micros / 1_000_000).toFixed(4)}`;
    const how = use === undefined || use.outcome === 'answered' ? '' : ` (${use.outcome})`;
    return `${name(agent)} spent ${counted(tokens, 'token')}, ${price}${how}`;
  },
  messageRouted: ({ id, fate, holder }, name) =>
    `message ${id} ${fateWords(fate, name)}${holder === null ? '' : ` (${name(holder.agent)} #${holder.epoch} had the floor)`}`,
  injectReported: ({ agent, epoch, id, outcome }, name) =>
    `${name(agent)} #${epoch} ${INJECTED[outcome]} message ${id}`,
  messageAmended: ({ id, change, holder }, name) =>
    `message ${id} ${change}${holder === null ? '' : `, ${name(holder)} is told`}`,
  announced: ({ announcement, shown, repeat }, name) =>
    `${shown ? 'announced' : 'noted'}: ${announcementNote(announcement, name)}${repeat < 2 ? '' : ` (×${repeat})`}`,
  epochRaised: ({ by }) => `turn numbers jump by ${by} after a restore`,
  stoodStill: ({ ms }) => `Conch stood still for ${clockWords(ms)}: deadlines move by that time`,
  disconnected: ({ restart }) =>
    restart ? 'Conch started' : 'the platform is unreachable: no turns until the history is read',
  caughtUp: ({ gap }) => (gap === null ? 'the history was read' : `the history has a gap: ${gap}`),
  actRefused: ({ act, agent, epoch, refusal }, name) =>
    `refused ${name(agent)}'s ${act}${epoch === null ? '' : ` (#${epoch})`}: ${refusal}`,
};

function wordsFor<T extends Fact['type']>(type: T, fact: FactOfType<T>, name: NameOf): string {
  return WORDS[type](fact, name);
}

function lent(parked: true | undefined): string {
  return parked === true ? ', and lends the floor' : '';
}

function plain(agent: string): string {
  return agent;
}

function withMessages(messages: readonly (MessageId | { readonly id: MessageId })[]): string {
  const ids = messages.map((message) => (typeof message === 'string' ? message : message.id));
  return ids.length === 0 ? '' : `, with ${ids.length === 1 ? 'message' : 'messages'} ${ids.join(', ')}`;
}
