import type { Instant } from '../../lib/time.ts';
import type { Due } from '../port.ts';

type Entry = { readonly key: string; readonly at: Instant };

/** When each key of a machine changes by itself: a heap in memory, so that a deadline that moves costs no write. */
export class Deadlines {
  readonly #at = new Map<string, Instant>();
  /** Smallest first; an entry whose key has moved since is passed over. */
  #heap: Entry[] = [];

  /** Sets when a key is due; `null` is never. */
  set(key: string, at: Instant | null): void {
    if (at === null) this.#at.delete(key);
    else if (this.#at.get(key) !== at) {
      this.#at.set(key, at);
      this.#push({ key, at });
    }
    if (this.#heap.length > 64 + 4 * this.#at.size) this.#rebuild();
  }

  /** The keys that are due, the earliest first, and the earliest deadline that remains. */
  due(before: Instant): Due {
    const found = new Map<string, Entry>();
    for (let first = this.#first(); first !== null && first.at <= before; first = this.#first()) {
      found.set(first.key, first);
      this.#pop();
    }
    const next = this.#first()?.at ?? null;
    for (const entry of found.values()) this.#push(entry);
    const due = [...found.values()].toSorted((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
    return { keys: due.map(({ key }) => key), next };
  }

  clear(): void {
    this.#at.clear();
    this.#heap = [];
  }

  #first(): Entry | null {
    for (let [first] = this.#heap; first !== undefined; [first] = this.#heap) {
      if (this.#at.get(first.key) === first.at) return first;
      this.#pop();
    }
    return null;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    heap.push(entry);
    for (let index = heap.length - 1; index > 0;) {
      const parent = (index - 1) >> 1;
      if (this.#time(parent) <= this.#time(index)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  #pop(): void {
    const heap = this.#heap;
    this.#swap(0, heap.length - 1);
    heap.pop();
    for (let index = 0; ;) {
      const [left, right] = [2 * index + 1, 2 * index + 2];
      const least = [left, right].reduce((best, child) => (this.#time(child) < this.#time(best) ? child : best), index);
      if (least === index) return;
      this.#swap(index, least);
      index = least;
    }
  }

  #time(index: number): Instant {
    return this.#heap[index]?.at ?? Infinity;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (a === undefined || b === undefined) return;
    this.#heap[one] = b;
    this.#heap[other] = a;
  }

  #rebuild(): void {
    this.#heap = [];
    for (const [key, at] of this.#at) this.#push({ key, at });
  }
}
