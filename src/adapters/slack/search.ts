import type { WebClient } from '@slack/web-api';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import { call } from './client.ts';
import { platformChannel } from './ids.ts';
import type { Self } from './client.ts';

/** A message of Conch's own, with what it says about itself. */
export type OwnMessage = {
  readonly ts: string;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
};

/** Which messages: those after a `ts`, or the newest so many, or both. */
export type Range = {
  readonly channel: ChannelId;
  readonly after: string | null;
  readonly newest: number | null;
};

const PAGE = 200;
const MOST_PAGES = 15;
/** Without a beginning, so many of the newest messages are read. */
const DEFAULT_NEWEST = 100;

/**
 * Conch's own messages in a stretch of the history, oldest first. Rejects with a ChatError when the stretch cannot be read,
 * or not to its end.
 */
export async function ownMessages(web: WebClient, self: Self, range: Range): Promise<readonly OwnMessage[]> {
  const { channel, thread } = platformChannel(range.channel);
  const newest = range.newest ?? (range.after === null ? DEFAULT_NEWEST : null);
  const found = new Map<string, Found>();
  const method = thread === null ? 'conversations.history' : 'conversations.replies';
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const args = {
      channel,
      ...(thread === null ? {} : { ts: thread }),
      ...(range.after === null ? {} : { oldest: range.after, inclusive: false }),
      limit: thread === null && newest !== null ? newest : PAGE,
      include_all_metadata: true,
      cursor,
    };
    const answer = await call(web, { method, channel: range.channel, args, answer: pageSchema });
    for (const message of answer.messages.flatMap((one) => messageSchema.safeParse(one).data ?? [])) {
      found.set(message.ts, message);
    }
    cursor = answer.response_metadata?.next_cursor || undefined;
    // Threads are read from their beginning, channels from their end.
    if (cursor === undefined || (thread === null && newest !== null)) return ownOf([...found.values()], self, newest);
  }
  throw new ChatError(`Too much was written since to find out by ${method}`, {
    method,
    channel: range.channel,
    fault: 'refused',
  });
}

const pageSchema = z.looseObject({
  messages: z.array(z.unknown()).default([]),
  response_metadata: z.looseObject({ next_cursor: z.string().optional() }).optional(),
});

const messageSchema = z.looseObject({
  ts: z.string(),
  user: z.string().optional(),
  bot_id: z.string().optional(),
  app_id: z.string().optional(),
  metadata: z
    .looseObject({ event_type: z.string(), event_payload: z.record(z.string(), z.unknown()).default({}) })
    .optional(),
});

type Found = z.infer<typeof messageSchema>;

function ownOf(found: readonly Found[], self: Self, newest: number | null): readonly OwnMessage[] {
  return found
    .toSorted((one, other) => (one.ts < other.ts ? -1 : 1))
    .slice(newest === null ? 0 : -newest)
    .flatMap(({ ts, metadata, ...author }) => {
      if (metadata === undefined || !isOwn(author, self)) return [];
      return [{ ts, type: metadata.event_type, payload: metadata.event_payload }];
    });
}

/** Anybody may write the same mark on a message; nobody else has these ids. */
function isOwn({ user, bot_id: bot, app_id: app }: Pick<Found, 'user' | 'bot_id' | 'app_id'>, self: Self): boolean {
  return bot === self.botId || user === self.userId || (self.appId !== null && app === self.appId);
}
