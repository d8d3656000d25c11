import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import type { HumanMessage } from '../../engine/port.ts';
import { guardSocket } from '../../lib/guarded-server.ts';
import { systemTimers } from '../../lib/time.ts';
import type { Clock } from '../../lib/time.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Line } from '../../turns/view.ts';
import { createInboundQueue } from '../delivery/inbound.ts';
import type { InboundQueue } from '../delivery/inbound.ts';
import { ChatError, failedText } from '../port.ts';
import type { FloorQueries, History, Intake, OutgoingPost, Principal } from '../port.ts';
import type { AuditReaders } from './audit.ts';
import { Hub } from './hub.ts';
import type { Client } from './hub.ts';
import type { Platform } from './platform.ts';
import { LONGEST_TEXT, pageFrameSchema } from './protocol.ts';
import type { ChannelEntry, ChatMessage, PageFrame, ServerFrame } from './protocol.ts';
import { jsonOrNull, errorMessage } from '../../lib/defined.ts';

const TAIL = 200;
const HISTORY_PAGE = 100;
/** How many of the newest messages of people are read when a channel is read for the first time. */
const FIRST_CATCH_UP = 500;
const CATCH_UP_LIMIT = 100_000;
const UNKNOWN_FRAME = 'This page does not fit the running Conch. Reload the page.';

