import type { WebClient } from '@slack/web-api';
import { z } from 'zod';
import { RECEIPTS } from '../../turns/floor/effect.ts';
import type { Receipt } from '../../turns/floor/effect.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { ANY_ANSWER, call } from './client.ts';
import { emojiName } from './emoji.ts';
import { slackCode } from './errors.ts';
import { platformMessage } from './ids.ts';
import { sentAt } from './incoming.ts';
import type { Self } from './client.ts';

/** Shows one receipt under a message: a new one takes the place of those before it. */
export type Receipts = {
  /** Rejects with a ChatError; what is so already is no error. */
  show(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
};

/** How many messages are remembered; under older ones a second receipt stands beside the first. */
const MOST_MESSAGES = 2_000;

/** Slack's answers that say that it is so already, or that the message is gone. */
const DONE = new Set(['already_reacted', 'no_reaction', 'message_not_found', 'thread_not_found']);

/** What receipts need of the adapter. */
export type ReceiptsPorts = { readonly web: WebClient; readonly self: () => Self; readonly clock: Clock };

/** Receipts as reactions of the app. Messages from before it began are looked at first, for what a former run left there. */
export function createReceipts({ web, self, clock }: ReceiptsPorts): Receipts {
  const bornAt = clock.now();
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MOST_MESSAGES);
  const react = async (method: string, channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void> => {
    const { channel: own, ts } = platformMessage(message);
    try {
      const args = { channel: own, timestamp: ts, name: reactionName(receipt) };
      await call(web, { method, channel, args, answer: ANY_ANSWER });
    } catch (error) {
      if (!DONE.has(slackCode(error) ?? '')) throw error;
    }
  };
  return {
    async show(channel, message, receipt) {
      const isOlder = sentAt(platformMessage(message).ts) < bornAt;
      const before = shown.get(message) ?? (isOlder ? await left(web, self(), { channel, message }) : NONE);
      if (!before.has(receipt)) {
        await react('reactions.add', channel, message, receipt);
        shown.set(message, new Set([...before, receipt]));
      }
      for (const old of before) {
        if (old === receipt) continue;
        await react('reactions.remove', channel, message, old);
        shown.set(message, new Set([...(shown.get(message) ?? [])].filter((one) => one !== old)));
      }
    },
  };
}

const NONE: ReadonlySet<Receipt> = new Set();
const KINDS = Object.keys(RECEIPTS) as readonly Receipt[];
const reactedSchema = z.looseObject({
  message: z.looseObject({
    reactions: z.array(z.looseObject({ name: z.string(), users: z.array(z.string()).default([]) })).default([]),
  }),
});

/** The receipts that the app has on a message; none when that cannot be seen. */
async function left(
  web: WebClient,
  { userId }: Self,
  { channel, message }: { readonly channel: ChannelId; readonly message: MessageId },
): Promise<ReadonlySet<Receipt>> {
  const { channel: own, ts } = platformMessage(message);
  const args = { channel: own, timestamp: ts, full: true };
  try {
    const found = await call(web, { method: 'reactions.get', channel, args, answer: reactedSchema });
    const mine = found.message.reactions.filter(({ users }) => users.includes(userId));
    const names = new Set(mine.map(({ name }) => name));
    return new Set(KINDS.filter((kind) => names.has(reactionName(kind))));
  } catch {
    return NONE;
  }
}

/** Slack's name for a receipt's emoji. */
export function reactionName(receipt: Receipt): string {
  const name = emojiName(RECEIPTS[receipt]);
  if (name === null) throw new Error(`impossible: Slack has no name for the receipt ${receipt}`);
  return name;
}
