import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';

/** About one message a second goes to a channel, its threads included; channels never wait for each other. */
export type Pace = {
  /** How long the next message to the channel has to wait, in milliseconds. */
  wait(channel: string): number;
  /** Takes the channel's next place; resolves when it has come, or when the pace was stopped. */
  take(channel: string): Promise<void>;
  /** Lets no message go to the channel for so long. */
  hold(channel: string, ms: number): void;
  /** Nobody waits any more. */
  stop(): void;
};

/** What may be done so often a minute, in all channels together. */
export type Budget = {
  /** Takes one, if one is left. */
  take(): boolean;
  /** Leaves none for so long, in milliseconds. */
  hold(ms: number): void;
};

type Ports = { readonly clock: Clock; readonly timers: Timers };

const MESSAGE_GAP_MS = 1_000;
/** Places that have passed are forgotten when there are more than this. */
const MOST_CHANNELS = 1_000;
const MINUTE_MS = 60_000;

/** A schedule of its own for every channel. */
export function createPace({ clock, timers }: Ports): Pace {
  const places = new Map<string, Instant>();
  const waiting = new Map<() => void, Timer>();
  const wait = (channel: string): number => Math.max(0, (places.get(channel) ?? 0) - clock.now());
  const next = (channel: string, ms: number): void => {
    if (places.size > MOST_CHANNELS) forgetPast(places, clock.now());
    places.set(channel, clock.now() + ms);
  };
  return {
    wait,
    async take(channel) {
      const ms = wait(channel);
      next(channel, ms + MESSAGE_GAP_MS);
      if (ms === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = timers.after(ms, () => {
        waiting.delete(resolve);
        resolve();
      });
      waiting.set(resolve, timer);
      await promise;
    },
    hold: (channel, ms) => next(channel, Math.max(ms, wait(channel))),
    stop() {
      for (const [resolve, timer] of waiting) {
        timer.cancel();
        resolve();
      }
      waiting.clear();
    },
  };
}

/** A budget that is full at first and fills again evenly. */
export function createBudget(clock: Clock, perMinute: number): Budget {
  const refillMs = MINUTE_MS / perMinute;
  const burst = Math.max(1, Math.floor(perMinute / 4));
  /** When the budget will be, or was, full. */
  let fullAt = clock.now();
  return {
    take() {
      const from = Math.max(fullAt, clock.now());
      if (from + refillMs - clock.now() > burst * refillMs) return false;
      fullAt = from + refillMs;
      return true;
    },
    hold(ms) {
      fullAt = Math.max(fullAt, clock.now() + ms + (burst - 1) * refillMs);
    },
  };
}

function forgetPast(places: Map<string, Instant>, now: Instant): void {
  for (const [channel, at] of places) if (at <= now) places.delete(channel);
}
