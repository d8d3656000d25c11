import type { DecisionBuilder } from './decision-builder.ts';
import { compareOrder, isNewFromPerson } from '../evolve.ts';
import type { Held } from '../floor.ts';
import { obstacles } from '../gate.ts';
import type { Obstacle } from '../gate.ts';

/** What came with this command and what was held before it, in the platform's order. */
export function pending(decision: DecisionBuilder): readonly Held[] {
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

/** Queues the seats that were alone and went to rest (the owner's "or IDLE if solo"). */
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
  if (overBudget(decision)?.until === null && pending(decision).some(isNewFromPerson)) openExchange(decision, 'person');
  const over = overBudget(decision);
  if (over === undefined) return false;
  decision.record({ type: 'exchangeClosed', reason: 'limit', budget: over.limit.budget, until: over.until });
  decision.announce({ kind: 'limit', ...over.limit });
  return true;
}

function overBudget(decision: DecisionBuilder): Extract<Obstacle, { why: 'over-budget' }> | undefined {
  return obstacles(decision.floor, decision.at).find((obstacle) => obstacle.why === 'over-budget');
}
