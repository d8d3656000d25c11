import type { Timer, Timers } from '../../lib/time.ts';
import { AbsentError, BackendError } from '../backends/backend.ts';
import type { AgentSession } from '../backends/backend.ts';
import type { Beat } from './heartbeat.ts';
import type { Log } from './floors.ts';
import { NEW_SESSION, decide, evolve } from './session-machine.ts';
import type { SessionEvent, SessionState, Thresholds } from './session-machine.ts';
import type { SessionRecord } from './session-memory.ts';

/** What keeps a session alive, and who is told. */
export type KeeperPorts = {
  readonly open: () => Promise<AgentSession>;
  readonly timers: Timers;
  readonly log: Log;
  readonly thresholds: Thresholds;
  /** What outlives the program. */
  readonly record: SessionRecord;
  /** Fields for every log line. */
  readonly about: object;
  /** A session is open. */
  readonly opened: () => Promise<void>;
  /** The agent is gone from the floor, for this reason. */
  readonly lost: (cause: string) => void;
  /** The agent has not been there since the start, or since it was lost, and its time to return is over. */
  readonly absent: (cause: string) => void;
  /** The session is closed: nothing more comes of its generation. */
  readonly dropped: () => void;
};

/** Keeps one session open, by the session machine: a failed one is opened again after its backoff, until it is stopped. */
export class SessionKeeper {
  readonly #ports: KeeperPorts;
  #state: SessionState = NEW_SESSION;
  #session: AgentSession | null = null;
  #opening: Promise<void> | null = null;
  /** Grows whenever a session that is still being opened is no longer wanted. */
  #attempt = 0;
  /** The last session is being closed. */
  #closing: Promise<void> = Promise.resolve();
  #cooling: Timer | null = null;
  #lastCause: string | null = null;
  #ping: { readonly session: AgentSession; missed: number } | null = null;

  constructor(ports: KeeperPorts) {
    this.#ports = ports;
  }

  get state(): SessionState {
    return this.#state;
  }

  get session(): AgentSession | null {
    return this.#session;
  }

  /** Why the last session was lost, in one line. */
  get lastCause(): string | null {
    return this.#lastCause;
  }

  /**
   * Starts from what is remembered: opens a session, unless it was stopped, or after what is left of its cooling down.
   * Resolves after the attempt, successful or not.
   */
  async begin(): Promise<void> {
    const { record, lost } = this.#ports;
    const remembered = record.load();
    if (remembered !== null) {
      this.#state = remembered.state;
      this.#lastCause = remembered.lastCause;
    }
    const { phase } = this.#state;
    if (phase.name === 'Initializing') return await this.open();
    const cause = this.#lastCause ?? 'its session failed';
    if (phase.name === 'CoolingDown') lost(cause);
    this.#goOn(cause);
  }

  /** Resolves after the attempt, successful or not. */
  open(): Promise<void> {
    if (this.#opening) return this.#opening;
    const opening = this.#connect().finally(() => {
      if (this.#opening === opening) this.#opening = null;
    });
    this.#opening = opening;
    return opening;
  }

  /** Resolves when no session is being opened. */
  async settled(): Promise<void> {
    await this.#opening;
  }

