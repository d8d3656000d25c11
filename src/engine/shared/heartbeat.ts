import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { SharedLog } from './shared-log.ts';

/** Time from the end of a beat to the next beat, in milliseconds. A beat stores that the worker is alive. */
export const BEAT_MS = 1_000;

/** Time without a beat after which another worker may declare a worker dead, in milliseconds. */
export const DEAD_MS = 5_000;

/**
 * A worker may be declared dead after `deadMs` without a beat, by a worker whose own last beat is newer than `freshMs`.
 * `freshMs` plus `BEAT_MS` is less than `deadMs`.
 */
const LIMITS = { deadMs: DEAD_MS, freshMs: 3 * BEAT_MS };

/** Time without a beat after which `onSilent` is called, in milliseconds. */
export const SILENT_MS = DEAD_MS + 2 * BEAT_MS;

/** A worker may post and prompt for this part of `DEAD_MS` after its last beat. */
const LEASE = 0.75;

type HeartbeatPorts = {
  readonly log: Pick<SharedLog, 'beat' | 'burySilent'>;
  readonly worker: string;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Called after each successful beat, unless the declaration of deaths after this beat failed. */
  readonly onBeat: () => void;
  /** Called once when this worker was declared dead. The worker must not act any more. */
  readonly onBuried: () => void;
  /** Called when a request to the log failed: a beat, or a declaration of deaths. The heartbeat goes on. */
  readonly onMissed: (error: unknown) => void;
  /**
   * Called when no beat succeeds for `SILENT_MS` after a successful beat: another worker can have declared this worker
   * dead.
   */
  readonly onSilent: () => void;
};

/**
 * Beats for a worker, and declares workers dead that do not beat. Declares others dead only when its own beats had no
 * gap for `DEAD_MS`.
 */
export class WorkerHeartbeat {
  readonly #ports: HeartbeatPorts;
  #timer: Timer | null = null;
  #silence: Timer | null = null;
  #isRunning = true;
  /** When the first beat after the start, or after the last gap, was answered; `null` before. */
  #since: Instant | null = null;
  #last: Instant | null = null;

  constructor(ports: HeartbeatPorts) {
    this.#ports = ports;
    void this.#beat();
  }

  /** True while this worker may post and prompt: its last beat is so new that nobody can have declared it dead. */
  get mayAct(): boolean {
    return this.#isRunning && this.#last !== null && this.#ports.clock.now() - this.#last < DEAD_MS * LEASE;
  }

  stop(): void {
    this.#isRunning = false;
    this.#timer?.cancel();
    this.#silence?.cancel();
  }

  async #beat(): Promise<void> {
    const { log, worker, onBuried, onMissed, timers } = this.#ports;
    try {
      const at = this.#ports.clock.now();
      const isLiving = await log.beat(worker);
      if (!this.#isRunning) return;
      if (!isLiving) {
        this.stop();
        onBuried();
        return;
      }
      const answeredAt = this.#ports.clock.now();
      if (this.#last === null || answeredAt - this.#last > LIMITS.freshMs) this.#since = answeredAt;
      this.#last = at;
      this.#silence?.cancel();
      this.#silence = timers.after(Math.max(0, at + DEAD_MS - answeredAt), () => this.#listen());
      if (at - (this.#since ?? at) >= DEAD_MS) await log.burySilent(worker, LIMITS);
      this.#ports.onBeat();
    } catch (error) {
      // Keeps `#since`: if the log stays unreachable, the next successful beat notices the gap and resets `#since`.
      onMissed(error);
    }
    if (this.#isRunning) this.#timer = timers.after(BEAT_MS, () => void this.#beat());
  }

  /**
   * Waits a while longer, then calls `onSilent`: after a pause of this process, the answer to a beat may still come.
   */
  #listen(): void {
    const { onSilent, timers } = this.#ports;
    this.#silence = timers.after(SILENT_MS - DEAD_MS, onSilent);
  }
}
