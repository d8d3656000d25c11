import type { Deliberation } from './decision-builder.ts';
import { compareOrder, isNewFromPerson } from '../evolve/evolve-message.ts';
import type { Held } from '../floor.ts';
import { obstacles } from '../gate.ts';
import type { Obstacle } from '../gate.ts';

/** What came with this command and what was held before it, in the platform's order. */
export function pending(d: Deliberation): readonly Held[] {
  const held = d.floor.held.filter((message) => !d.unplaced.some((fresh) => fresh.id === message.id));
  return [...held, ...d.unplaced].sort((a, b) => compareOrder(a.order, b.order));
}

/** Opens an exchange, or starts the rounds of the one that is open anew; `renews`: and gives agents anew what they may use. */
export function openExchange(d: Deliberation, renews: 'person' | 'operator' | null): void {
  if (d.floor.facilitation !== null) d.record({ type: 'facilitatorAnswered', next: null, why: 'overtaken' });
  if (renews !== null) d.record({ type: 'usageReset', why: renews });
  d.record({ type: 'exchangeOpened' });
}

/** Queues the seats that were alone and went to rest (the owner's "or IDLE if solo"). */
export function recall(d: Deliberation): void {
  for (const seat of d.floor.seats) {
    if (seat.status === 'IDLE' && seat.assigned) {
      d.record({ type: 'seatMoved', agent: seat.agent, from: 'IDLE', to: 'QUEUED', trigger: 'RECALLED' });
    }
  }
}

export function closeExchange(d: Deliberation): void {
  const { exchange, queue } = d.floor;
  const silent = exchange !== null && exchange.silent > 0 && exchange.silent >= queue.length;
  d.record({ type: 'exchangeClosed', reason: silent ? 'silent' : 'done' });
}

/** A person's word that the next grant brings renews what an exchange may use. */
export function isOverBudget(d: Deliberation): boolean {
  if (overBudget(d)?.until === null && pending(d).some(isNewFromPerson)) openExchange(d, 'person');
  const over = overBudget(d);
  if (over === undefined) return false;
  d.record({ type: 'exchangeClosed', reason: 'limit', budget: over.limit.budget, until: over.until });
  d.announce({ kind: 'limit', ...over.limit });
  return true;
}

function overBudget(d: Deliberation): Extract<Obstacle, { why: 'over-budget' }> | undefined {
  return obstacles(d.floor, d.at).find((obstacle) => obstacle.why === 'over-budget');
}
