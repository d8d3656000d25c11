import { createHash } from 'node:crypto';
import type { Clock } from '../../../lib/time.ts';

/** How many attempts a caller has: an address, or whoever shows a good token; durations in milliseconds. */
export type HandshakeLimits = {
  /** So many different wrong tokens lock an address out. */
  readonly wrongTokens: number;
  readonly lockoutMs: number;
  /** So many handshakes may come from one address within `windowMs`. */
  readonly handshakes: number;
  readonly windowMs: number;
};

/** Ten wrong tokens lock an address out for a minute; 60 handshakes in ten seconds are too many. */
export const HANDSHAKE_LIMITS: HandshakeLimits = {
  wrongTokens: 10,
  lockoutMs: 60_000,
  handshakes: 60,
  windowMs: 10_000,
};

type Caller = { since: number; handshakes: number; wrong: Set<string>; wrongSince: number; lockedUntil: number };

/**
 * Remembers in memory who comes how often. Different wrong tokens are guesses and lock their address out; one old token,
 * offered again and again, is somebody's mistake and counts once.
 */
export class HandshakeLimiter {
  readonly #clock: Clock;
  readonly #limits: HandshakeLimits;
  readonly #callers = new Map<string, Caller>();

  constructor(clock: Clock, limits: HandshakeLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Counts a handshake; how many seconds this caller has to stay away, 0 when it is admitted. */
  admit(by: string): number {
    const now = this.#clock.now();
    const caller = this.#caller(by, now);
    if (now < caller.lockedUntil) return secondsUntil(caller.lockedUntil, now);
    if (now - caller.since >= this.#limits.windowMs) {
      caller.since = now;
      caller.handshakes = 0;
    }
    caller.handshakes += 1;
    return caller.handshakes > this.#limits.handshakes ? secondsUntil(caller.since + this.#limits.windowMs, now) : 0;
  }

  /** A wrong token came from this address. Whether that locked it out. */
  wrong(address: string, token: string): boolean {
    const now = this.#clock.now();
    const { wrongTokens, lockoutMs } = this.#limits;
    const caller = this.#caller(address, now);
    if (now - caller.wrongSince >= lockoutMs) {
      caller.wrong.clear();
      caller.wrongSince = now;
    }
    caller.wrong.add(createHash('sha256').update(token).digest('base64'));
    if (caller.wrong.size < wrongTokens) return false;
    caller.wrong.clear();
    caller.lockedUntil = now + lockoutMs;
    return true;
  }

  #caller(by: string, now: number): Caller {
    const known = this.#callers.get(by);
    if (known !== undefined) return known;
    const caller = { since: now, handshakes: 0, wrong: new Set<string>(), wrongSince: now, lockedUntil: 0 };
    this.#callers.set(by, caller);
    const [oldest] = this.#callers.keys();
    if (this.#callers.size > REMEMBERED && oldest !== undefined) this.#callers.delete(oldest);
    return caller;
  }
}

const REMEMBERED = 10_000;

function secondsUntil(at: number, now: number): number {
  return Math.max(1, Math.ceil((at - now) / 1_000));
}
