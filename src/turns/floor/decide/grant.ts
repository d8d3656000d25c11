import type { DecisionBuilder } from './decision-builder.ts';
import { closeExchange, isOverBudget, openExchange, pending, recall } from './exchange.ts';
import { begin, deliver, nextLine, resume } from './turns.ts';
import { NOBODY, isNewFromPerson } from '../evolve.ts';
import type { Fact } from '../fact.ts';
import type { Held } from '../floor.ts';
import { gate, isGrantable, nextInTurn, nextUp, policyOf } from '../gate.ts';
import type { Caller } from '../policies.ts';
import { findSeat, seatOf, waitOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';

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
