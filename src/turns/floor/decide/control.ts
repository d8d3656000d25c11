import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import { stopBackgroundRun } from './background-runs.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import {
  dropFacilitation,
  finish,
  grant,
  isOverBudget,
  openExchange,
  pending,
  prioritise,
  recall,
  resume,
} from './decision-builder.ts';
import { advance, goOn, wake } from './turns.ts';
import type { FactOf } from '../fact.ts';
import { gate } from '../gate.ts';
import { isGrantable, nextInTurn, policyOf } from '../next-speaker.ts';
import { findSeat, findTurn, isOfNow, turnsOf, waitOf } from '../seats.ts';
import type { AgentId, Feedback } from '../settings.ts';

/** Stops everything: all turns and background runs end, the exchange closes, held messages stay held. */
export function stop(decision: DecisionBuilder, { by, epoch }: CommandOf<'stop'>): Refusal | null {
  if (epoch !== undefined && !isOfNow(decision.floor, epoch)) return 'stale-epoch';
  const { turn, exchange, asides: backgroundRuns = [] } = decision.floor;
  const turns = turnsOf(decision.floor);
  const isBusy = turns.length > 0 || exchange !== null || decision.floor.task !== undefined;
  if (!isBusy && backgroundRuns.length === 0) return 'nothing-to-stop';
  for (const running of turns) finish(decision, running, { outcome: 'revoked', trigger: 'STOPPED', to: 'QUEUED' });
  for (const run of backgroundRuns) stopBackgroundRun(decision, run, { by });
  if (isBusy) decision.record({ type: 'exchangeClosed', reason: 'stopped', by });
  decision.announce({
    kind: 'stopped',
    agent: turn?.agent ?? turns[0]?.agent ?? backgroundRuns[0]?.agent ?? null,
    kept: decision.floor.held.length,
  });
  return null;
}

/** Opens an exchange without a message, for an operator. */
export function start(decision: DecisionBuilder): Refusal | null {
  const { exchange, turn } = decision.floor;
  const closed = gate(decision.floor, decision.at, exchange === null && turn === null ? 'start' : 'grant');
  if (closed !== null) return closed.why;
  if (exchange !== null || turn !== null) return 'already';
  if (decision.floor.task !== undefined && !decision.floor.stopped) return 'task-open';
  recall(decision);
  openExchange(decision, 'operator');
  wake(decision, true);
  advance(decision);
  return null;
}

/**
 * Grants the floor to an agent for an operator: now if no turn is active or suspended, else by a call ahead of the
 * queue. Ends the turn of another holder that waits. If the agent's own turn waits, resumes that turn instead, now or
 * once the floor is free; refuses while the turn waits for approval or its generation still stops. On the floor of a
 * ticket, only resumes waiting turns, because the worker's files may be under test.
 */
export function grantTo(decision: DecisionBuilder, { agent, feedback }: CommandOf<'grant'>): Refusal | null {
  const seat = findSeat(decision.floor, agent);
  if (seat === undefined) return 'not-seated';
  const closed = gate(decision.floor, decision.at, 'grant');
  if (closed !== null) return closed.why;
  if (seat.disabled) return 'disabled';
  if (seat.status === 'ACTIVE') return 'already';
  if (!seat.present) return 'offline';
  if (seat.status === 'WAITING') return overrideWait(decision, agent);
  if (decision.floor.task?.kind === 'ticket') return 'task-open';
  recall(decision);
  if (!isGrantable(decision.floor, agent)) return 'not-queued';
  return giveTo(decision, agent, feedback);
}

function overrideWait(decision: DecisionBuilder, agent: AgentId): Refusal | null {
  const { turn } = decision.floor;
  if (turn?.agent === agent) {
    const wait = waitOf(turn);
    if (wait?.reason === 'human' && wait.graceEndAt !== null) return 'still-stopping';
    if (wait?.reason === 'approval') return 'needs-decision';
    resume(decision, turn, 'operator', 'HUMAN_OVERRIDE');
    return null;
  }
  const parked = decision.floor.parked.find((other) => other.agent === agent);
  if (parked === undefined) throw new Error(`impossible: ${agent} waits in ${decision.floor.channel} without a turn`);
  if (turn === null) resume(decision, parked, 'operator', 'HUMAN_OVERRIDE');
  else decision.record({ type: 'waitAnswered', agent, messages: waitOf(parked)?.answers ?? [], ready: true });
  return null;
}

function giveTo(decision: DecisionBuilder, agent: AgentId, feedback: Feedback | undefined): Refusal | null {
  const { turn } = decision.floor;
  if (turn !== null && turn.status !== 'waiting') {
    prioritise(decision, agent, 'operator', feedback === undefined ? {} : { feedback });
    return null;
  }
  if (turn !== null) finish(decision, turn, { outcome: 'revoked', trigger: 'HUMAN_OVERRIDE', to: 'QUEUED' });
  if (decision.floor.facilitation !== null)
    decision.record({ type: 'facilitatorAnswered', next: agent, why: 'overtaken' });
  if (decision.floor.exchange === null || pending(decision).length > 0) openExchange(decision, 'operator');
  grant(decision, agent, feedback);
  return null;
}

