import { randomBytes } from 'node:crypto';
import type { AgentCommand, TurnDraft } from '../../turns/floor/command.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Roster, RosterEntry } from '../../turns/commands/context.ts';
import type { Settlement } from '../../engine/port.ts';
import type { Applied, OutboxRow } from '../../turns/floor-store.ts';
import { isEnvironmental } from '../../engine/errors.ts';
import { idIndex } from '../../lib/keyed.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Clock, Timers, Timer } from '../../lib/time.ts';
import { SeatedAgent } from './seated-agent.ts';
import type { SeatedAgentPorts } from './seated-agent.ts';
import type { AgentSpec, Beat, SessionSettings } from './session-executor.ts';
import type { AgentLog, CommandSender, FloorPort } from './floor-port.ts';
import { BackgroundSession } from './background-session.ts';
import type { AgentBackend } from '../backends/backend.ts';
import type { BackgroundListener, BackgroundOrder } from './background-session.ts';
import { restartAgent, rosterEntry, statusLines } from './session-roster.ts';
import type { Presence } from './session-roster.ts';
import type { SessionJournal } from './session-journal.ts';

type SupervisorOptions = {
  readonly agents: readonly AgentSpec[];
  readonly floors: FloorPort;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly settings: SupervisorSettings;
  readonly journal: SessionJournal;
  /** Returns random letters and digits for the boundaries of prompts. Default: from the system's randomness. */
  readonly boundary?: () => string;
};

/** The settings of all sessions; durations in milliseconds. `channel` is called at each use: changes apply at once. */
export type SupervisorSettings = {
  readonly heartbeatMs: number;
  readonly heartbeatTimeoutMs: number;
  /** Grace for a generation that still runs when its agent is prompted for a later epoch. */
  readonly interruptGraceMs: number;
  readonly channel: (channel: ChannelId) => SessionSettings;
};

type CommandQueuePorts = {
  readonly channel: ChannelId;
  readonly floors: Pick<FloorPort, 'apply'>;
  readonly timers: Timers;
  readonly log: AgentLog;
};

type Waiting = { readonly command: AgentCommand; readonly resolve: (applied: Applied | null) => void };

/**
 * Sends commands to a floor in order. Commands that wait together share a commit. A refused command is dropped. A
 * failed command is retried: without a limit while the store cannot be written, else for about an hour. `close` ends
 * the retries after one more attempt.
 */
export class CommandQueue implements CommandSender {
  readonly #ports: CommandQueuePorts;
  readonly #closing = new AbortController();
  #waiting: Waiting[] = [];
  #carrying: Promise<void> | null = null;

  constructor(ports: CommandQueuePorts) {
    this.#ports = ports;
  }

  send(command: AgentCommand): Promise<Applied | null> {
    const { promise, resolve } = Promise.withResolvers<Applied | null>();
    this.#waiting.push({ command, resolve });
    this.#carrying ??= this.#carryAll();
    return promise;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#carrying;
  }

  async #carryAll(): Promise<void> {
    // Waits until the present task has sent its other commands, so that all share a commit.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#carry(this.#waiting.splice(0));
    this.#carrying = null;
  }

  async #carry(batch: readonly Waiting[]): Promise<void> {
    const { channel, timers, log } = this.#ports;
    const { signal } = this.#closing;
    let [left, failures] = [batch, 0];
    const attempt = async (): Promise<void> => {
      const outcomes = await Promise.allSettled(left.map((each) => this.#apply(each)));
      left = left.filter((_, index) => outcomes[index]?.status === 'rejected');
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed === undefined) return;
      const { type, agent } = left[0]?.command ?? {};
      failures += 1;
      log.error({ channel, agent, command: type, attempt: failures, err: failed.reason }, 'floor could not be written');
      throw failed.reason;
    };
    const judge = ({ error }: { readonly error: unknown }) =>
      failures < ATTEMPTS || isEnvironmental(error) ? 'again' : 'give-up';
    // When `close` or the 120th failure ends the retries, the batch gets one more attempt.
    const tried = retry(attempt, POLICY, { timers, signal, judge }).catch(attempt);
    await tried.catch(() => left.forEach(({ resolve }) => resolve(null)));
  }

  async #apply({ command, resolve }: Waiting): Promise<void> {
    const { channel, floors, log } = this.#ports;
    const applied = await floors.apply(channel, command);
    const { type, agent } = command;
    if (!applied.ok) log.debug({ channel, agent, command: type, refusal: applied.refusal }, 'command refused');
    resolve(applied);
  }
}

