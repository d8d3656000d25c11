import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { openOn } from '../../turns/floor/seats.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { FloorView, JournalEntry } from '../../turns/view.ts';
import type { Clock } from '../../lib/time.ts';
import type { FloorQueries } from '../port.ts';
import type { AnsweredQuestion, ChannelEntry, ChatMessage, ShownDraft, FloorNow, ServerFrame } from './protocol.ts';

/** What happens within this time goes out in one frame: the page stays usable with hundreds of messages a second. */
const FLUSH_MS = 50;
/** A page with more than this unread is dropped; it comes back and gets a fresh picture. */
const UNREAD_LIMIT = 4 * 1024 * 1024;
const BEAT_MS = 15_000;
const REFRESH_MS = 1_000;
const TURNS_SHOWN = 60;
const JOURNAL_PAGE = 100;
/** How far back answered requests are shown: as far as a conversation of a few exchanges. */
const ENTRIES_LOOKED_AT = 400;

/** One open page. */
export type Client = {
  readonly socket: WebSocket;
  channel: ChannelId | null;
  /** The newest journal entry that it has; `null` while it does not watch the journal. */
  journalSeq: number | null;
  /** Sent after the next batch, so that an acknowledgement never overtakes its message. */
  later: ServerFrame[];
  answered: boolean;
};

type ChannelState = {
  messages: ChatMessage[];
  changed: Map<string, ChatMessage>;
  drafts: Map<AgentId, ShownDraft>;
  redrafted: Set<AgentId>;
  floorMoved: boolean;
  floorSent: string;
  read: { readonly of: string; readonly at: number; readonly found: Omit<FloorNow, 'view'> };
};

/** Tells the open pages what happens, gathered per channel. */
export type Hub = {
  join(socket: WebSocket): Client;
  leave(client: Client): void;
  message(channel: ChannelId, message: ChatMessage): void;
  changed(channel: ChannelId, message: ChatMessage): void;
  draft(channel: ChannelId, draft: ShownDraft): void;
  drafts(channel: ChannelId): readonly ShownDraft[];
  /** The floor of the channel may have changed. */
  card(channel: ChannelId): void;
  floor(channel: ChannelId): FloorNow;
  /** For one page, which may be ahead of what the others were told: all are told again. */
  channels(): readonly ChannelEntry[];
  journal(client: Client, channel: ChannelId, before?: number): void;
  send(client: Client, frame: ServerFrame): void;
  later(client: Client, frame: ServerFrame): void;
  notice(channel: ChannelId, text: string): void;
  stop(): void;
};

type Parts = {
  readonly clock: Clock;
  readonly log: Logger;
  readonly queries: FloorQueries;
  /** Called once a second for every channel that a page has open. */
  readonly refresh: (channel: ChannelId) => void;
};

/** Makes what tells pages; its timers run only while a page is open. `stop` closes every page's connection. */
export function createHub(parts: Parts): Hub {
  const state: HubState = {
    parts,
    clients: new Set(),
    channels: new Map(),
    flushing: null,
    timers: [],
    channelsSent: null,
  };
  return {
    ...happenings(state),
    join(socket) {
      if (state.clients.size === 0) {
        state.timers.push(setInterval(() => beat(parts.clock, state.clients), BEAT_MS));
        state.timers.push(setInterval(() => refresh(state), REFRESH_MS));
      }
      return join(state.clients, socket);
    },
    leave(client) {
      state.clients.delete(client);
      if (state.clients.size === 0) for (const timer of state.timers.splice(0)) clearInterval(timer);
    },
    drafts: (channel) => [...channelState(state, channel).drafts.values()],
    floor: (channel) => ({ view: parts.queries.view(channel), ...readOf(parts.queries, channel) }),
    channels() {
      state.channelsSent = null;
      return channelsOf(parts.queries);
    },
    journal: (client, channel, before) => sendJournal(parts.queries, client, { channel, before }),
    send,
    later(client, frame) {
      client.later.push(frame);
      soon(state);
    },
    notice(channel, text) {
      for (const client of state.clients) if (client.channel === channel) send(client, { type: 'notice', text });
    },
    stop() {
      if (state.flushing !== null) clearTimeout(state.flushing);
      for (const timer of state.timers.splice(0)) clearInterval(timer);
      guarded(parts, () => flush(parts, state.clients, state.channels));
      for (const client of state.clients) client.socket.close(1001, 'Conch is stopping');
    },
  };
}

type HubState = {
  readonly parts: Parts;
  readonly clients: Set<Client>;
  readonly channels: Map<ChannelId, ChannelState>;
  flushing: NodeJS.Timeout | null;
  readonly timers: NodeJS.Timeout[];
  /** What the pages were told of channels: which there are, with the agents, and each entry. */
  channelsSent: { readonly of: string; readonly entries: ReadonlyMap<ChannelId, string> } | null;
};

