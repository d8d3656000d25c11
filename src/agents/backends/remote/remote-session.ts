import type { Line } from '../../../turns/view.ts';
import type { Timers } from '../../../lib/time.ts';
import type { AcpPeer } from '../acp/acp-link.ts';
import type { AcpSession } from '../acp/acp-session.ts';
import { PromptRecord } from '../acp/prompt-record.ts';
import { BackendError } from '../backend.ts';
import type { AgentSession, Ending, InjectOutcome, Report, TurnPrompt } from '../backend.ts';
import type { ConnectionSlot } from './remote-host.ts';
import type { LinkEnd, RemoteLink } from './remote-link.ts';

type RemoteSessionPorts = {
  readonly slot: ConnectionSlot;
  readonly timers: Timers;
  /** How long the agent may be disconnected before the session is lost, in milliseconds. */
  readonly graceMs: number;
  readonly open: (peer: AcpPeer, link: RemoteLink) => Promise<AcpSession>;
  /** Called after the agent failed at a prompt: the agent's next session starts a new conversation. */
  readonly forget: () => void;
  /** Called when the session is closed while the agent is disconnected. */
  readonly closed: () => Promise<void>;
};

type AttachedSession = {
  readonly link: RemoteLink;
  readonly session: AcpSession;
  readonly state: { prompting: boolean };
};

/** Opens a session over the agent's connection. Rejects with a `BackendError` when it fails. */
export async function openRemoteSession(ports: RemoteSessionPorts, link: RemoteLink): Promise<AgentSession> {
  return new RemoteSession(ports, await attachSession(ports, link));
}

/**
 * A session that survives a short disconnect. An agent that reconnects within the grace period keeps its turn, but its
 * unfinished generation is lost. The agent gets the same prompt again, at most three times, with the part of its answer
 * that arrived. `prompt` and `ping` reject with the cause after the grace period, and after Conch closed the connection
 * for good.
 */
class RemoteSession implements AgentSession {
  readonly history = 'own';
  readonly #ports: RemoteSessionPorts;
  #attached: Promise<AttachedSession>;
  /** The current session. `null` while the agent is disconnected. */
  #current: AttachedSession | null;
  #lost: BackendError | null = null;
  #stop: PromiseWithResolvers<'stopped'> | null = null;
  #record: PromptRecord | null = null;
  #pinging = false;
  #closed = false;
  #memory: object = {};
  /** Ends the wait for a disconnected agent. `null` while it is connected or given up. */
  #giveUp: ((why: BackendError) => void) | null = null;

  constructor(ports: RemoteSessionPorts, first: AttachedSession) {
    this.#ports = ports;
    this.#current = first;
    this.#attached = Promise.resolve(first);
    void this.#watch(first);
  }

  get resumed(): boolean {
    return this.#current?.session.resumed ?? true;
  }

  get memory(): object {
    return this.#memory;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    const stop = Promise.withResolvers<'stopped'>();
    this.#stop = stop;
    const record = new PromptRecord(report);
    this.#record = record;
    for (let losses = 0; ; losses += 1) {
      const now = await Promise.race([stop.promise, this.#attached]);
      if (now === 'stopped' || this.#stop !== stop) return { how: 'interrupted' };
      try {
        now.state.prompting = true;
        const asked = losses === 0 ? turn : record.repeated(turn, !now.session.resumed);
        return await now.session.prompt(asked, record.report);
      } catch (error) {
        if (now.session.needsNewSession) this.#ports.forget();
        const forGood = error instanceof BackendError && error.terminal;
        if (forGood || now.link.open || losses === MOST_LOSSES || (await now.link.closed).final) throw error;
        await Promise.race([stop.promise, record.breakOff()]);
      } finally {
        now.state.prompting = false;
      }
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const now = this.#current;
    if (now === null || !now.state.prompting) return 'next-prompt';
    try {
      const outcome = await now.session.inject(message, observed);
      if (outcome === 'injected') this.#record?.injected(message);
      return outcome;
    } catch (error) {
      if (now.link.open) throw error;
      return 'next-prompt';
    }
  }

  async interrupt(graceMs: number): Promise<void> {
    this.#halt();
    await this.#current?.session.interrupt(graceMs);
  }

  /**
   * Pings the connected agent. While the agent is disconnected within its grace period, resolves at once, so that no
   * missed heartbeats are counted.
   */
  async ping(): Promise<void> {
    if (this.#lost !== null) throw this.#lost;
    const now = this.#current;
    if (now === null) return;
    this.#pinging = true;
    try {
      await now.session.ping();
    } catch (error) {
      if (now.link.open || (await now.link.closed).final) throw error;
    } finally {
      this.#pinging = false;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#halt();
    this.#giveUp?.(new BackendError('the session was closed'));
    const now = this.#current;
    if (now === null) return await this.#ports.closed();
    if (this.#pinging) now.link.drop('did not answer a ping');
    if (now.state.prompting) await now.session.interrupt(CLOSE_GRACE_MS);
    await now.session.close();
  }

  /** Prevents that the running prompt is sent again after a reconnect. */
  #halt(): void {
    this.#stop?.resolve('stopped');
    this.#stop = null;
  }

  async #watch(now: AttachedSession): Promise<void> {
    const end = await now.link.closed;
    if (this.#closed || this.#current !== now) return;
    this.#current = null;
    this.#attached = this.#regain(end);
    this.#attached.catch((error: BackendError) => void (this.#lost = error));
  }

  async #regain(end: LinkEnd): Promise<AttachedSession> {
    if (end.final) throw new BackendError(end.why);
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = this.#ports.timers.after(this.#ports.graceMs, () => reject(new BackendError(end.why)));
    this.#giveUp = reject;
    try {
      const now = await this.#next(late);
      if (!now.session.resumed) this.#memory = {};
      this.#current = now;
      void this.#watch(now);
      return now;
    } finally {
      timer.cancel();
      this.#giveUp = null;
    }
  }

  async #next(late: Promise<never>): Promise<AttachedSession> {
    for (;;) {
      const link = await Promise.race([this.#ports.slot.arrival(), late]);
      const coming = attachSession(this.#ports, link);
      try {
        return await Promise.race([coming, late]);
      } catch (error) {
        void coming.then(({ session }) => session.close()).catch(() => undefined);
        if (link.open) throw error;
      }
    }
  }
}

/**
 * Most times that a prompt is sent again after a lost connection, so that an unstable agent does not keep the floor.
 */
const MOST_LOSSES = 3;
const CLOSE_GRACE_MS = 1_000;

async function attachSession(ports: RemoteSessionPorts, link: RemoteLink): Promise<AttachedSession> {
  const state = { prompting: false };
  const peer: AcpPeer = {
    stream: link.stream(),
    cause: async (error) => {
      if (!link.open) return (await link.closed).why;
      return error instanceof BackendError ? error.message : 'the session was closed';
    },
    close: async () => {
      if (state.prompting) link.drop('did not stop when interrupted', { final: false });
    },
  };
  return { link, state, session: await ports.open(peer, link) };
}
