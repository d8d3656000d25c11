import type {
  AgentBackend,
  AgentSession,
  Ending,
  InjectOutcome,
  Report,
  SeatContext,
  TurnPrompt,
} from '../../src/agents/backends/backend.ts';
import type { SeatTaint } from '../../src/agents/session/floor-port.ts';
import type { AgentSpec } from '../../src/agents/session/session-executor.ts';
import type { FloorPort, AgentLog } from '../../src/agents/session/floor-port.ts';
import type { Thresholds } from '../../src/agents/session/session-machine.ts';
import type { SessionJournal } from '../../src/agents/session/session-journal.ts';
import { Supervisor } from '../../src/agents/session/supervisor.ts';
import type { SupervisorSettings } from '../../src/agents/session/supervisor.ts';
import type { AgentCommand } from '../../src/turns/floor/command.ts';
import type { Effect } from '../../src/turns/floor/react.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';
import type { Line, FloorView } from '../../src/turns/view.ts';
import type { OutboxRow } from '../../src/turns/floor-store.ts';
import { gateThat } from './backends/conversation.ts';
import type { ToolGate } from '../../src/agents/tools/tool-gate.ts';
import { createTime } from './time.ts';
import type { Time } from './time.ts';

export const CHANNEL = 'console:demo';

/** Floor ports that record the commands they receive. */
export function fakeFloors() {
  const told: AgentCommand[] = [];
  const drafts: (string | null)[] = [];
  const state = {
    told,
    drafts,
    lines: [] as Line[],
    view: null as FloorView | null,
    /** The channels in which dev has a seat. */
    seats: [CHANNEL],
    /** How many of the next commands fail to be written. */
    broken: 0,
    refuse: (_command: AgentCommand): boolean => false,
  };
  const floors: FloorPort = {
    async apply(channel, command) {
      if (state.broken > 0) {
        state.broken -= 1;
        throw new Error('disk is full');
      }
      const floor = emptyFloor(channel);
      if (state.refuse(command)) return { ok: false, state: floor, refusal: 'stale-epoch' };
      told.push(command);
      return { ok: true, state: floor, facts: [], effects: [] };
    },
    linesBetween: (_channel, after, upto) => state.lines.filter(({ line }) => line > after && line <= upto),
    lines: (_channel, limit) => state.lines.slice(-limit),
    message: (id) => state.lines.findLast(({ message }) => message === id) ?? null,
    view: () => state.view,
    briefOf: () => '',
    seatedIn: (channel) => (state.seats.includes(channel) ? ['dev'] : []),
    missingIn: (channel) => (state.seats.includes(channel) ? ['dev'] : []),
    seatsOf: (agent) => (agent === 'dev' ? state.seats : []),
    holder: () => (state.view === null ? undefined : state.view.holder),
    draft: (_channel, _agent, _epoch, text) => void drafts.push(text),
  };
  return { ...state, floors, state };
}

/** A session controlled by the test. Every prompt waits until the test ends it. */
export class Puppet implements AgentSession {
  readonly calls: string[] = [];
  seat: SeatContext | null = null;
  turn: TurnPrompt | null = null;
  report: Report | null = null;
  injectOutcome: InjectOutcome | Promise<InjectOutcome> | Error = 'injected';
  stopsWhenInterrupted = true;
  pings: 'answered' | 'silent' | Error = 'answered';
  choice: string | null = null;
  closes = true;
  resumed?: boolean;
  declare history?: 'own' | 'posted';
  #end = Promise.withResolvers<Ending>();

  prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    this.calls.push(`prompt #${turn.epoch} ${turn.reason}`);
    this.turn = turn;
    this.report = report;
    this.#end = Promise.withResolvers<Ending>();
    return this.#end.promise;
  }

  /** Ends the running generation. */
  ends(ending: Ending | Error): void {
    if (ending instanceof Error) this.#end.reject(ending);
    else this.#end.resolve(ending);
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    this.calls.push(
      `inject ${message.message}${message.change === null ? '' : ` ${message.change}`}${observed ? ' observed' : ''}`,
    );
    if (this.injectOutcome instanceof Error) throw this.injectOutcome;
    return await this.injectOutcome;
  }

  async interrupt(graceMs: number): Promise<void> {
    this.calls.push(`interrupt ${graceMs}`);
    if (this.stopsWhenInterrupted) this.#end.resolve({ how: 'interrupted' });
  }

  observe(message: Line): void {
    this.calls.push(`observe ${message.message}`);
  }

  async choose(): Promise<string | null> {
    return this.choice;
  }

  ping(): Promise<void> {
    if (this.pings === 'answered') return Promise.resolve();
    return this.pings === 'silent' ? new Promise(() => {}) : Promise.reject(this.pings);
  }

  async close(): Promise<void> {
    this.calls.push('close');
    if (!this.closes) await new Promise(() => {});
  }
}

/** A backend whose sessions are puppets. Each attempt to open one fails with the next of `failures`, if any. */
export function puppetry(
  options: { readonly needsSignal?: boolean; readonly failures?: Error[]; readonly resumed?: boolean } & Pick<
    AgentBackend,
    'settable'
  > = {},
) {
  const sessions: Puppet[] = [];
  const failures = options.failures ?? [];
  const gates: Promise<void>[] = [];
  /** Delays the next session until the returned function is called. */
  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gates.push(promise);
    return resolve;
  };
  const backend: AgentBackend = {
    kind: 'puppet',
    needsSignal: options.needsSignal ?? false,
    promisesToAsk: true,
    ...(options.settable === undefined ? {} : { settable: options.settable }),
    async open(seat) {
      const failure = failures.shift();
      if (failure) throw failure;
      const gate = gates.shift();
      if (gate) await gate;
      const session = new Puppet();
      if (options.resumed !== undefined) session.resumed = options.resumed;
      session.seat = seat;
      sessions.push(session);
      return session;
    },
  };
  return { backend, sessions, failures, hold };
}

