import type { Refusal } from '../refusals.ts';
import { compareOrder, evolve, isNewFromPerson } from '../evolve.ts';
import { OUTAGE, announcementKey, isAnnounced } from '../announcement.ts';
import type { Announcement } from '../announcement.ts';
import type { Fact, FactOf, Fate, Outcome } from '../fact.ts';
import type { Floor, Held, Turn } from '../floor.ts';
import type { AgentId, Feedback, MessageId } from '../settings.ts';
import { missedBy, seatOf, speaking, turnOf, unclaimed, waitOf } from '../seats.ts';
import type { Trigger } from '../seats.ts';
import type { Instant } from '../../../lib/time.ts';
import { askerOf, gate } from '../gate.ts';
import type { Obstacle } from '../gate.ts';
import { defined } from '../../../lib/defined.ts';

/** A command that was carried out: what happened, in order, and the floor after it. */
export type Accepted = { readonly ok: true; readonly facts: readonly Fact[]; readonly floor: Floor };
/** A command that changed nothing. `facts` holds at most a record of the refusal. */
export type Refused = { readonly ok: false; readonly refusal: Refusal; readonly facts: readonly Fact[] };
export type Decision = Accepted | Refused;

/** The making of one decision: every recorded fact is applied at once, so that what follows is decided on the floor as it then is. */
export class DecisionBuilder {
  readonly at: Instant;
  readonly facts: Fact[] = [];
  /** Messages that this command brought and that nobody was given yet; what remains at its end is held. */
  unplaced: readonly Held[] = [];
  #floor: Floor;

  constructor(floor: Floor, at: Instant) {
    this.#floor = floor;
    this.at = at;
  }

  get floor(): Floor {
    return this.#floor;
  }

  record(fact: Fact): void {
    this.#floor = evolve(this.#floor, fact, this.at);
    this.facts.push(fact);
  }

