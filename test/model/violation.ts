/** A broken invariant: its number in the list of invariants, and a sentence with the observed state. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, what: string) {
    super(what);
    this.name = 'Violation';
    this.invariant = invariant;
  }
}

/** Throws a `Violation` unless `kept` is true. */
export function must(kept: boolean, invariant: string, what: string): asserts kept {
  if (!kept) throw new Violation(invariant, what);
}
