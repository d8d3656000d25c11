import { resolve } from 'node:path';
import type { Line } from '../../../turns/view.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import type { LineLimits } from './acp-stream.ts';
import { openPrivateFolder } from '../../process/sandbox.ts';
import { ACP_PROFILES } from './acp-profiles.ts';
import type { AcpProfile, AcpProfileName, ActsUnasked } from './acp-profiles.ts';
import { AcpSession } from './acp-session.ts';
import { withSystem } from './acp-generation.ts';
import type { AcpSettings } from './acp-session.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { obeyedFiles } from '../../trust/agent-folder.ts';
import { closedGate } from '../../trust/folder-trust.ts';
import type { FolderGate } from '../../trust/folder-trust.ts';
import { childEnvironment, startProcessGroup } from '../../process/process-group.ts';
import type { SandboxPlan } from '../../process/sandbox.ts';
import { offeredTools, sessionTools } from '../../mcp/session-tools.ts';
import type { ToolServer } from '../../tools/tool-server.ts';
import type { ProcessEnd, ProcessGroup } from '../../process/process-group.ts';
import { lineStream, AcpMultiplexer } from './acp-stream.ts';
import type { AcpPeer } from './acp-link.ts';

/** Which agent to run, and how; durations in milliseconds. */
export type AcpBackendOptions = AcpSettings & {
  readonly profile: AcpProfileName;
  /** Its agent is used although its profile acts unasked; no unless given. */
  readonly trusted?: boolean;
  /** In place of the profile's program; `generic` has none of its own. */
  readonly command?: string;
  /** In place of the profile's arguments, whatever the command is. */
  readonly args?: readonly string[];
  /** Variables set for the agent, besides the few that every child gets and those that the profile passes. */
  readonly env?: Readonly<Record<string, string>>;
  /** Names of further variables of this program to hand on. */
  readonly passEnv?: readonly string[];
  /** The folder that the agent works in; where this program runs unless given. */
  readonly cwd?: string;
  /** The sandbox that it runs in; none unless given. */
  readonly sandbox?: SandboxPlan | undefined;
  /** How long a process may take to end by itself when its session is closed. */
  readonly stopGraceMs?: number;
  /** Gives the agents the floor's tools as tools. */
  readonly toolServer?: ToolServer;
  /** Lets agents start only so many at a time; all at once unless given. */
  readonly starts?: <T>(work: () => Promise<T>) => Promise<T>;
  readonly limits?: LineLimits;
  /** Stands before the agent's folder. Without it a folder with files that the agent obeys is not opened. */
  readonly gate?: FolderGate;
  /** This program's variables. */
  readonly inherited?: Readonly<Record<string, string | undefined>>;
  /** Told of every session that was opened, with the agent's own name and version if it tells them. */
  readonly opened?: (program: string | null) => void;
  /** Told of every line of an agent that is no message. */
  readonly noise?: (seat: SeatContext, line: string) => void;
  /** Told of the end of the standard error of an agent that ended by itself. */
  readonly lastWords?: (seat: SeatContext, stderr: string) => void;
};

/**
 * Runs coding agents on this machine that speak the Agent Client Protocol over their standard input and output: one process
 * group for an agent, with a session for every channel. Throws a terminal `BackendError` for a `generic` agent without a command.
 */
export function createAcpBackend(options: AcpBackendOptions): AgentBackend {
  const profile: AcpProfile = ACP_PROFILES[options.profile];
  const command = options.command ?? profile.command;
  if (command === null) throw new BackendError('an agent of the profile "generic" needs a command', { terminal: true });
  const args = options.args ?? profile.args;
  const gate =
    options.gate ??
    closedGate({ cwd: options.cwd ?? '.', files: obeyedFiles(options.profile), home: options.env?.['HOME'] });
  const processes = new Processes({ options, profile, command, args, gate });
  return {
    kind: 'acp',
    needsSignal: false,
    promisesToAsk: profile.asks !== null,
    settable: profile.asks === null ? ['model', 'steps'] : ['model', 'steps', 'tools'],
    actsUnasked: profile.actsUnasked?.words ?? null,
    open: async (seat) => {
      const session = new LastingSession(seat, processes, gate);
      await session.open();
      return session;
    },
  };
}

/**
 * A session that outlives its process: when an interrupt had to end the process, here or in another channel, the next prompt
 * starts another, and a prompt that was under way elsewhere is given to that one. An agent that cannot open its old session
 * again is told first what it was last asked.
 */
