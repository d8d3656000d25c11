import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Clock } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { MessageId } from '../../turns/floor/settings.ts';
import type { MessageClient, MessageRef } from './message-client.ts';

/** Shows one receipt under a message: a new one takes the place of those before it. Rejects with a `ChatError`. */
export type ShowReceipt = (message: MessageRef, receipt: Receipt) => Promise<void>;

const MESSAGES_KEPT = 2_000;

/** The receipts of one adapter. Messages from before it began are looked at first, for what a former run left there. */
export function createReceipts({
  client,
  clock,
}: {
  readonly client: MessageClient;
  readonly clock: Clock;
}): ShowReceipt {
  const bornAt = clock.now();
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  return async (message, receipt) => {
    const isOlder = client.sentAt(message.id) < bornAt;
    const left = new Set(shown.get(message.id) ?? (isOlder ? await seen(client, message) : []));
    if (!left.has(receipt)) await client.react(message, receipt, true);
    shown.set(message.id, left.add(receipt));
    for (const old of [...left].filter((one) => one !== receipt)) {
      await client.react(message, old, false);
      left.delete(old);
    }
  };
}

/** None when that cannot be seen. */
async function seen(client: MessageClient, message: MessageRef): Promise<readonly Receipt[]> {
  try {
    return await client.receipts(message);
  } catch {
    return [];
  }
}
