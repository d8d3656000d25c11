/** One thing that `conch doctor` looked at. */
export type CheckResult = {
  /** What was looked at, in a few words: "Discord token", "#general: permissions". */
  readonly what: string;
  readonly verdict: 'good' | 'warning' | 'bad';
  /** What was found, in one sentence. */
  readonly text: string;
  /** What to do about it; `null` when there is nothing to do. */
  readonly todo: string | null;
};

/** It is as it should be. */
export function good(what: string, text: string): CheckResult {
  return { what, verdict: 'good', text, todo: null };
}

/** It works, but not as well as it could. */
export function warning(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'warning', text, todo };
}

/** It does not work. */
export function bad(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'bad', text, todo };
}
