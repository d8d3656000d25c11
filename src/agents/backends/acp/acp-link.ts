import { RequestError, client } from '@agentclientprotocol/sdk';
import type { AnyMessage, ClientConnection, Stream } from '@agentclientprotocol/sdk';
import type { z } from 'zod';
import type { Timers } from '../../../lib/time.ts';
import { BackendError } from '../backend.ts';

/** The other end of a connection: a process on this machine, or a remote agent. */
export type AcpPeer = {
  readonly stream: Stream;
  /** Returns why the connection is closed, in one line for people. */
  cause(error: unknown): Promise<string>;
  /**
   * Called when this session no longer needs the peer. On this machine, `by force` ends the process and so all its
   * sessions. A remote agent's connection is closed only if a prompt of this session is running.
   */
  close(how: 'in order' | 'by force'): Promise<void>;
};

type AcpListener = {
  update(params: unknown): void;
  /** `withdrawn` is aborted when the agent no longer wants the answer. */
  permission(params: unknown, withdrawn: AbortSignal): Promise<unknown>;
};

/**
 * A request to an agent. `answer`: the schema of the agent's answer. `isPatient`: the agent may take any time. Default:
 * it must answer within 30 s.
 */
type AcpRequest<T> = {
  readonly method: string;
  readonly params: object;
  readonly answer: z.ZodType<T>;
  readonly isPatient?: boolean;
};

/** A connection to one agent. Checks every answer against its schema. */
export class AcpLink {
  readonly #peer: AcpPeer;
  readonly #timers: Timers;
  readonly #connection: ClientConnection;
  #closing: Promise<void> | null = null;
  #broken: Promise<BackendError> | null = null;

  constructor(peer: AcpPeer, timers: Timers, listener: AcpListener) {
    this.#peer = peer;
    this.#timers = timers;
    this.#connection = client({ name: 'conch' })
      .onRequest(
        'session/request_permission',
        (params) => params,
        ({ params, signal }) => listener.permission(params, signal),
      )
      .onNotification('*', () => undefined)
      .connect({ writable: peer.stream.writable, readable: withoutUpdates(peer.stream.readable, listener) });
  }

  get open(): boolean {
    return !this.#connection.signal.aborted;
  }

  /**
   * Sends a request. Rejects with the agent's `RequestError`, or with a `BackendError` after a timeout, for a
   * malformed answer, or when the agent is gone.
   */
  async ask<T>({ method, params, answer, isPatient = false }: AcpRequest<T>): Promise<T> {
    const parsed = answer.safeParse(await this.#answer(method, params, isPatient));
    if (parsed.success) return parsed.data;
    throw new BackendError(`answered "${method}" with something that is not an answer to it`, { cause: parsed.error });
  }

  /** Sends a notification. Drops the notification when the connection is closed. Never rejects. */
  async tell(method: string, params: object): Promise<void> {
    await this.#connection.agent.notify(method, params).catch(() => undefined);
  }

  /**
   * Closes the connection, then the peer. Resolves when the peer's `close` has resolved. When called again, the first
   * `how` counts.
   */
  close(why: string, how: 'in order' | 'by force' = 'in order'): Promise<void> {
    this.#connection.close(new BackendError(why));
    this.#closing ??= this.#peer.close(how);
    return this.#closing;
  }

  async #answer(method: string, params: object, isPatient: boolean): Promise<unknown> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const words = `did not answer "${method}" within ${LIMIT_MS / 1_000} s`;
    const timer = isPatient ? null : this.#timers.after(LIMIT_MS, () => reject(new BackendError(words)));
    try {
      return await Promise.race([this.#connection.agent.request<unknown, object>(method, params), late]);
    } catch (error) {
      if (error instanceof RequestError || !this.#connection.signal.aborted) throw error;
      throw await this.#causeOf(error);
    } finally {
      timer?.cancel();
    }
  }

  #causeOf(cause: unknown): Promise<BackendError> {
    this.#broken ??= this.#peer.cause(cause).then((words) => new BackendError(words, { cause }));
    return this.#broken;
  }
}

/** Timeout of a request, in milliseconds. */
const LIMIT_MS = 30_000;

/**
 * Passes session updates to the listener at once and in order. Hides them from the ACP library, which refuses some
 * kinds.
 */
function withoutUpdates(readable: Stream['readable'], listener: AcpListener): Stream['readable'] {
  const taking = new TransformStream<AnyMessage, AnyMessage>({
    transform(message, controller) {
      if ('method' in message && message.method === 'session/update') listener.update(message.params);
      else controller.enqueue(message);
    },
  });
  return readable.pipeThrough(taking);
}
