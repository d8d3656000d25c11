import type { Announcement, Fact, Fate } from '../floor/fact.ts';
import { ASIDE_END_WORDS } from '../floor/seats.ts';
import { pricedMicros } from '../floor/gate.ts';
import type { MessageId } from '../floor/settings.ts';
import { clockWords, counted, excerpt } from './clock-words.ts';

/** An agent's name for people. */
export type NameOf = (agent: string) => string;

/** What a fact says, in one line of plain English, without time and channel. */
export function factWords(fact: Fact, name: NameOf = plain): string {
  return wordsFor(fact.type, fact, name);
}

/** Where a message is now: "held until the turn ends", "delivered to dev in the middle of its turn". */
export function fateWords(fate: Fate, name: NameOf = plain): string {
  if (fate.state === 'held') return HELD[fate.until];
  if (fate.state === 'unrouted') return `not given to any agent: ${fate.why}`;
  if (fate.state === 'ignored') return `not for agents: ${fate.rule}`;
  return `delivered to ${list(fate.to, name)} ${VIA[fate.via]}`;
}

/** Names in a row, "nobody" for none. */
export function list(agents: readonly string[], name: NameOf): string {
  return agents.length === 0 ? 'nobody' : agents.map((agent) => name(agent)).join(', ');
}

/** What a waiting agent waits for, after "waits for". */
export const WAITS_FOR = { answer: 'an answer', human: 'a person', approval: 'an approval' } as const;

type Of<T extends Fact['type']> = Extract<Fact, { readonly type: T }>;
type Words = { readonly [T in Fact['type']]: (fact: Of<T>, name: NameOf) => string };
type NoticeOf<K extends Announcement['kind']> = Extract<Announcement, { readonly kind: K }>;
type NoticeWords = { readonly [K in Announcement['kind']]: (notice: NoticeOf<K>, name: NameOf) => string };

const VIA = {
  prompt: 'with its prompt',
  inject: 'in the middle of its turn',
  interrupt: 'by interrupting the turn',
  observe: 'to observe',
} as const;

const HELD = {
  turn: 'held until the turn ends',
  prompt: 'held until an agent is prompted',
  next: 'held until another agent is prompted',
  exchange: 'kept for all to see with their next prompts',
  agent: 'held until an agent is online',
  start: 'held until the history is read',
} as const;

const RESET = {
  person: 'a message started the count of turns anew',
  operator: 'an operator started the count of turns anew',
  midnight: 'the limit is lifted',
} as const;

const CLOSED = {
  done: 'everybody had a turn',
  silent: 'nobody had anything to say',
  limit: 'a limit was reached',
  stopped: 'stopped',
} as const;

const INJECTED = {
  injected: 'has taken in',
  'next-prompt': 'will get with its next prompt',
  refused: 'could not take',
  'no-room': 'had no room for, and will get with its next prompt,',
} as const;

const MARKED = {
  assigned: (agent: string, on: boolean) => `${agent} ${on ? '' : 'no longer '}assigned to the channel`,
  disabled: (agent: string, on: boolean, by: string) => `${by} ${on ? 'disabled' : 'enabled'} ${agent}`,
  present: (agent: string, on: boolean) => `${agent} ${on ? 'connected' : 'not connected'}`,
};

