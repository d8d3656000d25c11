import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock, Timers } from '../../src/lib/time.ts';

type Alarm = { readonly at: number; readonly run: () => void };

/** Simulated time. The next alarm rings as soon as no model is answering and nothing has moved for a moment. */
export class ArenaTime {
  readonly clock: Clock = { now: () => this.#now };
  readonly timers: Timers = {
    after: (ms, run) => {
      const alarm = { at: this.#now + ms, run };
      this.#alarms.add(alarm);
      this.moved += 1;
      return { cancel: () => void this.#alarms.delete(alarm) };
    },
  };
  /** A counter of everything that happens. */
  moved = 0;
  /** The number of running answers. */
  answering = 0;
  readonly #alarms = new Set<Alarm>();
  readonly #stillMs: number;
  #now = Date.UTC(2026, 0, 1, 12);

  /** `stillMs`: real milliseconds without a move after which time passes. */
  constructor(stillMs: number) {
    this.#stillMs = stillMs;
  }

  /** Lets time pass until `holds` returns true. Resolves with false after `limitMs`. */
  async until(holds: () => boolean, limitMs: number): Promise<boolean> {
    const end = this.#now + limitMs;
    while (!holds()) {
      await this.#still();
      if (holds()) return true;
      const next = this.#next();
      if (next === undefined || next.at > end) return false;
      this.#alarms.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
    }
    return true;
  }

  /** Resolves when nothing has moved for `stillMs`. */
  async #still(): Promise<void> {
    for (let quiet = 0, seen = -1; quiet < this.#stillMs; quiet += 1) {
      if (seen !== this.moved || this.answering > 0) quiet = 0;
      seen = this.moved;
      await sleep(1);
    }
  }

  #next(): Alarm | undefined {
    let first: Alarm | undefined;
    for (const alarm of this.#alarms) if (first === undefined || alarm.at < first.at) first = alarm;
    return first;
  }
}
