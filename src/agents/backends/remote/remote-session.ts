import { randomBytes } from 'node:crypto';
import type { Line } from '../../../turns/view.ts';
import type { Timers } from '../../../lib/time.ts';
import type { AcpPeer } from '../acp/acp-link.ts';
import type { AcpSession } from '../acp/acp-session.ts';
import { injectedWords, withSystem } from '../acp/acp-generation.ts';
import { BackendError } from '../backend.ts';
import type { AgentSession, Ending, InjectOutcome, Report, TurnPrompt } from '../backend.ts';
import type { ConnectionSlot } from './remote-host.ts';
import type { LinkEnd, RemoteLink } from './remote-link.ts';

/** What a remote session needs. */
type RemoteSessionPorts = {
  readonly slot: ConnectionSlot;
  readonly timers: Timers;
  /** How long an agent may be away before its session is lost, in milliseconds. */
  readonly graceMs: number;
  /** Opens a session with the agent at the other end; goes on with the one before if the agent can. */
  readonly open: (peer: AcpPeer, link: RemoteLink) => Promise<AcpSession>;
  /** The next session begins afresh: the agent failed a prompt. */
  readonly forget: () => void;
  /** It is over. */
  readonly closed: () => Promise<void>;
};

/** A session of now and the connection that carries it. */
type AttachedSession = {
  readonly link: RemoteLink;
  readonly session: AcpSession;
  readonly state: {
    prompting: boolean;
    /** The agent began a new conversation. */
    fresh: boolean;
  };
};

/** Opens a session over a connection of the agent. Rejects with a `BackendError` when it does not come about. */
export async function openRemoteSession(ports: RemoteSessionPorts, link: RemoteLink): Promise<AgentSession> {
  return new RemoteSession(ports, await attachSession(ports, link));
}

/**
 * A session with an agent that may go away for a moment. One that is back within the grace keeps its turn: what was being
 * generated is lost with the connection, so the agent is prompted with the turn again, and told how much of its answer
 * had arrived. After the grace, or when it was dropped for what it did, everything rejects with the cause.
 */
class RemoteSession implements AgentSession {
  readonly history = 'own';
  readonly #ports: RemoteSessionPorts;
  /** The session of now, or the one that comes when the agent is back. */
  #attached: Promise<AttachedSession>;
  /** The session of now; `null` while the agent is away. */
  #now: AttachedSession | null;
  #lost: BackendError | null = null;
  #stop: PromiseWithResolvers<'stopped'> | null = null;
  /** What was put into the generation under way: one that begins anew has to be told again. */
  #injected: readonly Line[] = [];
  #pinging = false;
  #closed = false;
  #memory: object = {};
  /** Ends the wait for an agent that went away; `null` while it is connected, or given up. */
  #giveUp: ((why: BackendError) => void) | null = null;

  constructor(ports: RemoteSessionPorts, first: AttachedSession) {
    this.#ports = ports;
    this.#now = first;
    this.#attached = Promise.resolve(first);
    void this.#watch(first);
  }

  get resumed(): boolean {
    return this.#now?.session.resumed ?? true;
  }

  get memory(): object {
    return this.#memory;
  }

