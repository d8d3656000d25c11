import { batch, computed, signal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { requestsAndTrustOn } from '../../turns/floor/seats.ts';
import type { OpenRequest } from '../../turns/floor/seats.ts';
import type { JournalEntry } from '../../turns/view.ts';
import type { AgentEntry, ChannelEntry, ChatMessage, PageState, ServerFrame } from '../console/protocol.ts';
import { takeCalls } from './audit/calls.ts';

/** The most messages that the page keeps and draws. */
export const SHOWN = 400;
/** How many of the newest journal entries the page keeps when new entries come. */
const ENTRIES_KEPT = 1_000;

/** State of the connection to the server. */
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting');
/** How far the server's clock is ahead of this machine's, in milliseconds. */
export const clockOffset = signal(0);

const pageState: { readonly [Key in keyof PageState]: Signal<PageState[Key]> } = {
  person: signal({ id: '' }),
  channels: signal([]),
  agents: signal([]),
  channel: signal(null),
  view: signal(null),
  outlook: signal(null),
  review: signal(null),
  turns: signal([]),
  answered: signal([]),
  drafts: signal([]),
};
export const {
  person,
  channels,
  agents,
  channel,
  view,
  outlook: deliveryPreview,
  review,
  turns,
  answered,
  drafts,
} = pageState;

const KEYS = Object.keys(pageState) as readonly (keyof PageState)[];

/** The messages of the open channel that the page shows, oldest first. */
export const messages = signal<readonly ChatMessage[]>([]);
/** Whether the server may send older messages of the open channel than the page has. */
export const hasEarlier = signal(false);
/** Whether the server may have newer messages of the open channel than the page. */
export const hasLater = signal(false);
/** The number of new messages that the reader has not reached. Counts only messages that the page received. */
export const unread = signal(0);
/** Whether the reader is at the end and follows new messages. */
export const following = signal(true);
/** Whether the reader asked for the newest messages and the server has not sent them yet. */
export const returning = signal(false);
export const journal = signal<readonly JournalEntry[]>([]);
export const journalHasEarlier = signal(false);
/** By channel id: how many messages the server reported since the channel was last open. */
export const activity = signal<Readonly<Record<string, number>>>({});

/** An open question of any channel. */
export type OpenQuestion = OpenRequest & { readonly channel: ChannelEntry };

/**
 * The open questions: all of the open channel, then the first one of each other channel. Reads the open channel's from
 * its floor, which is newer than the list of channels.
 */
export const openQuestions = computed<readonly OpenQuestion[]>(() =>
  channels.value
    .flatMap((entry) => {
      const floor = entry.id === channel.value ? view.value : null;
      const open = floor !== null ? requestsAndTrustOn(floor) : entry.question === null ? [] : [entry.question];
      return open.map((request) => ({ ...request, channel: entry }));
    })
    .toSorted((a, b) => Number(b.channel.id === channel.value) - Number(a.channel.id === channel.value)),
);

/** Names the worker and the reviewer of the channel's open review. Empty when no review is open. */
export const reviewersWords = computed(() => {
  const shownReview = review.value;
  return shownReview?.outcome === null
    ? `${nameOf(shownReview.primary)} works, ${nameOf(shownReview.reviewer)} reviews`
    : '';
});

/** Who holds the floor of the open channel; `null`: nobody. */
export const holder = computed(() => view.value?.holder ?? null);

const openChannel = computed(() => channels.value.find(({ id }) => id === channel.value));
/** Whether people can write messages in the open channel from this page. */
export const writable = computed(() => openChannel.value?.writable === true);
/** Whether the open channel is the thread of a finished ticket. */
export const isPast = computed(() => openChannel.value?.past === true);
/** The workers that ask people, in the crew of the open channel; none in a finished thread. `undefined`: no crew. */
export const crewAsks = computed(() => openChannel.value?.crew);
/** The worker that asks people about the ticket whose thread is the open channel; `undefined` for none. */
export const askingHere = computed(() => crewAsks.value?.find(({ thread }) => thread === channel.value));
/** The name of the open channel; empty without one. */
export const channelName = computed(() => openChannel.value?.name ?? '');

/** An agent as the page shows it; unknown ids are shown by their id. */
export function agentOf(id: string): AgentEntry {
  const entry = agents.value.find((agent) => agent.id === id);
  return entry ?? { id, name: id, avatar: null, description: '' };
}

/** An agent's name; of an unknown agent its id. */
export function nameOf(id: string): string {
  return agentOf(id).name;
}

/** The name of a channel; of an unknown channel its id. */
export function channelNameOf(id: string): string {
  return channels.value.find((entry) => entry.id === id)?.name ?? id;
}

/** Applies a frame of the server to the page's state. */
export function take(frame: ServerFrame): void {
  batch(() => {
    if ('now' in frame) clockOffset.value = frame.now - Date.now();
    switch (frame.type) {
      case 'state':
        return takeState(frame);
      case 'batch':
        return frame.channel === channel.value ? takeBatch(frame) : undefined;
      case 'channels': {
        // Keeps the open thread of a finished ticket, which the list of the server does not contain.
        const past = channels.value.filter(({ id }) => isPast.value && id === channel.value);
        return keep({ ...frame, channels: [...frame.channels, ...past] });
      }
      case 'holders': {
        const news = new Map(frame.channels.map((entry) => [entry.id, entry]));
        channels.value = channels.value.map((entry) => news.get(entry.id) ?? entry);
        return;
      }
      case 'history':
        return frame.channel === channel.value ? takeHistory(frame) : undefined;
      case 'journal':
        return frame.channel === channel.value ? takeJournal(frame) : undefined;
      case 'audit':
        return takeCalls(frame);
      case 'activity':
        return countUnread(frame.channel, (activity.value[frame.channel] ?? 0) + frame.count);
      case 'beat':
      case 'accepted':
      case 'refused':
      case 'answer':
      case 'notice':
        return;
    }
  });
}

type Of<T extends ServerFrame['type']> = Extract<ServerFrame, { readonly type: T }>;

function keep(news: Partial<PageState>): void {
  const keepKey = <Key extends keyof PageState>(key: Key, value: PageState[Key] | undefined): void => {
    if (value !== undefined) pageState[key].value = value;
  };
  for (const key of KEYS) keepKey(key, news[key]);
}

function countUnread(id: string, count: number): void {
  activity.value = { ...activity.value, [id]: count };
}

function takeState(frame: Of<'state'>): void {
  const moved = frame.channel !== channel.value;
  keep(frame);
  if (moved) journal.value = [];
  if (frame.channel !== null) countUnread(frame.channel, 0);
  if (moved || following.value || returning.value || messages.value.length === 0) {
    showStretch(frame.messages, { earlier: frame.more, later: false });
    unread.value = 0;
    returning.value = false;
    return;
  }
  // The reader is in older messages: keeps these in place and counts the new ones.
  unread.value = newer(frame.messages).length;
  hasLater.value = unread.value > 0;
  messages.value = renewed(frame.messages);
}

function showStretch(rows: readonly ChatMessage[], more: { readonly earlier: boolean; readonly later: boolean }): void {
  messages.value = rows;
  hasEarlier.value = more.earlier;
  hasLater.value = more.later;
  following.value = !more.later;
}

function takeBatch(frame: Of<'batch'>): void {
  keep(frame);
  const fresh = newer(frame.messages);
  if (!following.value) unread.value += fresh.length;
  if (fresh.length > 0 && !hasLater.value) extend([...messages.value, ...fresh], following.value ? 'end' : 'beginning');
  if (frame.changed.length > 0) messages.value = renewed(frame.changed);
}

function newer(incoming: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.value.at(-1)?.seq ?? 0;
  return incoming.filter(({ seq }) => seq > last);
}

function renewed(changed: readonly ChatMessage[]): readonly ChatMessage[] {
  const byId = new Map(changed.map((message) => [message.id, message]));
  return messages.value.map((message) => byId.get(message.id) ?? message);
}

function extend(all: readonly ChatMessage[], keptSide: 'end' | 'beginning'): void {
  const isCut = all.length > SHOWN;
  if (keptSide === 'end') hasEarlier.value ||= isCut;
  else hasLater.value ||= isCut;
  messages.value = keptSide === 'end' ? all.slice(-SHOWN) : all.slice(0, SHOWN);
}

function takeHistory({ direction, messages: rows, more }: Of<'history'>): void {
  if (direction === 'beginning') return showStretch(rows, { earlier: false, later: more });
  const knownIds = new Set(messages.value.map(({ id }) => id));
  const fresh = rows.filter(({ id }) => !knownIds.has(id));
  if (direction === 'before') {
    hasEarlier.value = more;
    return extend([...fresh, ...messages.value], 'beginning');
  }
  hasLater.value = more;
  extend([...messages.value, ...fresh], 'end');
  unread.value = more ? Math.max(0, unread.value - fresh.length) : 0;
}

function takeJournal({ part, entries, more }: Of<'journal'>): void {
  const entriesBefore = journal.value;
  if (part === 'later') {
    journal.value = [...entriesBefore, ...entries].slice(-ENTRIES_KEPT);
    return;
  }
  journal.value = part === 'newest' ? entries : [...entries, ...entriesBefore];
  journalHasEarlier.value = more;
}

/** The fragment of the page's address while the tool calls are shown. */
export const AUDIT_PLACE = '#audit';

/** The open tab of the panel. */
export const tab = signal<'floor' | 'turns' | 'journal'>('floor');
/** Whether the panel is open on narrow screens, where it is a drawer. */
export const drawerOpen = signal(false);
/** The view that is shown instead of the channel: the tool calls, or the crew; `null`: none. */
export const openView = signal<'audit' | 'crew' | null>(location.hash === AUDIT_PLACE ? 'audit' : null);

/** Opens the tool calls or the crew in place of the channel; closes that view when it is open. */
export function toggleView(which: 'audit' | 'crew'): void {
  openView.value = openView.value === which ? null : which;
}
/** Whether the list of shortcuts is open. */
export const helpOpen = signal(false);
