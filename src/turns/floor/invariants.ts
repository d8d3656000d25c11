import type { Floor } from './floor.ts';
import { gate, obstacles, nextUp } from './gate.ts';
import type { Instant } from '../../lib/time.ts';

/** A rule that every floor keeps, and how this one breaks it. */
export type Violation = { readonly rule: 'I1' | 'I2' | 'I4' | 'I6' | 'I10'; readonly text: string };

/**
 * What is wrong with a floor after a decision; nothing, unless there is a bug.
 * I1: at most one seat holds, and it is the one whose turn it is. I2: epochs only grow.
 * I4: a free floor does not stand idle while somebody is due. I6: QUEUED is to be in the queue once.
 * I10: no turn begins or goes on under a new epoch before the channel's history has been read.
 */
export function violations(before: Floor, after: Floor, at: Instant): readonly Violation[] {
  return [...holding(after), ...epochs(before, after), ...working(after, at), ...queue(after)];
}

/** Throws when a floor breaks a rule: nothing of the decision is stored then. */
export function assertFloor(before: Floor, after: Floor, at: Instant): void {
  const [first] = violations(before, after, at);
  if (first !== undefined) throw new Error(`impossible: ${first.rule} in ${after.channel}: ${first.text}`);
}

function holding(floor: Floor): readonly Violation[] {
  const found: Violation[] = [];
  const { turn, parked } = floor;
  const wanted = new Map<string, string>(parked.map(({ agent }) => [agent, 'WAITING']));
  if (turn !== null) wanted.set(turn.agent, turn.status === 'waiting' ? 'WAITING' : 'ACTIVE');
  for (const { agent, status } of floor.seats) {
    const isOpen = status === 'ACTIVE' || status === 'WAITING';
    if ((wanted.get(agent) ?? (isOpen ? 'no turn' : status)) !== status) {
      found.push({ rule: 'I1', text: `${agent} is ${status}, its turn says ${wanted.get(agent) ?? 'nothing'}` });
    }
  }
  if (wanted.size !== parked.length + (turn === null ? 0 : 1))
    found.push({ rule: 'I1', text: 'an agent has two turns' });
  return found;
}

function epochs(before: Floor, after: Floor): readonly Violation[] {
  const isNew = after.turn !== null && after.turn.epoch !== before.turn?.epoch;
  if (isNew && after.catchingUp) return [{ rule: 'I10', text: `epoch ${after.epoch} before the history was read` }];
  if (after.epoch < before.epoch || (isNew && (after.turn?.epoch ?? 0) <= before.epoch)) {
    return [{ rule: 'I2', text: `epoch ${after.turn?.epoch ?? after.epoch} came after ${before.epoch}` }];
  }
  return [];
}

function working(floor: Floor, at: Instant): readonly Violation[] {
  if (gate(floor, at, 'next') !== null) return [];
  const next = nextUp(floor);
  if (next.kind === 'later') return [];
  return next.kind === 'agent' && obstacles(floor, at).some(({ why }) => why === 'over-budget')
    ? []
    : [{ rule: 'I4', text: 'the floor is open and nobody was granted it' }];
}

function queue(floor: Floor): readonly Violation[] {
  const queued = floor.seats.filter((seat) => seat.status === 'QUEUED').map((seat) => seat.agent);
  const isExact = queued.length === floor.queue.length && queued.every((agent) => floor.queue.includes(agent));
  return isExact
    ? []
    : [{ rule: 'I6', text: `the queue is ${floor.queue.join(', ')}, QUEUED are ${queued.join(', ')}` }];
}
