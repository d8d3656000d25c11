import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import {
  announceNobody,
  closeExchange,
  finish,
  grant,
  grantOnBehalf,
  headersOf,
  isObserved,
  isOverBudget,
  nextLine,
  openExchange,
  pending,
  prioritise,
  recall,
  reportAll,
  resume,
} from './decision-builder.ts';
import { isNewFromPerson } from '../evolve.ts';
import type { FactOf, Fate } from '../fact.ts';
import type { Floor, Held, Seat, Turn } from '../floor.ts';
import { gate, NOBODY, OVERFLOW } from '../gate.ts';
import { isGrantable, nextUp, policyOf } from '../next-speaker.ts';
import { askOf, findSeat, findTurn, isGenerating, missedBy, seatOf, speaking, turnsOf, waitOf } from '../seats.ts';
import type { AgentId, MessageId } from '../settings.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * Advances a free floor. Posts reports of background runs. Then resumes a parked turn whose wait is over, grants the
 * floor to the next speaker, asks the facilitator, or closes the exchange.
 */
export function advance(decision: DecisionBuilder): void {
  reportAll(decision);
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

function releaseAskers(decision: DecisionBuilder): void {
  for (const turn of decision.floor.parked) {
    const ask = askOf(turn);
    const status = ask?.is === 'asked' ? findSeat(decision.floor, ask.agent)?.status : 'QUEUED';
    if (status === 'QUEUED' || status === 'ACTIVE' || status === 'WAITING') continue;
    decision.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true });
  }
}

function rest(decision: DecisionBuilder): void {
  const isUnseen = decision.floor.held.some(isObserved);
  closeExchange(decision);
  if (!isUnseen) return;
  wake(decision);
  advance(decision);
}

/** Opens an exchange for held messages, unless the floor is stopped, and advances the floor. */
export function goOn(decision: DecisionBuilder): void {
  if (!decision.floor.stopped) wake(decision);
  advance(decision);
}

/**
 * Opens an exchange for the pending messages, or begins the rounds of the open exchange anew, if the order opens for
 * messages. Calls the agents that the messages name. A new message of a person, or an operator (`isByOperator`), also ends a
 * stop or a reached limit of the exchange; a program's message does not. Without an available agent or a parked
 * turn, the messages become unrouted.
 */
export function wake(decision: DecisionBuilder, isByOperator = false): void {
  if (pending(decision).length === 0) return;
  const { floor, at } = decision;
  const closed = gate(floor, at, isByOperator || isPersonSince(decision) ? 'person' : 'program');
  if (closed !== null && closed.why !== 'nobody-available') return;
  if (closed !== null && floor.parked.length === 0) {
    unroute(decision);
    return;
  }
  recall(decision);
  if (!policyOf(decision.floor).opensForMessages) return;
  const newMessages = pending(decision).filter((message) => message.until !== 'next' && !isObserved(message));
  if (newMessages.length === 0) return;
  openExchange(decision, newMessages.some(isNewFromPerson) ? 'person' : isByOperator ? 'operator' : null);
  for (const message of newMessages) prioritiseFor(decision, message);
}

