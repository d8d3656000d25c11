import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import type { RawData, WebSocket } from 'ws';
import { closeSocket, guardSocket } from '../../../lib/guarded-server.ts';
import type { FaultLog } from '../../../lib/guarded-server.ts';
import type { Clock, Timer, Timers } from '../../../lib/time.ts';
import type { Beat } from '../../session/session-executor.ts';
import { MessageRate, AcpMultiplexer, messageIn } from '../acp/acp-stream.ts';

/** What one connection may do. */
export type LinkLimits = {
  /** The longest message, in bytes. */
  readonly frameBytes: number;
  readonly messagesPerSecond: number;
  /** How much may wait for an agent that does not read. */
  readonly unreadBytes: number;
};

/** 1 MiB a message, 1,000 messages a second (twice as many in a burst), 8 MiB unread. */
export const LINK_LIMITS: LinkLimits = { frameBytes: 1_048_576, messagesPerSecond: 1_000, unreadBytes: 8_388_608 };

/** Why a connection is over; `final`: coming back soon does not make up for it. */
export type LinkEnd = { readonly why: string; readonly final: boolean };

/** What a connection goes by. */
type LinkParts = {
  readonly limits: LinkLimits;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: FaultLog;
  /** Where this agent reaches the floor's tools; `null` when nobody knows. */
  readonly toolsUrl: string | null;
};

/** One WebSocket that an agent opened to us: the one transport of all its sessions. */
export class RemoteLink {
  /** Resolves when it is over. */
  readonly closed: Promise<LinkEnd>;
  /** Where this agent reaches the floor's tools; `null` when nobody knows. */
  readonly toolsUrl: string | null;
  readonly #socket: WebSocket;
  readonly #limits: LinkLimits;
  readonly #timers: Timers;
  readonly #rate: MessageRate;
  readonly #multiplexer: AcpMultiplexer;
  readonly #end = Promise.withResolvers<LinkEnd>();
  #open = true;
  #heard = true;
  #missed = 0;
  /** Nothing is read until then. */
  #holding: Timer | null = null;

  constructor(socket: WebSocket, { limits, clock, timers, log, toolsUrl }: LinkParts) {
    this.closed = this.#end.promise;
    this.toolsUrl = toolsUrl;
    this.#socket = socket;
    this.#limits = limits;
    this.#timers = timers;
    this.#rate = new MessageRate(limits.messagesPerSecond, () => clock.now());
    this.#multiplexer = new AcpMultiplexer((message) => this.#send(message));
    const guarded = guardSocket(socket, (error) => {
      log.error({ err: error }, 'what a remote agent sent could not be taken');
      this.#over({ why: 'internal error', final: false });
    });
    socket.on(
      'message',
      guarded((bytes: RawData, isBinary: boolean) => this.#take(bytes, isBinary)),
    );
    socket.on('pong', () => void (this.#heard = true));
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', (code, reason) => this.#over({ why: wordsOf(code, reason), final: false }));
  }

  get open(): boolean {
    return this.#open;
  }

  /** A conversation of its own over this connection, and who is told what is asked in it. Ends with the connection. */
  stream(asked: (method: string) => void = () => undefined): Stream {
    return this.#multiplexer.stream(asked);
  }

  /** A beat is due: an agent that has left too many pings unanswered is dropped. */
  beat({ allowed, overslept, cause }: Beat): void {
    this.#missed = this.#heard || overslept || this.#holding !== null ? 0 : this.#missed + 1;
    this.#heard = false;
    if (this.#missed >= allowed) this.drop(cause);
    else this.#socket.ping();
  }

  /** Ends the connection, telling the agent why; `final` unless said. */
  drop(why: string, how: { readonly code?: number; readonly final?: boolean } = {}): void {
    if (!this.#open) return;
    closeSocket(this.#socket, how.code ?? POLICY, why);
    this.#over({ why, final: how.final ?? true });
  }

  #take(bytes: RawData, isBinary: boolean): void {
    if (!this.#open) return;
    this.#heard = true;
    const message = isBinary || !Buffer.isBuffer(bytes) ? null : messageIn(bytes.toString('utf8'));
    if (message === null)
      return this.drop('sent what is no message of the Agent Client Protocol', { code: UNREADABLE });
    this.mayGoOn();
    if (this.#open) this.#multiplexer.take(message);
  }

  /**
   * Counts a message, or a call beside the connection. A burst is fine. An agent that sends more is told to slow down, and nothing
   * more of it is read for a while; one that goes on for half a minute loses its connection.
   */
  mayGoOn(): boolean {
    const waitMs = this.#rate.count();
    if (waitMs === null) this.drop(this.#rate.excess);
    else if (waitMs > 0) this.#hold(waitMs);
    return waitMs === 0;
  }

  #hold(waitMs: number): void {
    if (this.#holding === null) {
      const { messagesPerSecond } = this.#limits;
      this.#send({ jsonrpc: '2.0', method: SLOW, params: { messagesPerSecond, waitMs } });
      this.#socket.pause();
    }
    this.#holding?.cancel();
    this.#holding = this.#timers.after(waitMs, () => {
      this.#holding = null;
      this.#socket.resume();
    });
  }

  #send(message: AnyMessage): void {
    if (!this.#open) return;
    this.#socket.send(JSON.stringify(message), () => undefined);
    if (this.#socket.bufferedAmount > this.#limits.unreadBytes) {
      this.#over({ why: 'does not read what it is sent', final: true });
      this.#socket.terminate();
    }
  }

  #failed(error: Error & { readonly code?: string }): void {
    const tooLong = error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
    if (tooLong) this.#over({ why: `sent a message of more than ${sizeOf(this.#limits.frameBytes)}`, final: true });
    else this.#over({ why: `connection failed: ${error.message}`, final: false });
  }

  #over(end: LinkEnd): void {
    if (!this.#open) return;
    this.#open = false;
    this.#holding?.cancel();
    this.#end.resolve(end);
    this.#multiplexer.close();
  }
}

/** A notification of Conch's own: send no more than so many messages a second, and none for so long. */
const SLOW = '_conch/slow';
const POLICY = 1008;
const UNREADABLE = 1007;
const ABNORMAL = 1006;

function wordsOf(code: number, reason: Buffer): string {
  if (code === ABNORMAL) return 'connection lost';
  const words = reason.toString('utf8').replace(/\p{C}/gu, ' ').trim();
  return words === '' ? `connection closed (${code})` : `connection closed (${code}): ${words}`;
}

function sizeOf(bytes: number): string {
  return bytes >= MIB ? `${Math.floor(bytes / MIB)} MiB` : `${bytes} bytes`;
}

const MIB = 1_048_576;
