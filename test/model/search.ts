import type { Command } from '../../src/turns/floor/command.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { keyOf } from './abstraction.ts';
import type { Place } from './abstraction.ts';
import { checkHeard, followAnswers } from './answers.ts';
import { deadButtonOf } from './cards.ts';
import type { Channel } from './channels.ts';
import { checkFloor, checkStored } from './floors.ts';
import { checkSilence, heals } from './liveness.ts';
import { OF_PROGRAMS, movesFrom } from './moves.ts';
import type { Move } from './moves.ts';
import { of } from './step.ts';
import type { Step } from './step.ts';
import { checkRefusal, checkStep } from './steps.ts';
import { must, Violation } from './violation.ts';
import { isOnWay } from './ways.ts';
import type { Way } from './ways.ts';
import { flat } from '../turns/floor/flat-turn.ts';

/** A broken invariant and the shortest path to it from the empty floor. */
export type Found = {
  readonly channel: string;
  readonly invariant: string;
  readonly what: string;
  readonly trace: readonly { readonly at: Instant; readonly command: Command }[];
};

/** The result of a search. `diameter`: commands to the farthest state. `closed`: no new state was left to search. */
export type Explored = {
  readonly channel: string;
  readonly states: number;
  readonly transitions: number;
  readonly diameter: number;
  readonly closed: boolean;
  readonly found: readonly Found[];
};

/** The depth of a search. `first`: stop at the first broken invariant. */
export type Reach = { readonly depth: number; readonly first: boolean; readonly along?: Way };

/** Noon: a search meets midnight, when a daily budget renews, only by waiting for it. */
const NOON: Instant = 43_200_000;

/** Searches a channel breadth-first from the empty floor and checks every command in every state that it reaches. */
export function search(core: FloorMachine, channel: Channel, reach: Reach): Explored {
  const atlas = new Atlas(core, channel);
  let frontier = atlas.start();
  let depth = 0;
  for (; frontier.length > 0 && depth < reach.depth; depth += 1) {
    const next: Reached[] = [];
    for (const reached of frontier) {
      atlas.expand(reached, next, { depth, along: reach.along });
      if (reach.first && atlas.found.length > 0) return atlas.told(depth + 1, false);
    }
    frontier = next;
  }
  if (reach.along === undefined) atlas.checkWayBack(frontier);
  return atlas.told(depth, frontier.length === 0);
}

type Reached = { readonly index: number; readonly place: Place };

class Atlas {
  readonly found: Found[] = [];
  readonly #core: FloorMachine;
  readonly #channel: Channel;
  readonly #indexes = new Map<string, number>();
  /** By index of a place: the place before it, and the move from there. */
  readonly #parents: number[] = [];
  readonly #moves: (Move | null)[] = [];
  /** Every move to another place, as pairs of places. */
  readonly #edges: number[] = [];
  readonly #resting: number[] = [];
  #transitions = 0;

  constructor(core: FloorMachine, channel: Channel) {
    this.#core = core;
    this.#channel = channel;
  }

