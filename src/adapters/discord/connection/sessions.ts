import type { SessionInfo } from '@discordjs/ws';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Timer, Timers, Clock } from '../../../lib/time.ts';
import { parsedJson } from '../../delivery/inbound.ts';
import type { Memory } from '../../port.ts';
import { wordsOf } from '../errors.ts';
import { delay } from '../../../lib/retry.ts';

const WRITE_MS = 1_000;

type SessionsPorts = {
  readonly bot: string;
  readonly memory: Memory;
  readonly timers: Timers;
  readonly log: Logger;
};

/**
 * The gateway's sessions, kept over a restart so that Discord hands over what was missed. Keeps sessions in the memory under
 * `session:<bot>:<shard>`, written at most once a second. What is kept never runs ahead of what was taken in: after a crash
 * the rest is sent again.
 */
export class Sessions {
  readonly #ports: SessionsPorts;
  readonly #tracks = new Map<number, Track>();
  #timer: Timer | null = null;
  #stopped = false;

  constructor(ports: SessionsPorts) {
    this.#ports = ports;
  }

  /** The session of a shard as the connection knows it. */
  get(shard: number): SessionInfo | null {
    return this.#track(shard).session;
  }

  /** One that cannot be gone on with is none. */
  set(shard: number, given: SessionInfo | null): void {
    if (this.#stopped) return;
    const session = sessionSchema.safeParse(given).success ? given : null;
    const track = this.#track(shard);
    if (session?.sessionId === track.session?.sessionId) track.session = session;
    else this.#tracks.set(shard, { ...trackFrom(session), written: track.written });
    this.#later();
  }

  /** An event was passed on; it counts as received once `taken` resolves. */
  passed(shard: number, sequence: number, taken: Promise<unknown> | null): void {
    const track = this.#track(shard);
    track.newest = Math.max(track.newest, sequence);
    if (taken !== null) {
      track.flying.add(sequence);
      const landed = (): void => {
        track.flying.delete(sequence);
        this.#later();
      };
      taken.then(landed, landed);
    }
    this.#later();
  }

  /** Writes where every session stands; nothing changes afterwards. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#write();
  }

  #track(shard: number): Track {
    const track = this.#tracks.get(shard) ?? trackFrom(readSession(this.#ports.memory.get(this.#key(shard)), shard));
    this.#tracks.set(shard, track);
    return track;
  }

  #key(shard: number): string {
    return `session:${this.#ports.bot}:${shard}`;
  }

  #later(): void {
    if (!this.#stopped) this.#timer ??= this.#ports.timers.after(WRITE_MS, () => void this.#write());
  }

  async #write(): Promise<void> {
    const { memory, log } = this.#ports;
    this.#timer?.cancel();
    this.#timer = null;
    for (const [shard, track] of this.#tracks) {
      const value = valueOf(track);
      if (value === track.written) continue;
      track.written = value;
      try {
        await memory.set(this.#key(shard), value);
      } catch (error) {
        track.written = null;
        log.warn({ shard, why: wordsOf(error) }, 'where the session with Discord stands was not written');
      }
    }
  }
}

type Track = {
  session: SessionInfo | null;
  newest: number;
  /** Passed on and not yet taken, in order. */ readonly flying: Set<number>;
  written: string | null;
};

/** Where a gateway is: what a socket can be opened to. */
export const gatewayUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return url !== null && ['ws:', 'wss:'].includes(url.protocol) && !text.includes('#');
});

const sessionSchema = z.object({
  sessionId: z.string().min(1),
  sequence: z.int().min(0),
  resumeURL: gatewayUrl,
  shardCount: z.int().min(1),
});

function trackFrom(session: SessionInfo | null): Track {
  return { session, newest: session?.sequence ?? 0, flying: new Set(), written: null };
}

function valueOf({ session, newest, flying }: Track): string {
  if (session === null) return '';
  const [first] = flying;
  const { sessionId, resumeURL, shardCount } = session;
  return JSON.stringify({ sessionId, resumeURL, shardCount, sequence: first === undefined ? newest : first - 1 });
}

function readSession(kept: string | null, shardId: number): SessionInfo | null {
  const session = parsedJson(kept ?? '', sessionSchema);
  return session === null ? null : { ...session, shardId };
}

/** New sessions cost: beyond 1,000 in 24 hours Discord takes the token away. So many are used, the rest is for repairs. */
export const IDENTIFIES_A_DAY = 900;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Counts new sessions over restarts and waits before one too many. */
type Identifies = {
  /** Resolves when a session may be begun, which is then counted. Rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<void>;
};

/** Counts by the hour, in the memory under `identifies:<bot>`. */
export function createIdentifies(ports: SessionsPorts & { readonly clock: Clock }): Identifies {
  const { bot, memory, clock, timers, log } = ports;
  const key = `identifies:${bot}`;
  return {
    async take(signal) {
      for (;;) {
        const hours = (parsedJson(memory.get(key) ?? '[]', hoursSchema) ?? []).filter(
          ({ at }) => at + HOUR_MS + DAY_MS > clock.now(),
        );
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
        await delay(waitMs, { timers, signal });
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