/** Whether a new message of a person is pending. On a stopped floor, held messages do not count. */
function isPersonSince(decision: DecisionBuilder): boolean {
  return (decision.floor.stopped ? decision.unplaced : pending(decision)).some(isNewFromPerson);
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

function unroute(decision: DecisionBuilder): void {
  const room = Math.max(0, decision.floor.settings.maxHeld - decision.floor.held.length);
  const toHold = [...decision.floor.held.filter((held) => held.until !== 'agent'), ...decision.unplaced.slice(0, room)];
  for (const message of toHold) decision.route(message, { state: 'unrouted', why: NOBODY }, null);
  decision.unplaced = decision.unplaced.slice(room);
  if (!decision.floor.outage) announceNobody(decision);
  if (decision.floor.exchange !== null) decision.record({ type: 'exchangeClosed', reason: 'done' });
}

/** The most times that a turn is prompted again with messages that its agent may lack. */
const MAX_REPROMPTS = 3;

type Act = CommandOf<'say' | 'work' | 'end' | 'wait' | 'use' | 'request' | 'injected'>;

/** Wraps a function that decides acts of agents: refuses acts that do not come from the holder under its epoch. */
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
 * The refusal of an act that does not come from the holder; `null` for none. The agent of a waiting turn may still
 * report injections. It may also say texts while its request is open, unless a restart ended its generation.
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

/**
 * Longest time of open tool calls on the floor of a ticket, in milliseconds, if the agent gives no limit itself. Each
 * call that begins or ends starts the time anew.
 */
const TICKET_CALL_MS = 1_800_000;

/** Records a sign of work of the holder. */
export function work(decision: DecisionBuilder, { agent, epoch, open, limitMs }: CommandOf<'work'>): null {
  const { turn, task } = decision.floor;
  const isOpened = open > 0 && turn?.status === 'active' && open !== turn.openWork;
  const limit = limitMs ?? (isOpened && task?.kind === 'ticket' ? TICKET_CALL_MS : undefined);
  decision.record({ type: 'worked', agent, epoch, open, ...defined({ limitMs: limit }) });
  return null;
}

/**
 * Applies the outcome of an injected message, also of a waiting turn with or without the floor. If that turn waits for
 * a message and its agent did not get the message, ends the wait.
 */
export function injected(decision: DecisionBuilder, command: CommandOf<'injected'>): Refusal | null {
  const { agent, epoch, id, outcome } = command;
  const turn = findTurn(decision.floor, agent);
  const refusal = notHolder(turn, command);
  if (turn === null || refusal !== null) return refusal;
  const observedMessage = decision.floor.held.find((held) => held.id === id && isObserved(held));
  if (observedMessage !== undefined && outcome === 'injected') {
    decision.route(observedMessage, { state: 'delivered', to: [agent], via: 'observe' }, null);
    return null;
  }
  // `no-room` is about a message of the prompt. Other outcomes are about a message that is being injected. A report is
  // refused when the turn does not have the message any more, such as after its deletion.
  const candidates = outcome === 'no-room' ? turn.given : turn.injecting;
  if (!candidates.some((message) => message.id === id)) return 'unknown-message';
  const injectedMessages = outcome === 'injected' ? turn.injecting.filter((message) => message.id === id) : [];
  decision.record({ type: 'injectReported', agent, epoch, id, outcome, ...headersOf(injectedMessages) });
  if (outcome !== 'injected' && waitsForPeople(turn)) endWait(decision, agent, []);
  return null;
}

/**
 * Ends the holder's turn. If the holder may lack some messages, prompts it again with them instead, at most
 * `MAX_REPROMPTS` times a turn.
 */
export function end(decision: DecisionBuilder, command: CommandOf<'end'>, turn: Turn): null {
  const missed = [...turn.unseen, ...turn.injecting];
  const { agent, epoch } = turn;
  if (missed.length > 0 && turn.reprompts < MAX_REPROMPTS) {
    const span = { afterLine: seatOf(decision.floor, agent).seenLine, uptoLine: decision.floor.lines };
    const messages = missed.map(({ id }) => id);
    decision.record({ type: 'turnContinued', agent, epoch, ...span, messages, ...headersOf(missed) });
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

/** Completes a turn for an operator. Messages that the agent got count as answered. */
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

function isAlone(floor: Floor, agent: AgentId): boolean {
  const { rounds } = floor.settings;
  const isDone = rounds !== 0 && seatOf(floor, agent).taken >= rounds;
  if (!isDone) return false;
  return floor.seats.every(({ agent: other, status }) => other === agent || status === 'OFFLINE' || status === 'IDLE');
}

/** Records usage of tokens and money, also after the end of the turn. */
export function spend(decision: DecisionBuilder, command: CommandOf<'spend'>): Refusal | null {
  if (findSeat(decision.floor, command.agent) === undefined) return 'not-seated';
  const { agent, epoch, tokens, costMicros, use } = command;
  decision.record({ type: 'spent', agent, epoch, tokens, costMicros, ...defined({ use }) });
  return null;
}

/** Receives a message of a person or a program. Routes it by the channel's mode (the specification's edge case 3). */
export function receive(decision: DecisionBuilder, command: CommandOf<'receive'>): Refusal | null {
  if (isKnown(decision.floor, command.id)) return 'duplicate';
  const message: Held = {
    id: command.id,
    addressed: command.addressed,
    order: command.order ?? '',
    until: 'turn',
    line: null,
    ...(command.fromProgram === true ? { fromProgram: true as const } : {}),
  };
  if (command.ignore !== undefined) {
    routed(decision, message, { state: 'ignored', rule: command.ignore });
    return null;
  }
  if (gate(decision.floor, decision.at, 'holder') !== null) hold(decision, message, 'start');
  else dispatch(decision, message);
  return null;
}

/**
 * Records that a message was edited or deleted, as a new line of the conversation. Adds no line for a held message
 * outside the conversation, nor for the deletion of a message of an open or ended turn that no agent got. A deleted
 * message that is held is ignored.
 */
export function amend(decision: DecisionBuilder, { type, id }: CommandOf<'edit' | 'delete'>): null {
  const change = type === 'edit' ? 'edited' : 'deleted';
  const isSame = (message: { readonly id: MessageId }): boolean => message.id === id;
  const { floor } = decision;
  const { lines, epoch } = floor;
  const held = floor.held.find(isSame);
  const turn = speaking(floor);
  const missing = turn?.injecting.some(isSame) ? [] : turnsOf(floor).filter((each) => missedBy(each).some(isSame));
  const missed = missing.flatMap(missedBy).find(isSame);
  const isReader = ({ agent, seenLine }: Seat): boolean =>
    missed === undefined || (seenLine >= missed.line && !missing.some((other) => other.agent === agent));
  const isUnread = held === undefined ? missed !== undefined && !floor.seats.some(isReader) : isUnreadHeld(floor, held);
  const line = held?.line === null || (isUnread && change === 'deleted') ? null : lines + 1;
  const holder = line === null || turn === null || !isReader(seatOf(floor, turn.agent)) ? null : turn.agent;
  decision.record({ type: 'messageAmended', id, change, line, holder, epoch });
  if (held !== undefined && change === 'deleted')
    routed(decision, held, { state: 'ignored', rule: 'deleted by its author' });
  return null;
}

/**
 * Whether no agent got a held message of the conversation. False for messages that are not held until a prompt: an agent
 * may have got them, and the line of a returned message can be later than the last line that its reader knows.
 */
function isUnreadHeld({ seats }: Floor, { until, line }: Held): boolean {
  return until === 'prompt' && line !== null && seats.every(({ seenLine }) => seenLine < line);
}

/** Routes a message by the channel's mode. Holds a message that cannot be delivered now. */
export function dispatch(decision: DecisionBuilder, message: Held): void {
  const { turn, parked } = decision.floor;
  if (answersParked(decision, message)) return;
  const isForAsker = parked.some((asker) => askOf(asker) && message.addressed.includes(asker.agent));
  if (turn !== null && isForAsker) hold(decision, message, 'prompt');
  else if (turn !== null) toHolder(decision, turn, message);
  else {
    decision.unplaced = [...decision.unplaced, message];
    wake(decision);
    advance(decision);
  }
  settleUnplaced(decision);
}

function settleUnplaced(decision: DecisionBuilder): void {
  for (const message of decision.unplaced)
    hold(decision, message, decision.floor.settings.mode === 'queue' ? 'turn' : 'prompt');
  decision.unplaced = [];
}

/**
 * Continues after an interrupted generation has stopped, or its grace is over. If the setting `interruptResponder`
 * names an agent that can be granted the floor, that agent answers the message first, and the interrupted turn waits
 * without the floor. Else the interrupted turn resumes with the message. Does nothing before the history is read.
 */
export function afterInterrupt(decision: DecisionBuilder, turn: Turn): void {
  const answers = waitOf(turn)?.answers ?? [];
  const responder = decision.floor.settings.interruptResponder;
  if (gate(decision.floor, decision.at, 'holder') !== null) return;
  if (
    responder === null ||
    answers.length === 0 ||
    gate(decision.floor, decision.at, 'grant') !== null ||
    !isGrantable(decision.floor, responder)
  ) {
    resume(decision, turn, 'interrupt');
    return;
  }
  decision.record({ type: 'waitAnswered', agent: turn.agent, messages: [], ready: true, parked: true });
  reportAll(decision);
  grantOnBehalf(decision, responder, answers);
}

function overflow(decision: DecisionBuilder, message: Held): void {
  routed(decision, message, { state: 'unrouted', why: OVERFLOW });
  const { notice, held, settings } = decision.floor;
  if (notice?.key !== 'limit:held messages')
    decision.announce({ kind: 'limit', budget: 'held messages', used: held.length, max: settings.maxHeld });
}

function toHolder(decision: DecisionBuilder, turn: Turn, message: Held): void {
  const { mode } = decision.floor.settings;
  if (message.fromProgram === true && gate(decision.floor, decision.at, 'aside') !== null) {
    hold(decision, message, mode === 'queue' ? 'turn' : 'prompt');
    return;
  }
  if (waitOf(turn)?.reason === 'answer' && isAnswer(decision.floor, turn, message)) {
    deliverAnswer(decision, turn, message);
    return;
  }
  if (mode === 'queue') hold(decision, message, 'turn');
  else if (mode === 'parallel') observe(decision, message);
  else if (turn.status === 'suspended' || isFull(decision.floor, turn)) hold(decision, message, 'prompt');
  else if (turn.status === 'waiting') joinWait(decision, turn, message);
  else if (mode === 'inject') inject(decision, turn, message);
  else preempt(decision, turn, message);
}

function isFull({ settings }: Floor, turn: Turn): boolean {
  return missedBy(turn).length + turn.given.length >= 2 * settings.maxHeld;
}

function inject(decision: DecisionBuilder, turn: Turn, message: Held): void {
  recount(decision, message);
  routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'inject' });
}

function preempt(decision: DecisionBuilder, turn: Turn, message: Held): void {
  recount(decision, message);
  const { agent, epoch } = turn;
  const { waitTimeoutMs, interruptGraceMs } = decision.floor.settings;
  decision.record({
    type: 'turnWaited',
    agent,
    epoch,
    wait: { reason: 'human', deadlineAt: decision.at + waitTimeoutMs, graceEndAt: decision.at + interruptGraceMs },
  });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'PREEMPTED' });
  routed(decision, message, { state: 'delivered', to: [agent], via: 'interrupt' });
}

