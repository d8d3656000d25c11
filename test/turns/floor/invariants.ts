import assert from 'node:assert/strict';
import type { Effect } from '../../../src/turns/floor/react.ts';
import type { Fact } from '../../../src/turns/floor/fact.ts';
import type { Floor } from '../../../src/turns/floor/floor.ts';
import { isAllowed, waitOf } from '../../../src/turns/floor/seats.ts';
import type { Instant } from '../../../src/lib/time.ts';

/** Checks the invariants of every floor. */
export function checkFloor(floor: Floor, context: string): void {
  assert(isHeldOnce(floor), `at most one seat holds the floor ${context}: ${describe(floor)}`);
  assert(isQueueExact(floor), `QUEUED and the queue are the same ${context}: ${describe(floor)}`);
  assert(isWorking(floor), `a free floor goes to whoever is next ${context}: ${describe(floor)}`);
  assert(new Set(floor.held.map((held) => held.id)).size === floor.held.length, `a message is held once ${context}`);
}

/** Checks the invariants of every fact, given the floor before it. */
export function checkFact(floor: Floor, fact: Fact, at: Instant): void {
  const status = (agent: string) => floor.seats.find((seat) => seat.agent === agent)?.status;
  if (fact.type === 'seatMoved') {
    assert.equal(status(fact.agent), fact.from, `${fact.agent} is where it moves from`);
    assert(isAllowed(fact.from, fact.to, fact.trigger), `${fact.from}>${fact.to} ${fact.trigger} is in the table`);
  }
  if (fact.type === 'turnGranted') {
    assert(fact.epoch > floor.epoch, 'every grant has a new epoch');
    assert(isPresent(floor, fact.agent), 'a turn is granted to an agent that is connected');
    assert(!floor.catchingUp, 'nothing is granted before the catch-up');
    assert.equal(floor.condition, 'open', 'turns are granted in an open exchange');
  }
  if (fact.type === 'turnResumed' && (fact.why === 'interrupt' || fact.why === 'restart')) {
    assert(fact.epoch > floor.epoch, 'a resume after an interrupt or a restart has a new epoch');
  }
  if (fact.type === 'said') {
    assert.equal(status(fact.agent), 'ACTIVE', 'only the holder speaks');
    assert.equal(fact.epoch, floor.turn?.epoch, 'what is said belongs to the turn under way');
    assert.equal(fact.line, floor.lines + 1, 'lines are numbered without a gap');
  }
  if (fact.type === 'facilitatorAsked') assert(fact.deadlineAt > at, 'a new deadline lies ahead');
  if (fact.type === 'turnWaited') assert(fact.wait.deadlineAt > at, 'a new deadline lies ahead');
}

/** Checks the invariants of every effect. */
export function checkEffect(effect: Effect): void {
  if (effect.type !== 'prompt') return;
  assert.equal(new Set(effect.messages).size, effect.messages.length, 'a prompt holds each message once');
  assert(effect.afterLine <= effect.uptoLine, 'a prompt holds lines in order');
}

function isHeldOnce(floor: Floor): boolean {
  const turns = [...(floor.turn === null ? [] : [floor.turn]), ...floor.parked];
  const active = floor.seats.filter((seat) => seat.status === 'ACTIVE');
  const waiting = floor.seats.filter((seat) => seat.status === 'WAITING');
  return (
    active.length <= 1 &&
    active.every((seat) => floor.turn?.agent === seat.agent && waitOf(floor.turn) === null) &&
    waiting.every((seat) => turns.some((turn) => turn.agent === seat.agent && waitOf(turn) !== null)) &&
    turns.length === active.length + waiting.length &&
    new Set(turns.map((turn) => turn.agent)).size === turns.length &&
    turns.every((turn) => turn.epoch <= floor.epoch)
  );
}

function isQueueExact(floor: Floor): boolean {
  const queued = floor.seats.filter((seat) => seat.status === 'QUEUED').map((seat) => seat.agent);
  return (
    queued.length === floor.queue.length &&
    new Set(floor.queue).size === floor.queue.length &&
    queued.every((agent) => floor.queue.includes(agent))
  );
}

/** With the orders `manual` and `mention` a free floor may rest, because it waits for a person. */
function isWorking(floor: Floor): boolean {
  const { order, rounds } = floor.settings;
  const { turn, facilitation, catchingUp, task } = floor;
  const busy = turn !== null || facilitation !== null || catchingUp || task !== undefined;
  if (floor.condition !== 'open' || busy || order === 'manual' || order === 'mention') return true;
  const owed = floor.seats.filter(
    (seat) => seat.status === 'QUEUED' && seat.present && (rounds === 0 || seat.taken < rounds),
  );
  return owed.length === 0;
}

function isPresent(floor: Floor, agent: string): boolean {
  return floor.seats.some((seat) => seat.agent === agent && seat.present);
}

function describe(floor: Floor): string {
  const { condition, turn, parked, queue, facilitation, exchange } = floor;
  const seats = floor.seats.map((seat) => `${seat.agent} ${seat.status} ${seat.taken}`);
  return JSON.stringify({ condition, seats, queue, turn, parked, facilitation, exchange });
}
