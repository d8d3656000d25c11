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

const keptSession = sessionState.extend({ lastCause: z.string().nullable(), trigger: trigger.nullable() });

/**
 * A move of a session that outlives the program, with why the session was last lost. It gives all counters, so that one that
 * could not be recorded is made up for by the next.
 */
export type RecordedMove = Readonly<z.infer<typeof recordedMove>>;

/** A session as its journal has it: where its last recorded move led, and by which trigger. */
export type KeptSession = Readonly<z.infer<typeof keptSession>>;

/** Where sessions are on record, by channel and agent. */
export type SessionJournal = {
  /** `null` when nothing ever went wrong with it. Throws when what is on record cannot be read. */
  state(key: string): KeptSession | null;
  /** Resolves once the move is durable. */
  apply(key: string, move: RecordedMove, at: Instant): Promise<unknown>;
};

/**
 * The session as the engine hosts it. What it does from prompt to prompt ends with the program; on record are the moves that
 * change what is counted, stop it, or end that: the program that made them has decided on them by the specification's table.
 */
export const sessionJournal = {
  name: 'session',
  channelOf: (key: string) => key.slice(0, key.lastIndexOf(' ')),
  version: 1,
  empty: (): KeptSession => ({ ...NEW_SESSION, lastCause: null, trigger: null }),
  decide: (_state: KeptSession, move: RecordedMove) => ({ ok: true, facts: [move] }) as const,
  evolve: (_state: KeptSession, move: RecordedMove) => after(move),
  nextDeadline: () => null,
  state: keptSession,
  fact: recordedMove,
} satisfies Machine<KeptSession, RecordedMove, RecordedMove, never>;

/**
 * What a session starts with. What was under way ended with the program, and a fatal error may be over by now: it gets one
 * fresh attempt. A clock that was set back makes nobody wait longer than the whole delay.
 */
export function resumed(kept: KeptSession, at: Instant): SessionState {
  const { phase: before, trigger: by, lastCause: _cause, ...counted } = kept;
  if (before.name === 'Stopped' && by !== 'FatalError') return { phase: before, ...counted };
  if (before.name !== 'CoolingDown') return { phase: NEW_SESSION.phase, ...counted };
  const endsAt = Math.min(before.endsAt, at + before.delayMs);
  return { phase: endsAt > at ? { ...before, endsAt } : NEW_SESSION.phase, ...counted };
}

/** What the record of one session needs. */
type RecordPorts = {
  readonly channel: ChannelId;
  readonly agent: AgentId;
  readonly journal: SessionJournal;
  readonly log: AgentLog;
};

/** One session in the journal. */
export class SessionRecord {
  /** A move is missing that could not be recorded: the next is recorded, whatever it is. */
  isBehind = false;
  /** Resolves when all is on record that was added. */
  settled: Promise<unknown> = Promise.resolve();
  readonly #ports: RecordPorts;

  constructor(ports: RecordPorts) {
    this.#ports = ports;
  }

  /** What is on record; what cannot be read is as if there were nothing. */
  load(): KeptSession | null {
    try {
      return this.#ports.journal.state(this.#key);
    } catch (error) {
      this.#warn(error, 'what is on record of the session cannot be read: it starts anew');
      return null;
    }
  }

  /** Brings a move on record, after those before. Never throws. */
  add({ effect: _effect, ...move }: SessionFact, cause: string | null, at: Instant): void {
    this.isBehind = false;
    this.settled = this.settled
      .then(() => this.#ports.journal.apply(this.#key, { ...move, cause }, at))
      .catch((error: unknown) => {
        this.isBehind = true;
        this.#warn(error, 'a move of the session could not be put on record');
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

/** Throws when the move is in no row of the table: a bug. */
function after({ type: _type, from, trigger: by, to, cause, ...counted }: RecordedMove): KeptSession {
  const isRow = SESSION_TRANSITIONS.some(
    (row) =>
      row.trigger === by &&
      (row.from === 'any' || row.from === from) &&
      (row.to === to.name || (row.to === 'CoolingDown' && to.name === 'Stopped')),
  );
  if (!isRow) throw new Error(`impossible: ${by} led a session from ${from} to ${to.name}`);
  return { phase: to, ...counted, lastCause: cause, trigger: by };
}
