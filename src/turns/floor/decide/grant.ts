import type { Deliberation } from './decision-builder.ts';
import { closeExchange, isOverBudget, openExchange, pending, recall } from './exchange.ts';
import { begin, deliver, nextLine, resume } from './turns.ts';
import { NOBODY, isNewFromPerson } from '../evolve/evolve-message.ts';
import type { Fact } from '../fact.ts';
import type { Held } from '../floor.ts';
import { gate } from '../gate.ts';
import { isGrantable, nextInTurn, nextUp, policyOf } from '../order.ts';
import type { Caller } from '../policies.ts';
import { findSeat, seatOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';
import { waitOf } from '../turn.ts';

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
    closeExchange(d);
    return;
  }
  if (isOverBudget(d)) return;
  if (next.kind === 'agent') grant(d, next.agent);
  else askFacilitator(d, next.facilitator, next.candidates);
}

/** The floor is free: serves held messages first, then goes on. */
export function goOn(d: Deliberation): void {
  if (!d.floor.stopped) wake(d);
  advance(d);
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
  openExchange(d, news.some(isNewFromPerson) ? 'person' : asked ? 'operator' : null);
  for (const message of news) prioritiseFor(d, message);
}

/** Whether a person's new word is among what waits; what a stop kept lifts no stop. */
function isPersonSince(d: Deliberation): boolean {
  return (d.floor.stopped ? d.unplaced : pending(d)).some(isNewFromPerson);
}

/** Puts an agent at the head, if it can be granted and is not the one who speaks. */
export function prioritise(d: Deliberation, agent: AgentId, by: Caller, message?: MessageId): void {
  if (!policyOf(d.floor).heeds.includes(by)) return;
  if (findSeat(d.floor, agent)?.status !== 'QUEUED') return;
  d.record({ type: 'prioritised', agent, by, ...(message === undefined ? {} : { message }) });
}

/** Gives the floor to a queued agent, with every message that waits. */
export function grant(d: Deliberation, agent: AgentId): void {
  const asked = d.floor.prioritised.find((named) => named.agent === agent)?.messages ?? [];
  const messages = deliver(d, agent, pending(d));
  begin(d, agent, { messages: [...new Set([...messages, ...asked])], keepsPlace: false });
}

/** Gives the floor for one turn to whoever answers for a paused holder; its place in the queue stays its own. */
export function grantOnBehalf(d: Deliberation, agent: AgentId, messages: readonly MessageId[]): void {
  begin(d, agent, { messages, keepsPlace: true });
}

/** Goes on by round-robin after a facilitator gave no usable answer, or with the one it named; before the history is read, it will be asked again. */
export function facilitatorAnswered(
  d: Deliberation,
  next: AgentId | null,
  why: Extract<Fact, { type: 'facilitatorAnswered' }>['why'],
): void {
  const isTooEarly = gate(d.floor, d.at, 'holder') !== null;
  const usable = next !== null && !isTooEarly && isGrantable(d.floor, next);
  const isOdd = next !== null && !usable;
  d.record({
    type: 'facilitatorAnswered',
    next: usable ? next : null,
    why: isTooEarly ? 'overtaken' : isOdd ? 'named nobody queued' : why,
  });
  const { floor } = d;
  if (gate(floor, d.at, 'next') !== null) return;
  const agent = usable ? next : nextInTurn(floor);
  if (agent === null) advance(d);
  else if (!isOverBudget(d)) grant(d, agent);
}

function askFacilitator(d: Deliberation, facilitator: AgentId, candidates: readonly AgentId[]): void {
  const deadlineAt = d.at + seatOf(d.floor, facilitator).timeoutMs;
  d.record({ type: 'facilitatorAsked', facilitator, ask: d.floor.asks + 1, deadlineAt, candidates });
}

function prioritiseFor(d: Deliberation, message: Held): void {
  const reachable = message.addressed.filter((agent) => findSeat(d.floor, agent)?.status === 'QUEUED');
  for (const agent of reachable) prioritise(d, agent, 'person', message.id);
  if (!policyOf(d.floor).needsName || reachable.length > 0) return;
  const { defaultAgent } = d.floor.settings;
  if (defaultAgent !== null && findSeat(d.floor, defaultAgent)?.status === 'QUEUED')
    prioritise(d, defaultAgent, 'person', message.id);
  else if (d.floor.prioritised.length === 0)
    route(d, message, message.addressed.length > 0 ? 'nobody addressed is available' : 'nobody addressed');
}

function route(d: Deliberation, message: Held, why: string): void {
  d.route(message, { state: 'unrouted', why }, nextLine(d, message));
  d.unplaced = d.unplaced.filter((fresh) => fresh.id !== message.id);
}

/** Nobody is online: what was written is kept for whoever comes back, as far as there is room, and people are told once. */
function unroute(d: Deliberation): void {
  const room = Math.max(0, d.floor.settings.maxHeld - d.floor.held.length);
  const kept = [...d.floor.held.filter((held) => held.until !== 'agent'), ...d.unplaced.slice(0, room)];
  for (const message of kept) d.route(message, { state: 'unrouted', why: NOBODY }, null);
  d.unplaced = d.unplaced.slice(room);
  if (!d.floor.outage) d.announce({ kind: 'nobody' });
  if (d.floor.exchange !== null) d.record({ type: 'exchangeClosed', reason: 'done' });
}
