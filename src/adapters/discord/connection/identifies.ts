import type { Logger } from 'pino';
import { z } from 'zod';
import { pause } from '../../../lib/retry.ts';
import type { Clock, Timers } from '../../../lib/time.ts';
import type { Memory } from '../../port.ts';
import { wordsOf } from '../errors.ts';

/** New sessions cost: beyond 1,000 in 24 hours Discord takes the token away. So many are used, the rest is for repairs. */
export const IDENTIFIES_A_DAY = 900;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Counts new sessions over restarts and waits before one too many. */
export type Identifies = {
  /** Resolves when a session may be begun, which is then counted. Rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<void>;
};

/** Counts by the hour, in the memory under `identifies:<bot>`. */
export function createIdentifies(ports: {
  readonly bot: string;
  readonly memory: Memory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}): Identifies {
  const { bot, memory, clock, timers, log } = ports;
  const key = `identifies:${bot}`;
  return {
    async take(signal) {
      for (;;) {
        const hours = hoursOf(memory.get(key)).filter(({ at }) => at + HOUR_MS + DAY_MS > clock.now());
        const [oldest] = hours;
        const used = hours.reduce((sum, { count }) => sum + count, 0);
        if (oldest === undefined || used < IDENTIFIES_A_DAY) {
          await memory.set(key, JSON.stringify(counted(hours, clock.now()))).catch((error: unknown) => {
            log.warn({ why: wordsOf(error) }, 'the count of sessions with Discord was not written');
          });
          return;
        }
        const waitMs = oldest.at + HOUR_MS + DAY_MS - clock.now();
        const why = `${used} new sessions in 24 hours; Discord resets the token at 1,000`;
        log.error({ waitMs, why }, 'waiting before a new session with Discord');
        await pause(waitMs, { timers, signal });
      }
    },
  };
}

type Hour = { readonly at: number; readonly count: number };

const hoursSchema = z.array(z.object({ at: z.number(), count: z.number() }));

function counted(hours: readonly Hour[], now: number): readonly Hour[] {
  const at = Math.floor(now / HOUR_MS) * HOUR_MS;
  const count = hours.find((hour) => hour.at === at)?.count ?? 0;
  return [...hours.filter((hour) => hour.at !== at), { at, count: count + 1 }];
}

function hoursOf(kept: string | null): readonly Hour[] {
  try {
    const parsed = hoursSchema.safeParse(JSON.parse(kept ?? '[]'));
    return parsed.success ? parsed.data : [];
  } catch {
    return [];
  }
}
