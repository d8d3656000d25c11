import { REVIEW_PASS_WORD } from '../../turns/text/review-signals.ts';
import type { ProposedTicket } from '../../turns/proposed-ticket.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Line } from '../../turns/view.ts';
import { defined, errorMessage } from '../../lib/defined.ts';
import { withinMs } from '../../lib/retry.ts';
import { Alarm } from '../../lib/time.ts';
import type { Clock, Timer, Timers } from '../../lib/time.ts';
import { AbsentError, BackendError, EXECUTION_ERROR, UntrustedError, codeOf } from '../backends/backend.ts';
import type {
  AgentBackend,
  AgentSession,
  Ending,
  SeatContext,
  SessionFailure,
  TurnPrompt,
} from '../backends/backend.ts';
import { SessionKnowledge, turnPrompt } from '../prompt/prompt.ts';
import type { MadePrompt, Work } from '../prompt/prompt.ts';
import type { ToolGate } from '../tools/tool-gate.ts';
import type { AgentLog, CommandSender, FloorPort, SeatTaint } from './floor-port.ts';
import { Generation } from './generation.ts';
import { resumed } from './session-journal.ts';
import type { SessionRecord } from './session-journal.ts';
import { NEW_SESSION, OPEN_MS, createSessionMachine, outlives } from './session-machine.ts';
import type {
  Phase,
  SessionEffect,
  SessionEvent,
  SessionMachine,
  SessionState,
  Thresholds,
} from './session-machine.ts';

/** An agent: its name and descriptions for prompts, and its backend. */
export type AgentSpec = {
  readonly id: AgentId;
  readonly name: string;
  /** What the agent is good at. Shown in the list of agents in prompts, and in the agent's status. */
  readonly description: string;
  /** Who the agent is, for its own prompt. */
  readonly persona: string;
  /** The model of a background run. Default: the backend's model. */
  readonly model?: string;
  readonly backend: AgentBackend;
};

const INTERRUPTED: Ending = { how: 'interrupted' };

/** The settings of the sessions in one channel. */
export type SessionSettings = {
  /** Messages within this time are injected together, in milliseconds. */
  readonly coalesceMs: number;
  readonly contextTokens: number;
  /** The turn-complete signal, such as `TURN_COMPLETE`. An answer that ends with the signal ends the turn. */
  readonly signal: string;
  /**
   * An answer of only one of these words is a pass. Prompts name the first. In a task only `REVIEW_PASS_WORD` counts.
   */
  readonly passWords: readonly string[];
  readonly place: { readonly name: string; readonly topic: string };
  /** How many errors stop a session. Default: `DEFAULT_THRESHOLDS`. */
  readonly thresholds?: Thresholds;
  /**
   * Returns whether the rules can allow an agent this tool of a server. `tool: null`: whether they can allow any tool
   * of the server. Default: true.
   */
  readonly reaches?: (agent: AgentId, server: string, tool: string | null) => boolean;
  /** The taint of an agent's seat. Absent: taint is not tracked. */
  readonly taint?: (agent: AgentId) => SeatTaint;
  /**
   * Called before each prompt, which waits for the promise. The promise never rejects. Absent, or `null`: nothing to
   * wait for.
   */
  readonly beforePrompt?: (agent: AgentId) => Promise<void> | null;
  /** Proposes a ticket of an agent to its crew. Resolves with the answer in words. Absent: there are no crews. */
  readonly propose?: (agent: AgentId, ticket: ProposedTicket) => Promise<string>;
  /** Makes the gate between an agent and its tools for one epoch. */
  readonly gate: (agent: AgentId, epoch: number) => ToolGate;
};

/** Dependencies that all sessions share. */
export type SessionPorts = {
  readonly floors: FloorPort;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly sessionSettings: (channel: ChannelId) => SessionSettings;
  readonly describe: (agent: AgentId) => { readonly name: string; readonly description: string };
  /** Returns random letters and digits for the boundaries of prompts. */
  readonly boundary: () => string;
};

