import type { Command, TurnDraft } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { ChannelId } from '../../src/turns/floor/settings.ts';
import type { Instant, Timer } from '../../src/lib/time.ts';
import type { TurnManager } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { SlowFloors } from '../turns/slow-floors.ts';
import type { Commit, Moment } from '../turns/slow-floors.ts';
import type { Found } from './search.ts';
import { must, Violation } from './violation.ts';

/** The result of a search: the schedules, the steps of store and timers in them, and the broken invariants. */
export type Rounds = { readonly schedules: number; readonly steps: number; readonly found: readonly Found[] };

/** `events`: the most events out of order in a schedule. `first`: stop at the first broken invariant. */
export type Reach = { readonly events: number; readonly first: boolean };

const NOON: Instant = 43_200_000;
const A: ChannelId = 'model:a';
const B: ChannelId = 'model:b';
const C: ChannelId = 'model:c';
const LIMIT_MS = 8;
/** Milliseconds between the grants of the first and of the second channel. */
const APART_MS = 3;
/** The wait of an agent in the first channel. It ends just before the turn of the agent that got its floor. */
const WAIT_MS = LIMIT_MS - 1;
/** Delays of an event, chosen around the distance of two deadlines and the length of a turn. */
const PASSES_MS = [1, 4, 9];
/** The delay until a deadline whose commit failed is tried again. */
const AGAIN_MS = 1_000;
const LATEST_MS = 250;
/** The length of a standstill of the process: longer than a turn. */
const STANDS_MS = LIMIT_MS + 1;
/** The number of looks in a row during which an overloaded machine stands still. */
const STANDS_AGAIN = 4;
/** A limit that no schedule reaches. */
const MOST_STEPS = 400;
const NO_ROOM = new Error('no room');

/**
 * Plays the manager against floors in memory, in every order of a few events. Events: time that passes before or during
 * a look or a commit, one standstill of the process or several in a row, a timer that rings early or late, a store that
 * answers before a timer, a commit that fails, and acts of people and agents. Two channels have turns with close limits; a third channel may begin.
 */
export async function searchRounds(Manager: typeof TurnManager, { events, first }: Reach): Promise<Rounds> {
  const found: Found[] = [];
  let schedules = 0;
  let steps = 0;
  for (let taken: readonly number[] | null = []; taken !== null;) {
    const choices = new Choices(taken, events);
    const play = new Play(Manager, choices);
    const error = await play.run().then(
      () => null,
      (failure: unknown) => failure,
    );
    schedules += 1;
    steps += play.steps;
    if (error !== null) {
      note(found, error, play);
      if (first) break;
    }
    taken = choices.next();
  }
  return { schedules, steps, found };
}

function note(found: Found[], error: unknown, { trace }: Play): void {
  const invariant = error instanceof Violation ? error.invariant : 'total';
  const what = error instanceof Error ? error.message : String(error);
  if (found.some((other) => other.invariant === invariant && other.what === what)) return;
  found.push({ channel: 'rounds of deadlines', invariant, what, trace });
}

/** The choices of a schedule: at each point no event (0) or one of several, with a limit of events in total. */
class Choices {
  readonly #taken: number[];
  readonly #options: number[] = [];
  #left: number;

  constructor(taken: readonly number[], events: number) {
    this.#taken = [...taken];
    this.#left = events;
  }

  /** Returns a choice between 0 and `options` - 1. */
  take(options: number): number {
    const at = this.#options.push(this.#left > 0 ? options : 1) - 1;
    const choice = this.#taken[at] ?? 0;
    this.#taken[at] = choice;
    if (choice > 0) this.#left -= 1;
    return choice;
  }

