import type { Deliberation } from './decision-builder.ts';
import { NOBODY, compareOrder, isUnheard } from '../evolve/evolve-message.ts';
import type { Fact, Outcome } from '../fact.ts';
import type { Held, Turn } from '../floor.ts';
import { gate, obstacles } from '../gate.ts';
import type { Obstacle } from '../gate.ts';
import { isGrantable, nextInTurn, nextUp, policyOf } from '../order.ts';
import type { Caller } from '../policies.ts';
import type { Trigger } from '../seat.ts';
import { findSeat, seatOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';
import { missedBy, turnsOf, waitOf } from '../turn.ts';

/** Lets the floor go on: to a turn whose wait is over, else to the next speaker, else to rest. Does nothing while somebody has it. */
export function advance(d: Deliberation): void {
  const { floor, at } = d;
  const ready = floor.parked.find((turn) => waitOf(turn)?.ready === true && seatOf(floor, turn.agent).present);
  if (ready !== undefined && gate(floor, at, 'parked') === null) {
    resume(d, ready, waitOf(ready)?.reason === 'human' ? 'interrupt' : 'answered');
    return;
  }
  if (gate(floor, at, 'next') !== null) return;
  const next = nextUp(floor);
  if (next.kind === 'later') return;
  if (next.kind === 'rest') {
    close(d);
    return;
  }
  if (isOverBudget(d)) return;
  if (next.kind === 'agent') grant(d, next.agent);
  else ask(d, next.facilitator, next.candidates);
}

/**
 * Serves the messages that wait for a free floor: calls whom they address, opens or restarts the exchange, and tells
 * people when nobody is there. `advance` then grants. Messages kept by a stop stay until something else wakes the floor,
 * and only what a person wrote since lifts a stop or a limit. `asked`: an operator wants it, who may lift both.
 */
export function wake(d: Deliberation, asked = false): void {
  const { floor, at } = d;
  const asker = asked || isPersonSince(d) ? 'person' : 'program';
  const closed = gate(floor, at, asker);
  if (pending(d).length === 0 || (closed !== null && closed.why !== 'nobody-available')) return;
  if (closed !== null && floor.parked.length === 0) {
    unroute(d);
    return;
  }
  recall(d);
  if (!policyOf(d.floor).opensForMessages) return;
  const news = pending(d).filter((message) => message.until !== 'next');
  if (news.length === 0) return;
  open(d, news.some(isUnheard) ? 'person' : asked ? 'operator' : null);
  for (const message of news) callFor(d, message);
}

/** Whether a person's new word is among what waits; what a stop kept lifts no stop. */
function isPersonSince(d: Deliberation): boolean {
  return (d.floor.stopped ? d.fresh : pending(d)).some(isUnheard);
}

/** Opens an exchange, or starts the rounds of the one that is open anew; `renews`: and gives agents anew what they may use. */
export function open(d: Deliberation, renews: 'person' | 'operator' | null): void {
  if (d.floor.choosing !== null) d.record({ type: 'choosingEnded', next: null, why: 'overtaken' });
  if (renews !== null) d.record({ type: 'usageReset', why: renews });
  d.record({ type: 'exchangeOpened' });
}

/** Queues the seats that were alone and went to rest (the owner's "or IDLE if solo"). */
export function recall(d: Deliberation): void {
  for (const seat of d.floor.seats) {
    if (seat.status === 'IDLE' && seat.assigned) {
      d.record({ type: 'seatMoved', agent: seat.agent, from: 'IDLE', to: 'QUEUED', trigger: 'RECALLED' });
    }
  }
}

/** Puts an agent at the head, if it can be granted and is not the one who speaks. */
export function call(d: Deliberation, agent: AgentId, by: Caller, message?: MessageId): void {
  if (!policyOf(d.floor).heeds.includes(by)) return;
  if (findSeat(d.floor, agent)?.status !== 'QUEUED') return;
  d.record({ type: 'agentCalled', agent, by, ...(message === undefined ? {} : { message }) });
}

/** Gives the floor to a queued agent, with every message that waits. */
export function grant(d: Deliberation, agent: AgentId): void {
  const asked = d.floor.called.find((called) => called.agent === agent)?.messages ?? [];
  const messages = deliver(d, agent, pending(d));
  begin(d, agent, { messages: [...new Set([...messages, ...asked])], keepsPlace: false });
}

/** Gives the floor for one turn to whoever answers for a paused holder; its place in the queue stays its own. */
export function lend(d: Deliberation, agent: AgentId, messages: readonly MessageId[]): void {
  begin(d, agent, { messages, keepsPlace: true });
}

/** Goes on with a turn under a new epoch, with all that it was given and has not answered, and what came for it meanwhile. */
export function resume(
  d: Deliberation,
  turn: Turn,
  why: Extract<Fact, { type: 'turnResumed' }>['why'],
  trigger: Trigger = 'WAIT_RESOLVED',
): void {
  const { agent } = turn;
  const ready = pending(d).filter((message) => message.until !== 'turn');
  const missed = missedBy(turn);
  const isAnswer = why === 'answered' || why === 'interrupt';
  const isAnsweredByPrograms = missed.length > 0 && missed.every(({ fromProgram }) => fromProgram === true);
  const isProgram = isAnswer && isAnsweredByPrograms && !ready.some(isUnheard);
  const isNews = ready.some(isUnheard) || d.facts.some(isWord);
  if (d.floor.exchange === null) open(d, why === 'operator' ? why : isNews ? 'person' : null);
  const unanswered = turn.given.map(({ id }) => id);
  const messages = [...new Set([...unanswered, ...missed.map(({ id }) => id), ...deliver(d, agent, ready)])];
  const { seenLine, status } = seatOf(d.floor, agent);
  const span = { afterLine: seenLine, uptoLine: d.floor.lines };
  const marks = isProgram ? { fromProgram: true as const } : {};
  const epoch = d.floor.epoch + 1;
  d.record({ type: 'turnResumed', agent, epoch, ...span, messages, open: unanswered, why, ...marks });
  if (status === 'WAITING') d.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger });
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
export function finish(d: Deliberation, turn: Turn, end: End): void {
  const { agent, epoch, said } = turn;
  const from = seatOf(d.floor, agent).status;
  const { outcome, trigger, to, cause } = end;
  const known = new Set(d.floor.held.map(({ id }) => id));
  const answered = [
    ...turn.answered,
    ...turn.given.filter((message) => isAnswered(message, outcome)).map(({ id }) => id),
  ];
  const returned = unclaimed(d, turn).filter((id) => !answered.includes(id));
  d.record({ type: 'turnEnded', agent, epoch, outcome, signalled: end.signalled ?? false, said, answered, returned });
  for (const message of d.floor.held.filter(({ id }) => !known.has(id))) {
    d.route(message, { state: 'held', until: message.until }, null);
  }
  const place = to === 'QUEUED' && turn.place !== null ? { place: turn.place } : {};
  d.record({ type: 'seatMoved', agent, from, to, trigger, ...place, ...(cause === undefined ? {} : { cause }) });
}