/** Without a page nobody is told: whoever opens one asks for all there is, and for the texts that are being generated. */
function happenings(state: HubState): Pick<Hub, 'message' | 'changed' | 'draft' | 'card'> {
  const tell = (channel: ChannelId, note: (pending: ChannelState) => void): void => {
    if (state.clients.size === 0) return;
    note(channelState(state, channel));
    soon(state);
  };
  return {
    message: (channel, message) => tell(channel, ({ messages }) => messages.push(message)),
    changed: (channel, message) => tell(channel, ({ changed }) => changed.set(message.id, message)),
    card: (channel) => tell(channel, (pending) => (pending.floorMoved = true)),
    draft(channel, draft) {
      if (draft.text !== null || state.channels.has(channel)) redraft(channelState(state, channel), draft);
      tell(channel, () => {});
    },
  };
}

function channelState(state: HubState, channel: ChannelId): ChannelState {
  const pending = state.channels.get(channel) ?? emptyChannelState();
  state.channels.set(channel, pending);
  return pending;
}

function soon(state: HubState): void {
  state.flushing ??= setTimeout(() => {
    state.flushing = null;
    guarded(state.parts, () => flush(state.parts, state.clients, state.channels));
  }, FLUSH_MS);
}

function refresh(state: HubState): void {
  const open = new Set([...state.clients].flatMap((client) => (client.channel === null ? [] : [client.channel])));
  for (const channel of open) {
    guarded(state.parts, () => state.parts.refresh(channel));
    channelState(state, channel).floorMoved = true;
  }
  if (open.size > 0) soon(state);
  if (state.clients.size > 0) guarded(state.parts, () => tellChannels(state));
}

function tellChannels(state: HubState): void {
  const { queries } = state.parts;
  const channels = channelsOf(queries);
  const agents = queries.agents();
  const of = JSON.stringify([channels.map(({ id, name, writable }) => [id, name, writable]), agents]);
  const before = state.channelsSent;
  state.channelsSent = { of, entries: new Map(channels.map((entry) => [entry.id, JSON.stringify(entry)])) };
  const others = channels.filter(({ id }) => before?.entries.get(id) !== state.channelsSent?.entries.get(id));
  const isNew = before?.of !== of;
  if (!isNew && others.length === 0) return;
  const frame: ServerFrame = isNew ? { type: 'channels', channels, agents } : { type: 'holders', channels: others };
  const text = JSON.stringify(frame);
  for (const client of state.clients) sendText(client, text);
}

function channelsOf(queries: FloorQueries): readonly ChannelEntry[] {
  const views = new Map(queries.awake().map((id) => [id, queries.view(id)]));
  return queries.channels().map(({ id, name, adapter }) => {
    const view = views.get(id) ?? null;
    const [question = null] = view === null ? [] : openOn(view);
    return {
      id,
      name,
      writable: adapter === 'console',
      holder: view?.holder?.agent ?? null,
      question,
    };
  });
}

function join(clients: Set<Client>, socket: WebSocket): Client {
  const client: Client = { socket, channel: null, journalSeq: null, later: [], answered: true };
  clients.add(client);
  socket.on('pong', () => (client.answered = true));
  return client;
}

function emptyChannelState(): ChannelState {
  return {
    messages: [],
    changed: new Map(),
    drafts: new Map(),
    redrafted: new Set(),
    floorMoved: false,
    floorSent: '',
    read: { of: '', at: 0, found: { outlook: null, turns: [], answered: [] } },
  };
}

function redraft(pending: ChannelState, draft: ShownDraft): void {
  if (draft.text === null) pending.drafts.delete(draft.agent);
  else pending.drafts.set(draft.agent, draft);
  pending.redrafted.add(draft.agent);
}

function flush(parts: Parts, clients: ReadonlySet<Client>, channels: ReadonlyMap<ChannelId, ChannelState>): void {
  for (const [channel, pending] of channels) {
    const audience = [...clients].filter((client) => client.channel === channel);
    const frame = drain(parts, channel, pending, audience.length > 0);
    if (frame === null) continue;
    const text = JSON.stringify(frame);
    for (const client of audience) {
      sendText(client, text);
      if (client.journalSeq !== null && frame.view !== undefined) sendJournal(parts.queries, client, { channel });
    }
    const activity: ServerFrame = { type: 'activity', channel, count: frame.messages.length };
    if (activity.count > 0) for (const client of clients) if (client.channel !== channel) send(client, activity);
  }
  for (const client of clients) {
    for (const frame of client.later.splice(0)) send(client, frame);
  }
}

