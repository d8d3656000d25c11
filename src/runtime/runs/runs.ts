import type { AgentBackend } from '../../agents/backends/backend.ts';
import type { ToolGate } from '../../agents/tools/tool-gate.ts';
import { membersOf, stepsOf } from '../../config/config.ts';
import type { Config } from '../../config/config.ts';
import type { BackgroundListener } from '../../agents/session/background-session.ts';
import type { Supervisor } from '../../agents/session/supervisor.ts';
import { defined } from '../../lib/defined.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { FloorStore } from '../../turns/floor-store.ts';
import type { AgentCommand } from '../../turns/floor/command.ts';
import { findSeat, findTurn } from '../../turns/floor/seats.ts';
import type { ReadOnly } from '../../rules/verdict.ts';
import type { TurnManager } from '../../turns/manager.ts';
import { BackgroundRuns } from '../../work/runs/background-work.ts';
import type { BackgroundReports, BackgroundTask, BackgroundWorker } from '../../work/runs/background-work.ts';
import { isBackgroundName, runKeyOf, runOnFloor } from '../../work/runs/floor-binding.ts';
import type { RunSeat } from '../../work/runs/floor-binding.ts';
import { createRunCommands } from '../../work/runs/run-commands.ts';
import type { RunCommandPorts } from '../../work/runs/run-commands.ts';
import type { RunStore } from '../../work/runs/run-machine.ts';
import { messagesGivenTo, requestersOf } from '../../turns/requesters.ts';
import type { Line } from '../../turns/view.ts';
import type { Requester } from '../../turns/requesters.ts';
import type { RunCommands } from '../../turns/commands/context.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { EventSource } from '../../adapters/console/event-stream.ts';
import type { AuditSource } from '../../turns/tool-calls.ts';
import { createAudit } from '../../work/runs/run-audit.ts';
import { RunFeeds } from '../../work/runs/run-feed.ts';
import { RunTaints } from '../../work/runs/run-taints.ts';
import type { TaintPorts } from '../../work/runs/run-taints.ts';
import { streamRuns } from '../../work/runs/run-stream.ts';
import { publishedOf } from '../../work/runs/run-published.ts';
import { redactedReport } from '../log.ts';
import type { Log } from '../log.ts';
import { createKnownPeople } from '../read-model.ts';
import type { KnownPeople, ReadModel } from '../read-model.ts';
import { createRunGates } from './run-gate.ts';
import { judgeCall, reachesServer, readToolList } from './tool-judge.ts';
import type { CallCircumstances } from './tool-judge.ts';

type RunsPorts = {
  readonly store: Pick<FloorStore, 'host' | 'floors' | 'message' | 'lines' | 'keyValues' | 'onErased'>;
  readonly floors: Pick<RunCommandPorts['floors'], 'view' | 'turns'> & Pick<ReadModel, 'seatsOf'>;
  readonly manager: Pick<TurnManager, 'apply' | 'floor' | 'keep'>;
  /** The id of the person who asked for the task of a channel, such as a review; '' or `null` when unknown. */
  readonly taskRequesterOf: (channel: ChannelId) => string | null;
  /** The path of the reviewer's files in a channel's last review; `null` for none. */
  readonly shownIn: (channel: ChannelId) => string | null;
  /** Ids of operators without an entry in the configuration: the user of this machine's page. */
  readonly localOperators: readonly string[];
  readonly config: () => Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly clean: (text: string) => string;
};

type EventRequest = Parameters<EventSource>[0];
type Sink = Parameters<EventSource>[1];

/** The runs of all seats. */
export class Runs {
  readonly store: RunStore;
  readonly people: KnownPeople;
  readonly commands: RunCommands;
  /** Makes the gate between an agent and its tools. */
  readonly gateFor: (seat: RunSeat, epoch: number) => ToolGate;

  /** Labels of what agents' sessions have read: untrusted or private text. */
  readonly taints: RunTaints;

  /** Sends events of runs to the programs that read them. */
  readonly events: EventSource;
  /** Reads the record of all tool calls. */
  readonly audit: AuditSource;
  /** Shows an agent's draft to readers of events; `null` until the first reader comes. */
  drafted: RunFeeds['drafted'] | null = null;

  readonly #ports: RunsPorts;
  readonly #backgroundRuns: BackgroundRuns;
  readonly #lines = new BoundedMap<ChannelId, readonly Line[]>(CHANNELS);
  /** The agents for background runs; `null` before `begin`. */
  #agents: Pick<Supervisor, 'startBackgroundRun' | 'backend'> | null = null;
  #isEnding = false;

