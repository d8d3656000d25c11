import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { HumanMessage, MessageChange } from '../../engine/port.ts';
import { defined } from '../../lib/defined.ts';
import { retry } from '../../lib/retry.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, History, Position } from '../port.ts';
import { call, channelId, messageId, platformChannel } from './client.ts';
import { threadAt, toChange, toHumanMessage, floorLocation, parseMessage, timesIn } from './parse-message.ts';
import type { MessageContext, ReceivedMessage } from './parse-message.ts';

type HistoryPorts = MessageContext &
  Pick<AdapterParts, 'intake' | 'timers' | 'log'> & {
    readonly web: WebClient;
    /** Messages up to this position are left out. `null`: no message is left out. */
    readonly mark: Position | null;
  };

/**
 * Reads the history of a channel or thread since the message `after`. Starts 10 minutes earlier, because Slack's events
 * can arrive out of order. With `after` null, returns no messages, only the newest position. Messages of other floors
 * (of threads in the channel) go straight to the intake. A thread's root message belongs to its channel, so a read of
 * the thread leaves it out.
 */
export async function readHistory(ports: HistoryPorts, channel: ChannelId, after: Position | null): Promise<History> {
  if (after === null) return { messages: [], changes: [], gap: null, mark: await newestPosition(ports, channel) };
  const { thread } = platformChannel(channel);
  const oldest = (Math.max(0, Number(after.order) - OVERLAP_SECONDS) || 0).toFixed(6);
  const part = await (thread === null ? readChannelSince : pages)(ports, channel, oldest);
  const messages = part.messages.filter((message) => thread === null || timesIn(message)?.ts !== thread);
  return { ...(await sortMessages(ports, channel, messages)), gap: part.gap };
}

const OVERLAP_SECONDS = 600;
/** The most messages of one page of the history. Slack recommends no more. */
export const PAGE = 200;
const MOST_PAGES = 50;
const MOST_THREADS = 50;
/** The longest wait for Slack's rate limit, in milliseconds. A longer wait is reported as a gap. */
const PATIENCE_MS = 30_000;
const AGAIN = { firstMs: 1_000, longestMs: PATIENCE_MS, attempts: 3 };

/** One page of the history of a channel or thread. */
export const pageSchema = z.looseObject({
  messages: z.array(z.unknown()),
  response_metadata: z.looseObject({ next_cursor: z.string().nullish() }).nullish(),
});

type HistoryPart = { readonly messages: readonly unknown[]; readonly gap: string | null };
async function newestPosition(ports: HistoryPorts, channel: ChannelId): Promise<Position> {
  const { channel: slackChannel, thread } = platformChannel(channel);
  const { messages } = await page(ports, channel, { limit: thread === null ? PAGE : 1 });
  const times = messages.map(timesIn).filter((each) => each !== null);
  const latest = times.map(({ ts, latestReply }) => latestReply ?? ts);
  const ts = latest.sort().at(-1) ?? '0000000000.000000';
  return { id: messageId(slackChannel, ts), order: ts };
}

/**
 * Reads the messages of a channel since `oldest`. Reads replies only under messages of the pages read, and under at
 * most 50 of these messages.
 */
async function readChannelSince(ports: HistoryPorts, channel: ChannelId, oldest: string): Promise<HistoryPart> {
  const slackChannel = platformChannel(channel).channel;
  const { messages, gap } = await pages(ports, channel, oldest);
  const isNew = (message: unknown): boolean => (timesIn(message)?.ts ?? '') > oldest;
  const places = ports.queries.channels();
  const threads = places.find(({ id }) => id === channel)?.threads ?? 'ignore';
  const threadRoots = messages
    .map(timesIn)
    .filter((each) => each !== null)
    .filter(({ latestReply }) => latestReply !== null && latestReply > oldest)
    .filter(
      ({ ts }) =>
        threads === 'parent' || (threads === 'own' && !places.some(({ id }) => id === channelId(slackChannel, ts))),
    );
  const newMessages = messages.filter(isNew);
  const gaps = [gap];
  if (threadRoots.length > MOST_THREADS) gaps.push(`only ${MOST_THREADS} of ${threadRoots.length} threads were read`);
  for (const { ts } of threadRoots.slice(0, MOST_THREADS)) {
    const replies = await pages(ports, channelId(slackChannel, ts), oldest);
    newMessages.push(...replies.messages.filter(isNew));
    gaps.push(replies.gap);
  }
  return { messages: newMessages, gap: [...new Set(gaps.filter((each) => each !== null))].join('; ') || null };
}

