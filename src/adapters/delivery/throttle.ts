import type { Clock, Timer, Timers } from '../../lib/time.ts';

/** Something that is done again on request, never twice at once and not too often. */
export type Throttle = {
  /** It is to be done, now or as soon as it may be; many requests are one. */
  kick(): void;
  /** The same, and the wait that the last run asked for is over. */
  hurry(): void;
  /** Begins nothing more; resolves when what is under way is done. */
  stop(): Promise<void>;
};

/** How often it may be done. */
export type ThrottlePorts = {
  readonly clock: Clock;
  readonly timers: Timers;
  /** From one beginning to the next. */
  readonly gapMs: number;
  /** Before the first beginning. */
  readonly delayMs?: number;
};

/** Does `run` at most every `gapMs`. It must not reject; a number asks to be run again, so many milliseconds later at the earliest. */
export function createThrottle(ports: ThrottlePorts, run: () => Promise<number | null>): Throttle {
  const { clock, timers, gapMs } = ports;
  let notBefore = clock.now() + (ports.delayMs ?? 0);
  let heldUntil = 0;
  let timer: Timer | null = null;
  let running: Promise<void> | null = null;
  let wanted = false;
  let stopped = false;

  function arm(): void {
    if (stopped || !wanted || running !== null || timer !== null) return;
    const waitMs = Math.max(notBefore, heldUntil) - clock.now();
    if (waitMs <= 0) return begin();
    timer = timers.after(waitMs, () => {
      timer = null;
      arm();
    });
  }

  function begin(): void {
    wanted = false;
    notBefore = clock.now() + gapMs;
    running = once();
  }

  async function once(): Promise<void> {
    const againMs = await run();
    running = null;
    if (againMs !== null) {
      wanted = true;
      heldUntil = clock.now() + againMs;
    }
    arm();
  }

  return {
    kick() {
      wanted = true;
      arm();
    },
    hurry() {
      wanted = true;
      heldUntil = 0;
      timer?.cancel();
      timer = null;
      arm();
    },
    async stop() {
      stopped = true;
      timer?.cancel();
      await running;
    },
  };
}
