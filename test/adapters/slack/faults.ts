import type { Json } from './state.ts';

/** What becomes of a call. `before`: it is not executed; `after`: it is, but the answer is another one or none. */
export type Fault =
  | { readonly kind: 'reset-before' }
  | { readonly kind: 'reset-after' }
  | { readonly kind: 'hang-before' }
  | { readonly kind: 'hang-after' }
  /** Answered after so many ms; executed at once, or (`execute: 'last'`) only then, even if the caller has gone. */
  | { readonly kind: 'late'; readonly ms: number; readonly execute?: 'first' | 'last' }
  | { readonly kind: 'status'; readonly status: number; readonly when?: 'before' | 'after' }
  | { readonly kind: 'ratelimited'; readonly retryAfterSeconds: number }
  /** Any error of Slack's own: `{ ok: false, error }`. */
  | { readonly kind: 'error'; readonly error: string; readonly extra?: Json };

/** Which calls; what is left out matches everything. */
export type Match = {
  readonly method?: string;
  readonly channel?: string;
  /** Part of the arguments' JSON. */ readonly containing?: string;
  /** How many calls it befalls; 1 unless said, `null`: all until it is healed. */ readonly times?: number | null;
  /** How many that match pass first. */ readonly after?: number;
};

type Armed = { readonly match: Match; readonly fault: Fault; passes: number; left: number };

/** The faults that wait for their calls. */
export type Faults = {
  /** Returns what takes it away again. */
  arm(match: Match | string, fault: Fault): () => void;
  clear(): void;
  /** The fault of this call, which is used up by it. */
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
