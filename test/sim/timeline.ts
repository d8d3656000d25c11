import type { Clock, Timers } from '../../src/lib/time.ts';
import type { Random } from './random.ts';

/** A lifetime. Once it is over, none of its planned entries happens. */
export type Life = { alive: boolean };

/** A planned event. */
export type Entry = {
  readonly at: number;
  readonly seq: number;
  readonly what: string;
  readonly life: Life;
  readonly run: () => void;
  cancelled: boolean;
};

/** Simulated time: planned entries by their time. Time passes only when an entry is taken. */
export class Timeline {
  now: number;
  /** The time for which the machine stood still so far, in milliseconds. */
  stoodStillMs = 0;
  /** The jumps of the time so far, in milliseconds, whether the program noticed them or not. */
  jumpedMs = 0;
  readonly #random: Random;
  readonly #heap: Entry[] = [];
  #seq = 0;

  constructor(startAt: number, random: Random) {
    this.now = startAt;
    this.#random = random;
  }

  /** Moves the time on without running due entries. */
  jump(ms: number): void {
    this.now += ms;
    this.jumpedMs += ms;
  }

  after(ms: number, what: string, life: Life, run: () => void): Entry {
    const at = this.now + Math.max(0, ms);
    const entry: Entry = { at, seq: (this.#seq += 1), what, life, run, cancelled: false };
    this.#rise(entry);
    return entry;
  }

  /** Takes the next entry and moves the time to it; `null` when none is left. */
  next(): Entry | null {
    for (let entry = this.#sink(); entry !== undefined; entry = this.#sink()) {
      if (entry.cancelled || !entry.life.alive) continue;
      this.now = Math.max(this.now, entry.at);
      return entry;
    }
    return null;
  }

  /** True when an entry is overdue. */
  get isBehind(): boolean {
    const [first] = this.#heap;
    return first !== undefined && first.at <= this.now;
  }

  /** The delay of the next entry, in milliseconds. 0 when it is not overdue. */
  get lagMs(): number {
    const [first] = this.#heap;
    return first === undefined ? 0 : Math.max(0, this.now - first.at);
  }

  /** The clock and timers of one program. Some timers ring a millisecond early, as real ones do. */
  worldOf(life: Life, early: number): { readonly clock: Clock; readonly timers: Timers } {
    return {
      clock: { now: () => this.now, stoodStillMs: () => this.stoodStillMs },
      timers: {
        after: (ms, run) => {
          const soon = ms > 1 && this.#random.chance(early) ? 1 : 0;
          const entry = this.after(ms - soon, 'timer', life, run);
          return { cancel: () => void (entry.cancelled = true) };
        },
      },
    };
  }

  #rise(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (isBefore(heap[above]!, entry)) break;
      heap[index] = heap[above]!;
      index = above;
    }
    heap[index] = entry;
  }

  #sink(): Entry | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (let child = 1; child < heap.length; child = 2 * index + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (isBefore(last, heap[child]!)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function isBefore(one: Entry, other: Entry): boolean {
  return one.at < other.at || (one.at === other.at && one.seq < other.seq);
}
