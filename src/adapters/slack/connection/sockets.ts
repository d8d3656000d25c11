import type { Logger } from 'pino';
import type { Clock, Timers } from '../../../lib/time.ts';
import { AdapterError } from '../../port.ts';
import { CONNECT_RETRY, createConnectRetry } from '../../delivery/connect-retry.ts';
import { backoffMs, pause } from '../../../lib/retry.ts';
import type { Ack } from '../commands.ts';
import { untilSlack } from '../errors.ts';
import { openSocket } from './socket.ts';
import type { Socket } from './socket.ts';

/** What the sockets need, and whom they tell. */
export type SocketsPorts = {
  readonly appToken: string | null;
  readonly apiUrl: string | null;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly take: (body: unknown, ack: Ack) => void;
  /** No socket is left. */
  readonly lost: () => void;
  /** There is one again, or what one of them was sent may be missing for a while. */
  readonly back: () => void;
  /** There will never be one. */
  readonly broken: (error: AdapterError) => void;
};

/** A connection that is lost sooner was no good: the next one is not opened at once. */
const GOOD_AFTER_MS = 5_000;

/** Sockets side by side: while Slack renews one, the others hear. */
export class Sockets {
  readonly #ports: SocketsPorts;
  readonly #live = new Set<Socket>();
  readonly #first = Promise.withResolvers<void>();
  #isStarted = false;
  #isClosed = false;

  constructor(ports: SocketsPorts) {
    this.#ports = ports;
    this.#first.promise.catch(() => undefined);
  }

  /** Opens so many; resolves with the first of them, rejects with an `AdapterError` when there will be none. */
  async open(count: number): Promise<void> {
    const { appToken } = this.#ports;
    if (appToken === null || appToken === '') throw noAppToken();
    for (let number = 1; number <= count; number += 1) {
      this.#keep(number, appToken).catch((error: unknown) => this.#fail(error));
    }
    await this.#first.promise;
  }

  close(): void {
    this.#isClosed = true;
    for (const socket of this.#live) socket.close();
    this.#live.clear();
    this.#first.reject(new Error('stopped before Slack answered'));
  }

  /** A socket that Slack renews goes on until the next one is there. */
  async #keep(number: number, appToken: string): Promise<void> {
    const { clock, log } = this.#ports;
    const reached = createConnectRetry('Slack', this.#ports);
    let former: Socket | null = null;
    let failures = 0;
    while (!this.#isClosed) {
      const socket = await reached(() => openSocket({ ...this.#ports, appToken }), untilSlack('SLACK_APP_TOKEN'));
      former?.close();
      if (this.#isClosed) return socket.close();
      const openedAt = clock.now();
      this.#up(socket);
      const end = await socket.ended;
      if (end === 'disabled') throw socketModeOff();
      this.#down(socket, end);
      log.debug({ connection: number, end }, 'a connection to Slack ended');
      former = socket;
      if (end === 'lost') socket.close();
      failures = end === 'refresh' || clock.now() - openedAt >= GOOD_AFTER_MS ? 0 : failures + 1;
      await pause(backoffMs(CONNECT_RETRY, failures), this.#ports);
    }
    former?.close();
  }

  #up(socket: Socket): void {
    this.#live.add(socket);
    if (this.#isStarted && this.#live.size === 1) this.#ports.back();
    this.#isStarted = true;
    this.#first.resolve();
  }

  /** What was sent to a socket that was lost comes again, but perhaps only in minutes. */
  #down(socket: Socket, end: 'refresh' | 'lost'): void {
    this.#live.delete(socket);
    if (this.#isClosed) return;
    if (this.#live.size === 0) this.#ports.lost();
    else if (end === 'lost') this.#ports.back();
  }

  #fail(error: unknown): void {
    const isStarted = this.#isStarted;
    this.#first.reject(error);
    if (this.#isClosed || this.#ports.signal.aborted) return;
    this.close();
    if (!isStarted) return;
    if (!(error instanceof AdapterError)) throw error;
    this.#ports.broken(error);
  }
}

function noAppToken(): AdapterError {
  const todo = 'Make an app-level token with the scope connections:write on the page "Basic Information" of your app.';
  return new AdapterError(`Socket Mode needs SLACK_APP_TOKEN. ${todo}`, { adapter: 'slack' });
}

function socketModeOff(): AdapterError {
  const todo = 'Switch it on on the page "Socket Mode" of your app, or set adapters.slack.mode to "http".';
  return new AdapterError(`Socket Mode is switched off for the Slack app. ${todo}`, { adapter: 'slack' });
}
