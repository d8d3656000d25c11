import { Routes } from 'discord.js';
import { RECEIPTS } from '../../turns/core/effect.ts';
import type { Receipt } from '../../turns/core/effect.ts';
import type { ChannelId, MessageId } from '../../turns/core/settings.ts';
import { BoundedMap } from './bounded.ts';
import type { Calls } from './calls.ts';
import { CODES, rejectionOf } from './errors.ts';
import { platformChannel, platformMessage } from './ids.ts';

/** Shows people what became of their messages: one reaction at a time. */
export type Receipts = {
  /** Rejects with a `ChatError`. A message that is gone, or whose author blocked the bot, needs no receipt. */
  show(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  /** A message stands in a thread that shares its channel's floor. */
  stands(message: MessageId, thread: string): void;
};

const MESSAGES_KEPT = 500;
const POINTLESS: ReadonlySet<number> = new Set([CODES.unknownMessage, CODES.reactionBlocked, CODES.tooManyReactions]);

/** The receipts of one bot. Reactions that a former run left stay beside the new one. */
export function createReceipts(calls: Calls): Receipts {
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  const threads = new BoundedMap<MessageId, string>(MESSAGES_KEPT);
  return {
    stands(message, thread) {
      threads.set(message, thread);
    },
    async show(channel, message, receipt) {
      const former = shown.get(message) ?? new Set();
      const where = threads.get(message) ?? platformChannel(channel);
      const call = (each: Receipt) => ({ route: routeOf(where, message, each), channel, what: 'receipt' });
      if (!(await isDone(calls.tell({ ...call(receipt), method: 'put' })))) return shown.delete(message);
      shown.set(message, new Set([...former, receipt]));
      for (const old of former) {
        if (old !== receipt) await isDone(calls.tell({ ...call(old), method: 'delete' }));
      }
      shown.set(message, new Set([receipt]));
    },
  };
}

/** Whether it was done; `false` when there is nothing to do any more. */
async function isDone(call: Promise<void>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    if (POINTLESS.has(rejectionOf(error)?.code ?? 0)) return false;
    throw error;
  }
}

function routeOf(channel: string, message: MessageId, receipt: Receipt): `/${string}` {
  const emoji = encodeURIComponent(RECEIPTS[receipt]);
  return Routes.channelMessageOwnReaction(channel, platformMessage(message), emoji);
}
