import { isDeepStrictEqual } from 'node:util';
import { floorSchema } from '../../src/turns/floor/floor.ts';
import type { Floor, Seat, Turn } from '../../src/turns/floor/floor.ts';
import type { AgentId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import { outstanding, turnsOf } from './abstraction.ts';
import { must } from './violation.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';

/** Checks the invariants that hold in every state of a floor. Throws a `Violation`. */
export function checkFloor(floor: Floor, at: Instant): void {
  checkHolder(floor);
  checkSeats(floor);
  checkCalls(floor);
  checkMessages(floor);
  checkWorking(floor, at);
  checkBounds(floor);
  checkTrust(floor);
}

/** I28: an agent's folder has at most one open question. */
function checkTrust({ trust = [] }: Floor): void {
  must(
    new Set(trust.map(({ agent }) => agent)).size === trust.length,
    'I28',
    'two questions about one folder are open',
  );
}

/** I16: the floor is plain JSON that its own schema reads back unchanged. */
export function checkStored(floor: Floor): void {
  const read = floorSchema.safeParse(JSON.parse(JSON.stringify(floor)));
  must(read.success && isDeepStrictEqual(read.data, floor), 'I16', 'the floor does not survive being stored');
}

function checkHolder(floor: Floor): void {
  const turns = turnsOf(floor);
  const active = floor.seats.filter((seat) => seat.status === 'ACTIVE');
  const waiting = floor.seats.filter((seat) => seat.status === 'WAITING');
  const speaks = (turn: Turn | null): boolean => turn !== null && waitOf(turn) === null;
  must(active.length <= 1, 'I1', 'two seats are ACTIVE');
  must(
    active.every((seat) => floor.turn?.agent === seat.agent && speaks(floor.turn)),
    'I1',
    'an ACTIVE seat has no turn',
  );
  must(!speaks(floor.turn) || active.length === 1, 'I1', 'the floor is held by a seat that is not ACTIVE');
  must(
    waiting.every((seat) => turns.some((turn) => turn.agent === seat.agent && waitOf(turn) !== null)),
    'I1',
    'a WAITING seat has no turn that waits',
  );
  must(
    turns.length === active.length + waiting.length,
    'I1',
    'a turn belongs to a seat that is neither ACTIVE nor WAITING',
  );
  must(
    floor.parked.every((turn) => waitOf(turn) !== null),
    'I1',
    'a turn without the floor does not wait',
  );
  must(
    floor.parked.every((turn) => waitOf(turn)?.reason !== 'human' || waitOf(turn)?.ready === true),
    'I4',
    'an interrupted turn lent its floor and would not get it back',
  );
  for (const turn of floor.parked) {
    const wait = waitOf(turn);
    const asked = wait?.reason === 'answer' && !wait.ready ? wait.of : undefined;
    if (asked === undefined) continue;
    const { status } = floor.seats.find((seat) => seat.agent === asked.agent) ?? { status: 'OFFLINE' };
    const hasTurn = turns.some(({ agent }) => agent === asked.agent);
    const isOpen = asked.is === 'asked' ? status !== 'OFFLINE' && status !== 'IDLE' : asked.is === 'granted' && hasTurn;
    must(isOpen, 'I4', 'an agent waits for an answer that cannot come');
  }
  must(new Set(turns.map((turn) => turn.agent)).size === turns.length, 'I1', 'an agent has two turns');
  must(
    turns.every((turn) => turn.epoch <= floor.epoch) && new Set(turns.map((turn) => turn.epoch)).size === turns.length,
    'I2',
    'two turns share an epoch, or one is ahead of the floor',
  );
  const isFenced = floor.turn === null || waitOf(floor.turn) !== null || floor.turn.status === 'suspended';
  must(isFenced || floor.turn.epoch === floor.epoch, 'I2', 'the speaker has another epoch than the floor');
}

function checkSeats(floor: Floor): void {
  const queued = floor.seats.filter((seat) => seat.status === 'QUEUED').map((seat) => seat.agent);
  must(new Set(floor.queue).size === floor.queue.length, 'I6', 'an agent is queued twice');
  must(
    queued.length === floor.queue.length && queued.every((agent) => floor.queue.includes(agent)),
    'I6',
    'QUEUED and the queue differ',
  );
  for (const seat of floor.seats) {
    must(!seat.disabled || seat.status === 'OFFLINE', 'I6', 'a disabled agent is not OFFLINE');
    must(!seat.present || seat.disabled || seat.status !== 'OFFLINE', 'I6', 'a connected agent is OFFLINE');
    must(seat.assigned || !floor.queue.includes(seat.agent), 'I6', 'an agent that is not assigned is queued');
    must(seat.seenLine <= floor.lines, 'I8', 'an agent has seen what was not yet said');
  }
}

const RANKS = ['operator', 'person', 'agent'];

function checkCalls(floor: Floor): void {
  const { prioritised: called } = floor;
  const queued = new Set(floor.seats.filter((seat) => seat.status === 'QUEUED').map((seat) => seat.agent));
  must(new Set(called.map((call) => call.agent)).size === called.length, 'I5', 'an agent is called twice');
  must(
    called.every((call) => queued.has(call.agent)),
    'I5',
    'somebody is called who is not QUEUED',
  );
  const ranks = called.map((call) => RANKS.indexOf(call.by));
  must(
    ranks.every((rank, index) => index === 0 || (ranks[index - 1] ?? 0) <= rank),
    'I5',
    'a call goes before one of higher rank',
  );
}

function checkMessages(floor: Floor): void {
  const kept = outstanding(floor);
  must(new Set(kept).size === kept.length, 'I8', 'a message is kept in two places');
  const orders = floor.held.filter((held) => held.order !== '').map((held) => Number(held.order));
  must(
    orders.every((order, index) => index === 0 || (orders[index - 1] ?? 0) < order),
    'I9',
    "held messages are not in the platform's order",
  );
}

/** True when the floor counts the agent as connected. */
export function isPresent(floor: Floor, agent: AgentId): boolean {
  return floor.seats.some((seat) => seat.agent === agent && seat.present);
}

/** True when the agent may be granted the floor at once. */
export function isReady(seat: Seat): boolean {
  return seat.status === 'QUEUED' && seat.present;
}

/** Seats that the order policy still gives a turn in this exchange, in the queue's order. Calls do not count. */
export function owed(floor: Floor): readonly Seat[] {
  const { order, rounds } = floor.settings;
  if (order === 'manual' || order === 'mention') return [];
  const seats = floor.queue.flatMap((agent) => floor.seats.filter((seat) => seat.agent === agent));
  return seats.filter((seat) => isReady(seat) && (rounds === 0 || seat.taken < rounds));
}

/** The called agents that may be granted the floor at once. */
export function callable(floor: Floor): readonly AgentId[] {
  return floor.prioritised
    .filter((call) => floor.settings.order !== 'manual' || call.by === 'operator')
    .map((call) => call.agent)
    .filter((agent) => floor.seats.some((seat) => seat.agent === agent && isReady(seat)));
}

/** True while a used-up daily budget keeps all agents silent. */
export function isBarred(floor: Floor, at: Instant): boolean {
  const until = floor.limit?.until ?? null;
  return until !== null && at < until;
}

/** True when agents used up their budget without a person, or were stopped: programs prompt no agent then. */
export function isUsedUp(floor: Floor): boolean {
  const { settings, day } = floor;
  const { turns, tokens } = floor.usageSincePerson;
  const isOver = (used: number, most: number | null): boolean => most !== null && used >= most;
  return (
    floor.stopped ||
    floor.limit !== null ||
    turns >= settings.maxTurns ||
    isOver(tokens, settings.exchangeBudget.tokens) ||
    isOver(day.tokens, settings.dayBudget.tokens)
  );
}

/** I4 and I9: a free floor keeps neither a due agent nor a message waiting, except for a stated reason. */
function checkWorking(floor: Floor, at: Instant): void {
  if (floor.turn !== null || floor.facilitation !== null || floor.catchingUp || floor.condition === 'paused') return;
  must(
    !floor.parked.some((turn) => waitOf(turn)?.ready === true && isPresent(floor, turn.agent)),
    'I4',
    'a turn that may go on does not',
  );
  if (floor.condition === 'open') {
    must(owed(floor).length === 0, 'I4', 'the floor is free and somebody is due');
    must(callable(floor).length === 0, 'I4', 'the floor is free and somebody was called');
  }
  // Under the order "review", a message waits for the review that it opens.
  const isAutomatic = !['manual', 'mention', 'review'].includes(floor.settings.order);
  const isDue = floor.held.some(
    (held) => held.until !== 'next' && ((held.fromProgram !== true && held.line === null) || floor.limit === null),
  );
  if (floor.stopped || isBarred(floor, at) || !isAutomatic || !isDue) return;
  must(!floor.seats.some(isReady), 'I9', 'a held message waits on a free floor though somebody could answer');
}

function checkBounds(floor: Floor): void {
  const { exchange } = floor;
  must(
    (floor.condition === 'open') === (exchange !== null) || floor.condition === 'paused',
    'I4',
    'open without an exchange',
  );
}
