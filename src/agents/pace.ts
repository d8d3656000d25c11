import { setTimeout as sleep } from 'node:timers/promises';

/** How time passes for a scripted agent. */
export type Pace = {
  /** Resolves after `ms`; rejects as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Between two words that are typed, in milliseconds. */
  readonly wordMs: number;
};

/** As a quick typist writes: a turn of the demo takes some seconds. */
export const TYPING: Pace = {
  sleep: async (ms, signal) => {
    await sleep(ms, undefined, { signal });
  },
  wordMs: 75,
};
