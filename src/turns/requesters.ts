import type { FactFields } from '../engine/machine.ts';
import type { Fact } from './floor/fact.ts';
import type { Floor, Turn } from './floor/floor.ts';
import { findTurn } from './floor/seats.ts';
import type { AgentId, MessageId } from './floor/settings.ts';
import { messagesGivenBy } from './view.ts';
import type { JournalEntry } from './view.ts';
import type { Instant } from '../lib/time.ts';

/** A person, or a program (`bot`), whose message caused an agent's work. */
export type Requester = { readonly id: string; readonly name: string; readonly bot?: boolean };

type RequesterSources = {
  /** Facts of the floor, newest first. Read only as far as needed. */
  readonly newest: () => Iterable<{ readonly fact: Fact }>;
  readonly authorOf: (message: MessageId) => Requester | null;
};

/** The most facts that are searched for the messages behind a turn that was granted without messages. */
const MAX_SEARCHED_FACTS = 1_000;

/** The requester when no author is known. */
const SOMEBODY: Requester = { id: '', name: 'somebody' };

/**
 * The authors of all messages that a turn was given. A turn granted without messages, as after a hand-over, also has
 * the authors of the messages that agents got last before it: with a prompt, or injected since. A turn that an operator
 * caused without messages has only the authors of its own later messages. `SOMEBODY` is added when the search for
 * earlier messages finds no grant or resume with messages, and stands for each unknown author.
 */
export function requestersOf(floor: Floor | null, agent: AgentId, sources: RequesterSources): readonly Requester[] {
  const found = [...messagesGivenTo(floor === null ? null : findTurn(floor, agent))];
  let isOwn = found.length > 0;
  let looked = 0;
  for (const { fact } of sources.newest()) {
    // Facts come newest first. The messages of this turn are known, so facts newer than its grant are skipped. If the
    // grant had no messages, messages of older facts count, too.
    if (isOwn && (fact.type !== 'turnGranted' || fact.agent !== agent)) continue;
    if (isOwn && messagesGivenBy(fact).length > 0) return authorsOf(found, sources);
    isOwn = false;
    looked += 1;
    if (looked > MAX_SEARCHED_FACTS) break;
    const isOperators = fact.type === 'usageReset' && (fact.why === 'operator' || fact.why === 'more');
    const isGranted = fact.type === 'prioritised' && fact.by === 'operator' && fact.agent === agent;
    if (isOperators || isGranted) return authorsOf(found, sources);
    const messages = messagesGivenBy(fact);
    found.unshift(...messages);
    // After a message given mid-turn or a continuation, the search goes on: the turn got other messages before.
    const isMore = fact.type === 'messageRouted' || fact.type === 'turnContinued';
    if (!isMore && messages.length > 0) return authorsOf(found, sources);
  }
  return [...(isOwn ? [] : [SOMEBODY]), ...authorsOf(found, sources)];
}

/** The messages that a turn's agent was given, answered or not; empty without a turn. */
export function messagesGivenTo(turn: Turn | null): readonly MessageId[] {
  return turn === null ? [] : [...turn.answered, ...[...turn.given, ...turn.injecting].map(({ id }) => id)];
}

/**
 * The turns that were given a message that `isMeant` accepts, each as agent and epoch with a space between. `newest`:
 * facts of the floor, newest first.
 */
export function turnsGivenMessages(
  newest: Iterable<{ readonly fact: Fact }>,
  isMeant: (message: MessageId) => boolean,
): ReadonlySet<string> {
  const found = new Set<string>();
  /**
   * Agents that got an accepted message mid-turn. The grants of these turns are older facts, so the loop meets them
   * later.
   */
  const agentsReached = new Set<AgentId>();
  for (const { fact } of newest) {
    const hasMeantMessage = messagesGivenBy(fact).some(isMeant);
    if (fact.type === 'messageRouted' && fact.fate.state === 'delivered' && hasMeantMessage)
      for (const agent of fact.fate.to) agentsReached.add(agent);
    if (fact.type !== 'turnGranted' && fact.type !== 'turnResumed' && fact.type !== 'turnContinued') continue;
    if (agentsReached.delete(fact.agent) || hasMeantMessage) found.add(`${fact.agent} ${fact.epoch}`);
  }
  return found;
}

