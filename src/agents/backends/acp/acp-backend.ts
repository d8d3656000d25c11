import { resolve } from 'node:path';
import type { Line } from '../../../turns/view.ts';
import { systemTimers } from '../../../lib/time.ts';
import type { Timers } from '../../../lib/time.ts';
import { lineStream } from './acp-lines.ts';
import type { LineLimits } from './acp-lines.ts';
import type { AcpPeer } from './acp-link.ts';
import { openPrivateFolder } from '../../process/private-folder.ts';
import type { PrivateFolder } from '../../process/private-folder.ts';
import { ACP_PROFILES } from './acp-profiles.ts';
import type { AcpProfile, AcpProfileName } from './acp-profiles.ts';
import { createAcpSession } from './acp-session.ts';
import { withSystem } from './acp-words.ts';
import type { AcpSession } from './acp-session.ts';
import { BackendError } from '../backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, Report, SeatContext, TurnPrompt } from '../backend.ts';
import { childEnvironment } from '../../process/process-environment.ts';
import { startProcessGroup } from '../../process/process-group.ts';
import type { ProcessEnd, ProcessGroup } from '../../process/process-group.ts';
import type { ToolServer } from '../../tools/tool-server.ts';

/** Which agent to run, and how; durations in milliseconds. */
export type AcpBackendOptions = {
  readonly profile: AcpProfileName;
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
  /** What becomes of a message that the agent cannot take in the middle of a turn. `queue` unless given. */
  readonly injectFallback?: 'queue' | 'cancel';
  readonly requestTimeoutMs?: number;
  readonly quietMs?: number;
  /** How long a process may take to end by itself when its session is closed. */
  readonly stopGraceMs?: number;
  /** Gives the agents the floor's tools as tools. */
  readonly toolServer?: ToolServer;
  readonly timers?: Timers;
  readonly limits?: LineLimits;
  /** This program's variables. */
  readonly inherited?: Readonly<Record<string, string | undefined>>;
  /** Told of every line of an agent that is no message. */
  readonly noise?: (seat: SeatContext, line: string) => void;
  /** Told of the end of the standard error of an agent that ended by itself. */
  readonly lastWords?: (seat: SeatContext, stderr: string) => void;
};

/**
 * Runs coding agents on this machine that speak the Agent Client Protocol over their standard input and output: one process
 * group for every seat. Throws a terminal `BackendError` for a `generic` agent without a command.
 */
export function createAcpBackend(options: AcpBackendOptions): AgentBackend {
  const profile: AcpProfile = ACP_PROFILES[options.profile];
  const command = options.command ?? profile.command;
  if (command === null) throw new BackendError('an agent of the profile "generic" needs a command', { terminal: true });
  const args = options.args ?? profile.args;
  const sessions = new Map<string, Known>();
  return {
    kind: 'acp',
    needsSignal: false,
    promisesToAsk: profile.asks !== null,
    open: async (seat) => {
      const key = `${seat.channel}\n${seat.agent}`;
      const session = new LastingSession(
        async () => {
          const { session: opened, server } = await open({
            options,
            profile,
            command,
            args,
            seat,
            known: sessions.get(key),
          });
          sessions.set(key, { sessionId: opened.sessionId, server });
          return opened;
        },
        () => sessions.delete(key),
      );
      await session.open();
      return session;
    },
  };
}

/**
 * A session that outlives its process: when an interrupt had to end the process, the next prompt starts another. An agent
 * that cannot open its old session again is told first what it was last asked.
 */
class LastingSession implements AgentSession {
  readonly history = 'own';
  readonly #start: () => Promise<AcpSession>;
  readonly #forget: () => void;
  #session: AcpSession | null = null;
  #ending: Promise<void> = Promise.resolve();
  #ended = false;
  #closed = false;
  /** What it was last asked. */
  #last = '';

  constructor(start: () => Promise<AcpSession>, forget: () => void) {
    this.#start = start;
    this.#forget = forget;
  }

  async open(): Promise<void> {
    const session = await this.#start();
    this.#session = session;
    this.#ended = false;
    if (this.#closed) await session.close();
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    await this.#ending;
    const reopen = this.#ended && !this.#closed;
    if (reopen) await this.open();
    const session = this.#current;
    const text = reopen && !session.resumed ? withSystem(turn, `${this.#last}\n\n${turn.text}`) : turn.text;
    this.#last = turn.text;
    try {
      return await session.prompt({ ...turn, text }, report);
    } catch (error) {
      if (session.needsNewSession) this.#forget();
      throw error;
    }
  }

  inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    return this.#current.inject(message, observed);
  }

