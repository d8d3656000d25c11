import type { DecisionBuilder } from './decision-builder.ts';
import { closeExchange, isOverBudget, openExchange, pending, recall } from './decision-builder.ts';
import { isNewFromPerson, NOBODY } from '../evolve.ts';
import type { Fact, Outcome } from '../fact.ts';
import type { Held, Turn } from '../floor.ts';
import { gate, isGrantable, nextInTurn, nextUp, policyOf } from '../gate.ts';
import type { Caller } from '../policies.ts';
import { findSeat, missedBy, seatOf, turnsOf, waitOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';
import type { Trigger } from '../seats.ts';

/** Lets the floor go on: to a turn whose wait is over, else to the next speaker, else to rest. Does nothing while somebody has it. */
export function advance(decision: DecisionBuilder): void {
  const { floor, at } = decision;
  const ready = floor.parked.find((turn) => waitOf(turn)?.ready === true && seatOf(floor, turn.agent).present);
  if (ready !== undefined && gate(floor, at, 'parked') === null) {
    resume(decision, ready, waitOf(ready)?.reason === 'human' ? 'interrupt' : 'answered');
    return;
  }
  if (gate(floor, at, 'next') !== null) return;
  const next = nextUp(floor);
  if (next.kind === 'later') return;
  if (next.kind === 'rest') {
    closeExchange(decision);
    return;
  }
  if (isOverBudget(decision)) return;
  if (next.kind === 'agent') grant(decision, next.agent);
  else askFacilitator(decision, next.facilitator, next.candidates);
}

/** The floor is free: serves held messages first, then goes on. */
export function goOn(decision: DecisionBuilder): void {
  if (!decision.floor.stopped) wake(decision);
  advance(decision);
}

/**
 * Serves the messages that wait for a free floor: calls whom they address, opens or restarts the exchange, and tells
 * people when nobody is there. `advance` then grants. Messages kept by a stop stay until something else wakes the floor,
 * and only what a person wrote since lifts a stop or a limit. `asked`: an operator wants it, who may lift both.
 */
export function wake(decision: DecisionBuilder, asked = false): void {
  const { floor, at } = decision;
  const asker = asked || isPersonSince(decision) ? 'person' : 'program';
  const closed = gate(floor, at, asker);
  if (pending(decision).length === 0 || (closed !== null && closed.why !== 'nobody-available')) return;
  if (closed !== null && floor.parked.length === 0) {
    unroute(decision);
    return;
  }
  recall(decision);
  if (!policyOf(decision.floor).opensForMessages) return;
  const news = pending(decision).filter((message) => message.until !== 'next');
  if (news.length === 0) return;
  openExchange(decision, news.some(isNewFromPerson) ? 'person' : asked ? 'operator' : null);
  for (const message of news) prioritiseFor(decision, message);
}

/** Whether a person's new word is among what waits; what a stop kept lifts no stop. */
function isPersonSince(decision: DecisionBuilder): boolean {
  return (decision.floor.stopped ? decision.unplaced : pending(decision)).some(isNewFromPerson);
}

/** Puts an agent at the head, if it can be granted and is not the one who speaks. */
export function prioritise(decision: DecisionBuilder, agent: AgentId, by: Caller, message?: MessageId): void {
  if (!policyOf(decision.floor).heeds.includes(by)) return;
  if (findSeat(decision.floor, agent)?.status !== 'QUEUED') return;
  decision.record({ type: 'prioritised', agent, by, ...(message === undefined ? {} : { message }) });
}

/** Gives the floor to a queued agent, with every message that waits. */
export function grant(decision: DecisionBuilder, agent: AgentId): void {
  const asked = decision.floor.prioritised.find((named) => named.agent === agent)?.messages ?? [];
  const messages = deliver(decision, agent, pending(decision));
  begin(decision, agent, { messages: [...new Set([...messages, ...asked])], keepsPlace: false });
}

/** Gives the floor for one turn to whoever answers for a paused holder; its place in the queue stays its own. */
export function grantOnBehalf(decision: DecisionBuilder, agent: AgentId, messages: readonly MessageId[]): void {
  begin(decision, agent, { messages, keepsPlace: true });
}

/** Goes on by round-robin after a facilitator gave no usable answer, or with the one it named; before the history is read, it will be asked again. */
export function facilitatorAnswered(
  decision: DecisionBuilder,
  next: AgentId | null,
  why: Extract<Fact, { type: 'facilitatorAnswered' }>['why'],
): void {
  const isTooEarly = gate(decision.floor, decision.at, 'holder') !== null;
  const usable = next !== null && !isTooEarly && isGrantable(decision.floor, next);
  const isOdd = next !== null && !usable;
  decision.record({
    type: 'facilitatorAnswered',
    next: usable ? next : null,
    why: isTooEarly ? 'overtaken' : isOdd ? 'named nobody queued' : why,
  });
  const { floor } = decision;
  if (gate(floor, decision.at, 'next') !== null) return;
  const agent = usable ? next : nextInTurn(floor);
  if (agent === null) advance(decision);
  else if (!isOverBudget(decision)) grant(decision, agent);
}

function askFacilitator(decision: DecisionBuilder, facilitator: AgentId, candidates: readonly AgentId[]): void {
  const deadlineAt = decision.at + seatOf(decision.floor, facilitator).timeoutMs;
  decision.record({ type: 'facilitatorAsked', facilitator, ask: decision.floor.asks + 1, deadlineAt, candidates });
}

function prioritiseFor(decision: DecisionBuilder, message: Held): void {
  const reachable = message.addressed.filter((agent) => findSeat(decision.floor, agent)?.status === 'QUEUED');
  for (const agent of reachable) prioritise(decision, agent, 'person', message.id);
  if (!policyOf(decision.floor).needsName || reachable.length > 0) return;
  const { defaultAgent } = decision.floor.settings;
  if (defaultAgent !== null && findSeat(decision.floor, defaultAgent)?.status === 'QUEUED')
    prioritise(decision, defaultAgent, 'person', message.id);
  else if (decision.floor.prioritised.length === 0)
    route(decision, message, message.addressed.length > 0 ? 'nobody addressed is available' : 'nobody addressed');
}

function route(decision: DecisionBuilder, message: Held, why: string): void {
  decision.route(message, { state: 'unrouted', why }, nextLine(decision, message));
  decision.unplaced = decision.unplaced.filter((fresh) => fresh.id !== message.id);
}

/** Nobody is online: what was written is kept for whoever comes back, as far as there is room, and people are told once. */
function unroute(decision: DecisionBuilder): void {
  const room = Math.max(0, decision.floor.settings.maxHeld - decision.floor.held.length);
  const kept = [...decision.floor.held.filter((held) => held.until !== 'agent'), ...decision.unplaced.slice(0, room)];
  for (const message of kept) decision.route(message, { state: 'unrouted', why: NOBODY }, null);
  decision.unplaced = decision.unplaced.slice(room);
  if (!decision.floor.outage) decision.announce({ kind: 'nobody' });
  if (decision.floor.exchange !== null) decision.record({ type: 'exchangeClosed', reason: 'done' });
}

function begin(
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
export type TurnEnd = {
  readonly outcome: Outcome;
  readonly trigger: Trigger;
  readonly to: 'QUEUED' | 'IDLE' | 'OFFLINE';
  readonly signalled?: boolean;
  readonly cause?: string;
};

/** Ends a turn, with or without the floor. What the agent did not get of people's messages waits for the next. */
export function finish(decision: DecisionBuilder, turn: Turn, end: TurnEnd): void {
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
function deliver(decision: DecisionBuilder, agent: AgentId, messages: readonly Held[]): readonly MessageId[] {
  for (const message of messages) {
    decision.route(message, { state: 'delivered', to: [agent], via: 'prompt' }, nextLine(decision, message));
  }
  decision.unplaced = decision.unplaced.filter((fresh) => !messages.some((message) => message.id === fresh.id));
  return messages.map((message) => message.id);
}

/** The line that a message gets, unless it has one. */
function nextLine(decision: DecisionBuilder, { line }: Held): number | null {
  return line === null ? decision.floor.lines + 1 : null;
}
