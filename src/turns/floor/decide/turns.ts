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

/** Advances a free floor: resumes a turn whose wait is over, else grants the next speaker, else rests. */
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

/** Ends waits for an agent that cannot be granted the floor any more. */
function releaseAskers(decision: DecisionBuilder): void {
  for (const turn of decision.floor.parked) {
    const asked = askOf(turn);
    const status = asked?.is === 'asked' ? findSeat(decision.floor, asked.agent)?.status : 'QUEUED';
    if (status === 'QUEUED' || status === 'ACTIVE' || status === 'WAITING') continue;
    decision.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true });
  }
}

/** Rests the floor after the rounds. Messages that no agent has seen open the next exchange. */
function rest(decision: DecisionBuilder): void {
  const isUnseen = decision.floor.held.some(isObserved);
  closeExchange(decision);
  if (!isUnseen) return;
  wake(decision);
  advance(decision);
}

/** Routes held messages on a free floor, then advances it. */
export function goOn(decision: DecisionBuilder): void {
  if (!decision.floor.stopped) wake(decision);
  advance(decision);
}

/**
 * Routes the messages that wait for a free floor: calls the agents they address, opens or restarts the exchange, and
 * announces when no agent is available. `advance` grants afterwards. Messages that a stop kept stay held; only a later
 * message of a person ends a stop or a limit.
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

/** Whether a person wrote since the stop. Messages that the stop kept do not count. */
function isPersonSince(decision: DecisionBuilder): boolean {
  return (decision.floor.stopped ? decision.unplaced : pending(decision)).some(isNewFromPerson);
}

/** Calls an agent ahead of the queue, unless it is speaking or cannot be granted. */
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

/** Keeps messages for the next agent that comes online, up to the limit, and announces once that none is available. */
function unroute(decision: DecisionBuilder): void {
  const room = Math.max(0, decision.floor.settings.maxHeld - decision.floor.held.length);
  const kept = [...decision.floor.held.filter((held) => held.until !== 'agent'), ...decision.unplaced.slice(0, room)];
  for (const message of kept) decision.route(message, { state: 'unrouted', why: NOBODY }, null);
  decision.unplaced = decision.unplaced.slice(room);
  if (!decision.floor.outage) announceNobody(decision);
  if (decision.floor.exchange !== null) decision.record({ type: 'exchangeClosed', reason: 'done' });
}

/** The most prompts in a turn for messages that could not be injected. */
const MAX_REPROMPTS = 3;

type Act = CommandOf<'say' | 'work' | 'end' | 'wait' | 'use' | 'request' | 'injected'>;

/** Wraps a decider of acts: the act counts only from the holder under its epoch. */
export function byHolder<A extends Act>(
  act: (decision: DecisionBuilder, command: A, turn: Turn) => Refusal | null,
): (decision: DecisionBuilder, command: A) => Refusal | null {
  return (decision, command) => {
    const { turn } = decision.floor;
    const refusal = notHolder(turn, command);
    return refusal !== null || turn === null ? refusal : act(decision, command, turn);
  };
}

/**
 * Why an act does not come from the holder; `null` when it does. A waiting turn may still report injections, and more
 * while its request is open.
 */
function notHolder(turn: Turn | null, { type, agent, epoch }: Act): Refusal | null {
  if (turn === null || turn.agent !== agent) return 'not-holder';
  if (turn.epoch !== epoch) return 'stale-epoch';
  if (turn.status === 'active' || (type === 'say' && isGenerating(turn))) return null;
  return turn.status === 'waiting' && type === 'injected' ? null : 'not-holder';
}

/** Posts a text of the holder. */
export function say(decision: DecisionBuilder, command: CommandOf<'say'>): null {
  const { agent, epoch, text, workedAt = decision.at } = command;
  const line = decision.floor.lines + 1;
  const mentions = command.mentions.filter((other) => findSeat(decision.floor, other) !== undefined);
  const since = workedAt < decision.at ? { workedAt } : {};
  decision.record({ type: 'said', agent, epoch, line, text, mentions, ...since });
  return null;
}

/** The longest that a tool call may stay open on the floor of a ticket without a sign of work, in milliseconds. */
const TICKET_CALL_MS = 1_800_000;

/** Records a sign of work of the holder. */
export function work(decision: DecisionBuilder, { agent, epoch, open, limitMs }: CommandOf<'work'>): null {
  const { turn, task } = decision.floor;
  const isOpened = open > 0 && turn?.status === 'active' && open !== turn.openWork;
  const limit = limitMs ?? (isOpened && task?.kind === 'ticket' ? TICKET_CALL_MS : undefined);
  decision.record({ type: 'worked', agent, epoch, open, ...defined({ limitMs: limit }) });
  return null;
}

/** Applies the outcome of an injection. */
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

/** Whether a message is being injected or in the prompt. A late report may concern a message of the next prompt. */
function isBeingGiven(turn: Turn, { id, outcome }: CommandOf<'injected'>): boolean {
  const messages = outcome === 'no-room' ? turn.given : turn.injecting;
  return messages.some((message) => message.id === id);
}

/** Ends the holder's turn, or prompts it again for messages that could not be injected. */
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

/**
 * Completes a turn for an operator. Its messages count as answered; messages that it never got go to the next agent.
 */
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

/** Whether no other agent is online and the agent has no further turn in this exchange. */
function isAlone(floor: Floor, agent: AgentId): boolean {
  const { rounds } = floor.settings;
  const isDone = rounds !== 0 && seatOf(floor, agent).taken >= rounds;
  if (!isDone) return false;
  return floor.seats.every(({ agent: other, status }) => other === agent || status === 'OFFLINE' || status === 'IDLE');
}

/**
 * Pauses the turn until a person, or the asked agent, answers. A message that could not be injected may be that
 * answer.
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

/** The longest chain of agents that wait for each other's answers. */
const MOST_ASKS = 5;

/** Parks the asking turn and calls the asked agent. Two agents never wait for each other. */
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

/** Records usage, also after the end of the turn. */
export function spend(decision: DecisionBuilder, command: CommandOf<'spend'>): Refusal | null {
  if (findSeat(decision.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros, use } = command;
  decision.record({ type: 'spent', agent, epoch, tokens, costMicros, ...defined({ use }) });
  return null;
}