class LastingSession implements AgentSession {
  readonly history = 'own';
  readonly #seat: SeatContext;
  readonly #processes: Processes;
  readonly #gate: FolderGate;
  #opened: Opened | null = null;
  #ending: Promise<void> = Promise.resolve();
  #interrupted = false;
  #closed = false;
  /** What it was last asked. */
  #last = '';

  constructor(seat: SeatContext, processes: Processes, gate: FolderGate) {
    this.#seat = seat;
    this.#processes = processes;
    this.#gate = gate;
  }

  async open(): Promise<void> {
    this.#opened = await this.#processes.open(this.#seat);
    if (this.#closed) await this.#opened.session.close();
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    await this.#ending;
    this.#interrupted = false;
    for (let losses = 0; ; losses += 1) {
      await this.#unlessUntrusted(this.#gate.admit(this.#seat));
      if (this.#interrupted) return { how: 'interrupted' };
      const reopen = this.#isEnded && !this.#closed;
      if (reopen) await this.open();
      const { session } = this.#current;
      const text = reopen && !session.resumed ? withSystem(turn, `${this.#last}\n\n${turn.text}`) : turn.text;
      this.#last = turn.text;
      try {
        return await session.prompt({ ...turn, text }, report);
      } catch (error) {
        if (session.needsNewSession) this.#processes.forget(this.#seat);
        const isOther = this.#isEnded && !this.#interrupted && !this.#closed;
        if (!isOther || losses === MOST_LOSSES) throw error;
        report.flush();
        report.work(0, 'host');
      }
    }
  }

  inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    return this.#current.session.inject(message, observed);
  }

  async interrupt(graceMs: number): Promise<void> {
    this.#interrupted = true;
    this.#ending = this.#current.session.interrupt(graceMs);
    await this.#ending;
  }

  async ping(): Promise<void> {
    await this.#ending;
    const admitted = this.#unlessUntrusted(this.#gate.glance(this.#seat));
    await Promise.all([admitted, this.#isEnded ? null : this.#current.session.ping()]);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opened?.session.close();
  }

  /** The process goes, with the sessions of all channels, as soon as its folder is not trusted. */
  async #unlessUntrusted(admitted: Promise<void>): Promise<void> {
    try {
      await admitted;
    } catch (error) {
      // Its end takes as long as the process does; what failed is known now.
      void this.#opened?.process.end();
      throw error;
    }
  }

  get resumed(): boolean {
    return this.#opened?.session.resumed ?? true;
  }

  get program(): string | null {
    return this.#opened?.session.program ?? null;
  }

  /** Its process was ended by force, and another will do. */
  get #isEnded(): boolean {
    if (this.#opened === null) return false;
    const { session, process } = this.#opened;
    return !session.alive && !session.isDistrusted && process.isForced;
  }

  get #current(): Opened {
    if (this.#opened === null) throw new Error('impossible: a session is used before it is open');
    return this.#opened;
  }
}

type Opened = { readonly session: AcpSession; readonly process: AgentProcess };

type Kind = {
  readonly options: AcpBackendOptions;
  readonly profile: AcpProfile;
  readonly command: string;
  readonly args: readonly string[];
  readonly gate: FolderGate;
};

/** The one process of an agent, started when a session needs it and there is none. */
class Processes {
  readonly #kind: Kind;
  /** What the floor's tool server is called: the same for all sessions, for a process is told it when it starts. */
  #server: string | undefined;
  /** Where the tool server listens; a sandbox lets its process reach it. */
  #toolPort: number | null = null;
  #current: Promise<AgentProcess> | null = null;
  /** The agent's last session with each seat. */
  readonly #sessions = new Map<string, string>();

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  /** Opens a session; goes on with the previous one if the agent can. */
  async open(seat: SeatContext): Promise<Opened> {
    const { starts = (work) => work() } = this.#kind.options;
    const previous = this.#sessions.get(sessionKeyOf(seat)) ?? null;
    const opened = await starts(() => this.#open(seat, previous));
    this.#sessions.set(sessionKeyOf(seat), opened.session.sessionId);
    return opened;
  }

  /** The next session of this seat begins afresh. */
  forget(seat: SeatContext): void {
    this.#sessions.delete(sessionKeyOf(seat));
  }

  async #open(seat: SeatContext, previous: string | null): Promise<Opened> {
    const { options, profile } = this.#kind;
    if (profile.actsUnasked !== undefined && options.trusted !== true)
      throw untrusted(profile.name, profile.actsUnasked);
    const cwd = resolve(options.cwd ?? '.');
    await this.#kind.gate.admit(seat);
    const floorTools = (await options.toolServer?.open(this.#server)) ?? null;
    this.#server ??= floorTools?.name;
    this.#toolPort = floorTools === null ? null : Number(new URL(floorTools.url).port);
    const tools =
      floorTools === null || options.serverTools === undefined ? null : sessionTools(seat, options.serverTools, false);
    if (tools !== null) floorTools?.offer(() => offeredTools(tools));
    const process = await this.#running(seat).catch((error: unknown) => {
      floorTools?.close();
      throw error;
    });
    const session = await AcpSession.open(process.peer(seat), {
      seat,
      kind: 'acp',
      profile: asTrusted(profile),
      settings: options,
      cwd,
      floorTools,
      tools,
      previous,
      meta: process.meta,
    });
    options.opened?.(session.program ?? null);
    // What appeared while it started may have been read.
    await this.#kind.gate.admit(seat).catch(async (error: unknown) => {
      await process.end();
      throw error;
    });
    return { session, process };
  }

