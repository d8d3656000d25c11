import { WebSocket } from 'ws';
import type { RawData } from 'ws';
import { errorMessage } from '../../lib/defined.ts';
import { closeSocket, guardSocket } from '../../lib/guarded-server.ts';
import type { Timer } from '../../lib/time.ts';
import { systemTimers } from '../../lib/time.ts';
import type { BridgeRelay } from './bridge-relay.ts';
import { REPLACED, HEARTBEAT_HEADER, REVOKED } from '../backends/remote/remote-host.ts';
import { messageIn } from '../backends/acp/acp-stream.ts';

type ConnectionParts = {
  readonly url: string;
  readonly token: string;
  readonly relay: BridgeRelay;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
};

/**
 * How a connection ended. `connected`: the host had accepted the connection. `final`: the bridge must not connect
 * again.
 */
type ConnectionEnd = { readonly connected: boolean; readonly why: string; readonly final: boolean };

/**
 * Connects the bridge to its host (a Conch) and carries messages both ways. Resolves when the connection ended or
 * failed, and never rejects. Throws at once for an address that `ws` refuses, such as one with a fragment.
 */
export function connectOnce(parts: ConnectionParts): Promise<ConnectionEnd> {
  return new Connection(parts).ended;
}

class Connection {
  readonly ended: Promise<ConnectionEnd>;
  readonly #parts: ConnectionParts;
  readonly #socket: WebSocket;
  readonly #end = Promise.withResolvers<ConnectionEnd>();
  readonly #close = () => this.#leave();
  #beatMs = DEFAULT_BEAT_MS;
  #connected = false;
  #watch: Timer | null = null;

  constructor(parts: ConnectionParts) {
    this.ended = this.#end.promise;
    this.#parts = parts;
    this.#socket = new WebSocket(parts.url, {
      headers: { Authorization: `Bearer ${parts.token}` },
      handshakeTimeout: HANDSHAKE_MS,
      maxPayload: FRAME_LIMIT,
      perMessageDeflate: false,
    });
    parts.signal.addEventListener('abort', this.#close);
    this.#listen();
  }

  #listen(): void {
    const { url, relay } = this.#parts;
    const guarded = guardSocket(this.#socket, (error) => {
      this.#over(`A message of the host could not be processed: ${errorMessage(error)}`, false);
    });
    const listen = (bytes: RawData): void => {
      const message = Buffer.isBuffer(bytes) ? messageIn(bytes.toString('utf8')) : null;
      if (message !== null) relay.fromHost(message);
    };
    this.#socket
      .on('upgrade', ({ headers }) => {
        this.#beatMs = Number(headers[HEARTBEAT_HEADER.toLowerCase()]) || DEFAULT_BEAT_MS;
      })
      .on('open', () => this.#opened())
      .on('ping', () => this.#restartTimeout())
      .on('message', guarded(listen))
      .on('unexpected-response', (_request, { statusCode = 0, statusMessage }) => {
        const why = `${url} refused the connection: ${statusCode} ${REASONS[statusCode] ?? statusMessage}`;
        this.#over(why, statusCode in REASONS);
        this.#socket.terminate();
      })
      .on('error', (error) => this.#over(`${url} cannot be reached: ${error.message}`, false))
      .on('close', (code, reason) => {
        const words = reason.length > 0 ? reason.toString('utf8') : String(code);
        this.#over(`Disconnected: ${words}`, code === REPLACED || code === REVOKED);
      });
  }

  #opened(): void {
    this.#connected = true;
    this.#parts.say(`Connected to ${this.#parts.url}`);
    this.#parts.relay.connect((message) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#socket.send(JSON.stringify(message), () => resolve());
      return promise;
    });
    this.#restartTimeout();
  }

  /** The connection is closed when no ping comes for three ping intervals. */
  #restartTimeout(): void {
    this.#watch?.cancel();
    this.#watch = systemTimers.after(this.#beatMs * SILENT_BEATS, () => this.#socket.terminate());
  }

  #leave(): void {
    if (this.#socket.readyState === WebSocket.OPEN) closeSocket(this.#socket, GOING_AWAY, '');
    else this.#socket.terminate();
    this.#over('Ended', false);
  }

  #over(why: string, final: boolean): void {
    this.#watch?.cancel();
    this.#parts.signal.removeEventListener('abort', this.#close);
    if (this.#connected) this.#parts.relay.disconnect();
    this.#end.resolve({ connected: this.#connected, why, final });
    this.#connected = false;
  }
}

const HANDSHAKE_MS = 10_000;
const FRAME_LIMIT = 8 * 1_048_576;
const DEFAULT_BEAT_MS = 15_000;
const SILENT_BEATS = 3;
const GOING_AWAY = 1001;

/** HTTP answers after which the bridge must not connect again, each with its reason for people. */
const REASONS: Readonly<Record<number, string>> = {
  400: 'the address is wrong: it ends in /agent and holds nothing else',
  401: 'the token is unknown there',
  403: 'this agent may not connect there',
};
