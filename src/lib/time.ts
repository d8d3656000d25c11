import TinyQueue from 'tinyqueue';

/** A moment in milliseconds since 1970. */
export type Instant = number;

/** A clock in milliseconds since 1970. Changes of the machine's clock do not affect it. */
export type Clock = {
  now(): Instant;
  /** Converts an instant to the machine's wall-clock time, which may have been set since the program began. */
  shown?(at: Instant): Instant;
  /**
   * The total of this process's standstills, in milliseconds. A standstill is a gap of more than 1.5 s between two
   * checks of a timer of 500 ms: the process was suspended or blocked. Absent: none.
   */
  stoodStillMs?(): number;
};

/** A timer that calls a function later. `cancel` prevents the call. */
export type Timer = { cancel(): void };

/** Calls a function once, after this many milliseconds. */
export type Timers = { after(ms: number, run: () => void): Timer };

/** The longest delay of a Node timer, in milliseconds. `systemTimers` splits longer delays. */
export const LONGEST_TIMER_MS = 2_147_483_647;

/**
 * A difference between Conch's clock and the machine's clock below this, in milliseconds, is drift, not a change by
 * somebody.
 */
const SET_MS = 1_000;

/** The machine's wall clock and its monotonic clock, both in milliseconds since 1970. */
type ClockSources = { readonly machine: () => number; readonly steady: () => number };

const { timeOrigin } = performance;
const SOURCES: ClockSources = { machine: () => Date.now(), steady: () => timeOrigin + performance.now() };

/** The interval of the regular calls of `Standstill.look`, in milliseconds. */
const LOOK_MS = 500;
/** A process whose calls of `look` are further apart, in milliseconds, was suspended or blocked between them. */
const STANDSTILL_MS = 3 * LOOK_MS;

/** Measures how long a process was suspended or blocked, from gaps between regular calls of `look`. */
export class Standstill {
  readonly #steady: () => number;
  #lookedAt: number;
  #totalMs = 0;

  constructor(steady: () => number) {
    this.#steady = steady;
    this.#lookedAt = steady();
  }

  /**
   * Must be called at least every 500 ms. Returns the total time in which the process was suspended or blocked, in
   * milliseconds. Only gaps of more than 1.5 s between two calls count.
   */
  look(): number {
    const now = this.#steady();
    const gapMs = now - this.#lookedAt;
    this.#lookedAt = now;
    if (gapMs > STANDSTILL_MS) this.#totalMs += Math.floor(gapMs);
    return this.#totalMs;
  }
}

let watched: Standstill | null = null;

/**
 * Returns the total of this process's standstills since the first call, in milliseconds. Its interval timer does not
 * keep the process alive.
 */
function lookAtThisProcess(): number {
  if (watched === null) {
    watched = new Standstill(SOURCES.steady);
    setInterval(lookAtThisProcess, LOOK_MS).unref();
  }
  return watched.look();
}

/**
 * The wall-clock time at the start, continued by the monotonic clock. A changed wall clock neither fires nor delays a
 * deadline; only `shown` follows it.
 */
export function systemClock(sources: ClockSources = SOURCES): Clock {
  const { machine, steady } = sources;
  const now = (): Instant => Math.floor(steady());
  return {
    now,
    ...(sources === SOURCES ? { stoodStillMs: lookAtThisProcess } : {}),
    shown(at) {
      const setBy = machine() - now();
      return Math.abs(setBy) < SET_MS ? at : at + setBy;
    },
  };
}

/** The wall-clock time to show for an instant of a clock. */
export function shownAt(clock: Clock, at: Instant): Instant {
  return clock.shown?.(at) ?? at;
}

/** Formats an instant as ISO 8601 in UTC. */
export function isoTime(at: Instant): string {
  return new Date(at).toISOString();
}

/** Parses a time such as ISO 8601 with `Date.parse`; `null` when the text is no time. */
export function instantOf(iso: string): Instant | null {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? null : at;
}

/** The total time in which a clock's process was suspended or blocked, in milliseconds. */
export function stoodStillMs(clock: Clock): number {
  return clock.stoodStillMs?.() ?? 0;
}

/**
 * Timers of this process, with delays of any length. They run later by the time in which the process was suspended or
 * blocked, at most by their delay at a time.
 */
export const systemTimers: Timers = {
  after: (ms, run) => pausedTimer(ms, { run, look: lookAtThisProcess, timers: longTimers }),
};

/**
 * Returns a timer that runs later by the time in which the process was suspended or blocked. It waits at most `ms` more
 * at a time. So data waiting in sockets and pipes is read before the timer runs.
 */
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
    let timer = setTimeout(step, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    let left = ms - LONGEST_TIMER_MS;
    function step(): void {
      if (left <= 0) {
        run();
        return;
      }
      timer = setTimeout(step, Math.min(left, LONGEST_TIMER_MS));
      left -= LONGEST_TIMER_MS;
    }
    return { cancel: () => clearTimeout(timer) };
  },
};

/**
 * One timer for the earliest of many deadlines. It never rings early. A time in which the process was suspended or
 * blocked delays it by the length of that time.
 */
export class Alarm {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #ring: () => void;
  #at: Instant | null = null;
  #stoodStillMs = 0;
  #timer: Timer | null = null;

  constructor(clock: Clock, timers: Timers, ring: () => void) {
    this.#clock = clock;
    this.#timers = timers;
    this.#ring = ring;
  }

  /** Sets the alarm for this instant, unless it is set for the same or an earlier one. `null` changes nothing. */
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

/** Keys that are due, earliest first. `next`: the first deadline after theirs; `null` for none. */
export type Due = { readonly keys: readonly string[]; readonly next: Instant | null };

type Deadline = { readonly key: string; readonly at: Instant };

/** The deadline of each of many keys. */
export class Deadlines {
  readonly #at = new Map<string, Instant>();
  /** Earliest first. Entries whose key has another deadline or none by now are skipped. */
  #queue = new TinyQueue<Deadline>([], byInstant);

  set(key: string, at: Instant | null): void {
    if (at === null) this.#at.delete(key);
    else if (this.#at.get(key) !== at) {
      this.#at.set(key, at);
      this.#queue.push({ key, at });
    }
    if (this.#queue.length > 64 + 4 * this.#at.size) this.#rebuild();
  }

  get(key: string): Instant | null {
    return this.#at.get(key) ?? null;
  }

  /** The keys with a deadline up to `before`, earliest first, and the next later deadline. Removes none. */
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
