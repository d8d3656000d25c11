import { StreamableHTTPClientTransport, deserializeMessage, serializeMessage } from '@modelcontextprotocol/client';
import type { AuthProvider, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { delay } from '../../lib/retry.ts';
import { childEnvironment, startProcessGroup } from '../process/process-group.ts';
import type { ProcessGroup } from '../process/process-group.ts';

/**
 * An MCP server that is a program. `stopGraceMs`: grace after the end of its input and after SIGTERM, in milliseconds.
 */
type ServerProgram = Parameters<typeof startProcessGroup>[0] & { readonly stopGraceMs: number };

/**
 * The most bytes that a server may send without answering a request. The count begins anew with each answer of the
 * server and each message to the server. Also the most bytes of one line and of one HTTP answer.
 */
const LONGEST_MESSAGE = 8 * 1_024 * 1_024;

/**
 * An MCP server as a program of this machine. The server's process group ends with the server. Lines that are no
 * messages are skipped. A server that sends more than `LONGEST_MESSAGE` allows is ended.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  /** The library recognises a stdio transport by `stderr` and `pid`. */
  readonly stderr = null;
  pid: number | null = null;
  readonly #program: ServerProgram;
  readonly #line = new UnfinishedLine(LONGEST_MESSAGE);
  #group: ProcessGroup | null = null;
  #stopped: Promise<void> | null = null;
  /** Bytes that the server sent since the last message to the server or the last answer of the server. */
  #received = 0;
  #ended: string | null = null;

  constructor(program: ServerProgram) {
    this.#program = program;
  }

  /** Why the server ended by itself or was ended for sending too much, in words for people; else `null`. */
  get ended(): string | null {
    return this.#ended;
  }

  /**
   * Starts the program. Rejects with a `BackendError` when the program cannot start, or when its environment names a
   * forbidden variable.
   */
  async start(): Promise<void> {
    const { env: set, ...program } = this.#program;
    const env = childEnvironment({ from: process.env, set });
    const group = await startProcessGroup({ ...program, env });
    if (this.#stopped !== null) return await group.stop(0);
    this.#group = group;
    this.pid = group.pid;
    group.stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
    void this.#watch(group);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#group?.stdin;
    if (stdin === undefined || !stdin.writable) throw new Error('the server is gone');
    this.#received = 0;
    if (!stdin.write(serializeMessage(message))) {
      await Promise.race([new Promise((resolve) => stdin.once('drain', resolve)), this.#group?.exited]);
    }
  }

  /**
   * Ends the program's input, then sends SIGTERM, then SIGKILL, each after the grace. Resolves when its process group
   * has ended.
   */
  async close(): Promise<void> {
    this.#stopped ??= this.#stop();
    await this.#stopped;
  }

  async #watch(group: ProcessGroup): Promise<void> {
    const { words } = await group.exited;
    if (this.#stopped === null) this.#ended ??= words;
    this.onclose?.();
  }

  async #stop(): Promise<void> {
    const group = this.#group;
    if (group === null) return;
    const { stopGraceMs, timers } = this.#program;
    const over = new AbortController();
    void group.exited.then(() => over.abort());
    group.stdin.end();
    await delay(stopGraceMs, { timers, signal: over.signal }).catch(() => undefined);
    await group.stop(stopGraceMs);
  }

  #hear(chunk: Buffer): void {
    if (this.#stopped !== null) return;
    this.#received += chunk.length;
    // Each message to the server and each answer of the server sets `#received` to 0, also in the middle of a line. So
    // that line can be longer than `#received`.
    if (Math.max(this.#received, this.#line.length + chunk.length) > LONGEST_MESSAGE)
      return this.#break('it sent more than 8 MiB without an answer');
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#line.add(chunk.subarray(from, end));
      this.#take(this.#line.end());
      from = end + 1;
    }
    this.#line.add(chunk.subarray(from));
    // Frees the bytes at once. The garbage collector does not count such bytes, so it would free them late.
    if (chunk.buffer instanceof ArrayBuffer && chunk.length === chunk.buffer.byteLength) chunk.buffer.transfer(0);
  }

  #take(line: string): void {
    let message: JSONRPCMessage;
    try {
      message = deserializeMessage(line);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    if (!('method' in message)) this.#received = 0;
    this.onmessage?.(message);
  }

  #break(why: string): void {
    this.#ended = why;
    this.#line.forget();
    // Stops reading: nobody needs the rest of an output that is too long.
    this.#group?.stdout.destroy();
    void this.close();
  }
}

const NEWLINE = 0x0a;

/**
 * A line that comes in pieces. Frees its bytes as soon as the line is whole: the garbage collector would keep a long
 * line beside its text, message and picture.
 */
class UnfinishedLine {
  readonly #memory: ArrayBuffer;
  readonly #bytes: Uint8Array;

  constructor(longest: number) {
    this.#memory = new ArrayBuffer(0, { maxByteLength: longest });
    this.#bytes = new Uint8Array(this.#memory);
  }

  get length(): number {
    return this.#bytes.length;
  }

  add(piece: Uint8Array): void {
    const at = this.#bytes.length;
    this.#memory.resize(at + piece.length);
    this.#bytes.set(piece, at);
  }

  end(): string {
    const text = Buffer.from(this.#memory).toString('utf8');
    this.forget();
    return text;
  }

  forget(): void {
    this.#memory.resize(0);
  }
}

/**
 * Returns the transport to an MCP server over HTTP. Follows no redirect to another origin. An answer longer than
 * `LONGEST_MESSAGE` fails. `auth`: the login's tokens; `null` for none.
 */
export function httpTransport(
  url: string,
  headers: Readonly<Record<string, string>>,
  auth: AuthProvider | null,
): Transport {
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    fetch: limitedFetch,
    onInsufficientScope: 'throw',
    ...(auth === null ? {} : { authProvider: auth }),
  });
}

/** Works like `fetch`. An answer with a body longer than `LONGEST_MESSAGE` fails while it is read. */
export async function limitedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (response.body === null) return response;
  let received = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      received += chunk.length;
      if (received > LONGEST_MESSAGE) controller.error(new Error('it sent more than 8 MiB'));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(limit), { status, statusText, headers });
}