  step(event: SessionEvent): void {
    const { about, log, thresholds } = this.#ports;
    const decision = decide(this.#state, event, thresholds);
    if (!decision.ok) {
      log.warn({ ...about, refusal: decision.refusal }, 'session event refused');
      return;
    }
    this.#state = evolve(this.#state, decision.fact);
    const { from, to, trigger, effect } = decision.fact;
    log.debug({ ...about, from, to: to.name, trigger, effect }, 'session');
    this.#keep();
  }

  /** The session failed: the floor learns it, unless it was being interrupted, and another is opened. */
  lose(error: unknown, how: 'Error' | 'Timeout'): void {
    if (this.#state.phase.name !== 'Interrupting') this.#ports.lost(oneLine(error));
    this.drop();
    this.#exit(error, how);
  }

  /** Closes the session, whatever it is doing. */
  drop(): void {
    const session = this.#session;
    this.#session = null;
    this.#ping = null;
    this.#ports.dropped();
    if (session !== null) this.#closing = this.#discard(session);
  }

  /** Closes the session and opens another, with the counters at zero. */
  async restart(): Promise<void> {
    this.#abandonOpening();
    this.drop();
    this.#state = NEW_SESSION;
    this.#keep();
    await this.open();
  }

  /** What was counted is not remembered: whoever comes next in this place starts anew. */
  forget(): void {
    this.#ports.record.keep(NEW_SESSION, null);
  }

  /**
   * Closes the session for good; resolves when it is closed, or does not close in time. Remembered is the state before:
   * the end of the program stops no agent.
   */
  async close(): Promise<void> {
    const recorded = this.#ports.record.close();
    this.#abandonOpening();
    if (this.#state.phase.name !== 'Stopped') this.step({ type: 'OperatorStop' });
    this.drop();
    await Promise.all([this.#closing, recorded]);
  }

  /** A heartbeat is due. A session that leaves too many in a row unanswered is lost; late beats judge nobody. */
  beat({ allowed, overslept, cause }: Beat): void {
    const session = this.#session;
    if (session === null) return;
    if (this.#ping?.session === session) {
      this.#ping.missed = overslept ? 0 : this.#ping.missed + 1;
      if (this.#ping.missed >= allowed) this.lose(new BackendError(cause), 'Timeout');
      return;
    }
    const ping = { session, missed: 0 };
    this.#ping = ping;
    const answered = () => void (this.#ping = this.#ping === ping ? null : this.#ping);
    session.ping().then(answered, (error: unknown) => {
      if (this.#session === session) this.lose(error, 'Error');
    });
  }

  async #connect(): Promise<void> {
    this.#attempt += 1;
    const attempt = this.#attempt;
    try {
      await this.#closing;
      if (attempt !== this.#attempt) return;
      const session = await this.#opened();
      if (attempt !== this.#attempt) {
        await this.#discard(session);
        return;
      }
      this.#session = session;
    } catch (error) {
      if (attempt === this.#attempt) this.#notOpened(error);
      return;
    }
    if (this.#state.phase.name === 'Initializing') this.step({ type: 'WorktreeReady' });
    await this.#ports.opened();
  }

  /** Opening counts as the spawning of a session, by the session machine. */
  #notOpened(error: unknown): void {
    if (error instanceof AbsentError) return this.#awaitReturn(error);
    if (this.#state.phase.name === 'Initializing') this.step({ type: 'WorktreeReady' });
    this.step({ type: 'PromptReady' });
    this.#ports.lost(oneLine(error));
    this.#exit(error, 'Error');
  }

  #awaitReturn({ message, returns, graceMs }: AbsentError): void {
    const attempt = this.#attempt;
    const { about, log, timers, absent } = this.#ports;
    this.#lastCause ??= message;
    log.debug({ ...about, cause: message }, 'waiting for the agent');
    this.#cooling = timers.after(graceMs, () => absent(message));
    const back = () => {
      if (attempt !== this.#attempt) return;
      this.#cooling?.cancel();
      void this.open();
    };
    returns.then(back, back);
  }

  #exit(error: unknown, how: 'Error' | 'Timeout'): void {
    const message = oneLine(error);
    this.#lastCause = message;
    if (error instanceof BackendError && error.terminal) this.step({ type: 'FatalError', message });
    else if (this.#state.phase.name !== 'BuildingPrompt') {
      this.step({ type: 'SessionExited', exit: how === 'Error' ? { how, message } : { how } });
    }
    this.#goOn(message);
  }

  #goOn(cause: string): void {
    const { about, log, lost, timers } = this.#ports;
    const { phase } = this.#state;
    if (phase.name === 'Stopped') {
      lost(cause);
      log.error({ ...about, cause, why: phase.why }, 'agent stopped');
    } else if (phase.name === 'CoolingDown') {
      log.warn({ ...about, cause, retryInMs: phase.delayMs }, 'agent session failed');
      this.#cooling = timers.after(phase.delayMs, () => {
        this.step({ type: 'BackoffElapsed' });
        void this.open();
      });
    } else {
      log.warn({ ...about, cause }, 'agent session lost while it did nothing');
      this.#keep();
      void this.#reopen();
    }
  }

  #keep(): void {
    this.#ports.record.keep(this.#state, this.#lastCause);
  }

  async #reopen(): Promise<void> {
    await this.#opening;
    if (this.#session === null && this.#state.phase.name === 'BuildingPrompt') await this.open();
  }

  #abandonOpening(): void {
    this.#attempt += 1;
    this.#opening = null;
    this.#cooling?.cancel();
  }

  /** A session, or an error when the backend takes too long; one that comes later is closed. */
  async #opened(): Promise<AgentSession> {
    const opening = this.#ports.open();
    let late = false;
    const { promise: limit, reject } = Promise.withResolvers<never>();
    const timer = this.#ports.timers.after(OPEN_MS, () => {
      late = true;
      reject(new BackendError(`did not start within ${OPEN_MS / 1_000} s`));
    });
    opening.then((session) => (late ? this.#discard(session) : undefined)).catch(() => undefined);
    return await Promise.race([opening, limit]).finally(() => timer.cancel());
  }

  async #discard(session: AgentSession): Promise<void> {
    const { about, log, timers } = this.#ports;
    const { promise: limit, resolve } = Promise.withResolvers<void>();
    const timer = timers.after(CLOSE_MS, resolve);
    const failed = (error: unknown) => log.warn({ ...about, err: error }, 'session could not be closed');
    await Promise.race([session.close().catch(failed), limit]);
    timer.cancel();
  }
}

/** How long a backend may take to open a session, and a session to close. */
const OPEN_MS = 60_000;
const CLOSE_MS = 5_000;
const LONGEST_CAUSE = 200;

function oneLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const [first = ''] = text.trim().split('\n');
  return first.length > LONGEST_CAUSE ? `${first.slice(0, LONGEST_CAUSE)}…` : first;
}
