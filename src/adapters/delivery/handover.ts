import { setTimeout as sleepFor } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';

/** The most that waits for one channel before people are asked to wait. */
const WAITING_LIMIT = 5_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;

/**
 * Hands what people did to Conch, one after the other per channel and again until it is taken:
 * the platform stored it already, so nothing is lost while Conch cannot write.
 */
export type Handover = {
  /** Whether a channel can take more. */
  readonly hasRoom: (channel: ChannelId) => boolean;
  /** Resolves once it was taken, or given up by `stop`. */
  readonly push: (channel: ChannelId, act: () => Promise<void>) => Promise<void>;
  /** Gives up what was not taken; the next start's catch-up finds it. */
  readonly stop: () => void;
};

/** `trouble` is told once for every act that had to be tried again; `sleep` is for tests. */
export function createHandover(options: {
  readonly log: Logger;
  readonly trouble: (channel: ChannelId, why: string) => void;
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}): Handover {
  const stopping = new AbortController();
  const lanes = new Map<ChannelId, Lane>();
  const sleep = options.sleep ?? defaultSleep;

  async function untilTaken(channel: ChannelId, act: () => Promise<void>): Promise<void> {
    for (let attempt = 0; !stopping.signal.aborted; attempt += 1) {
      try {
        return await act();
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        options.log.warn({ channel, attempt, err: error }, 'what a person wrote was not taken yet');
        if (attempt === 0) options.trouble(channel, why);
      }
      await sleep(Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS), stopping.signal).catch(() => undefined);
    }
  }

  return {
    hasRoom: (channel) => (lanes.get(channel)?.waiting ?? 0) < WAITING_LIMIT,
    push(channel, act) {
      const lane = lanes.get(channel) ?? { waiting: 0, last: Promise.resolve() };
      lanes.set(channel, lane);
      lane.waiting += 1;
      lane.last = inTurn(
        lane,
        () => untilTaken(channel, act),
        () => lanes.delete(channel),
      );
      return lane.last;
    },
    stop: () => stopping.abort(),
  };
}

type Lane = { waiting: number; last: Promise<void> };

async function inTurn(lane: Lane, act: () => Promise<void>, emptied: () => void): Promise<void> {
  await lane.last;
  await act();
  lane.waiting -= 1;
  if (lane.waiting === 0) emptied();
}

async function defaultSleep(ms: number, signal: AbortSignal): Promise<void> {
  await sleepFor(ms, undefined, { signal });
}
