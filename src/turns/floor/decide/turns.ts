import type { DecisionBuilder } from './decision-builder.ts';
import { openExchange, pending } from './exchange.ts';
import { isNewFromPerson } from '../evolve.ts';
import type { Fact, Outcome } from '../fact.ts';
import type { Held, Turn } from '../floor.ts';
import type { Trigger } from '../seats.ts';
import { seatOf, missedBy, turnsOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';

export function begin(
  decision: DecisionBuilder,
  agent: AgentId,
  how: { readonly messages: readonly MessageId[]; readonly keepsPlace: boolean },
): void {
  const { seenLine } = seatOf(decision.floor, agent);
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnGranted', agent, epoch, afterLine: seenLine, uptoLine: decision.floor.lines, ...how });
  decision.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' });
}

/** Goes on with a turn under a new epoch, with all that it was given and has not answered, and what came for it meanwhile. */
export function resume(
  decision: DecisionBuilder,
  turn: Turn,
  why: Extract<Fact, { type: 'turnResumed' }>['why'],
  trigger: Trigger = 'WAIT_RESOLVED',
): void {
  const { agent } = turn;
  const ready = pending(decision).filter((message) => message.until !== 'turn');
  const missed = missedBy(turn);
  const isAnswer = why === 'answered' || why === 'interrupt';
  const isAnsweredByPrograms = missed.length > 0 && missed.every(({ fromProgram }) => fromProgram === true);
  const isProgram = isAnswer && isAnsweredByPrograms && !ready.some(isNewFromPerson);
  const isNews = ready.some(isNewFromPerson) || decision.facts.some(isWord);
  if (decision.floor.exchange === null) openExchange(decision, why === 'operator' ? why : isNews ? 'person' : null);
  const unanswered = turn.given.map(({ id }) => id);
  const messages = [...new Set([...unanswered, ...missed.map(({ id }) => id), ...deliver(decision, agent, ready)])];
  const { seenLine, status } = seatOf(decision.floor, agent);
  const span = { afterLine: seenLine, uptoLine: decision.floor.lines };
  const marks = isProgram ? { fromProgram: true as const } : {};
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnResumed', agent, epoch, ...span, messages, open: unanswered, why, ...marks });
  if (status === 'WAITING') decision.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger });
}

/** Whether a person's word joined the conversation with this: a turn that was ready before may go on long after. */
function isWord(fact: Fact): boolean {
  return fact.type === 'messageRouted' && fact.line !== null && fact.fromProgram !== true;
}

/** How a turn ends, and where that leaves the agent. */
export type End = {
  readonly outcome: Outcome;
  readonly trigger: Trigger;
  readonly to: 'QUEUED' | 'IDLE' | 'OFFLINE';
  readonly signalled?: boolean;
  readonly cause?: string;
};

/** Ends a turn, with or without the floor. What the agent did not get of people's messages waits for the next. */
export function finish(decision: DecisionBuilder, turn: Turn, end: End): void {
  const { agent, epoch, said } = turn;
  const from = seatOf(decision.floor, agent).status;
  const { outcome, trigger, to, cause } = end;
  const known = new Set(decision.floor.held.map(({ id }) => id));
  const answered = [
    ...turn.answered,
    ...turn.given.filter((message) => isAnswered(message, outcome)).map(({ id }) => id),
  ];
  const returned = unclaimed(decision, turn).filter((id) => !answered.includes(id));
  decision.record({
    type: 'turnEnded',
    agent,
    epoch,
    outcome,
    signalled: end.signalled ?? false,
    said,
    answered,
    returned,
  });
  for (const message of decision.floor.held.filter(({ id }) => !known.has(id))) {
    decision.route(message, { state: 'held', until: message.until }, null);
  }
  const place = to === 'QUEUED' && turn.place !== null ? { place: turn.place } : {};
  decision.record({ type: 'seatMoved', agent, from, to, trigger, ...place, ...(cause === undefined ? {} : { cause }) });
}

/** A generation that ended by itself has answered all that it was given; one that fell silent, what it said something to. */
function isAnswered({ begun }: Turn['given'][number], outcome: Outcome): boolean {
  return outcome === 'completed' || outcome === 'passed' || (outcome === 'lapsed' && begun);
}

/** What a turn was given and said nothing to since, and no other turn has or will be given. */
function unclaimed(decision: DecisionBuilder, turn: Turn): readonly MessageId[] {
  const { floor } = decision;
  const turns = turnsOf(floor);
  const others = turns.filter(({ epoch }) => epoch !== turn.epoch).flatMap(({ given }) => given);
  const owed = turns.flatMap(missedBy);
  const claimed = new Set([...others, ...owed, ...floor.held].map(({ id }) => id));
  return turn.given.filter(({ id, begun }) => !begun && !claimed.has(id)).map(({ id }) => id);
}

/** Makes messages part of the conversation and hands them over with a prompt. */
export function deliver(decision: DecisionBuilder, agent: AgentId, messages: readonly Held[]): readonly MessageId[] {
  for (const message of messages) {
    decision.route(message, { state: 'delivered', to: [agent], via: 'prompt' }, nextLine(decision, message));
  }
  decision.unplaced = decision.unplaced.filter((fresh) => !messages.some((message) => message.id === fresh.id));
  return messages.map((message) => message.id);
}

/** The line that a message gets, unless it has one. */
export function nextLine(decision: DecisionBuilder, { line }: Held): number | null {
  return line === null ? decision.floor.lines + 1 : null;
}