  /** Must be created before the store recovers. */
  constructor(ports: RunsPorts) {
    const { store, config, clock, log, manager, floors } = ports;
    this.#ports = ports;
    const runs = store.host(runOnFloor);
    this.store = runs;
    const feeds = new RunFeeds({ runs, now: () => clock.now() });
    this.events = (request, sink) => this.#read(feeds, request, sink);
    const failed = (error: unknown): void => log.error({ err: error }, 'a run’s command could not be written');
    const memory = {
      get: (id: string) => store.keyValues.recall(NAMES, id),
      set: (id: string, name: string) => void store.keyValues.remember(NAMES, id, name).catch(failed),
    };
    this.people = createKnownPeople(config, ports.localOperators, memory);
    const vouched: TaintPorts['vouched'] = (seat, author) =>
      membersOf(config(), seat) === 'same' || this.people.operates(author);
    this.taints = new RunTaints({ runs, clock, failed, vouched, said: (channel) => this.#recentLines(channel) });
    store.onErased(() => {
      this.#lines.clear();
      this.taints.clearCache();
      this.people.forgetNames();
    });
    logCleanups(runs, log);
    const nameOf = (id: string): string =>
      config().agents.find((agent) => agent.id === id)?.name ?? this.people.nameOf(id);
    this.audit = createAudit({ runs, view: (channel) => floors.view(channel), nameOf });
    this.commands = createRunCommands({
      runs,
      floors: {
        ...floors,
        apply: (channel, command) => manager.apply(channel, command),
        keep: (channel, agent, by, completes) => manager.keep(channel, agent, by, completes),
      },
      clock,
      nameOf,
      closed: (channel, request) => closedQuestion(store.floors, channel, request),
      approvers: (agent) => config().agents.find(({ id }) => id === agent)?.approvers ?? null,
      written: (seat) => this.#writtenBy(seat),
      settable: (agent) => settableOf(this.#agents?.backend(agent) ?? null),
      readTools: readToolList,
      requesters: (seat) => this.#requesters(seat).map(({ id }) => id),
      work: (seat) => this.#limitsOf(seat),
    });
    this.#backgroundRuns = this.#createBackgroundRuns(failed);
    this.gateFor = this.#createGates(failed);
  }

  /** Continues the background runs that were open when Conch ended. */
  begin(agents: Pick<Supervisor, 'startBackgroundRun' | 'backend'>): Promise<void> {
    this.#agents = agents;
    return this.#backgroundRuns.begin();
  }

  /** Adds the ids of the requester and the run, where they are known, to the report of a model call. */
  withRequester(seat: RunSeat, command: AgentCommand): AgentCommand {
    if (command.type !== 'spend' || command.use === undefined) return command;
    const requestedBy = this.#requestedBy(seat) ?? '';
    const run = this.store.state(runKeyOf(seat))?.run ?? null;
    const isIts = seat.isBackground === true || run?.session === `${command.epoch}`;
    const more = { ...(requestedBy === '' ? {} : { requestedBy }), ...(run !== null && isIts ? { run: run.id } : {}) };
    return { ...command, use: { ...command.use, ...more } };
  }

  /** The number of steps so far in the open run of a turn or a background run; `null` for no open run. */
  stepsOf(seat: RunSeat): number | null {
    const { status, run } = this.store.state(runKeyOf(seat)) ?? { status: 'idle', run: null };
    return run === null || status === 'idle' || status === 'completed' ? null : run.turn;
  }

  /** Stops background runs until the next start, without posting reports. Open requests stay open. */
  stop(): Promise<void> {
    this.#isEnding = true;
    return this.#backgroundRuns.stop();
  }

  #createGates(failed: (error: unknown) => void): (seat: RunSeat, epoch: number) => ToolGate {
    const { config } = this.#ports;
    return createRunGates({
      ...this.#ports,
      runs: this.store,
      judge: (seat, call, remembered) => judgeCall(config(), seat, call, this.#circumstances(seat, remembered)),
      maxTurns: (seat) => stepsOf(config(), seat, 'conversational'),
      requestedBy: (seat) => this.#requestedBy(seat),
      prompt: (seat) => this.#promptOf(seat),
      failed,
      isEnding: () => this.#isEnding,
    });
  }

  #limitsOf(seat: RunSeat): ReturnType<RunCommandPorts['work']> {
    const { config, manager } = this.#ports;
    const waitMs = manager.floor(seat.channel)?.settings.waitTimeoutMs ?? 0;
    return { steps: stepsOf(config(), seat, 'background'), waitMs };
  }

  #createBackgroundRuns(failed: (error: unknown) => void): BackgroundRuns {
    const { manager } = this.#ports;
    return new BackgroundRuns({
      ...this.#ports,
      runs: this.store,
      failed,
      open: (task, reports) => this.#open(task, reports),
      tell: ({ channel, agent }, run, what) =>
        void manager.apply(channel, { type: 'tellAside', agent, run, what }).catch(failed),
      timeoutMs: ({ channel, agent }) => {
        const floor = manager.floor(channel);
        return (floor === null ? undefined : findSeat(floor, agent))?.timeoutMs ?? 0;
      },
    });
  }

  #read(feeds: RunFeeds, { agent, channel, after, format }: EventRequest, sink: Sink): ReturnType<EventSource> {
    const { floors, clock } = this.#ports;
    this.drafted ??= (seat, text) => feeds.drafted(seat, text);
    const isBackground = isBackgroundName(agent);
    const id = isBackground ? agent.slice(0, -1) : agent;
    const seats = floors.seatsOf(id);
    const [only] = seats;
    if (only === undefined) return { ok: false, status: 404, text: `There is no agent "${id}" in any channel.` };
    if (channel === null && seats.length > 1)
      return { ok: false, status: 400, text: `Say which channel: ${seats.join(', ')}.` };
    if (channel !== null && !seats.includes(channel))
      return { ok: false, status: 404, text: `"${id}" has no seat in ${channel}.` };
    const turnSeat: RunSeat = { channel: channel ?? only, agent: id };
    const backgroundSeat: RunSeat = { ...turnSeat, isBackground: true };
    const streamedSeats = isBackground
      ? ([backgroundSeat] as const)
      : format === 'ag-ui'
        ? ([turnSeat] as const)
        : ([turnSeat, backgroundSeat] as const);
    return streamRuns(feeds, streamedSeats, { after, format, at: clock.now() }, sink);
  }

