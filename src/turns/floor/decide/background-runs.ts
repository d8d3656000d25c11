import type { CommandOf, RunDecider } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { FactOf } from '../fact.ts';
import type { BackgroundRun } from '../floor.ts';
import { BACKGROUND_RUN_END_WORDS, findAskingRun, findBackgroundRun, findSeat, requestAfterRestart } from '../seats.ts';
import type { AgentId, Choice, Question } from '../settings.ts';
import type { Instant } from '../../../lib/time.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { reportAll, tellAnswer } from './decision-builder.ts';
import type { AnsweredNotice } from './decision-builder.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * Begins a background run. Refuses it if the agent has one. Stops it at once if the agent is disabled or has no seat.
 */
export function beginBackgroundRun(
  decision: DecisionBuilder,
  { agent, run, what }: CommandOf<'beginAside'>,
): Refusal | null {
  if (findBackgroundRun(decision.floor, agent) !== undefined) return 'already';
  decision.record({ type: 'asideBegun', agent, run });
  if (findSeat(decision.floor, agent)?.disabled !== false) {
    stopWithSeat(decision, { agent, run }, { by: null, why: 'unseated' });
    return null;
  }
  decision.announce({ kind: 'aside', agent, what, run });
  return null;
}

/** Announces the state of a background run. `failed`: the run waits until people retry or discard it. */
export function announceBackgroundRun(
  decision: DecisionBuilder,
  { agent, run, what, failed }: CommandOf<'tellAside'>,
): null {
  const more = defined({ run, failed });
  decision.announce({ kind: 'aside', agent, what, ...more });
  return null;
}

/** Opens the request of a background run. Denies the request at once if nobody can be asked. */
export function openBackgroundRequest(decision: DecisionBuilder, command: CommandOf<'askAside'>): Refusal | null {
  const { agent, unaskable, until } = command;
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  if (backgroundRun === undefined) return 'not-waiting';
  if (backgroundRun.question !== undefined) return keepRequestOpen(decision, backgroundRun.question, command);
  const question = questionOf(decision, command);
  decision.record({ type: 'asideAsked', agent, question, ...(until === null ? {} : { until }) });
  if (unaskable === undefined) tellRequest(decision, { agent, question, until });
  else rejectBackgroundRequest(decision, question.question, unaskable);
  return null;
}

function keepRequestOpen(decision: DecisionBuilder, request: Question, command: CommandOf<'askAside'>): Refusal | null {
  const { agent, approval, until } = command;
  if (approval.restarted !== true || request.restarted === true || request.approval !== approval.id) return 'already';
  const question = requestAfterRestart(request);
  decision.record({ type: 'asideAsked', agent, question, ...(until === null ? {} : { until }) });
  tellRequest(decision, { agent, question, until });
  return null;
}

/**
 * Announces a request. After a restart of its agent, announces it again: a decision then counts once, for the same
 * request. `until`: the deadline for the decision; `null` for none.
 */
export function tellRequest(
  decision: DecisionBuilder,
  request: { readonly agent: AgentId; readonly question: Question; readonly until: Instant | null },
): void {
  const { agent, question, until } = request;
  const { shown: _shown, approval: _approval, lasting: _lasting, ...requestFields } = question;
  decision.announce({ kind: 'approval', agent, ...requestFields, ...(until === null ? {} : { until }) });
}

/** The stored form of a new request, with its number. Without details if nobody can be asked. */
export function questionOf(
  { floor }: Pick<DecisionBuilder, 'floor'>,
  { approval, unaskable, key }: Pick<CommandOf<'request'>, 'approval' | 'unaskable' | 'key'>,
): Question {
  const { title, detail, id, always, ...rest } = approval;
  const of = { ...defined({ approval: id }), ...rest };
  const known = defined({ key });
  const request = { question: floor.questions + 1, ...known, title, shown: false, ...of };
  if (unaskable !== undefined) return { ...request, detail: '' };
  return { ...request, detail, ...(always === undefined ? {} : { always: [...always] }) };
}

/** Closes the request of a background run without an answer. For a failed run, announces that the run is retried. */
export function withdrawBackgroundRequest(
  decision: DecisionBuilder,
  command: CommandOf<'withdrawAside'>,
): Refusal | null {
  const { agent, decided } = command;
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  if (backgroundRun?.failed === true) {
    const of = defined({ run: backgroundRun.run });
    decision.announce({ kind: 'aside', agent, what: 'is retried', ...of, failed: false });
  }
  const request = backgroundRun?.question;
  if (request === undefined) return backgroundRun?.failed === true ? null : 'stale-question';
  decision.record({ type: 'asideAnswered', agent, ...requestRef(request), choice: null, by: decided?.by ?? agent });
  tellAnswer(decision, request, { agent, aside: true, ...runDeciderAnswer(decided) });
  return null;
}

/**
 * The fields of the announcement that a request was closed without an answer. `decided`: the person who continued or
 * completed the run.
 */