function joinWait(decision: DecisionBuilder, turn: Turn, message: Held): void {
  if (waitOf(turn)?.reason !== 'human') return hold(decision, message, 'prompt');
  recount(decision, message);
  routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'interrupt' });
}

function observe(decision: DecisionBuilder, message: Held): void {
  recount(decision, message);
  hold(decision, message, 'exchange');
}

function isAnswer(floor: Floor, turn: Turn, message: Held): boolean {
  if (message.addressed.length > 0) return message.addressed.includes(turn.agent);
  return turnsOf(floor).filter(waitsForPeople).length === 1;
}

function waitsForPeople(turn: Turn): boolean {
  const open = waitOf(turn);
  return open?.reason === 'answer' && open.of === undefined && !open.ready;
}

function deliverAnswer(decision: DecisionBuilder, turn: Turn, message: Held): void {
  const answers = waitOf(turn)?.answers ?? [];
  if (answers.length >= decision.floor.settings.maxHeld) return hold(decision, message, 'prompt');
  recount(decision, message);
  routed(decision, message, { state: 'delivered', to: [turn.agent], via: 'prompt' });
  const { id, addressed, fromProgram } = message;
  const answer = { id, line: decision.floor.lines, addressed, ...defined({ fromProgram }) };
  endWait(decision, turn.agent, [...answers, answer]);
}