/** Fields with texts of a request, for erasing. */
export const REQUEST_TEXTS = [
  'title',
  'detail',
  'about.call',
  'about.why',
  'about.says',
  'about.answer',
  'about.who',
  'about.form',
] as const;

const QUESTION = [...REQUEST_TEXTS, 'always.rule', 'always.words'];

/** Fields with texts of facts and with ids of people, for erasing. */
export const FLOOR_TEXTS: FactFields = {
  said: ['text'],
  reported: ['text'],
  actRefused: ['text'],
  spent: ['use.requestedBy'],
  seatMoved: ['cause'],
  settingsChanged: ['by'],
  seatMarked: ['by'],
  seatCreated: ['by'],
  usageReset: ['by'],
  floorPaused: ['by'],
  turnExtended: ['by'],
  runBegun: ['requestedBy', 'prompt', 'output'],
  runLeft: ['result', 'error.message'],
  turnWaited: QUESTION.map((field) => `wait.question.${field}`),
  asideAsked: QUESTION.map((field) => `question.${field}`),
  questionClosed: ['by', 'reason'],
  asideAnswered: ['by', 'reason'],
  turnEnded: ['by'],
  asideStopped: ['by'],
  asideEnded: ['report'],
  exchangeClosed: ['by'],
  taskTurnAsked: ['brief'],
  turnResumed: ['decided.title', 'decided.reason'],
  prioritised: ['feedback.name', 'feedback.words'],
  turnGranted: ['feedback.name', 'feedback.words'],
  trustAsked: ['detail'],
  trustAnswered: ['by'],
  announced: [...QUESTION, 'by', 'reason', 'what', 'why', 'text', 'positions.words', 'cause', 'lost.cause'].map(
    (field) => `announcement.${field}`,
  ),
};

/** Stored texts about a person's act, with the person's name. */
export const IN_WORDS = {
  paused: (name: string): string => `${name} paused it`,
  aborted: (name: string): string => `aborted by ${name}`,
  asked: (name: string): string => `${name} asked for it`,
  wrote: (name: string): string => `what ${name} wrote`,
};

/**
 * The sequence numbers of facts that describe work for which `isMeant` is true, and of the announced decisions about
 * requests of this work. `newest`: facts of the floor, newest first.
 */
export function factsAboutWork(
  newest: Iterable<Pick<JournalEntry, 'seq' | 'at' | 'fact'>>,
  isMeant: (agent: AgentId, at: Instant) => boolean,
): readonly number[] {
  const answers: { readonly seq: number; readonly question: number }[] = [];
  const requestNumbers = new Set<number>();
  const found: number[] = [];
  for (const { seq, at, fact } of newest) {
    if (fact.type === 'announced' && fact.announcement.kind === 'answered')
      answers.push({ seq, question: fact.announcement.question });
    const { agent, question = null } = workIn(fact) ?? {};
    if (agent === undefined || !isMeant(agent, at)) continue;
    found.push(seq);
    if (question !== null) requestNumbers.add(question);
  }
  return [...found, ...answers.filter(({ question }) => requestNumbers.has(question)).map(({ seq }) => seq)];
}

function workIn(fact: Fact): { readonly agent: AgentId; readonly question?: number } | null {
  switch (fact.type) {
    case 'turnWaited':
      return fact.wait.reason === 'approval' ? { agent: fact.agent, question: fact.wait.question.question } : null;
    case 'asideAsked':
      return { agent: fact.agent, question: fact.question.question };
    case 'turnResumed':
    case 'runBegun':
    case 'runLeft':
    case 'seatMoved':
      return { agent: fact.agent };
    case 'announced': {
      const { announcement } = fact;
      if (announcement.kind === 'approval') return { agent: announcement.agent, question: announcement.question };
      if (announcement.kind === 'nobody') return { agent: announcement.lost?.agents.at(-1) ?? '' };
      const isOfWork = announcement.kind === 'aside' || announcement.kind === 'unasked';
      const isLoss = announcement.kind === 'disconnect';
      return isOfWork || isLoss || announcement.kind === 'forbidden' ? { agent: announcement.agent } : null;
    }
    default:
      return null;
  }
}

function authorsOf(messages: readonly MessageId[], { authorOf }: RequesterSources): readonly Requester[] {
  const authors = messages.map((id) => authorOf(id) ?? SOMEBODY);
  return [...new Map(authors.map((author) => [author.id, author])).values()];
}
