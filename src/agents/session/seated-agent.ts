import type { Effect } from '../../turns/floor/react.ts';
import { LINES_FOR_NEWCOMERS } from '../../turns/floor/seats.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { TurnDraft } from '../../turns/floor/command.ts';
import type { Settlement } from '../../engine/port.ts';
import type { OutboxRow } from '../../turns/floor-store.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Instant } from '../../lib/time.ts';
import type { SessionFailure, InjectOutcome, Usage } from '../backends/backend.ts';
import { floorWork } from '../prompt/prompt.ts';
import type { CommandSender } from './floor-port.ts';
import { SessionExecutor } from './session-executor.ts';
import type { AgentSpec, SessionPorts } from './session-executor.ts';
import { SessionRecord } from './session-journal.ts';
import type { SessionJournal } from './session-journal.ts';

/** Dependencies of a seated agent. All agents share everything except `commands` and `former`. */
export type SeatedAgentPorts = SessionPorts & {
  readonly commands: CommandSender;
  readonly journal: SessionJournal;
  readonly interruptGraceMs: number;
  /** Resolves when the earlier session of the seat is closed, or took longer than 5 s to close. Never rejects. */
  readonly former: Promise<void>;
};

type Of<Type extends Effect['type']> = Extract<Effect, { type: Type }>;

/** One agent at one floor: its session, and the generation under way. */
export class SeatedAgent {
  readonly spec: AgentSpec;
  readonly channel: ChannelId;
  readonly #ports: SeatedAgentPorts;
  readonly #commands: CommandSender;
  readonly executor: SessionExecutor;
  #joined = false;
  #busyAt: Instant;
  /** Prompts and messages of this epoch and of earlier epochs are dropped. */
  #fence = 0;
  /** The last epoch for which the session was replaced before its prompt; 0 for none. */
  #renewed = 0;
  /** The newest 1,000 deliveries: ids of rows, or ids of messages with the epoch. Prevents a second delivery. */
  readonly #delivered = new BoundedMap<string, true>(REMEMBERED);

  constructor(spec: AgentSpec, channel: ChannelId, ports: SeatedAgentPorts) {
    this.spec = spec;
    this.channel = channel;
    this.#ports = ports;
    this.#commands = ports.commands;
    this.#busyAt = ports.clock.now();
    const record = new SessionRecord({ ...ports, channel, agent: spec.id });
    this.executor = new SessionExecutor({ spec, channel, record, former: ports.former }, ports, {
      commands: ports.commands,
      drafted: (epoch, text) => ports.floors.draft(channel, spec.id, epoch, text),
      leftMs: (epoch) => {
        const holder = ports.floors.holder(channel);
        return holder?.epoch === epoch ? (holder.deadlineAt ?? Infinity) - ports.clock.now() : 0;
      },
      opened: () => this.#join(),
      lost: (failure) => this.#goOffline(failure.message, failure),
      absent: (cause) => void this.#commands.send({ type: 'leave', agent: spec.id, cause }),
    });
  }

  /** True when the session has been idle for `afterMs` milliseconds, and Conch can open a session again. */
  isAtRest(afterMs: number): boolean {
    const now = this.#ports.clock.now();
    if (!this.executor.isIdle) this.#busyAt = now;
    return this.spec.backend.connectsItself !== true && now - this.#busyAt >= afterMs;
  }

