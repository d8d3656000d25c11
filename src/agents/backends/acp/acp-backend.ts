import { resolve } from 'node:path';
import type { Line } from '../../../turns/view.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import { openPrivateFolder } from '../../process/sandbox.ts';
import { ACP_PROFILES } from './acp-profiles.ts';
import type { AcpProfile, AcpProfileName, ActsUnasked } from './acp-profiles.ts';
import type { PreviousSession } from './acp-initialize.ts';
import { AcpSession } from './acp-session.ts';
import { withSystem } from './acp-generation.ts';
import { PromptRecord } from './prompt-record.ts';
import type { AcpSettings } from './acp-session.ts';
import { BackendError, sessionKeyOf } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { obeyedFiles } from '../../trust/agent-folder.ts';
import { closedGate } from '../../trust/folder-trust.ts';
import type { FolderGate } from '../../trust/folder-trust.ts';
import { childEnvironment, startProcessGroup } from '../../process/process-group.ts';
import type { SandboxPlan } from '../../process/sandbox.ts';
import { offeredTools, sessionTools } from '../../mcp/session-tools.ts';
import type { ToolServer } from '../../tools/tool-server.ts';
import type { ProcessGroup } from '../../process/process-group.ts';
import { lineStream, AcpMultiplexer } from './acp-stream.ts';
import type { AcpPeer } from './acp-link.ts';
import { LATE, withinMs } from '../../../lib/retry.ts';

/** Options of a coding agent on this machine. Durations are in milliseconds. */
export type AcpBackendOptions = AcpSettings & {
  readonly profile: AcpProfileName;
  /** True when operators accept that the agent acts without asking. Default: false. */
  readonly trusted?: boolean;
  /** The program to start instead of the profile's. Required for the profile `generic`. */
  readonly command?: string;
  /** Replaces the profile's arguments. */
  readonly args?: readonly string[];
  /** Environment variables for the agent, besides the standard ones and the profile's. */
  readonly env?: Readonly<Record<string, string>>;
  /** Names of Conch's environment variables to pass on to the agent. */
  readonly passEnv?: readonly string[];
  /** The agent's working folder. Default: the current folder. */
  readonly cwd?: string;
  /** The sandbox of the agent's process. Default: none. */
  readonly sandbox?: SandboxPlan | undefined;
  /** Time between SIGTERM and SIGKILL when a process is ended. Default: 2,000. */
  readonly stopGraceMs?: number;
  /** Serves the floor's tools to the agents. */
  readonly toolServer?: ToolServer;
  /** Runs the opening of a session, and limits how many run at once. Default: no limit. */
  readonly starts?: <T>(work: () => Promise<T>) => Promise<T>;
  /** Decides whether the working folder is trusted. Default: refuses a folder with files that this agent obeys. */
  readonly gate?: FolderGate;
  /**
   * Called after a session was opened. `program`: the agent's name and version; `null` when it does not report them.
   */
  readonly opened?: (program: string | null) => void;
  /**
   * Called with each line of the agent's output that is no protocol message, cut to 200 characters; not with blank
   * lines. `seat`: the seat that started the process.
   */
  readonly noise?: (seat: SeatContext, line: string) => void;
  /**
   * Called with the last lines of standard error, if any, when a request fails because the agent's process exited by
   * itself.
   */
  readonly lastWords?: (seat: SeatContext, stderr: string) => void;
};

/**
 * Runs a coding agent on this machine that speaks the Agent Client Protocol over standard input and output. One process
 * group serves all sessions of the agent. Throws a terminal `BackendError` for a `generic` agent without a command.
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
    forget: (seat) => processes.forget(seat),
  };
}

/**
 * A session that outlives its process. When this or another session of the agent ended the process by force, the next
 * prompt uses a new process. A prompt that is lost because another session ended the process is sent again, at most
 * twice.
 */
