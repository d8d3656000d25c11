import type { Logger } from 'pino';
import { KeyedQueue } from '../../lib/keyed-queue.ts';
import { retry } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';

/** The most that waits for one channel. */
const WAITING_LIMIT = 5_000;
const AGAIN = { firstMs: 250, longestMs: 15_000 };

/**
 * Hands what people did to Conch, one after the other per channel and again until it is taken: the platform stored it already,
 * so nothing is lost while Conch cannot write.
 */
export type InboundQueue = {
  /** Whether a channel can take more. */
  hasRoom(channel: ChannelId): boolean;
  /** Resolves with `true` once it was taken, with `false` when it was given up by `stop`. */
  push(channel: ChannelId, act: () => Promise<void>): Promise<boolean>;
  /** Resolves when all that was pushed so far was taken, or given up. */
  settled(): Promise<void>;
  /** Gives up what was not taken; the next start's catch-up finds it. */
  stop(): void;
};

/** What a queue needs. */
export type InboundQueuePorts = {
  readonly log: Logger;
  readonly timers: Timers;
  /** Told once of every act that has to be tried again. */
  readonly delayed?: (channel: ChannelId, why: string) => void;
};

/** A queue with room for 5,000 acts a channel. */
export function createInboundQueue({ log, timers, delayed }: InboundQueuePorts): InboundQueue {
  const stopping = new AbortController();
  const lanes = new KeyedQueue<ChannelId>();
  const untilTaken = async (channel: ChannelId, act: () => Promise<void>): Promise<boolean> => {
    try {
      await retry(act, AGAIN, {
        timers,
        signal: stopping.signal,
        waiting({ error, failures }) {
          log.warn({ channel, failures, err: error }, 'what a person wrote was not taken yet');
          if (failures === 1) delayed?.(channel, error instanceof Error ? error.message : String(error));
        },
      });
      return true;
    } catch {
      return false;
    }
  };
  return {
    hasRoom: (channel) => lanes.unfinished(channel) < WAITING_LIMIT,
    push: (channel, act) => lanes.run(channel, () => untilTaken(channel, act)),
    settled: () => lanes.settled(),
    stop: () => stopping.abort(),
  };
}
