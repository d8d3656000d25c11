import type { Refusal } from '../refusals.ts';
import { compareOrder, evolve, isNewFromPerson } from '../evolve.ts';
import { OUTAGE, announcementKey, isAnnounced } from '../announcement.ts';
import type { Announcement } from '../announcement.ts';
import type { Fact, FactOf, Fate, Outcome } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import type { AgentId, Feedback, MessageId, Question } from '../settings.ts';
import { findSeat, missedBy, seatOf, speaking, turnOf, unclaimed, waitOf } from '../seats.ts';
import type { Trigger } from '../seats.ts';
import type { Instant } from '../../../lib/time.ts';
import { gate } from '../gate.ts';
import { askerOf, policyOf } from '../next-speaker.ts';
import type { Caller } from '../policies.ts';
import { defined } from '../../../lib/defined.ts';

type Accepted = { readonly ok: true; readonly facts: readonly Fact[]; readonly floor: Floor };
/** A refused command. `facts` holds at most the record of the refusal. */
export type Refused = { readonly ok: false; readonly refusal: Refusal; readonly facts: readonly Fact[] };
export type Decision = Accepted | Refused;

/** Builds one decision. Each recorded fact is applied at once, so the next step sees the changed floor. */
export class DecisionBuilder {
  readonly at: Instant;
  readonly facts: Fact[] = [];
  /**
   * Messages that this command routes and that no agent got yet. At its end, `dispatch` holds those left, if there is
   * room.
   */
  unplaced: readonly Held[] = [];
  /** The floor after the facts so far. Only `record` changes it. */
  floor: Floor;

  constructor(floor: Floor, at: Instant) {
    this.floor = floor;
    this.at = at;
  }

  record(fact: Fact): void {
    this.floor = evolve(this.floor, fact, this.at);
    this.facts.push(fact);
  }

  /** Records the fate of a message. `line`: the message's line, if it joins the conversation now; else `null`. */
  route(message: Held, fate: Fate, line: number | null): void {
    const { id, addressed, order, fromProgram } = message;
    const turn = speaking(this.floor);
    const holder = turn === null ? null : { agent: turn.agent, epoch: turn.epoch };
    const isPrompt = fate.state === 'delivered' && fate.via === 'prompt';
    const opening = isPrompt && this.unplaced.some((fresh) => fresh.id === id) ? ({ opens: true } as const) : {};
    this.record({
      type: 'messageRouted',
      id,
      fate,
      line,
      addressed,
      order,
      ...defined({ fromProgram }),
      ...opening,
      holder,
    });
    const isShownToAgent =
      fate.state === 'held' ? fate.until === 'exchange' : fate.state === 'delivered' && fate.via !== 'observe';
    const to = fate.state === 'delivered' ? fate.to : [];
    for (const agent of isShownToAgent && message.until !== 'next' ? addressed : [])
      if (!to.includes(agent) && !isCalledFor(this.floor, agent, id))
        prioritise(this, agent, 'person', { message: id });
  }

  /**
   * Announces an event. Edits the channel's last announcement if both have the same key and no line of the conversation
   * came between. Decisions, requests of restarted agents, and lines about tickets with `goesOn` always count as
   * repetitions of their earlier announcement. `recovered` edits only the earlier one of the same turn. `gap` edits
   * only one that is less than `SAME_OUTAGE_MS` old. A repeated long request edits nothing.
   */
  announce(announcement: Announcement): void {
    const key = announcementKey(announcement);
    const { notice, settings } = this.floor;
    const same = notice?.key === key ? notice.count : 0;
    const repeat = 1 + (this.#earlier(announcement) ?? same);
    this.record({ type: 'announced', announcement, key, repeat, shown: isAnnounced(announcement, settings) });
  }

  #earlier(announcement: Announcement): number | null {
    switch (announcement.kind) {
      case 'answered':
      case 'trustAnswered':
        return 1;
      case 'approval':
        return announcement.restarted === true ? 1 : null;
      case 'recovered':
        return turnOf(this.floor, announcement.agent).recovered ?? 0;
      case 'ticket':
        return announcement.goesOn === true ? 1 : null;
      case 'gap': {
        const { gap } = this.floor;
        return gap === undefined || this.at - gap.at >= SAME_OUTAGE_MS ? 0 : gap.count;
      }
      default:
        return null;
    }
  }
}