class LastingSession implements AgentSession {
  readonly history = 'own';
  readonly #seat: SeatContext;
  readonly #processes: Processes;
  readonly #gate: FolderGate;
  #opened: Opened | null = null;
  #opening: Promise<Opened> | null = null;
  #ending: Promise<void> = Promise.resolve();
  #interrupted = false;
  #closed = false;
  #last = '';
  #record: PromptRecord | null = null;

  constructor(seat: SeatContext, processes: Processes, gate: FolderGate) {
    this.#seat = seat;
    this.#processes = processes;
    this.#gate = gate;
  }

  async open(): Promise<void> {
    this.#opening = this.#processes.open(this.#seat);
    this.#opened = await this.#opening;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    this.#interrupted = false;
    await this.#ending;
    const record = new PromptRecord(report);
    this.#record = record;
    for (let losses = 0, asked = turn; ; losses += 1) {
      await this.#unlessUntrusted(this.#gate.admit(this.#seat));
      const reopen = this.#isEnded && !this.#closed && !this.#interrupted;
      if (reopen) await this.open();
      if (this.#interrupted || this.#closed) return { how: 'interrupted' };
      const { session } = this.#current;
      const isFresh = reopen && !session.resumed;
      if (losses > 0) asked = record.repeated(turn, isFresh);
      else if (isFresh) asked = { ...turn, text: withSystem(turn, `${this.#last}\n\n${turn.text}`) };
      this.#last = turn.text;
      try {
        return await session.prompt(asked, record.report);
      } catch (error) {
        if (session.needsNewSession) this.#processes.forget(this.#seat);
        const isOther = this.#isEnded && !this.#interrupted && !this.#closed;
        if (!isOther || losses === MOST_LOSSES) throw error;
        await record.breakOff();
      }
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const outcome = await this.#current.session.inject(message, observed);
    if (outcome === 'injected') this.#record?.injected(message);
    return outcome;
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
    const opened = await this.#opening?.catch(() => this.#opened);
    await opened?.session.close();
  }

  async #unlessUntrusted(admitted: Promise<void>): Promise<void> {
    try {
      await admitted;
    } catch (error) {
      // Not awaited: the failure is known now, and the process may take long to end.
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

class Processes {
  readonly #kind: Kind;
  /** Name of the floor's tool server. A process learns the name at its start, so all sessions share the name. */
  #server: string | undefined;
  /** Port of the tool server, which a sandboxed process must reach. `null`: none is known. */
  #toolPort: number | null = null;
  #current: Promise<AgentProcess> | null = null;
  readonly #sessions = new Map<string, PreviousSession>();

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  async open(seat: SeatContext): Promise<Opened> {
    const { starts = (work) => work() } = this.#kind.options;
    const previous = this.#sessions.get(sessionKeyOf(seat)) ?? null;
    const opened = await starts(() => this.#open(seat, previous));
    this.#sessions.set(sessionKeyOf(seat), opened.session.asPrevious);
    return opened;
  }

  forget(seat: Pick<SeatContext, 'channel' | 'agent' | 'model'>): void {
    this.#sessions.delete(sessionKeyOf(seat));
  }

  async #open(seat: SeatContext, previous: PreviousSession | null): Promise<Opened> {
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
    // Checks again, because the agent may have read files that appeared in its folder while it started.
    await this.#kind.gate.admit(seat).catch(async (error: unknown) => {
      await process.end();
      await session.close();
      throw error;
    });
    return { session, process };
  }

  async #running(seat: SeatContext): Promise<AgentProcess> {
    const current = this.#current;
    const before = (await current?.catch(() => null)) ?? null;
    if (before?.over === false) return before;
    // Of the callers that waited for the former process, the first starts the next one. The others share it.
    const next = this.#current === current || this.#current === null ? this.#start(seat) : this.#current;
    this.#current = next;
    return await next;
  }

  async #start(seat: SeatContext): Promise<AgentProcess> {
    const { timers = systemTimers, noise, lastWords, stopGraceMs = STOP_GRACE_MS } = this.#kind.options;
    const told = noise === undefined ? undefined : (line: string) => noise(seat, line);
    const started = await startAsking(this.#kind, this.#server ?? null, this.#toolPort);
    return new AgentProcess(started, { timers, noise: told, lastWords, stopGraceMs });
  }
}

/** Starts the agent's process with the settings that make the agent ask for approval. */
async function startAsking(
  { options, profile, command, args }: Kind,
  server: string | null,
  toolPort: number | null,
): Promise<StartedAgent> {
  const given = childEnvironment({
    from: process.env,
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
    return { group, meta: asking.meta, removeFolder: () => folder.remove() };
  } catch (error) {
    folder.remove();
    throw error;
  }
}

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

/**
 * Returns the profile with the kinds of `actsUnasked` removed from its promise to ask. Operators accepted these kinds.
 */
function asTrusted(profile: AcpProfile): AcpProfile {
  const { asks, actsUnasked } = profile;
  if (asks === null || actsUnasked === undefined) return profile;
  return { ...profile, asks: { ...asks, kinds: asks.kinds.filter((kind) => !actsUnasked.kinds.includes(kind)) } };
}

/** Maximum number of times that one prompt is sent again to a new process. */
const MOST_LOSSES = 2;
const STOP_GRACE_MS = 2_000;

type StartedAgent = {
  readonly group: ProcessGroup;
  readonly meta: object | undefined;
  readonly removeFolder: () => void;
};

type ProcessPorts = {
  readonly timers: Timers;
  readonly stopGraceMs: number;
  readonly noise?: ((line: string) => void) | undefined;
  readonly lastWords?: ((seat: SeatContext, stderr: string) => void) | undefined;
};

class AgentProcess {
  readonly meta: object | undefined;
  readonly #started: StartedAgent;
  readonly #ports: ProcessPorts;
  readonly #multiplexer: AcpMultiplexer;
  #sessions = 0;
  #over = false;
  #isForced = false;
  /** The error that ended the reading of the process's output. `null`: no error. */
  #broken: BackendError | null = null;
  #stopped: Promise<void> | null = null;

  constructor(started: StartedAgent, ports: ProcessPorts) {
    const { noise, timers } = ports;
    const { stdout, stdin } = started.group;
    this.meta = started.meta;
    this.#started = started;
    this.#ports = ports;
    const { readable, writable } = lineStream(stdout, stdin, { timers, ...(noise && { noise }) });
    const writer = writable.getWriter();
    this.#multiplexer = new AcpMultiplexer((message) => void writer.write(message).catch(() => undefined));
    void this.#listen(readable);
    void this.#watch();
  }

  get over(): boolean {
    return this.#over;
  }

  /** True when Conch ended the process by force. Its sessions may go on in a new process. */
  get isForced(): boolean {
    return this.#isForced;
  }

  peer(seat: SeatContext): AcpPeer {
    this.#sessions += 1;
    return {
      stream: this.#multiplexer.stream(),
      cause: (error) => this.#causeOf(error, seat),
      close: (how) => this.#leave(how === 'by force'),
    };
  }

  async #leave(byForce: boolean): Promise<void> {
    this.#sessions -= 1;
    this.#isForced ||= byForce && !this.#over;
    if (byForce || this.#sessions === 0) await this.stop();
  }

  /** Ends the process by force, for all sessions. */
  async end(): Promise<void> {
    this.#isForced ||= !this.#over;
    await this.stop();
  }

  async stop(): Promise<void> {
    this.#over = true;
    this.#stopped ??= this.#started.group.stop(this.#ports.stopGraceMs).finally(this.#started.removeFolder);
    await this.#stopped;
  }

  /** Closes the output 1 s after the process group has ended: until then the rest of the pipe can be read. */
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
    if (this.#isForced) return 'was ended by force';
    const end = await withinMs(EXIT_MS, this.#started.group.exited, this.#ports.timers);
    if (end === LATE) return 'closed its output';
    if (end.stderr !== '') this.#ports.lastWords?.(seat, end.stderr);
    return end.words;
  }
}

const EXIT_MS = 1_000;
