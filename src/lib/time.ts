import TinyQueue from 'tinyqueue';

/** A moment in milliseconds since 1970. */
export type Instant = number;

/** The time, in milliseconds since 1970: it counts on evenly, whatever is done to the machine's clock. */
export type Clock = {
  now(): Instant;
  /** An instant of this clock as the machine's own would show it: another, if that was set since the program began. */
  shown?(at: Instant): Instant;
  /** For how long this process has stood still so far, in milliseconds (stopped, suspended, blocked); absent: it never does. */
  stoodStillMs?(): number;
};

/** A timer that has not run yet. */
export type Timer = { cancel(): void };

/** Runs something once, after so many milliseconds. */
export type Timers = { after(ms: number, run: () => void): Timer };

/** The longest delay that a timer of the platform takes; longer ones are waited for in pieces. */
const LONGEST_MS = 2_147_483_647;

/** A machine's clock that is off by less was not set: clocks that are kept right by others creep. */
const SET_MS = 1_000;

/** Where a clock takes its time from: the one that people set, and one that only counts on, in milliseconds since 1970. */
type ClockSources = { readonly machine: () => number; readonly steady: () => number };

const { timeOrigin } = performance;
const SOURCES: ClockSources = { machine: () => Date.now(), steady: () => timeOrigin + performance.now() };

/** How often a running process looks at the time, in milliseconds. */
const LOOK_MS = 500;
/** A process that has not looked at the time for longer than this stood still. */
const STANDSTILL_MS = 3 * LOOK_MS;

/** Adds up how long a process stood still: the gaps between two looks that are longer than a running process leaves. */
export class Standstill {
  readonly #steady: () => number;
  #lookedAt: number;
  #totalMs = 0;

  constructor(steady: () => number) {
    this.#steady = steady;
    this.#lookedAt = steady();
  }

  /** Looks at the time. Has to be called at least every 500 ms. Returns the milliseconds of all standstills so far. */
  look(): number {
    const now = this.#steady();
    const gapMs = now - this.#lookedAt;
    this.#lookedAt = now;
    if (gapMs > STANDSTILL_MS) this.#totalMs += Math.floor(gapMs);
    return this.#totalMs;
  }
}

let watched: Standstill | null = null;

/** The standstills of this process, watched from the first call on. The watch does not keep the process alive. */
function ofThisProcess(): Standstill {
  if (watched === null) {
    const standstill = new Standstill(SOURCES.steady);
    setInterval(() => standstill.look(), LOOK_MS).unref();
    watched = standstill;
  }
  return watched;
}

/**
 * This machine's time as it was at the start, carried on by the monotonic clock: steps of the wall clock neither fire nor
 * starve a deadline. What people see is `shown`, and follows them.
 */
export function systemClock(sources: ClockSources = SOURCES): Clock {
  const { machine, steady } = sources;
  const now = (): Instant => Math.floor(steady());
  return {
    now,
    ...(sources === SOURCES ? { stoodStillMs: () => ofThisProcess().look() } : {}),
    shown(at) {
      const setBy = machine() - now();
      return Math.abs(setBy) < SET_MS ? at : at + setBy;
    },
  };
}

/** The instant that people are shown for one of a clock. */
export function shownAt(clock: Clock, at: Instant): Instant {
  return clock.shown?.(at) ?? at;
}

/** An instant as ISO 8601 writes it, in UTC. */
export function isoTime(at: Instant): string {
  return new Date(at).toISOString();
}

/** For how long the process of a clock has stood still so far, in milliseconds. */
export function stoodStillMs(clock: Clock): number {
  return clock.stoodStillMs?.() ?? 0;
}

/** Timers of this process; delays of any length. While the process stands still, no delay passes. */
export const systemTimers: Timers = {
  after: (ms, run) => pausedTimer(ms, { run, look: () => ofThisProcess().look(), timers: longTimers }),
};

