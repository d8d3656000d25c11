import type { Refusal } from '../command.ts';
import { compareOrder, evolve, isNewFromPerson } from '../evolve.ts';
import type { Announcement, Fact, Fate } from '../fact.ts';
import type { Floor, Held } from '../floor.ts';
import type { FloorSettings } from '../settings.ts';
import { speaking } from '../seats.ts';
import type { Instant } from '../../../lib/time.ts';
import { obstacles } from '../gate.ts';
import type { Obstacle } from '../gate.ts';

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
    this.record({ type: 'messageRouted', id, fate, line, addressed, order, ...written, holder });
  }

  /** Tells people something, as an edit of the last announcement if that said the same. */
  announce(announcement: Announcement): void {
    const key = keyOf(announcement);
    const { notice, settings } = this.#floor;
    const repeat = notice?.key === key ? notice.count + 1 : 1;
    this.record({ type: 'announced', announcement, key, repeat, shown: isShown(announcement.kind, settings) });
  }

  accept(): Accepted {
    return { ok: true, facts: this.facts, floor: this.#floor };
  }
}

/** What says the same has the same key. Every question is another one: none is ever an edit of the one before. */
function keyOf(announcement: Announcement): string {
  if (announcement.kind === 'approval') return `approval:${announcement.question}`;
  return 'agent' in announcement ? `${announcement.kind}:${announcement.agent}` : announcement.kind;
}

function isShown(kind: Announcement['kind'], settings: FloorSettings): boolean {
  switch (kind) {
    case 'timeout':
    case 'waitTimeout':
      return settings.announceTimeouts;
    case 'disconnect':
      return settings.announceDisconnects;
    case 'nobody':
      return settings.announceNobody;
    case 'limit':
      return settings.announceLimits;
    case 'recovered':
    case 'gap':
      return settings.announceRecovery;
    case 'undelivered':
    case 'stopped':
    case 'approval':
    case 'unasked':
      return true;
  }
}

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
