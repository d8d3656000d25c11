/** An invariant that was broken. `rule`: its number. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly rule: string;

  constructor(rule: string, text: string) {
    super(text);
    this.rule = rule;
  }
}

/** Throws a `Violation` unless the condition holds. */
export function must(rule: string, condition: boolean, text: () => string): asserts condition {
  if (!condition) throw new Violation(rule, text());
}
