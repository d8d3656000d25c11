import { Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { HumanMessage, MessageChange } from '../../engine/port.ts';
import { compareIds, isAfter } from '../delivery/message-client.ts';
import type { HistoryRange } from '../delivery/message-client.ts';
import { nullIfRefused } from '../delivery/posts.ts';
import type { AdapterParts, History, Place, Position } from '../port.ts';
import { defined } from '../../lib/defined.ts';
import { channelId, platformChannel, snowflakeAt, timeOf } from './client.ts';
import type { Reader } from './client.ts';
import { editOf, humanMessage, isOwn, isSpeech, messageSchema } from './parse-message.ts';
import type { MessageContext, MessagePayload } from './parse-message.ts';
import { channelSchema, snowflakeSchema } from './places.ts';
import type { ChannelPayload, Places } from './places.ts';

/** Dependencies of reading the history. */
export type HistoryPorts = Pick<AdapterParts, 'queries' | 'log'> & {
  readonly read: Reader;
  readonly places: Pick<Places, 'learn' | 'guildOf' | 'resolve'>;
  readonly context: MessageContext;
  /** Returns whether the bot may read the history. Otherwise Discord shows an empty history and no error. */
  readonly mayRead: (channel: string) => Promise<boolean>;
};

/** How far before the last known message a catch-up reads again, in milliseconds: events may come late or never. */
export const OVERLAP_MS = 600_000;
/** The most pages of a channel or thread that one catch-up reads; a page has at most 100 messages. */
export const PAGES = 50;

/**
 * Reads the messages of people and programs in a channel since 10 minutes before a position, with edits. Also reads
 * threads that share the channel's floor, and opens missing floors of threads that have their own. `after` null:
 * returns the channel's newest position and no messages. Returns nothing for a channel without a floor.
 */
export async function readHistory(ports: HistoryPorts, channel: ChannelId, after: Position | null): Promise<History> {
  const place = ports.queries.channels().find(({ id }) => id === channel);
  if (place === undefined) return NOTHING;
  const ownId = platformChannel(channel);
  if (after === null) return begin(ports, ownId);
  const start = snowflakeAt(timeOf(after.id) - OVERLAP_MS);
  const channelPart = await readBack(ports, { source: ownId, floor: channel, place }, start);
  const threads = await threadsSharing(ports, place, start);
  const parts = [channelPart];
  for (const source of threads.sharing) parts.push(await readBack(ports, { source, floor: channel, place }, start));
  const isHidden = channelPart.isEmpty && !(await ports.mayRead(ownId));
  const messages = parts.flatMap((part) => part.messages).sort((a, b) => compareIds(a.order, b.order));
  const gaps = [isHidden ? NOT_ALLOWED : null, threads.gap, ...parts.map(({ gap }) => gap)].filter(
    (gap) => gap !== null,
  );
  return { messages, changes: parts.flatMap((part) => part.changes), gap: gaps.length === 0 ? null : gaps.join('; ') };
}

const NOTHING: History = { messages: [], changes: [], gap: null };
const NOT_ALLOWED = 'Conch lacks the permission "Read Message History" here';
/** The most messages of one page of the history. */
export const PAGE = 100;
/** The most threads of one channel that one catch-up reads. */
export const THREADS_READ = 50;

/** One page of a channel's messages, as Discord returns it. */
export const pageSchema = z.array(z.looseObject({ id: snowflakeSchema }));
const threadsSchema = z.object({ threads: z.array(z.unknown()) });

type Page = z.infer<typeof pageSchema>;
type Source = { readonly source: string; readonly floor: ChannelId; readonly place: Place };
type Part = Omit<History, 'mark'> & { readonly isEmpty: boolean };

/**
 * Returns a channel's newest position. For an empty channel, this is the channel's id: this machine's clock may be
 * ahead of Discord's.
 */
async function begin(ports: HistoryPorts, source: string): Promise<History> {
  const [newest] = await page(ports, source, { limit: '1' });
  const id = newest?.id ?? source;
  const gap = newest === undefined && !(await ports.mayRead(source)) ? NOT_ALLOWED : null;
  return { ...NOTHING, gap, mark: { id, order: id } };
}

async function readBack(ports: HistoryPorts, from: Source, start: string): Promise<Part> {
  const range = { after: start, newest: null, pages: PAGES };
  const { messages, isComplete, isEmpty } = await readPages((query) => page(ports, from.source, query), range);
  const parsed = messages.flatMap((each) => {
    const message = messageSchema.safeParse(each);
    if (!message.success)
      ports.log.warn({ message: each.id }, 'a message in the history has an unexpected form and was skipped');
    return message.success ? [message.data] : [];
  });
  const gap = isComplete ? null : `only the newest ${messages.length} missed messages were read`;
  return { ...speechOf(ports, from, parsed), gap, isEmpty };
}

/**
 * Reads a range of a channel's history with `ask`, at most `pages` pages, from the newest message backwards. Resolves
 * with the newest message first. `isComplete`: no page of the range is missing. `isEmpty`: the channel shows no
 * message.
 */
export async function readPages(
  ask: (query: Readonly<Record<string, string>>) => Promise<Page>,
  { after, newest, pages }: HistoryRange & { readonly pages: number },
): Promise<{ readonly messages: Page; readonly isComplete: boolean; readonly isEmpty: boolean }> {
  const collected: Page = [];
  let isComplete = false;
  for (let count = 0; count < pages && !isComplete; count += 1) {
    const size = Math.min(PAGE, (newest ?? Infinity) - collected.length);
    const listed = await ask({ limit: `${size}`, ...defined({ before: collected.at(-1)?.id }) });
    collected.push(...listed.toSorted((one, other) => compareIds(other.id, one.id)));
    const oldest = collected.at(-1)?.id;
    const isPast = oldest === undefined || (after !== null && !isAfter(oldest, after));
    isComplete = isPast || listed.length < size || collected.length === newest;
  }
  const messages = collected.filter(({ id }) => after === null || isAfter(id, after));
  return { messages, isComplete, isEmpty: collected.length === 0 };
}

function speechOf(
  { context }: HistoryPorts,
  { floor, place }: Source,
  parsed: readonly MessagePayload[],
): { readonly messages: readonly HumanMessage[]; readonly changes: readonly MessageChange[] } {
  const speech = parsed.filter((message) => isSpeech(message) && !isOwn(message, context)).toReversed();
  return {
    messages: speech.map((message) => humanMessage(message, { channel: floor, place }, context)),
    changes: speech.flatMap((message) => editOf(message, floor, context) ?? []),
  };
}

/**
 * Finds the newest threads of a channel with messages after `start`, at most `THREADS_READ`. Returns them as `sharing`
 * if threads share the channel's floor. If threads have floors of their own, opens the missing floors instead, and
 * `sharing` is empty.
 */
async function threadsSharing(ports: HistoryPorts, place: Place, start: string): Promise<Threads> {
  const ownId = platformChannel(place.id);
  const guild = ports.places.guildOf(ownId);
  if (place.parent !== null || place.threads === 'ignore' || guild === null) return { sharing: [], gap: null };
  const list = async (route: `/${string}`): Promise<readonly ChannelPayload[]> => {
    const { threads } = await ports.read({ route, channel: place.id, what: 'threads' }, threadsSchema);
    return threads.flatMap((each) => channelSchema.safeParse(each).data ?? []);
  };
  const active = await list(Routes.guildActiveThreads(guild));
  // Discord refuses to list archived threads without "Read Message History". The channel's own gap reports that.
  const archived = await list(Routes.channelThreads(ownId, 'public')).catch(nullIfRefused);
  const newestIn = (thread: ChannelPayload): string => thread.last_message_id ?? thread.id;
  const missedThreads = [...active, ...(archived ?? [])]
    .filter((thread) => thread.parent_id === ownId && isAfter(newestIn(thread), start))
    .toSorted((one, other) => compareIds(newestIn(other), newestIn(one)));
  const newestThreads = missedThreads.slice(0, THREADS_READ);
  for (const thread of newestThreads) ports.places.learn(thread);
  if (place.threads === 'own') for (const { id } of newestThreads) await ports.places.resolve(id);
  const gap =
    missedThreads.length > THREADS_READ
      ? `only the newest ${THREADS_READ} threads with missed messages were read`
      : null;
  return { sharing: place.threads === 'parent' ? newestThreads.map(({ id }) => id) : [], gap };
}

type Threads = { readonly sharing: readonly string[]; readonly gap: string | null };

function page({ read }: HistoryPorts, channel: string, query: Readonly<Record<string, string>>): Promise<Page> {
  return read(
    { route: Routes.channelMessages(channel), channel: channelId(channel), what: 'history', query },
    pageSchema,
  );
}