/** A generation that ended by itself has answered all that it was given; one that fell silent, what it said something to. */
function isAnswered({ begun }: Turn['given'][number], outcome: Outcome): boolean {
  return outcome === 'completed' || outcome === 'passed' || (outcome === 'lapsed' && begun);
}

/** What a turn was given and said nothing to since, and no other turn has or will be given. */
function unclaimed(d: Deliberation, turn: Turn): readonly MessageId[] {
  const { floor } = d;
  const turns = turnsOf(floor);
  const others = turns.filter(({ epoch }) => epoch !== turn.epoch).flatMap(({ given }) => given);
  const owed = turns.flatMap(missedBy);
  const claimed = new Set([...others, ...owed, ...floor.held].map(({ id }) => id));
  return turn.given.filter(({ id, begun }) => !begun && !claimed.has(id)).map(({ id }) => id);
}

/** What came with this command and what was held before it, in the platform's order. */
export function pending(d: Deliberation): readonly Held[] {
  const held = d.floor.held.filter((message) => !d.fresh.some((fresh) => fresh.id === message.id));
  return [...held, ...d.fresh].sort((a, b) => compareOrder(a.order, b.order));
}

/** Makes messages part of the conversation and hands them over with a prompt. */
function deliver(d: Deliberation, agent: AgentId, messages: readonly Held[]): readonly MessageId[] {
  for (const message of messages) {
    d.route(message, { state: 'delivered', to: [agent], via: 'prompt' }, nextLine(d, message));
  }
  d.fresh = d.fresh.filter((fresh) => !messages.some((message) => message.id === fresh.id));
  return messages.map((message) => message.id);
}

