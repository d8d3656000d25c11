import type { Command, CommandOf } from './command.ts';
import type { Refusal } from './refusals.ts';
import {
  announceBackgroundRun,
  beginBackgroundRun,
  endBackgroundRun,
  openBackgroundRequest,
  withdrawBackgroundRequest,
} from './decide/background-runs.ts';
import { choose, extend, grantTo, mode, order, pause, resumeFloor, skip, start, stop } from './decide/control.ts';
import { DecisionBuilder } from './decide/decision-builder.ts';
import type { Decision, Refused } from './decide/decision-builder.ts';
import { add, configure, disable, enable, join, leave, remove } from './decide/membership.ts';
import { amend, byHolder, completeTurn, end, injected, receive, say, spend, work } from './decide/turns.ts';
import {
  decideRequest,
  forbidden,
  interrupted,
  ran,
  request,
  shown,
  tellRevoked,
  tellTools,
  use,
  withdraw,
  wait,
} from './decide/waits.ts';
import { answerTrust, askTrust, dropTrust, trustShown } from './decide/trust.ts';
import { askTaskTurn, beginTask, endTask, holdTask, setReviewer, tellTask } from './decide/task-turns.ts';
import { tick } from './decide/tick.ts';
import { catchUp, disconnect, raiseEpoch, restart, standstill, undelivered } from './decide/recovery.ts';
import type { Floor } from './floor.ts';
import type { Instant } from '../../lib/time.ts';
import { gate } from './gate.ts';
import { nextUp } from './next-speaker.ts';
import { isGenerating, openQuestion } from './seats.ts';

export type { Decision } from './decide/decision-builder.ts';

/**
 * Decides a command: facts with the floor after them, or a refusal. Throws "impossible: …" instead of returning a
 * floor that breaks an invariant. Pure: equal input gives an equal decision.
 */
export function decide(floor: Floor, command: Command, at: Instant): Decision {
  const decision = new DecisionBuilder(floor, at);
  const refusal = carryOut(command.type, command, decision);
  if (refusal !== null) return refused(command, refusal);
  const { facts, floor: after } = decision;
  const broken = violation(floor, after, at);
  if (broken !== null) throw new Error(`impossible: ${broken.rule} in ${after.channel}: ${broken.text}`);
  return { ok: true, facts, floor: after };
}

/**
 * Returns how a command breaks off the text that the holder generates. The caller posts this draft before the command.
 * `cut`: the answer is cut off. `broken`: the turn only pauses, or the draft counts as the whole answer. `null`: the
 * command breaks nothing off, so the draft is not posted.
 */
export function breakOf(floor: Floor, command: Command, at: Instant): 'cut' | 'broken' | null {
  const { turn } = floor;
  if (turn === null || !isGenerating(turn) || isAct(command)) return null;
  const { facts } = decide(floor, command, at);
  for (const fact of facts) {
    if (fact.type === 'disconnected' && fact.restart)
      return floor.settings.onRestart === 'forfeit' && turn.status === 'active' ? 'cut' : 'broken';
    if (!('agent' in fact) || fact.agent !== turn.agent) continue;
    if (fact.type === 'turnEnded') return fact.outcome === 'lapsed' || fact.by !== undefined ? 'broken' : 'cut';
    if (fact.type === 'turnWaited') return 'broken';
    // Denying a paused run ends the run and its turn.
    const isRefused = fact.type === 'questionClosed' && fact.choice === 'reject';
    if (isRefused && openQuestion(floor)?.pause !== undefined) return 'cut';
  }
  return null;
}

type Deciders = {
  readonly [T in Command['type']]: (decision: DecisionBuilder, command: CommandOf<T>) => Refusal | null;
};

/** The function that decides each type of command. The operator's rights were checked before. */
const DECIDERS: Deciders = {
  receive,
  edit: amend,
  delete: amend,
  stop,
  start,
  grant: grantTo,
  skip,
  extend,
  decide: decideRequest,
  pause,
  resume: resumeFloor,
  order,
  mode,
  add,
  remove,
  enable,
  disable,
  join,
  leave,
  say: byHolder(say),
  work: byHolder(work),
  spend,
  end: byHolder(end),
  wait: byHolder(wait),
  use: byHolder(use),
  request: byHolder(request),
  withdraw,
  injected,
  interrupted,
  choose,
  configure,
  restart,
  disconnect,
  standstill,
  catchUp,
  shown,
  undelivered,
  forbidden,
  tellRevoked,
  tellTools,
  ran,
  beginAside: beginBackgroundRun,
  tellAside: announceBackgroundRun,
  askAside: openBackgroundRequest,
  withdrawAside: withdrawBackgroundRequest,
  endAside: endBackgroundRun,
  askTrust,
  trustShown,
  answerTrust,
  dropTrust,
  beginTask,
  askTaskTurn,
  holdTask,
  setReviewer,
  tellTask,
  endTask,
  completeTurn,
  raiseEpoch,
  tick,
};

