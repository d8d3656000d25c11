/** Numbers that look random and are the same for the same seed. */
export type Random = {
  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number;
  pick<T>(choices: readonly T[]): T;
  /** Whether something of this probability happens. */
  chance(probability: number): boolean;
};

/** A generator of its own for a seed (mulberry32). */
export function randomOf(seed: number): Random {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (least: number, most: number): number => least + Math.floor(next() * (most - least + 1));
  return {
    between,
    pick: (choices) => choices[between(0, choices.length - 1)]!,
    chance: (probability) => next() < probability,
  };
}
