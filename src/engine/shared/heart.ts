import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { SharedLog } from './shared-log.ts';

/** A worker tells that it is alive this often, in milliseconds. */
export const BEAT_MS = 1_000;

/** A worker that did not tell for this long is declared dead, in milliseconds. */
export const DEAD_MS = 5_000;

/** The part of `DEAD_MS` after its last beat for which a worker may act outside of the store. */
const LEASE = 0.75;

/** What the heart of a worker needs. */
export type HeartPorts = {
  readonly log: Pick<SharedLog, 'beat' | 'burySilent'>;
  readonly worker: string;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called after each beat. What dead workers left behind is to be taken over. */
  readonly onBeat: () => void;
  /** Called once when this worker was declared dead. It must not act any more. */
  readonly onBuried: () => void;
};

/**
 * Tells the other processes that this one is alive, and declares silent ones dead. Only a worker that has itself told
 * so without a gap may declare others dead: after an outage of the log, all look silent.
 */
export class Heart {
  readonly #ports: HeartPorts;
  #timer: Timer | null = null;
  #isRunning = true;
  /** Since when there was no gap between beats, and the instant before the last successful one. */
  #since: Instant | null = null;
  #last: Instant | null = null;

  constructor(ports: HeartPorts) {
    this.#ports = ports;
    void this.#beat();
  }

  /** True while no other process can have declared this one dead: only then may it post or prompt. */
  get mayAct(): boolean {
    return this.#isRunning && this.#last !== null && this.#ports.clock.now() - this.#last < DEAD_MS * LEASE;
  }

  stop(): void {
    this.#isRunning = false;
    this.#timer?.cancel();
  }

  async #beat(): Promise<void> {
    const { log, worker, onBuried, timers } = this.#ports;
    try {
      const at = this.#ports.clock.now();
      const isLiving = await log.beat(worker);
      if (!this.#isRunning) return;
      if (!isLiving) {
        this.stop();
        onBuried();
        return;
      }
      if (this.#last === null || at - this.#last > 2 * BEAT_MS) this.#since = at;
      this.#last = at;
      if (at - (this.#since ?? at) >= DEAD_MS) await log.burySilent(DEAD_MS);
      this.#ports.onBeat();
    } catch {
      // The log cannot be reached. The gap between beats shows it.
    }
    if (this.#isRunning) this.#timer = timers.after(BEAT_MS, () => void this.#beat());
  }
}