/** Runs all agents: opens their sessions, carries out the floors' effects for agents, and reports to the floors. */
export class Supervisor implements Roster {
  #agents: readonly AgentSpec[];
  readonly #ports: Omit<SeatedAgentPorts, 'commands' | 'former'>;
  readonly #heartbeat: Heartbeat;
  readonly #seated = new Map<string, SeatedAgent>();
  /**
   * The sessions that `rest` or a heartbeat is closing, by seat. Each promise resolves when the session is closed, or
   * took longer than 5 s to close.
   */
  readonly #resting = new Map<string, Promise<void>>();
  readonly #backgroundSessions = new Set<BackgroundSession>();
  #running = false;

  constructor(options: SupervisorOptions) {
    const { settings, clock, timers, log, floors, journal } = options;
    this.#agents = options.agents;
    this.#ports = {
      floors,
      clock,
      timers,
      log,
      journal,
      interruptGraceMs: settings.interruptGraceMs,
      sessionSettings: settings.channel,
      describe: this.#describe,
      boundary: options.boundary ?? (() => randomBytes(8).toString('hex')),
    };
    this.#heartbeat = new Heartbeat({ ...settings, clock, timers, beat: (beat) => this.#beat(beat) });
  }

  /**
   * Opens a session for every agent that is not connected, in each of its channels or in these channels only. A session
   * that too many errors stopped stays closed until `restart`. A session that is idle for 15 minutes is closed and
   * opened again when its agent has work, unless its agent connects itself. Resolves after the first attempts,
   * successful or not.
   */
  async start(channels?: readonly ChannelId[]): Promise<void> {
    this.#running = true;
    const all = channels ?? this.#agents.flatMap(({ id }) => this.#ports.floors.seatsOf(id));
    await Promise.all([...new Set(all)].map((channel) => this.seat(channel)));
  }

  /**
   * Closes the sessions of all seats, and forgets background runs without closing their sessions. The agents do not
   * leave their floors. Streamed text is posted.
   */
  async stop(): Promise<void> {
    this.#running = false;
    this.#heartbeat.stop();
    const all = [...this.#seated.values()];
    this.#seated.clear();
    this.#backgroundSessions.clear();
    await Promise.all([...all.map((each) => each.close()), ...this.#resting.values()]);
  }

  /**
   * Applies a new configuration: opens sessions for new agents, closes sessions of removed agents, and replaces
   * sessions of agents with another backend, name or persona. Resolves after the first attempts, successful or not.
   * Only stores the configuration while the supervisor is not started.
   */
  async configure(agents: readonly AgentSpec[]): Promise<void> {
    const before = this.#agents;
    this.#agents = agents;
    if (!this.#running) return;
    const { floors } = this.#ports;
    const idsIn = (some: readonly AgentSpec[]): ReadonlySet<AgentId> => new Set(some.map(({ id }) => id));
    const [former, wanted] = [idsIn(before), idsIn(agents)];
    const changed = [...this.#seated.values()].filter(({ spec }) => !agents.some((other) => isSame(spec, other)));
    const removed = before.filter(({ id }) => !wanted.has(id));
    const leavers = removed.flatMap((spec) => floors.seatsOf(spec.id).map((channel) => this.#agent(spec, channel)));
    await Promise.all([...new Set([...changed, ...leavers])].map((seated) => this.#takeOut(seated)));
    const fresh = agents.filter(({ id }) => !former.has(id)).flatMap(({ id }) => floors.seatsOf(id));
    await Promise.all(
      [...new Set([...changed.map(({ channel }) => channel), ...fresh])].map((each) => this.seat(each)),
    );
  }

  /**
   * Adjusts a channel's sessions to its seats. Agents without an enabled seat lose their session. Agents that the floor
   * does not count as connected get a session now, others when they have work. Resolves after the first attempts,
   * successful or not.
   */
  async seat(channel: ChannelId): Promise<void> {
    if (!this.#running) return;
    const { floors } = this.#ports;
    const wanted = floors.seatedIn(channel);
    const others = this.#agents.filter(({ id }) => !wanted.includes(id));
    const extra = others.flatMap(({ id }) => this.#seated.get(keyOf(channel, id)) ?? []);
    const absent = floors.missingIn(channel);
    const missing = this.#agents.filter(({ id }) => absent.includes(id));
    await Promise.all([
      ...extra.map((seated) => this.#takeOut(seated)),
      ...missing.map((spec) => this.#seat(spec, channel)),
    ]);
  }

  /**
   * Carries out an outbox row for an agent. Resolves with `failed` also for a row that is not for an agent, and for an
   * agent without an enabled seat.
   */
  async deliver(row: OutboxRow): Promise<Settlement> {
    const { effect } = row;
    if (!('agent' in effect) || effect.type === 'post' || effect.type === 'offerTrust')
      return { state: 'failed', why: `${effect.type} is not for agents` };
    const agent = await this.#seatedFor(row.channel, effect.agent, effect.type !== 'observe');
    if (agent === null) return { state: 'failed', why: `${effect.agent} is not in ${row.channel}` };
    if (agent === 'at rest') return { state: 'confirmed', platformId: null };
    switch (effect.type) {
      case 'prompt':
        return await agent.prompt(row, effect);
      case 'inject':
        return agent.inject(row, effect);
      case 'interrupt':
        return agent.interrupt(effect);
      case 'observe':
        return agent.observe(effect);
      case 'ask':
        return agent.ask(effect);
      case 'cancel':
        return agent.cancel(effect.epoch);
    }
  }

  /** The text that the holder of a channel has streamed and not yet posted; `null` for none. */
  draft(channel: ChannelId): TurnDraft | null {
    return this.#newestOf(channel, ({ executor }) => executor.generation?.draft ?? null);
  }

  /** Returns the holder's draft and removes it, so that the caller posts the draft; `null` for none. */
  takeDraft(channel: ChannelId): TurnDraft | null {
    return this.#newestOf(channel, (seated) => seated.takeDraft());
  }

  /**
   * Why an agent's session in a channel was last lost or could not be opened. `null` for none, and while the seat has
   * no session until its next work.
   */
  lastCause(channel: ChannelId, agent: AgentId): string | null {
    return this.#seated.get(keyOf(channel, agent))?.executor.lastCause ?? null;
  }

  /**
   * Starts the session of a background run; `null` when there is no such agent, or when the supervisor does not run.
   */
  startBackgroundRun(agent: AgentId, order: BackgroundOrder, listener: BackgroundListener): BackgroundSession | null {
    const spec = this.#specOf(agent);
    if (spec === undefined || !this.#running) return null;
    const session = new BackgroundSession(spec, order, this.#ports, listener);
    this.#backgroundSessions.add(session);
    this.#heartbeat.start();
    return session;
  }

  /** The backend of an agent; `null` when there is no such agent. */
  backend(agent: AgentId): AgentBackend | null {
    return this.#specOf(agent)?.backend ?? null;
  }

  list(): readonly RosterEntry[] {
    return this.#agents.map((spec) => rosterEntry(spec, this.#presenceOf(spec.id)));
  }

  status(agent: AgentId): readonly string[] | null {
    const spec = this.#specOf(agent);
    return spec === undefined ? null : statusLines(spec, this.#presenceOf(agent));
  }

  async restart(agent: AgentId): Promise<{ readonly ok: boolean; readonly text: string }> {
    return await restartAgent(agent, this.#specOf(agent), this.#presenceOf(agent));
  }

  /** Closes the sessions of an agent's seats. Background runs go on. The agent's next work opens its session again. */
  async rest(agent: AgentId): Promise<void> {
    const resting = [...this.#seated].filter(([, { spec }]) => spec.id === agent);
    await Promise.all(resting.map(([key, seated]) => this.#rest(key, seated)));
  }

  #newestOf(channel: ChannelId, draftOf: (seated: SeatedAgent) => TurnDraft | null): TurnDraft | null {
    const drafts = this.#agents.flatMap(({ id }) => {
      const seated = this.#seated.get(keyOf(channel, id));
      return seated === undefined ? [] : (draftOf(seated) ?? []);
    });
    return drafts.toSorted((one, other) => other.epoch - one.epoch)[0] ?? null;
  }

  #specOf(agent: AgentId): AgentSpec | undefined {
    return specsById(this.#agents).get(agent);
  }

  #presenceOf(agent: AgentId): Presence {
    const { floors } = this.#ports;
    const channels = floors.seatsOf(agent);
    const isOff = (channel: ChannelId): boolean =>
      floors.view(channel)?.seats.some((seat) => seat.agent === agent && seat.disabled) === true;
    const seated = [...this.#seated.values()].filter(({ spec }) => spec.id === agent);
    return { channels, disabled: channels.filter(isOff), seated };
  }

  async #seatedFor(channel: ChannelId, id: AgentId, wakes: boolean): Promise<SeatedAgent | 'at rest' | null> {
    const seated = this.#seated.get(keyOf(channel, id));
    if (seated !== undefined) return seated;
    const spec = this.#specOf(id);
    if (spec === undefined || !this.#running || !this.#ports.floors.seatedIn(channel).includes(id)) return null;
    return wakes ? await this.#seat(spec, channel) : 'at rest';
  }

  async #seat(spec: AgentSpec, channel: ChannelId): Promise<SeatedAgent> {
    const key = keyOf(channel, spec.id);
    const known = this.#seated.get(key);
    if (known !== undefined) {
      await known.executor.settled();
      return known;
    }
    this.#heartbeat.start();
    const agent = this.#make(spec, channel);
    this.#seated.set(key, agent);
    await agent.executor.begin();
    return agent;
  }

  #rest(key: string, seated: SeatedAgent): Promise<void> {
    this.#seated.delete(key);
    const closed = seated.rest().finally(() => {
      if (this.#resting.get(key) === closed) this.#resting.delete(key);
    });
    this.#resting.set(key, closed);
    return closed;
  }

  /**
   * Returns the seated agent. For a seat that has no session until its next work, returns a new object without a
   * session, so that the agent can leave.
   */
  #agent(spec: AgentSpec, channel: ChannelId): SeatedAgent {
    return this.#seated.get(keyOf(channel, spec.id)) ?? this.#make(spec, channel);
  }

  #takeOut(seated: SeatedAgent): Promise<void> {
    this.#seated.delete(keyOf(seated.channel, seated.spec.id));
    return seated.leave('no longer has a seat here');
  }

  #make(spec: AgentSpec, channel: ChannelId): SeatedAgent {
    const commands = new CommandQueue({ ...this.#ports, channel });
    const former = this.#resting.get(keyOf(channel, spec.id)) ?? Promise.resolve();
    return new SeatedAgent(spec, channel, { ...this.#ports, commands, former });
  }

  #beat(beat: Beat): void {
    for (const [key, agent] of this.#seated) {
      if (agent.isAtRest(REST_AFTER_MS)) {
        void this.#rest(key, agent);
      } else agent.executor.beat(beat);
    }
    for (const session of this.#backgroundSessions) {
      if (session.isOver) this.#backgroundSessions.delete(session);
      else session.executor.beat(beat);
    }
    if (this.#seated.size + this.#backgroundSessions.size === 0) this.#heartbeat.stop();
  }

  readonly #describe: SeatedAgentPorts['describe'] = (agent) => {
    const spec = this.#specOf(agent);
    return { name: spec?.name ?? agent, description: spec?.description ?? '' };
  };
}

/** Idle time in milliseconds after which a session is closed, unless its agent connects itself. */
const REST_AFTER_MS = 900_000;

const specsById = idIndex<AgentSpec>();

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 30_000 };
/**
 * Failed attempts to write commands after which one more attempt is the last. Errors of the database, the disk or
 * another process drop no commands until `close`.
 */
const ATTEMPTS = 120;

function keyOf(channel: ChannelId, agent: AgentId): string {
  return `${channel}\n${agent}`;
}

function isSame(one: AgentSpec, other: AgentSpec): boolean {
  return (
    one.id === other.id && one.backend === other.backend && one.name === other.name && one.persona === other.persona
  );
}

type HeartbeatPorts = {
  readonly heartbeatMs: number;
  readonly heartbeatTimeoutMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly beat: (beat: Beat) => void;
};

/** Calls `beat` every `heartbeatMs`. Sets `overslept` when a call is more than half of this interval late. */
export class Heartbeat {
  readonly #ports: HeartbeatPorts;
  #timer: Timer | null = null;

  constructor(ports: HeartbeatPorts) {
    this.#ports = ports;
  }

  /** Starts the checks. Does nothing when they already run. */
  start(): void {
    if (this.#timer !== null) return;
    const { clock, timers, heartbeatMs, heartbeatTimeoutMs, beat } = this.#ports;
    const dueAt = clock.now() + heartbeatMs;
    this.#timer = timers.after(heartbeatMs, () => {
      const overslept = clock.now() - dueAt > heartbeatMs / 2;
      this.#timer = null;
      this.start();
      beat({
        allowed: Math.ceil(heartbeatTimeoutMs / heartbeatMs),
        overslept,
        cause: `no heartbeat for ${Math.round(heartbeatTimeoutMs / 1_000)} s`,
      });
    });
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
