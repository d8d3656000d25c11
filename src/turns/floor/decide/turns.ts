import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import {
  announceNobody,
  closeExchange,
  finish,
  grant,
  isObserved,
  isOverBudget,
  nextLine,
  openExchange,
  pending,
  recall,
  resume,
} from './decision-builder.ts';
import { isNewFromPerson } from '../evolve.ts';
import type { FactOf } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import { gate, nextUp, NOBODY, policyOf } from '../gate.ts';
import type { Caller } from '../policies.ts';
import { askOf, findSeat, findTurn, isGenerating, seatOf, turnOf, waitOf } from '../seats.ts';
import type { AgentId } from '../settings.ts';
import { defined } from '../../../lib/defined.ts';

/** Lets the floor go on: to a turn whose wait is over, else to the next speaker, else to rest. Does nothing while somebody has it. */
export function advance(decision: DecisionBuilder): void {
  releaseAskers(decision);
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
    rest(decision);
    return;
  }
  if (isOverBudget(decision)) return;
  if (next.kind === 'agent') grant(decision, next.agent);
  else askFacilitator(decision, next.facilitator, next.candidates);
}

/** Whoever asked an agent that cannot have the floor any more goes on without its answer. */
function releaseAskers(decision: DecisionBuilder): void {
  for (const turn of decision.floor.parked) {
    const asked = askOf(turn);
    const status = asked?.is === 'asked' ? findSeat(decision.floor, asked.agent)?.status : 'QUEUED';
    if (status === 'QUEUED' || status === 'ACTIVE' || status === 'WAITING') continue;
    decision.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true });
  }
}

/** Everybody had a turn; what none of them has seen opens the next exchange. */
function rest(decision: DecisionBuilder): void {
  const isUnseen = decision.floor.held.some(isObserved);
  closeExchange(decision);
  if (!isUnseen) return;
  wake(decision);
  advance(decision);
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
  if (pending(decision).length === 0) return;
  const { floor, at } = decision;
  const closed = gate(floor, at, asked || isPersonSince(decision) ? 'person' : 'program');
  if (closed !== null && closed.why !== 'nobody-available') return;
  if (closed !== null && floor.parked.length === 0) {
    unroute(decision);
    return;
  }
  recall(decision);
  if (!policyOf(decision.floor).opensForMessages) return;
  const news = pending(decision).filter((message) => message.until !== 'next' && !isObserved(message));
  if (news.length === 0) return;
  openExchange(decision, news.some(isNewFromPerson) ? 'person' : asked ? 'operator' : null);
  for (const message of news) prioritiseFor(decision, message);
}

/** Whether a person's new word is among what waits; what a stop kept lifts no stop. */
function isPersonSince(decision: DecisionBuilder): boolean {
  return (decision.floor.stopped ? decision.unplaced : pending(decision)).some(isNewFromPerson);
}

/** Puts an agent at the head, if it can be granted and is not the one who speaks. */
export function prioritise(
  decision: DecisionBuilder,
  agent: AgentId,
  by: Caller,
  why: Pick<FactOf<'prioritised'>, 'message' | 'feedback'> = {},
): void {
  if (!policyOf(decision.floor).heeds.includes(by)) return;
  if (findSeat(decision.floor, agent)?.status !== 'QUEUED') return;
  decision.record({ type: 'prioritised', agent, by, ...why });
}

function askFacilitator(decision: DecisionBuilder, facilitator: AgentId, candidates: readonly AgentId[]): void {
  const deadlineAt = decision.at + seatOf(decision.floor, facilitator).timeoutMs;
  decision.record({ type: 'facilitatorAsked', facilitator, ask: decision.floor.asks + 1, deadlineAt, candidates });
}

function prioritiseFor(decision: DecisionBuilder, message: Held): void {
  const reachable = message.addressed.filter((agent) => findSeat(decision.floor, agent)?.status === 'QUEUED');
  for (const agent of reachable) prioritise(decision, agent, 'person', { message: message.id });
  if (!policyOf(decision.floor).needsName || reachable.length > 0) return;
  const { defaultAgent } = decision.floor.settings;
  if (defaultAgent !== null && findSeat(decision.floor, defaultAgent)?.status === 'QUEUED')
    prioritise(decision, defaultAgent, 'person', { message: message.id });
  else if (decision.floor.prioritised.length === 0)
    route(decision, message, message.addressed.length > 0 ? 'nobody addressed is available' : 'nobody addressed');
}