  async #running(seat: SeatContext): Promise<AgentProcess> {
    const current = this.#current;
    const before = (await current?.catch(() => null)) ?? null;
    if (before?.over === false) return before;
    // Who came first while the former one was awaited starts another for all.
    const next = this.#current === current || this.#current === null ? this.#start(seat) : this.#current;
    this.#current = next;
    return await next;
  }

  async #start(seat: SeatContext): Promise<AgentProcess> {
    const { timers = systemTimers, limits, noise, lastWords, stopGraceMs = STOP_GRACE_MS } = this.#kind.options;
    const told = noise === undefined ? undefined : (line: string) => noise(seat, line);
    const started = await startAsking(this.#kind, this.#server ?? null, this.#toolPort);
    return new AgentProcess(started, { timers, limits, noise: told, lastWords, stopGraceMs });
  }
}

/** A session keeps its model: one with another model is another conversation. */
function sessionKeyOf({ channel, agent, model = '' }: SeatContext): string {
  return `${channel}\n${agent}\n${model}`;
}

/** Starts the agent so that it asks: what makes it ask goes before all that the configuration says. */
async function startAsking(
  { options, profile, command, args }: Kind,
  server: string | null,
  toolPort: number | null,
): Promise<StartedAgent> {
  const given = childEnvironment({
    from: options.inherited ?? process.env,
    pass: [...profile.pass, ...(options.passEnv ?? [])],
    set: options.env ?? {},
  });
  const folder = openPrivateFolder();
  try {
    const { denied = [], asked = [] } = options;
    const cwd = resolve(options.cwd ?? '.');
    const asking = profile.asking?.({ server, folder: folder.path, cwd, env: given, denied, asked }) ?? {};
    folder.write(asking.files ?? {});
    const { install } = profile;
    const group = await startProcessGroup({
      command,
      args: [...args, ...(asking.args ?? [])],
      cwd,
      env: { ...given, ...asking.env },
      timers: options.timers ?? systemTimers,
      sandbox: options.sandbox && sandboxWith(options.sandbox, folder.path, toolPort),
      ...(install !== undefined && { install }),
    });
    return { group, meta: asking.meta, gone: () => folder.remove() };
  } catch (error) {
    folder.remove();
    throw error;
  }
}

/** The sandbox of one process: it reads the private folder, and reaches the tool server even where it reaches nothing else. */
function sandboxWith(plan: SandboxPlan, folder: string, toolPort: number | null): SandboxPlan {
  const { readable, network } = plan;
  const ports = [...(network?.ports ?? []), ...(toolPort === null ? [] : [toolPort])];
  return { ...plan, readable: [...readable, folder], network: { hosts: network === null ? [] : network.hosts, ports } };
}

function untrusted(name: string, { words }: ActsUnasked): BackendError {
  return new BackendError(
    `${name} ${words}, and cannot be made to ask: set "trusted": true at this agent to use it all the same, or take another program`,
    { terminal: true },
  );
}

/** What it is trusted to do unasked it is not stopped for. */
function asTrusted(profile: AcpProfile): AcpProfile {
  const { asks, actsUnasked } = profile;
  if (asks === null || actsUnasked === undefined) return profile;
  return { ...profile, asks: { ...asks, kinds: asks.kinds.filter((kind) => !actsUnasked.kinds.includes(kind)) } };
}