  async interrupt(graceMs: number): Promise<void> {
    const session = this.#current;
    this.#ending = session.interrupt(graceMs).then(() => void (this.#ended = !session.alive));
    await this.#ending;
  }

  async ping(): Promise<void> {
    await this.#ending;
    if (!this.#ended) await this.#current.ping();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#session?.close();
  }

  get program(): string | null {
    return this.#session?.program ?? null;
  }

  get #current(): AcpSession {
    if (this.#session === null) throw new Error('impossible: a session is used before it is open');
    return this.#session;
  }
}

/** A conversation to go on with, and what the floor's tool server is called in it. */
type Known = { readonly sessionId: string; readonly server: string | undefined };

type Opening = {
  readonly options: AcpBackendOptions;
  readonly profile: AcpProfile;
  readonly command: string;
  readonly args: readonly string[];
  readonly seat: SeatContext;
  readonly known: Known | undefined;
};

async function open(opening: Opening): Promise<{ readonly session: AcpSession; readonly server: string | undefined }> {
  const { options, profile, seat, known } = opening;
  const { timers = systemTimers, injectFallback, requestTimeoutMs, quietMs } = options;
  const floorTools = (await options.toolServer?.open(known?.server)) ?? null;
  const folder = openPrivateFolder();
  let group: ProcessGroup;
  let meta: object | undefined;
  try {
    ({ group, meta } = await startAsking(opening, { timers, folder, server: floorTools?.name ?? null }));
  } catch (error) {
    floorTools?.close();
    folder.remove();
    throw error;
  }
  const session = await createAcpSession(peerOf(group, seat, { ...options, timers, gone: () => folder.remove() }), {
    seat,
    profile,
    timers,
    cwd: resolve(options.cwd ?? '.'),
    floorTools,
    previous: known?.sessionId ?? null,
    meta,
    ...(injectFallback !== undefined && { injectFallback }),
    ...(requestTimeoutMs !== undefined && { requestTimeoutMs }),
    ...(quietMs !== undefined && { quietMs }),
  });
  return { session, server: floorTools?.name };
}

type Started = { readonly timers: Timers; readonly folder: PrivateFolder; readonly server: string | null };

/** Starts the agent so that it asks: what makes it ask goes before all that the configuration says. */
async function startAsking(
  { options, profile, command, args }: Opening,
  { timers, folder, server }: Started,
): Promise<{ readonly group: ProcessGroup; readonly meta: object | undefined }> {
  const given = childEnvironment({
    from: options.inherited ?? process.env,
    pass: [...profile.pass, ...(options.passEnv ?? [])],
    set: options.env ?? {},
  });
  const asking = profile.asking?.({ server, folder: folder.path, env: given }) ?? {};
  folder.write(asking.files ?? {});
  const { install } = profile;
  const group = await startProcessGroup({
    command,
    args: [...args, ...(asking.args ?? [])],
    cwd: resolve(options.cwd ?? '.'),
    env: { ...given, ...asking.env },
    timers,
    ...(install !== undefined && { install }),
  });
  return { group, meta: asking.meta };
}

/** A process as the other end: it is stopped when what it sends cannot be read, and says itself why it ended. */
function peerOf(
  group: ProcessGroup,
  seat: SeatContext,
  options: AcpBackendOptions & { readonly timers: Timers; readonly gone: () => void },
): AcpPeer {
  const { limits, noise, lastWords, stopGraceMs = STOP_GRACE_MS, timers, gone } = options;
  const stream = lineStream(group.stdout, group.stdin, {
    ...(limits && { limits }),
    ...(noise && { noise: (line: string) => noise(seat, line) }),
  });
  void group.exited.then(() => timers.after(EXIT_MS, () => group.stdout.destroy()));
  return {
    stream,
    async cause(broken) {
      if (broken instanceof BackendError) return broken.message;
      const end = await endOf(group, timers);
      if (end !== null && end.stderr !== '') lastWords?.(seat, end.stderr);
      return end?.words ?? 'closed its output';
    },
    close: () => group.stop(stopGraceMs).finally(gone),
  };
}

/** How the process ended; `null` when it has not. */
async function endOf(group: ProcessGroup, timers: Timers): Promise<ProcessEnd | null> {
  const late = Promise.withResolvers<null>();
  const timer = timers.after(EXIT_MS, () => late.resolve(null));
  const end = await Promise.race([group.exited, late.promise]);
  timer.cancel();
  return end;
}

const STOP_GRACE_MS = 2_000;
const EXIT_MS = 1_000;