export function runDeciderAnswer(decided: RunDecider | undefined): Pick<AnsweredNotice, 'choice' | 'by' | 'completes'> {
  if (decided === undefined) return { choice: null, by: null };
  return { choice: 'allow', by: decided.name, ...(decided.completes === true ? { completes: true } : {}) };
}

type Stopped = Pick<FactOf<'asideStopped'>, 'by' | 'why'>;

/** Stops a background run and closes its open request. `stopped.why`: set if the agent's seat is the reason. */
export function stopBackgroundRun(
  decision: DecisionBuilder,
  { agent, question }: BackgroundRun,
  stopped: Stopped,
): void {
  if (question !== undefined) tellAnswer(decision, question, { agent, aside: true, choice: null, by: null });
  decision.record({ type: 'asideStopped', agent, ...stopped });
}

/** Stops a background run because of its agent's seat, such as a disabled one, and announces the reason. */
export function stopWithSeat(
  decision: DecisionBuilder,
  backgroundRun: BackgroundRun,
  stopped: Required<Stopped>,
): void {
  stopBackgroundRun(decision, backgroundRun, stopped);
  const of = defined({ run: backgroundRun.run });
  decision.announce({
    kind: 'aside',
    agent: backgroundRun.agent,
    what: `was stopped: ${BACKGROUND_RUN_END_WORDS[stopped.why]}`,
    ...of,
  });
}

/** Ends a background run and announces the end. */
export function endBackgroundRun(decision: DecisionBuilder, command: CommandOf<'endAside'>): Refusal | null {
  const { agent, what, report } = command;
  const backgroundRun = findBackgroundRun(decision.floor, agent);
  if (backgroundRun === undefined) return 'not-waiting';
  if (backgroundRun.question !== undefined)
    tellAnswer(decision, backgroundRun.question, { agent, aside: true, choice: null, by: null });
  decision.record({ type: 'asideEnded', agent, ...defined({ report }) });
  decision.announce({ kind: 'aside', agent, what, ...defined({ run: backgroundRun.run }) });
  reportAll(decision);
  return null;
}

/** The denial of a request that the channel cannot show whole. Nobody decided it: `by` is null. */
export const UNSHOWN = { choice: 'reject', by: null } as const;

/**
 * Marks a background run's request as shown. With `why`, the channel cannot show it: denies the request. Refuses an
 * unknown request.
 */
export function showBackgroundRequest(decision: DecisionBuilder, command: CommandOf<'shown'>): Refusal | null {
  const { question, why } = command;
  const backgroundRun = findAskingRun(decision.floor, command);
  if (backgroundRun === undefined) return 'stale-question';
  if (why !== undefined) {
    closeQuestion(decision, question, UNSHOWN);
    tellAnswer(decision, backgroundRun.question, { agent: backgroundRun.agent, aside: true, ...UNSHOWN, reason: why });
  } else if (backgroundRun.question.shown) return 'already';
  else decision.record({ type: 'asideShown', agent: backgroundRun.agent, question });
  return null;
}

/** Applies an operator's decision to the request of a background run. */
export function decideBackgroundRequest(decision: DecisionBuilder, command: CommandOf<'decide'>): Refusal | null {
  const { question, choice, by, reason, always, name = by } = command;
  const backgroundRun = findAskingRun(decision.floor, command);
  if (backgroundRun === undefined) return 'stale-question';
  if (choice === 'allow' && !backgroundRun.question.shown) return 'not-shown';
  const more = defined({ reason, always });
  closeQuestion(decision, question, { choice, by, ...more });
  tellAnswer(decision, backgroundRun.question, { agent: backgroundRun.agent, aside: true, choice, by: name, ...more });
  return null;
}

/** The number and key of a request, for facts. */
export function requestRef({ question, key }: Question): Pick<Question, 'question' | 'key'> {
  return { question, ...defined({ key }) };
}

function rejectBackgroundRequest(decision: DecisionBuilder, question: number, why: string): void {
  const backgroundRun = findAskingRun(decision.floor, { question });
  if (backgroundRun !== undefined)
    decision.announce({ kind: 'unasked', agent: backgroundRun.agent, title: backgroundRun.question.title, why });
  closeQuestion(decision, question, { choice: 'reject', by: null });
}

function closeQuestion(
  decision: DecisionBuilder,
  number: number,
  answer: Pick<FactOf<'asideAnswered'>, 'by' | 'reason' | 'always'> & { readonly choice: Choice },
): void {
  const backgroundRun = findAskingRun(decision.floor, { question: number });
  if (backgroundRun === undefined)
    throw new Error(`impossible: nothing is asked as ${number} in ${decision.floor.channel}`);
  const { agent, question } = backgroundRun;
  const of = defined({ approval: question.approval });
  decision.record({ type: 'asideAnswered', agent, ...requestRef(question), ...of, ...answer });
}