  async prompt(turn: TurnPrompt, report: Report): Promise<Ending> {
    const stop = Promise.withResolvers<'stopped'>();
    this.#stop = stop;
    const listener = new Listener(report);
    for (let losses = 0; ; losses += 1) {
      const now = await Promise.race([stop.promise, this.#attached.then((attached) => listener.answered(attached))]);
      if (now === 'stopped' || this.#stop !== stop) return { how: 'interrupted' };
      try {
        now.state.prompting = true;
        this.#injected = losses === 0 ? [] : this.#injected;
        const asked =
          losses === 0 ? turn : again(turn, listener.heard, { told: this.#injected, fresh: now.state.fresh });
        return await now.session.prompt(asked, listener.report);
      } catch (error) {
        if (now.session.needsNewSession) this.#ports.forget();
        const forGood = error instanceof BackendError && error.terminal;
        if (forGood || now.link.open || losses === MOST_LOSSES || (await now.link.closed).final) throw error;
        report.flush();
        report.work(0, 'host');
      } finally {
        now.state.prompting = false;
      }
    }
  }

  async inject(message: Line, observed: boolean): Promise<InjectOutcome> {
    const now = this.#now;
    if (now === null || !now.state.prompting) return 'next-prompt';
    try {
      const outcome = await now.session.inject(message, observed);
      if (outcome === 'injected') this.#injected = [...this.#injected, message];
      return outcome;
    } catch (error) {
      if (now.link.open) throw error;
      return 'next-prompt';
    }
  }

  async interrupt(graceMs: number): Promise<void> {
    this.#halt();
    await this.#now?.session.interrupt(graceMs);
  }

  /** While the agent is away and has time left nobody judges it. */
  async ping(): Promise<void> {
    if (this.#lost !== null) throw this.#lost;
    const now = this.#now;
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
    const now = this.#now;
    if (now === null) return await this.#ports.closed();
    if (this.#pinging) now.link.drop('did not answer a ping');
    if (now.state.prompting) await now.session.interrupt(CLOSE_GRACE_MS);
    await now.session.close();
  }

  /** Whatever is being prompted is not prompted again. */
  #halt(): void {
    this.#stop?.resolve('stopped');
    this.#stop = null;
  }

  async #watch(now: AttachedSession): Promise<void> {
    const end = await now.link.closed;
    if (this.#closed || this.#now !== now) return;
    this.#now = null;
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
      if (now.state.fresh) this.#memory = {};
      this.#now = now;
      void this.#watch(now);
      return now;
    } finally {
      timer.cancel();
      this.#giveUp = null;
    }
  }

  /** The session over the agent's next connection; over the one after it if that breaks, too. */
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

/** Hears what a turn has told so far, over all its connections. */
class Listener {
  readonly report: Report;
  heard = '';
  #asked: Promise<unknown> = Promise.resolve();

  constructor(report: Report) {
    this.report = {
      ...report,
      text: (chunk) => {
        this.heard += chunk;
        report.text(chunk);
      },
      gate: { ...report.gate, ask: (call, stopped) => this.#asks(report.gate.ask(call, stopped)) },
    };
  }

  #asks<T>(asked: Promise<T>): Promise<T> {
    this.#asked = Promise.allSettled([this.#asked, asked]);
    return asked;
  }

  /** While people are asked something the floor takes no word of the agent: resolves, with what is given, when no question is open. */
  async answered<T>(value: T): Promise<T> {
    await this.#asked;
    return value;
  }
}

/** A turn is prompted so often again, not more: an agent that comes and goes does not keep the floor. */
const MOST_LOSSES = 3;
const CLOSE_GRACE_MS = 1_000;
const MOST_HEARD = 8_000;

async function attachSession(ports: RemoteSessionPorts, link: RemoteLink): Promise<AttachedSession> {
  const state = { prompting: false, fresh: false };
  const peer: AcpPeer = {
    stream: link.stream((method) => void (state.fresh ||= method === 'session/new')),
    cause: async (error) => {
      if (!link.open) return (await link.closed).why;
      return error instanceof BackendError ? error.message : 'the session was closed';
    },
    close: async () => {
      if (state.prompting) link.drop('did not stop when it was told to', { final: false });
    },
  };
  return { link, state, session: await ports.open(peer, link) };
}

/** The same turn for an agent that lost it: with what it was told meanwhile, and how much of its answer arrived. */
function again(
  turn: TurnPrompt,
  heard: string,
  { told, fresh }: { readonly told: readonly Line[]; readonly fresh: boolean },
): TurnPrompt {
  const part = heard.trim().slice(-MOST_HEARD);
  const arrived =
    part === ''
      ? 'Nothing of your answer had arrived: answer now.'
      : `This much of your answer had arrived and stands in the channel. Do not repeat it; go on from there:\n${part}`;
  const news = told.map((line) => injectedWords(line, randomBytes(8).toString('hex')));
  const lost = `The connection to you was lost in the middle of this turn. ${arrived}`;
  const text = [fresh ? withSystem(turn, turn.text) : turn.text, ...news, lost].join('\n\n');
  const saidSoFar = part === '' ? turn.saidSoFar : [...turn.saidSoFar, part];
  return { ...turn, reason: 'resume', messages: [...turn.messages, ...told], saidSoFar, text };
}