  /** Records what became of a message; `line` is its line in the conversation, if it joins it with this. */
  route(message: Held, fate: Fate, line: number | null): void {
    const { id, addressed, order, fromProgram } = message;
    const turn = speaking(this.#floor);
    const holder = turn === null ? null : { agent: turn.agent, epoch: turn.epoch };
    const written = fromProgram === true ? { fromProgram } : {};
    const isPrompt = fate.state === 'delivered' && fate.via === 'prompt';
    const opening = isPrompt && this.unplaced.some((fresh) => fresh.id === id) ? ({ opens: true } as const) : {};
    this.record({ type: 'messageRouted', id, fate, line, addressed, order, ...written, ...opening, holder });
  }

  /**
   * Tells people something, as an edit of the last announcement if that said the same. That a turn goes on after a restart stands once
   * a turn, and a gap once an outage, whatever stands behind it: one that comes back soon is the same.
   */
  announce(announcement: Announcement): void {
    const key = announcementKey(announcement);
    const { notice, settings } = this.#floor;
    const same = notice?.key === key ? notice.count : 0;
    const repeat = 1 + (this.#earlier(announcement) ?? same);
    this.record({ type: 'announced', announcement, key, repeat, shown: isAnnounced(announcement, settings) });
  }

  /** How often it was said before, where that does not hang on what stands last in the channel. */
  #earlier(announcement: Announcement): number | null {
    switch (announcement.kind) {
      case 'answered':
      case 'trustAnswered':
        return 1;
      case 'approval':
        return announcement.gone === true ? 1 : null;
      case 'recovered':
        return turnOf(this.#floor, announcement.agent).recovered ?? 0;
      case 'gap':
        return this.#gaps() ?? 0;
      default:
        return null;
    }
  }

  #gaps(): number | undefined {
    const { gap } = this.#floor;
    return gap === undefined || this.at - gap.at >= SAME_OUTAGE_MS ? undefined : gap.count;
  }

  accept(): Accepted {
    return { ok: true, facts: this.facts, floor: this.#floor };
  }
}

/** Gaps so soon after each other are of one outage. */
const SAME_OUTAGE_MS = 600_000;

/** Tells people that an agent's turn ended because it is gone; in one announcement with those that were lost since somebody last spoke. */
export function announceLoss(decision: DecisionBuilder, agent: AgentId, cause: string): void {
  const also = lostBefore(decision.floor).filter((other) => other !== agent);
  decision.announce({ kind: 'disconnect', agent, cause, ...(also.length === 0 ? {} : { also }) });
}

/** Tells people that nobody is there, and why, if the last one has just gone. */
export function announceNobody(decision: DecisionBuilder): void {
  const loss = decision.facts.findLast((fact) => fact.type === 'announced')?.announcement;
  if (loss?.kind !== 'disconnect') return decision.announce({ kind: 'nobody' });
  const agents = [...(loss.also ?? []), loss.agent];
  decision.announce({ kind: 'nobody', lost: { agents, cause: loss.cause } });
}

function lostBefore({ notice }: Floor): readonly AgentId[] {
  return notice?.key === OUTAGE ? (notice.lost ?? []) : [];
}

/** What came with this command and what was held before it, in the platform's order. */
export function pending(decision: DecisionBuilder): readonly Held[] {
  if (decision.floor.held.length === 0 && decision.unplaced.length < 2) return decision.unplaced;
  const held = decision.floor.held.filter((message) => !decision.unplaced.some((fresh) => fresh.id === message.id));
  return [...held, ...decision.unplaced].sort((a, b) => compareOrder(a.order, b.order));
}

/** Opens an exchange, or starts the rounds of the one that is open anew; `renews`: and gives agents anew what they may use. */
export function openExchange(decision: DecisionBuilder, renews: 'person' | 'operator' | null): void {
  if (decision.floor.facilitation !== null)
    decision.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
  if (renews !== null) decision.record({ type: 'usageReset', why: renews });
  decision.record({ type: 'exchangeOpened' });
}

/** Queues the seats that were alone and went to rest (the specification's "or IDLE if solo"). */
export function recall(decision: DecisionBuilder): void {
  for (const seat of decision.floor.seats) {
    if (seat.status === 'IDLE' && seat.assigned) {
      decision.record({ type: 'seatMoved', agent: seat.agent, from: 'IDLE', to: 'QUEUED', trigger: 'RECALLED' });
    }
  }
}

export function closeExchange(decision: DecisionBuilder): void {
  const { exchange, queue } = decision.floor;
  const silent = exchange !== null && exchange.silent > 0 && exchange.silent >= queue.length;
  decision.record({ type: 'exchangeClosed', reason: silent ? 'silent' : 'done' });
}

/** A person's word that the next grant brings renews what an exchange may use. */
export function isOverBudget(decision: DecisionBuilder): boolean {
  let over = overBudget(decision);
  if (over?.until === null && pending(decision).some(isNewFromPerson)) {
    openExchange(decision, 'person');
    over = overBudget(decision);
  }
  if (over === null) return false;
  decision.record({ type: 'exchangeClosed', reason: 'limit', budget: over.limit.budget, until: over.until });
  decision.announce({ kind: 'limit', ...over.limit });
  return true;
}

function overBudget({ floor, at }: DecisionBuilder): Extract<Obstacle, { why: 'over-budget' }> | null {
  return gate(floor, at, 'turn');
}

/** Gives the floor to a queued agent, with every message that waits; one that another asked keeps its place in the queue. */
export function grant(decision: DecisionBuilder, agent: AgentId, feedback?: Feedback): void {
  const askedBy = askerOf(decision.floor, agent);
  const { messages: asked = [], feedback: earlier } =
    decision.floor.prioritised.find((named) => named.agent === agent) ?? {};
  const messages = deliver(decision, agent, pending(decision), asked);
  const by = defined({ askedBy });
  const said = feedback ?? earlier;
  const all = asked.length === 0 ? messages : [...new Set([...messages, ...asked])];
  begin(decision, agent, { messages: all, keepsPlace: askedBy !== undefined, ...by, ...(said && { feedback: said }) });
}

/** Gives the floor for one turn to whoever answers for a paused holder; its place in the queue stays its own. */
export function grantOnBehalf(decision: DecisionBuilder, agent: AgentId, messages: readonly MessageId[]): void {
  begin(decision, agent, { messages, keepsPlace: true });
}

/** Goes on with a turn under a new epoch, with all that it was given and has not answered, and what came for it meanwhile. */
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
  const asked = answerOf(turn);
  const isProgram =
    isAnswer && (isAnsweredByPrograms || (asked !== null && missed.length === 0)) && !ready.some(isNewFromPerson);
  const isNews = ready.some(isNewFromPerson) || decision.facts.some(isWord);
  if (decision.floor.exchange === null) openExchange(decision, why === 'operator' ? why : isNews ? 'person' : null);
  const unanswered = turn.given.map(({ id }) => id);
  const messages = [...new Set([...unanswered, ...missed.map(({ id }) => id), ...deliver(decision, agent, ready)])];
  const { seenLine, status } = seatOf(decision.floor, agent);
  const span = { afterLine: seenLine, uptoLine: decision.floor.lines };
  const wait = waitOf(turn);
  const decided = wait?.reason === 'approval' && wait.decided !== undefined ? { decided: wait.decided } : {};
  const marks = {
    ...(asked === null ? {} : { asked }),
    ...decided,
    ...(isProgram ? { fromProgram: true as const } : {}),
  };
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnResumed', agent, epoch, ...span, messages, open: unanswered, why, ...marks });
  if (status === 'WAITING') decision.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger });
}

