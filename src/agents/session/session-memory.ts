import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import type { Clock, Instant, Timers } from '../../lib/time.ts';
import type { AgentLog } from './floor-port.ts';
import { NEW_SESSION } from './session-machine.ts';
import type { SessionState } from './session-machine.ts';

/** Where sessions are remembered from one run of the program to the next. */
export type SessionMemory = {
  /** What was saved last; `null` when nothing was. */
  load(channel: ChannelId, agent: AgentId): unknown;
  /** Resolves once it is durable. */
  save(channel: ChannelId, agent: AgentId, session: KeptSession): Promise<void>;
};

/** A memory of nothing: every session starts anew. */
export const NO_MEMORY: SessionMemory = { load: () => null, save: async () => {} };

const count = z.int().nonnegative();

const keptSession = z.object({
  phase: z.discriminatedUnion('name', [
    z.object({ name: z.literal('Initializing') }),
    z.object({ name: z.literal('CoolingDown'), delayMs: z.number().nonnegative(), endsAt: z.number() }),
    z.object({ name: z.literal('Stopped'), why: z.string() }),
  ]),
  sessionSeq: z.int().positive(),
  consecutiveErrors: count,
  totalErrors: count,
  lastCause: z.string().nullable(),
});

/**
 * A session as it is remembered: its counters, why it was last lost, and the phase in which it starts again. What was
 * under way ends with the program, so all such phases are Initializing.
 */
export type KeptSession = Readonly<z.infer<typeof keptSession>>;

/** What a session starts with, and why it was last lost. */
export type Remembered = { readonly state: SessionState; readonly lastCause: string | null };

/** What a record needs. */
export type RecordPorts = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly memory: SessionMemory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
};

/** One session in the memory. It is written only when what is remembered changes, and in order; only the newest counts. */
export class SessionRecord {
  readonly #ports: RecordPorts;
  /** What is saved, or is being saved; empty when that is not known. */
  #newest = '';
  #unsaved: KeptSession | null = null;
  readonly #saves = new KeyedQueue<AgentId>();
  #closed = false;

  constructor(ports: RecordPorts) {
    this.#ports = ports;
  }

  /** What the session starts with; `null` when nothing that can be read is remembered. */
  load(): Remembered | null {
    const { memory, channel, agent, clock, log } = this.#ports;
    try {
      const loaded = memory.load(channel, agent);
      if (loaded === null) {
        this.#newest = JSON.stringify(keptOf({ state: NEW_SESSION, lastCause: null }));
        return null;
      }
      const kept = keptSession.parse(loaded);
      this.#newest = JSON.stringify(kept);
      return { state: resumed(kept, clock.now()), lastCause: kept.lastCause };
    } catch (error) {
      log.warn({ channel, agent, err: error }, 'what is remembered of the session cannot be read: it starts anew');
      return null;
    }
  }

  /** Saves the session, if it is not what was saved last. Never throws: a failure is logged and made up for by the next. */
  keep(state: SessionState, lastCause: string | null): void {
    if (this.#closed) return;
    const kept = keptOf({ state, lastCause });
    const text = JSON.stringify(kept);
    if (text === this.#newest) return;
    this.#newest = text;
    this.#unsaved = kept;
    void this.#saves.run(this.#ports.agent, () => this.#save());
  }

  /** Keeps nothing more; resolves when all is saved, or cannot be saved in time. */
  async close(): Promise<void> {
    this.#closed = true;
    const { promise: limit, resolve } = Promise.withResolvers<void>();
    const timer = this.#ports.timers.after(CLOSE_MS, resolve);
    await Promise.race([this.#saves.settled(), limit]);
    timer.cancel();
  }

  async #save(): Promise<void> {
    const kept = this.#unsaved;
    if (kept === null) return;
    this.#unsaved = null;
    const { memory, channel, agent, log } = this.#ports;
    try {
      await memory.save(channel, agent, kept);
    } catch (error) {
      if (this.#unsaved === null) this.#newest = '';
      log.warn({ channel, agent, err: error }, 'the state of the session could not be saved');
    }
  }
}

const CLOSE_MS = 5_000;

function keptOf({ state, lastCause }: Remembered): KeptSession {
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  return { phase: keptPhase(phase), sessionSeq, consecutiveErrors, totalErrors, lastCause };
}

function keptPhase(phase: SessionState['phase']): KeptSession['phase'] {
  return phase.name === 'Stopped' || phase.name === 'CoolingDown' ? phase : { name: 'Initializing' };
}

/** A clock that was set back makes nobody wait longer than the whole delay. */
function resumed(kept: KeptSession, at: Instant): SessionState {
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = kept;
  const counters = { sessionSeq, consecutiveErrors, totalErrors };
  if (phase.name !== 'CoolingDown') return { phase, ...counters };
  const endsAt = Math.min(phase.endsAt, at + phase.delayMs);
  return { phase: endsAt > at ? { ...phase, endsAt } : { name: 'Initializing' }, ...counters };
}
