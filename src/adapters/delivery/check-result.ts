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
