import { createHash } from 'node:crypto';

/** At most `limit` requests of one bucket in `perMs` milliseconds. */
export type RateLimit = { readonly limit: number; readonly perMs: number };

export type Taken = {
  readonly headers: Readonly<Record<string, string>>;
  /** The wait in milliseconds; `null`: the request is within the limit. */
  readonly retryAfterMs: number | null;
};

/** The default limit, also shown in the headers. Too high for a test to reach. */
const GENEROUS: RateLimit = { limit: 10_000, perMs: 1000 };

/** Counts requests by route and channel, guild or webhook, and writes the rate limit headers. */
export class Buckets {
  readonly #limit: RateLimit;
  readonly #buckets = new Map<string, { left: number; resetAt: number }>();

  constructor(limit: RateLimit | null) {
    this.#limit = limit ?? GENEROUS;
  }

  /** Counts one request. `of` is `null` for a request without a rate limit. */
  take(of: { readonly route: string; readonly major: string } | null): Taken {
    if (of === null) return { headers: {}, retryAfterMs: null };
    const now = Date.now();
    const key = `${of.route} ${of.major}`;
    const known = this.#buckets.get(key);
    const fresh = { left: this.#limit.limit, resetAt: now + this.#limit.perMs };
    const bucket = known === undefined || known.resetAt <= now ? fresh : known;
    this.#buckets.set(key, bucket);
    const over = bucket.left === 0;
    bucket.left = Math.max(0, bucket.left - 1);
    const headers = {
      'X-RateLimit-Limit': String(this.#limit.limit),
      'X-RateLimit-Remaining': String(bucket.left),
      'X-RateLimit-Reset': String(bucket.resetAt / 1000),
      'X-RateLimit-Reset-After': String((bucket.resetAt - now) / 1000),
      'X-RateLimit-Bucket': createHash('sha256').update(of.route).digest('hex').slice(0, 32),
    };
    return { headers, retryAfterMs: over ? bucket.resetAt - now : null };
  }
}