/** Calls an agent ahead of the queue, if it is queued and the order heeds the caller. */
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

function isCalledFor({ prioritised }: Floor, agent: AgentId, id: MessageId): boolean {
  return prioritised.some((call) => call.agent === agent && call.messages.includes(id));
}

/** Gaps in the history that are less than this time apart belong to one outage, in milliseconds. */
const SAME_OUTAGE_MS = 600_000;

/**
 * Announces that an agent was lost mid-turn, so that its turn ended. Agents lost in a row, with no line of the
 * conversation or other new announcement between, share one announcement.
 */
export function announceLoss(decision: DecisionBuilder, agent: AgentId, cause: string): void {
  const also = lostBefore(decision.floor).filter((other) => other !== agent);
  decision.announce({ kind: 'disconnect', agent, cause, ...(also.length === 0 ? {} : { also }) });
}

/** Announces that no agent is available; with the reason, if this decision's last announcement was of a lost agent. */
export function announceNobody(decision: DecisionBuilder): void {
  const loss = decision.facts.findLast((fact) => fact.type === 'announced')?.announcement;
  if (loss?.kind !== 'disconnect') return decision.announce({ kind: 'nobody' });
  const agents = [...(loss.also ?? []), loss.agent];
  decision.announce({ kind: 'nobody', lost: { agents, cause: loss.cause } });
}

function lostBefore({ notice }: Floor): readonly AgentId[] {
  return notice?.key === OUTAGE ? (notice.lost ?? []) : [];
}

/** The held messages and those of `decision.unplaced`, sorted by the platform's sort keys. */
export function pending(decision: DecisionBuilder): readonly Held[] {
  if (decision.floor.held.length === 0 && decision.unplaced.length < 2) return decision.unplaced;
  const held = decision.floor.held.filter((message) => !decision.unplaced.some((fresh) => fresh.id === message.id));
  return [...held, ...decision.unplaced].sort((a, b) => compareOrder(a.order, b.order));
}

/** Opens an exchange, or begins the rounds of the open exchange anew. If `renews` is not `null`, also resets usage. */
export function openExchange(decision: DecisionBuilder, renews: 'person' | 'operator' | null): void {
  dropFacilitation(decision);
  const limited = doesLimitStay(decision, renews) ? { limited: true as const } : {};
  if (renews !== null) decision.record({ type: 'usageReset', why: renews });
  decision.record({ type: 'exchangeOpened', ...limited });
}

function doesLimitStay({ floor: { limit }, at }: DecisionBuilder, renews: 'person' | 'operator' | null): boolean {
  if (limit === null || renews === 'operator') return false;
  return limit.until === null ? renews === null : at < limit.until;
}

/** Withdraws the question to the facilitator, if one is open. */
export function dropFacilitation(decision: DecisionBuilder): void {
  if (decision.floor.facilitation !== null)
    decision.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
}

/** Queues agents that are IDLE because they were alone (the specification's "or IDLE if solo"). */
export function recall(decision: DecisionBuilder): void {
  for (const seat of decision.floor.seats) {
    if (seat.status === 'IDLE' && seat.assigned) {
      decision.record({ type: 'seatMoved', agent: seat.agent, from: 'IDLE', to: 'QUEUED', trigger: 'RECALLED' });
    }
  }
}

/** Closes the exchange. The reason is `silent` when nothing was said in a whole round, else `done`. */
export function closeExchange(decision: DecisionBuilder): void {
  const { exchange, queue } = decision.floor;
  const silent = exchange !== null && exchange.silent > 0 && exchange.silent >= queue.length;
  decision.record({ type: 'exchangeClosed', reason: silent ? 'silent' : 'done' });
}

