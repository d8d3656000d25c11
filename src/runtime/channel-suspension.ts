import { z } from 'zod';
import type { Log } from './log.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { KeptTexts } from '../turns/floor-store.ts';

/** What suspending channels needs. */
type SuspensionsPorts = {
  readonly texts: Pick<KeptTexts, 'remember' | 'recall' | 'forget'>;
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly log: Log;
};

const OWNER = 'suspended';
/** Why it was suspended, and whether it was this that paused the floor. */
const keptSchema = z.object({ why: z.string(), paused: z.boolean() });
/** Who does it, in the journal. */
const BY = 'conch';

/** Channels that their platform took away for now: nobody speaks there, and nothing is tried again and again. */
export class Suspensions {
  readonly #ports: SuspensionsPorts;
  #last: Promise<void> = Promise.resolve();

  constructor(ports: SuspensionsPorts) {
    this.#ports = ports;
  }

  /** Why the platform took a channel away; `null` when it did not. */
  why(channel: ChannelId): string | null {
    const kept = this.#ports.texts.recall(OWNER, channel);
    return kept === null ? null : keptSchema.parse(JSON.parse(kept)).why;
  }

  /** Ends the turn under way and pauses the floor. A floor that people paused already stays theirs. */
  suspend(channel: ChannelId, why: string): Promise<void> {
    return this.#next(async () => {
      const { texts, manager, log } = this.#ports;
      if (texts.recall(OWNER, channel) !== null) return;
      log.warn({ channel, why }, 'channel suspended');
      await manager.apply(channel, { type: 'stop', by: BY });
      const paused = await manager.apply(channel, { type: 'pause', by: BY });
      await texts.remember(OWNER, channel, JSON.stringify({ why, paused: paused.ok }));
    });
  }

  /** Lets the floor go on, if it was this that paused it. */
  restore(channel: ChannelId): Promise<void> {
    return this.#next(async () => {
      const { texts, manager, log } = this.#ports;
      const kept = texts.recall(OWNER, channel);
      if (kept === null) return;
      log.info({ channel }, 'channel can be used again');
      await texts.forget(OWNER, channel);
      if (keptSchema.parse(JSON.parse(kept)).paused) await manager.apply(channel, { type: 'resume', by: BY });
    });
  }

  /** One after the other, so that what comes twice is done once. */
  #next(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
