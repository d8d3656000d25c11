import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import type { FactOf } from '../fact.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { resume, tellAnswer } from './decision-builder.ts';
import {
  UNSHOWN,
  decideBackgroundRequest,
  runDeciderAnswer,
  requestRef,
  questionOf,
  showBackgroundRequest,
  tellRequest,
} from './background-runs.ts';
import { comeBack } from './membership.ts';
import { afterInterrupt, dispatch, goOn } from './turns.ts';
import type { Turn } from '../floor.ts';
import { gate } from '../gate.ts';
import {
  askOf,
  findBackgroundRun,
  findSeat,
  findTurn,
  isAnswerTo,
  openQuestion,
  seatOf,
  turnOf,
  waitOf,
} from '../seats.ts';
import type { AgentId, Choice } from '../settings.ts';
import { defined } from '../../../lib/defined.ts';

/**
 * Pauses the holder's turn until a message, or the agent `of`, answers. Without `of`, a message that was not injected,
 * or did not fit into the prompt, counts as an answer and ends the wait at once.
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

/** The most agents that wait for other agents' answers at once. */
const MOST_ASKS = 5;

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

/** Called when an interrupted generation has stopped. */
export function interrupted(decision: DecisionBuilder, command: CommandOf<'interrupted'>): Refusal | null {
  const { turn } = decision.floor;
  if (turn === null || turn.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const stopping = waitOf(turn);
  if (stopping?.reason !== 'human' || stopping.graceEndAt === null) return 'not-waiting';
  decision.record({ type: 'turnStopped', agent: turn.agent, epoch: turn.epoch, forced: false });
  afterInterrupt(decision, turn);
  return null;
}

/**
 * Opens a request of the holder. The turn keeps the floor in every wait policy, because its generation continues after
 * the decision. A request that nobody can be asked for is denied at once, and its details are dropped.
 */
export function request(decision: DecisionBuilder, command: CommandOf<'request'>, turn: Turn): null {
  const { agent, epoch } = turn;
  const { unaskable } = command;
  const deadlineAt = decision.at + decision.floor.settings.waitTimeoutMs;
  const question = questionOf(decision, command);
  decision.record({ type: 'turnWaited', agent, epoch, wait: { reason: 'approval', deadlineAt, question } });
  decision.record({ type: 'seatMoved', agent, from: 'ACTIVE', to: 'WAITING', trigger: 'WAIT_REQUESTED' });
  if (unaskable === undefined) tellRequest(decision, { agent, question, until: deadlineAt });
  else rejectUnaskable(decision, unaskable);
  return null;
}

/** Announces a tool call that the rules deny. */
export function forbidden(decision: DecisionBuilder, { agent, title, why }: CommandOf<'forbidden'>): null {
  decision.announce({ kind: 'forbidden', agent, title, why });
  return null;
}

/** Announces that a rule was revoked. */
export function tellRevoked(decision: DecisionBuilder, { agent, rule, name }: CommandOf<'tellRevoked'>): null {
  decision.announce({ kind: 'revoked', agent, rule, by: name });
  return null;
}

/** Announces that the tools of an agent's MCP server are unavailable, or available again. */
export function tellTools(decision: DecisionBuilder, { agent, server, why }: CommandOf<'tellTools'>): null {
  decision.announce(why === null ? { kind: 'toolsBack', agent, server } : { kind: 'toolsGone', agent, server, why });
  return null;
}

/** Begins a run in the holder's turn. */
export function use(
  decision: DecisionBuilder,
  { maxTurns, requestedBy, prompt, output }: CommandOf<'use'>,
  turn: Turn,
): Refusal | null {
  if (turn.run !== undefined) return 'already';
  const { agent, epoch } = turn;
  decision.record({ type: 'runBegun', agent, epoch, ...defined({ maxTurns, requestedBy, prompt, output }) });
  return null;
}

/**
 * Closes the holder's request without an answer: the agent withdrew it, or (`decided`) a person continued or completed
 * the run.
 */
export function withdraw(decision: DecisionBuilder, command: CommandOf<'withdraw'>): Refusal | null {
  const { turn } = decision.floor;
  if (turn?.agent !== command.agent) return 'not-holder';
  if (turn.epoch !== command.epoch) return 'stale-epoch';
  const { agent, epoch } = command;
  const openRequest = openQuestion(decision.floor);
  if (openRequest === null) return 'stale-question';
  const { decided } = command;
  const by = decided?.by ?? agent;
  decision.record({ type: 'questionClosed', agent, epoch, ...requestRef(openRequest), choice: null, by });
  tellAnswer(decision, openRequest, { agent, ...runDeciderAnswer(decided) });
  goOnAfter(decision, agent);
  return null;
}

/** Marks a request as shown. With `why`, the channel cannot show the whole request: denies it, and edits its post. */
export function shown(decision: DecisionBuilder, command: CommandOf<'shown'>): Refusal | null {
  const { turn } = decision.floor;
  const openRequest = openQuestion(decision.floor);
  if (turn === null || openRequest === null || !isAnswerTo(openRequest, command))
    return showBackgroundRequest(decision, command);
  if (command.why !== undefined) {
    decideQuestion(decision, UNSHOWN);
    tellAnswer(decision, openRequest, { agent: turn.agent, ...UNSHOWN, reason: command.why });
  } else if (openRequest.shown) return 'already';
  else decision.record({ type: 'questionShown', agent: turn.agent, epoch: turn.epoch, question: openRequest.question });
  return null;
}

/**
 * Applies an operator's decision to the request whose number is in the command. A button decides only the request that
 * it was drawn for.
 */
export function decideRequest(decision: DecisionBuilder, command: CommandOf<'decide'>): Refusal | null {
  const { turn } = decision.floor;
  const openRequest = openQuestion(decision.floor);
  if (turn === null || openRequest === null || !isAnswerTo(openRequest, command))
    return decideBackgroundRequest(decision, command);
  if (command.choice === 'allow' && !openRequest.shown) return 'not-shown';
  const { choice, by, reason, always, name = by } = command;
  const more = defined({ reason, always });
  decideQuestion(decision, { choice, by, ...more });
  tellAnswer(decision, openRequest, { agent: turn.agent, choice, by: name, ...more });
  return null;
}

/** Adds the outcome of an allowed tool call to the announcement that the call was allowed. */
export function ran(decision: DecisionBuilder, command: CommandOf<'ran'>): Refusal | null {
  const { agent, approval, callOutcome, aside: isBackground } = command;
  const turn = findTurn(decision.floor, agent);
  const ofTurn = [...(turn?.alsoAllowed ?? []), ...(turn?.allowed === undefined ? [] : [turn.allowed])];
  const allowedCalls = isBackground === true ? (findBackgroundRun(decision.floor, agent)?.allowed ?? []) : ofTurn;
  const allowed = allowedCalls.find((call) => call.approval === approval);
  if (allowed === undefined) return 'stale-question';
  const backgroundMark = isBackground === true ? { aside: isBackground } : {};
  decision.announce({ kind: 'answered', agent, ...allowed.answer, approval, ...backgroundMark, callOutcome });
  return null;
}

function decideQuestion(
  decision: DecisionBuilder,
  answer: Pick<FactOf<'questionClosed'>, 'by' | 'reason' | 'always'> & { readonly choice: Choice },
): void {
  const { turn } = decision.floor;
  const openRequest = openQuestion(decision.floor);
  if (turn === null || openRequest === null)
    throw new Error(`impossible: nothing is asked in ${decision.floor.channel}`);
  const { agent, epoch } = turn;
  const { approval, restarted } = openRequest;
  const of = defined({ approval });
  const until = restarted === true ? waitOf(turn)?.deadlineAt : undefined;
  const counts = defined({ until });
  decision.record({ type: 'questionClosed', agent, epoch, ...requestRef(openRequest), ...of, ...answer, ...counts });
  goOnAfter(decision, agent);
}

function rejectUnaskable(decision: DecisionBuilder, why: string): void {
  const agent = decision.floor.turn?.agent;
  const title = openQuestion(decision.floor)?.title ?? '';
  if (agent !== undefined) decision.announce({ kind: 'unasked', agent, title, why });
  decideQuestion(decision, { choice: 'reject', by: null });
}

function goOnAfter(decision: DecisionBuilder, agent: AgentId): void {
  if (waitOf(decision.floor.turn) !== null) {
    if (seatOf(decision.floor, agent).present) comeBack(decision, agent);
    return;
  }
  decision.record({ type: 'seatMoved', agent, from: 'WAITING', to: 'ACTIVE', trigger: 'WAIT_RESOLVED' });
  for (const message of decision.floor.held.filter(({ until }) => until === 'prompt')) dispatch(decision, message);
}