type Batch = Extract<ServerFrame, { type: 'batch' }>;

/** Empties a channel's state into one frame; `null` when nothing happened. */
function drain(parts: Parts, channel: ChannelId, pending: ChannelState, watched: boolean): Batch | null {
  const floor = pending.floorMoved && watched ? movedFloor(parts, channel, pending) : null;
  const { messages, changed } = pending;
  const drafts = [...pending.redrafted].map((agent) => pending.drafts.get(agent) ?? noDraft(agent));
  pending.messages = [];
  pending.changed = new Map();
  pending.redrafted.clear();
  pending.floorMoved = false;
  if (floor === null && messages.length + changed.size + drafts.length === 0) return null;
  return { type: 'batch', now: parts.clock.now(), channel, messages, changed: [...changed.values()], drafts, ...floor };
}

function noDraft(agent: AgentId): ShownDraft {
  return { agent, name: agent, epoch: 0, text: null };
}

function movedFloor(parts: Parts, channel: ChannelId, pending: ChannelState): FloorNow | null {
  const view = parts.queries.view(channel);
  const floor = { view, ...readOnce(parts, pending, view) };
  const text = JSON.stringify(floor);
  if (text === pending.floorSent) return null;
  pending.floorSent = text;
  return floor;
}

/** The newest word on each question. */
function answeredIn(entries: readonly JournalEntry[]): readonly AnsweredQuestion[] {
  const known = new Map<number, AnsweredQuestion>();
  for (const { fact } of entries) {
    if (fact.type === 'announced' && fact.announcement.kind === 'answered')
      known.set(fact.announcement.question, fact.announcement);
  }
  return [...known.values()];
}

/** What takes longer to find out than a view: the turns are read from the journal, a message's fate is decided. */
function readOf(queries: FloorQueries, channel: ChannelId): Omit<FloorNow, 'view'> {
  return {
    outlook: queries.outlook(channel),
    turns: queries.turns(channel, TURNS_SHOWN),
    answered: answeredIn(queries.journal(channel, ENTRIES_LOOKED_AT)),
  };
}

/** Only when something that they depend on is another than before, and once a second for the rest. */
function readOnce(parts: Parts, pending: ChannelState, view: FloorView | null): Omit<FloorNow, 'view'> {
  if (view === null) return { outlook: null, turns: [], answered: [] };
  const { channel, epoch, holder, condition, mode, order, obstacles, seats } = view;
  const holding = [holder?.epoch, holder?.status, holder?.waitingFor];
  const statuses = seats.map(({ status }) => status);
  const of = JSON.stringify([epoch, condition, holding, mode, order, obstacles.map(({ why }) => why), statuses]);
  const at = parts.clock.now();
  if (pending.read.of !== of || at - pending.read.at >= REFRESH_MS) {
    pending.read = { of, at, found: readOf(parts.queries, channel) };
  }
  return pending.read.found;
}

/** A floor that cannot be read now must not end the program: the next look may succeed. */
function guarded(parts: Parts, look: () => void): void {
  try {
    look();
  } catch (error) {
    parts.log.warn({ err: error }, 'the page could not be told what happened');
  }
}

function sendJournal(
  queries: FloorQueries,
  client: Client,
  which: { readonly channel: ChannelId; readonly before?: number | undefined },
): void {
  const { channel, before } = which;
  const page = queries.journal(channel, JOURNAL_PAGE, before);
  const more = page.length === JOURNAL_PAGE && (page[0]?.seq ?? 0) > 1;
  if (before !== undefined) return send(client, { type: 'journal', channel, part: 'earlier', entries: page, more });
  const known = client.journalSeq ?? 0;
  const entries = page.filter((entry: JournalEntry) => entry.seq > known);
  client.journalSeq = page.at(-1)?.seq ?? known;
  const continues = known > 0 && entries.length < page.length;
  if (entries.length === 0 && continues) return;
  send(client, { type: 'journal', channel, part: continues ? 'later' : 'newest', entries, more });
}

function beat(clock: Clock, clients: ReadonlySet<Client>): void {
  for (const client of clients) {
    if (!client.answered) client.socket.terminate();
    client.answered = false;
    client.socket.ping();
    send(client, { type: 'beat', now: clock.now() });
  }
}

function send(client: Client, frame: ServerFrame): void {
  sendText(client, JSON.stringify(frame));
}

function sendText(client: Client, text: string): void {
  if (client.socket.readyState !== client.socket.OPEN) return;
  if (client.socket.bufferedAmount > UNREAD_LIMIT) client.socket.terminate();
  else client.socket.send(text);
}