/** How a turn ends, and where that leaves the agent. */
type TurnEnd = {
  readonly outcome: Outcome;
  readonly trigger: Trigger;
  readonly to: 'QUEUED' | 'IDLE' | 'OFFLINE';
  readonly signalled?: boolean;
  readonly cause?: string;
  /** The failure of its agent's session; `cause` has the words. */
  readonly error?: { readonly code: string; readonly recoverable: boolean };
  /** Its agent gave no sign of work until its time was up. */
  readonly hung?: boolean;
  /** The operator who has it end with what is there. */
  readonly by?: string;
};

/** Ends a turn, with or without the floor. What the agent did not get of people's messages waits for the next. */
export function finish(decision: DecisionBuilder, turn: Turn, end: TurnEnd): void {
  const { agent, epoch, said } = turn;
  const from = seatOf(decision.floor, agent).status;
  const { outcome, trigger, to, cause } = end;
  const wait = waitOf(turn);
  if (wait?.reason === 'approval' && !wait.ready) {
    const { question, title, pause } = wait.question;
    const more = defined({ pause });
    decision.announce({ kind: 'answered', agent, question, title, choice: null, by: null, ...more, at: decision.at });
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

/** Has said what agents have to say of their work beside the floor, while nobody has it. */
export function reportAll(decision: DecisionBuilder): void {
  for (const { agent, text } of decision.floor.turn === null ? (decision.floor.reports ?? []) : [])
    decision.record({ type: 'reported', agent, line: decision.floor.lines + 1, text });
}

/** A failure uses up no turn, but as many as turns are allowed do: a crash that comes again and again ends the exchange. */
function failsForEver({ usageSincePerson, settings }: Floor): boolean {
  return (usageSincePerson.failed ?? 0) >= settings.maxTurns;
}

function begin(
  decision: DecisionBuilder,
  agent: AgentId,
  how: Pick<FactOf<'turnGranted'>, 'messages' | 'keepsPlace' | 'askedBy' | 'feedback'>,
): void {
  const { seenLine } = seatOf(decision.floor, agent);
  const epoch = decision.floor.epoch + 1;
  decision.record({ type: 'turnGranted', agent, epoch, afterLine: seenLine, uptoLine: decision.floor.lines, ...how });
  decision.record({ type: 'seatMoved', agent, from: 'QUEUED', to: 'ACTIVE', trigger: 'TURN_GRANTED' });
}

/** The agent that a turn asked, and whether it said something. */
function answerOf(turn: Turn): { readonly agent: AgentId; readonly answered: boolean } | null {
  const wait = waitOf(turn);
  const asked = wait?.reason === 'answer' ? wait.of : undefined;
  return asked === undefined ? null : { agent: asked.agent, answered: asked.is === 'answered' };
}

/** Whether a person's word joined the conversation with this: a turn that was ready before may go on long after. */
function isWord(fact: Fact): boolean {
  return fact.type === 'messageRouted' && fact.line !== null && fact.fromProgram !== true;
}

/** A generation that ended by itself has answered all that it was given; one that fell silent, what it said something to. */
function isAnswered({ begun }: Turn['given'][number], outcome: Outcome): boolean {
  return outcome === 'completed' || outcome === 'passed' || (outcome === 'lapsed' && begun);
}

/** Makes messages part of the conversation and hands them over with a prompt; what is there for all to see is to be answered only if it is `asked`. */
function deliver(
  decision: DecisionBuilder,
  agent: AgentId,
  messages: readonly Held[],
  asked: readonly MessageId[] = [],
): readonly MessageId[] {
  if (messages.length === 0) return [];
  const toAnswer = messages.filter((message) => !isObserved(message) || asked.includes(message.id));
  for (const message of messages) {
    const via = toAnswer.includes(message) ? 'prompt' : 'observe';
    decision.route(message, { state: 'delivered', to: [agent], via }, nextLine(decision, message));
  }
  decision.unplaced = decision.unplaced.filter((fresh) => !messages.some((message) => message.id === fresh.id));
  return toAnswer.map((message) => message.id);
}

/** Whether a message is there for all to see, and for nobody in particular to answer. */
export function isObserved({ until }: Held): boolean {
  return until === 'exchange';
}

/** The line that a message gets, unless it has one. */
export function nextLine(decision: DecisionBuilder, { line }: Held): number | null {
  return line === null ? decision.floor.lines + 1 : null;
}
