import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { pageSession } from '../../src/adapters/console/access.ts';
import type { ChatMessage, PageFrame, ServerFrame } from '../../src/adapters/console/protocol.ts';
import type { FloorView } from '../../src/turns/view.ts';

/** A frame with a key, under which the server answers. */
export type Asked = Extract<PageFrame, { readonly key: string }>;
/** The server's answer to such a frame. */
export type Answered = Extract<ServerFrame, { readonly type: 'accepted' | 'refused' | 'answer' }>;

/** The port and the data folder of a bot. */
export type Host = { readonly port: number; readonly dataDir: string };

/** A console page without a browser: its cookie, its connection, and what it received. */
export class Page {
  readonly socket: WebSocket;
  /** The conversation of the open channel, by id. */
  readonly messages = new Map<string, ChatMessage>();
  view: FloorView | null = null;
  /** The drafts of the open channel, by agent. */
  readonly drafts = new Map<string, string>();
  readonly #waiting = new Set<() => void>();
  readonly #seen: (frame: ServerFrame) => void;
  readonly #answers = new Map<string, Answered>();

  private constructor(socket: WebSocket, seen: (frame: ServerFrame) => void) {
    this.socket = socket;
    this.#seen = seen;
    socket.on('message', (raw: Buffer) => this.#take(JSON.parse(raw.toString('utf8')) as ServerFrame));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#wake());
  }

  /** Connects with the session of a signed-in browser and opens a channel. Rejects when the bot is not there. */
  static async open(bot: Host, channel: string, seen: (frame: ServerFrame) => void = () => {}): Promise<Page> {
    const { port, dataDir } = bot;
    const { cookie, part } = pageSession(readFileSync(join(dataDir, 'console-token'), 'utf8').trim(), Date.now());
    const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`, ['conch', part], {
      origin: `http://127.0.0.1:${port}`,
      headers: { cookie: `conch_${port}=${cookie}` },
    });
    const page = new Page(socket, seen);
    await once(socket, 'open');
    page.send({ type: 'open', channel });
    return page;
  }

  get isOpen(): boolean {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(frame: PageFrame): void {
    if (this.isOpen) this.socket.send(JSON.stringify(frame));
  }

  /** Sends a frame and resolves with the answer under its key. */
  async ask(frame: Asked): Promise<Answered> {
    this.send(frame);
    await this.until(() => this.#answers.has(frame.key), `an answer to ${frame.type}`);
    return this.#answers.get(frame.key)!;
  }

  async say(channel: string, text: string): Promise<string> {
    const answer = await this.ask({ type: 'say', channel, key: randomUUID(), text });
    if (answer.type !== 'accepted') throw new Error(`${answer.type}: ${answer.text}`);
    return answer.id;
  }

  async command(channel: string, line: string): Promise<{ readonly ok: boolean; readonly text: string }> {
    const answer = await this.ask({ type: 'command', channel, key: randomUUID(), line });
    return answer.type === 'accepted'
      ? { ok: true, text: '' }
      : { ok: answer.type === 'answer' && answer.ok, text: answer.text };
  }

  /** Resolves as soon as `holds` returns true. Rejects after the limit with an error that names `what`. */
  async until(holds: () => boolean, what: string, limitMs = 60_000): Promise<void> {
    const limit = AbortSignal.timeout(limitMs);
    while (!holds()) {
      if (limit.aborted) {
        const seen = [...this.messages.values()].slice(-12).map(({ kind, text }) => [kind, text.slice(0, 80)]);
        const floor = JSON.stringify(this.view);
        throw new Error(`In ${limitMs} ms there was not: ${what}. Seen: ${JSON.stringify(seen)}. The floor: ${floor}`);
      }
      if (!this.isOpen) throw new Error(`The connection ended before there was: ${what}`);
      await Promise.race([this.#news(), pause(250)]);
    }
  }

  /** The texts of one kind in the channel, oldest first. */
  texts(kind: ChatMessage['kind']): readonly string[] {
    return [...this.messages.values()].filter((message) => message.kind === kind).map(({ text }) => text);
  }

  close(): void {
    this.socket.terminate();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  #take(frame: ServerFrame): void {
    if (frame.type === 'state' || frame.type === 'batch') {
      if (frame.view !== undefined) this.view = frame.view;
      for (const { agent, text } of frame.drafts ?? []) this.drafts.set(agent, text);
      const changed = frame.type === 'batch' ? frame.changed : [];
      for (const message of [...frame.messages, ...changed]) this.messages.set(message.id, message);
    }
    if ((frame.type === 'accepted' || frame.type === 'refused' || frame.type === 'answer') && frame.key !== null) {
      this.#answers.set(frame.key, frame);
    }
    this.#seen(frame);
    this.#wake();
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}
