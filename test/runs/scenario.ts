/** A bound or the exact value. `below`: for times and sizes, which depend on the machine. */
export type Wanted = number | string | boolean | { readonly below: number } | { readonly atMost: number };

/** The result of a scenario: measured values, wanted values, and whether they agree. */
export type Outcome = {
  readonly measured: Readonly<Record<string, unknown>>;
  readonly wanted: Readonly<Record<string, Wanted>>;
  readonly ok: boolean;
};

/** The size of a run. `short`: seconds, for the tests. `full`: for the numbers. `long`: 100 kills in place of nine. */
export type Size = 'short' | 'full' | 'long';

/** A row of the acceptance of runs. */
export type Scenario = {
  readonly id: number;
  readonly name: string;
  /** `waits`: called when the scenario only waits for time to pass, so that others may run. */
  readonly run: (size: Size, waits: () => void) => Promise<Outcome>;
};

/** Compares measured with wanted values by key. A missing value fails. */
export function outcome(measured: Outcome['measured'], wanted: Outcome['wanted']): Outcome {
  return { measured, wanted, ok: Object.entries(wanted).every(([key, each]) => isWanted(measured[key], each)) };
}

/** Runs a scenario. One that throws fails, with the reason. A short run ignores times and sizes. */
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

/** A quantile of numbers. Default: the median. `NaN` without numbers. */
export function quantile(numbers: readonly number[], share = 0.5): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Rounds to one decimal. */
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
