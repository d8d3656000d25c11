import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import type { RawData, WebSocket } from 'ws';
import { closeSocket, guardSocket } from '../../../lib/guarded-server.ts';
import type { FaultLog } from '../../../lib/guarded-server.ts';
import type { Clock, Timer, Timers } from '../../../lib/time.ts';
import type { Beat } from '../../session/session-executor.ts';
import { MessageRate, AcpMultiplexer, messageIn } from '../acp/acp-stream.ts';

/** Limits of one connection. */
export type LinkLimits = {
  /** Maximum length of a message in bytes. */
  readonly frameBytes: number;
  readonly messagesPerSecond: number;
  /** Maximum of bytes queued for an agent that does not read. Exceeding it ends the connection. */
  readonly unreadBytes: number;
};

/** 1 MiB per message, 1,000 messages per second with bursts of twice as many, 8 MiB unread. */
export const LINK_LIMITS: LinkLimits = { frameBytes: 1_048_576, messagesPerSecond: 1_000, unreadBytes: 8_388_608 };

/** Why a connection ended. `final`: the session is lost, even if the agent reconnects within the grace period. */
export type LinkEnd = { readonly why: string; readonly final: boolean };

type LinkParts = {
  readonly limits: LinkLimits;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: FaultLog;
  readonly toolsUrl: string | null;
};

/** One WebSocket opened by an agent. Carries all its sessions. */
export class RemoteLink {
  /** Resolves when the connection ended. */
  readonly closed: Promise<LinkEnd>;
  /** The URL of the floor's tools for this agent. `null`: unknown. */
  readonly toolsUrl: string | null;
  readonly #socket: WebSocket;
  readonly #limits: LinkLimits;
  readonly #timers: Timers;
  readonly #rate: MessageRate;
  readonly #multiplexer: AcpMultiplexer;
  readonly #end = Promise.withResolvers<LinkEnd>();
  #open = true;
  #hasHeard = true;
  #missed = 0;
  #pauseTimer: Timer | null = null;

  constructor(socket: WebSocket, { limits, clock, timers, log, toolsUrl }: LinkParts) {
    this.closed = this.#end.promise;
    this.toolsUrl = toolsUrl;
    this.#socket = socket;
    this.#limits = limits;
    this.#timers = timers;
    this.#rate = new MessageRate(limits.messagesPerSecond, () => clock.now());
    this.#multiplexer = new AcpMultiplexer((message) => this.#send(message));
    const guarded = guardSocket(socket, (error) => {
      log.error({ err: error }, 'a message of a remote agent could not be processed');
      this.#finish({ why: 'internal error', final: false });
    });
    socket.on(
      'message',
      guarded((bytes: RawData, isBinary: boolean) => this.#take(bytes, isBinary)),
    );
    socket.on('pong', () => void (this.#hasHeard = true));
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', (code, reason) => this.#finish({ why: wordsOf(code, reason), final: false }));
  }

  get open(): boolean {
    return this.#open;
  }

  /** Opens a separate ACP stream over this connection. The stream ends with the connection. */
  stream(): Stream {
    return this.#multiplexer.stream();
  }

  /**
   * Called on each heartbeat. Sends a ping, or closes the connection when the agent was silent for too many heartbeats
   * in a row.
   */
  beat({ allowed, overslept, cause }: Beat): void {
    this.#missed = this.#hasHeard || overslept || this.#pauseTimer !== null ? 0 : this.#missed + 1;
    this.#hasHeard = false;
    if (this.#missed >= allowed) this.drop(cause);
    else this.#socket.ping();
  }

  /** Closes the connection and tells the agent why. `final` (default: true): the session is lost. */
  drop(why: string, how: { readonly code?: number; readonly final?: boolean } = {}): void {
    if (!this.#open) return;
    closeSocket(this.#socket, how.code ?? POLICY, why);
    this.#finish({ why, final: how.final ?? true });
  }

  #take(bytes: RawData, isBinary: boolean): void {
    if (!this.#open) return;
    this.#hasHeard = true;
    const message = isBinary || !Buffer.isBuffer(bytes) ? null : messageIn(bytes.toString('utf8'));
    if (message === null) return this.drop('sent a message that is not valid ACP', { code: UNREADABLE });
    this.countMessage();
    if (this.#open) this.#multiplexer.take(message);
  }

  /**
   * Counts a message or a tool call against the rate limit. Returns false above the limit: the agent is told to slow
   * down, and reading pauses. An agent that stays above the limit for 30 s is disconnected.
   */
  countMessage(): boolean {
    const waitMs = this.#rate.count();
    if (waitMs === null) this.drop(this.#rate.excess);
    else if (waitMs > 0) this.#pause(waitMs);
    return waitMs === 0;
  }

  #pause(waitMs: number): void {
    if (this.#pauseTimer === null) {
      const { messagesPerSecond } = this.#limits;
      this.#send({ jsonrpc: '2.0', method: SLOW, params: { messagesPerSecond, waitMs } });
      this.#socket.pause();
    }
    this.#pauseTimer?.cancel();
    this.#pauseTimer = this.#timers.after(waitMs, () => {
      this.#pauseTimer = null;
      this.#socket.resume();
    });
  }

  #send(message: AnyMessage): void {
    if (!this.#open) return;
    this.#socket.send(JSON.stringify(message), () => undefined);
    if (this.#socket.bufferedAmount > this.#limits.unreadBytes) {
      this.#finish({ why: 'does not read its messages', final: true });
      this.#socket.terminate();
    }
  }

  #failed(error: Error & { readonly code?: string }): void {
    const tooLong = error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
    if (tooLong) this.#finish({ why: `sent a message of more than ${sizeOf(this.#limits.frameBytes)}`, final: true });
    else this.#finish({ why: `connection failed: ${error.message}`, final: false });
  }

  #finish(end: LinkEnd): void {
    if (!this.#open) return;
    this.#open = false;
    this.#pauseTimer?.cancel();
    this.#end.resolve(end);
    this.#multiplexer.close();
  }
}

/**
 * Conch's own notification to a too fast agent. `messagesPerSecond`: the limit. `waitMs`: send nothing for this long.
 */
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
