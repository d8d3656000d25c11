import type { Clock, Instant, Timer, Timers } from './time.ts';

/** One timer for the earliest of any number of deadlines. It never rings early: a timer that comes too soon is set again. */
export class Alarm {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #ring: () => void;
  #at: Instant | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, timers: Timers, ring: () => void) {
    this.#clock = clock;
    this.#timers = timers;
    this.#ring = ring;
  }

  /** Rings at this instant, unless it is set to ring earlier already. */
  noLaterThan(at: Instant | null): void {
    if (at === null || (this.#at !== null && this.#at <= at)) return;
    this.#timer?.cancel();
    this.#at = at;
    this.#timer = this.#timers.after(at - this.#clock.now(), () => this.#wake());
  }

  cancel(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#at = null;
  }

  #wake(): void {
    const at = this.#at;
    this.cancel();
    if (at === null) return;
    if (this.#clock.now() < at) this.noLaterThan(at);
    else this.#ring();
  }
}
