import type { CommandOf } from '../command.ts';
import type { Refusal } from '../refusals.ts';
import { findSeat } from '../seats.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { closeExchange, finish, openExchange, recall } from './decision-builder.ts';
import { advance, goOn } from './turns.ts';

/** Begins a review. A turn that is under way goes on to its end. */
export function beginReview(decision: DecisionBuilder, command: CommandOf<'beginReview'>): Refusal | null {
  const { type: _type, ...parts } = command;
  const { primary, reviewer } = parts;
  const { review } = decision.floor;
  if (review !== undefined) return 'already';
  if ([primary, reviewer].some((agent) => findSeat(decision.floor, agent) === undefined)) return 'not-seated';
  decision.record({ type: 'usageReset', why: 'person' });
  decision.record({ type: 'reviewBegun', ...parts });
  recall(decision);
  return null;
}

/** Grants the turn that the review asks for, as soon as the floor is free. */
export function askReviewTurn(decision: DecisionBuilder, command: CommandOf<'askReviewTurn'>): Refusal | null {
  const { id, agent, brief } = command;
  if (decision.floor.review?.id !== id) return 'not-asked';
  decision.record({ type: 'reviewTurnAsked', agent, brief });
  recall(decision);
  const { exchange, condition, stopped, limit } = decision.floor;
  const isResting = exchange === null && condition !== 'paused' && !stopped && limit === null;
  if (isResting) openExchange(decision, null);
  advance(decision);
  return null;
}

/** Announces the state of the review. A review that asks people asks for no turn meanwhile. */
export function tellReview(decision: DecisionBuilder, { announcement }: CommandOf<'tellReview'>): Refusal | null {
  if (decision.floor.review?.id !== announcement.id) return 'not-asked';
  decision.announce(announcement);
  if (announcement.kind !== 'reviewAsks') return null;
  decision.record({ type: 'reviewHeld' });
  goOn(decision);
  return null;
}

/** Ends the review with its turn, and announces its report. Messages that waited for its agents go on by the channel's order. */
export function endReview(decision: DecisionBuilder, { report }: CommandOf<'endReview'>): Refusal | null {
  if (decision.floor.review?.id !== report.id) return 'not-asked';
  const { turn } = decision.floor;
  if (turn?.brief !== undefined) finish(decision, turn, { outcome: 'revoked', trigger: 'SKIPPED', to: 'QUEUED' });
  decision.record({ type: 'reviewOver', id: report.id });
  decision.announce({ kind: 'reviewOver', ...report });
  const { exchange, parked } = decision.floor;
  if (decision.floor.turn === null && parked.length === 0 && exchange !== null) closeExchange(decision);
  goOn(decision);
  return null;
}
