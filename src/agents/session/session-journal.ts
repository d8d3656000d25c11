import { z } from 'zod';
import type { Machine } from '../../engine/machine.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import type { AgentLog } from './floor-port.ts';
import { NEW_SESSION, PHASES, SESSION_TRANSITIONS, sessionState } from './session-machine.ts';
import type { SessionFact, SessionState } from './session-machine.ts';

const trigger = z.enum(SESSION_TRANSITIONS.map((row) => row.trigger));
const { phase, ...counters } = sessionState.shape;

const recordedMove = z.object({
  type: z.literal('sessionMoved'),
  from: z.enum(PHASES),
  trigger,
  to: phase,
  ...counters,
  cause: z.string().nullable(),
});

const storedSession = sessionState.extend({ lastCause: z.string().nullable(), trigger: trigger.nullable() });

/**
 * A stored transition of a session. `cause`: why a session was last lost or could not be opened. Each transition holds
 * all counters, so the next one makes up for one that could not be stored.
 */
export type RecordedMove = Readonly<z.infer<typeof recordedMove>>;

/**
 * The stored state of a session: the result and the trigger of its last stored transition. `lastCause`: the `cause` in
 * that transition, which may tell of an earlier loss.
 */
export type StoredSession = Readonly<z.infer<typeof storedSession>>;

/** The store of sessions, by channel and agent. */
export type SessionJournal = {
  /**
   * Returns the stored state; `null` for a session without stored transitions. Throws when the state cannot be read.
   */
  state(key: string): StoredSession | null;
  /** Stores a transition. Resolves once it is durable. */
  apply(key: string, move: RecordedMove, at: Instant): Promise<unknown>;
};

/**
 * The machine that stores sessions in the engine. It stores the transitions for which `outlives` is true, and after a
 * failed store the next transition of any kind. The session machine decided each one, so `decide` accepts all.
 */
export const sessionJournal = {
  name: 'session',
  channelOf: (key: string) => key.slice(0, key.lastIndexOf(' ')),
  version: 1,
  empty: (): StoredSession => ({ ...NEW_SESSION, lastCause: null, trigger: null }),
  decide: (_state: StoredSession, move: RecordedMove) => ({ ok: true, facts: [move] }) as const,
  evolve: (_state: StoredSession, move: RecordedMove) => after(move),
  nextDeadline: () => null,
  state: storedSession,
  fact: recordedMove,
} satisfies Machine<StoredSession, RecordedMove, RecordedMove, never>;

/**
 * Returns the state that a session starts with. A session stopped by too many errors stays stopped. A session stopped
 * by a fatal error gets a new attempt, because its cause may be gone. The rest of a backoff is at most one whole
 * delay, also when the clock was set back.
 */
export function resumed(stored: StoredSession, at: Instant): SessionState {
  const { phase: before, trigger: by, lastCause: _cause, ...counted } = stored;
  if (before.name === 'Stopped' && by !== 'FatalError') return { phase: before, ...counted };
  if (before.name !== 'CoolingDown') return { phase: NEW_SESSION.phase, ...counted };
  const endsAt = Math.min(before.endsAt, at + before.delayMs);
  return { phase: endsAt > at ? { ...before, endsAt } : NEW_SESSION.phase, ...counted };
}

type RecordPorts = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly journal: SessionJournal;
  readonly log: AgentLog;
};

/** One session in the journal. */
export class SessionRecord {
  /** True after a transition could not be stored: the next transition of any kind is stored. */
  isBehind = false;
  /** Resolves when each added transition is stored or has failed. Never rejects. */
  settled: Promise<unknown> = Promise.resolve();
  readonly #ports: RecordPorts;

  constructor(ports: RecordPorts) {
    this.#ports = ports;
  }

  /** Returns the stored state; `null` for none, and when the state cannot be read. */
  load(): StoredSession | null {
    try {
      return this.#ports.journal.state(this.#key);
    } catch (error) {
      this.#warn(error, 'the stored session state cannot be read; the session starts with its counters at zero');
      return null;
    }
  }

  /** Stores a transition after the earlier ones. Never throws. */
  add({ effect: _effect, ...move }: SessionFact, cause: string | null, at: Instant): void {
    this.isBehind = false;
    this.settled = this.settled
      .then(() => this.#ports.journal.apply(this.#key, { ...move, cause }, at))
      .catch((error: unknown) => {
        this.isBehind = true;
        this.#warn(error, 'a state change of the session could not be stored');
      });
  }

  get #key(): string {
    const { channel, agent } = this.#ports;
    return `${channel} ${agent}`;
  }

  #warn(error: unknown, what: string): void {
    const { channel, agent, log } = this.#ports;
    log.warn({ channel, agent, err: error }, what);
  }
}

function after({ type: _type, from, trigger: by, to, cause, ...counted }: RecordedMove): StoredSession {
  const isRow = SESSION_TRANSITIONS.some(
    (row) =>
      row.trigger === by &&
      (row.from === 'any' || row.from === from) &&
      (row.to === to.name || (row.to === 'CoolingDown' && to.name === 'Stopped')),
  );
  if (!isRow) throw new Error(`impossible: ${by} led a session from ${from} to ${to.name}`);
  return { phase: to, ...counted, lastCause: cause, trigger: by };
}
