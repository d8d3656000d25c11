import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { requestsAndTrustOn } from '../../turns/floor/seats.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { FloorView, JournalEntry } from '../../turns/view.ts';
import type { Clock } from '../../lib/time.ts';
import type { FloorQueries } from '../port.ts';
import type { AnsweredQuestion, ChannelEntry, ChatMessage, ShownDraft, FloorNow, ServerFrame } from './protocol.ts';

/** Messages, drafts and floor changes of a channel within this time are sent in one `batch` frame. */
const FLUSH_MS = 50;
/** A page with more unread bytes than this is disconnected. */
const UNREAD_LIMIT = 4 * 1024 * 1024;
/** An agent's message ends the agent's draft if it begins with the draft's first characters, up to this many. */
const DRAFT_HEAD = 24;
const BEAT_MS = 15_000;
const REFRESH_MS = 1_000;
const TURNS_SHOWN = 60;
const JOURNAL_PAGE = 100;
/** How many of the newest journal entries are searched for answered requests. */
const ENTRIES_LOOKED_AT = 400;

/** One open page. */
export type Client = {
  readonly socket: WebSocket;
  channel: ChannelId | null;
  /** Newest journal entry that the page has; `null` while it does not watch the journal. */
  journalSeq: number | null;
  laterFrames: ServerFrame[];
  isAlive: boolean;
};

type ChannelState = {
  messages: ChatMessage[];
  changed: Map<string, ChatMessage>;
  drafts: Map<AgentId, ShownDraft>;
  hasNewDrafts: boolean;
  hasNewFloor: boolean;
  floorSent: string;
  lastRead: { readonly key: string; readonly at: number; readonly floor: FloorRead };
};

type FloorRead = Omit<FloorNow, 'view' | 'review'>;

type Parts = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly queries: FloorQueries;
  /** Called once a second for every channel that a page has open. */
  readonly refresh: (channel: ChannelId) => void;
};

