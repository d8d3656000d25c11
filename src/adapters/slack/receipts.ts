import type { WebClient } from '@slack/web-api';
import { RECEIPTS } from '../../turns/core/effect.ts';
import type { Receipt } from '../../turns/core/effect.ts';
import type { ChannelId, MessageId } from '../../turns/core/settings.ts';
import { ANY_ANSWER, call } from './client.ts';
import { emojiName } from './emoji.ts';
import { slackCode } from './errors.ts';
import { platformMessage } from './ids.ts';

/** Shows one receipt under a message: a new one takes the place of those that this run has put there. */
export type Receipts = {
  /** Rejects with a ChatError; what is so already is no error. */
  show(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
};

/** How many messages are remembered; under older ones a second receipt stands beside the first. */
const MOST_MESSAGES = 2_000;

/** Slack's answers that say that it is so already, or that the message is gone. */
const DONE = new Set(['already_reacted', 'no_reaction', 'message_not_found', 'thread_not_found']);

/** Receipts as reactions of the app. */
export function createReceipts(web: WebClient): Receipts {
  const shown = new Map<MessageId, ReadonlySet<Receipt>>();
  const remember = (message: MessageId, receipts: ReadonlySet<Receipt>): void => {
    shown.delete(message);
    if (receipts.size > 0) shown.set(message, receipts);
    const [oldest] = shown.keys();
    if (shown.size > MOST_MESSAGES && oldest !== undefined) shown.delete(oldest);
  };
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
      const before = shown.get(message) ?? new Set<Receipt>();
      if (!before.has(receipt)) {
        await react('reactions.add', channel, message, receipt);
        remember(message, new Set([...before, receipt]));
      }
      for (const old of before) {
        if (old === receipt) continue;
        await react('reactions.remove', channel, message, old);
        remember(message, new Set([...(shown.get(message) ?? [])].filter((one) => one !== old)));
      }
    },
  };
}

/** Slack's name for a receipt's emoji. */
export function reactionName(receipt: Receipt): string {
  const name = emojiName(RECEIPTS[receipt]);
  if (name === null) throw new Error(`impossible: Slack has no name for the receipt ${receipt}`);
  return name;
}
