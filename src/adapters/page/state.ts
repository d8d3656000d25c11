import { batch, computed, signal } from '@preact/signals';
import { takeCalls } from './audit/calls.ts';
import type {
  AgentEntry,
  AnsweredQuestion,
  ChannelEntry,
  ChatMessage,
  ShownDraft,
  ServerFrame,
} from '../console/protocol.ts';
import { openOn } from '../../turns/floor/seats.ts';
import type { OpenRequest } from '../../turns/floor/seats.ts';
import type { FloorView, JournalEntry, Outlook, TurnRecord } from '../../turns/view.ts';

/** The most messages that the page keeps and draws. */
export const SHOWN = 400;

/** Whether the server is there. */
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting');
/** How far the server's clock is ahead of this machine's, in milliseconds. */
export const clockOffset = signal(0);
export const person = signal<{ readonly id: string; readonly name: string }>({ id: '', name: '' });
export const channels = signal<readonly ChannelEntry[]>([]);
export const agents = signal<readonly AgentEntry[]>([]);
/** The open channel. */
export const channel = signal<string | null>(null);
/** A stretch of the open channel's messages, oldest first, at most `SHOWN`. */
export const messages = signal<readonly ChatMessage[]>([]);
/** Messages older than the stretch exist. */
export const hasEarlier = signal(false);
/** Messages newer than the stretch exist. */
export const hasLater = signal(false);
/** How many messages came while the reader was not at the end. */
export const unread = signal(0);
/** The reader looks at the end and wants to stay there. */
export const following = signal(true);
/** The reader asked for the end, and the server has not yet sent it. */
export const returning = signal(false);
export const drafts = signal<ReadonlyMap<string, ShownDraft>>(new Map());
export const view = signal<FloorView | null>(null);
/** What would become of a message that is written now. */
export const outlook = signal<Outlook | null>(null);
/** Requests for permission that were answered lately, oldest first. */
export const answeredQuestions = signal<readonly AnsweredQuestion[]>([]);
export const turns = signal<readonly TurnRecord[]>([]);
export const journal = signal<readonly JournalEntry[]>([]);
export const journalHasEarlier = signal(false);
/** Messages in channels that are not open, since they were last open. */
export const activity = signal<Readonly<Record<string, number>>>({});

/** A request for permission that is open, wherever it is. */
export type OpenQuestion = OpenRequest & { readonly channel: ChannelEntry };

/** What waits for people's answer, the open channel first. Of the open channel the floor is newer than the list. */
export const openQuestions = computed<readonly OpenQuestion[]>(() =>
  channels.value
    .flatMap((entry): readonly OpenQuestion[] => {
      if (entry.id !== channel.value || view.value === null)
        return entry.question === null ? [] : [{ channel: entry, ...entry.question }];
      return openOn(view.value).map((open) => ({ channel: entry, ...open }));
    })
    .toSorted((a, b) => Number(b.channel.id === channel.value) - Number(a.channel.id === channel.value)),
);

/** Who holds the floor of the open channel; `null`: nobody. */
export const holder = computed(() => view.value?.holder ?? null);

/** Whether people can write in the open channel; windows into other platforms take only commands. */
export const writable = computed(() => channels.value.find((one) => one.id === channel.value)?.writable === true);

/** The channel's name as people call it. */
export const channelName = computed(() => channels.value.find((one) => one.id === channel.value)?.name ?? '');

/** An agent as the page shows it; unknown ids are shown by their id. */
export function agentOf(id: string): AgentEntry {
  const known = agents.value.find((agent) => agent.id === id);
  return known ?? { id, name: id, avatar: null, description: '' };
}

/** An agent's name; of an unknown agent its id. */
export function nameOf(id: string): string {
  return agentOf(id).name;
}

/** The name of a channel; of an unknown channel its id. */
export function channelNameOf(id: string): string {
  return channels.value.find((entry) => entry.id === id)?.name ?? id;
}

/** Takes a frame of the server that describes the state of things. */
export function take(frame: ServerFrame): void {
  batch(() => {
    if (frame.type === 'state') takeState(frame);
    else if (frame.type === 'batch') takeBatch(frame);
    else if (frame.type === 'history') takeHistory(frame);
    else if (frame.type === 'journal') takeJournal(frame);
    else if (frame.type === 'audit') takeCalls(frame);
    else if (frame.type === 'channels') {
      channels.value = frame.channels;
      agents.value = frame.agents;
    } else if (frame.type === 'holders') {
      const news = new Map(frame.channels.map((entry) => [entry.id, entry]));
      channels.value = channels.value.map((entry) => news.get(entry.id) ?? entry);
    } else if (frame.type === 'beat') clockOffset.value = frame.now - Date.now();
    else if (frame.type === 'activity') {
      const before = activity.value[frame.channel] ?? 0;
      activity.value = { ...activity.value, [frame.channel]: before + frame.count };
    }
  });
}

type Of<T extends ServerFrame['type']> = Extract<ServerFrame, { readonly type: T }>;

