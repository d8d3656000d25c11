import type { Json } from './state.ts';

/** The fault of a call. `before`: not executed. `after`: executed, but with a wrong answer or none. */
export type Fault =
  | { readonly kind: 'reset-before' }
  | { readonly kind: 'reset-after' }
  | { readonly kind: 'hang-before' }
  | { readonly kind: 'hang-after' }
  /** Answered after `ms`. Executed at once, or only then (`execute: 'last'`), even if the caller gave up. */
  | { readonly kind: 'late'; readonly ms: number; readonly execute?: 'first' | 'last' }
  | { readonly kind: 'status'; readonly status: number; readonly when?: 'before' | 'after' }
  | { readonly kind: 'ratelimited'; readonly retryAfterSeconds: number }
  /** An error answer of Slack: `{ ok: false, error }`. */
  | { readonly kind: 'error'; readonly error: string; readonly extra?: Json };

/** Matches calls. A missing key matches everything. */
export type Match = {
  readonly method?: string;
  readonly channel?: string;
  /** A text that the arguments' JSON must contain. */
  readonly containing?: string;
  /** The number of calls with the fault. Default: 1. `null`: all until it is removed. */
  readonly times?: number | null;
  /** The number of matching calls without the fault before it. */
  readonly after?: number;
};

type Armed = { readonly match: Match; readonly fault: Fault; passes: number; left: number };

/** Faults that wait for matching calls. */
export type Faults = {
  /** Sets a fault. Returns a function that removes it. */
  arm(match: Match | string, fault: Fault): () => void;
  clear(): void;
  /** Returns the fault of this call, and counts it as used. */
  take(method: string, args: Json): Fault | null;
};

export function createFaults(): Faults {
  let armed: Armed[] = [];
  return {
    arm(match, fault) {
      const whole: Match = typeof match === 'string' ? { method: match } : match;
      const one: Armed = {
        match: whole,
        fault,
        passes: whole.after ?? 0,
        left: whole.times === null ? Infinity : (whole.times ?? 1),
      };
      armed.push(one);
      return () => {
        armed = armed.filter((other) => other !== one);
      };
    },
    clear() {
      armed = [];
    },
    take(method, args) {
      const one = armed.find(({ match, left }) => left > 0 && fits(match, method, args));
      if (one === undefined) return null;
      if (one.passes > 0) {
        one.passes -= 1;
        return null;
      }
      one.left -= 1;
      return one.fault;
    },
  };
}

function fits(match: Match, method: string, args: Json): boolean {
  if (match.method !== undefined && match.method !== method) return false;
  if (match.channel !== undefined && match.channel !== (args['channel'] ?? args['channel_id'])) return false;
  return match.containing === undefined || JSON.stringify(args).includes(match.containing);
}
