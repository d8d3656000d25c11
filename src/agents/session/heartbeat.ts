import type { Clock, Timer, Timers } from '../../lib/time.ts';

/** One beat: how many may be missed, whether this program was itself asleep, and what to say of an agent that is gone. */
export type Beat = { readonly allowed: number; readonly overslept: boolean; readonly cause: string };

/** What a heartbeat goes by; `beat` is called for every beat. */
type HeartbeatPorts = {
  readonly heartbeatMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly beat: (beat: Beat) => void;
};

/** Beats at a steady pace, and knows when it was itself held up: a beat that comes late judges nobody. */
export class Heartbeat {
  readonly #ports: HeartbeatPorts;
  #timer: Timer | null = null;

  constructor(ports: HeartbeatPorts) {
    this.#ports = ports;
  }

  /** Does nothing while it beats. */
  start(): void {
    if (this.#timer !== null) return;
    const { clock, timers, heartbeatMs, heartbeatTimeoutMs, beat } = this.#ports;
    const dueAt = clock.now() + heartbeatMs;
    this.#timer = timers.after(heartbeatMs, () => {
      const overslept = clock.now() - dueAt > heartbeatMs / 2;
      this.#timer = null;
      this.start();
      beat({
        allowed: Math.ceil(heartbeatTimeoutMs / heartbeatMs),
        overslept,
        cause: `no heartbeat for ${Math.round(heartbeatTimeoutMs / 1_000)} s`,
      });
    });
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