/** A prompt is given so often to another process, not more. */
const MOST_LOSSES = 2;
const STOP_GRACE_MS = 2_000;

/** A started agent, and what goes with it. */
export type StartedAgent = {
  readonly group: ProcessGroup;
  /** `_meta` of the requests that open a session. */
  readonly meta: object | undefined;
  /** The process is gone. */
  readonly gone: () => void;
};

/** What a process is used with; durations in milliseconds. */
type ProcessPorts = {
  readonly timers: Timers;
  readonly stopGraceMs: number;
  readonly limits?: LineLimits | undefined;
  readonly noise?: ((line: string) => void) | undefined;
  readonly lastWords?: ((seat: SeatContext, stderr: string) => void) | undefined;
};

/**
 * One process of an agent, with a session for every channel: it is there from the first session to the last, and ends for all
 * of them when one has to end it by force.
 */
export class AgentProcess {
  readonly meta: object | undefined;
  readonly #started: StartedAgent;
  readonly #ports: ProcessPorts;
  readonly #multiplexer: AcpMultiplexer;
  #sessions = 0;
  #over = false;
  #isForced = false;
  /** Why what it sends cannot be read. */
  #broken: BackendError | null = null;
  #stopped: Promise<void> | null = null;

  constructor(started: StartedAgent, ports: ProcessPorts) {
    const { limits, noise, timers } = ports;
    const { stdout, stdin } = started.group;
    this.meta = started.meta;
    this.#started = started;
    this.#ports = ports;
    const { readable, writable } = lineStream(stdout, stdin, {
      timers,
      ...(limits && { limits }),
      ...(noise && { noise }),
    });
    const writer = writable.getWriter();
    this.#multiplexer = new AcpMultiplexer((message) => void writer.write(message).catch(() => undefined));
    void this.#listen(readable);
    void this.#watch();
  }

  /** No further session can be opened over it. */
  get over(): boolean {
    return this.#over;
  }

  /** A session had it ended: nothing was wrong with the others, and another process will do for them. */
  get isForced(): boolean {
    return this.#isForced;
  }

  /** The process as the other end of one more session. */
  peer(seat: SeatContext): AcpPeer {
    this.#sessions += 1;
    return {
      stream: this.#multiplexer.stream(() => undefined),
      cause: (error) => this.#causeOf(error, seat),
      close: (how) => this.#leave(how === 'by force'),
    };
  }

  /** A session is over; the last one, or one that ends it by force, ends the process. */
  async #leave(byForce: boolean): Promise<void> {
    this.#sessions -= 1;
    this.#isForced ||= byForce && !this.#over;
    if (byForce || this.#sessions === 0) await this.stop();
  }

  /** Ends it by force, for all sessions. */
  async end(): Promise<void> {
    this.#isForced ||= !this.#over;
    await this.stop();
  }

  async stop(): Promise<void> {
    this.#over = true;
    this.#stopped ??= this.#started.group.stop(this.#ports.stopGraceMs).finally(this.#started.gone);
    await this.#stopped;
  }

  /** What a process has left in its pipe can be read for a while after its end. */
  async #watch(): Promise<void> {
    const { exited, stdout } = this.#started.group;
    await exited;
    this.#over = true;
    this.#ports.timers.after(EXIT_MS, () => stdout.destroy());
  }

  async #listen(readable: ReturnType<typeof lineStream>['readable']): Promise<void> {
    try {
      for await (const message of readable) this.#multiplexer.take(message);
    } catch (error) {
      this.#broken = error instanceof BackendError ? error : new BackendError('closed its output', { cause: error });
    } finally {
      this.#over = true;
      this.#multiplexer.close();
    }
  }

  async #causeOf(error: unknown, seat: SeatContext): Promise<string> {
    const broken = error instanceof BackendError ? error : this.#broken;
    if (broken !== null) return broken.message;
    if (this.#isForced) return 'was ended by another channel';
    const end = await this.#end();
    if (end !== null && end.stderr !== '') this.#ports.lastWords?.(seat, end.stderr);
    return end?.words ?? 'closed its output';
  }

  /** How the process ended; `null` when it has not. */
  async #end(): Promise<ProcessEnd | null> {
    const late = Promise.withResolvers<null>();
    const timer = this.#ports.timers.after(EXIT_MS, () => late.resolve(null));
    const end = await Promise.race([this.#started.group.exited, late.promise]);
    timer.cancel();
    return end;
  }
}

const EXIT_MS = 1_000;