/** Stops grants until the floor is resumed. */
export function pause(decision: DecisionBuilder, { by, epoch }: CommandOf<'pause'>): Refusal | null {
  if (epoch !== undefined && !isOfNow(decision.floor, epoch)) return 'stale-epoch';
  if (decision.floor.condition === 'paused') return 'already';
  dropFacilitation(decision);
  decision.record({ type: 'floorPaused', on: true, by });
  return null;
}

/** Continues after a pause, a reached limit or a stop. Else begins another round on a resting floor. */
export function resumeFloor(decision: DecisionBuilder, { by, epoch }: CommandOf<'resume'>): Refusal | null {
  if (epoch !== undefined && !isOfNow(decision.floor, epoch)) return 'stale-epoch';
  const { condition, limit, exchange, stopped, held } = decision.floor;
  if (condition === 'paused') decision.record({ type: 'floorPaused', on: false, by });
  else if (limit !== null) {
    decision.record({ type: 'usageReset', why: 'more', by });
    decision.record({ type: 'exchangeOpened' });
  } else if (exchange !== null) return 'nothing-to-resume';
  else {
    // On a stopped floor, held messages do not open an exchange by themselves.
    const isBegun = (stopped || held.length === 0) && beginsAgain(decision);
    if (!isBegun && held.length === 0) return 'nothing-to-resume';
  }
  recall(decision);
  const isLater =
    gate(decision.floor, decision.at, 'holder') !== null &&
    decision.floor.exchange === null &&
    decision.floor.held.length > 0;
  if (isLater) openExchange(decision, 'operator');
  wake(decision, true);
  advance(decision);
  return null;
}

function beginsAgain(decision: DecisionBuilder): boolean {
  const { floor, at } = decision;
  const goesOn = policyOf(floor).goesRound || floor.stopped;
  if (floor.turn !== null || !goesOn || gate(floor, at, 'start') !== null) return false;
  recall(decision);
  openExchange(decision, 'operator');
  return true;
}

/** Changes the channel's mode: how messages reach a turn. */
export function mode(decision: DecisionBuilder, command: CommandOf<'mode'>): Refusal | null {
  const { settings } = decision.floor;
  if (settings.mode === command.mode) return 'already';
  decision.record({ type: 'settingsChanged', settings: { ...settings, mode: command.mode }, by: command.by });
  return null;
}

/** Changes the channel's order. Moves the agents that the command names to the head of the queue. */
export function order(decision: DecisionBuilder, command: CommandOf<'order'>): Refusal | null {
  const { queue } = decision.floor;
  const wanted = command.queue ?? [];
  const isOdd = wanted.some((agent) => !queue.includes(agent)) || new Set(wanted).size !== wanted.length;
  if (isOdd) return 'bad-queue';
  if (command.order === 'facilitator' && decision.floor.settings.facilitator === null) return 'no-facilitator';
  if (decision.floor.settings.order === command.order && wanted.length === 0) return 'already';
  const ordered = [...wanted, ...queue.filter((agent) => !wanted.includes(agent))];
  decision.record({
    type: 'settingsChanged',
    settings: { ...decision.floor.settings, order: command.order },
    ...(wanted.length === 0 ? {} : { queue: ordered }),
    by: command.by,
  });
  dropFacilitation(decision);
  goOn(decision);
  return null;
}

/** Applies the facilitator's choice of the next speaker. */
export function choose(decision: DecisionBuilder, command: CommandOf<'choose'>): Refusal | null {
  const { facilitation } = decision.floor;
  if (facilitation === null || facilitation.facilitator !== command.agent || facilitation.ask !== command.ask)
    return 'not-asked';
  facilitatorAnswered(decision, command.next, command.next === null ? 'no answer' : 'answered');
  return null;
}

/**
 * Grants the floor to the agent that the facilitator chose. Without a usable choice, a called agent or the next agent
 * in turn follows. A choice that comes before the history is read counts for nothing: the facilitator is asked again
 * later.
 */
export function facilitatorAnswered(
  decision: DecisionBuilder,
  next: AgentId | null,
  why: FactOf<'facilitatorAnswered'>['why'],
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

/** Ends the turn of an agent, or without `agent` the holder's turn, for an operator. Then advances the floor. */
export function skip(decision: DecisionBuilder, command: CommandOf<'skip'>): Refusal | null {
  const turn = command.agent === undefined ? decision.floor.turn : findTurn(decision.floor, command.agent);
  if (turn === null) return command.epoch === undefined ? 'nothing-to-stop' : 'stale-epoch';
  if (command.epoch !== undefined && command.epoch !== turn.epoch) return 'stale-epoch';
  finish(decision, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  decision.announce({ kind: 'skipped', agent: turn.agent });
  goOn(decision);
  return null;
}

/** For an operator, extends the holder's turn or wait. Without a holder, extends the first parked turn's wait. */
export function extend(decision: DecisionBuilder, command: CommandOf<'extend'>): Refusal | null {
  const turn = decision.floor.turn ?? decision.floor.parked[0];
  const { by, ms, epoch } = command;
  if (turn === undefined) return epoch === undefined ? 'nothing-to-stop' : 'stale-epoch';
  if (epoch !== undefined && epoch !== turn.epoch) return 'stale-epoch';
  const until = turn.status === 'active' && turn.deadlineAt !== null ? { until: turn.deadlineAt + ms } : {};
  decision.record({ type: 'turnExtended', agent: turn.agent, ms, ...until, by });
  return null;
}
