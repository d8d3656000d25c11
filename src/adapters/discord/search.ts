import { Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Calls } from './calls.ts';
import { platformChannel } from './ids.ts';

/** A message of the history, as far as Conch looks for its own ones. */
export type SeenMessage = z.infer<typeof messageSchema>;

const messageSchema = z.object({
  id: z.string(),
  content: z.string().catch(''),
  webhook_id: z.string().nullish(),
  nonce: z.union([z.string(), z.number()]).nullish(),
  author: z.object({ id: z.string(), username: z.string().catch('') }),
  components: z.array(z.unknown()).nullish(),
});
const pageSchema = z.array(z.unknown());

const PAGE = 100;
const PAGES = 5;

/** The newest messages of a channel, oldest first, back to the given one if there is one. Rejects with a `ChatError`. */
export async function newest(
  calls: Calls,
  channel: ChannelId,
  { limit, after = null }: { readonly limit: number; readonly after?: string | null },
): Promise<readonly SeenMessage[]> {
  const found: SeenMessage[] = [];
  let before: string | null = null;
  while (found.length < limit) {
    const size = Math.min(PAGE, limit - found.length);
    const query: Readonly<Record<string, string>> = before === null ? {} : { before };
    const { messages, count } = await page(calls, channel, { limit: String(size), ...query });
    found.unshift(...messages);
    before = messages[0]?.id ?? null;
    if (count < size || before === null || (after !== null && !isAfter(before, after))) return found;
  }
  return found;
}

/**
 * The oldest message after the given one that fits, read in pages; `null` when there is none. Without a message to begin
 * with only the newest ones are looked at. Rejects with a `ChatError`.
 */
export async function search(
  calls: Calls,
  where: { readonly channel: ChannelId; readonly afterId: string | null },
  fits: (message: SeenMessage) => boolean,
): Promise<SeenMessage | null> {
  const { channel } = where;
  let after = where.afterId;
  for (let read = 0; read < PAGES && after !== null; read += 1) {
    const { messages, count, last } = await page(calls, channel, { limit: String(PAGE), after });
    const found = messages.find(fits);
    if (found !== undefined) return found;
    if (count < PAGE) return null;
    after = last;
  }
  return (await newest(calls, channel, { limit: PAGE })).find(fits) ?? null;
}

/** Whether one message was sent after another. */
export function isAfter(id: string, other: string): boolean {
  return id.length === other.length ? id > other : id.length > other.length;
}

type Page = { readonly messages: readonly SeenMessage[]; readonly count: number; readonly last: string | null };

async function page(calls: Calls, channel: ChannelId, query: Readonly<Record<string, string>>): Promise<Page> {
  const route = Routes.channelMessages(platformChannel(channel));
  const listed = await calls.ask({ method: 'get', route, channel, what: 'read history', query }, pageSchema);
  const messages = listed
    .flatMap((each) => {
      const parsed = messageSchema.safeParse(each);
      return parsed.success ? [parsed.data] : [];
    })
    .toSorted((one, other) => (isAfter(one.id, other.id) ? 1 : -1));
  return { messages, count: listed.length, last: messages.at(-1)?.id ?? null };
}