/** Callbacks for the owner of a session's work: a seat at a floor, or a background run. */
type WorkListener = {
  readonly commands: Pick<CommandSender, 'send'>;
  /** Called with the draft; `null` removes the draft. */
  readonly drafted: (epoch: number, text: string | null) => void;
  /**
   * Returns the time until the turn times out without a sign of work, in milliseconds. For a background run: its
   * timeout.
   */
  readonly leftMs: (epoch: number) => number;
  readonly opened: () => Promise<void>;
  readonly lost: (failure: SessionFailure) => void;
  /** Called when an absent agent has not returned within its grace. */
  readonly absent: (cause: string) => void;
  /** Returns whether this work may use the tool, besides the settings' `reaches`. Default: every tool. */
  readonly reaches?: (server: string, tool: string | null) => boolean;
};

/** The session's agent and channel. `record`: `null` when the session's state is not stored. */
type SessionPlace = {
  readonly spec: AgentSpec;
  readonly channel: ChannelId;
  readonly record: SessionRecord | null;
  /** Resolves when the earlier session of the seat is closed, or took longer than `CLOSE_MS`. Never rejects. */
  readonly former?: Promise<void>;
};

/**
 * One heartbeat check. `allowed`: the number of misses in a row that ends a session. `overslept`: the check came late,
 * so this miss and the misses before it do not count. `cause`: the error of a session that is ended.
 */
export type Beat = { readonly allowed: number; readonly overslept: boolean; readonly cause: string };

/**
 * Runs one agent's session and its work. Reports events to the session machine and carries out the machine's effects.
 * Reopens a lost session until the session is stopped.
 */
export class SessionExecutor {
  readonly knowledge = new SessionKnowledge();
  readonly #spec: AgentSpec;
  readonly #channel: ChannelId;
  readonly #record: SessionRecord | null;
  readonly #ports: SessionPorts;
  readonly #listener: WorkListener;
  readonly #about: object;
  readonly #alarm: Alarm;
  #state: SessionState = NEW_SESSION;
  #session: AgentSession | null = null;
  #generation: Generation | null = null;
  /** Resolves when the running attempt to open a session has ended. */
  #attempt: PromiseWithResolvers<void> | null = null;
  /**
   * The attempts to open a session that are under way. Each ends when its session is open, opened too late and was
   * closed, failed to open, or is no longer wanted.
   */
  readonly #openings = new Set<Promise<void>>();
  /** Resolves when the previous session of the seat is closed, or took longer than `CLOSE_MS`. Never rejects. */
  #closing: Promise<void>;
  #absence: Timer | null = null;
  #untrusted: string | null = null;
  #lastCause: string | null = null;
  #ping: { readonly session: AgentSession; missed: number } | null = null;
  /** True once `stop` was called. Later transitions are not stored. */
  #isLeaving = false;
  #closed = false;

  constructor(
    { spec, channel, record, former = Promise.resolve() }: SessionPlace,
    ports: SessionPorts,
    listener: WorkListener,
  ) {
    this.#spec = spec;
    this.#channel = channel;
    this.#record = record;
    this.#closing = former;
    this.#ports = ports;
    this.#listener = listener;
    this.#about = { channel, agent: spec.id };
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.#deadline());
  }

  get state(): SessionState {
    return this.#state;
  }

  get session(): AgentSession | null {
    return this.#session;
  }

  /** The generation under way; `null` once all its messages are reported or its session is closed. */
  get generation(): Generation | null {
    return this.#generation;
  }

  /** Why a session was last lost or could not be opened, in one line; `null` when no such cause is known. */
  get lastCause(): string | null {
    return this.#lastCause;
  }

  /** Why the agent's folder is not trusted, in one line; `null` when the agent does not wait for trust. */
  get untrusted(): string | null {
    return this.#state.phase.name === 'Initializing' ? this.#untrusted : null;
  }