function begin(
  d: Deliberation,
  agent: AgentId,
  how: { readonly messages: readonly MessageId[]; readonly keepsPlace: boolean },
): void {
  const { seenLine } = seatOf(d.floor, agent);
  const epoch = d.floor.epoch + 1;
  d.record({ type: 'turnGranted', agent, epoch, afterLine: seenLine, uptoLine: d.floor.lines, ...how });
  d.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' });
}

function close(d: Deliberation): void {
  const { exchange, queue } = d.floor;
  const silent = exchange !== null && exchange.silent > 0 && exchange.silent >= queue.length;
  d.record({ type: 'exchangeClosed', reason: silent ? 'silent' : 'done' });
}

/** A person's word that the next grant brings renews what an exchange may use. */
function isOverBudget(d: Deliberation): boolean {
  if (overBudget(d)?.until === null && pending(d).some(isUnheard)) open(d, 'person');
  const over = overBudget(d);
  if (over === undefined) return false;
  d.record({ type: 'exchangeClosed', reason: 'limit', budget: over.limit.budget, until: over.until });
  d.announce({ kind: 'limit', ...over.limit });
  return true;
}

function overBudget(d: Deliberation): Extract<Obstacle, { why: 'over-budget' }> | undefined {
  return obstacles(d.floor, d.at).find((obstacle) => obstacle.why === 'over-budget');
}

function ask(d: Deliberation, facilitator: AgentId, candidates: readonly AgentId[]): void {
  const deadlineAt = d.at + seatOf(d.floor, facilitator).timeoutMs;
  d.record({ type: 'choosingStarted', facilitator, ask: d.floor.asks + 1, deadlineAt, candidates });
}

/** Goes on by round-robin after a facilitator gave no usable answer, or with the one it named; before the history is read, it will be asked again. */
export function chosen(
  d: Deliberation,
  next: AgentId | null,
  why: Extract<Fact, { type: 'choosingEnded' }>['why'],
): void {
  const isTooEarly = gate(d.floor, d.at, 'holder') !== null;
  const usable = next !== null && !isTooEarly && isGrantable(d.floor, next);
  const isOdd = next !== null && !usable;
  d.record({
    type: 'choosingEnded',
    next: usable ? next : null,
    why: isTooEarly ? 'overtaken' : isOdd ? 'named nobody queued' : why,
  });
  const { floor } = d;
  if (gate(floor, d.at, 'next') !== null) return;
  const agent = usable ? next : nextInTurn(floor);
  if (agent === null) advance(d);
  else if (!isOverBudget(d)) grant(d, agent);
}

function callFor(d: Deliberation, message: Held): void {
  const reachable = message.addressed.filter((agent) => findSeat(d.floor, agent)?.status === 'QUEUED');
  for (const agent of reachable) call(d, agent, 'person', message.id);
  if (!policyOf(d.floor).needsName || reachable.length > 0) return;
  const { defaultAgent } = d.floor.settings;
  if (defaultAgent !== null && findSeat(d.floor, defaultAgent)?.status === 'QUEUED')
    call(d, defaultAgent, 'person', message.id);
  else if (d.floor.called.length === 0)
    route(d, message, message.addressed.length > 0 ? 'nobody addressed is available' : 'nobody addressed');
}

function route(d: Deliberation, message: Held, why: string): void {
  d.route(message, { state: 'unrouted', why }, nextLine(d, message));
  d.fresh = d.fresh.filter((fresh) => fresh.id !== message.id);
}

/** The line that a message gets, unless it has one. */
function nextLine(d: Deliberation, { line }: Held): number | null {
  return line === null ? d.floor.lines + 1 : null;
}

/** Nobody is online: what was written is kept for whoever comes back, as far as there is room, and people are told once. */
function unroute(d: Deliberation): void {
  const room = Math.max(0, d.floor.settings.maxHeld - d.floor.held.length);
  const kept = [...d.floor.held.filter((held) => held.until !== 'agent'), ...d.fresh.slice(0, room)];
  for (const message of kept) d.route(message, { state: 'unrouted', why: NOBODY }, null);
  d.fresh = d.fresh.slice(room);
  if (!d.floor.outage) d.announce({ kind: 'nobody' });
  if (d.floor.exchange !== null) d.record({ type: 'exchangeClosed', reason: 'done' });
}
