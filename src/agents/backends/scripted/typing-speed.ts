import { setTimeout as sleep } from 'node:timers/promises';

/** How time passes for a scripted agent. */
export type TypingSpeed = {
  /** Resolves after `ms`; rejects as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Between two words that are typed, in milliseconds. */
  readonly wordMs: number;
};

const TYPIST_WORD_MS = 75;

/** As a quick typist writes: a turn of the demo takes some seconds. */
export const TYPING: TypingSpeed = typingSpeed(TYPIST_WORD_MS);

/** One word every `wordMs`; thinking and working take as much longer or shorter as words do. */
export function typingSpeed(wordMs: number): TypingSpeed {
  return {
    sleep: async (ms, signal) => {
      await sleep((ms * wordMs) / TYPIST_WORD_MS, undefined, { signal });
    },
    wordMs: TYPIST_WORD_MS,
  };
}