  #circumstances(seat: RunSeat, remembered: CallCircumstances['remembered']): CallCircumstances {
    const { clock, clean } = this.#ports;
    const only = this.store.state(runKeyOf(seat))?.run?.allowedTools ?? null;
    const readOnly = this.#readOnly(seat);
    const shown = readOnly !== null ? (this.#ports.shownIn(seat.channel) ?? undefined) : undefined;
    return {
      at: clock.now(),
      remembered,
      only,
      member: this.#member(seat),
      readOnly,
      ...defined({ shown }),
      session: this.taints.of(seat),
      clean,
    };
  }

  /** Why an agent must not change the work in its turn: it reviews, or speaks for another ticket. `null`: it may. */
  #readOnly({ channel, agent, isBackground }: RunSeat): ReadOnly | null {
    const floor = this.#ports.manager.floor(channel);
    if (isBackground === true || floor?.task === undefined || floor.task.primary === agent) return null;
    if (findTurn(floor, agent)?.brief === undefined) return null;
    return floor.task.kind === 'review' ? 'review' : 'meeting';
  }

  /** The people and programs that caused a seat's work. */
  #requesters(seat: RunSeat): readonly Requester[] {
    const { channel, agent, isBackground } = seat;
    const { store, manager } = this.#ports;
    const by = isBackground === true ? this.store.state(runKeyOf(seat))?.run?.requestedBy : undefined;
    if (by !== undefined) return [this.#personOf(by)];
    const floor = manager.floor(channel);
    const turn = floor === null ? null : findTurn(floor, agent);
    const asker = turn?.brief === undefined ? null : this.#ports.taskRequesterOf(channel);
    if (asker !== null) {
      const authors = messagesGivenTo(turn).flatMap((id) => authorIn(store, id) ?? []);
      return [this.#personOf(asker), ...authors.filter(({ id }) => id !== asker)];
    }
    return requestersOf(floor, agent, {
      newest: () => store.floors.newest(channel),
      authorOf: (id) => authorIn(store, id),
    });
  }

  #personOf(id: string): Requester {
    return { id, name: this.people.nameOf(id) };
  }

  #requestedBy(seat: RunSeat): string | null {
    return this.#member(seat)?.id ?? this.#requesters(seat)[0]?.id ?? null;
  }

  #writtenBy(seat: RunSeat): string {
    if (seat.isBackground === true) return this.#backgroundRuns.written(seat);
    const floor = this.#ports.manager.floor(seat.channel);
    return (floor === null ? null : findTurn(floor, seat.agent))?.words ?? '';
  }

  #promptOf({ channel, agent }: RunSeat): string | null {
    const { store, manager } = this.#ports;
    const floor = manager.floor(channel);
    const turn = floor === null ? null : findTurn(floor, agent);
    const texts = messagesGivenTo(turn).flatMap((id) => store.message(id)?.text.trim() ?? []);
    return texts.join('\n\n') || null;
  }

  /** The first requester of a seat's work who is not an operator; `null` for none. */
  #member(seat: RunSeat): Requester | null {
    return this.#requesters(seat).find((requester) => !this.people.operates(requester)) ?? null;
  }

  #recentLines(channel: ChannelId): readonly Line[] {
    const last = this.#ports.manager.floor(channel)?.lines ?? 0;
    const cached = this.#lines.get(channel) ?? [];
    const after = Math.max(cached.at(-1)?.line ?? 0, last - LOOKED_AT);
    if (after >= last) return cached;
    const lines = [...cached, ...this.#ports.store.lines(channel, after, last)].slice(-LOOKED_AT);
    this.#lines.set(channel, lines);
    return lines;
  }

  #open({ seat, tools, by, ...order }: BackgroundTask, reports: BackgroundReports): BackgroundWorker | null {
    const { manager, log, clean, config } = this.#ports;
    const reaches = (server: string, tool: string | null): boolean =>
      tools === null || reachesServer(config(), seat, server, tool, tools);
    const { channel, agent } = seat;
    const logFailure = (error: unknown): void => log.error({ err: error }, 'an agent’s report could not be written');
    const listener: BackgroundListener = {
      worked: (sign) => reports.worked(sign),
      done: (text) => reports.done(clean(text)),
      lost: (failure) => reports.lost({ ...failure, message: clean(failure.message) }),
      drafted: (text) => this.drafted?.({ channel, agent, isBackground: true }, text === null ? null : clean(text)),
      reported: (report) => {
        const bookedReport = report.type === 'spend' ? this.withRequester(seat, { ...report, epoch: 0 }) : report;
        manager.apply(channel, redactedReport(bookedReport, clean)).catch(logFailure);
      },
    };
    const task = { channel, ...order, by: this.#personOf(by), reaches };
    const session = this.#agents?.startBackgroundRun(agent, task, listener) ?? null;
    return session === null ? null : { written: () => clean(session.written()), stop: () => session.stop() };
  }
}