  /** The choices of the next schedule; `null` after the last. */
  next(): readonly number[] | null {
    const turn = this.#options.findLastIndex((options, at) => (this.#taken[at] ?? 0) + 1 < options);
    return turn === -1 ? null : [...this.#taken.slice(0, turn), (this.#taken[turn] ?? 0) + 1];
  }
}

type Waiting = { readonly moment: Moment; readonly go: () => void; readonly fail: (error: Error) => void };
type Ringing = { readonly at: Instant; readonly ring: () => void };

const START: Command = { type: 'start', by: 'ada' };

/** Plays one schedule. */
class Play {
  /** The commands in the order of their commits. */
  readonly trace: { readonly at: Instant; readonly command: Command }[] = [];
  steps = 0;
  #now = NOON;
  /** The set timers, the earliest first. */
  #timers: readonly Ringing[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #choices: Choices;
  readonly #floors: SlowFloors;
  readonly #manager: TurnManager;
  /** The draft in the first channel that people have seen. `null` once it was taken. */
  #draft: TurnDraft | null = { agent: 'dev', epoch: 2, text: 'half a sentence', mentions: [], workedAt: NOON };
  readonly #failed = new Set<ChannelId>();
  #isUntold = false;
  #stoodStillMs = 0;
  /** The ends of the standstills. */
  readonly #stoodUntil: Instant[] = [];
  /** By channel: when its last turn was granted. */
  readonly #grantedAt = new Map<ChannelId, Instant>();
  /** How many more looks the process stands still in. */
  #standsAgain = 0;
  /** The first error of a call that nobody awaits. */
  #broken: { readonly error: unknown } | null = null;

  constructor(Manager: typeof TurnManager, choices: Choices) {
    this.#choices = choices;
    this.#floors = new SlowFloors({ pass: (moment) => this.#pass(moment), committed: (commit) => this.#judge(commit) });
    for (const channel of [A, B, C]) this.#floors.floors.set(channel, seated(channel));
    this.#manager = new Manager({
      store: this.#floors.port,
      clock: { now: () => (this.#now += this.#choices.take(2)), stoodStillMs: () => this.#stoodStillMs },
      timers: { after: (ms, ring) => this.#after(ms, ring) },
      addressed: () => [],
      takeDraft: (channel) => this.#takeDraft(channel),
      changed: () => {},
      failed: (error) => this.#told(error),
    });
  }

  async run(): Promise<void> {
    this.#give(A, START);
    this.#give(A, { type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' });
    await this.#settle();
    this.#now = Math.max(this.#now, NOON + APART_MS);
    this.#give(B, START);
    for (;;) {
      await this.#settle();
      this.#checkRest();
      const [next] = this.#timers;
      if (next === undefined) return;
      this.#ring(next);
    }
  }

  /** Lets the manager work until it waits for a timer. */
  async #settle(): Promise<void> {
    for (;;) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
      if (this.#broken !== null) throw this.#broken.error;
      const [waiting] = this.#waiting;
      if (waiting === undefined) return;
      await this.#answer(waiting);
    }
  }

  /** Lets events happen before the store answers. A due timer rings before the answer or after it. */
  async #answer({ moment, go, fail }: Waiting): Promise<void> {
    const happenings: readonly (() => void)[] = [
      ...PASSES_MS.map((ms) => () => void (this.#now += ms)),
      () => this.#standStill(),
      () => void (this.#standsAgain = STANDS_AGAIN),
      () => this.#give(B, { type: 'work', agent: 'pm', epoch: 1, open: 0 }),
      () => this.#give(C, START),
    ];
    if (moment.before === 'look is answered' && this.#standsAgain > 0) {
      this.#standsAgain -= 1;
      this.#standStill();
    }
    const isTick = moment.before === 'commit' && moment.command.type === 'tick';
    const options = 1 + happenings.length + Number(isTick);
    let choice = this.#choices.take(options);
    for (; choice > 0 && choice <= happenings.length; choice = this.#choices.take(options)) {
      happenings[choice - 1]?.();
      await new Promise<void>((resolve) => void setImmediate(resolve));
    }
    const [due] = this.#timers;
    if (due !== undefined && due.at <= this.#now && this.#choices.take(2) === 0) this.#ringAt(due, this.#now);
    this.#step();
    this.#waiting.shift();
    if (choice === 0) return go();
    if ('channel' in moment) this.#failed.add(moment.channel);
    this.#isUntold = true;
    fail(NO_ROOM);
  }

  #standStill(): void {
    this.#now += STANDS_MS;
    this.#stoodStillMs += STANDS_MS;
    this.#stoodUntil.push(this.#now);
  }

  /** A timer rings on time, a millisecond early, or late, as real timers do. */
  #ring(next: Ringing): void {
    const choice = this.#choices.take(2 + PASSES_MS.length);
    this.#ringAt(next, choice === 1 ? next.at - 1 : next.at + (PASSES_MS[choice - 2] ?? 0));
  }

  #ringAt(timer: Ringing, at: Instant): void {
    this.#step();
    this.#now = Math.max(this.#now, at);
    this.#timers = this.#timers.filter((other) => other !== timer);
    timer.ring();
  }