const NOTICES: NoticeWords = {
  timeout: ({ agent }, name) => `${name(agent)} timed out`,
  waitTimeout: ({ agent }, name) => `${name(agent)} waited too long`,
  disconnect: ({ agent, cause }, name) => `${name(agent)} disconnected: ${cause}`,
  nobody: () => 'no agents available',
  unaddressed: ({ named }, name) =>
    named.length === 0 ? 'a message names no agent' : `a message names ${list(named, name)}, who cannot answer`,
  limit: ({ budget, used, max }) => `limit of ${budget} reached, ${used} of ${max}`,
  stopped: ({ agent, kept }, name) =>
    `stopped${agent === null ? '' : ` ${name(agent)}`}, ${counted(kept, 'message')} kept`,
  skipped: ({ agent }, name) => `${name(agent)}'s turn was skipped`,
  recovered: ({ agent }, name) => `${name(agent)}'s turn goes on after a restart`,
  undelivered: ({ agent, why }, name) => `something that ${name(agent)} said could not be posted: ${why}`,
  gap: ({ why }) => `a gap in the history: ${why}`,
  approval: ({ agent, question, title }, name) =>
    `${name(agent)} asks for a yes (question ${question}): ${excerpt(title)}`,
  answered: ({ agent, choice, by, title }, name) =>
    `${by ?? 'nobody'} ${choice === 'reject' ? 'rejected' : choice === 'allow' ? 'allowed' : 'answered'} what ${name(agent)} asked: ${excerpt(title)}`,
  forbidden: ({ agent, title, why }, name) => `the rules refused ${excerpt(title)} to ${name(agent)}: ${why}`,
  trust: ({ agent, id }, name) => `people are asked about the files in the folder of ${name(agent)} (${id})`,
  trustAnswered: ({ agent, id, choice, by }, name) =>
    choice === null
      ? `the question about the files ${id} of ${name(agent)} is over`
      : `${by ?? 'nobody'} ${choice === 'trusted' ? 'trusts' : 'does not trust'} the files ${id} of ${name(agent)}`,
  aside: ({ agent, what }, name) => `${name(agent)}, beside the floor: ${excerpt(what)}`,
  revoked: ({ agent, rule, by }, name) => `${by} took back that ${name(agent)} need not ask: ${excerpt(rule)}`,
  toolsGone: ({ agent, server, why }, name) => `the tools of ${server} are gone for ${name(agent)}: ${why}`,
  toolsBack: ({ agent, server }, name) => `the tools of ${server} are back for ${name(agent)}`,
  unasked: ({ agent, title, why }, name) => `nobody could be asked about ${name(agent)}'s ${excerpt(title)}: ${why}`,
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
  seatCreated: ({ seat, by }, name) => `${name(by)} let ${name(seat.agent)} into the channel`,
  exchangeOpened: () => 'everybody’s rounds begin',
  usageReset: ({ why, by }, name) => (why === 'more' ? `${name(by ?? 'an operator')} allowed more turns` : RESET[why]),
  exchangeClosed: ({ reason, budget }) =>
    `exchange closed: ${CLOSED[reason]}${budget === undefined ? '' : ` (${budget})`}`,
  floorPaused: ({ on, by }, name) => `${name(by)} ${on ? 'paused' : 'resumed'} the floor`,
  prioritised: ({ agent, by }, name) =>
    `${name(agent)} named to be next by ${by === 'person' ? 'a person' : `an ${by}`}`,
  facilitatorAsked: ({ facilitator, candidates }, name) =>
    `${name(facilitator)} asked who is next: ${list(candidates, name)}`,
  facilitatorAnswered: ({ next, why }, name) => `facilitator: ${next === null ? why : `${name(next)} is next`}`,
  turnGranted: ({ agent, epoch, messages, askedBy }, name) =>
    `turn granted to ${name(agent)} #${epoch}${askedBy === undefined ? '' : `, whom ${name(askedBy)} asked`}${withMessages(messages)}`,
  turnContinued: ({ agent, epoch, messages }, name) =>
    `${name(agent)} #${epoch} prompted again${withMessages(messages)}`,
  turnWaited: ({ agent, epoch, wait, parked }, name) =>
    `${name(agent)} #${epoch} waits for ${WAITS_FOR[wait.reason]}${wait.reason === 'answer' && wait.of !== undefined ? ` of ${name(wait.of)}` : ''}${lent(parked)}`,
  runBegun: ({ agent, epoch }, name) => `${name(agent)} #${epoch} uses tools`,
  runLeft: ({ agent, epoch, outcome }, name) => `the run of ${name(agent)} #${epoch} is over with its turn: ${outcome}`,
  questionShown: ({ question }) => `question ${question} stands in the channel`,
  questionClosed: ({ agent, question, choice, by, reason }, name) =>
    choice === null
      ? `${name(agent)} took question ${question} back`
      : `${name(by ?? 'Conch')} decided ${choice} on question ${question} of ${name(agent)}${reason === undefined || choice === 'allow' ? '' : `: ${excerpt(reason)}`}`,
  trustAsked: ({ agent, id }, name) => `${name(agent)} is not started beside the files ${id} in its folder`,
  trustShown: ({ agent, id }, name) => `the question about the files ${id} of ${name(agent)} stands in the channel`,
  trustAnswered: ({ agent, id, choice, by }, name) =>
    choice === null
      ? `the question about the files ${id} of ${name(agent)} is over`
      : `${by ?? 'nobody'} ${choice === 'trusted' ? 'trusts' : 'does not trust'} the files ${id} of ${name(agent)}`,
  asideBegun: ({ agent }, name) => `${name(agent)} begins to work beside the floor`,
  asideAsked: ({ agent, question }, name) => `${name(agent)} asks question ${question.question}, beside the floor`,
  asideShown: ({ question }) => `question ${question} stands in the channel`,
  asideAnswered: (fact, name) => WORDS.questionClosed({ ...fact, type: 'questionClosed', epoch: 0 }, name),
  asideStopped: ({ agent, by, why }, name) => {
    const stopped =
      by === null
        ? `what ${name(agent)} did beside the floor was stopped`
        : `${name(by)} stopped what ${name(agent)} did beside the floor`;
    return why === undefined ? stopped : `${stopped}: ${ASIDE_END_WORDS[why]}`;
  },
  asideEnded: ({ agent }, name) => `the work of ${name(agent)} beside the floor is over`,
  reported: ({ agent, text }, name) => `${name(agent)} said of its work beside the floor: ${excerpt(text)}`,
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
    }${cut.length === 0 ? '' : `, its answer to ${cut.join(', ')} cut short`}`,
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
    `${shown ? 'announced' : 'noted'}: ${noticeFor(announcement.kind, announcement, name)}${repeat < 2 ? '' : ` (×${repeat})`}`,
  epochRaised: ({ by }) => `turn numbers jump by ${by}, after a backup was restored`,
  stoodStill: ({ ms }) => `Conch stood still for ${clockWords(ms)}: that time counts against nobody`,
  disconnected: ({ restart }) =>
    restart ? 'the program started' : 'the platform cannot be heard, no turns until the history is read',
  caughtUp: ({ gap }) => (gap === null ? 'the history was read' : `the history has a gap: ${gap}`),
  actRefused: ({ act, agent, epoch, refusal }, name) =>
    `refused ${name(agent)}'s ${act}${epoch === null ? '' : ` (#${epoch})`}: ${refusal}`,
};

function wordsFor<T extends Fact['type']>(type: T, fact: Of<T>, name: NameOf): string {
  return WORDS[type](fact, name);
}

function noticeFor<K extends Announcement['kind']>(kind: K, notice: NoticeOf<K>, name: NameOf): string {
  return NOTICES[kind](notice, name);
}

function lent(parked: true | undefined): string {
  return parked === true ? ', and lends the floor meanwhile' : '';
}

function plain(agent: string): string {
  return agent;
}

function withMessages(messages: readonly (MessageId | { readonly id: MessageId })[]): string {
  const ids = messages.map((message) => (typeof message === 'string' ? message : message.id));
  return ids.length === 0 ? '' : `, with ${ids.length === 1 ? 'message' : 'messages'} ${ids.join(', ')}`;
}