function carryOut<T extends Command['type']>(
  type: T,
  command: CommandOf<T>,
  decision: DecisionBuilder,
): Refusal | null {
  return DECIDERS[type](decision, command);
}

function refused(command: Command, refusal: Refusal): Refused {
  if (command.type !== 'choose' && (!isAct(command) || command.type === 'withdraw'))
    return { ok: false, refusal, facts: [] };
  const { type, agent } = command;
  const epoch = 'epoch' in command ? command.epoch : null;
  const text = command.type === 'say' ? { text: command.text } : {};
  return { ok: false, refusal, facts: [{ type: 'actRefused', act: type, agent, epoch, refusal, ...text }] };
}

type Act = Extract<Command, { readonly agent: string; readonly epoch: number }>;

/** Whether a command is an act of an agent under the epoch of its turn. */
function isAct(command: Command): command is Act {
  return 'epoch' in command && !('by' in command);
}

type Violation = { readonly rule: 'I1' | 'I2' | 'I4' | 'I6' | 'I10'; readonly text: string };

/**
 * The first broken invariant of a floor after a decision; `null` unless there is a bug.
 * I1: a seat is ACTIVE or WAITING exactly when its agent has a turn, and no agent has two turns.
 * I2: epochs only grow. I4: an open and free floor is granted when an agent is due and no budget forbids it, and rests
 * when none is due.
 * I6: the queue holds exactly the QUEUED agents, each once.
 * I10: no turn begins or resumes under a new epoch before the channel's history is read.
 */
function violation(before: Floor, after: Floor, at: Instant): Violation | null {
  return holding(after) ?? epochs(before, after) ?? working(after, at) ?? queue(after);
}

function holding(floor: Floor): Violation | null {
  const { turn, parked } = floor;
  for (const { agent, status } of floor.seats) {
    const isParked = parked.some((each) => each.agent === agent);
    const isHolder = turn?.agent === agent;
    const isOpen = status === 'ACTIVE' || status === 'WAITING';
    const held = isHolder ? (turn.status === 'waiting' ? 'WAITING' : 'ACTIVE') : isParked ? 'WAITING' : null;
    if ((held ?? (isOpen ? 'no turn' : status)) !== status)
      return { rule: 'I1', text: `${agent} is ${status}, its turn says ${held ?? 'nothing'}` };
  }
  const holders = parked.length === 0 ? 0 : new Set([turn, ...parked].map((each) => each?.agent)).size;
  return holders === (parked.length === 0 ? 0 : parked.length + 1)
    ? null
    : { rule: 'I1', text: 'an agent has two turns' };
}

function epochs(before: Floor, after: Floor): Violation | null {
  const isNew = after.turn !== null && after.turn.epoch !== before.turn?.epoch;
  if (isNew && after.catchingUp) return { rule: 'I10', text: `epoch ${after.epoch} before the history was read` };
  if (after.epoch < before.epoch || (isNew && (after.turn?.epoch ?? 0) <= before.epoch)) {
    return { rule: 'I2', text: `epoch ${after.turn?.epoch ?? after.epoch} came after ${before.epoch}` };
  }
  return null;
}

function working(floor: Floor, at: Instant): Violation | null {
  if (gate(floor, at, 'next') !== null) return null;
  const next = nextUp(floor);
  if (next.kind === 'later') return null;
  return next.kind === 'agent' && gate(floor, at, 'turn') !== null
    ? null
    : { rule: 'I4', text: 'the floor is open and nobody was granted it' };
}

function queue(floor: Floor): Violation | null {
  let queued = 0;
  for (const { agent, status } of floor.seats) {
    if (status !== 'QUEUED') continue;
    queued += floor.queue.includes(agent) ? 1 : Infinity;
  }
  if (queued === floor.queue.length) return null;
  const names = floor.seats.filter(({ status }) => status === 'QUEUED').map(({ agent }) => agent);
  return { rule: 'I6', text: `the queue is ${floor.queue.join(', ')}, QUEUED are ${names.join(', ')}` };
}