/**
 * Returns the messages after `ports.mark` that belong to the channel's own floor, oldest first, and their edits. Leaves
 * out Conch's own messages. Gives messages of other floors, such as threads of the channel, to the intake at once.
 */
async function sortMessages(
  ports: HistoryPorts,
  channel: ChannelId,
  raw: readonly unknown[],
): Promise<Pick<History, 'messages' | 'changes'>> {
  const messages: HumanMessage[] = [];
  const changes: MessageChange[] = [];
  const slackChannel = platformChannel(channel).channel;
  const parsed = raw.map((message) => parseMessage(slackChannel, message, ports.self)).filter((each) => each !== null);
  const isNew = ({ ts }: ReceivedMessage): boolean => ports.mark === null || ts > ports.mark.order;
  const byTs = new Map(parsed.filter(isNew).map((message) => [message.ts, message]));
  for (const message of [...byTs.values()].sort((a, b) => (a.ts < b.ts ? -1 : 1))) {
    const location = floorLocation(ports.queries, message);
    if (location === null) continue;
    const { human } = await toHumanMessage(message, location, ports);
    const change = message.editedTs === null ? null : await toChange(message, location.channel, ports);
    if (location.channel === channel) {
      messages.push(human);
      if (change !== null) changes.push(change);
      continue;
    }
    const opens = threadAt(message, location);
    if (opens !== null) await ports.intake.thread(opens);
    await ports.intake.message(human);
    if (change !== null) await ports.intake.amend(change);
  }
  return { messages, changes };
}

/**
 * Reads the pages of a channel or thread since `oldest`. Slack begins with the newest message of a channel, and with
 * the oldest of a thread. The result can also have older messages of the channel, or the thread's root message.
 */
async function pages(ports: HistoryPorts, channel: ChannelId, oldest: string): Promise<HistoryPart> {
  const messages: unknown[] = [];
  const isChannel = platformChannel(channel).thread === null;
  let cursor: string | undefined;
  for (let number = 0; number < MOST_PAGES; number += 1) {
    try {
      const nextPage = await page(ports, channel, {
        ...(isChannel ? {} : { oldest }),
        limit: PAGE,
        ...defined({ cursor }),
      });
      messages.push(...nextPage.messages);
      cursor = nextPage.response_metadata?.next_cursor || undefined;
      if (isChannel && nextPage.messages.some((message) => (timesIn(message)?.ts ?? oldest) < oldest))
        cursor = undefined;
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault !== 'limited') throw error;
      return { messages, gap: `only ${messages.length} messages were read: Slack's rate limit was reached` };
    }
    if (cursor === undefined) return { messages, gap: null };
  }
  return { messages, gap: `only the ${isChannel ? 'newest' : 'oldest'} ${messages.length} messages were read` };
}

async function page(
  ports: HistoryPorts,
  channel: ChannelId,
  extraArgs: Readonly<Record<string, unknown>>,
): Promise<z.output<typeof pageSchema>> {
  const { channel: slackChannel, thread } = platformChannel(channel);
  const method = thread === null ? 'conversations.history' : 'conversations.replies';
  const args = { channel: slackChannel, ...(thread === null ? {} : { ts: thread }), ...extraArgs };
  const work = () => call(ports.web, { method, channel, args, answer: pageSchema });
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