function endWait(decision: DecisionBuilder, agent: AgentId, messages: FactOf<'waitAnswered'>['messages']): void {
  decision.record({ type: 'waitAnswered', agent, messages, ready: true });
  const { floor, at } = decision;
  if (floor.turn?.agent !== agent) advance(decision);
  else if (seatOf(floor, agent).present && gate(floor, at, 'holder') === null) resume(decision, floor.turn, 'answered');
}

function answersParked(decision: DecisionBuilder, message: Held): boolean {
  if (message.fromProgram === true && gate(decision.floor, decision.at, 'aside') !== null) return false;
  const isFloorTaken = decision.floor.turn !== null;
  const turn = decision.floor.parked.find(
    (parked) =>
      waitsForPeople(parked) &&
      (isFloorTaken ? message.addressed.includes(parked.agent) : isAnswer(decision.floor, parked, message)),
  );
  if (turn === undefined) return false;
  deliverAnswer(decision, turn, message);
  return true;
}

function recount(decision: DecisionBuilder, message: Held): void {
  if (decision.floor.exchange !== null && isNewFromPerson(message))
    decision.record({ type: 'usageReset', why: 'person' });
}

function hold(decision: DecisionBuilder, message: Held, until: 'turn' | 'prompt' | 'exchange' | 'start'): void {
  const { held, settings } = decision.floor;
  if (held.length >= settings.maxHeld && !held.some((other) => other.id === message.id)) overflow(decision, message);
  else routed(decision, message, { state: 'held', until });
}

function routed(decision: DecisionBuilder, message: Held, fate: Fate): void {
  const isShown = fate.state === 'delivered' || (fate.state === 'held' && fate.until === 'exchange');
  decision.route(message, fate, isShown ? nextLine(decision, message) : null);
}

function isKnown(floor: Floor, id: MessageId): boolean {
  const turnMessages = turnsOf(floor).flatMap((turn) => [...missedBy(turn), ...turn.given]);
  return (
    [...floor.held, ...turnMessages].some((message) => message.id === id) ||
    turnsOf(floor).some((turn) => turn.answered.includes(id))
  );
}