/** A timer whose delay is longer by each standstill since it was set: what waits in sockets and pipes is read before it runs. */
export function pausedTimer(
  ms: number,
  { run, look, timers }: { readonly run: () => void; readonly look: () => number; readonly timers: Timers },
): Timer {
  let known = look();
  let timer = timers.after(ms, wake);
  function wake(): void {
    const stoodMs = look() - known;
    known += stoodMs;
    if (stoodMs > 0) timer = timers.after(Math.min(ms, stoodMs), wake);
    else run();
  }
  return { cancel: () => timer.cancel() };
}

const longTimers: Timers = {
  after(ms, run) {
    let timer = setTimeout(step, Math.min(Math.max(0, ms), LONGEST_MS));
    let left = ms - LONGEST_MS;
    function step(): void {
      if (left <= 0) {
        run();
        return;
      }
      timer = setTimeout(step, Math.min(left, LONGEST_MS));
      left -= LONGEST_MS;
    }
    return { cancel: () => clearTimeout(timer) };
  },
};

/**
 * One timer for the earliest of any number of deadlines. It never rings early: a timer that comes too soon is set again. A standstill
 * of the process puts it off by as long.
 */
export class Alarm {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #ring: () => void;
  #at: Instant | null = null;
  /** The standstills of the process before the alarm was set. */
  #stoodStillMs = 0;
  #timer: Timer | null = null;

  constructor(clock: Clock, timers: Timers, ring: () => void) {
    this.#clock = clock;
    this.#timers = timers;
    this.#ring = ring;
  }

  /** Rings at this instant, unless it is set to ring earlier already. */
  noLaterThan(at: Instant | null): void {
    if (at === null || (this.#at !== null && this.#at <= at)) return;
    this.#timer?.cancel();
    this.#at = at;
    this.#stoodStillMs = stoodStillMs(this.#clock);
    this.#timer = this.#timers.after(at - this.#clock.now(), () => this.#wake());
  }

  cancel(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#at = null;
  }

  #wake(): void {
    const stoodMs = stoodStillMs(this.#clock) - this.#stoodStillMs;
    const at = this.#at === null ? null : this.#at + stoodMs;
    this.cancel();
    if (at === null) return;
    if (this.#clock.now() < at) this.noLaterThan(at);
    else this.#ring();
  }
}

/** The keys that are due, the earliest first, and the earliest deadline that remains. */
export type Due = { readonly keys: readonly string[]; readonly next: Instant | null };

type Deadline = { readonly key: string; readonly at: Instant };

/** When each of many keys is due: nothing is written when a deadline moves. */
export class Deadlines {
  readonly #at = new Map<string, Instant>();
  /** Earliest first; one whose key has moved since is passed over. */
  #queue = new TinyQueue<Deadline>([], byInstant);

  /** Sets when a key is due; `null` is never. */
  set(key: string, at: Instant | null): void {
    if (at === null) this.#at.delete(key);
    else if (this.#at.get(key) !== at) {
      this.#at.set(key, at);
      this.#queue.push({ key, at });
    }
    if (this.#queue.length > 64 + 4 * this.#at.size) this.#rebuild();
  }

  /** The keys that are due, the earliest first, and the earliest deadline that remains. */
  due(before: Instant): Due {
    const soonest = this.#first();
    if (soonest === null || soonest.at > before) return { keys: [], next: soonest?.at ?? null };
    const found = new Map<string, Deadline>();
    for (let first = this.#first(); first !== null && first.at <= before; first = this.#first()) {
      found.set(first.key, first);
      this.#queue.pop();
    }
    const next = this.#first()?.at ?? null;
    for (const deadline of found.values()) this.#queue.push(deadline);
    const due = [...found.values()].toSorted((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
    return { keys: due.map(({ key }) => key), next };
  }

  clear(): void {
    this.#at.clear();
    this.#rebuild();
  }

  #first(): Deadline | null {
    for (let first = this.#queue.peek(); first !== undefined; first = this.#queue.peek()) {
      if (this.#at.get(first.key) === first.at) return first;
      this.#queue.pop();
    }
    return null;
  }

  #rebuild(): void {
    const deadlines = [...this.#at].map(([key, at]): Deadline => ({ key, at }));
    this.#queue = new TinyQueue(deadlines, byInstant);
  }
}

function byInstant(one: Deadline, other: Deadline): number {
  return one.at - other.at;
}