/**
 * Returns whether a budget forbids another turn. If so, closes the exchange, and announces the limit unless it was
 * reached before. A pending new message of a person first resets the usage of the exchange, so that only the budget of
 * a day can forbid the turn.
 */
export function isOverBudget(decision: DecisionBuilder): boolean {
  let over = gate(decision.floor, decision.at, 'turn');
  if (over !== null && untilOf(over) === null && pending(decision).some(isNewFromPerson)) {
    openExchange(decision, 'person');
    over = gate(decision.floor, decision.at, 'turn');
  }
  if (over === null) return false;
  const { budget } = over.why === 'over-budget' ? over.limit : over;
  decision.record({ type: 'exchangeClosed', reason: 'limit', budget, until: untilOf(over) });
  if (over.why === 'over-budget') decision.announce({ kind: 'limit', ...over.limit });
  return true;
}

function untilOf(over: NonNullable<ReturnType<typeof gate<'turn'>>>): Instant | null {
  return over.why === 'limit' ? null : over.until;
}

/**
 * Grants the floor to a queued agent with all pending messages. An agent that another agent asked keeps its place in
 * the queue.
 */
export function grant(decision: DecisionBuilder, agent: AgentId, feedback?: Feedback): void {
  const askedBy = askerOf(decision.floor, agent);
  const { messages: calledMessages = [], feedback: earlier } =
    decision.floor.prioritised.find((named) => named.agent === agent) ?? {};
  const ready = pending(decision);
  const messages = deliver(decision, agent, ready, calledMessages);
  const all = calledMessages.length === 0 ? messages : [...new Set([...messages, ...calledMessages])];
  const isForTask = askedBy === undefined && decision.floor.task?.next?.agent === agent;
  begin(decision, agent, {
    messages: all,
    ...headersOf([...ready, ...calledMessages.map((id) => ({ id, addressed: [agent] }))]),
    keepsPlace: askedBy !== undefined,
    ...defined({ askedBy, feedback: feedback ?? earlier }),
    ...(isForTask ? { forTask: true as const } : {}),
  });
}

/**
 * Grants one turn to the agent that answers messages for an interrupted holder. The agent keeps its place in the queue.
 * The turn is also the answer to another agent that asked this agent.
 */
export function grantOnBehalf(decision: DecisionBuilder, agent: AgentId, messages: Turn['unseen']): void {
  begin(decision, agent, {
    messages: messages.map(({ id }) => id),
    ...headersOf(messages),
    keepsPlace: true,
    ...defined({ askedBy: askerOf(decision.floor, agent) }),
  });
}

/** For a fact that gives messages to an agent: those messages that name agents or that programs wrote. */
export function headersOf(
  messages: readonly Pick<Held, 'id' | 'addressed' | 'fromProgram'>[],
): Pick<FactOf<'turnGranted'>, 'headers'> {
  const headers = messages
    .filter(({ addressed, fromProgram }) => addressed.length > 0 || fromProgram === true)
    .map(({ id, addressed, fromProgram }) => ({ id, addressed, ...defined({ fromProgram }) }));
  return headers.length === 0 ? {} : { headers };
}

/**
 * Resumes a turn under a new epoch, with its unanswered messages and the held ones. Messages that are held until a turn
 * is granted stay held.
 */
