import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { HumanMessage, MessageChange } from '../../engine/port.ts';
import { retry } from '../../lib/retry.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, History, Position } from '../port.ts';
import { call, channelId, messageId, platformChannel } from './client.ts';
import { threadAt, toChange, toHumanMessage, whereabouts, parseMessage, timesIn } from './parse-message.ts';
import type { MessageContext } from './parse-message.ts';

/** What reading histories needs of the adapter. */
export type HistoryPorts = MessageContext &
  Pick<AdapterParts, 'intake' | 'timers' | 'log'> & {
    readonly web: WebClient;
  };

/**
 * What a channel's or a thread's history shows after a message, and for ten minutes before it: events overtake each
 * other. A channel that was never read is only marked. Messages of threads with floors of their own, whose floors are not
 * open yet, are handed in directly. Slack's history does not tell of new replies under messages older than that.
 */
export async function readHistory(ports: HistoryPorts, channel: ChannelId, after: Position | null): Promise<History> {
  if (after === null) return { messages: [], changes: [], gap: null, mark: await standOf(ports, channel) };
  const { channel: own, thread } = platformChannel(channel);
  const oldest = (Math.max(0, Number(after.order) - OVERLAP_SECONDS) || 0).toFixed(6);
  const read = await (thread === null
    ? channelSince(ports, channel, oldest)
    : pages(ports, { channel, method: 'conversations.replies', args: { channel: own, ts: thread, oldest } }));
  return { ...(await sorted(ports, channel, read.messages)), gap: read.gap };
}

const OVERLAP_SECONDS = 600;
const PAGE = 200;
const MOST_PAGES = 50;
const MOST_THREADS = 50;
/** So long one reading waits for Slack's limits; longer, and it is a gap. */
const PATIENCE_MS = 30_000;
const AGAIN = { firstMs: 1_000, longestMs: PATIENCE_MS, attempts: 3 };

const pageSchema = z.looseObject({
  messages: z.array(z.unknown()),
  response_metadata: z.looseObject({ next_cursor: z.string().nullish() }).nullish(),
});

type Read = { readonly messages: readonly unknown[]; readonly gap: string | null };
type Wanted = {
  readonly channel: ChannelId;
  readonly method: 'conversations.history' | 'conversations.replies';
  readonly args: Readonly<Record<string, string>>;
};

async function standOf(ports: HistoryPorts, channel: ChannelId): Promise<Position> {
  const { channel: own, thread } = platformChannel(channel);
  const wanted: Wanted =
    thread === null
      ? { channel, method: 'conversations.history', args: { channel: own } }
      : { channel, method: 'conversations.replies', args: { channel: own, ts: thread } };
  const { messages } = await page(ports, wanted, { limit: 1 });
  const times = messages.map(timesIn).filter((found) => found !== null);
  const last = times.flatMap(({ ts, latestReply }) => (thread === null ? [ts] : [ts, latestReply ?? ts]));
  const ts = last.sort().at(-1) ?? '0000000000.000000';
  return { id: messageId(own, ts), order: ts };
}

/** The channel's own messages, and those of its threads that nobody else reads. */
async function channelSince(ports: HistoryPorts, channel: ChannelId, oldest: string): Promise<Read> {
  const own = platformChannel(channel).channel;
  const { messages, gap } = await pages(ports, {
    channel,
    method: 'conversations.history',
    args: { channel: own, oldest },
  });
  const places = ports.queries.channels();
  const threads = places.find(({ id }) => id === channel)?.threads ?? 'ignore';
  const answered = messages
    .map(timesIn)
    .filter((found) => found !== null)
    .filter(({ latestReply }) => latestReply !== null && latestReply > oldest)
    .filter(({ ts }) => threads === 'parent' || (threads === 'own' && !isOpen(places, channelId(own, ts))));
  const read: unknown[] = [...messages];
  const gaps = [gap];
  if (answered.length > MOST_THREADS) gaps.push(`only ${MOST_THREADS} of ${answered.length} threads were read`);
  for (const { ts } of answered.slice(0, MOST_THREADS)) {
    const replies = await pages(ports, {
      channel,
      method: 'conversations.replies',
      args: { channel: own, ts, oldest },
    });
    read.push(...replies.messages);
    gaps.push(replies.gap);
  }
  return { messages: read, gap: [...new Set(gaps.filter((one) => one !== null))].join('; ') || null };
}

function isOpen(places: readonly { readonly id: ChannelId }[], floor: ChannelId): boolean {
  return places.some(({ id }) => id === floor);
}

/** Oldest first, each message once; those of other floors go there. */
async function sorted(
  ports: HistoryPorts,
  channel: ChannelId,
  raw: readonly unknown[],
): Promise<Pick<History, 'messages' | 'changes'>> {
  const messages: HumanMessage[] = [];
  const changes: MessageChange[] = [];
  const own = platformChannel(channel).channel;
  const found = raw.map((message) => parseMessage(own, message, ports.self)).filter((said) => said !== null);
  const byTs = new Map(found.map((said) => [said.ts, said]));
  for (const said of [...byTs.values()].sort((a, b) => (a.ts < b.ts ? -1 : 1))) {
    const where = whereabouts(ports.queries, said);
    if (where === null) continue;
    const { human } = await toHumanMessage(said, where, ports);
    const change = said.editedTs === null ? null : await toChange(said, where.channel, ports);
    if (where.channel === channel) {
      messages.push(human);
      if (change !== null) changes.push(change);
      continue;
    }
    const opens = threadAt(said, where);
    if (opens !== null) await ports.intake.thread(opens);
    await ports.intake.message(human);
    if (change !== null) await ports.intake.amend(change);
  }
  return { messages, changes };
}

/** All pages of a history, newest first; what Slack does not let us read in time is a gap. */
async function pages(ports: HistoryPorts, wanted: Wanted): Promise<Read> {
  const messages: unknown[] = [];
  let cursor: string | null = null;
  for (let number = 0; number < MOST_PAGES; number += 1) {
    try {
      const next = await page(ports, wanted, { limit: PAGE, ...(cursor === null ? {} : { cursor }) });
      messages.push(...next.messages);
      cursor = next.response_metadata?.next_cursor || null;
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault !== 'limited') throw error;
      return { messages, gap: `only ${messages.length} messages were read: Slack lets this app read no more for now` };
    }
    if (cursor === null) return { messages, gap: null };
  }
  return { messages, gap: `only the newest ${messages.length} messages were read` };
}

/** One page; asked for again after short limits and breaks of the network: reading changes nothing. */
async function page(
  ports: HistoryPorts,
  { channel, method, args }: Wanted,
  more: Readonly<Record<string, unknown>>,
): Promise<z.output<typeof pageSchema>> {
  const work = (): Promise<z.output<typeof pageSchema>> =>
    call(ports.web, { method, channel, args: { ...args, ...more }, answer: pageSchema });
  return retry(work, AGAIN, {
    ...ports,
    judge({ error }) {
      if (!(error instanceof ChatError) || error.fault === 'refused') return 'give-up';
      const notBeforeMs = error.retryAfterMs ?? 0;
      return notBeforeMs > PATIENCE_MS ? 'give-up' : { notBeforeMs };
    },
    waiting: ({ error, waitMs }) => ports.log.debug({ channel, err: error, waitMs }, 'the history is read again'),
  });
}