type TalkParts = {
  readonly person: Principal;
  readonly platform: Platform;
  readonly audits: () => AuditReaders<Client> | null;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Thrown for a page's frame that is refused. The error's message is for the person. */
class Refused extends Error {}

/** Serves the pages: takes what people write, shows what Conch posts, and shows the channels of other platforms. */
export class Talk {
  readonly hub: Hub;
  readonly #parts: TalkParts;
  readonly #inbound: InboundQueue;
  readonly #lastWindows = new Map<ChannelId, ReadonlyMap<number, string>>();

  constructor(parts: TalkParts) {
    const { clock, log, queries } = parts;
    this.#parts = parts;
    this.hub = new Hub({ clock, log, queries, refresh: (channel) => this.#refresh(channel) });
    const delayed = (channel: ChannelId, why: string): void =>
      this.hub.notice(
        channel,
        `Your message is kept, but Conch could not take it yet (${why}). Conch tries again by itself.`,
      );
    this.#inbound = createInboundQueue({ log, timers: systemTimers, delayed });
  }

  stop(): void {
    this.#inbound.stop();
    this.hub.stop();
  }

  welcome(socket: WebSocket): void {
    const { log, audits } = this.#parts;
    const { hub } = this;
    const guard = guardSocket(socket, (error) => log.error({ err: error }, 'what a page sent could not be taken'));
    const client = hub.join(socket);
    const listen = async (frame: RawData, isBinary: boolean): Promise<void> => {
      if (isBinary) return hub.send(client, { type: 'refused', key: null, text: 'Only text frames are read here.' });
      await this.#receive(client, (frame as Buffer).toString('utf8'));
    };
    socket.on('message', guard(listen));
    socket.on('error', (error) => log.debug({ err: error }, 'the connection of a page failed'));
    socket.on('close', () => {
      hub.leave(client);
      void audits()?.open(client, null);
    });
  }

  /** Runs a command line of `conch ctl`; `channel` is an id or a name, `null` when the caller named none. */
  async command(channel: string | null, line: string): Promise<Answer> {
    const { queries, intake, person } = this.#parts;
    const channels = queries.channels();
    const fitting = channels.filter(({ id, name }) => channel === null || id === channel || name === channel);
    const [only] = fitting;
    if (only !== undefined && fitting.length === 1) return intake.command(only.id, person, line);
    const list = channels.map(({ id }) => id).join(', ') || 'none';
    const unclear =
      only === undefined ? `There is no channel ${channel}.` : `Several channels are named ${channel}. Use an id.`;
    const why = channel === null ? 'Say which channel with --channel.' : unclear;
    return { ok: false, text: `${why} Channels here: ${list}` };
  }

  async post(channel: ChannelId, { speaker, text, epoch, outboxId, asks }: OutgoingPost): Promise<string> {
    if (text.length > LONGEST_TEXT) throw refusal('post', channel, 'The text is too long for the console');
    const { message, isNew } = await storeOrThrow('post', channel, () =>
      this.#parts.platform.add({
        channel,
        kind: speaker === null ? 'system' : 'agent',
        speaker: speaker === null ? { id: 'conch', name: 'Conch', avatar: null } : { ...speaker },
        text: text.toWellFormed(),
        epoch,
        replyTo: asks ?? null,
        nonce: outboxId,
      }),
    );
    if (isNew) this.hub.message(channel, message);
    return message.id;
  }

  /** Changes a message and shows the change. Rejects with a `ChatError` (`refused`: there is no such message). */
  async change(
    method: 'edit' | 'receipt',
    channel: ChannelId,
    write: (platform: Platform) => Promise<ChatMessage | null>,
  ): Promise<void> {
    const changed = await storeOrThrow(method, channel, () => write(this.#parts.platform));
    if (changed === null) throw refusal(method, channel, 'There is no such message');
    this.hub.changed(channel, changed);
  }

  /**
   * Returns at most the newest 100,000 messages of people after a given one; with `null`, the newest 500. Omits deleted
   * messages.
   */
  readBack(channel: ChannelId, after: { readonly order: string } | null): History {
    const limit = after === null ? FIRST_CATCH_UP : CATCH_UP_LIMIT;
    const messages = this.#parts.platform.personMessages(channel, limit + 1, Number(after?.order ?? 0));
    return {
      messages: messages.slice(-limit).map((message) => this.#toHuman(channel, message)),
      changes: [],
      gap: messages.length > limit ? `only the newest ${limit} messages of the console's history were read` : null,
    };
  }

  async #receive(client: Client, raw: string): Promise<void> {
    const parsed = parseFrame(raw);
    if ('refused' in parsed) return this.hub.send(client, parsed.refused);
    const { frame } = parsed;
    const key = 'key' in frame ? frame.key : null;
    try {
      await this.#obey(client, frame);
    } catch (error) {
      const isRefused = error instanceof Refused;
      if (!isRefused) this.#parts.log.error({ err: error, frame: frame.type }, 'a frame of the page failed');
      const text = isRefused ? error.message : failedText(error, 'Nothing was sent.');
      this.hub.sendLater(client, { type: 'refused', key, text });
    }
  }

  async #obey(client: Client, frame: PageFrame): Promise<void> {
    const { audits, intake, person } = this.#parts;
    switch (frame.type) {
      case 'open':
        return this.#open(client, frame.channel);
      case 'say':
        return this.#say(client, frame);
      case 'edit':
      case 'delete':
        return this.#amend(client, frame);
      case 'command': {
        this.#isOwn(frame.channel);
        const answer = await intake.command(frame.channel, person, frame.line, frame.drawnFor);
        return this.hub.sendLater(client, { type: 'answer', key: frame.key, ...answer });
      }
      case 'history':
        return this.#history(client, frame);
      case 'watch':
        client.journalSeq = null;
        if (frame.on) this.hub.journal(client, frame.channel);
        return;
      case 'journal':
        return this.hub.journal(client, frame.channel, frame.before);
      case 'audit':
        return audits()?.open(client, frame.wanted);
      case 'audit-earlier':
        return audits()?.readEarlier(client);
    }
  }

  #open(client: Client, wanted: ChannelId | null): void {
    const { platform, person, queries, clock } = this.#parts;
    const known = this.hub.channels();
    const pastThread = known.some(({ id }) => id === wanted) ? null : this.#pastThread(wanted);
    const channels = pastThread === null ? known : [...known, pastThread];
    const chosen = channels.find(({ id }) => id === wanted) ?? channels[0] ?? null;
    const channel = chosen?.id ?? null;
    const isOwn = channel !== null && this.#hasMessages(channel);
    client.channel = channel;
    client.journalSeq = null;
    const messages = channel === null ? [] : isOwn ? platform.before(channel, TAIL) : this.#window(channel);
    const more = isOwn && this.#hasEarlier(channel, messages);
    this.hub.send(client, {
      type: 'state',
      now: clock.now(),
      person: { id: person.id },
      channels,
      agents: queries.agents(),
      channel,
      messages,
      more,
      ...this.hub.floor(channel),
    });
  }

  async #say(client: Client, { channel, key, text, replyTo = null }: FrameOf<'say'>): Promise<void> {
    const { platform, person, intake } = this.#parts;
    this.#mustBeOwn(channel);
    if (!this.#inbound.hasRoom(channel)) {
      throw new Refused('Conch cannot keep up with this channel. Wait a moment, then send your message again.');
    }
    const { message, isNew } = await platform.add({
      channel,
      kind: 'person',
      speaker: { id: person.id, name: person.name, avatar: null },
      text: clean(text),
      epoch: null,
      replyTo,
      nonce: key,
    });
    if (isNew) {
      this.hub.message(channel, message);
      const human = this.#toHuman(channel, message);
      void this.#inbound.push(channel, () => intake.message(human));
    }
    this.hub.sendLater(client, { type: 'accepted', key, id: message.id });
  }

  /**
   * Hands an edit or a deletion to Conch, then stores and shows it. After a crash in between, the message still shows
   * its old text, and the person can repeat the change.
   */
  #amend(client: Client, frame: FrameOf<'edit' | 'delete'>): void {
    const { platform, intake } = this.#parts;
    const { channel, id, key } = frame;
    const accept = (): void => this.hub.sendLater(client, { type: 'accepted', key, id });
    this.#mustBeOwn(channel);
    const before = platform.message(channel, id);
    // A page may repeat a deletion whose answer was lost.
    if (before?.deleted === true && frame.type === 'delete') return accept();
    if (before === null || before.kind !== 'person' || before.deleted) {
      throw new Refused('Only a message of your own that is still there can be changed.');
    }
    const text = frame.type === 'edit' ? clean(frame.text) : null;
    void this.#inbound.push(channel, async () => {
      await intake.amend(text === null ? { change: 'deleted', id, channel } : { change: 'edited', id, channel, text });
      const after = text === null ? platform.remove(channel, id) : platform.edit(channel, id, text);
      this.hub.changed(channel, (await after) ?? before);
      accept();
    });
  }

  #history(client: Client, { channel, before, after }: FrameOf<'history'>): void {
    const { platform } = this.#parts;
    const direction = after === undefined ? 'before' : after === 0 ? 'beginning' : 'after';
    const send = (messages: readonly ChatMessage[], more: boolean): void =>
      this.hub.send(client, { type: 'history', channel, direction, messages, more });
    if (!this.#hasMessages(channel)) {
      return send(after === undefined ? [] : this.#window(channel).filter(({ seq }) => seq > after), false);
    }
    const page =
      after === undefined
        ? platform.before(channel, HISTORY_PAGE, before)
        : platform.after(channel, HISTORY_PAGE, after);
    const isFull = page.length === HISTORY_PAGE;
    send(page, isFull && (after !== undefined || this.#hasEarlier(channel, page)));
  }

  #hasEarlier(channel: ChannelId, [first]: readonly ChatMessage[]): boolean {
    return first !== undefined && this.#parts.platform.before(channel, 1, first.seq).length > 0;
  }

  #toHuman(channel: ChannelId, message: ChatMessage): HumanMessage {
    const { id, speaker, text, sentAt, replyTo } = message;
    const repliedTo = replyTo === null ? null : this.#parts.platform.message(channel, replyTo);
    return {
      id,
      channel,
      author: { id: speaker.id, name: speaker.name },
      text,
      sentAt,
      order: id.padStart(16, '0'),
      addressed: repliedTo?.kind === 'agent' ? [repliedTo.speaker.id] : [],
      attachments: [],
      ...(replyTo === null ? {} : { replyTo }),
    };
  }

  #pastThread(id: ChannelId | null): ChannelEntry | null {
    const { queries } = this.#parts;
    const name = id === null ? null : (queries.pastThread?.(id) ?? null);
    if (id === null || name === null) return null;
    // `crew` shows that the thread has a crew. The list stays empty, because the page gets no update of this entry.
    const crew = (queries.crew?.(id, 0) ?? null) === null ? {} : { crew: [] };
    return { id, name, writable: false, past: true, holder: null, question: null, ...crew };
  }

  /** Whether the console stores the messages of a channel or finished thread. Throws `Refused` for unknown channels. */
  #hasMessages(channel: ChannelId): boolean {
    return this.#pastThread(channel) === null ? this.#isOwn(channel) : channel.startsWith('console:');
  }

  /** Whether a channel is the console's own. Throws `Refused` for an unknown channel. */
  #isOwn(channel: ChannelId): boolean {
    const found = this.#parts.queries.channels().find(({ id }) => id === channel);
    if (found === undefined) throw new Refused(`There is no channel ${channel} here.`);
    return found.adapter === 'console';
  }

  #mustBeOwn(channel: ChannelId): void {
    if (!this.#isOwn(channel)) {
      throw new Refused('This channel is on another platform. Write there. Commands work here.');
    }
  }

  #window(channel: ChannelId): readonly ChatMessage[] {
    const { queries } = this.#parts;
    const avatars = new Map(queries.agents().map((agent) => [agent.id, agent.avatar]));
    const messages = queries.lines(channel, TAIL).map((line) => toMessage(line, avatars.get(line.author.id) ?? null));
    if (!this.#lastWindows.has(channel)) this.#remember(channel, messages);
    return messages;
  }

  #remember(channel: ChannelId, messages: readonly ChatMessage[]): void {
    this.#lastWindows.set(channel, new Map(messages.map((message) => [message.seq, JSON.stringify(message)])));
  }

  #refresh(channel: ChannelId): void {
    const isOther = this.#parts.queries.channels().some(({ id, adapter }) => id === channel && adapter !== 'console');
    if (!isOther) return;
    const previous = this.#lastWindows.get(channel);
    const messages = this.#window(channel);
    this.#remember(channel, messages);
    for (const message of messages) {
      const before = previous?.get(message.seq);
      if (before === undefined) this.hub.message(channel, message);
      else if (before !== JSON.stringify(message)) this.hub.changed(channel, message);
    }
  }
}

