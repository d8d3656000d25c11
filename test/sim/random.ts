/** A random number generator. The same seed gives the same numbers. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed ^ 0x9e_37_79_b9, 0x85_eb_ca_6b) >>> 0;
    for (let warm = 0; warm < 4; warm += 1) this.next();
  }

  /** Returns a number of at least 0 and below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Returns a whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(list: readonly T[]): T {
    const chosen = list[Math.floor(this.next() * list.length)];
    if (chosen === undefined) throw new Error('impossible: nothing to pick from');
    return chosen;
  }

  /** Returns a name. Its probability is proportional to its weight. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries<number>(weights);
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name as Name;
    }
    return entries[0]?.[0] as Name;
  }

  shuffled<T>(list: readonly T[]): readonly T[] {
    return list
      .map((item) => ({ item, key: this.next() }))
      .sort((a, b) => a.key - b.key)
      .map(({ item }) => item);
  }
}
