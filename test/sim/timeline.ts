import type { Clock, Timers } from '../../src/lib/time.ts';
import type { Random } from './random.ts';

/** Something that lives for a while: when it is dead, nothing that it planned happens any more. */
export type Life = { alive: boolean };

/** One thing that will happen. */
export type Entry = {
  readonly at: number;
  readonly seq: number;
  readonly what: string;
  readonly life: Life;
  readonly run: () => void;
  cancelled: boolean;
};

/** Simulated time: everything that will happen, in the order in which it is due. Time passes only by taking the next. */
export class Timeline {
  now: number;
  /** For how long the machine has stood still so far. */
  stoodStillMs = 0;
  /** By how much the time has jumped so far, whether the program noticed or not. */
  jumpedMs = 0;
  readonly #random: Random;
  readonly #heap: Entry[] = [];
  #seq = 0;

  constructor(startAt: number, random: Random) {
    this.now = startAt;
    this.#random = random;
  }

  /** Nothing happens for so long, not even what is due. */
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

  /** Takes what happens next and lets time pass until then; `null` when nothing ever will. */
  next(): Entry | null {
    for (let entry = this.#sink(); entry !== undefined; entry = this.#sink()) {
      if (entry.cancelled || !entry.life.alive) continue;
      this.now = Math.max(this.now, entry.at);
      return entry;
    }
    return null;
  }

  /** Whether something should have happened by now and has not. */
  get isBehind(): boolean {
    const [first] = this.#heap;
    return first !== undefined && first.at <= this.now;
  }

  /** For how long the next thing should have happened already, in milliseconds. */
  get lagMs(): number {
    const [first] = this.#heap;
    return first === undefined ? 0 : Math.max(0, this.now - first.at);
  }

  /** The clock and the timers of one running program. Some of its timers ring a millisecond too soon, as real ones do. */
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