export const SETTINGS: SupervisorSettings = {
  heartbeatMs: 15_000,
  heartbeatTimeoutMs: 45_000,
  interruptGraceMs: 5_000,
  channel: () => ({
    coalesceMs: 500,
    contextTokens: 4_000,
    signal: 'TURN_COMPLETE',
    passWords: ['PASS'],
    place: { name: 'demo', topic: '' },
    gate: () => gateThat(() => 'reject'),
  }),
};

/** A journal that stores nothing: every session starts with no history. */
export const NO_JOURNAL: SessionJournal = { state: () => null, apply: async () => {} };

/** Options of a bench. */
export type BenchOptions = {
  readonly needsSignal?: boolean;
  readonly failures?: Error[];
  readonly journal?: SessionJournal;
  readonly thresholds?: Thresholds;
  readonly taint?: SeatTaint;
  readonly gate?: ToolGate;
  /** Whether sessions continue an earlier conversation. */
  readonly resumed?: boolean;
  /** The clock to continue with. */
  readonly time?: Time;
  /** The floor's view at the start. */
  readonly view?: FloorView;
};

/** A supervisor with one agent, dev, which has a seat in the demo channel. */
export async function bench(options: BenchOptions = {}) {
  const time = options.time ?? createTime();
  const { floors, state } = fakeFloors();
  state.view = options.view ?? null;
  const { backend, sessions, failures, hold } = puppetry(options);
  const thresholds = options.thresholds === undefined ? {} : { thresholds: options.thresholds };
  const { taint } = options;
  const { gate } = options;
  const tainted = {
    ...(taint === undefined ? {} : { taint: () => taint }),
    ...(gate === undefined ? {} : { gate: () => gate }),
  };
  const logged: string[] = [];
  const keep = (level: string) => (fields: object, message: string) => {
    logged.push(`${level}: ${message} ${'cause' in fields ? String(fields.cause) : ''}`.trim());
  };
  /** The transitions of the session machine: "from trigger to effect". */
  const moves: string[] = [];
  const debug = (fields: object, message: string) => {
    if (message === 'session' && 'trigger' in fields) moves.push(Object.values(fields).slice(2).join(' '));
  };
  const log: AgentLog = { debug, info: keep('info'), warn: keep('warn'), error: keep('error') };
  const dev: AgentSpec = {
    id: 'dev',
    name: 'Developer',
    description: 'writes code',
    persona: '',
    backend,
  };
  const supervisor = new Supervisor({
    agents: [dev],
    floors,
    clock: time.clock,
    timers: time.timers,
    log,
    settings: { ...SETTINGS, channel: (id) => ({ ...SETTINGS.channel(id), ...thresholds, ...tainted }) },
    journal: options.journal ?? NO_JOURNAL,
    boundary: () => 'b0a1f7c2',
  });
  await supervisor.start();
  let rows = 0;
  const row = (effect: Effect, id = `row-${(rows += 1)}`): OutboxRow => ({
    id,
    channel: CHANNEL,
    lane: 'agent:dev',
    effect,
    part: 0,
    text: null,
    attempts: 1,
    uncertain: false,
    afterId: null,
    editsId: null,
  });
  const deliver = async (effect: Effect, id?: string) => {
    const settled = supervisor.deliver(row(effect, id));
    await time.settle();
    return settled;
  };
  const prompt = (epoch: number, more: Partial<Extract<Effect, { type: 'prompt' }>> = {}, id?: string) =>
    deliver(
      {
        type: 'prompt',
        agent: 'dev',
        epoch,
        reason: 'grant',
        afterLine: 0,
        uptoLine: 99,
        messages: [],
        open: [],
        ...more,
      },
      id,
    );
  const inject = (
    epoch: number,
    message: string,
    more: Partial<Extract<Effect, { type: 'inject' }>> = {},
    id?: string,
  ) => deliver({ type: 'inject', agent: 'dev', epoch, message, observed: false, ...more }, id);
  const interrupt = (epoch: number, graceMs = 5_000) => deliver({ type: 'interrupt', agent: 'dev', epoch, graceMs });
  /** Delivers the interrupt of a turn that timed out without a sign of work. */
  const hangs = (epoch: number) => deliver({ type: 'interrupt', agent: 'dev', epoch, graceMs: 5_000, hung: true });
  /** The current session. */
  const session = () => sessions.at(-1)!;
  const types = () => state.told.map(({ type }) => type);
  return {
    time,
    floors: state,
    supervisor,
    sessions,
    session,
    failures,
    hold,
    deliver,
    prompt,
    inject,
    interrupt,
    hangs,
    logged,
    moves,
    types,
    dev,
  };
}

/** A view in which this agent holds the floor. */
export function holding(agent: string, epoch: number, waitingFor: 'human' | 'answer' | null = null): FloorView {
  return {
    channel: CHANNEL,
    store: 'x',
    condition: 'open',
    mode: 'inject',
    order: 'round-robin',
    epoch,
    holder: {
      agent,
      epoch,
      status: waitingFor === null ? 'ACTIVE' : 'WAITING',
      startedAt: 0,
      deadlineAt: null,
      waitingFor,
      working: false,
      approval: null,
    },
    seats: [{ agent, status: waitingFor === null ? 'ACTIVE' : 'WAITING', disabled: false, waitUntil: null }],
    next: [],
    held: [],
    turns: null,
    obstacles: [],
  };
}