  /**
   * Hands a prompt to the agent's session, after the running generation has ended. Does not wait for the answer.
   * Resolves with `failed` when the session is stopped, and with `retry` while no session is open or another answer is
   * under way. Else resolves with `confirmed`, also for a past turn or a prompt that was handed over before.
   */
  async prompt(row: OutboxRow, effect: Of<'prompt'>): Promise<Settlement> {
    if (this.#isPast(row, effect)) return CONFIRMED;
    await this.#former(effect.epoch);
    await this.executor.settled();
    if (effect.fresh === true && !this.#isPast(row, effect)) await this.#renew(effect.epoch);
    if (this.#isPast(row, effect)) return CONFIRMED;
    const { session, state } = this.executor;
    if (state.phase.name === 'Stopped') return { state: 'failed', why: `${this.spec.id} is stopped` };
    if (session === null || this.executor.generation !== null) {
      return { state: 'retry', notBefore: this.#ports.clock.now() + RETRY_MS };
    }
    this.#delivered.set(row.id, true);
    this.#busyAt = this.#ports.clock.now();
    const { agent, epoch } = effect;
    const { turn, left } = this.executor.promptFor(session, (knowledge) =>
      floorWork(effect, this.#ports.floors, this.channel, knowledge),
    );
    // A message without room in this prompt goes into the next prompt.
    for (const id of left) void this.#commands.send({ type: 'injected', agent, epoch, id, outcome: 'no-room' });
    this.executor.prompt(turn);
    return CONFIRMED;
  }

  /**
   * Injects a message into the generation under way and reports the outcome to the floor. Not reported: outcomes of
   * edits and deletions, and of observed messages that were not injected. Drops a message of a past epoch, and a
   * message that was delivered before.
   */
  inject(row: OutboxRow, effect: Of<'inject'>): Settlement {
    const { message, epoch, observed, change } = effect;
    const key = change === undefined ? `${message}#${epoch}` : row.id;
    if (epoch <= this.#fence || this.#delivered.has(key)) return CONFIRMED;
    this.#delivered.set(key, true);
    const known = this.#ports.floors.message(message);
    const line = known === null || change === undefined ? known : { ...known, change };
    const { id: agent } = this.spec;
    const report = (outcome: InjectOutcome) => {
      if (outcome === 'injected') this.executor.knowledge.markDelivered(message);
      if (change === undefined && (!observed || outcome === 'injected'))
        void this.#commands.send({ type: 'injected', agent, epoch, id: message, outcome });
      else if (outcome !== 'injected' && line !== null) this.executor.session?.observe?.(line);
    };
    if (line === null) report('refused');
    else if (this.executor.generation?.epoch !== epoch) report('next-prompt');
    else this.executor.generation.inject({ line, observed, change, report });
    return CONFIRMED;
  }

  /**
   * Interrupts the generation of the effect's epoch or an earlier one. When the generation has stopped and a person
   * interrupted the turn, sends `interrupted` to the floor. `hung`: the turn timed out; ends the session if its
   * generation still runs.
   */
  interrupt(effect: Of<'interrupt'>): Settlement {
    this.#fence = Math.max(this.#fence, effect.epoch);
    const { generation } = this.executor;
    if (effect.hung === true) return this.#hung(effect.epoch);
    if (generation === null || generation.epoch > effect.epoch) {
      this.#sendStopped(effect.epoch);
      return CONFIRMED;
    }
    const isFirst = !generation.muted;
    this.executor.interrupt(effect.graceMs);
    if (isFirst) void generation.done.then(() => this.#sendStopped(effect.epoch));
    return CONFIRMED;
  }

  /**
   * Called after a turn timed out: the floor counts the agent as absent. Ends the session if its generation still runs.
   * The agent joins again with its next session, or at once if the session stays.
   */
  #hung(epoch: number): Settlement {
    const { generation } = this.executor;
    const isIt = generation !== null && generation.epoch <= epoch && generation.generating;
    if (isIt) this.executor.timedOut();
    this.#joined = false;
    if (this.executor.session !== null) void this.#join();
    return CONFIRMED;
  }

  /**
   * From now on, drops prompts and messages of this epoch and of earlier epochs. Does nothing while this epoch's
   * generation runs.
   */
  cancel(epoch: number): Settlement {
    if (this.executor.generation?.epoch !== epoch) this.#fence = Math.max(this.#fence, epoch);
    return CONFIRMED;
  }

  observe(effect: Of<'observe'>): Settlement {
    const line = this.#ports.floors.message(effect.message);
    if (line !== null) this.executor.session?.observe?.(line);
    return CONFIRMED;
  }

  /**
   * Asks the agent who is next and sends its answer to the floor: `null` without a preference, or when asking failed.
   */
  ask(effect: Of<'ask'>): Settlement {
    const lines = this.#ports.floors.lines(this.channel, ASK_LINES);
    const { id: agent } = this.spec;
    const usage = (used: Usage): void => void this.#commands.send({ type: 'spend', agent, epoch: 0, ...used });
    const report = { usage, now: () => this.#ports.clock.now() };
    const opinion = this.executor.session?.choose?.(effect.candidates, lines, report) ?? Promise.resolve(null);
    opinion
      .catch((error: unknown) => this.#warn(error, 'could not choose who is next'))
      .then((next) => this.#commands.send({ type: 'choose', agent, ask: effect.ask, next: next ?? null }))
      .catch((error: unknown) => this.#warn(error, 'could not tell who is next'));
    return CONFIRMED;
  }

  /** Returns the draft and removes it, so that the caller posts the draft; `null` for none. */
  takeDraft(): TurnDraft | null {
    const draft = this.executor.generation?.takeDraft() ?? null;
    if (draft !== null) this.#ports.floors.draft(this.channel, draft.agent, draft.epoch, null);
    return draft;
  }

  /** Leaves the floor, closes the session, and opens another with the error counters at zero, which joins again. */
  async restart(why: string): Promise<void> {
    this.#goOffline(why);
    await this.executor.restart();
  }

  /** Leaves the floor, closes the session for good, and resets its stored error counters. */
  async leave(why: string): Promise<void> {
    this.#goOffline(why);
    await Promise.all([this.executor.stop(), this.#commands.close()]);
  }

  /**
   * Closes the session until the agent has work. Clears the seat's taint from reading, unless no session is open or the
   * agent may resume its conversation.
   */
  rest(): Promise<void> {
    const { session, knowledge, taint } = this.executor;
    if (session !== null && session.resumed === undefined) taint?.forget(knowledge.upto - LINES_FOR_NEWCOMERS);
    return this.close();
  }

  /** Posts the text so far, then closes the session. The agent does not leave the floor. */
  async close(): Promise<void> {
    this.executor.generation?.abandon();
    await Promise.all([this.executor.close(), this.#commands.close()]);
  }

  async #join(): Promise<void> {
    if (this.#joined) return;
    this.#joined = true;
    await this.#commands.send({ type: 'join', agent: this.spec.id });
  }

  #goOffline(cause: string, failure?: SessionFailure): void {
    this.executor.generation?.abandon('cut');
    if (!this.#joined && !this.#isOnFloor()) return;
    this.#joined = false;
    const { code, final = false } = failure ?? {};
    const error = code === undefined ? {} : { error: { code, recoverable: !final } };
    void this.#commands.send({ type: 'leave', agent: this.spec.id, cause, ...error });
  }

  /** True when the floor counts the agent as present. The agent may have joined before this process started. */
  #isOnFloor(): boolean {
    const seats = this.#ports.floors.view(this.channel)?.seats ?? [];
    return seats.some(({ agent, status }) => agent === this.spec.id && status !== 'OFFLINE');
  }

  async #renew(epoch: number): Promise<void> {
    if (this.#renewed === epoch || this.executor.session === null) return;
    this.#renewed = epoch;
    this.spec.backend.forget?.({ channel: this.channel, agent: this.spec.id });
    await this.executor.restart();
  }

  async #former(epoch: number): Promise<void> {
    const { generation } = this.executor;
    if (generation === null) return;
    const isForgotten = generation.generating && generation.epoch < epoch && !generation.muted;
    if (isForgotten) this.executor.interrupt(this.#ports.interruptGraceMs);
    await generation.done;
  }

  #sendStopped(epoch: number): void {
    const holder = this.#ports.floors.holder(this.channel);
    if (holder !== undefined && (holder?.epoch !== epoch || holder.waitingFor !== 'human')) return;
    void this.#commands.send({ type: 'interrupted', agent: this.spec.id, epoch });
  }

  #isPast(row: OutboxRow, effect: Of<'prompt'>): boolean {
    if (effect.epoch <= this.#fence || this.#delivered.has(row.id)) return true;
    const holder = this.#ports.floors.holder(this.channel);
    return holder !== undefined && (holder?.agent !== this.spec.id || holder.epoch !== effect.epoch);
  }

  #warn(error: unknown, what: string): void {
    this.#ports.log.warn({ channel: this.channel, agent: this.spec.id, err: error }, what);
  }
}

const CONFIRMED: Settlement = { state: 'confirmed', platformId: null };
const RETRY_MS = 1_000;
const ASK_LINES = 50;
const REMEMBERED = 1_000;
