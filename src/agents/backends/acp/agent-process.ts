import { BackendError } from '../backend.ts';
import type { SeatContext } from '../backend.ts';
import type { Timers } from '../../../lib/time.ts';
import type { ProcessEnd, ProcessGroup } from '../../process/process-group.ts';
import { lineStream } from './acp-lines.ts';
import type { LineLimits } from './acp-lines.ts';
import type { AcpPeer } from './acp-link.ts';
import { AcpMultiplexer } from './acp-multiplexer.ts';

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