  start(): Reached[] {
    const empty: Place = { floor: this.#core.empty('model:one'), at: NOON, messages: 0, turns: 0, answers: {} };
    let reached = this.#reach(empty, -1, null);
    for (const command of this.#channel.opening) {
      if (reached === null) break;
      reached = this.#take(reached, { command, at: NOON });
    }
    return reached === null ? [] : [reached];
  }

  /** `along`: makes only the moves of that way, which begin with those of the opening. */
  expand(
    from: Reached,
    next: Reached[],
    { depth, along }: { readonly depth: number; readonly along: Way | undefined },
  ): void {
    const { floor } = from.place;
    for (const move of movesFrom(from.place, this.#channel, this.#core.nextDeadline(floor))) {
      const place = this.#channel.opening.length + depth;
      if (!isOnWay(along, place, { at: move.at, command: move.command })) continue;
      const reached = this.#take(from, move);
      if (reached !== null) next.push(reached);
    }
  }

  /**
   * I24: every place leads back to a free floor: over searched places, or from the edge of the search by a known cure.
   * Checks nothing after a broken invariant, because its path ends there.
   */
  checkWayBack(edge: readonly Reached[]): void {
    if (this.found.length > 0) return;
    const before: number[][] = this.#parents.map(() => []);
    for (let edgeAt = 0; edgeAt < this.#edges.length; edgeAt += 2) {
      before[this.#edges[edgeAt + 1] ?? 0]?.push(this.#edges[edgeAt] ?? 0);
    }
    const seen = new Uint8Array(this.#parents.length);
    const cured = edge.filter(({ place }) => heals(this.#core, place, this.#channel)).map(({ index }) => index);
    const open = [...this.#resting, ...cured];
    for (const index of open) seen[index] = 1;
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      for (const earlier of before[index] ?? []) {
        if (seen[earlier] === 1) continue;
        seen[earlier] = 1;
        open.push(earlier);
      }
    }
    const lost = seen.indexOf(0);
    if (lost !== -1) this.#report(new Violation('I24', 'there is no way back to a free floor'), lost, null);
  }

  told(depth: number, closed: boolean): Explored {
    return {
      channel: this.#channel.name,
      states: this.#parents.length,
      transitions: this.#transitions,
      diameter: this.#channel.opening.length + depth,
      closed,
      found: this.found,
    };
  }

  /** Makes a move. Returns the next place if it is new, else `null`. Records a broken invariant. */
  #take(from: Reached, move: Move): Reached | null {
    this.#transitions += 1;
    try {
      const place = follow(this.#core, from.place, move);
      return place === null ? null : this.#reach(place, from.index, move);
    } catch (error) {
      this.#report(error, from.index, move);
      return null;
    }
  }

  #reach(place: Place, parent: number, move: Move | null): Reached | null {
    const key = keyOf(place);
    const known = this.#indexes.get(key);
    const index = known ?? this.#parents.length;
    if (parent !== -1 && parent !== index) this.#edges.push(parent, index);
    if (known !== undefined) return null;
    this.#indexes.set(key, index);
    this.#parents.push(parent);
    this.#moves.push(move);
    const { floor } = place;
    if (floor.turn === null && floor.parked.length === 0 && floor.held.length === 0) this.#resting.push(index);
    freeze(floor);
    checkStored(floor);
    checkSilence(this.#core, place);
    const dead = deadButtonOf(this.#core, floor, place.at);
    must(dead === null, 'card', `a button of the card is refused: ${dead}`);
    return { index, place };
  }

  #report(error: unknown, index: number, move: Move | null): void {
    const invariant = error instanceof Violation ? error.invariant : 'total';
    const what = error instanceof Error ? error.message : String(error);
    if (this.found.some((found) => found.invariant === invariant && found.what === what)) return;
    const moves: Move[] = move === null ? [] : [move];
    for (let at = index; at > 0; at = this.#parents[at] ?? 0) {
      const earlier = this.#moves[at];
      if (earlier != null) moves.unshift(earlier);
    }
    const trace = moves.map(({ at, command }) => ({ at, command }));
    this.found.push({ channel: this.#channel.name, invariant, what, trace });
  }
}

/** Makes a move and checks its results. `null` when it leads to no new place. */
export function follow(core: FloorMachine, place: Place, move: Move): Place | null {
  const { floor, turns, messages, answers } = place;
  const { command, at } = move;
  const decision = core.decide(floor, command, at);
  if (!decision.ok) {
    checkRefusal(core, floor, decision, at);
    checkHeard(floor, command);
    return move.passes === true ? { ...place, at } : null;
  }
  const invariant = command.type === 'tick' ? 'I14' : command.type === 'receive' ? 'I8' : 'I2';
  must(move.refused !== true, invariant, `a ${command.type} without a claim is accepted`);
  const step = checkStep(core, { before: floor, command, at }, decision);
  checkFloor(decision.floor, at);
  checkAgain(core, step);
  const counted = countTurns(turns, step);
  must(counted <= floor.settings.maxTurns, 'I20', 'more turns than allowed since a person last wrote');
  const received = command.type === 'receive' ? 1 : 0;
  const owed = followAnswers(answers, step);
  return { floor: decision.floor, at, messages: messages + received, turns: counted, answers: owed };
}

/** I2 and I14: the same deadline or end counts once, and no passed deadline remains. */
function checkAgain(core: FloorMachine, { command, before, after, at, facts }: Step): void {
  const next = core.nextDeadline(after);
  must(next === earliest(after), 'I14', 'the alarm is set for another instant than the earliest deadline');
  const late = core.nextDeadline(before);
  const isPunctual = command.type === 'tick' || (!before.catchingUp && (late === null || late > at));
  const isOwnWord = command.type !== 'say' || command.workedAt === undefined;
  must(!isPunctual || !isOwnWord || next === null || next > at, 'I14', 'a deadline stays behind');
  const isEnd = command.type === 'end' && of(facts, 'turnEnded').length > 0;
  if (!isEnd && command.type !== 'tick') return;
  must(!core.decide(after, command, at).ok, isEnd ? 'I2' : 'I14', `the same ${command.type} counts twice`);
}

/** The earliest instant at which a floor must change by itself, computed a second time. */
function earliest(floor: Floor): Instant | null {
  const turns = floor.turn === null ? floor.parked : [floor.turn, ...floor.parked];
  const hears = !floor.catchingUp;
  const instants = turns.map(flat).flatMap(({ status, wait, deadlineAt, hardEndAt, silenceAt }) => {
    if (wait === null) return hears || status !== 'suspended' ? [deadlineAt, hardEndAt, silenceAt] : [];
    return wait.ready || wait.of?.is === 'granted' ? [] : [hears ? wait.deadlineAt : null, wait.graceEndAt];
  });
  const renewal = hears ? floor.limit?.until : null;
  const all = [...instants, floor.facilitation?.deadlineAt, renewal].filter((at) => at != null);
  return all.length === 0 ? null : Math.min(...all);
}

/** I20: agent turns since a person's message was first heard or a person allowed more, counted only from facts. */
function countTurns(turns: number, { command, facts }: Step): number {
  let count = command.type === 'start' || command.type === 'resume' || command.type === 'grant' ? 0 : turns;
  for (const fact of facts) {
    // A message that cannot be held is heard, too, when it opens an exchange.
    const isHeard = ({ line, fate }: Extract<Fact, { type: 'messageRouted' }>): boolean =>
      line !== null || (fate.state === 'unrouted' && facts.some(({ type }) => type === 'exchangeOpened'));
    if (fact.type === 'messageRouted' && isHeard(fact) && !fact.id.startsWith(OF_PROGRAMS)) count = 0;
    if (fact.type === 'turnGranted' && command.type !== 'grant') count += 1;
    if (fact.type === 'turnEnded' && fact.uncounted === true) count = Math.max(0, count - 1);
  }
  return count;
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const part of Object.values(value)) freeze(part);
}