  /**
   * Starts from the stored state: opens a session at once, or after the rest of its backoff. A session that too many
   * errors stopped stays closed. Calls `lost` when no attempt is made now. Resolves after the attempt, successful or
   * not; without an attempt at once.
   */
  async begin(): Promise<void> {
    const { clock } = this.#ports;
    const stored = this.#record?.load() ?? null;
    if (stored !== null) {
      this.#state = resumed(stored, clock.now());
      this.#lastCause = stored.lastCause;
    }
    const { phase } = this.#state;
    if (phase.name !== 'Initializing')
      this.#listener.lost({
        message: this.#lastCause ?? UNKNOWN_CAUSE,
        code: EXECUTION_ERROR,
        final: phase.name === 'Stopped',
      });
    if (phase.name === 'Stopped') this.#logFatal(phase.why);
    if (phase.name === 'CoolingDown') this.#warnCooling(phase);
    this.#alarm.noLaterThan(this.#machine.nextDeadline(this.#state));
    this.#goOn();
    await this.settled();
  }

  /** True when a session is open and idle. */
  get isIdle(): boolean {
    return this.#session !== null && this.#generation === null && this.#state.phase.name === 'BuildingPrompt';
  }

  /** Resolves when the running attempt to open a session has ended; at once without one. */
  async settled(): Promise<void> {
    await this.#attempt?.promise;
  }

  get taint(): SeatTaint | undefined {
    return this.#settings.taint?.(this.#spec.id);
  }

  /**
   * Makes a prompt for the open session and records the prompt's lines as read. Does not send the prompt: `prompt`
   * does. `left`: the messages that did not fit.
   */
  promptFor(session: AgentSession, workFor: (knowledge: SessionKnowledge) => Work): MadePrompt {
    const { clock, describe, boundary } = this.#ports;
    const { contextTokens, signal, passWords, place } = this.#settings;
    const { knowledge } = this;
    knowledge.begin(session, boundary);
    const work = workFor(knowledge);
    const made = turnPrompt(work, this.#seat(), {
      describe,
      place,
      signal: this.#spec.backend.needsSignal ? signal : null,
      passWord: passWords[0] ?? signal,
      contextTokens,
      at: clock.now(),
      knowledge,
    });
    const read = [...made.turn.lines, ...made.turn.messages];
    if (knowledge.replacesLostSession) this.taint?.forget(lineBefore(read, work.uptoLine));
    this.taint?.read(read);
    knowledge.prompted(made.turn, work.uptoLine);
    return made;
  }

  /** Hands a prompt to the session. The session must be open and idle. */
  prompt(prompt: TurnPrompt): void {
    this.#step({ type: 'PromptReady', prompt });
  }

  /**
   * Interrupts the generation and drops its further output. The backend stops the generation by force after `graceMs`
   * milliseconds. If the generation runs 1 s longer, its session is closed.
   */
  interrupt(graceMs: number): void {
    this.#generation?.mute();
    if (this.#generation?.generating) this.#step({ type: 'UrgentMessage', graceMs });
  }

  /**
   * Ends the session after its turn timed out without a sign of work. The floor ended that turn itself, so `lost` is
   * called only when the session stops for good.
   */
  timedOut(): void {
    this.#generation?.mute();
    this.#lastCause = TIMED_OUT;
    this.#drop();
    this.#step({ type: 'SessionExited', exit: { how: 'Timeout' } });
    const { phase } = this.#state;
    if (phase.name === 'CoolingDown') this.#warnCooling(phase);
    else if (phase.name === 'Stopped') this.#listener.lost({ message: TIMED_OUT, code: EXECUTION_ERROR, final: true });
  }

  /** Closes the session and opens another with its error counters at zero. Resolves after the attempt. */
  async restart(): Promise<void> {
    this.#step({ type: 'OperatorRestart' });
    await this.settled();
  }

  /** Stops the session for good and resets its stored counters, so that a later agent with this id starts from zero. */
  async stop(): Promise<void> {
    const at = this.#ports.clock.now();
    const forgotten = this.#machine.decide(this.#state, { type: 'OperatorRestart' }, at);
    for (const fact of forgotten.facts) if (outlives(this.#state, fact)) this.#record?.add(fact, null, at);
    this.#isLeaving = true;
    this.#step({ type: 'OperatorStop' });
    await this.close();
  }

  /**
   * Closes the session and keeps its stored state. Resolves when the session is closed, an opening under way has ended,
   * and the transitions are stored. Waits at most 5 s for each.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#alarm.cancel();
    this.#absence?.cancel();
    this.#attempt?.resolve();
    this.#drop();
    const rest = Promise.allSettled([...this.#openings, this.#record?.settled]);
    await Promise.all([this.#closing, withinMs(CLOSE_MS, rest, this.#ports.timers)]);
  }

  /**
   * Sends a heartbeat, or counts a miss while the last heartbeat is unanswered. A session that misses too many in a row
   * is lost. A late check sets the count to 0.
   */
  beat({ allowed, overslept, cause }: Beat): void {
    const session = this.#session;
    if (session === null) return;
    if (this.#ping?.session === session) {
      this.#ping.missed = overslept ? 0 : this.#ping.missed + 1;
      if (this.#ping.missed >= allowed) this.#failed(new BackendError(cause), 'Timeout');
      return;
    }
    const ping = { session, missed: 0 };
    this.#ping = ping;
    const answered = () => void (this.#ping = this.#ping === ping ? null : this.#ping);
    session.ping().then(answered, (error: unknown) => {
      if (this.#session === session) this.#failed(error, 'Error');
    });
  }

  /**
   * Called when the agent writes or reports work, and when its answer ends. Marks the session as running; in other
   * phases than Spawning, changes nothing.
   */
  readonly started = (): void => {
    const { phase, sessionSeq } = this.#state;
    if (phase.name === 'Spawning') this.#step({ type: 'SessionStarted', seq: sessionSeq });
  };

  get #machine(): SessionMachine {
    return createSessionMachine(this.#settings.thresholds);
  }

  get #settings(): SessionSettings {
    return this.#ports.sessionSettings(this.#channel);
  }

  #made(session: AgentSession, { epoch, roster, task }: TurnPrompt): Generation {
    const { commands, drafted, leftMs } = this.#listener;
    const agent = this.#spec.id;
    const generation = new Generation({
      ...this.#ports,
      ...this.#settings,
      // In a task only `REVIEW_PASS_WORD` is a pass: a configured pass word could be the verdict of a review.
      ...(task === undefined ? {} : { passWords: [REVIEW_PASS_WORD] }),
      agent,
      epoch,
      roster,
      needsSignal: this.#spec.backend.needsSignal,
      session,
      commands,
      drafted,
      started: this.started,
      leftMs,
      gate: () => this.#settings.gate(agent, epoch),
    });
    void generation.done.then(() => void (this.knowledge.cut = !generation.whole));
    return generation;
  }

  #seat(): SeatContext {
    const { id: agent, name, persona, model } = this.#spec;
    const { commands, reaches } = this.#listener;
    return {
      channel: this.#channel,
      agent,
      name,
      persona,
      ...defined({ model }),
      reaches: (server, tool) =>
        (this.#settings.reaches?.(agent, server, tool) ?? true) && (reaches?.(server, tool) ?? true),
      tellTools: (server, why) => void commands.send({ type: 'tellTools', agent, server, why }),
    };
  }

  #step(event: SessionEvent): void {
    const { clock, log } = this.#ports;
    const record = this.#record;
    if (this.#closed) return;
    const machine = this.#machine;
    const wasOpening = isOpening(this.#state.phase);
    const at = clock.now();
    const decision = machine.decide(this.#state, event, at);
    if (!decision.ok) {
      log.warn({ ...this.#about, refusal: decision.refusal }, 'session event refused');
      return;
    }
    for (const fact of decision.facts) {
      const isRecorded = !this.#isLeaving && (record?.isBehind === true || outlives(this.#state, fact));
      if (isRecorded) record?.add(fact, this.#lastCause, at);
      this.#state = machine.evolve(this.#state, fact, at);
      const { from, trigger, to } = fact;
      log.debug({ ...this.#about, from, trigger, to: to.name, effect: fact.effect?.type ?? 'None' }, 'session');
      if (wasOpening && event.type !== 'SessionOpened') this.#attempt?.resolve();
      if (fact.effect !== null) this.#carryOut(fact.effect);
    }
    this.#alarm.cancel();
    this.#alarm.noLaterThan(machine.nextDeadline(this.#state));
    if (HAVE_NO_SESSION.has(this.#state.phase.name)) this.#drop();
    if (event.type !== 'SessionAbsent') this.#goOn();
  }

  #carryOut(effect: SessionEffect): void {
    switch (effect.type) {
      case 'OpenSession': {
        const opening: Promise<void> = this.#open().finally(() => this.#openings.delete(opening));
        return void this.#openings.add(opening);
      }
      case 'StorePrompt':
        return void this.#generate(effect.prompt);
      case 'CancelSession':
        // Closing the session also ends its generation.
        return effect.graceMs === null ? this.#drop() : this.#cancel(effect.graceMs);
      case 'ForceStopSession':
        return this.#drop();
      case 'LogFatal':
        return this.#logFatal(effect.message);
      case 'IncrementSession':
        return; // The machine's state already has the increased number.
    }
  }

  #goOn(): void {
    const { phase } = this.#state;
    if (phase.name === 'Initializing' || phase.name === 'SessionComplete') this.#step({ type: 'WorktreeReady' });
    else if (phase.name === 'BuildingPrompt' && this.#session === null) this.#step({ type: 'SessionOpening' });
  }

  #deadline(): void {
    const { phase } = this.#state;
    if (phase.name === 'CoolingDown') this.#step({ type: 'BackoffElapsed' });
    else if (phase.name === 'Interrupting') this.#step({ type: 'GraceExceeded' });
    else if (isOpening(phase)) this.#failed(new BackendError(`did not start within ${OPEN_MS / 1_000} s`), 'Timeout');
  }

  async #open(): Promise<void> {
    const attempt = Promise.withResolvers<void>();
    this.#attempt = attempt;
    this.#absence?.cancel();
    this.#untrusted = null;
    const { phase } = this.#state;
    const isWanted = () => !this.#closed && this.#state.phase === phase;
    try {
      await this.#closing;
      if (!isWanted()) return;
      const session = await this.#spec.backend.open(this.#seat());
      if (!isWanted()) return await this.#discard(session);
      this.#session = session;
    } catch (error) {
      if (!isWanted()) return;
      if (error instanceof AbsentError) this.#awaitReturn(error);
      else this.#failed(error, 'Error');
      return;
    }
    this.#step({ type: 'SessionOpened' });
    await this.#listener.opened();
    attempt.resolve();
  }

  #awaitReturn(absence: AbsentError): void {
    const { message, returns, graceMs } = absence;
    const { log, timers } = this.#ports;
    log.debug({ ...this.#about, cause: message }, 'waiting for the agent');
    this.#step({ type: 'SessionAbsent' });
    this.#lastCause = absence instanceof UntrustedError ? message : (this.#lastCause ?? message);
    this.#untrusted = absence instanceof UntrustedError ? message : null;
    this.#absence = timers.after(graceMs, () => this.#listener.absent(message));
    const { phase } = this.#state;
    const back = () => {
      if (this.#state.phase === phase) this.#goOn();
    };
    returns.then(back, back);
  }

  async #generate(prompt: TurnPrompt): Promise<void> {
    const session = this.#session;
    if (session === null) throw new Error('impossible: a prompt for a session that is not open');
    const generation = this.#made(session, prompt);
    this.#generation = generation;
    let ending;
    try {
      const before = this.#settings.beforePrompt?.(this.#spec.id) ?? null;
      if (before !== null) await before;
      if (this.#generation !== generation) return;
      ending = generation.muted ? INTERRUPTED : await session.prompt(prompt, generation.report);
    } catch (error) {
      if (this.#generation === generation) this.#failed(error, 'Error');
      return;
    }
    if (this.#generation !== generation) return;
    generation.generated();
    this.started();
    this.#step({ type: 'SessionExited', exit: { how: 'Success' } });
    await generation.finish(ending).catch((error: unknown) => this.#warn({ err: error }, 'the end of a turn failed'));
    if (this.#generation === generation) this.#end();
  }

  #cancel(graceMs: number): void {
    this.#session?.interrupt(graceMs).catch((error: unknown) => this.#warn({ err: error }, 'could not be interrupted'));
  }

  #failed(error: unknown, how: 'Error' | 'Timeout'): void {
    const message = oneLine(error);
    if (error instanceof UntrustedError && HAS_PROMPT.has(this.#state.phase.name)) {
      this.#listener.lost({ message, code: codeOf(error), final: false });
      this.#drop();
      return this.#awaitReturn(error);
    }
    const isFatal = error instanceof BackendError && error.terminal;
    const exit = how === 'Error' ? { how, message } : { how };
    const event: SessionEvent = isFatal ? { type: 'FatalError', message } : { type: 'SessionExited', exit };
    if (isFatal || this.#state.phase.name !== 'Interrupting')
      this.#listener.lost({ message, code: codeOf(error), final: this.#stops(event) });
    this.#lastCause = message;
    this.#drop();
    this.#step(event);
    const { phase } = this.#state;
    if (phase.name === 'CoolingDown') this.#warnCooling(phase);
    else if (phase.name !== 'Stopped') this.#warn({ cause: message }, 'agent session lost; another is opened');
  }

  #stops(event: SessionEvent): boolean {
    const { facts } = this.#machine.decide(this.#state, event, this.#ports.clock.now());
    return facts.some(({ to }) => to.name === 'Stopped');
  }

  #warnCooling({ endsAt }: Extract<Phase, { name: 'CoolingDown' }>): void {
    const retryInMs = endsAt - this.#ports.clock.now();
    this.#warn({ cause: this.#lastCause ?? UNKNOWN_CAUSE, retryInMs }, 'agent session failed');
  }

  #logFatal(why: string): void {
    const { log } = this.#ports;
    log.error({ ...this.#about, cause: this.#lastCause ?? UNKNOWN_CAUSE, why }, 'agent stopped');
  }

  #drop(): void {
    const session = this.#session;
    this.#session = null;
    this.#ping = null;
    this.#end();
    if (session !== null) this.#closing = this.#discard(session);
  }

  #end(): void {
    const generation = this.#generation;
    this.#generation = null;
    generation?.close();
  }

  async #discard(session: AgentSession): Promise<void> {
    const failed = (error: unknown) => this.#warn({ err: error }, 'session could not be closed');
    await withinMs(CLOSE_MS, session.close().catch(failed), this.#ports.timers);
  }

  #warn(fields: object, what: string): void {
    this.#ports.log.warn({ ...this.#about, ...fields }, what);
  }
}

const HAS_PROMPT: ReadonlySet<Phase['name']> = new Set(['Spawning', 'Running']);
const HAVE_NO_SESSION: ReadonlySet<Phase['name']> = new Set(['Initializing', 'CoolingDown', 'Stopped']);
/** Longest wait for a session to close, and for its transitions to be stored, in milliseconds. */
const CLOSE_MS = 5_000;
const TIMED_OUT = 'its turn timed out without a sign of work';
const UNKNOWN_CAUSE = 'its session failed';
const LONGEST_CAUSE = 200;

function lineBefore(lines: readonly Line[], upto: number): number {
  return lines.reduce((before, { line }) => (line > 0 ? Math.min(before, line - 1) : before), upto);
}

function isOpening(phase: Phase): boolean {
  return phase.name === 'Spawning' && phase.opensBy !== null;
}

function oneLine(error: unknown): string {
  const [first = ''] = errorMessage(error).trim().split('\n');
  return first.length > LONGEST_CAUSE ? `${first.slice(0, LONGEST_CAUSE)}…` : first;
}
