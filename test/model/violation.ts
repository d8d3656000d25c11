/** A broken promise: the number that it has in the list of invariants, and what was seen instead. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, what: string) {
    super(what);
    this.name = 'Violation';
    this.invariant = invariant;
  }
}

/** Throws a `Violation` unless the promise is kept. */
export function must(kept: boolean, invariant: string, what: string): asserts kept {
  if (!kept) throw new Violation(invariant, what);
}