function settableOf(backend: AgentBackend | null): ReturnType<RunCommandPorts['settable']> {
  return backend === null ? null : { backend: backend.kind, options: backend.settable ?? [] };
}

function logCleanups(runs: Pick<RunStore, 'onChange'>, log: Log): void {
  runs.onChange(({ facts, state }) => {
    for (const { type } of facts.flatMap((fact) => publishedOf(fact, state)))
      if (type === 'agent:cleanup') log.debug({ event: type, run: state.run?.id, status: state.status }, 'run is over');
  });
}

function authorIn(store: Pick<FloorStore, 'message'>, id: string): Requester | null {
  const message = store.message(id);
  return message === null ? null : { ...message.author, ...(message.bot === true ? { bot: true } : {}) };
}

/** The owner under which names of people who gave commands are stored. */
export const NAMES = 'names';

/** Number of channels whose last conversation lines are cached. */
const CHANNELS = 100;

/**
 * Number of newest conversation lines that are searched for authors, and of newest facts searched for a closed request.
 */
const LOOKED_AT = 1_000;

function closedQuestion(
  floors: Pick<FloorStore['floors'], 'journal'>,
  channel: ChannelId,
  request: { readonly question: number } | { readonly key: string },
): { readonly choice: string; readonly by: string | null } | null {
  for (const { fact } of floors.journal(channel, LOOKED_AT).toReversed()) {
    if (fact.type !== 'questionClosed' && fact.type !== 'asideAnswered') continue;
    if ('key' in request ? fact.key === request.key : fact.question === request.question)
      return { choice: fact.choice ?? 'withdrawn', by: fact.by };
  }
  return null;
}