function takeState(frame: Of<'state'>): void {
  const moved = frame.channel !== channel.value;
  clockOffset.value = frame.now - Date.now();
  person.value = frame.person;
  channels.value = frame.channels;
  agents.value = frame.agents;
  channel.value = frame.channel;
  view.value = frame.view;
  outlook.value = frame.outlook;
  turns.value = frame.turns;
  answeredQuestions.value = frame.answered;
  drafts.value = new Map(frame.drafts.map((draft) => [draft.agent, draft]));
  if (moved) journal.value = [];
  if (frame.channel !== null) activity.value = { ...activity.value, [frame.channel]: 0 };
  if (moved || following.value || returning.value || messages.value.length === 0) showEnd(frame);
  else noteLater(frame.messages);
}

function showEnd(frame: Of<'state'>): void {
  messages.value = frame.messages;
  hasEarlier.value = frame.more;
  hasLater.value = false;
  unread.value = 0;
  following.value = true;
  returning.value = false;
}

/** The reader is in the past: leave the stretch, say that there is more. */
function noteLater(newest: readonly ChatMessage[]): void {
  const last = messages.value.at(-1)?.seq ?? 0;
  const fresh = newest.filter((message) => message.seq > last).length;
  hasLater.value = fresh > 0;
  unread.value = fresh;
  messages.value = renew(messages.value, newest);
}

function takeBatch(frame: Of<'batch'>): void {
  if (frame.channel !== channel.value) return;
  clockOffset.value = frame.now - Date.now();
  if (frame.view !== undefined) view.value = frame.view;
  if (frame.outlook !== undefined) outlook.value = frame.outlook;
  if (frame.turns !== undefined) turns.value = frame.turns;
  if (frame.answered !== undefined) answeredQuestions.value = frame.answered;
  if (frame.messages.length > 0) append(frame.messages);
  if (frame.changed.length > 0) messages.value = renew(messages.value, frame.changed);
  if (frame.drafts.length > 0 || frame.messages.length > 0) redraft(frame);
}

function append(incoming: readonly ChatMessage[]): void {
  const last = messages.value.at(-1)?.seq ?? 0;
  const fresh = incoming.filter((message) => message.seq > last);
  if (!following.value) unread.value += fresh.length;
  if (hasLater.value) return;
  const all = [...messages.value, ...fresh];
  if (following.value) {
    hasEarlier.value ||= all.length > SHOWN;
    messages.value = all.slice(-SHOWN);
  } else {
    hasLater.value = all.length > SHOWN;
    messages.value = all.slice(0, SHOWN);
  }
}

function renew(list: readonly ChatMessage[], changed: readonly ChatMessage[]): readonly ChatMessage[] {
  const byId = new Map(changed.map((message) => [message.id, message]));
  return list.map((message) => byId.get(message.id) ?? message);
}

/** A draft goes when it is taken away or when the message that it became has arrived. */
function redraft(frame: Of<'batch'>): void {
  const next = new Map(drafts.value);
  for (const draft of frame.drafts) {
    if (draft.text === null) next.delete(draft.agent);
    else next.set(draft.agent, draft);
  }
  for (const message of frame.messages) {
    const draft = next.get(message.speaker.id);
    const became = draft?.text?.trim().slice(0, 24);
    if (message.kind === 'agent' && became !== undefined && message.text.startsWith(became)) {
      next.delete(message.speaker.id);
    }
  }
  drafts.value = next;
}

function takeHistory(frame: Of<'history'>): void {
  if (frame.channel !== channel.value) return;
  if (frame.direction === 'beginning') {
    messages.value = frame.messages;
    hasEarlier.value = false;
    hasLater.value = frame.more;
    following.value = !frame.more;
    return;
  }
  const known = new Set(messages.value.map((message) => message.id));
  const fresh = frame.messages.filter((message) => !known.has(message.id));
  if (frame.direction === 'before') {
    const all = [...fresh, ...messages.value];
    hasEarlier.value = frame.more;
    hasLater.value ||= all.length > SHOWN;
    messages.value = all.slice(0, SHOWN);
    return;
  }
  const all = [...messages.value, ...fresh];
  hasLater.value = frame.more;
  hasEarlier.value ||= all.length > SHOWN;
  messages.value = all.slice(-SHOWN);
  unread.value = frame.more ? Math.max(0, unread.value - fresh.length) : 0;
}

function takeJournal(frame: Of<'journal'>): void {
  if (frame.channel !== channel.value) return;
  if (frame.part === 'newest') journal.value = frame.entries;
  if (frame.part === 'later') journal.value = [...journal.value, ...frame.entries].slice(-1000);
  if (frame.part === 'earlier') journal.value = [...frame.entries, ...journal.value];
  if (frame.part !== 'later') journalHasEarlier.value = frame.more;
}

/** Where the page is while it shows them. */
export const AUDIT_PLACE = '#audit';

/** The panel beside the conversation: what it shows. */
export const tab = signal<'floor' | 'turns' | 'journal'>('floor');
/** On narrow screens the panel is a drawer. */
export const drawerOpen = signal(false);
/** Every tool call is shown in the place of the channel. */
export const auditOpen = signal(location.hash === AUDIT_PLACE);
/** The list of keyboard shortcuts is open. */
export const helpOpen = signal(false);
/** Asks the conversation to go to its end. */
export const goToEnd = signal(0);
/** Asks the conversation to go to its beginning. */
export const goToBeginning = signal(0);
/** Text that somebody wants in the composer. */
export const suggestion = signal<string | null>(null);
