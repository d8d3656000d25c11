import { defined } from '../../../lib/defined.ts';
import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import { findSeat, turnsOf } from '../seats.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { closeExchange, finish, openExchange, recall } from './decision-builder.ts';
import { advance, goOn } from './turns.ts';

/** Begins a task, and resets usage. `within`: the id of the open task, which rests until this one ends. */
export function beginTask(decision: DecisionBuilder, command: CommandOf<'beginTask'>): Refusal | null {
  const { type: _type, ...parts } = command;
  const { primary, reviewer, within } = parts;
  const { task } = decision.floor;
  if (task !== undefined && (task.id !== within || task.next !== null || task.outer !== undefined)) return 'already';
  const agents = reviewer === undefined ? [primary] : [primary, reviewer];
  if (agents.some((agent) => findSeat(decision.floor, agent) === undefined)) return 'not-seated';
  decision.record({ type: 'usageReset', why: 'person' });
  decision.record({ type: 'taskBegun', ...parts });
  recall(decision);
  return null;
}

/** Records the turn that the task asks for, and grants the turn if nothing prevents that now. */
export function askTaskTurn(decision: DecisionBuilder, command: CommandOf<'askTaskTurn'>): Refusal | null {
  const { id, agent, brief, fresh, apart } = command;
  if (decision.floor.task?.id !== id) return 'not-asked';
  decision.record({ type: 'taskTurnAsked', agent, brief, ...defined({ fresh, apart }) });
  recall(decision);
  const { exchange, condition, stopped, limit } = decision.floor;
  const isResting = exchange === null && condition !== 'paused' && !stopped && limit === null;
  if (isResting) openExchange(decision, null);
  advance(decision);
  return null;
}

/** Makes the task wait: drops the turn that the task asked for, if it is not granted yet. */
export function holdTask(decision: DecisionBuilder, { id }: CommandOf<'holdTask'>): Refusal | null {
  if (decision.floor.task?.id !== id) return 'not-asked';
  decision.record({ type: 'taskHeld' });
  goOn(decision);
  return null;
}

/** Makes another agent the reviewer of the open task. */
export function setReviewer(decision: DecisionBuilder, { id, reviewer }: CommandOf<'setReviewer'>): Refusal | null {
  if (decision.floor.task?.id !== id) return 'not-asked';
  if (findSeat(decision.floor, reviewer) === undefined) return 'not-seated';
  decision.record({ type: 'reviewerSet', reviewer });
  return null;
}

/** Announces the state of a task. If a review then waits for people, the turn that it asked for is dropped. */
export function tellTask(decision: DecisionBuilder, { announcement }: CommandOf<'tellTask'>): Refusal | null {
  if (announcement.kind !== 'ticket' && decision.floor.task?.id !== announcement.id) return 'not-asked';
  decision.announce(announcement);
  if (announcement.kind !== 'reviewAsks') return null;
  decision.record({ type: 'taskHeld' });
  goOn(decision);
  return null;
}

/**
 * Ends a task and announces its report. Ends all turns that the task asked for, also those without the floor. The end
 * of a task that rests behind another one ends no turn.
 */
export function endTask(decision: DecisionBuilder, { report }: CommandOf<'endTask'>): Refusal | null {
  const { task } = decision.floor;
  if (task?.outer?.id === report.id) {
    decision.record({ type: 'taskOver', id: report.id });
    decision.announce(report);
    return null;
  }
  if (task?.id !== report.id) return 'not-asked';
  for (const turn of turnsOf(decision.floor))
    if (turn.brief !== undefined) finish(decision, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  decision.record({ type: 'taskOver', id: report.id });
  decision.announce(report);
  const { exchange, parked } = decision.floor;
  if (decision.floor.turn === null && parked.length === 0 && exchange !== null) closeExchange(decision);
  goOn(decision);
  return null;
}