export function resume(
  decision: DecisionBuilder,
  turn: Turn,
  why: FactOf<'turnResumed'>['why'],
  trigger: Trigger = 'WAIT_RESOLVED',
): void {
  const { agent } = turn;
  const ready = pending(decision).filter((message) => message.until !== 'turn');
  const missed = missedBy(turn);
  const isAnswer = why === 'answered' || why === 'interrupt';
  const isAnsweredByPrograms = missed.length > 0 && missed.every(({ fromProgram }) => fromProgram === true);
  const askedAgent = answerOf(turn);
  const isProgram =
    isAnswer && (isAnsweredByPrograms || (askedAgent !== null && missed.length === 0)) && !ready.some(isNewFromPerson);
  const isNews = ready.some(isNewFromPerson) || decision.facts.some(isWord);
  if (decision.floor.exchange === null) openExchange(decision, why === 'operator' ? why : isNews ? 'person' : null);
  const unanswered = turn.given.map(({ id }) => id);
  const messages = [...new Set([...unanswered, ...missed.map(({ id }) => id), ...deliver(decision, agent, ready)])];
  const { seenLine, status } = seatOf(decision.floor, agent);
  const span = { afterLine: seenLine, uptoLine: decision.floor.lines };
  const wait = waitOf(turn);
  const decided = wait?.reason === 'approval' && wait.decided !== undefined ? { decided: wait.decided } : {};
  const marks = {
    ...(askedAgent === null ? {} : { asked: askedAgent }),
    ...decided,
    ...headersOf([...missed, ...ready]),
    ...(isProgram ? { fromProgram: true as const } : {}),
  };
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnResumed', agent, epoch, ...span, messages, open: unanswered, why, ...marks });
  if (status === 'WAITING') decision.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger });
}

type TurnEnd = {
  readonly outcome: Outcome;
  readonly trigger: Trigger;
  readonly to: 'QUEUED' | 'IDLE' | 'OFFLINE';
  readonly signalled?: boolean;
  readonly cause?: string;
  /** The failure of the agent's session. `cause` has the words. */
  readonly error?: { readonly code: string; readonly recoverable: boolean };
  readonly hung?: boolean;
  readonly by?: string;
};

/**
 * Ends a turn. Messages are held again if the turn's agent did not get them. So are messages that it got and said
 * nothing after, unless they count as answered.
 */
export function finish(decision: DecisionBuilder, turn: Turn, end: TurnEnd): void {
  const { agent, epoch, said } = turn;
  const from = seatOf(decision.floor, agent).status;
  const { outcome, trigger, to, cause } = end;
  const wait = waitOf(turn);
  if (wait?.reason === 'approval' && !wait.ready) {
    tellAnswer(decision, wait.question, { agent, choice: null, by: null });
  }
  const { held } = decision.floor;
  const answered = [
    ...turn.answered,
    ...turn.given.filter((message) => isAnswered(message, outcome)).map(({ id }) => id),
  ];
  const returned = unclaimed(decision.floor, turn).filter((id) => !answered.includes(id));
  const cut = turn.given.filter(({ id, begun }) => begun && !answered.includes(id)).map(({ id }) => id);
  decision.record({
    type: 'turnEnded',
    agent,
    epoch,
    outcome,
    signalled: end.signalled ?? false,
    said,
    answered,
    returned,
    ...defined({ by: end.by }),
    ...(cut.length === 0 ? {} : { cut }),
    ...(outcome === 'forfeited' && !said && !failsForEver(decision.floor) ? { uncounted: true as const } : {}),
    ...(end.hung === true ? { hung: true as const } : {}),
  });
  if (turn.run !== undefined) {
    const { code = 'AGENT_EXECUTION_ERROR', recoverable = true } = end.error ?? {};
    const error = cause === undefined ? {} : { error: { code, message: cause, recoverable } };
    const result = defined({ result: turn.words });
    decision.record({ type: 'runLeft', agent, epoch, outcome, ...result, ...error });
  }
  for (const message of decision.floor.held)
    if (!held.some(({ id }) => id === message.id))
      decision.route(message, { state: 'held', until: message.until }, null);
  const place = to === 'QUEUED' && turn.place !== null ? { place: turn.place } : {};
  decision.record({ type: 'seatMoved', agent, from, to, trigger, ...place, ...defined({ cause }) });
  reportAll(decision);
}

