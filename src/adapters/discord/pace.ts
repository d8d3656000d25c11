import type { Clock, Timer, Timers } from '../../lib/time.ts';

/** Something that is done again on request, never twice at once and not too often. */
export type Pace = {
  /** It is to be done, now or as soon as it may be; many requests are one. */
  kick(): void;
  /** Begins nothing more; resolves when what is under way is done. */
  stop(): Promise<void>;
};

/** How often it may be done. */
export type PacePorts = {
  readonly clock: Clock;
  readonly timers: Timers;
  /** From one beginning to the next. */
  readonly gapMs: number;
  /** Before the first beginning. */
  readonly delayMs?: number;
};

/** Does `run` at most every `gapMs`. It must not reject; a number asks to be run again, so many milliseconds later. */
export function createPace(ports: PacePorts, run: () => Promise<number | null>): Pace {
  const { clock, timers, gapMs } = ports;
  let notBefore = clock.now() + (ports.delayMs ?? 0);
  let timer: Timer | null = null;
  let running: Promise<void> | null = null;
  let wanted = false;
  let stopped = false;

  function arm(): void {
    if (stopped || !wanted || running !== null || timer !== null) return;
    const waitMs = notBefore - clock.now();
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
      notBefore = Math.max(notBefore, clock.now() + againMs);
    }
    arm();
  }

  return {
    kick() {
      wanted = true;
      arm();
    },
    async stop() {
      stopped = true;
      timer?.cancel();
      await running;
    },
  };
}