  /** I14: when nothing is under way, no deadline has passed and a timer is set for the earliest one. */
  #checkRest(): void {
    must(!this.#isUntold, 'I15', 'a commit failed and nobody is told');
    const rings = this.#timers[0]?.at ?? Infinity;
    for (const [channel, floor] of this.#floors.floors) {
      const deadline = floorMachine.nextDeadline(floor);
      if (deadline === null) continue;
      const latest = Math.max(deadline, this.#now) + (this.#failed.has(channel) ? AGAIN_MS : 0);
      must(rings <= latest, 'I14', 'a deadline is lost: nothing is under way, and no timer rings in time');
    }
  }

  #judge({ channel, command, at, before, applied }: Commit): void {
    this.trace.push({ at, command });
    must(at <= this.#now, 'I14', 'a command is dated ahead of its time');
    if (!applied.ok) return;
    const [was, is] = [before, applied.state].map((floor) => floorMachine.nextDeadline(floor) ?? Infinity);
    must(command.type !== 'say' || is === was, 'I14', 'what Conch says by itself moves a deadline');
    if (command.type === 'tick') {
      const deadline = floorMachine.nextDeadline(before) ?? Infinity;
      must(deadline <= at, 'I14', 'a deadline is met before its time');
      const isHeldUp = this.#failed.has(channel);
      must(isHeldUp || at - deadline <= LATEST_MS, 'I14', 'a deadline is met too late');
    }
    const isEnded = applied.facts.some((fact) => fact.type === 'turnEnded');
    if (command.type === 'tick' && isEnded && channel !== A) {
      const from = this.#grantedAt.get(channel) ?? 0;
      const stood = this.#stoodUntil.filter((until) => until > from && until <= at).length * STANDS_MS;
      must(at - from - stood >= LIMIT_MS, 'I14', 'a turn ends although the process stood still for a part of its time');
    }
    if (applied.facts.some((fact) => fact.type === 'turnGranted')) this.#grantedAt.set(channel, at);
    const isOver = applied.facts.some((fact) => fact.type === 'turnEnded' && fact.epoch === this.#draft?.epoch);
    must(channel !== A || !isOver, 'I11', 'a turn ends without what people have seen of it');
  }

  #takeDraft(channel: ChannelId): TurnDraft | null {
    const draft = channel === A ? this.#draft : null;
    if (draft !== null) this.#draft = null;
    return draft;
  }

  #told(error: unknown): void {
    this.#isUntold = false;
    if (error !== NO_ROOM) this.#broken ??= { error };
  }

  /** Gives a command of people or agents. It is applied at once, unless the store is busy. */
  #give(channel: ChannelId, command: Command): void {
    this.#manager.apply(channel, command).catch((error: unknown) => void (this.#broken ??= { error }));
  }

  #pass(moment: Moment): Promise<void> {
    const isQuick = 'channel' in moment && moment.command.type !== 'tick' && moment.channel !== B;
    if (isQuick) return Promise.resolve();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ moment, go: resolve, fail: reject });
    return promise;
  }

  #after(ms: number, ring: () => void): Timer {
    const timer = { at: this.#now + Math.max(0, ms), ring };
    this.#timers = [...this.#timers, timer].sort((a, b) => a.at - b.at);
    return { cancel: () => void (this.#timers = this.#timers.filter((other) => other !== timer)) };
  }

  #step(): void {
    this.steps += 1;
    must(this.steps < MOST_STEPS, 'I23', 'the work on deadlines has no end');
  }
}

/** A resting floor with two agents. Each has a turn in every exchange. */
function seated(channel: ChannelId): Floor {
  const agents = ['pm', 'dev'] as const;
  const seats = agents.map((agent) => ({ agent, priority: 5, timeoutMs: LIMIT_MS, rejoin: 'manual' as const }));
  const commands: readonly Command[] = [
    { type: 'configure', settings: { ...PLAIN_SETTINGS, waitPolicy: 'release', waitTimeoutMs: WAIT_MS }, seats },
    ...agents.map((agent): Command => ({ type: 'join', agent })),
  ];
  return commands.reduce((floor, command) => {
    const decision = floorMachine.decide(floor, command, NOON);
    must(decision.ok, 'total', `a ${command.type} is refused`);
    return decision.floor;
  }, floorMachine.empty(channel));
}
