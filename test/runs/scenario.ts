/** A bound that a number has to keep, or what a value has to be; `below` is for times and sizes, which differ from machine to machine. */
export type Wanted = number | string | boolean | { readonly below: number } | { readonly atMost: number };

/** What came of a scenario: what was measured, what is wanted of it, and whether it is so. */
export type Outcome = {
  readonly measured: Readonly<Record<string, unknown>>;
  readonly wanted: Readonly<Record<string, Wanted>>;
  readonly ok: boolean;
};

/** How much is done: `short` takes seconds and stands among the tests, `full` is what the numbers are taken from, `long` kills a hundred times where that kills nine times. */
export type Size = 'short' | 'full' | 'long';

/** One row of what runs are accepted by. */
export type Scenario = {
  readonly id: number;
  readonly name: string;
  /** `waits` is called when nothing is left but to let time pass: others may be run meanwhile. */
  readonly run: (size: Size, waits: () => void) => Promise<Outcome>;
};

/** Compares what was measured with what is wanted, key by key; what was not measured is not so. */
export function outcome(measured: Outcome['measured'], wanted: Outcome['wanted']): Outcome {
  return { measured, wanted, ok: Object.entries(wanted).every(([key, each]) => isWanted(measured[key], each)) };
}

/** Runs a scenario; one that breaks off is not in order, and says why. A short one is not held to times and sizes. */
export async function perform({ run }: Scenario, size: Size, waits: () => void = () => {}): Promise<Outcome> {
  try {
    const { measured, wanted } = await run(size, waits);
    const held = Object.entries(wanted).filter(([, each]) => size !== 'short' || !isBelow(each));
    return outcome(measured, Object.fromEntries(held));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { measured: { brokeOff: why.slice(0, 600) }, wanted: { brokeOff: 'never' }, ok: false };
  }
}

/** The middle of some numbers, or the one below which so many of them lie (0.95); NaN of none. */
export function quantile(numbers: readonly number[], share = 0.5): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** To a tenth. */
export function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function isBelow(wanted: Wanted): boolean {
  return typeof wanted === 'object' && 'below' in wanted;
}

function isWanted(value: unknown, wanted: Wanted): boolean {
  if (typeof wanted !== 'object') return value === wanted;
  if (typeof value !== 'number') return false;
  return 'below' in wanted ? value < wanted.below : value <= wanted.atMost;
}
