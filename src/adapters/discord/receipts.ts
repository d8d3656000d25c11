import { Routes } from 'discord.js';
import { z } from 'zod';
import { RECEIPTS } from '../../turns/floor/effect.ts';
import type { Receipt } from '../../turns/floor/effect.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Calls } from './calls.ts';
import { CODES, rejectionOf } from './errors.ts';
import { platformChannel, platformMessage } from './ids.ts';
import { timeOf } from './ids.ts';

/** Shows people what became of their messages: one reaction at a time. */
export type Receipts = {
  /** Rejects with a `ChatError`. A message that is gone, or whose author blocked the bot, needs no receipt. */
  show(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  /** A message stands in a thread that shares its channel's floor. */
  stands(message: MessageId, thread: string): void;
};

const MESSAGES_KEPT = 500;
const KINDS = Object.keys(RECEIPTS) as readonly Receipt[];
const POINTLESS: ReadonlySet<number> = new Set([CODES.unknownMessage, CODES.reactionBlocked, CODES.tooManyReactions]);

/** The receipts of one bot. Messages from before it began are looked at first, for what a former run left there. */
export function createReceipts({ calls, clock }: { readonly calls: Calls; readonly clock: Clock }): Receipts {
  const bornAt = clock.now();
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  const threads = new BoundedMap<MessageId, string>(MESSAGES_KEPT);
  return {
    stands(message, thread) {
      threads.set(message, thread);
    },
    async show(channel, message, receipt) {
      const where = threads.get(message) ?? platformChannel(channel);
      const former =
        shown.get(message) ?? (timeOf(message) < bornAt ? await left(calls, { channel, where, message }) : NONE);
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

const NONE: ReadonlySet<Receipt> = new Set();
const messageSchema = z.object({
  reactions: z.array(z.object({ me: z.boolean(), emoji: z.object({ name: z.string().nullish() }) })).nullish(),
});

type Spot = { readonly channel: ChannelId; readonly where: string; readonly message: MessageId };

/** The receipts that the bot has on a message; none when that cannot be seen. */
async function left(calls: Calls, { channel, where, message }: Spot): Promise<ReadonlySet<Receipt>> {
  const route = Routes.channelMessage(where, platformMessage(message));
  try {
    const { reactions } = await calls.ask({ method: 'get', route, channel, what: 'look at receipts' }, messageSchema);
    const own = new Set((reactions ?? []).filter(({ me }) => me).map(({ emoji }) => emoji.name));
    return new Set(KINDS.filter((kind) => own.has(RECEIPTS[kind])));
  } catch {
    return NONE;
  }
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