type FrameOf<T extends PageFrame['type']> = Extract<PageFrame, { readonly type: T }>;

function toMessage(line: Line, avatar: string | null): ChatMessage {
  const { author, text, at, message, change } = line;
  return {
    id: message ?? `line ${line.line}`,
    seq: line.line,
    kind: author.kind,
    speaker: { id: author.id, name: author.name, avatar },
    text,
    epoch: null,
    sentAt: at,
    edited: change === 'edited',
    deleted: change === 'deleted',
    receipts: [],
    replyTo: null,
    asks: null,
    key: null,
  };
}

type Parsed = { readonly frame: PageFrame } | { readonly refused: Extract<ServerFrame, { readonly type: 'refused' }> };

function parseFrame(raw: string): Parsed {
  const value = jsonOrNull(raw);
  const parsed = pageFrameSchema.safeParse(value);
  if (parsed.success) return { frame: parsed.data };
  const isKeyed = typeof value === 'object' && value !== null && 'key' in value && typeof value.key === 'string';
  const [issue] = parsed.error.issues;
  const isAboutText = issue?.path.length === 1 && ['text', 'line'].includes(String(issue.path[0]));
  const text = isAboutText ? issue.message : UNKNOWN_FRAME;
  return { refused: { type: 'refused', key: isKeyed ? String(value.key) : null, text } };
}

/** Replaces lone surrogates and NUL, which the store and the platforms do not accept. */
function clean(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** Converts a failed write to a `ChatError` with the fault `limited`. */
async function storeOrThrow<T>(method: string, channel: ChannelId, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw new ChatError(`The console could not store its message: ${errorMessage(error)}`, {
      method,
      channel,
      fault: 'limited',
      cause: error,
    });
  }
}

function refusal(method: string, channel: ChannelId, words: string): ChatError {
  return new ChatError(words, { method, channel, fault: 'refused' });
}