function route(decision: DecisionBuilder, message: Held, why: string): void {
  decision.route(message, { state: 'unrouted', why }, nextLine(decision, message));
  decision.unplaced = decision.unplaced.filter((fresh) => fresh.id !== message.id);
  const first = decision.floor.queue[0] ?? decision.floor.seats[0]?.agent;
  if (decision.floor.toldToName !== true && first !== undefined)
    decision.announce({ kind: 'unaddressed', named: [...message.addressed], example: first });
}

/** Nobody is online: what was written is kept for whoever comes back, as far as there is room, and people are told once. */
function unroute(decision: DecisionBuilder): void {
  const room = Math.max(0, decision.floor.settings.maxHeld - decision.floor.held.length);
  const kept = [...decision.floor.held.filter((held) => held.until !== 'agent'), ...decision.unplaced.slice(0, room)];
  for (const message of kept) decision.route(message, { state: 'unrouted', why: NOBODY }, null);
  decision.unplaced = decision.unplaced.slice(room);
  if (!decision.floor.outage) announceNobody(decision);
  if (decision.floor.exchange !== null) decision.record({ type: 'exchangeClosed', reason: 'done' });
}

/** How often a turn goes on for messages that could not be injected. */
const MAX_REPROMPTS = 3;

type Act = CommandOf<'say' | 'work' | 'end' | 'wait' | 'use' | 'request' | 'injected'>;

/** An act that counts only when it comes from the holder, under its epoch. */
export function byHolder<A extends Act>(
  act: (decision: DecisionBuilder, command: A, turn: Turn) => Refusal | null,
): (decision: DecisionBuilder, command: A) => Refusal | null {
  return (decision, command) => {
    const { turn } = decision.floor;
    const refusal = notHolder(turn, command);
    return refusal !== null || turn === null ? refusal : act(decision, command, turn);
  };
}

/** While a turn waits its generation stands still or is over, unless it asks people something; what it took in before that may be told later. */
function notHolder(turn: Turn | null, { type, agent, epoch }: Act): Refusal | null {
  if (turn === null || turn.agent !== agent) return 'not-holder';
  if (turn.epoch !== epoch) return 'stale-epoch';
  if (turn.status === 'active' || (type === 'say' && isGenerating(turn))) return null;
  return turn.status === 'waiting' && type === 'injected' ? null : 'not-holder';
}

/** The holder says something: it is posted. */
export function say(decision: DecisionBuilder, command: CommandOf<'say'>): null {
  const { agent, epoch, text, workedAt = decision.at } = command;
  const line = decision.floor.lines + 1;
  const mentions = seated(decision.floor, command.mentions);
  const since = workedAt < decision.at ? { workedAt } : {};
  decision.record({ type: 'said', agent, epoch, line, text, mentions, ...since });
  return null;
}

/** The holder gives a sign of work. */
export function work(decision: DecisionBuilder, { agent, epoch, open, limitMs }: CommandOf<'work'>): null {
  const limit = defined({ limitMs });
  decision.record({ type: 'worked', agent, epoch, open, ...limit });
  return null;
}

/** The truth about a message on its way into the holder's generation. */
export function injected(decision: DecisionBuilder, command: CommandOf<'injected'>, turn: Turn): Refusal | null {
  const { agent, epoch, id, outcome } = command;
  const seen = decision.floor.held.find((held) => held.id === id && isObserved(held));
  if (seen !== undefined && outcome === 'injected') {
    decision.route(seen, { state: 'delivered', to: [agent], via: 'observe' }, null);
    return null;
  }
  if (!isBeingGiven(turn, command)) return 'unknown-message';
  decision.record({ type: 'injectReported', agent, epoch, id, outcome });
  return null;
}

/** On its way into the generation, or in its prompt. An injection that is reported late may be in the next prompt already. */
function isBeingGiven(turn: Turn, { id, outcome }: CommandOf<'injected'>): boolean {
  const messages = outcome === 'no-room' ? turn.given : turn.injecting;
  return messages.some((message) => message.id === id);
}

/** The holder is done; it goes on if there is a message that it could not take. */
export function end(decision: DecisionBuilder, command: CommandOf<'end'>, turn: Turn): null {
  const missed = [...turn.unseen, ...turn.injecting].map(({ id }) => id);
  const { agent, epoch } = turn;
  if (missed.length > 0 && turn.reprompts < MAX_REPROMPTS) {
    const { lines } = decision.floor;
    const { seenLine } = seatOf(decision.floor, agent);
    decision.record({ type: 'turnContinued', agent, epoch, afterLine: seenLine, uptoLine: lines, messages: missed });
    return null;
  }
  const { outcome, signalled } = command;
  finish(decision, turn, {
    outcome,
    signalled,
    trigger: 'TURN_COMPLETE',
    to: isAlone(decision.floor, agent) ? 'IDLE' : 'QUEUED',
  });
  const nextOnes = command.handTo === undefined ? turn.mentions : [command.handTo, ...turn.mentions];
  for (const other of new Set(nextOnes)) if (other !== agent) prioritise(decision, other, 'agent');
  goOn(decision);
  return null;
}