/** The announcement that a request was decided or closed. */
export type AnsweredNotice = Extract<Announcement, { kind: 'answered' }>;

/**
 * Announces the end of a request by an edit of its post. Leaves out answers to forms that the channel must not show.
 */
export function tellAnswer(
  decision: DecisionBuilder,
  { question, title, pause, approval, about }: Question,
  answer: Pick<AnsweredNotice, 'agent' | 'choice' | 'by' | 'always' | 'reason' | 'aside' | 'completes'>,
): void {
  const of = defined({ pause, approval });
  const how = about?.answer === undefined ? {} : { inWords: true as const };
  const { reason, ...fields } = answer;
  // The call in short, because the request with its details is no longer shown.
  const { call = title } = about ?? {};
  const isHidden = answer.choice === 'allow' && about?.form !== undefined && about.showsAnswer !== true;
  const why = reason === undefined || isHidden ? {} : { reason };
  decision.announce({ kind: 'answered', question, title: call, at: decision.at, ...of, ...how, ...fields, ...why });
}

/** Posts the reports of background runs, if nobody holds the floor. */
export function reportAll(decision: DecisionBuilder): void {
  for (const { agent, text } of decision.floor.turn === null ? (decision.floor.reports ?? []) : [])
    decision.record({ type: 'reported', agent, line: decision.floor.lines + 1, text });
}

/**
 * Whether the number of failed turns has reached the exchange's limit of turns. That limit leaves failed turns out, so
 * repeated crashes need this second one.
 */
function failsForEver({ usageSincePerson, settings }: Floor): boolean {
  return (usageSincePerson.failed ?? 0) >= settings.maxTurns;
}

function begin(
  decision: DecisionBuilder,
  agent: AgentId,
  how: Pick<FactOf<'turnGranted'>, 'messages' | 'headers' | 'keepsPlace' | 'askedBy' | 'feedback' | 'forTask'>,
): void {
  const { seenLine } = seatOf(decision.floor, agent);
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnGranted', agent, epoch, afterLine: seenLine, uptoLine: decision.floor.lines, ...how });
  decision.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' });
}

function answerOf(turn: Turn): { readonly agent: AgentId; readonly answered: boolean } | null {
  const wait = waitOf(turn);
  const ask = wait?.reason === 'answer' ? wait.of : undefined;
  return ask === undefined ? null : { agent: ask.agent, answered: ask.is === 'answered' };
}

function isWord(fact: Fact): boolean {
  return fact.type === 'messageRouted' && fact.line !== null && fact.fromProgram !== true;
}

function isAnswered({ begun }: Turn['given'][number], outcome: Outcome): boolean {
  return outcome === 'completed' || outcome === 'passed' || (outcome === 'lapsed' && begun);
}

function deliver(
  decision: DecisionBuilder,
  agent: AgentId,
  messages: readonly Held[],
  calledMessages: readonly MessageId[] = [],
): readonly MessageId[] {
  const toAnswer: MessageId[] = [];
  for (const message of messages) {
    const via = !isObserved(message) || calledMessages.includes(message.id) ? 'prompt' : 'observe';
    if (via === 'prompt') toAnswer.push(message.id);
    decision.route(message, { state: 'delivered', to: [agent], via }, nextLine(decision, message));
  }
  decision.unplaced = decision.unplaced.filter((fresh) => !messages.some((message) => message.id === fresh.id));
  return toAnswer;
}

/**
 * True for a held message that arrived during a turn in the mode `parallel`, until the exchange closes. The holder and
 * all queued and waiting agents are shown the message. It is held until one of them gets it mid-turn or with a prompt.
 */
export function isObserved({ until }: Held): boolean {
  return until === 'exchange';
}

/** The next free line, for a message that joins the conversation; `null` when the message has a line. */
export function nextLine(decision: DecisionBuilder, { line }: Held): number | null {
  return line === null ? decision.floor.lines + 1 : null;
}