/** Sends events to the open pages, batched per channel. */
export class Hub {
  readonly #parts: Parts;
  readonly #clients = new Set<Client>();
  readonly #channels = new Map<ChannelId, ChannelState>();
  readonly #timers: NodeJS.Timeout[] = [];
  #flushing: NodeJS.Timeout | null = null;
  #channelsSent: { readonly key: string; readonly entries: ReadonlyMap<ChannelId, string> } | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  join(socket: WebSocket): Client {
    if (this.#clients.size === 0) {
      this.#timers.push(setInterval(() => this.#beat(), BEAT_MS));
      this.#timers.push(setInterval(() => this.#refresh(), REFRESH_MS));
    }
    const client: Client = { socket, channel: null, journalSeq: null, laterFrames: [], isAlive: true };
    this.#clients.add(client);
    socket.on('pong', () => (client.isAlive = true));
    return client;
  }

  leave(client: Client): void {
    this.#clients.delete(client);
    if (this.#clients.size === 0) for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  /**
   * Adds a new message to the channel's next batch, if any page is open. Removes an agent's draft if the agent's
   * message begins like the draft.
   */
  message(channel: ChannelId, message: ChatMessage): void {
    const draft = this.#channels.get(channel)?.drafts.get(message.speaker.id);
    const isFinal = message.kind === 'agent' && draft !== undefined;
    if (isFinal && message.text.startsWith(draft.text.trim().slice(0, DRAFT_HEAD))) {
      this.draft(channel, message.speaker.id, null);
    }
    this.#note(channel, ({ messages }) => messages.push(message));
  }

  changed(channel: ChannelId, message: ChatMessage): void {
    this.#note(channel, ({ changed }) => changed.set(message.id, message));
  }

  /** Called when the floor of a channel may have changed: the next batch contains the floor if it changed. */
  card(channel: ChannelId): void {
    this.#note(channel, (pending) => (pending.hasNewFloor = true));
  }

  /** Keeps an agent's draft for the pages, also while no page is open; `null` removes the draft. */
  draft(channel: ChannelId, agent: AgentId, draft: Pick<ShownDraft, 'epoch' | 'text'> | null): void {
    const { drafts } = this.#channel(channel);
    if (draft === null) drafts.delete(agent);
    else drafts.set(agent, { agent, ...draft });
    this.#note(channel, (pending) => (pending.hasNewDrafts = true));
  }

  floor(channel: ChannelId | null): FloorNow & { readonly drafts: readonly ShownDraft[] } {
    const { queries } = this.#parts;
    if (channel === null) return { view: null, review: null, ...NOTHING_READ, drafts: [] };
    const drafts = [...this.#channel(channel).drafts.values()];
    const review = queries.review?.(channel) ?? null;
    return { view: queries.view(channel), review, ...readFloor(queries, channel), drafts };
  }

  /** Returns the channels for one page. All pages get the list again soon, because theirs may be older. */
  channels(): readonly ChannelEntry[] {
    this.#channelsSent = null;
    return channelsOf(this.#parts.queries);
  }

  /**
   * Sends a page the newest entries of a channel's journal that the page lacks. With `before`, sends the entries before
   * that number. Sends at most 100 entries.
   */
  journal(client: Client, channel: ChannelId, before?: number): void {
    const page = this.#parts.queries.journal(channel, JOURNAL_PAGE, before);
    const more = page.length === JOURNAL_PAGE && (page[0]?.seq ?? 0) > 1;
    if (before !== undefined)
      return this.send(client, { type: 'journal', channel, part: 'earlier', entries: page, more });
    const known = client.journalSeq ?? 0;
    const entries = page.filter((entry: JournalEntry) => entry.seq > known);
    client.journalSeq = page.at(-1)?.seq ?? known;
    const continues = known > 0 && entries.length < page.length;
    if (entries.length === 0 && continues) return;
    this.send(client, { type: 'journal', channel, part: continues ? 'later' : 'newest', entries, more });
  }

  send(client: Client, frame: ServerFrame): void {
    sendText(client, JSON.stringify(frame));
  }

  /** Sends a frame after the next batch, so that an acknowledgement never overtakes its message. */
  sendLater(client: Client, frame: ServerFrame): void {
    client.laterFrames.push(frame);
    this.#flushSoon();
  }

  notice(channel: ChannelId, text: string): void {
    for (const client of this.#clients) if (client.channel === channel) this.send(client, { type: 'notice', text });
  }

  /** Sends the pending batches and closes all connections. */
  stop(): void {
    if (this.#flushing !== null) clearTimeout(this.#flushing);
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    this.#guard(() => this.#flush());
    for (const client of this.#clients) client.socket.close(1001, 'Conch is stopping');
  }

  /** Adds to the pending batch of a channel, unless no page is open: a page that opens asks for the whole state. */
  #note(channel: ChannelId, note: (pending: ChannelState) => void): void {
    if (this.#clients.size === 0) return;
    note(this.#channel(channel));
    this.#flushSoon();
  }

  #channel(channel: ChannelId): ChannelState {
    const pending = this.#channels.get(channel) ?? emptyChannelState();
    this.#channels.set(channel, pending);
    return pending;
  }

  #flushSoon(): void {
    this.#flushing ??= setTimeout(() => {
      this.#flushing = null;
      this.#guard(() => this.#flush());
    }, FLUSH_MS);
  }

  #refresh(): void {
    const open = new Set([...this.#clients].flatMap(({ channel }) => (channel === null ? [] : [channel])));
    for (const channel of open) {
      this.#guard(() => this.#parts.refresh(channel));
      this.#channel(channel).hasNewFloor = true;
    }
    if (open.size > 0) this.#flushSoon();
    if (this.#clients.size > 0) this.#guard(() => this.#tellChannels());
  }

  #tellChannels(): void {
    const { queries } = this.#parts;
    const channels = channelsOf(queries);
    const agents = queries.agents();
    const key = JSON.stringify([channels.map(({ id, name, writable }) => [id, name, writable]), agents]);
    const entries = new Map(channels.map((entry) => [entry.id, JSON.stringify(entry)]));
    const before = this.#channelsSent;
    this.#channelsSent = { key, entries };
    const changedChannels = channels.filter(({ id }) => before?.entries.get(id) !== entries.get(id));
    const isNew = before?.key !== key;
    if (!isNew && changedChannels.length === 0) return;
    const frame: ServerFrame = isNew
      ? { type: 'channels', channels, agents }
      : { type: 'holders', channels: changedChannels };
    const text = JSON.stringify(frame);
    for (const client of this.#clients) sendText(client, text);
  }

  #flush(): void {
    for (const [channel, pending] of this.#channels) {
      const audience = [...this.#clients].filter((client) => client.channel === channel);
      const frame = this.#drain(channel, pending, audience.length > 0);
      if (frame === null) continue;
      const text = JSON.stringify(frame);
      for (const client of audience) {
        sendText(client, text);
        if (client.journalSeq !== null && frame.view !== undefined) this.journal(client, channel);
      }
      const activity: ServerFrame = { type: 'activity', channel, count: frame.messages.length };
      if (activity.count === 0) continue;
      for (const client of this.#clients) if (client.channel !== channel) this.send(client, activity);
    }
    for (const client of this.#clients) for (const frame of client.laterFrames.splice(0)) this.send(client, frame);
  }

  #drain(channel: ChannelId, pending: ChannelState, isWatched: boolean): Batch | null {
    const floor = pending.hasNewFloor && isWatched ? this.#readNewFloor(channel, pending) : null;
    const { messages } = pending;
    const changed = [...pending.changed.values()];
    const drafts = pending.hasNewDrafts ? { drafts: [...pending.drafts.values()] } : null;
    Object.assign(pending, { messages: [], changed: new Map(), hasNewDrafts: false, hasNewFloor: false });
    if (floor === null && drafts === null && messages.length + changed.length === 0) return null;
    return { type: 'batch', now: this.#parts.clock.now(), channel, messages, changed, ...drafts, ...floor };
  }

  #readNewFloor(channel: ChannelId, pending: ChannelState): FloorNow | null {
    const view = this.#parts.queries.view(channel);
    const review = this.#parts.queries.review?.(channel) ?? null;
    const floor = { view, review, ...this.#readOnce(pending, view) };
    const text = JSON.stringify(floor);
    if (text === pending.floorSent) return null;
    pending.floorSent = text;
    return floor;
  }

  #readOnce(pending: ChannelState, view: FloorView | null): FloorRead {
    if (view === null) return NOTHING_READ;
    const { channel, epoch, holder, condition, mode, order, obstacles, seats } = view;
    const holderState = [holder?.epoch, holder?.status, holder?.waitingFor];
    const statuses = seats.map(({ status }) => status);
    const key = JSON.stringify([epoch, condition, holderState, mode, order, obstacles.map(({ why }) => why), statuses]);
    const at = this.#parts.clock.now();
    if (pending.lastRead.key !== key || at - pending.lastRead.at >= REFRESH_MS) {
      pending.lastRead = { key, at, floor: readFloor(this.#parts.queries, channel) };
    }
    return pending.lastRead.floor;
  }

  #beat(): void {
    for (const client of this.#clients) {
      if (!client.isAlive) client.socket.terminate();
      client.isAlive = false;
      client.socket.ping();
      this.send(client, { type: 'beat', now: this.#parts.clock.now() });
    }
  }

  /** Runs `work` and logs its error. An unreadable floor must not end the program: the next read may succeed. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'the page could not be told what happened');
    }
  }
}

type Batch = Extract<ServerFrame, { type: 'batch' }>;

const NOTHING_READ: FloorRead = { outlook: null, turns: [], answered: [] };

function emptyChannelState(): ChannelState {
  return {
    messages: [],
    changed: new Map(),
    drafts: new Map(),
    hasNewDrafts: false,
    hasNewFloor: false,
    floorSent: '',
    lastRead: { key: '', at: 0, floor: NOTHING_READ },
  };
}

function channelsOf(queries: FloorQueries): readonly ChannelEntry[] {
  const views = new Map(queries.awake().map((id) => [id, queries.view(id)]));
  return queries.channels().map(({ id, name, adapter }) => {
    const view = views.get(id) ?? null;
    const [question = null] = view === null ? [] : requestsAndTrustOn(view);
    const asks = queries.crewAsks?.(id) ?? null;
    const crew = asks === null ? {} : { crew: asks };
    return { id, name, writable: adapter === 'console', holder: view?.holder?.agent ?? null, question, ...crew };
  });
}

/** Reads the parts of a floor that are slower to read than its view: delivery preview, turns, answered requests. */
function readFloor(queries: FloorQueries, channel: ChannelId): FloorRead {
  return {
    outlook: queries.deliveryPreview(channel),
    turns: queries.turns(channel, TURNS_SHOWN),
    answered: answeredIn(queries.journal(channel, ENTRIES_LOOKED_AT)),
  };
}

function answeredIn(entries: readonly JournalEntry[]): readonly AnsweredQuestion[] {
  const byQuestion = new Map<number, AnsweredQuestion>();
  for (const { fact } of entries) {
    if (fact.type === 'announced' && fact.announcement.kind === 'answered')
      byQuestion.set(fact.announcement.question, fact.announcement);
  }
  return [...byQuestion.values()];
}

function sendText({ socket }: Client, text: string): void {
  if (socket.readyState !== socket.OPEN) return;
  if (socket.bufferedAmount > UNREAD_LIMIT) socket.terminate();
  else socket.send(text);
}