/** An operator has a turn end with what is there. Everything that it was given is answered; what it never got goes to the next. */
export function completeTurn(decision: DecisionBuilder, command: CommandOf<'completeTurn'>): Refusal | null {
  const { agent, epoch, by } = command;
  const turn = findTurn(decision.floor, agent);
  if (turn === null) return 'not-holder';
  if (epoch !== turn.epoch) return 'stale-epoch';
  const isSpeaking = seatOf(decision.floor, agent).status === 'ACTIVE';
  finish(decision, turn, {
    outcome: 'completed',
    trigger: isSpeaking ? 'TURN_COMPLETE' : 'SKIPPED',
    to: isSpeaking && isAlone(decision.floor, agent) ? 'IDLE' : 'QUEUED',
    by,
  });
  for (const next of turn.mentions.filter((other) => other !== agent)) prioritise(decision, next, 'agent');
  goOn(decision);
  return null;
}

/** Nobody else is online in the channel, and the exchange owes this agent no further turn. */
function isAlone(floor: Floor, agent: AgentId): boolean {
  const { rounds } = floor.settings;
  const isDone = rounds !== 0 && seatOf(floor, agent).taken >= rounds;
  const others = floor.seats.filter((seat) => seat.agent !== agent);
  return isDone && others.every((seat) => seat.status === 'OFFLINE' || seat.status === 'IDLE');
}

/**
 * The turn stands still until it is answered, by a person or by the agent that it asks; a message that its agent could not
 * take may be a person's answer already.
 */
export function wait(decision: DecisionBuilder, { of }: CommandOf<'wait'>, turn: Turn): Refusal | null {
  if (of !== undefined) return ask(decision, turn, of);
  const { agent, epoch } = turn;
  const { waitTimeoutMs, waitPolicy } = decision.floor.settings;
  const isAnswered = turn.unseen.length > 0;
  const goesOn = isAnswered && gate(decision.floor, decision.at, 'holder') === null;
  const parked = waitPolicy === 'release' && !goesOn ? { parked: true as const } : {};
  const until = { reason: 'answer', deadlineAt: decision.at + waitTimeoutMs } as const;
  decision.record({ type: 'turnWaited', agent, epoch, wait: until, ...parked });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (goesOn) resume(decision, turnOf(decision.floor, agent), 'answered');
  else if (isAnswered) decision.record({ type: 'waitAnswered', agent, messages: [], ready: true });
  if (decision.floor.turn === null) goOn(decision);
  return null;
}

/** How many agents may wait for one another's answers in a row. */
const MOST_ASKS = 5;

/** The agent asked has the floor for a turn, the one that asks lends it meanwhile; two never wait for each other. */
function ask(decision: DecisionBuilder, { agent, epoch }: Turn, of: AgentId): Refusal | null {
  const { parked, settings } = decision.floor;
  const askers = parked.filter((turn) => askOf(turn) !== null);
  const seat = findSeat(decision.floor, of);
  if (seat === undefined || of === agent) return 'not-seated';
  if (askers.some((turn) => turn.agent === of)) return 'asks-back';
  if (seat.status === 'OFFLINE' || (seat.status === 'QUEUED' && !seat.present)) return 'offline';
  if (seat.status !== 'QUEUED') return 'not-queued';
  if (askers.length >= MOST_ASKS) return 'asks-too-deep';
  const until = { reason: 'answer', deadlineAt: decision.at + settings.waitTimeoutMs, of } as const;
  decision.record({ type: 'turnWaited', agent, epoch, wait: until, parked: true });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  goOn(decision);
  return null;
}

/** What was used counts, also when the turn is over. */
export function spend(decision: DecisionBuilder, command: CommandOf<'spend'>): Refusal | null {
  if (findSeat(decision.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros, use } = command;
  decision.record({ type: 'spent', agent, epoch, tokens, costMicros, ...defined({ use }) });
  return null;
}

function seated(floor: Floor, agents: readonly AgentId[]): readonly AgentId[] {
  return agents.filter((agent) => findSeat(floor, agent) !== undefined);
}
